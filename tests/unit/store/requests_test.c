/* Requests against a real nats-server: each ends once, and says truly what happened. */
#include "fixture.h"

enum { TOKENS_MAX = 70000, PUTS = 20000 };

static struct outcome {
    unsigned times;
    wb_status status;
    uint64_t revision;
    wall created;
    bool deleted;
    char value[64];
} outcomes[TOKENS_MAX];
static unsigned asked, ended;

static const struct store_bucket bucket = {
    .name = "records", .ttl_s = 3600, .history = 1, .max_bytes = 64 << 20, .replicas = 1};

static void on_done(void *arg, uint64_t token, wb_status status, const struct store_entry *entry)
{
    struct outcome *o = &outcomes[token];

    ck_assert_ptr_eq(arg, &seen_count);
    ck_assert_uint_lt(token, TOKENS_MAX);
    ck_assert_int_eq(status == WB_OK, entry != NULL);
    o->times++;
    ended++;
    o->status = status;
    if (!entry)
        return;
    ck_assert_uint_gt(entry->key.len, 0);
    o->revision = entry->revision;
    o->created = entry->created;
    o->deleted = entry->deleted;
    snprintf(o->value, sizeof(o->value), "%.*s", (int)entry->value.len, entry->value.ptr);
}

static void up(void)
{
    memset(outcomes, 0, sizeof(outcomes));
    asked = ended = 0;
    store_up_as((struct store_connection){0}, &bucket, (struct store_events){.done = on_done});
    await_state(0, "records", STORE_CREATED);
}

static wb_status ask_as(enum store_op op, const char *key, const char *value, uint64_t expect,
                        int64_t timeout_ms)
{
    struct store_request request = {.op = op,
                                    .bucket = "records",
                                    .key = span_str(key),
                                    .value = span_str(value),
                                    .expect = expect,
                                    .timeout_ms = timeout_ms,
                                    .token = asked};
    wb_status status = store_send(store, &request);

    if (status == WB_OK)
        asked++;
    return status;
}

static void await_all(void)
{
    mono until = mono_add_ms(clock_mono(), PATIENCE_MS);

    while (ended < asked) {
        ck_assert_msg(mono_before(clock_mono(), until), "%u of %u ended", ended, asked);
        loop_turn(loop, 50);
    }
}

/* Asks and waits; what came. */
static const struct outcome *ask(enum store_op op, const char *key, const char *value,
                                 uint64_t expect)
{
    ck_assert_int_eq(ask_as(op, key, value, expect, 5000), WB_OK);
    await_all();
    ck_assert_uint_eq(outcomes[asked - 1].times, 1);
    return &outcomes[asked - 1];
}

static void each_ended_once(void)
{
    for (unsigned i = 0; i < asked; i++)
        ck_assert_uint_eq(outcomes[i].times, 1);
    ck_assert_uint_eq(ended, asked);
}

START_TEST(create_update_conflict_delete_read)
{
    const struct outcome *o;
    uint64_t first, second;

    server_start(true, NULL, NULL);
    up();
    ck_assert_int_eq(ask(STORE_GET, "chat.s-1", NULL, 0)->status, WB_NOT_FOUND);
    o = ask(STORE_PUT, "chat.s-1", "one", 0);
    ck_assert_int_eq(o->status, WB_OK);
    ck_assert_str_eq(o->value, "one");
    first = o->revision;
    ck_assert_uint_gt(first, 0);
    ck_assert_int_eq(ask(STORE_PUT, "chat.s-1", "two", 0)->status, WB_EXISTS);
    ck_assert_int_eq(ask(STORE_PUT, "chat.s-1", "two", first + 1)->status, WB_EXISTS);
    o = ask(STORE_PUT, "chat.s-1", "two", first);
    ck_assert_int_eq(o->status, WB_OK);
    second = o->revision;
    ck_assert_uint_gt(second, first);
    o = ask(STORE_GET, "chat.s-1", NULL, 0);
    ck_assert_int_eq(o->status, WB_OK);
    ck_assert_str_eq(o->value, "two");
    ck_assert_uint_eq(o->revision, second);
    ck_assert(!o->deleted);
    ck_assert_int_lt(llabs(clock_wall().us - o->created.us), 60 * 1000000LL);
    ck_assert_int_eq(ask(STORE_DELETE, "chat.s-1", NULL, first)->status, WB_EXISTS);
    o = ask(STORE_DELETE, "chat.s-1", NULL, second);
    ck_assert_int_eq(o->status, WB_OK);
    ck_assert(o->deleted);
    first = o->revision;
    o = ask(STORE_GET, "chat.s-1", NULL, 0);
    ck_assert_int_eq(o->status, WB_OK);
    ck_assert(o->deleted);
    ck_assert_uint_eq(o->revision, first);
    ck_assert_str_eq(o->value, "");
    store_down();
}
END_TEST

