/* The watch against a real nats-server: what the loop is told is what the bucket holds, and where
 * something may have been missed it is told so. */
#include "fixture.h"

enum { KEYS = 20000 };

static const struct store_bucket bucket = {.name = "records",
                                           .ttl_s = 3600,
                                           .history = 1,
                                           .max_bytes = 64 << 20,
                                           .replicas = 1,
                                           .watch = true};

/* What the watch has told. Keys are "k.<number>". */
static struct {
    unsigned begun, another, current, lost, entries;
    bool reading; /* between BEGUN and LOST */
    bool is_current;
    struct {
        uint64_t revision;
        bool deleted;
        char value[16];
    } keys[KEYS];
    uint64_t newest;
} told;
static unsigned ended;
static wb_status last_status;

static void on_entry(const struct store_entry *entry)
{
    char key[32];
    int number;

    ck_assert(told.reading);
    snprintf(key, sizeof(key), "%.*s", (int)entry->key.len, entry->key.ptr);
    ck_assert_int_eq(sscanf(key, "k.%d", &number), 1);
    ck_assert_int_lt(number, KEYS);
    ck_assert_uint_gt(entry->revision, told.newest); /* in order, none twice */
    ck_assert_int_lt(llabs(clock_wall().us - entry->created.us), 120 * 1000000LL);
    ck_assert(!entry->deleted || entry->value.len == 0);
    told.newest = entry->revision;
    told.keys[number].revision = entry->revision;
    told.keys[number].deleted = entry->deleted;
    snprintf(told.keys[number].value, sizeof(told.keys[0].value), "%.*s", (int)entry->value.len,
             entry->value.ptr);
    told.entries++;
}

static void on_watch(void *arg, const char *name, enum store_watch_event event, bool another,
                     const struct store_entry *entry)
{
    ck_assert_ptr_eq(arg, &seen_count);
    ck_assert_str_eq(name, "records");
    ck_assert_int_eq(event == STORE_WATCH_ENTRY, entry != NULL);
    ck_assert(!another || event == STORE_WATCH_BEGUN);
    if (event == STORE_WATCH_BEGUN) {
        ck_assert(!told.reading);
        told.reading = true;
        told.is_current = false;
        told.newest = 0;
        memset(told.keys, 0, sizeof(told.keys)); /* what does not come is not there */
        told.begun++;
        told.another += another;
    } else if (event == STORE_WATCH_ENTRY) {
        on_entry(entry);
    } else if (event == STORE_WATCH_CURRENT) {
        ck_assert(told.reading && !told.is_current);
        told.is_current = true;
        told.current++;
    } else {
        ck_assert(told.reading);
        told.reading = told.is_current = false;
        told.lost++;
    }
}

static void on_done(void *arg, uint64_t token, wb_status status, const struct store_entry *entry)
{
    (void)arg;
    (void)token;
    (void)entry;
    last_status = status;
    ended++;
}

static void up(void)
{
    memset(&told, 0, sizeof(told));
    ended = 0;
    store_up_as((struct store_connection){0}, &bucket,
                (struct store_events){.done = on_done, .watch = on_watch});
}

