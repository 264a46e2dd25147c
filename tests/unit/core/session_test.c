/* The session table: every state meets every event; then the stories of spec section 8, one by one.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/session.h"

#define TTL_MS 9000
#define WAIT_MS 1000
#define KEY SPAN_LIT("chat.s")

static struct sessions *table;
static struct session_rules *rules;
static mono now;
static uint64_t revision;
static struct session_ticket first, second, third;

static void setup_with(uint32_t max, bool shared)
{
    struct sessions_options options = {.max = max, .router = SPAN_LIT("me"), .shared = shared};

    now = (mono){1000000000};
    revision = 100;
    first = second = third = (struct session_ticket){0};
    table = sessions_create(&options);
    ck_assert_ptr_nonnull(table);
    rules = sessions_add_service(table, SPAN_LIT("chat"), TTL_MS, WAIT_MS);
    ck_assert_int_eq(session_wait_ms(rules), WAIT_MS);
}

static void bucket_is_there(void)
{
    sessions_link(table, true, now);
    sessions_reading(table, false, now);
    sessions_current(table, now);
}

static void setup(void)
{
    setup_with(0, true);
    bucket_is_there();
}

static void teardown(void)
{
    session_leave(&first, now);
    session_leave(&second, now);
    session_leave(&third, now);
    ck_assert_ptr_null(sessions_ready(table));
    sessions_destroy(table);
}

static enum session_verdict enter(struct session_ticket *t)
{
    return session_enter(table, t, rules, KEY, now);
}

static void pass(int64_t ms)
{
    now = mono_add_ms(now, ms);
    if (!mono_before(now, sessions_next(table)))
        sessions_run(table, now);
}

static enum session_state state(void)
{
    struct session_view v;

    return sessions_find(table, KEY, &v, now) ? v.state : SESSION_ABSENT;
}

static struct session_fact fact(enum session_hold hold, const char *router, const char *worker)
{
    return (struct session_fact){.hold = hold,
                                 .router = span_str(router),
                                 .worker = span_str(worker),
                                 .rank = -1,
                                 .epoch = 1,
                                 .revision = ++revision,
                                 .written = now};
}

static void seen(enum session_hold hold, const char *router, const char *worker)
{
    struct session_fact f = fact(hold, router, worker);

    sessions_seen(table, KEY, &f, now);
}

/* The next effect must be of this kind, or there must be none (-1). */
static struct session_effect expect_effect(int kind)
{
    struct session_effect e = {0};
    bool any = sessions_effect(table, &e);

    ck_assert_int_eq(any ? (int)e.kind : -1, kind);
    return e;
}

static void done(const struct session_effect *e, enum session_result result)
{
    struct session_fact f = e->put;

    f.revision = ++revision;
    sessions_done(table, e->token, result, &f, now);
}

static void read_gives(enum session_hold hold, const char *router, const char *worker)
{
    struct session_effect e = expect_effect(SESSION_READ);
    struct session_fact f = fact(hold, router, worker);

    if (hold == SESSION_HOLDS_NOTHING)
        f.revision = 0;
    sessions_done(table, e.token, SESSION_DONE, &f, now);
}

static void effect_succeeds(int kind)
{
    struct session_effect e = expect_effect(kind);

    done(&e, SESSION_DONE);
}

static void answered(struct session_ticket *t, const char *worker)
{
    session_answered(t, span_str(worker), -1, 1, false, now);
}

/* ---- every state meets every event ---- */

/* `first` owns or uses, `second` waits where that can be. */
static void reach(enum session_state wanted)
{
    switch (wanted) {
    case SESSION_ABSENT:
        break;
    case SESSION_CLAIMING:
        ck_assert_int_eq(enter(&first), SESSION_WAIT);
        ck_assert_int_eq(enter(&second), SESSION_WAIT);
        break;
    case SESSION_OWNED:
        reach(SESSION_CLAIMING);
        effect_succeeds(SESSION_WRITE);
        ck_assert_ptr_eq(sessions_ready(table), &first);
        break;
    case SESSION_FOREIGN:
        ck_assert_int_eq(enter(&second), SESSION_WAIT);
        done(&(struct session_effect){.token = expect_effect(SESSION_WRITE).token}, SESSION_OTHER);
        read_gives(SESSION_HOLDS_INIT, "other", NULL);
        break;
    case SESSION_BOUND:
        ck_assert_int_eq(enter(&first), SESSION_WAIT);
        effect_succeeds(SESSION_WRITE);
        ck_assert_ptr_eq(sessions_ready(table), &first);
        answered(&first, "w1");
        effect_succeeds(SESSION_WRITE);
        break;
    case SESSION_STATES:
        break;
    }
    ck_assert_int_eq(state(), wanted);
}

enum event {
    EVENT_ENTER,
    EVENT_OWNER_LEAVES,
    EVENT_ALL_LEAVE,
    EVENT_ANSWERED,
    EVENT_BROKEN,
    EVENT_WAIT_OVER,
    EVENT_SEEN_BOUND,
    EVENT_SEEN_CLAIM,
    EVENT_SEEN_GONE,
    EVENT_LINK_DOWN,
    EVENT_UNBIND,
    EVENT_LONG_AFTER,
    EVENTS
};