START_TEST(a_create_goes_over_a_marker_but_not_over_a_value)
{
    const struct outcome *o;

    server_start(true, NULL, NULL);
    up();
    o = ask(STORE_PUT, "chat.s-1", "one", 0);
    o = ask(STORE_DELETE, "chat.s-1", NULL, o->revision);
    ck_assert_int_eq(o->status, WB_OK);
    o = ask(STORE_PUT, "chat.s-1", "again", 0);
    ck_assert_int_eq(o->status, WB_OK);
    o = ask(STORE_GET, "chat.s-1", NULL, 0);
    ck_assert_str_eq(o->value, "again");
    ck_assert_int_eq(ask(STORE_PUT, "chat.s-1", "more", 0)->status, WB_EXISTS);
    /* several at once over one marker: one wins */
    o = ask(STORE_DELETE, "chat.s-1", NULL, o->revision);
    ck_assert_int_eq(o->status, WB_OK);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(ask_as(STORE_PUT, "chat.s-1", "race", 0, 5000), WB_OK);
    await_all();
    for (unsigned i = asked - 10, won = 0; i < asked; i++) {
        won += outcomes[i].status == WB_OK;
        ck_assert(outcomes[i].status == WB_OK || outcomes[i].status == WB_EXISTS);
        ck_assert(i < asked - 1 || won == 1);
    }
    each_ended_once();
    store_down();
}
END_TEST

START_TEST(twenty_thousand_puts_are_pipelined)
{
    mono start;
    int64_t ms;

    server_start(true, NULL, NULL);
    up();
    start = clock_mono();
    for (int i = 0; i < PUTS; i++) {
        char key[32];

        snprintf(key, sizeof(key), "chat.k-%d", i);
        ck_assert_int_eq(ask_as(STORE_PUT, key, "{\"worker\":\"w1\"}", 0, 30000), WB_OK);
    }
    await_all();
    ms = mono_diff_us(clock_mono(), start) / 1000;
    each_ended_once();
    for (unsigned i = 0; i < asked; i++) {
        ck_assert_int_eq(outcomes[i].status, WB_OK);
        ck_assert_uint_eq(outcomes[i].revision, i + 1); /* in the order they came in */
    }
    if (getenv("STORE_TEST_TALKS"))
        printf("%d puts in %lld ms\n", PUTS, (long long)ms);
    store_down();
}
END_TEST

START_TEST(what_is_under_way_is_bounded)
{
    wb_status status = WB_OK;

    server_start(true, NULL, NULL);
    up();
    /* the loop does not turn: what has ended is under way until it has been told */
    while (status == WB_OK && asked <= STORE_REQUESTS_MAX)
        status = ask_as(STORE_GET, "chat.k", NULL, 0, 60000);
    ck_assert_int_eq(status, WB_FULL);
    ck_assert_uint_eq(asked, STORE_REQUESTS_MAX);
    await_all();
    each_ended_once();
    for (unsigned i = 0; i < asked; i++)
        ck_assert_msg(outcomes[i].status == WB_NOT_FOUND, "%u: %d", i, outcomes[i].status);
    ck_assert_int_eq(ask_as(STORE_GET, "chat.k", NULL, 0, 5000), WB_OK); /* there is room again */
    await_all();
    store_down();
}
END_TEST

START_TEST(a_frozen_server_times_out_in_time_and_once_then_heals)
{
    mono start;
    int64_t ms;
    unsigned frozen;

    server_start(true, NULL, NULL);
    up();
    ck_assert_int_eq(ask(STORE_PUT, "chat.a", "1", 0)->status, WB_OK);
    server_freeze();
    start = clock_mono();
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(ask_as(STORE_PUT, "chat.b", "1", 0, 400), WB_OK);
        ck_assert_int_eq(ask_as(STORE_GET, "chat.a", NULL, 0, 400), WB_OK);
    }
    await_all();
    ms = mono_diff_us(clock_mono(), start) / 1000;
    ck_assert_int_ge(ms, 400);
    ck_assert_int_lt(ms, 1500);
    each_ended_once();
    for (unsigned i = 1; i < asked; i++)
        ck_assert_int_eq(outcomes[i].status, WB_TIMED_OUT);
    frozen = asked;
    kill(server, SIGCONT);
    /* the late answers to what has ended come before this one's */
    while (true) {
        wb_status status = ask_as(STORE_GET, "chat.a", NULL, 0, 1000);

        if (status == WB_OK) {
            await_all();
            if (outcomes[asked - 1].status == WB_OK)
                break;
        }
        ck_assert_int_lt(mono_diff_us(clock_mono(), start), PATIENCE_MS * 1000LL);
        loop_turn(loop, 50);
    }
    ck_assert_uint_gt(asked, frozen);
    each_ended_once();
    store_down();
}
END_TEST

