/* Heartbeats, silence, epochs, ejection, marks, the retry budget. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"

static struct registry *registry;
static struct pool *pool;
static mono now;
static unsigned events[WORKER_EVENT_COUNT], lost;
static bool begun;

static void on_lost(void *arg, struct charge *charge, mono when)
{
    (void)arg;
    lost++;
    ck_assert(charge_release(charge, when));
}

static bool on_begun(void *arg, const struct charge *charge)
{
    (void)arg;
    (void)charge;
    return begun;
}

static void on_worker(void *arg, struct worker *w, enum worker_event event, mono when)
{
    (void)arg;
    (void)when;
    ck_assert_uint_gt(strlen(w->id), 0);
    events[event]++;
}

static void set_up(void)
{
    struct registry_options options = {.max_workers = 4,
                                       .worker_bytes = 1000,
                                       .seed = 1,
                                       .events = {on_lost, on_begun, on_worker}};
    struct pool_options pool_opts = {.name = "chat",
                                     .policy = POLICY_LEAST_LOADED,
                                     .heartbeats = true,
                                     .eject_enabled = true,
                                     .max_attempts = 3,
                                     .budget_percent = 20};

    memset(events, 0, sizeof(events));
    lost = 0;
    begun = false;
    now = (mono){1000000};
    registry = registry_create(&options);
    pool = registry_add_pool(registry, &pool_opts);
    ck_assert_ptr_nonnull(pool);
    ck_assert_ptr_null(registry_add_pool(registry, &pool_opts));
    ck_assert_ptr_eq(registry_pool(registry, SPAN_LIT("chat")), pool);
}

static void tear_down(void)
{
    registry_destroy(registry);
}

static struct worker_report report_of(const char *id, int64_t epoch)
{
    return (struct worker_report){.id = span_str(id),
                                  .subject = SPAN_LIT("s.w"),
                                  .epoch = epoch,
                                  .interval_ms = 1000,
                                  .weight = 100};
}

static enum report_result beat(const char *id, int64_t epoch, enum worker_state state)
{
    struct worker_report report = report_of(id, epoch);

    report.state = state;
    return pool_report(pool, &report, now);
}

static struct worker *find(const char *id)
{
    return pool_find(pool, span_str(id));
}

static void pass_ms(int64_t ms)
{
    mono end = mono_add_ms(now, ms);

    while (mono_before(registry_next(registry), end)) {
        now = registry_next(registry);
        registry_run(registry, now);
    }
    now = end;
    registry_run(registry, now);
}

START_TEST(three_missed_intervals_lose_a_worker_and_its_unanswered_attempts)
{
    struct charge charge = {0};

    ck_assert_int_eq(beat("a", 1, WORKER_READY), REPORT_NEW);
    charge_take(&charge, find("a"), now);
    pass_ms(2900);
    worker_alive(find("a"), now);
    pass_ms(2999);
    ck_assert_ptr_nonnull(find("a"));
    pass_ms(1);
    ck_assert_ptr_null(find("a"));
    ck_assert_uint_eq(lost, 1);
    ck_assert_uint_eq(events[WORKER_EVENT_LOST], 1);
    ck_assert_uint_eq(pool_discovered(pool) + pool_routable(pool) + pool_free(pool), 0);
}
END_TEST

START_TEST(begun_streams_outlive_missed_intervals_but_not_leaving)
{
    struct charge charge = {0};

    begun = true;
    beat("a", 1, WORKER_READY);
    charge_take(&charge, find("a"), now);
    pass_ms(5000);
    ck_assert_ptr_null(find("a"));
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(charge.worker->occupancy, 1);
    ck_assert(charge_release(&charge, now));
    ck_assert(!charge_release(&charge, now));
    beat("a", 1, WORKER_READY);
    charge_take(&charge, find("a"), now);
    ck_assert_int_eq(beat("a", 1, WORKER_LEAVING), REPORT_LEFT);
    ck_assert_uint_eq(lost, 1);
    ck_assert_int_eq(beat("b", 1, WORKER_LEAVING), REPORT_LEFT);
    ck_assert_ptr_null(find("b"));
}
END_TEST

START_TEST(no_interval_is_missed_while_the_link_is_down_or_the_loop_late)
{
    beat("a", 1, WORKER_READY);
    registry_link(registry, false, now);
    pass_ms(60000);
    registry_link(registry, true, now);
    pass_ms(2999);
    ck_assert_ptr_nonnull(find("a"));
    now = mono_add_ms(now, 30000); /* frozen */
    registry_run(registry, now);
    ck_assert_ptr_nonnull(find("a"));
    pass_ms(2999);
    ck_assert_ptr_nonnull(find("a"));
    pass_ms(1);
    ck_assert_ptr_null(find("a"));
}
END_TEST