static void happen(enum event event)
{
    struct session_ticket *owner;

    switch (event) {
    case EVENT_ENTER:
        (void)enter(&third);
        break;
    case EVENT_OWNER_LEAVES:
        session_leave(&first, now);
        break;
    case EVENT_ALL_LEAVE:
        session_leave(&second, now);
        session_leave(&first, now);
        break;
    case EVENT_ANSWERED:
        answered(&first, "w7");
        break;
    case EVENT_BROKEN:
        if (first.role == SESSION_USER)
            (void)session_broken(&first, now);
        break;
    case EVENT_WAIT_OVER:
        (void)session_wait_over(&second, &owner, now);
        break;
    case EVENT_SEEN_BOUND:
        seen(SESSION_HOLDS_BOUND, "other", "w2");
        break;
    case EVENT_SEEN_CLAIM:
        seen(SESSION_HOLDS_INIT, "other", NULL);
        break;
    case EVENT_SEEN_GONE:
        seen(SESSION_HOLDS_NOTHING, NULL, NULL);
        break;
    case EVENT_LINK_DOWN:
        sessions_link(table, false, now);
        break;
    case EVENT_UNBIND:
        (void)session_unbind(table, KEY, now);
        break;
    case EVENT_LONG_AFTER:
        session_leave(&first, now);
        session_leave(&second, now);
        pass(2 * TTL_MS);
        break;
    case EVENTS:
        break;
    }
}

static const enum session_state table_of_moves[SESSION_STATES][EVENTS] = {
    [SESSION_ABSENT] =
        {[EVENT_ENTER] = SESSION_CLAIMING, [EVENT_SEEN_BOUND] = SESSION_BOUND}, /* the rest: absent
                                                                                 */
    [SESSION_CLAIMING] = {SESSION_CLAIMING,                                     /* enter: waits */
                          SESSION_CLAIMING, /* the waiter owns */
                          SESSION_ABSENT, SESSION_CLAIMING, SESSION_CLAIMING, SESSION_CLAIMING,
                          SESSION_BOUND, SESSION_FOREIGN, SESSION_CLAIMING, SESSION_OWNED,
                          SESSION_CLAIMING, SESSION_ABSENT},
    [SESSION_OWNED] = {SESSION_OWNED, SESSION_OWNED, SESSION_ABSENT, SESSION_BOUND, SESSION_OWNED,
                       SESSION_OWNED, SESSION_BOUND, SESSION_FOREIGN, SESSION_OWNED, SESSION_OWNED,
                       SESSION_OWNED, SESSION_ABSENT},
    [SESSION_FOREIGN] = {SESSION_FOREIGN, SESSION_FOREIGN, SESSION_ABSENT, SESSION_FOREIGN,
                         SESSION_FOREIGN, SESSION_ABSENT, SESSION_BOUND, SESSION_FOREIGN,
                         SESSION_CLAIMING, SESSION_FOREIGN, SESSION_FOREIGN, SESSION_ABSENT},
    [SESSION_BOUND] = {SESSION_BOUND, SESSION_BOUND, SESSION_BOUND, SESSION_BOUND, SESSION_CLAIMING,
                       SESSION_BOUND, SESSION_BOUND, SESSION_FOREIGN, SESSION_ABSENT, SESSION_BOUND,
                       SESSION_ABSENT, SESSION_ABSENT},
};

START_TEST(every_state_meets_every_event)
{
    enum session_state from = (enum session_state)(_i / EVENTS);
    enum event event = (enum event)(_i % EVENTS);

    reach(from);
    happen(event);
    ck_assert_msg(state() == table_of_moves[from][event], "%s, event %d: %s, not %s",
                  session_state_name(from), event, session_state_name(state()),
                  session_state_name(table_of_moves[from][event]));
    while (sessions_ready(table))
        continue;
}
END_TEST

/* ---- one owner, many waiters ---- */

START_TEST(the_claim_is_written_before_the_choice_and_the_binding_after_the_answer)
{
    struct session_effect e;

    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    ck_assert_int_eq(e.put.hold, SESSION_HOLDS_INIT);
    ck_assert(span_eq_str(e.put.router, "me"));
    ck_assert_uint_eq(e.put.worker.len, 0);
    ck_assert_uint_eq(e.expect, 0);
    ck_assert_int_eq(e.timeout_ms, WAIT_MS);
    ck_assert_ptr_null(sessions_ready(table));
    done(&e, SESSION_DONE);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_OWNER);
    expect_effect(-1); /* nothing is said of a worker that has not answered */
    session_answered(&first, SPAN_LIT("w1"), 3, 77, false, now);
    e = expect_effect(SESSION_WRITE);
    ck_assert_int_eq(e.put.hold, SESSION_HOLDS_BOUND);
    ck_assert(span_eq_str(e.put.worker, "w1"));
    ck_assert_int_eq(e.put.rank, 3);
    ck_assert_int_eq(e.put.epoch, 77);
    ck_assert_uint_eq(e.expect, revision);
    done(&e, SESSION_DONE);
    expect_effect(-1);
}
END_TEST