/* The link was well and only JetStream silent: nobody was told, and each request ran out of its
 * time. */
START_TEST(a_request_that_nobody_answers_has_its_bucket_looked_at)
{
    unsigned at;

    server_start(true, NULL, NULL);
    up();
    at = seen_count;
    server_freeze();
    ck_assert_int_eq(ask_as(STORE_PUT, "chat.a", "1", 0, 300), WB_OK);
    at = await_state(at, "records", STORE_AWAY);
    ck_assert_ptr_nonnull(strstr(seen[at].why, "does not answer"));
    ck_assert_int_eq(ask_as(STORE_PUT, "chat.a", "1", 0, 300), WB_CLOSED);
    await_all();
    kill(server, SIGCONT);
    await_state(at, "records", STORE_BOUND);
    ck_assert_int_eq(ask(STORE_PUT, "chat.b", "1", 0)->status, WB_OK);
    store_down();
}
END_TEST

START_TEST(a_lost_link_ends_what_is_under_way_and_nothing_is_sent_later)
{
    unsigned at;
    wb_status status;

    server_start(true, NULL, NULL);
    up();
    at = seen_count;
    server_freeze();
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(ask_as(STORE_PUT, "chat.late", "1", 0, 20000), WB_OK);
    loop_turn(loop, 0);
    server_stop();
    do { /* until the store knows too, each one that it takes ends */
        status = ask_as(STORE_PUT, "chat.late", "2", 0, 20000);
        loop_turn(loop, 10);
    } while (status == WB_OK && asked < TOKENS_MAX);
    ck_assert_int_eq(status, WB_CLOSED);
    at = await_state(at, "records", STORE_AWAY);
    await_all(); /* long before their time */
    each_ended_once();
    for (unsigned i = 0; i < asked; i++)
        ck_assert(outcomes[i].status == WB_TIMED_OUT || outcomes[i].status == WB_CLOSED);
    server_start(true, NULL, NULL);
    await_state(at, "records", STORE_BOUND);
    ck_assert_int_eq(ask(STORE_GET, "chat.late", NULL, 0)->status, WB_NOT_FOUND);
    store_down();
}
END_TEST

START_TEST(a_bucket_that_went_away_closes_requests_and_comes_again)
{
    unsigned at;
    const struct outcome *o;

    server_start(true, NULL, NULL);
    up();
    at = seen_count;
    with_stream(delete_bucket, NULL);
    o = ask(STORE_PUT, "chat.a", "1", 0);
    ck_assert_int_eq(o->status, WB_CLOSED);
    await_state(at, "records", STORE_CREATED); /* nobody had to ask for it */
    ck_assert_int_eq(ask(STORE_PUT, "chat.a", "1", 0)->status, WB_OK);
    at = seen_count;
    with_stream(delete_bucket, NULL);
    ck_assert_int_eq(ask(STORE_GET, "chat.a", NULL, 0)->status, WB_CLOSED);
    await_state(at, "records", STORE_CREATED);
    store_down();
}
END_TEST

START_TEST(what_nats_refuses_is_denied)
{
    char conf[128];
    const struct outcome *o;

    write_text("auth.conf",
               "authorization { users = [ { user: a, password: b, permissions: { subscribe: "
               "\"waybill.inbox.router-1.>\", publish: [\"$JS.API.>\"] } } ] }\n",
               conf);
    server_start(true, "-c", conf);
    asked = ended = 0;
    memset(outcomes, 0, sizeof(outcomes));
    store_up_as((struct store_connection){.user = "a", .password = "b"}, &bucket,
                (struct store_events){.done = on_done});
    await_state(0, "records", STORE_CREATED);
    ck_assert_int_eq(ask_as(STORE_PUT, "chat.a", "1", 0, 1500), WB_OK);
    await_all();
    o = &outcomes[0];
    ck_assert_int_eq(o->status, WB_DENIED);
    store_down();
}
END_TEST

