/* A nats-server of the test's own, a loop, a store on both, and what the store has said. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

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
#include "store/store.h"
#include "support/free_port.h"

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

static inline bool listens(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (struct sockaddr *)&address, sizeof(address));

    close(fd);
    return !failed;
}

static inline void server_start(bool jetstream, const char *extra, const char *extra_value)
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

static inline void server_stop(void)
{
    if (server <= 0)
        return;
    kill(server, SIGKILL); /* a frozen one too, without a chance to say more */
    waitpid(server, NULL, 0);
    server = 0;
}

/* Returns when it stands still: a signal alone lets its other threads finish what they do. */
static inline void server_freeze(void)
{
    int status;

    kill(server, SIGSTOP);
    ck_assert_int_eq(waitpid(server, &status, WUNTRACED), server);
    ck_assert(WIFSTOPPED(status));
}

static inline void on_bucket(void *arg, const char *bucket, enum store_bucket_state state,
                             const char *why)
{
    ck_assert_ptr_eq(arg, &seen_count);
    ck_assert_uint_lt(seen_count, SEEN_MAX);
    snprintf(seen[seen_count].bucket, sizeof(seen[0].bucket), "%s", bucket);
    snprintf(seen[seen_count].why, sizeof(seen[0].why), "%s", why);
    seen[seen_count++].state = state;
}

/* Turns the loop until the store says so (from the from-th word on); the word's place. */
static inline unsigned await_state(unsigned from, const char *bucket, enum store_bucket_state state)
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

/* A store with one bucket; `events` without .bucket. */
static inline void store_up_as(struct store_connection c, const struct store_bucket *bucket,
                               struct store_events events)
{
    events.bucket = on_bucket;
    c.url = url;
    c.name = "store-test";
    c.inbox_prefix = "waybill.inbox.router-1";
    loop = loop_create();
    store = store_create(loop, &c, &events, &seen_count);
    ck_assert_ptr_nonnull(store);
    ck_assert_int_eq(store_want(store, bucket), WB_OK);
    ck_assert_int_eq(store_start(store), WB_OK);
}

static inline void store_up(struct store_connection c)
{
    store_up_as(c, &wanted, (struct store_events){0});
}

static inline int64_t store_down(void)
{
    mono start = clock_mono();
    int64_t us;

    store_destroy(store);
    us = mono_diff_us(clock_mono(), start);
    loop_destroy(loop);
    return us / 1000;
}

static inline void setup(void)
{
    seen_count = 0;
    snprintf(dir, sizeof(dir), "/tmp/wb-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    port = free_port();
    snprintf(url, sizeof(url), "nats://127.0.0.1:%d", port);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void teardown(void)
{
    server_stop();
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The bucket's stream as the server has it. */
static inline void with_stream(void (*fn)(jsCtx *js, void *arg), void *arg)
{
    natsConnection *nc = NULL;
    jsCtx *js = NULL;

    ck_assert_int_eq(natsConnection_ConnectTo(&nc, url), NATS_OK);
    ck_assert_int_eq(natsConnection_JetStream(&js, nc, NULL), NATS_OK);
    fn(js, arg);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
}

static inline void delete_bucket(jsCtx *js, void *arg)
{
    (void)arg;
    ck_assert_int_eq(js_DeleteKeyValue(js, "records"), NATS_OK);
}

static inline void write_text(const char *name, const char *text, char path[128])
{
    FILE *file;

    snprintf(path, 128, "%s/%s", dir, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* Runs the tests with a directory and a port of its own for each; main's result. */
static inline int run_all(const char *name, TCase *tcase)
{
    Suite *suite = suite_create(name);
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