START_TEST(waiters_use_what_the_owner_bound)
{
    reach(SESSION_OWNED);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    answered(&first, "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert_ptr_eq(sessions_ready(table), &third);
    ck_assert_int_eq(session_verdict(&third), SESSION_GO_BOUND);
    ck_assert(span_eq_str(session_bound(&third).worker, "w1"));
    ck_assert_int_eq(session_bound(&third).rank, -1);
}
END_TEST

START_TEST(a_failed_owner_hands_over_to_one_waiter)
{
    reach(SESSION_OWNED);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    session_leave(&first, now);
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert_int_eq(session_verdict(&second), SESSION_GO_OWNER);
    ck_assert_int_eq(session_verdict(&third), SESSION_WAIT);
    ck_assert_ptr_null(sessions_ready(table));
    expect_effect(-1); /* the claim is still ours */
    session_leave(&second, now);
    session_leave(&third, now);
    ck_assert_uint_eq(expect_effect(SESSION_DELETE).expect, revision);
}
END_TEST

START_TEST(a_waiter_whose_time_is_over_follows_and_does_not_bind)
{
    struct session_ticket *owner;

    reach(SESSION_OWNED);
    pass(WAIT_MS);
    ck_assert_int_eq(session_wait_over(&second, &owner, now), SESSION_GO_UNBOUND);
    ck_assert_ptr_eq(owner, &first);
    answered(&second, "w9");
    ck_assert_int_eq(state(), SESSION_OWNED);
    answered(&first, "w1");
    ck_assert_int_eq(enter(&third), SESSION_GO_BOUND);
    ck_assert(span_eq_str(session_bound(&third).worker, "w1"));
}
END_TEST

START_TEST(an_end_that_comes_twice_or_late_changes_nothing)
{
    reach(SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    session_leave(&first, now);
    session_leave(&first, now);
    answered(&first, "w5");
    ck_assert_int_eq(state(), SESSION_BOUND);
    ck_assert(span_eq_str(session_bound(&second).worker, "w1"));
    session_answered(&second, SPAN_LIT("w1"), -1, 1, true, now);
    expect_effect(-1);
}
END_TEST

/* ---- rebinding ---- */

START_TEST(a_broken_binding_is_claimed_by_one_and_awaited_by_others)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    ck_assert_int_eq(session_broken(&first, now), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    ck_assert_int_eq(e.put.hold, SESSION_HOLDS_INIT);
    ck_assert_uint_eq(e.expect, revision);
    done(&e, SESSION_DONE);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_broken(&second, now), SESSION_WAIT);
    answered(&first, "w2");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w2"));
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_REBOUND), 1);
}
END_TEST

START_TEST(who_finds_it_broken_late_uses_what_was_bound_since)
{
    reach(SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    (void)session_broken(&first, now);
    effect_succeeds(SESSION_WRITE);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    answered(&first, "w2");
    ck_assert_int_eq(session_broken(&second, now), SESSION_GO_BOUND);
    ck_assert(span_eq_str(session_bound(&second).worker, "w2"));
}
END_TEST

START_TEST(soft_rebinds_to_who_answered_unless_it_was_bound_anew_meanwhile)
{
    reach(SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    session_answered(&first, SPAN_LIT("w2"), -1, 1, true, now);
    ck_assert(span_eq_str(expect_effect(SESSION_WRITE).put.worker, "w2"));
    session_answered(&second, SPAN_LIT("w3"), -1, 1, true, now); /* used the older one */
    ck_assert(span_eq_str(session_bound(&first).worker, "w2"));
}
END_TEST

START_TEST(hard_does_not_rebind_to_who_answered)
{
    reach(SESSION_BOUND);
    answered(&first, "w2");
    ck_assert(span_eq_str(session_bound(&first).worker, "w1"));
    expect_effect(-1);
}
END_TEST

/* ---- several routers ---- */

START_TEST(the_loser_of_a_claim_adopts_the_winners_binding)
{
    struct session_effect e;

    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_OTHER);
    read_gives(SESSION_HOLDS_BOUND, "other", "w4");
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_BOUND);
    ck_assert(span_eq_str(session_bound(&first).worker, "w4"));
    expect_effect(-1);
}
END_TEST

START_TEST(another_routers_claim_is_awaited_and_its_binding_used)
{
    reach(SESSION_FOREIGN);
    pass(WAIT_MS / 2);
    ck_assert_ptr_null(sessions_ready(table));
    seen(SESSION_HOLDS_BOUND, "other", "w3");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w3"));
}
END_TEST