START_TEST(a_full_bucket_says_so)
{
    struct store_bucket small = bucket;
    static char value[4000];
    const struct outcome *o;

    memset(value, 'x', sizeof(value) - 1);
    small.max_bytes = 10000;
    server_start(true, NULL, NULL);
    asked = ended = 0;
    memset(outcomes, 0, sizeof(outcomes));
    store_up_as((struct store_connection){0}, &small, (struct store_events){.done = on_done});
    await_state(0, "records", STORE_CREATED);
    ck_assert_int_eq(ask(STORE_PUT, "chat.a", value, 0)->status, WB_OK);
    ck_assert_int_eq(ask(STORE_PUT, "chat.b", value, 0)->status, WB_OK);
    o = ask(STORE_PUT, "chat.c", value, 0);
    ck_assert_int_eq(o->status, WB_FULL);
    store_down();
}
END_TEST

START_TEST(a_value_over_the_servers_limit_is_too_large)
{
    static char value[2 << 20];

    memset(value, 'x', sizeof(value) - 1);
    server_start(true, NULL, NULL);
    up();
    ck_assert_int_eq(ask(STORE_PUT, "chat.a", value, 0)->status, WB_TOO_LARGE);
    ck_assert_int_eq(ask(STORE_PUT, "chat.a", "1", 0)->status, WB_OK); /* and the link lives */
    value[900000] = '\0';
    ck_assert_int_eq(ask(STORE_PUT, "chat.b", value, 0)->status, WB_OK);
    ck_assert_int_eq(ask(STORE_GET, "chat.b", NULL, 0)->status, WB_OK);
    ck_assert_uint_eq(strlen(outcomes[asked - 1].value), sizeof(outcomes[0].value) - 1);
    store_down();
}
END_TEST

START_TEST(bad_requests_are_refused_and_never_end)
{
    static const char *const bad[] = {
        "", "a b", "a\r\nPUB x 0\r\n", ".a", "a.", "a..b", "a.*", ">", "\"", "a\\"};
    struct store_request request = {.bucket = "other", .key = SPAN_LIT("a"), .timeout_ms = 1};

    server_start(true, NULL, NULL);
    up();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_int_eq(ask_as(STORE_PUT, bad[i], "1", 0, 1000), WB_INVALID);
    ck_assert_int_eq(ask_as(STORE_DELETE, "a", NULL, 0, 1000), WB_INVALID);
    ck_assert_int_eq(ask_as(STORE_GET, "a", NULL, 0, 0), WB_INVALID);
    ck_assert_int_eq(store_send(store, &request), WB_INVALID);
    loop_turn(loop, 50);
    ck_assert_uint_eq(ended, 0);
    store_down();
}
END_TEST

START_TEST(without_a_link_requests_are_refused)
{
    asked = ended = 0;
    store_up_as((struct store_connection){0}, &bucket, (struct store_events){.done = on_done});
    ck_assert_int_eq(ask_as(STORE_GET, "a", NULL, 0, 1000), WB_CLOSED);
    await_state(0, "records", STORE_AWAY);
    ck_assert_int_eq(ask_as(STORE_GET, "a", NULL, 0, 1000), WB_CLOSED);
    store_down();
}
END_TEST

START_TEST(the_end_in_the_midst_of_requests_is_silent)
{
    unsigned before;

    server_start(true, NULL, NULL);
    up();
    for (int i = 0; i < PUTS; i++)
        ck_assert_int_eq(ask_as(i % 2 ? STORE_GET : STORE_PUT, "chat.k", "1", 0, 30000), WB_OK);
    loop_turn(loop, 5);
    before = ended;
    ck_assert_int_lt(store_down(), 2500);
    ck_assert_uint_eq(ended, before);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("requests");

    tcase_add_test(tcase, create_update_conflict_delete_read);
    tcase_add_test(tcase, a_create_goes_over_a_marker_but_not_over_a_value);
    tcase_add_test(tcase, twenty_thousand_puts_are_pipelined);
    tcase_add_test(tcase, what_is_under_way_is_bounded);
    tcase_add_test(tcase, a_frozen_server_times_out_in_time_and_once_then_heals);
    tcase_add_test(tcase, a_request_that_nobody_answers_has_its_bucket_looked_at);
    tcase_add_test(tcase, a_lost_link_ends_what_is_under_way_and_nothing_is_sent_later);
    tcase_add_test(tcase, a_bucket_that_went_away_closes_requests_and_comes_again);
    tcase_add_test(tcase, what_nats_refuses_is_denied);
    tcase_add_test(tcase, a_full_bucket_says_so);
    tcase_add_test(tcase, a_value_over_the_servers_limit_is_too_large);
    tcase_add_test(tcase, bad_requests_are_refused_and_never_end);
    tcase_add_test(tcase, without_a_link_requests_are_refused);
    tcase_add_test(tcase, the_end_in_the_midst_of_requests_is_silent);
    return run_all("requests", tcase);
}