/* Turns the loop until the condition holds. */
#define await(condition)                                                                           \
    do {                                                                                           \
        mono until_ = mono_add_ms(clock_mono(), PATIENCE_MS);                                      \
                                                                                                   \
        while (!(condition)) {                                                                     \
            ck_assert_msg(mono_before(clock_mono(), until_), "never: %s (%u begun, %u lost)",      \
                          #condition, told.begun, told.lost);                                      \
            loop_turn(loop, 50);                                                                   \
        }                                                                                          \
    } while (0)

/* From outside: a connection that has nothing to do with the store's. */
static natsConnection *nc;
static jsCtx *js;
static kvStore *kv;

static void outside(void)
{
    ck_assert_int_eq(natsConnection_ConnectTo(&nc, url), NATS_OK);
    ck_assert_int_eq(natsConnection_JetStream(&js, nc, NULL), NATS_OK);
    ck_assert_int_eq(js_KeyValue(&kv, js, "records"), NATS_OK);
}

static void inside(void)
{
    kvStore_Destroy(kv);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
    kv = NULL;
    js = NULL;
    nc = NULL;
}

static void put(int number, const char *value)
{
    char key[32];

    snprintf(key, sizeof(key), "k.%d", number);
    ck_assert_int_eq(kvStore_PutString(NULL, kv, key, value), NATS_OK);
}

static void put_many(int from, int to, const char *value)
{
    char subject[48];

    for (int i = from; i < to; i++) {
        snprintf(subject, sizeof(subject), "$KV.records.k.%d", i);
        ck_assert_int_eq(js_PublishAsync(js, subject, value, (int)strlen(value), NULL), NATS_OK);
    }
    ck_assert_int_eq(js_PublishAsyncComplete(js, NULL), NATS_OK);
}

static bool has(int number, const char *value)
{
    return told.keys[number].revision && !told.keys[number].deleted &&
           strcmp(told.keys[number].value, value) == 0;
}

static void own_put(int number, const char *value)
{
    char key[32];
    struct store_request request = {.op = STORE_PUT,
                                    .bucket = "records",
                                    .value = span_str(value),
                                    .expect = told.keys[number].revision,
                                    .timeout_ms = 10000};

    snprintf(key, sizeof(key), "k.%d", number);
    request.key = span_str(key);
    ck_assert_int_eq(store_send(store, &request), WB_OK);
}

START_TEST(an_empty_bucket_is_current_at_once)
{
    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    ck_assert_uint_eq(told.entries, 0);
    ck_assert_uint_eq(told.another, 0);
    own_put(1, "one");
    await(has(1, "one") && ended == 1);
    ck_assert_int_eq(last_status, WB_OK);
    ck_assert_int_lt(store_down(), 2500);
}
END_TEST

START_TEST(what_others_do_is_seen)
{
    uint64_t revision;

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    put(1, "one");
    put(2, "two");
    put(3, "three");
    await(has(1, "one") && has(2, "two") && has(3, "three"));
    ck_assert_int_eq(kvStore_Delete(kv, "k.1"), NATS_OK);
    await(told.keys[1].deleted);
    ck_assert_int_eq(kvStore_Purge(kv, "k.2", NULL), NATS_OK);
    await(told.keys[2].deleted);
    revision = told.keys[3].revision;
    ck_assert_int_eq(kvStore_UpdateString(NULL, kv, "k.3", "more", revision), NATS_OK);
    await(has(3, "more"));
    put(1, ""); /* no marker, an empty value */
    await(has(1, ""));
    ck_assert_uint_eq(told.begun, 1);
    ck_assert_uint_eq(told.lost, 0);
    inside();
    store_down();
}
END_TEST

START_TEST(twenty_thousand_keys_are_read_at_the_beginning)
{
    server_start(true, NULL, NULL);
    store_up_as((struct store_connection){0},
                &(struct store_bucket){.name = "records", .ttl_s = 3600, .history = 1},
                (struct store_events){0});
    await_state(0, "records", STORE_CREATED);
    store_down();
    outside();
    put_many(0, KEYS, "v");
    ck_assert_int_eq(kvStore_Delete(kv, "k.7"), NATS_OK);
    inside();
    seen_count = 0;
    up();
    await(told.is_current);
    ck_assert_uint_eq(told.entries, KEYS);
    for (int i = 0; i < KEYS; i++)
        ck_assert(i == 7 ? told.keys[i].deleted : has(i, "v"));
    ck_assert_uint_eq(told.lost, 0);
    store_down();
}
END_TEST

START_TEST(a_slow_loop_loses_nothing)
{
    mono until;

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    put_many(0, KEYS, "v"); /* five times what the inbox holds, and the loop stands still */
    until = mono_add_ms(clock_mono(), 3500); /* longer than the watch bears silence */
    while (mono_before(clock_mono(), until))
        put(7, "w");
    put(7, "z");
    await(has(7, "z"));
    for (int i = 0; i < KEYS; i++)
        ck_assert(has(i, i == 7 ? "z" : "v"));
    ck_assert_uint_eq(told.begun, 1);
    ck_assert_uint_eq(told.lost, 0);
    put(5, "w");
    await(has(5, "w"));
    inside();
    store_down();
}
END_TEST

START_TEST(a_restart_begins_a_fresh_reading)
{
    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    put_many(0, 500, "v");
    await(told.entries == 500);
    inside();
    server_stop();
    await(told.lost == 1);
    server_start(true, NULL, NULL);
    await(told.is_current);
    ck_assert_uint_eq(told.begun, 2);
    ck_assert_uint_eq(told.another, 0);
    for (int i = 0; i < 500; i++)
        ck_assert(has(i, "v"));
    outside();
    put(1, "w");
    await(has(1, "w"));
    inside();
    store_down();
}
END_TEST

START_TEST(a_frozen_server_is_a_gap)
{
    mono start;

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    server_freeze();
    start = clock_mono();
    await(told.lost == 1);
    ck_assert_int_lt(mono_diff_us(clock_mono(), start), 5000000);
    kill(server, SIGCONT);
    await(told.is_current);
    store_down();
}
END_TEST

static void recreate(jsCtx *other, void *arg)
{
    kvConfig cfg;
    kvStore *made = NULL;

    (void)arg;
    ck_assert_int_eq(js_DeleteKeyValue(other, "records"), NATS_OK);
    kvConfig_Init(&cfg);
    cfg.Bucket = "records";
    ck_assert_int_eq(js_CreateKeyValue(&made, other, &cfg), NATS_OK);
    ck_assert_int_eq(kvStore_PutString(NULL, made, "k.9", "new"), NATS_OK);
    kvStore_Destroy(made);
}

START_TEST(a_bucket_made_anew_is_told_as_another)
{
    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    own_put(1, "old");
    await(has(1, "old"));
    with_stream(recreate, NULL);
    await(told.lost == 1);
    await(told.is_current);
    ck_assert_uint_eq(told.another, 1);
    await(has(9, "new"));
    ck_assert(!has(1, "old"));
    store_down();
}
END_TEST

START_TEST(a_deleted_bucket_is_lost_and_its_successor_is_another)
{
    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    own_put(1, "old");
    await(has(1, "old"));
    with_stream(delete_bucket, NULL);
    await(told.lost == 1);
    await(told.is_current); /* the store has made it again */
    ck_assert_uint_eq(told.another, 1);
    ck_assert_uint_eq(told.begun, 2);
    ck_assert(!has(1, "old"));
    store_down();
}
END_TEST

/* The name of the one consumer of the bucket. */
static void consumer_name(char out[128])
{
    natsMsg *msg = NULL;
    const char *at, *end;

    ck_assert_int_eq(
        natsConnection_RequestString(&msg, nc, "$JS.API.CONSUMER.NAMES.KV_records", "", 5000),
        NATS_OK);
    at = strstr(natsMsg_GetData(msg), "\"consumers\":[\"");
    ck_assert_ptr_nonnull(at);
    at += strlen("\"consumers\":[\"");
    end = strchr(at, '"');
    snprintf(out, 128, "%.*s", (int)(end - at), at);
    natsMsg_Destroy(msg);
}

/* False: this server knows no such thing. */
static bool ask_api(const char *what, const char *consumer, const char *body)
{
    char subject[256];
    natsMsg *msg = NULL;
    natsStatus s;

    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.%s.KV_records.%s", what, consumer);
    s = natsConnection_RequestString(&msg, nc, subject, body, 5000);
    natsMsg_Destroy(msg);
    return s == NATS_OK;
}

START_TEST(a_consumer_deleted_behind_its_back_is_made_again)
{
    char name[128];
    mono start;

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    consumer_name(name);
    ck_assert(ask_api("DELETE", name, ""));
    start = clock_mono();
    put(1, "unseen");
    await(told.lost == 1);
    await(told.is_current && has(1, "unseen"));
    ck_assert_int_lt(mono_diff_us(clock_mono(), start), 8000000);
    ck_assert_uint_eq(told.another, 0);
    put(1, "seen");
    await(has(1, "seen"));
    inside();
    store_down();
}
END_TEST

/* A paused consumer beats on but pushes nothing: only the stream's own word tells. Servers before
 * 2.11 cannot pause. */
START_TEST(a_consumer_that_lags_is_made_again)
{
    char name[128];

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    consumer_name(name);
    if (ask_api("PAUSE", name, "{\"pause_until\":\"2100-01-01T00:00:00Z\"}")) {
        put(1, "held");
        await(told.lost == 1);
        await(told.is_current && has(1, "held"));
        ck_assert_uint_eq(told.begun, 2);
    }
    inside();
    store_down();
}
END_TEST

static void make_loose(jsCtx *other, void *arg)
{
    const char *subjects[] = {"$KV.records.>"};
    jsStreamConfig cfg;

    (void)arg;
    jsStreamConfig_Init(&cfg);
    cfg.Name = "KV_records";
    cfg.Subjects = subjects;
    cfg.SubjectsLen = 1;
    cfg.MaxMsgsPerSubject = 1;
    cfg.AllowRollup = true;
    ck_assert_int_eq(js_AddStream(NULL, other, &cfg, NULL, NULL), NATS_OK);
}

/* Once, a last message that was taken away looked like one that never came, again and again. */
START_TEST(a_removed_last_message_is_no_lag)
{
    mono until;
    natsMsg *msg = NULL;

    server_start(true, NULL, NULL);
    with_stream(make_loose, NULL); /* a bucket whose messages can be removed */
    up();
    await(told.is_current);
    outside();
    put(1, "stays");
    put(2, "goes");
    await(has(2, "goes"));
    ck_assert_int_eq(natsConnection_RequestString(&msg, nc, "$JS.API.STREAM.MSG.DELETE.KV_records",
                                                  "{\"seq\":2}", 5000),
                     NATS_OK);
    ck_assert_ptr_nonnull(strstr(natsMsg_GetData(msg), "true"));
    natsMsg_Destroy(msg);
    inside();
    store_down();
    seen_count = 0;
    up();
    await(told.is_current);
    ck_assert(has(1, "stays"));
    until = mono_add_ms(clock_mono(), 5000); /* longer than a check and a silence */
    while (mono_before(clock_mono(), until))
        loop_turn(loop, 50);
    ck_assert_uint_eq(told.lost, 0);
    store_down();
}
END_TEST

START_TEST(the_end_in_the_midst_of_everything_is_silent)
{
    unsigned entries, before;

    server_start(true, NULL, NULL);
    up();
    await(told.is_current);
    outside();
    put_many(0, KEYS, "v"); /* the watcher waits for room */
    for (int i = 0; i < 5000; i++)
        own_put(i, "w");
    loop_turn(loop, 0);
    entries = told.entries;
    before = ended;
    ck_assert_int_lt(store_down(), 2500);
    ck_assert_uint_eq(told.entries, entries);
    ck_assert_uint_eq(ended, before);
    inside();
    /* and while the server says nothing */
    seen_count = 0;
    up();
    await(told.begun == 1);
    own_put(1, "x");
    server_freeze();
    own_put(2, "x");
    ck_assert_int_lt(store_down(), 3000);
}
END_TEST

START_TEST(the_routers_permissions_are_enough)
{
    char conf[128];

    write_text(
        "auth.conf",
        "authorization { users = [ { user: router, password: b, permissions: {\n"
        "  subscribe: [\"waybill.inbox.router-1.>\"]\n"
        "  publish: [\"$JS.API.STREAM.NAMES\", \"$KV.records.>\", \"$JS.FC.KV_records.>\",\n"
        "    \"$JS.API.STREAM.INFO.KV_records\", \"$JS.API.STREAM.CREATE.KV_records\",\n"
        "    \"$JS.API.STREAM.MSG.GET.KV_records\", \"$JS.API.DIRECT.GET.KV_records\",\n"
        "    \"$JS.API.DIRECT.GET.KV_records.>\", \"$JS.API.CONSUMER.CREATE.KV_records\",\n"
        "    \"$JS.API.CONSUMER.CREATE.KV_records.>\", \"$JS.API.CONSUMER.DELETE.KV_records\",\n"
        "    \"$JS.API.CONSUMER.DELETE.KV_records.>\"] } } ] }\n",
        conf);
    server_start(true, "-c", conf);
    memset(&told, 0, sizeof(told));
    ended = 0;
    store_up_as((struct store_connection){.user = "router", .password = "b"}, &bucket,
                (struct store_events){.done = on_done, .watch = on_watch});
    await(told.is_current);
    for (int i = 0; i < 10000; i++) /* flow control comes after some thousands */
        own_put(i, "v");
    await(ended == 10000 && told.entries == 10000);
    ck_assert_uint_eq(told.lost, 0);
    store_down();
    seen_count = 0;
    memset(&told, 0, sizeof(told));
    store_up_as((struct store_connection){.user = "router", .password = "b"}, &bucket,
                (struct store_events){.done = on_done, .watch = on_watch});
    await(told.is_current);
    ck_assert_uint_eq(told.entries, 10000);
    store_down();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("watch");

    tcase_add_test(tcase, an_empty_bucket_is_current_at_once);
    tcase_add_test(tcase, what_others_do_is_seen);
    tcase_add_test(tcase, twenty_thousand_keys_are_read_at_the_beginning);
    tcase_add_test(tcase, a_slow_loop_loses_nothing);
    tcase_add_test(tcase, a_restart_begins_a_fresh_reading);
    tcase_add_test(tcase, a_frozen_server_is_a_gap);
    tcase_add_test(tcase, a_bucket_made_anew_is_told_as_another);
    tcase_add_test(tcase, a_deleted_bucket_is_lost_and_its_successor_is_another);
    tcase_add_test(tcase, a_consumer_deleted_behind_its_back_is_made_again);
    tcase_add_test(tcase, a_consumer_that_lags_is_made_again);
    tcase_add_test(tcase, a_removed_last_message_is_no_lag);
    tcase_add_test(tcase, the_end_in_the_midst_of_everything_is_silent);
    tcase_add_test(tcase, the_routers_permissions_are_enough);
    return run_all("watch", tcase);
}