static unsigned asked;

static void on_prove(void *arg, mono when)
{
    (void)arg;
    (void)when;
    asked++;
}

/* The link was frozen, not down: every worker was lost, and its requests with it. */
START_TEST(silence_counts_only_on_a_link_that_brings_something)
{
    mono overdue;

    asked = 0;
    registry->options.events.prove_link = on_prove;
    beat("a", 1, WORKER_READY);
    beat("b", 1, WORKER_READY);
    pass_ms(3000);
    overdue = now;
    ck_assert_uint_eq(asked, 2);
    pass_ms(20000);
    ck_assert_uint_gt(asked, 2); /* asked again: the answer may have got lost */
    ck_assert_uint_eq(pool_discovered(pool), 2);
    ck_assert_uint_eq(events[WORKER_EVENT_LOST], 0);
    /* Proved for a time before they were overdue: says nothing. */
    registry_link_proved(registry, mono_add_ms(overdue, -1), now);
    pass_ms(0);
    ck_assert_uint_eq(pool_discovered(pool), 2);
    /* A word of one was on the way. */
    worker_alive(find("b"), now);
    registry_link_proved(registry, now, now);
    pass_ms(0);
    ck_assert_ptr_null(find("a"));
    ck_assert_ptr_nonnull(find("b"));
    /* And a link that turns out to be down excuses all. */
    pass_ms(3000);
    registry_link(registry, false, now);
    registry_link(registry, true, now);
    registry_link_proved(registry, now, now);
    pass_ms(2999);
    ck_assert_ptr_nonnull(find("b"));
    pass_ms(1);
    registry_link_proved(registry, now, now);
    pass_ms(0);
    ck_assert_ptr_null(find("b"));
}
END_TEST

START_TEST(a_higher_epoch_ends_the_lower_ones_attempts_and_counts_from_zero)
{
    struct charge old[2] = {{0}}, fresh = {0};
    struct worker *w;

    beat("a", 5, WORKER_READY);
    w = find("a");
    charge_take(&old[0], w, now);
    charge_take(&old[1], w, now);
    charge_bytes(&old[0], 700, now);
    worker_overloaded(w, mono_add_ms(now, 5000), now);
    ck_assert_int_eq(worker_standing(w, now), STANDING_OVERLOADED);
    ck_assert_int_eq(beat("a", 6, WORKER_READY), REPORT_NEW_EPOCH);
    ck_assert_ptr_eq(find("a"), w);
    ck_assert_uint_eq(lost, 2);
    ck_assert_uint_eq(w->occupancy + w->bytes_out, 0);
    ck_assert_int_eq(worker_standing(w, now), STANDING_FREE); /* the mark ends too */
    charge_take(&fresh, w, now);
    ck_assert_int_eq(beat("a", 5, WORKER_READY), REPORT_STALE_EPOCH);
    ck_assert_int_eq(beat("a", 5, WORKER_LEAVING), REPORT_STALE_EPOCH);
    ck_assert_uint_eq(events[WORKER_EVENT_DUPLICATE], 2);
    ck_assert_uint_eq(w->occupancy, 1);
    ck_assert_int_eq((int)fresh.epoch, 6);
    charge_release(&fresh, now);
    ck_assert_uint_eq(w->occupancy, 0);
}
END_TEST