START_TEST(an_overdue_claim_is_taken_over_on_its_revision)
{
    struct session_effect e;
    uint64_t claimed;

    reach(SESSION_FOREIGN);
    claimed = revision;
    pass(WAIT_MS - 1);
    expect_effect(-1);
    pass(1);
    e = expect_effect(SESSION_WRITE);
    ck_assert_int_eq(e.put.hold, SESSION_HOLDS_INIT);
    ck_assert_uint_eq(e.expect, claimed);
    done(&e, SESSION_DONE);
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert_int_eq(session_verdict(&second), SESSION_GO_OWNER);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_TAKEN_OVER), 1);
}
END_TEST

START_TEST(an_owner_that_was_taken_over_does_not_bind)
{
    reach(SESSION_OWNED);
    seen(SESSION_HOLDS_INIT, "other", NULL);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_UNBOUND);
    answered(&first, "w1");
    ck_assert_int_eq(state(), SESSION_FOREIGN);
    seen(SESSION_HOLDS_BOUND, "other", "w2");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w2"));
}
END_TEST

START_TEST(a_binding_that_came_too_late_gives_way_to_the_winners)
{
    struct session_effect e;

    reach(SESSION_OWNED);
    answered(&first, "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_OTHER);
    read_gives(SESSION_HOLDS_BOUND, "other", "w2");
    ck_assert_int_eq(enter(&third), SESSION_GO_BOUND);
    ck_assert(span_eq_str(session_bound(&third).worker, "w2"));
}
END_TEST

START_TEST(a_lost_acknowledgement_is_cleared_up_by_reading)
{
    struct session_effect e;

    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_OTHER); /* our own write, repeated by the link */
    read_gives(SESSION_HOLDS_INIT, "me", NULL);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_OWNER);
    answered(&first, "w1");
    ck_assert_uint_eq(expect_effect(SESSION_WRITE).expect, revision);
}
END_TEST

START_TEST(an_older_word_of_the_watch_changes_nothing)
{
    struct session_fact old;

    reach(SESSION_BOUND);
    old = fact(SESSION_HOLDS_INIT, "other", NULL);
    old.revision = 101;
    sessions_seen(table, KEY, &old, now);
    ck_assert_int_eq(state(), SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
}
END_TEST

/* ---- time ---- */

START_TEST(idle_time_counts_from_the_end_of_the_last_request)
{
    reach(SESSION_BOUND);
    for (int i = 0; i < 9; i++) { /* in use far past its time, and written anew */
        pass(TTL_MS / 3);
        effect_succeeds(SESSION_WRITE);
        ck_assert_int_eq(state(), SESSION_BOUND);
    }
    pass(1000);
    session_leave(&first, now);
    pass(TTL_MS / 3 - 1000);
    effect_succeeds(SESSION_WRITE); /* used since it was written */
    pass(TTL_MS - 1);
    expect_effect(-1);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    session_leave(&second, now);
    pass(1); /* its renewal is due: it was used */
    effect_succeeds(SESSION_WRITE);
    pass(TTL_MS);
    ck_assert_int_eq(state(), SESSION_ABSENT);
    ck_assert_uint_eq(expect_effect(SESSION_DELETE).expect, revision);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_EXPIRED), 1);
}
END_TEST

START_TEST(another_routers_renewal_keeps_a_binding_here)
{
    reach(SESSION_BOUND);
    session_leave(&first, now);
    for (int i = 0; i < 6; i++) {
        pass(TTL_MS / 2);
        seen(SESSION_HOLDS_BOUND, "other", "w1");
    }
    expect_effect(-1);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
}
END_TEST

/* ---- the table ---- */

START_TEST(a_full_table_forgets_the_oldest_idle_one_and_does_not_unbind_it)
{
    static const char *const keys[] = {"chat.a", "chat.b", "chat.c"};
    struct session_ticket *tickets[] = {&first, &second, &third};
    struct session_view v;

    teardown();
    setup_with(2, false);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(session_enter(table, tickets[i], rules, span_str(keys[i]), now),
                         SESSION_GO_OWNER);
        answered(tickets[i], "w1");
    }
    ck_assert_int_eq(session_enter(table, &third, rules, span_str(keys[2]), now),
                     SESSION_GO_UNBOUND);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_FULL), 1);
    session_leave(&second, now);
    session_leave(&first, now);
    ck_assert_int_eq(session_enter(table, &third, rules, span_str(keys[2]), now), SESSION_GO_OWNER);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_FORGOTTEN), 1);
    ck_assert(!sessions_find(table, span_str(keys[1]), &v, now)); /* idle for longer */
    ck_assert(sessions_find(table, span_str(keys[0]), &v, now));
    ck_assert_uint_eq(sessions_held(table), 2);
}
END_TEST

