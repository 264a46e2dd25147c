/* A request at a worker on libwaybill allocates what one at a responder on nats.c alone does, which
 * answers likewise; nothing on top. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "waybill/worker.h"

#include "fixture.h"

#define WARM_UP 2000
#define REQUESTS 5000
#define BATCH 100
#define STRAY (REQUESTS / 50) /* heartbeats, and buffers of nats.c that grow */

static atomic_long allocations;

/* Every allocation of the process goes through the three below: a program's own functions come
 * before those of its libraries. libc's own are found by name, which allocates nothing. */
static void *find(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        abort();
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return function;
}

void *malloc(size_t size)
{
    void *(*libc)(size_t) = find("malloc");
    return libc(size);
}

void *calloc(size_t count, size_t size)
{
    void *(*libc)(size_t, size_t) = find("calloc");
    return libc(count, size);
}

void *realloc(void *old, size_t size)
{
    void *(*libc)(void *, size_t) = find("realloc");
    return libc(old, size);
}

static natsSubscription *answers;

static void send_request(const char *subject)
{
    natsMsg *m = NULL;
    ck_assert_int_eq(natsMsg_Create(&m, subject, "waybill.reply.s.w.r1.token", "hello", 5),
                     NATS_OK);
    natsMsgHeader_Set(m, "Waybill-Request-Id", "r-1");
    natsMsgHeader_Set(m, "Waybill-Attempt", "1");
    natsMsgHeader_Set(m, "Waybill-Router", "r1");
    ck_assert_int_eq(natsConnection_PublishMsg(nc, m), NATS_OK);
    natsMsg_Destroy(m);
}

static void run(const char *subject, int requests)
{
    for (int done = 0; done < requests; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            send_request(subject);
        for (int i = 0; i < BATCH; i++) {
            natsMsg *answer = next_message(answers);
            ck_assert_str_eq(header(answer, "Waybill-Seq"), "1");
            ck_assert_str_eq(header(answer, "Waybill-End"), "true");
            natsMsg_Destroy(answer);
        }
    }
}

/* Of so many requests, once all is warm. */
static long count(const char *subject)
{
    run(subject, WARM_UP);
    long before = atomic_load(&allocations);
    run(subject, REQUESTS);
    return atomic_load(&allocations) - before;
}

static void on_plain(natsConnection *connection, natsSubscription *sub, natsMsg *m, void *arg)
{
    natsMsg *answer = NULL;
    (void)sub, (void)arg;
    ck_assert_int_eq(natsMsg_Create(&answer, natsMsg_GetReply(m), NULL, natsMsg_GetData(m),
                                    natsMsg_GetDataLength(m)),
                     NATS_OK);
    natsMsgHeader_Set(answer, "Waybill-Seq", "1");
    natsMsgHeader_Set(answer, "Waybill-End", "true");
    ck_assert_int_eq(natsConnection_PublishMsg(connection, answer), NATS_OK);
    natsMsg_Destroy(answer);
    natsMsg_Destroy(m);
}

static void on_task(void *arg, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    (void)arg;
    ck_assert_int_eq(wb_task_answer(task, data, len, NULL, 0), WB_OK);
}

START_TEST(a_request_allocates_what_nats_c_does)
{
    natsSubscription *plain = NULL;
    wb_worker *w;
    const wb_worker_options o = {
        .service = "s", .id = "w", .interval_ms = 60000, .on_task = on_task};
    ck_assert_int_eq(natsConnection_SubscribeSync(&answers, nc, "waybill.reply.>"), NATS_OK);
    ck_assert_int_eq(natsConnection_Subscribe(&plain, nc, "plain", on_plain, NULL), NATS_OK);
    ck_assert_int_eq(wb_worker_create(nc, &o, &w), WB_OK);
    ck_assert_int_eq(wb_worker_start(w), WB_OK);
    ck_assert_int_eq(natsConnection_Flush(nc), NATS_OK);

    long alone = count("plain"), ours = count("waybill.worker.s.w");
    ck_assert_msg(alone > REQUESTS, "%ld allocations: they are not counted", alone);
    ck_assert_msg(ours <= alone + STRAY, "%ld allocations for %d requests, %ld by nats.c alone",
                  ours, REQUESTS, alone);
    printf("allocations a request: %.3f, by nats.c alone %.3f\n", (double)ours / REQUESTS,
           (double)alone / REQUESTS);

    wb_worker_stop(w);
    wb_worker_destroy(w);
    natsSubscription_Destroy(plain);
    natsSubscription_Destroy(answers);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {a_request_allocates_what_nats_c_does};
    return run_suite("allocations", tests, sizeof(tests) / sizeof(tests[0]));
}