static struct charge *kept;

static void keep(void *arg, struct charge *charge, mono when)
{
    (void)arg;
    (void)when;
    kept = charge; /* the owner releases later */
}

START_TEST(an_old_epochs_charge_never_touches_the_new_count)
{
    struct charge old = {0}, fresh = {0};

    registry->options.events.attempt_lost = keep;
    beat("a", 5, WORKER_READY);
    charge_take(&old, find("a"), now);
    beat("a", 6, WORKER_READY);
    ck_assert_ptr_eq(kept, &old);
    charge_take(&fresh, find("a"), now);
    charge_bytes(&old, 10, now);
    ck_assert(charge_release(&old, now));
    ck_assert_uint_eq(find("a")->occupancy, 1);
    ck_assert_uint_eq(find("a")->bytes_out, 0);
    charge_release(&fresh, now);
}
END_TEST

START_TEST(busy_is_routable_and_draining_is_not)
{
    beat("a", 1, WORKER_BUSY);
    ck_assert_uint_eq(pool_routable(pool), 1);
    ck_assert_uint_eq(pool_free(pool), 0);
    beat("a", 1, WORKER_DRAINING);
    beat("a", 1, WORKER_DRAINING);
    ck_assert_uint_eq(events[WORKER_EVENT_DRAINING], 1);
    ck_assert_uint_eq(pool_discovered(pool), 1);
    ck_assert_uint_eq(pool_routable(pool), 0);
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_DRAINING);
    beat("a", 1, WORKER_READY);
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

START_TEST(capacity_and_bytes_fill_a_worker)
{
    struct worker_report report = report_of("a", 1);
    struct charge charges[2] = {{0}};

    report.capacity = 3;
    report.inflight = 1;
    pool_report(pool, &report, now);
    ck_assert_uint_eq(find("a")->others, 1); /* inflight without own */
    charge_take(&charges[0], find("a"), now);
    charge_take(&charges[1], find("a"), now);
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_FULL);
    ck_assert_uint_eq(pool_free(pool), 0);
    ck_assert_uint_eq(pool_routable(pool), 1);
    charge_release(&charges[1], now);
    ck_assert_uint_eq(pool_free(pool), 1);
    charge_bytes(&charges[0], 1001, now);
    ck_assert_uint_eq(pool_free(pool), 0);
    charge_bytes_arrived(&charges[0], now);
    ck_assert_uint_eq(pool_free(pool), 1);
    charge_release(&charges[0], now);
    report.has_others = true;
    report.others = 3;
    pool_report(pool, &report, now);
    ck_assert_uint_eq(pool_free(pool), 0);
    report.capacity = 0;
    pool_report(pool, &report, now);
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

static enum report_result beat_others(const char *id, int64_t epoch, uint32_t interval_ms,
                                      uint32_t others)
{
    struct worker_report report = report_of(id, epoch);

    report.interval_ms = interval_ms;
    report.has_others = true;
    report.others = others;
    return pool_report(pool, &report, now);
}

static void alive_for_ms(const char *id, int64_t ms)
{
    worker_alive(find(id), now);
    pass_ms(ms);
    worker_alive(find(id), now);
}