START_TEST(without_a_bucket_sessions_are_bound_here)
{
    teardown();
    setup_with(0, false);
    sessions_link(table, true, now); /* not for such a table */
    ck_assert(!sessions_shared(table));
    ck_assert_int_eq(enter(&first), SESSION_GO_OWNER);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    answered(&first, "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    expect_effect(-1);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_LOCAL), 0);
}
END_TEST

/* ---- the bucket away, and back ---- */

START_TEST(a_lost_bucket_leaves_affinity_here_and_hears_of_it_when_it_is_back)
{
    struct session_effect e;

    reach(SESSION_CLAIMING);
    sessions_link(table, false, now);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_OWNER);
    answered(&first, "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    expect_effect(-1);
    ck_assert(!sessions_shared(table));
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_LOCAL), 1);
    bucket_is_there();
    e = expect_effect(SESSION_WRITE);
    ck_assert_int_eq(e.put.hold, SESSION_HOLDS_BOUND);
    ck_assert_uint_eq(e.expect, 0);
}
END_TEST

START_TEST(at_the_start_a_claim_waits_for_the_first_word_of_the_bucket)
{
    teardown();
    setup_with(0, true);
    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    expect_effect(-1);
    bucket_is_there();
    ck_assert_int_eq(expect_effect(SESSION_WRITE).put.hold, SESSION_HOLDS_INIT);
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_LOCAL), 0);
}
END_TEST

START_TEST(at_the_start_the_word_may_be_that_there_is_no_bucket)
{
    teardown();
    setup_with(0, true);
    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    sessions_link(table, false, now);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_OWNER);
}
END_TEST

START_TEST(a_failed_operation_does_not_hold_the_owner_and_is_repeated_after_a_look)
{
    struct session_effect e;

    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_FAILED);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    answered(&first, "w1");
    expect_effect(-1);
    pass(1000);
    read_gives(SESSION_HOLDS_NOTHING, NULL, NULL);
    ck_assert_int_eq(expect_effect(SESSION_WRITE).put.hold, SESSION_HOLDS_BOUND);
}
END_TEST

/* A full bucket refused each of ten thousand bindings again every second: routers and server had
 * nothing else to do. */
START_TEST(a_bucket_that_refuses_everything_is_asked_once_a_second_for_all)
{
    enum { SESSIONS = 500 };
    struct session_ticket tickets[SESSIONS] = {0};
    unsigned asked = 0, turns = 0;
    struct session_effect e;

    for (int i = 0; i < SESSIONS; i++) {
        char key[24];

        snprintf(key, sizeof key, "chat.s%d", i);
        (void)session_enter(table, &tickets[i], rules, span_str(key), now);
        e = expect_effect(SESSION_WRITE);
        done(&e, SESSION_FAILED);
        ck_assert_ptr_eq(sessions_ready(table), &tickets[i]);
        answered(&tickets[i], "w1");
        expect_effect(-1);
    }
    for (int s = 0; s < 5; s++) {
        pass(1000);
        while (sessions_effect(table, &e)) {
            const struct session_fact nothing = {.hold = SESSION_HOLDS_NOTHING};

            asked += e.kind == SESSION_WRITE;
            sessions_done(table, e.token, e.kind == SESSION_READ ? SESSION_DONE : SESSION_FAILED,
                          &nothing, now);
        }
    }
    ck_assert_uint_eq(asked, 5);
    for (asked = 0; asked < SESSIONS; turns++) {
        ck_assert_uint_lt(turns, 100);
        pass(mono_diff_us(sessions_next(table), now) / 1000 + 1);
        while (sessions_effect(table, &e)) {
            struct session_fact f = e.put;

            f.revision = e.kind == SESSION_WRITE ? ++revision : 0;
            asked += e.kind == SESSION_WRITE;
            sessions_done(table, e.token, SESSION_DONE, &f, now);
        }
    }
    for (int i = 0; i < SESSIONS; i++)
        session_leave(&tickets[i], now);
}
END_TEST

START_TEST(a_request_that_claims_does_not_wait_for_the_turn_of_its_troubled_session)
{
    struct session_effect e;

    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_FAILED);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    answered(&first, "w1");
    ck_assert_int_eq(session_broken(&first, now), SESSION_WAIT);
    read_gives(SESSION_HOLDS_NOTHING, NULL, NULL);
    effect_succeeds(SESSION_WRITE);
    ck_assert_ptr_eq(sessions_ready(table), &first);
}
END_TEST

/* It filled the table with what nobody uses. */
START_TEST(an_expired_binding_that_a_full_bucket_keeps_is_forgotten_here)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    session_leave(&first, now);
    pass(TTL_MS);
    e = expect_effect(SESSION_DELETE);
    done(&e, SESSION_FAILED);
    ck_assert_uint_eq(sessions_held(table), 0);
    pass(1000);
    expect_effect(-1);
}
END_TEST

START_TEST(a_claim_without_a_word_of_the_bucket_waits_no_longer_than_the_rules_say)
{
    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    (void)expect_effect(SESSION_WRITE);
    pass(WAIT_MS);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    ck_assert_int_eq(session_verdict(&first), SESSION_GO_OWNER);
}
END_TEST

