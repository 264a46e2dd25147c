/* The store against a real nats-server: skipped by name only where there is none on the path. */
#include "fixture.h"

static void read_config(jsCtx *js, void *arg)
{
    jsStreamInfo *info = NULL;

    ck_assert_int_eq(js_GetStreamInfo(&info, js, "KV_records", NULL, NULL), NATS_OK);
    *(jsStreamConfig *)arg = *info->Config;
    jsStreamInfo_Destroy(info);
}

static void create_other(jsCtx *js, void *arg)
{
    kvConfig cfg;
    kvStore *kv = NULL;

    (void)arg;
    kvConfig_Init(&cfg);
    cfg.Bucket = "records";
    cfg.History = 7;
    cfg.TTL = 99 * 1000000000LL;
    ck_assert_int_eq(js_CreateKeyValue(&kv, js, &cfg), NATS_OK);
    kvStore_Destroy(kv);
}

static void put_and_get(jsCtx *js, void *arg)
{
    kvStore *kv = NULL;
    kvEntry *entry = NULL;

    (void)arg;
    ck_assert_int_eq(js_KeyValue(&kv, js, "records"), NATS_OK);
    ck_assert_int_eq(kvStore_PutString(NULL, kv, "chat.r-1", "{}"), NATS_OK);
    ck_assert_int_eq(kvStore_Delete(kv, "chat.r-1"), NATS_OK);
    ck_assert_int_eq(kvStore_PutString(NULL, kv, "chat.r-1", "{}"), NATS_OK);
    ck_assert_int_eq(kvStore_Get(&entry, kv, "chat.r-1"), NATS_OK);
    kvEntry_Destroy(entry);
    kvStore_Destroy(kv);
}

START_TEST(a_missing_bucket_is_created_as_asked)
{
    jsStreamConfig cfg;

    server_start(true, NULL, NULL);
    store_up((struct store_connection){0});
    await_state(0, "records", STORE_CREATED);
    with_stream(read_config, &cfg);
    ck_assert_int_eq(cfg.MaxAge, 3600LL * 1000000000);
    ck_assert_int_eq(cfg.MaxMsgsPerSubject, 2);
    ck_assert_int_eq(cfg.MaxBytes, 1 << 20);
    ck_assert_int_eq(cfg.Replicas, 1);
    ck_assert_int_eq(cfg.Storage, js_FileStorage);
    ck_assert_int_eq(cfg.Discard, js_DiscardNew);
    ck_assert(cfg.AllowDirect && cfg.AllowRollup && cfg.DenyDelete);
    with_stream(put_and_get, NULL); /* it is a bucket to nats.c as well */
    ck_assert_int_lt(store_down(), 2500);
}
END_TEST

START_TEST(an_existing_bucket_keeps_its_settings)
{
    jsStreamConfig cfg;

    server_start(true, NULL, NULL);
    with_stream(create_other, NULL);
    store_up((struct store_connection){0});
    await_state(0, "records", STORE_BOUND);
    with_stream(read_config, &cfg);
    ck_assert_int_eq(cfg.MaxMsgsPerSubject, 7);
    ck_assert_int_eq(cfg.MaxAge, 99LL * 1000000000);
    store_down();
}
END_TEST

START_TEST(without_jetstream_it_is_away_until_a_server_has_it)
{
    unsigned at;

    server_start(false, NULL, NULL);
    store_up((struct store_connection){0});
    at = await_state(0, "records", STORE_AWAY);
    ck_assert_msg(strstr(seen[at].why, "JetStream") != NULL, "%s", seen[at].why);
    server_stop();
    server_start(true, NULL, NULL);
    await_state(at, "records", STORE_CREATED);
    store_down();
}
END_TEST

START_TEST(a_server_that_comes_late_is_found)
{
    unsigned at;

    store_up((struct store_connection){0});
    at = await_state(0, "records", STORE_AWAY);
    server_start(true, NULL, NULL);
    await_state(at, "records", STORE_CREATED);
    store_down();
}
END_TEST

START_TEST(a_restart_is_told_both_ways)
{
    unsigned at;

    server_start(true, NULL, NULL);
    store_up((struct store_connection){0});
    at = await_state(0, "records", STORE_CREATED);
    server_stop();
    at = await_state(at, "records", STORE_AWAY);
    server_start(true, NULL, NULL);
    await_state(at, "records", STORE_BOUND);
    store_down();
}
END_TEST

START_TEST(a_deleted_bucket_is_made_again_on_recheck)
{
    unsigned at;

    server_start(true, NULL, NULL);
    with_stream(create_other, NULL);
    store_up((struct store_connection){0});
    at = await_state(0, "records", STORE_BOUND);
    store_recheck(store, "records");
    at = await_state(at + 1, "records", STORE_BOUND); /* an answer even where all is as it was */
    with_stream(delete_bucket, NULL);
    store_recheck(store, "records");
    store_recheck(store, "no-such-bucket");
    await_state(at, "records", STORE_CREATED);
    store_down();
}
END_TEST