START_TEST(what_others_have_there_counts_for_two_intervals_and_is_unknown_then)
{
    struct choice choice = {0};

    beat_others("a", 1, 1000, 3);
    beat_others("b", 1, 60000, 2);
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "b");
    alive_for_ms("a", 1999);
    ck_assert(find("a")->others_known);
    ck_assert_uint_eq(find("a")->others, 3);
    alive_for_ms("a", 1); /* its answers come, its heartbeats do not */
    ck_assert(!find("a")->others_known);
    ck_assert_uint_eq(find("a")->others, 0);
    ck_assert(find("b")->others_known);
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "a"); /* as none */
    beat_others("a", 1, 1000, 4);
    ck_assert(find("a")->others_known);
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "b");
    pass_ms(1500);
    beat_others("a", 1, 1000, 5); /* counts from the newest one */
    pass_ms(1999);
    ck_assert_uint_eq(find("a")->others, 5);
    beat_others("c", 1, 100, 1); /* a second, however short the interval */
    for (int i = 0; i < 9; i++)
        alive_for_ms("c", 111);
    ck_assert(find("c")->others_known);
    alive_for_ms("c", 1);
    ck_assert(!find("c")->others_known);
}
END_TEST

START_TEST(a_worker_that_others_fill_has_room_again_when_that_is_unknown)
{
    struct worker_report report = report_of("a", 1);

    report.capacity = 2;
    report.has_others = true;
    report.others = 2;
    pool_report(pool, &report, now);
    ck_assert_uint_eq(pool_free(pool), 0);
    alive_for_ms("a", 2000);
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

START_TEST(others_belong_to_an_epoch_and_end_with_the_worker)
{
    struct static_worker follower = {.id = "s", .subject = "s.s", .follows_heartbeats = true};

    beat_others("a", 5, 1000, 3);
    beat_others("a", 6, 1000, 1);
    ck_assert_uint_eq(find("a")->others, 1);
    beat_others("a", 5, 1000, 9); /* the older process */
    ck_assert_uint_eq(find("a")->others, 1);
    ck_assert_int_eq(pool_add_static(pool, &follower, now), WB_OK);
    ck_assert(!find("s")->others_known); /* nobody has said anything */
    beat_others("s", 1, 1000, 7);
    ck_assert(find("s")->others_known);
    pass_ms(3000);
    ck_assert(!find("s")->others_known);
    ck_assert_uint_eq(find("s")->others, 0);
    ck_assert_uint_eq(worker_load_count(find("s")), 0);
}
END_TEST

START_TEST(without_a_count_by_router_others_are_what_is_not_ours)
{
    struct worker_report report = report_of("a", 1);
    struct charge charges[2] = {{0}};

    pool_report(pool, &report, now);
    charge_take(&charges[0], find("a"), now);
    charge_take(&charges[1], find("a"), now);
    report.inflight = 5;
    pool_report(pool, &report, now);
    ck_assert_uint_eq(find("a")->others, 3);
    ck_assert_uint_eq(worker_load_count(find("a")), 5);
    report.inflight = 1; /* one of ours is still on its way */
    pool_report(pool, &report, now);
    ck_assert_uint_eq(find("a")->others, 0);
    ck_assert_uint_eq(worker_load_count(find("a")), 2);
    charge_release(&charges[0], now);
    charge_release(&charges[1], now);
}
END_TEST

static enum report_result beat_shared(const char *id, int64_t epoch, uint32_t others, uint32_t room)
{
    struct worker_report report = report_of(id, epoch);

    report.has_others = report.counts_ours = true;
    report.others = others;
    report.capacity = room;
    return pool_report(pool, &report, now);
}

/* Each of three routers saw the same worker below the others, and each sent what was missing. */
START_TEST(between_heartbeats_others_are_taken_to_do_as_we_do)
{
    struct charge a[3] = {{0}}, b = {0};
    struct worker *w;

    beat_shared("b", 1, 0, 0);
    charge_take(&b, find("b"), now);
    beat_others("a", 1, 60000, 4);
    beat_others("a", 1, 60000, 4); /* it has never counted ours: taken at its word */
    w = find("a");
    charge_take(&a[0], w, now);
    ck_assert_uint_eq(worker_load(w), 5);
    beat_shared("a", 1, 4, 0);            /* 4 of others in the pool, 2 of ours: 2 for each */
    ck_assert_uint_eq(worker_load(w), 5); /* exactly what is known */
    charge_take(&a[1], w, now);
    ck_assert_uint_eq(worker_load(w), 8);
    ck_assert_uint_eq(worker_load_count(w), 6);
    charge_take(&a[2], w, now);
    ck_assert_uint_eq(worker_load(w), 11);
    beat_shared("a", 1, 5, 0); /* 5 and 4 */
    ck_assert_uint_eq(worker_load(w), 8);
    for (int i = 0; i < 3; i++)
        charge_release(&a[i], now);
    ck_assert_uint_eq(worker_load(w), 1); /* 5 less three times 1.25, to the nearest */
    ck_assert_uint_eq(w->others, 5);
    beat_shared("a", 1, 1, 0);
    charge_take(&a[0], w, now);
    beat_shared("a", 1, 1, 0);
    charge_release(&a[0], now);
    ck_assert_uint_eq(worker_load(w), 0); /* never below what is our own */
    charge_take(&a[0], w, now);
    beat_shared("a", 1, 9, 0);
    beat_others("a", 2, 1000, 9); /* a new life: it has not counted ours yet */
    charge_take(&a[0], w, now);
    ck_assert_uint_eq(worker_load(w), 10);
    charge_release(&a[0], now);
    ck_assert_uint_eq(pool->own, 1);
    ck_assert_uint_eq(pool->others, 9);
    beat_shared("a", 2, 9, 0);
    beat_others("b", 1, 60000, 9);
    alive_for_ms("a", 2000); /* unknown is none, whatever we add */
    charge_take(&a[0], w, now);
    ck_assert_uint_eq(worker_load(w), 1);
    charge_release(&a[0], now);
    charge_release(&b, now);
    beat_others("b", 1, 60000, 0);
    ck_assert_uint_eq(pool->own + pool->others, 0);
}
END_TEST

START_TEST(what_others_may_have_added_takes_no_room_and_a_few_of_ours_prove_little)
{
    struct charge charge[2] = {{0}};
    struct worker *w;

    beat_shared("a", 1, 100, 103);
    w = find("a");
    charge_take(&charge[0], w, now);
    beat_shared("a", 1, 100, 103); /* 100 of theirs for one of ours, but eight is the most */
    charge_take(&charge[1], w, now);
    ck_assert_uint_eq(worker_load(w), 110);
    ck_assert_int_eq(worker_standing(w, now), STANDING_FREE); /* 102 of 103 */
    charge_release(&charge[0], now);
    charge_release(&charge[1], now);
}
END_TEST

START_TEST(ejected_for_a_second_or_until_a_heartbeat)
{
    beat("a", 1, WORKER_READY);
    beat("b", 1, WORKER_READY);
    worker_eject(find("a"), now);
    ck_assert_uint_eq(pool_routable(pool), 1);
    pass_ms(999);
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_EJECTED);
    pass_ms(1);
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_FREE);
    worker_eject(find("a"), now);
    beat("a", 1, WORKER_READY);
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_FREE);
    worker_eject(find("a"), now);
    beat("a", 1, WORKER_READY); /* heartbeats, but does not listen: not again so soon */
    ck_assert_int_eq(worker_standing(find("a"), now), STANDING_EJECTED);
    ck_assert_uint_eq(events[WORKER_EVENT_EJECTED], 3);
    ck_assert_uint_eq(events[WORKER_EVENT_RESTORED], 2);
}
END_TEST