START_TEST(after_a_gap_a_binding_is_read_before_it_is_used)
{
    reach(SESSION_BOUND);
    sessions_gap(table);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    read_gives(SESSION_HOLDS_BOUND, "other", "w2");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w2"));
}
END_TEST

/* A router that could not watch the bucket went by what it had read once, for ever. */
START_TEST(while_nothing_is_watched_a_binding_is_read_again)
{
    reach(SESSION_BOUND);
    sessions_gap(table);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    read_gives(SESSION_HOLDS_BOUND, "other", "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert_int_eq(enter(&third), SESSION_GO_BOUND);
    session_leave(&third, now);
    pass(1000);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    read_gives(SESSION_HOLDS_BOUND, "other", "w2");
    ck_assert_ptr_eq(sessions_ready(table), &third);
    ck_assert(span_eq_str(session_bound(&third).worker, "w2"));
}
END_TEST

START_TEST(who_waits_for_the_word_on_a_binding_not_yet_written_goes_when_it_is)
{
    struct session_effect e;

    reach(SESSION_OWNED);
    answered(&first, "w1");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    e = expect_effect(SESSION_WRITE);
    sessions_gap(table);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    done(&e, SESSION_DONE);
    ck_assert_ptr_eq(sessions_ready(table), &third);
    ck_assert_int_eq(session_verdict(&third), SESSION_GO_BOUND);
}
END_TEST

/* A read that came before the watch had seen that the bucket is a new one unbound the session. */
START_TEST(a_binding_of_which_the_bucket_has_no_trace_is_told_it_and_one_removed_is_gone)
{
    reach(SESSION_BOUND);
    sessions_gap(table);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    read_gives(SESSION_HOLDS_NOTHING, NULL, NULL);
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w1"));
    ck_assert_uint_eq(sessions_count(table, SESSION_COUNT_BOUND), 1);
    effect_succeeds(SESSION_WRITE);
    pass(1000);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    {
        struct session_effect e = expect_effect(SESSION_READ);
        struct session_fact marker = fact(SESSION_HOLDS_NOTHING, NULL, NULL);

        sessions_done(table, e.token, SESSION_DONE, &marker, now);
    }
    ck_assert_int_eq(state(), SESSION_CLAIMING);
    effect_succeeds(SESSION_WRITE);
    ck_assert_ptr_eq(sessions_ready(table), &third);
    ck_assert_int_eq(session_verdict(&third), SESSION_GO_OWNER);
}
END_TEST

START_TEST(what_a_reading_does_not_find_is_gone)
{
    reach(SESSION_BOUND);
    sessions_gap(table);
    bucket_is_there();
    ck_assert_int_eq(state(), SESSION_ABSENT);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    ck_assert_uint_eq(expect_effect(SESSION_WRITE).expect, 0);
}
END_TEST

START_TEST(another_bucket_is_told_what_is_bound_here)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    sessions_gap(table);
    sessions_reading(table, true, now);
    sessions_current(table, now);
    ck_assert_int_eq(state(), SESSION_BOUND);
    e = expect_effect(SESSION_WRITE);
    ck_assert(span_eq_str(e.put.worker, "w1"));
    ck_assert_uint_eq(e.expect, 0);
}
END_TEST

START_TEST(unbinding_removes_the_key_and_leaves_requests_alone)
{
    reach(SESSION_BOUND);
    ck_assert(session_unbind(table, KEY, now));
    ck_assert(!session_unbind(table, KEY, now));
    ck_assert_uint_eq(expect_effect(SESSION_DELETE).expect, revision);
    ck_assert_int_eq(first.role, SESSION_USER);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    session_leave(&first, now);
    ck_assert_int_eq(state(), SESSION_CLAIMING);
}
END_TEST

/* What was due and could not be done armed a clock in the past: the loop never slept. */
START_TEST(a_renewal_that_is_due_does_not_keep_the_loop_awake)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    pass(TTL_MS / 3);
    ck_assert(mono_before(now, sessions_next(table)));
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_FAILED);
    ck_assert(mono_before(now, sessions_next(table)));
    pass(1000);
    read_gives(SESSION_HOLDS_BOUND, "me", "w1");
}
END_TEST

START_TEST(what_another_router_claims_after_an_unbinding_is_its_own)
{
    reach(SESSION_BOUND);
    ck_assert(session_unbind(table, KEY, now));
    effect_succeeds(SESSION_DELETE);
    seen(SESSION_HOLDS_INIT, "other", NULL);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    expect_effect(-1);
    seen(SESSION_HOLDS_BOUND, "other", "w2");
    ck_assert_ptr_eq(sessions_ready(table), &second);
    ck_assert(span_eq_str(session_bound(&second).worker, "w2"));
}
END_TEST