START_TEST(a_frozen_server_does_not_hold_the_end)
{
    unsigned at;

    server_start(true, NULL, NULL);
    store_up((struct store_connection){0});
    at = await_state(0, "records", STORE_CREATED);
    server_freeze();
    store_recheck(store, "records");
    await_state(at, "records", STORE_AWAY); /* in the midst of its tries */
    store_recheck(store, "records");
    ck_assert_int_lt(store_down(), 3000);
}
END_TEST

START_TEST(wrong_credentials_never_end_it)
{
    unsigned at;

    server_start(true, "--auth", "right");
    store_up((struct store_connection){.token = "wrong"});
    at = await_state(0, "records", STORE_AWAY);
    /* On a slow machine nats.c has not heard of the refusal when it is first asked: the reason
     * follows. */
    while (strstr(seen[at].why, "uthorization") == NULL)
        at = await_state(at + 1, "records", STORE_AWAY);
    server_stop();
    server_start(true, "--auth", "wrong");
    await_state(at, "records", STORE_CREATED);
    store_down();
}
END_TEST

START_TEST(tls_that_was_asked_for_is_never_given_up)
{
    server_start(true, NULL, NULL);
    store_up((struct store_connection){.tls = true});
    await_state(0, "records", STORE_AWAY);
    for (unsigned i = 0; i < seen_count; i++)
        ck_assert_int_eq(seen[i].state, STORE_AWAY);
    store_down();
}
END_TEST

START_TEST(bad_names_are_refused_and_nothing_started_ends_too)
{
    static const struct store_events events = {.bucket = on_bucket};
    static const char *const bad[] = {"", "a b", "a\r\nPUB x 0\r\n", "a.b", "*", ">"};
    struct store_connection c = {.url = url};
    struct store_bucket b = wanted;

    loop = loop_create();
    store = store_create(loop, &c, &events, &seen_count);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        b.name = bad[i];
        ck_assert_int_eq(store_want(store, &b), WB_INVALID);
    }
    ck_assert_int_eq(store_want(store, &wanted), WB_OK);
    ck_assert_int_eq(store_want(store, &wanted), WB_EXISTS);
    store_down();
    store_destroy(NULL);
}
END_TEST

static wb_status public_of(const char *seed, char out[STORE_NKEY_PUBLIC_SIZE])
{
    if (strcmp(seed, "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY") != 0)
        return WB_INVALID;
    snprintf(out, STORE_NKEY_PUBLIC_SIZE,
             "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4");
    return WB_OK;
}

START_TEST(an_nkey_signs_in)
{
    char conf[128], key[128];

    write_text("auth.conf",
               "authorization { users = [ { nkey: "
               "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 } ] }\n",
               conf);
    write_text("user.nk",
               "# a comment\nSUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n", key);
    server_start(true, "-c", conf);
    store_up((struct store_connection){.nkey_file = key, .nkey_public = public_of});
    await_state(0, "records", STORE_CREATED);
    store_down();
}
END_TEST

static int gate[2];
static _Atomic int held; /* the thread that waits at the gate */

static wb_status wait_at_gate(const char *seed, char out[STORE_NKEY_PUBLIC_SIZE])
{
    char byte;

    (void)seed;
    (void)out;
    held = gettid();
    ck_assert_int_eq(read(gate[0], &byte, 1), 1);
    return WB_INVALID;
}

START_TEST(a_call_that_does_not_end_is_left_behind_and_frees_the_store)
{
    struct store_bucket watched = wanted;
    char key[128], task[64];
    mono until = mono_add_ms(clock_mono(), PATIENCE_MS);
    int64_t ms;

    ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
    write_text("user.nk", "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n", key);
    watched.watch = true;
    store_up_as((struct store_connection){.nkey_file = key, .nkey_public = wait_at_gate}, &watched,
                (struct store_events){0});
    while (!held)
        loop_turn(loop, 10);
    ms = store_down();
    ck_assert_int_ge(ms, 1900);
    ck_assert_int_lt(ms, 3000);
    snprintf(task, sizeof(task), "/proc/self/task/%d", held);
    ck_assert_int_eq(write(gate[1], "", 1), 1);
    while (access(task, F_OK) == 0) { /* what it leaves is the leak checker's to find */
        ck_assert(mono_before(clock_mono(), until));
        poll(NULL, 0, 10);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("store");

    tcase_add_test(tcase, a_missing_bucket_is_created_as_asked);
    tcase_add_test(tcase, an_existing_bucket_keeps_its_settings);
    tcase_add_test(tcase, without_jetstream_it_is_away_until_a_server_has_it);
    tcase_add_test(tcase, a_server_that_comes_late_is_found);
    tcase_add_test(tcase, a_restart_is_told_both_ways);
    tcase_add_test(tcase, a_deleted_bucket_is_made_again_on_recheck);
    tcase_add_test(tcase, a_frozen_server_does_not_hold_the_end);
    tcase_add_test(tcase, wrong_credentials_never_end_it);
    tcase_add_test(tcase, tls_that_was_asked_for_is_never_given_up);
    tcase_add_test(tcase, bad_names_are_refused_and_nothing_started_ends_too);
    tcase_add_test(tcase, an_nkey_signs_in);
    tcase_add_test(tcase, a_call_that_does_not_end_is_left_behind_and_frees_the_store);
    return run_all("store", tcase);
}