START_TEST(if_all_are_ejected_the_least_recently_ejected_is_tried)
{
    struct choice choice = {0};

    beat("a", 1, WORKER_READY);
    beat("b", 1, WORKER_READY);
    worker_eject(find("b"), now);
    pass_ms(1);
    worker_eject(find("a"), now);
    ck_assert_uint_eq(pool_routable(pool), 1);
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "b");
    worker_eject(find("b"), now); /* again: the other one's turn */
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "a");
    beat("a", 1, WORKER_DRAINING); /* its heartbeat restores it, but it drains */
    ck_assert_str_eq(pool_choose(pool, &choice, false, now)->id, "b");
    beat("a", 1, WORKER_LEAVING);
    ck_assert_uint_eq(pool_routable(pool), 1);
    beat("b", 1, WORKER_LEAVING);
    ck_assert_uint_eq(pool_routable(pool), 0);
    ck_assert_ptr_null(pool_choose(pool, &choice, false, now));
}
END_TEST

START_TEST(marks_end_by_their_time_and_tell_when)
{
    beat("a", 1, WORKER_READY);
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 1000);
    worker_overloaded(find("a"), mono_add_ms(now, 2500), now);
    worker_overloaded(find("a"), mono_add_ms(now, 500), now); /* a shorter one does not shorten */
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 2500);
    beat("b", 1, WORKER_BUSY); /* may be free at any time */
    ck_assert_int_eq(pool_retry_after_ms(pool, now), 1000);
    pass_ms(2499);
    ck_assert_uint_eq(pool_free(pool), 0);
    pass_ms(1);
    ck_assert_uint_eq(pool_free(pool), 1);
}
END_TEST