START_TEST(who_waits_for_the_word_on_a_binding_that_is_unbound_begins_anew)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    session_leave(&first, now);
    sessions_gap(table);
    ck_assert_int_eq(enter(&second), SESSION_WAIT);
    e = expect_effect(SESSION_READ);
    ck_assert(session_unbind(table, KEY, now));
    e.put = (struct session_fact){.hold = SESSION_HOLDS_BOUND,
                                  .router = SPAN_LIT("me"),
                                  .worker = SPAN_LIT("w1"),
                                  .rank = -1,
                                  .written = now};
    done(&e, SESSION_DONE);
    effect_succeeds(SESSION_DELETE);
    ck_assert_int_eq(expect_effect(SESSION_WRITE).put.hold, SESSION_HOLDS_INIT);
    ck_assert_int_eq(second.role, SESSION_OWNER);
}
END_TEST

START_TEST(an_owner_that_left_takes_its_claim_away_and_nothing_else)
{
    struct session_effect e;

    reach(SESSION_OWNED);
    session_leave(&second, now);
    session_leave(&first, now);
    e = expect_effect(SESSION_DELETE);
    done(&e, SESSION_OTHER);
    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    session_leave(&first, now);
    read_gives(SESSION_HOLDS_BOUND, "other", "w2");
    expect_effect(-1);
}
END_TEST

/* Once the request that found a binding broken has left without another, the next one may be that
 * worker's again. */
START_TEST(a_binding_is_broken_for_the_rebinding_that_found_it_so)
{
    struct session_effect e;

    reach(SESSION_BOUND);
    ck_assert_int_eq(enter(&second), SESSION_GO_BOUND);
    ck_assert_int_eq(session_broken(&second, now), SESSION_WAIT);
    effect_succeeds(SESSION_WRITE);
    session_leave(&second, now);
    effect_succeeds(SESSION_DELETE);
    ck_assert_int_eq(enter(&third), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_OTHER);
    read_gives(SESSION_HOLDS_BOUND, "other", "w1");
    ck_assert_ptr_eq(sessions_ready(table), &third);
    ck_assert_int_eq(session_verdict(&third), SESSION_GO_BOUND);
}
END_TEST

START_TEST(a_full_table_rather_forgets_what_the_bucket_holds)
{
    static const char *const keys[] = {"chat.a", "chat.b", "chat.c"};
    struct session_effect e;
    struct session_view v;

    teardown();
    setup_with(2, true);
    bucket_is_there();
    ck_assert_int_eq(session_enter(table, &first, rules, span_str(keys[0]), now), SESSION_WAIT);
    e = expect_effect(SESSION_WRITE);
    done(&e, SESSION_FAILED);
    ck_assert_ptr_eq(sessions_ready(table), &first);
    answered(&first, "w1");
    session_leave(&first, now);
    ck_assert_int_eq(session_enter(table, &second, rules, span_str(keys[1]), now), SESSION_WAIT);
    effect_succeeds(SESSION_WRITE);
    ck_assert_ptr_eq(sessions_ready(table), &second);
    answered(&second, "w2");
    effect_succeeds(SESSION_WRITE);
    session_leave(&second, now);
    ck_assert_int_eq(session_enter(table, &third, rules, span_str(keys[2]), now), SESSION_WAIT);
    ck_assert(sessions_find(table, span_str(keys[0]), &v, now));
    ck_assert(!sessions_find(table, span_str(keys[1]), &v, now));
}
END_TEST

START_TEST(what_is_unbound_while_the_bucket_is_away_goes_when_it_is_back)
{
    reach(SESSION_BOUND);
    session_leave(&first, now);
    sessions_link(table, false, now);
    ck_assert(session_unbind(table, KEY, now));
    sessions_link(table, true, now);
    ck_assert_uint_eq(expect_effect(SESSION_DELETE).expect, revision);
}
END_TEST

START_TEST(busy_says_whether_there_is_more_to_do)
{
    struct session_effect e;

    ck_assert(!sessions_busy(table));
    ck_assert_int_eq(enter(&first), SESSION_WAIT);
    ck_assert(sessions_busy(table));
    e = expect_effect(SESSION_WRITE);
    expect_effect(-1);
    ck_assert(!sessions_busy(table));
    done(&e, SESSION_FAILED);
    ck_assert(sessions_busy(table));
    ck_assert_ptr_eq(sessions_ready(table), &first);
    expect_effect(-1);
    ck_assert(!sessions_busy(table));
}
END_TEST

static bool collect(void *arg, const struct session_view *v)
{
    unsigned *n = arg;

    ck_assert_int_eq(v->state, SESSION_BOUND);
    return ++*n < 2;
}

START_TEST(all_can_be_seen_until_one_has_seen_enough)
{
    static const char *const keys[] = {"chat.a", "chat.b", "chat.c"};
    unsigned n = 0;

    for (int i = 0; i < 3; i++) {
        struct session_fact f = fact(SESSION_HOLDS_BOUND, "other", "w1");

        sessions_seen(table, span_str(keys[i]), &f, now);
    }
    sessions_each(table, collect, &n, now);
    ck_assert_uint_eq(n, 2);
}
END_TEST

static unsigned bound_to(const char *service, const char *worker)
{
    return sessions_bound_to(table, span_str(service), span_str(worker));
}

