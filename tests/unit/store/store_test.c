/* The store against a real nats-server: skipped by name only where there is none on the path. */
#include "store/store.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <nats/nats.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"

enum { PATIENCE_MS = 15000, SEEN_MAX = 64 };

static pid_t server;
static int port;
static char url[64], dir[64];

/* What the store has said. */
static struct {
    char bucket[65];
    enum store_bucket_state state;
    char why[256];
} seen[SEEN_MAX];
static unsigned seen_count;

static struct loop *loop;
static struct store *store;

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static bool listens(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (struct sockaddr *)&address, sizeof(address));

    close(fd);
    return !failed;
}

static void server_start(bool jetstream, const char *extra, const char *extra_value)
{
    char number[16];
    mono until = mono_add_ms(clock_mono(), PATIENCE_MS);

    snprintf(number, sizeof(number), "%d", port);
    server = fork();
    if (server == 0) {
        const char *argv[16] = {"nats-server", "-a", "127.0.0.1", "-p", number};
        int n = 5, null = open("/dev/null", O_RDWR);

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no server behind */
        dup2(null, 1);
        dup2(null, 2);
        if (jetstream) {
            argv[n++] = "-js";
            argv[n++] = "-sd";
            argv[n++] = dir;
        }
        if (extra) {
            argv[n++] = extra;
            argv[n++] = extra_value;
        }
        execvp(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    while (!listens()) {
        ck_assert_msg(mono_before(clock_mono(), until), "nats-server did not start");
        poll(NULL, 0, 10);
    }
}

static void server_stop(void)
{
    if (server <= 0)
        return;
    kill(server, SIGCONT);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
}

static void on_bucket(void *arg, const char *bucket, enum store_bucket_state state, const char *why)
{
    ck_assert_ptr_eq(arg, &seen_count);
    ck_assert_uint_lt(seen_count, SEEN_MAX);
    snprintf(seen[seen_count].bucket, sizeof(seen[0].bucket), "%s", bucket);
    snprintf(seen[seen_count].why, sizeof(seen[0].why), "%s", why);
    seen[seen_count++].state = state;
}

/* Turns the loop until the store says so (from the from-th word on); the word's place. */
static unsigned await_state(unsigned from, const char *bucket, enum store_bucket_state state)
{
    mono until = mono_add_ms(clock_mono(), PATIENCE_MS);

    for (;;) {
        for (unsigned i = from; i < seen_count; i++)
            if (seen[i].state == state && strcmp(seen[i].bucket, bucket) == 0)
                return i;
        ck_assert_msg(mono_before(clock_mono(), until), "%s never came to state %d; last: %s",
                      bucket, (int)state, seen_count ? seen[seen_count - 1].why : "nothing");
        loop_turn(loop, 50);
    }
}

static const struct store_bucket wanted = {
    .name = "records", .ttl_s = 3600, .history = 2, .max_bytes = 1 << 20, .replicas = 1};

static void store_up(struct store_connection c)
{
    static const struct store_events events = {on_bucket};

    c.url = url;
    c.name = "store-test";
    c.inbox_prefix = "waybill.inbox.router-1";
    loop = loop_create();
    store = store_create(loop, &c, &events, &seen_count);
    ck_assert_ptr_nonnull(store);
    ck_assert_int_eq(store_want(store, &wanted), WB_OK);
    ck_assert_int_eq(store_start(store), WB_OK);
}

static int64_t store_down(void)
{
    mono start = clock_mono();
    int64_t us;

    store_destroy(store);
    us = mono_diff_us(clock_mono(), start);
    loop_destroy(loop);
    return us / 1000;
}

static void setup(void)
{
    seen_count = 0;
    snprintf(dir, sizeof(dir), "/tmp/wb-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    port = free_port();
    snprintf(url, sizeof(url), "nats://127.0.0.1:%d", port);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void teardown(void)
{
    server_stop();
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The bucket's stream as the server has it. */
static void with_stream(void (*fn)(jsCtx *js, void *arg), void *arg)
{
    natsConnection *nc = NULL;
    jsCtx *js = NULL;

    ck_assert_int_eq(natsConnection_ConnectTo(&nc, url), NATS_OK);
    ck_assert_int_eq(natsConnection_JetStream(&js, nc, NULL), NATS_OK);
    fn(js, arg);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
}

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

static void delete_stream(jsCtx *js, void *arg)
{
    (void)arg;
    ck_assert_int_eq(js_DeleteKeyValue(js, "records"), NATS_OK);
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
    with_stream(delete_stream, NULL);
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
    kill(server, SIGSTOP);
    store_recheck(store, "records");
    at = await_state(at, "records", STORE_AWAY); /* in the midst of its tries */
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
    static const struct store_events events = {on_bucket};
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

static void write_text(const char *name, const char *text, char path[128])
{
    FILE *file;

    snprintf(path, 128, "%s/%s", dir, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

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

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tcase = tcase_create("store");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
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
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