START_TEST(max_workers_is_a_named_outcome_and_places_are_reused)
{
    static const char *const ids[] = {"a", "b", "c", "d"};

    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(beat(ids[i], round, WORKER_READY), REPORT_NEW);
        ck_assert_int_eq(beat("e", 1, WORKER_READY), REPORT_FULL);
        ck_assert_int_eq(beat("a", round, WORKER_READY), REPORT_UPDATED);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(beat(ids[i], round, WORKER_LEAVING), REPORT_LEFT);
    }
    ck_assert_uint_eq(pool->slots_used, 4);
}
END_TEST

START_TEST(static_workers_ignore_heartbeats_unless_they_follow_them)
{
    struct static_worker entry = {.id = "old", .subject = "chat.legacy"};
    struct static_worker follower = {
        .id = "new", .subject = "chat.new", .weight = 50, .follows_heartbeats = true};
    struct worker_report report = report_of("new", 9);
    struct charge charge = {0};

    ck_assert_int_eq(pool_add_static(pool, &entry, now), WB_OK);
    ck_assert_int_eq(pool_add_static(pool, &entry, now), WB_EXISTS);
    ck_assert_int_eq(pool_add_static(pool, &follower, now), WB_OK);
    ck_assert_int_eq(beat("old", 1, WORKER_LEAVING), REPORT_IGNORED_STATIC);
    pass_ms(100000);
    ck_assert_uint_eq(pool_free(pool), 2); /* by their entries, unheard */
    charge_take(&charge, find("new"), now);
    report.weight = 200;
    ck_assert_int_eq(pool_report(pool, &report, now), REPORT_UPDATED);
    ck_assert_uint_eq(lost, 0); /* the same process as before */
    ck_assert_int_eq((int)charge.epoch, 9);
    ck_assert_str_eq(find("new")->subject, "chat.new");
    ck_assert_uint_eq(find("new")->weight, 200);
    pass_ms(3000);
    ck_assert_uint_eq(lost, 1);
    ck_assert_ptr_nonnull(find("new"));
    ck_assert_uint_eq(pool_discovered(pool), 2);
    ck_assert_uint_eq(pool_routable(pool), 1);
    report.epoch = 3; /* the higher one lives no more */
    ck_assert_int_eq(pool_report(pool, &report, now), REPORT_NEW);
    ck_assert_uint_eq(pool_routable(pool), 2);
    ck_assert_uint_eq(find("new")->occupancy, 0);
}
END_TEST

START_TEST(adapters_and_meta_stay_within_an_epoch)
{
    struct span names[2] = {SPAN_LIT("fr"), SPAN_LIT("de")};
    struct worker_report report = report_of("a", 1);

    report.has_adapters = report.has_meta = true;
    report.adapters = names;
    report.adapter_count = 2;
    report.meta = SPAN_LIT("{}");
    pool_report(pool, &report, now);
    beat("a", 1, WORKER_READY);
    ck_assert_uint_eq(find("a")->adapter_count, 2);
    ck_assert_str_eq(find("a")->adapters[1], "de");
    ck_assert_str_eq(find("a")->meta, "{}");
    beat("a", 2, WORKER_READY);
    ck_assert_uint_eq(find("a")->adapter_count, 0);
    ck_assert_ptr_null(find("a")->meta);
}
END_TEST