START_TEST(bindings_are_counted_by_service_and_worker)
{
    struct session_fact f = fact(SESSION_HOLDS_BOUND, "other", "w1");

    ck_assert_ptr_nonnull(sessions_add_service(table, SPAN_LIT("sums"), TTL_MS, WAIT_MS));
    reach(SESSION_BOUND); /* chat.s to w1 */
    sessions_seen(table, SPAN_LIT("chat.t"), &f, now);
    sessions_seen(table, SPAN_LIT("sums.t"), &f, now);
    ck_assert_uint_eq(bound_to("chat", "w1"), 2);
    ck_assert_uint_eq(bound_to("sums", "w1"), 1);
    ck_assert_uint_eq(bound_to("chat", "w2"), 0);
    f = fact(SESSION_HOLDS_BOUND, "other", "w2");
    sessions_seen(table, SPAN_LIT("chat.t"), &f, now); /* another router bound it anew */
    ck_assert_uint_eq(bound_to("chat", "w1"), 1);
    ck_assert_uint_eq(bound_to("chat", "w2"), 1);
    session_answered(&first, SPAN_LIT("w2"), -1, 1, true, now);
    ck_assert_uint_eq(bound_to("chat", "w1"), 0);
    ck_assert_uint_eq(bound_to("chat", "w2"), 2);
    ck_assert(session_unbind(table, KEY, now));
    f = fact(SESSION_HOLDS_NOTHING, "", "");
    sessions_seen(table, SPAN_LIT("chat.t"), &f, now);
    ck_assert_uint_eq(bound_to("chat", "w2"), 0);
    pass(2 * TTL_MS);
    ck_assert_uint_eq(bound_to("sums", "w1"), 0); /* expired */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        the_claim_is_written_before_the_choice_and_the_binding_after_the_answer,
        waiters_use_what_the_owner_bound,
        a_failed_owner_hands_over_to_one_waiter,
        a_waiter_whose_time_is_over_follows_and_does_not_bind,
        an_end_that_comes_twice_or_late_changes_nothing,
        a_broken_binding_is_claimed_by_one_and_awaited_by_others,
        who_finds_it_broken_late_uses_what_was_bound_since,
        soft_rebinds_to_who_answered_unless_it_was_bound_anew_meanwhile,
        hard_does_not_rebind_to_who_answered,
        the_loser_of_a_claim_adopts_the_winners_binding,
        another_routers_claim_is_awaited_and_its_binding_used,
        an_overdue_claim_is_taken_over_on_its_revision,
        an_owner_that_was_taken_over_does_not_bind,
        a_binding_that_came_too_late_gives_way_to_the_winners,
        a_lost_acknowledgement_is_cleared_up_by_reading,
        an_older_word_of_the_watch_changes_nothing,
        idle_time_counts_from_the_end_of_the_last_request,
        another_routers_renewal_keeps_a_binding_here,
        a_full_table_forgets_the_oldest_idle_one_and_does_not_unbind_it,
        without_a_bucket_sessions_are_bound_here,
        a_lost_bucket_leaves_affinity_here_and_hears_of_it_when_it_is_back,
        at_the_start_a_claim_waits_for_the_first_word_of_the_bucket,
        at_the_start_the_word_may_be_that_there_is_no_bucket,
        a_failed_operation_does_not_hold_the_owner_and_is_repeated_after_a_look,
        a_bucket_that_refuses_everything_is_asked_once_a_second_for_all,
        a_request_that_claims_does_not_wait_for_the_turn_of_its_troubled_session,
        an_expired_binding_that_a_full_bucket_keeps_is_forgotten_here,
        a_claim_without_a_word_of_the_bucket_waits_no_longer_than_the_rules_say,
        after_a_gap_a_binding_is_read_before_it_is_used,
        while_nothing_is_watched_a_binding_is_read_again,
        who_waits_for_the_word_on_a_binding_not_yet_written_goes_when_it_is,
        a_binding_of_which_the_bucket_has_no_trace_is_told_it_and_one_removed_is_gone,
        what_a_reading_does_not_find_is_gone,
        another_bucket_is_told_what_is_bound_here,
        unbinding_removes_the_key_and_leaves_requests_alone,
        a_renewal_that_is_due_does_not_keep_the_loop_awake,
        what_another_router_claims_after_an_unbinding_is_its_own,
        who_waits_for_the_word_on_a_binding_that_is_unbound_begins_anew,
        an_owner_that_left_takes_its_claim_away_and_nothing_else,
        a_binding_is_broken_for_the_rebinding_that_found_it_so,
        a_full_table_rather_forgets_what_the_bucket_holds,
        what_is_unbound_while_the_bucket_is_away_goes_when_it_is_back,
        busy_says_whether_there_is_more_to_do,
        all_can_be_seen_until_one_has_seen_enough,
        bindings_are_counted_by_service_and_worker,
    };
    Suite *suite = suite_create("session");
    TCase *tcase = tcase_create("session");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_state_meets_every_event, 0, SESSION_STATES * EVENTS);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