START_TEST(a_reference_keeps_the_name_of_a_lost_worker)
{
    struct worker *w;

    beat("a", 1, WORKER_READY);
    w = find("a");
    worker_ref(w);
    beat("a", 1, WORKER_LEAVING);
    ck_assert_str_eq(w->id, "a");
    ck_assert_int_eq(worker_standing(w, now), STANDING_UNKNOWN);
    worker_unref(w);
    worker_unref(NULL);
}
END_TEST

START_TEST(the_budget_is_a_share_of_the_window_with_a_floor)
{
    unsigned taken = 0;

    for (int i = 0; i < 5; i++)
        taken += pool_take_retry(pool, now);
    ck_assert_uint_eq(taken, 3);
    now = mono_add_ms(now, 1000);
    ck_assert(pool_take_retry(pool, now));
    for (int i = 0; i < 1000; i++)
        pool_note_request(pool, now);
    for (taken = 0; pool_take_retry(pool, now); taken++)
        continue;
    ck_assert_uint_eq(taken, 196); /* 200 less the 4 before */
    now = mono_add_ms(now, 9000);
    for (taken = 0; pool_take_retry(pool, now); taken++)
        continue;
    ck_assert_uint_eq(taken, 3); /* the window's share is used: 197 of 200, and no more */
    now = mono_add_ms(now, 1000);
    for (taken = 0; pool_take_retry(pool, now); taken++)
        continue;
    ck_assert_uint_eq(taken, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core registry");
    TCase *tests = tcase_create("registry");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, three_missed_intervals_lose_a_worker_and_its_unanswered_attempts);
    tcase_add_test(tests, begun_streams_outlive_missed_intervals_but_not_leaving);
    tcase_add_test(tests, no_interval_is_missed_while_the_link_is_down_or_the_loop_late);
    tcase_add_test(tests, silence_counts_only_on_a_link_that_brings_something);
    tcase_add_test(tests, a_higher_epoch_ends_the_lower_ones_attempts_and_counts_from_zero);
    tcase_add_test(tests, an_old_epochs_charge_never_touches_the_new_count);
    tcase_add_test(tests, busy_is_routable_and_draining_is_not);
    tcase_add_test(tests, capacity_and_bytes_fill_a_worker);
    tcase_add_test(tests, what_others_have_there_counts_for_two_intervals_and_is_unknown_then);
    tcase_add_test(tests, a_worker_that_others_fill_has_room_again_when_that_is_unknown);
    tcase_add_test(tests, others_belong_to_an_epoch_and_end_with_the_worker);
    tcase_add_test(tests, between_heartbeats_others_are_taken_to_do_as_we_do);
    tcase_add_test(tests, what_others_may_have_added_takes_no_room_and_a_few_of_ours_prove_little);
    tcase_add_test(tests, without_a_count_by_router_others_are_what_is_not_ours);
    tcase_add_test(tests, ejected_for_a_second_or_until_a_heartbeat);
    tcase_add_test(tests, if_all_are_ejected_the_least_recently_ejected_is_tried);
    tcase_add_test(tests, marks_end_by_their_time_and_tell_when);
    tcase_add_test(tests, max_workers_is_a_named_outcome_and_places_are_reused);
    tcase_add_test(tests, static_workers_ignore_heartbeats_unless_they_follow_them);
    tcase_add_test(tests, adapters_and_meta_stay_within_an_epoch);
    tcase_add_test(tests, a_reference_keeps_the_name_of_a_lost_worker);
    tcase_add_test(tests, the_budget_is_a_share_of_the_window_with_a_floor);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
