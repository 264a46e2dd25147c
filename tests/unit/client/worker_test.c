/* The worker's side, seen by a router that this test plays. */
#include "waybill/worker.h"

#include <pthread.h>

#include "fixture.h"
#include "wire/heartbeat.h"

static wb_task *held; /* what on_keep was given */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int cancels;

static void ok(wb_status s)
{
    ck_assert_msg(s == WB_OK, "%s", wb_status_name(s));
}

static void on_echo(void *arg, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    const wb_header headers[] = {{"X-Rank", wb_task_rank(task) == 3 ? "three" : "other"}};
    (void)arg;
    ok(wb_task_answer(task, data, len, headers, 1));
}

static void on_stream(void *arg, wb_task *task)
{
    (void)arg;
    ok(wb_task_progress(task));
    ok(wb_task_send(task, "a", 1, NULL, 0));
    ck_assert_int_eq(wb_task_send(task, "", 0, NULL, 0), WB_INVALID);
    wb_task_skip(task);
    ok(wb_task_send(task, "b", 1, NULL, 0));
    ok(wb_task_end(task));
}

static void on_refuse(void *arg, wb_task *task)
{
    (void)arg;
    ok(wb_task_refuse(task, 429, 250));
}

static void on_fail(void *arg, wb_task *task)
{
    (void)arg;
    ok(wb_task_error(task, 422, "not\r\nthis", "x", 1));
}

static void on_keep(void *arg, wb_task *task)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    held = task;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_cancel(void *arg, wb_task *task)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    cancels += wb_task_cancelled(task);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static wb_task *wait_held(int cancelled)
{
    pthread_mutex_lock(&lock);
    while (held == NULL || cancels < cancelled)
        pthread_cond_wait(&changed, &lock); /* the case's own timeout is the bound */
    wb_task *task = held;
    pthread_mutex_unlock(&lock);
    return task;
}

static wb_worker *worker_with(void (*on_task)(void *arg, wb_task *task))
{
    static const char *const adapters[] = {"lora-1"};
    const wb_worker_options o = {.service = "s",
                                 .id = "w",
                                 .epoch = 7,
                                 .interval_ms = 60000,
                                 .capacity = 4,
                                 .class_name = "cpu",
                                 .adapters = adapters,
                                 .adapter_count = 1,
                                 .on_task = on_task,
                                 .on_cancel = on_cancel};
    wb_worker *w;
    ok(wb_worker_create(nc, &o, &w));
    ok(wb_worker_start(w));
    return w;
}

static natsSubscription *subscribe_to(const char *subject)
{
    natsSubscription *sub = NULL;
    ck_assert_int_eq(natsConnection_SubscribeSync(&sub, nc, subject), NATS_OK);
    ck_assert_int_eq(natsConnection_Flush(nc), NATS_OK);
    return sub;
}

static void request(const char *id)
{
    natsMsg *m = NULL;
    ck_assert_int_eq(
        natsMsg_Create(&m, "waybill.worker.s.w", "waybill.reply.s.w.r1.token", "hello", 5),
        NATS_OK);
    natsMsgHeader_Set(m, "Waybill-Request-Id", id);
    natsMsgHeader_Set(m, "Waybill-Attempt", "2");
    natsMsgHeader_Set(m, "Waybill-Router", "r1");
    natsMsgHeader_Set(m, "Waybill-Rank", "3");
    ck_assert_int_eq(natsConnection_PublishMsg(nc, m), NATS_OK);
    natsMsg_Destroy(m);
}

static void next_beat(natsSubscription *sub, struct heartbeat *hb)
{
    char why[128];
    natsMsg *m = next_message(sub);
    ok(heartbeat_decode(span_of(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m)), hb, why));
    natsMsg_Destroy(m);
}

START_TEST(an_answer_carries_data_headers_number_and_end)
{
    natsSubscription *replies = subscribe_to("waybill.reply.>");
    wb_worker *w = worker_with(on_echo);
    request("r-1");
    natsMsg *m = next_message(replies);
    ck_assert_int_eq(natsMsg_GetDataLength(m), 5);
    ck_assert_str_eq(header(m, "X-Rank"), "three");
    ck_assert_str_eq(header(m, "Waybill-Seq"), "1");
    ck_assert_str_eq(header(m, "Waybill-End"), "true");
    natsMsg_Destroy(m);
    natsSubscription_Destroy(replies);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(a_stream_is_numbered_its_end_too_and_progress_is_not)
{
    static const char *const numbers[] = {NULL, "1", "3", "4"};
    natsSubscription *replies = subscribe_to("waybill.reply.>");
    wb_worker *w = worker_with(on_stream);
    request("r-1");
    for (int i = 0; i < 4; i++) {
        natsMsg *m = next_message(replies);
        ck_assert_pstr_eq(header(m, "Waybill-Seq"), numbers[i]);
        ck_assert_pstr_eq(header(m, "Waybill-Progress"), i == 0 ? "true" : NULL);
        ck_assert_pstr_eq(header(m, "Waybill-End"), i == 3 ? "true" : NULL);
        natsMsg_Destroy(m);
    }
    natsSubscription_Destroy(replies);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(refusals_and_errors_say_code_and_time_and_no_line_break_gets_out)
{
    natsSubscription *replies = subscribe_to("waybill.reply.>");
    wb_worker *w = worker_with(on_refuse);
    request("r-1");
    natsMsg *m = next_message(replies);
    ck_assert_str_eq(header(m, "Nats-Service-Error-Code"), "429");
    ck_assert_str_eq(header(m, "Waybill-Retry-After-Ms"), "250");
    natsMsg_Destroy(m);
    wb_worker_destroy(w);
    w = worker_with(on_fail);
    request("r-2");
    m = next_message(replies);
    ck_assert_str_eq(header(m, "Nats-Service-Error-Code"), "422");
    ck_assert_str_eq(header(m, "Nats-Service-Error"), "not  this");
    natsMsg_Destroy(m);
    natsSubscription_Destroy(replies);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(heartbeats_tell_all_and_load_by_router)
{
    struct heartbeat hb;
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w");
    held = NULL;
    wb_worker *w = worker_with(on_keep);
    next_beat(beats, &hb);
    ck_assert_int_eq(hb.epoch, 7);
    ck_assert_int_eq(hb.state, HB_READY);
    ck_assert_uint_eq(hb.capacity, 4);
    ck_assert_str_eq(hb.class_name, "cpu");
    ck_assert(hb.has_adapters && hb.adapter_count == 1 && span_eq_str(hb.adapters[0], "lora-1"));
    heartbeat_fini(&hb);
    request("r-1");
    wb_task *task = wait_held(0);
    natsConnection_PublishString(nc, "waybill.announce", "");
    next_beat(beats, &hb);
    ck_assert_uint_eq(hb.inflight, 1);
    ck_assert(hb.has_inflight_by && hb.inflight_by_count == 1);
    ck_assert(span_eq_str(hb.inflight_by[0].router, "r1") && hb.inflight_by[0].count == 1);
    heartbeat_fini(&hb);
    ok(wb_task_answer(task, "x", 1, NULL, 0));
    wb_worker_set_busy(w, true);
    next_beat(beats, &hb);
    ck_assert_int_eq(hb.state, HB_BUSY);
    ck_assert_uint_eq(hb.inflight, 0);
    heartbeat_fini(&hb);
    natsSubscription_Destroy(beats);
    wb_worker_destroy(w);
}
END_TEST

static wb_worker *worker_telling_load(uint32_t load_ms)
{
    static const char *const adapters[] = {"lora-1"};
    const wb_worker_options o = {.service = "s",
                                 .id = "w",
                                 .interval_ms = 60000,
                                 .load_ms = load_ms,
                                 .capacity = 4,
                                 .adapters = adapters,
                                 .adapter_count = 1,
                                 .on_task = on_keep};
    wb_worker *w;
    held = NULL;
    ok(wb_worker_create(nc, &o, &w));
    ok(wb_worker_start(w));
    return w;
}

static wb_task *take_held(void)
{
    wb_task *task = wait_held(0);
    pthread_mutex_lock(&lock);
    held = NULL;
    pthread_mutex_unlock(&lock);
    return task;
}

static void expect_load(natsSubscription *beats, uint32_t inflight, bool full)
{
    struct heartbeat hb;
    next_beat(beats, &hb);
    ck_assert_uint_eq(hb.inflight, inflight);
    ck_assert(hb.has_inflight_by && hb.inflight_by_count == (inflight > 0));
    if (inflight > 0)
        ck_assert(span_eq_str(hb.inflight_by[0].router, "r1") &&
                  hb.inflight_by[0].count == inflight);
    ck_assert_uint_eq(hb.has_adapters, full);
    ck_assert_uint_eq(hb.capacity, 4); /* what is left out would take its default */
    ck_assert_uint_eq(hb.interval_ms, 60000);
    heartbeat_fini(&hb);
}

static void expect_quiet(natsSubscription *beats, int64_t ms)
{
    natsMsg *m = NULL;
    ck_assert_int_eq(natsSubscription_NextMsg(&m, beats, ms), NATS_TIMEOUT);
}

START_TEST(changed_load_is_told_within_its_window_and_small)
{
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w");
    wb_worker *w = worker_telling_load(50);
    wb_task *tasks[3];
    expect_load(beats, 0, true);
    int64_t began = nats_Now();
    request("r-1");
    expect_load(beats, 1, false);
    ck_assert_int_ge(nats_Now() - began, 49); /* at the end of the window */
    tasks[0] = take_held();
    for (int i = 1; i < 3; i++) {
        request("r-2");
        tasks[i] = take_held();
    }
    expect_load(beats, 3, false); /* both changes in one, unless this machine is very slow */
    for (int i = 0; i < 3; i++)
        ok(wb_task_answer(tasks[i], "x", 1, NULL, 0));
    expect_load(beats, 0, false);
    expect_quiet(beats, 200); /* idle: only the regular ones */
    natsSubscription_Destroy(beats);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(load_that_changed_back_within_its_window_is_no_news)
{
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w");
    wb_worker *w = worker_telling_load(500);
    expect_load(beats, 0, true);
    for (int i = 0; i < 10; i++) {
        request("r-1");
        ok(wb_task_answer(take_held(), "x", 1, NULL, 0));
    }
    expect_quiet(beats, 800);
    request("r-2"); /* and the next window opens as the first did */
    wb_task *task = take_held();
    expect_load(beats, 1, false);
    wb_task_drop(task);
    natsSubscription_Destroy(beats);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(no_load_is_told_between_where_the_window_is_the_interval)
{
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w");
    wb_worker *w = worker_telling_load(60000);
    expect_load(beats, 0, true);
    request("r-1");
    wb_task *task = take_held();
    expect_quiet(beats, 300);
    wb_task_drop(task);
    natsSubscription_Destroy(beats);
    wb_worker_destroy(w);
}
END_TEST

/* A router that has just come knows no adapters: the load must not be the first that it hears. */
START_TEST(after_an_announce_the_next_heartbeat_tells_all_even_if_it_is_for_the_load)
{
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w");
    wb_worker *w = worker_telling_load(10);
    struct heartbeat hb;
    int full = 0;
    expect_load(beats, 0, true);
    for (int i = 0; i < 10; i++) {
        bool answered = false, told = false; /* answered: by chance, before there was a load */
        natsConnection_PublishString(nc, "waybill.announce", "");
        natsConnection_Flush(nc);
        request("r-1");
        wb_task *task = take_held();
        while (!told) {
            next_beat(beats, &hb);
            told = hb.inflight == 1;
            answered |= !told;
            full += hb.inflight == 1 && hb.has_adapters;
            ck_assert(hb.has_adapters || answered);
            heartbeat_fini(&hb);
        }
        wb_task_drop(task);
        expect_load(beats, 0, false);
    }
    ck_assert_int_gt(full, 0);
    expect_quiet(beats, 600); /* all announces are answered */
    natsSubscription_Destroy(beats);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(a_cancel_finds_its_attempt_only)
{
    held = NULL;
    cancels = 0;
    wb_worker *w = worker_with(on_keep);
    request("r-1");
    wait_held(0);
    for (int attempt = 1; attempt <= 2; attempt++) {
        natsMsg *m = NULL;
        char number[12];
        snprintf(number, sizeof(number), "%d", attempt);
        natsMsg_Create(&m, "waybill.worker.s.w.cancel", NULL, NULL, 0);
        natsMsgHeader_Set(m, "Waybill-Request-Id", "r-1");
        natsMsgHeader_Set(m, "Waybill-Attempt", number);
        ck_assert_int_eq(natsConnection_PublishMsg(nc, m), NATS_OK);
        natsMsg_Destroy(m);
    }
    wb_task *task = wait_held(1);
    ck_assert_int_eq(cancels, 1);
    wb_task_drop(task);
    ck_assert_uint_eq(wb_worker_inflight(w), 0);
    wb_worker_destroy(w);
}
END_TEST

static void *answer_held(void *arg)
{
    (void)arg;
    ok(wb_task_answer(wait_held(0), "late", 4, NULL, 0));
    return NULL;
}

static int read_so_far;

static void on_read(void *arg, wb_task *task)
{
    (void)arg;
    ck_assert_str_eq(wb_task_request_id(task), "many");
    ck_assert_int_eq(wb_task_attempt(task), 2);
    wb_task_drop(task);
    pthread_mutex_lock(&lock);
    read_so_far++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Both the owner and a cancel make nats.c parse a request's headers, each in a thread of its own.
 */
START_TEST(headers_are_read_while_cancels_look_for_their_task)
{
    enum { MANY = 2000 };
    wb_worker *w = worker_with(on_read);
    for (int i = 0; i < MANY; i++) {
        natsMsg *m = NULL;
        request("many");
        ck_assert_int_eq(natsMsg_Create(&m, "waybill.worker.s.w.cancel", NULL, NULL, 0), NATS_OK);
        natsMsgHeader_Set(m, "Waybill-Request-Id", "many");
        natsMsgHeader_Set(m, "Waybill-Attempt", "2");
        ck_assert_int_eq(natsConnection_PublishMsg(nc, m), NATS_OK);
        natsMsg_Destroy(m);
    }
    pthread_mutex_lock(&lock);
    while (read_so_far < MANY)
        pthread_cond_wait(&changed, &lock); /* the case's own timeout is the bound */
    pthread_mutex_unlock(&lock);
    wb_worker_stop(w);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(the_time_left_runs)
{
    wb_worker *w = worker_with(on_keep);
    natsMsg *m = NULL;
    ck_assert_int_eq(natsMsg_Create(&m, "waybill.worker.s.w", NULL, "hello", 5), NATS_OK);
    natsMsgHeader_Set(m, "Waybill-Deadline-Ms", "500");
    ck_assert_int_eq(natsConnection_PublishMsg(nc, m), NATS_OK);
    natsMsg_Destroy(m);
    wb_task *task = wait_held(0);
    ck_assert_int_eq(wb_task_deadline_ms(task), 500);
    int64_t left = wb_task_left_ms(task);
    ck_assert(left >= 0 && left <= 500);
    while (wb_task_left_ms(task) > 0) /* it ends, and never goes up or below 0 */
        ck_assert_int_le(wb_task_left_ms(task), left);
    ck_assert_int_eq(wb_task_left_ms(task), 0);
    wb_task_drop(task);
    pthread_mutex_lock(&lock);
    held = NULL;
    pthread_mutex_unlock(&lock);
    request("r-2");
    task = wait_held(0);
    ck_assert_int_eq(wb_task_left_ms(task), -1);
    wb_task_drop(task);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(drain_says_draining_finishes_and_leaves_last)
{
    struct heartbeat hb;
    pthread_t thread;
    natsSubscription *beats = subscribe_to("waybill.heartbeat.s.w"),
                     *replies = subscribe_to("waybill.reply.>");
    held = NULL;
    wb_worker *w = worker_with(on_keep);
    next_beat(beats, &hb);
    heartbeat_fini(&hb);
    request("r-1");
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_held, NULL), 0);
    ok(wb_worker_drain(w, BOUND_MS));
    pthread_join(thread, NULL);
    natsMsg_Destroy(next_message(replies));
    next_beat(beats, &hb);
    ck_assert_int_eq(hb.state, HB_DRAINING);
    heartbeat_fini(&hb);
    next_beat(beats, &hb);
    ck_assert_int_eq(hb.state, HB_LEAVING);
    heartbeat_fini(&hb);
    ck_assert_int_eq(wb_worker_drain(w, 1), WB_CLOSED);
    natsSubscription_Destroy(beats);
    natsSubscription_Destroy(replies);
    wb_worker_destroy(w);
}
END_TEST

START_TEST(a_task_outlives_its_worker_and_says_closed)
{
    held = NULL;
    wb_worker *w = worker_with(on_keep);
    request("r-1");
    wb_task *task = wait_held(0);
    wb_worker_destroy(w);
    ck_assert_str_eq(wb_task_request_id(task), "r-1");
    ck_assert_int_eq(wb_task_attempt(task), 2);
    ck_assert_int_eq(wb_task_answer(task, "x", 1, NULL, 0), WB_CLOSED);
}
END_TEST

START_TEST(bad_names_and_numbers_are_refused)
{
    static const char *const bad_adapter[] = {"a b"};
    const wb_worker_options good = {.service = "s", .id = "w", .on_task = on_echo};
    wb_worker_options bad[8] = {good, good, good, good, good, good, good, good};
    wb_worker *w;
    bad[0].service = "a.b";
    bad[1].id = "";
    bad[2].prefix = "a b";
    bad[3].interval_ms = 99;
    bad[4].weight = 1001;
    bad[5].adapters = bad_adapter;
    bad[5].adapter_count = 1;
    bad[6].id = "w >";
    bad[7].load_ms = 9;
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(wb_worker_create(nc, &bad[i], &w), WB_INVALID);
        ck_assert_ptr_null(w);
    }
    wb_worker_destroy(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        an_answer_carries_data_headers_number_and_end,
        a_stream_is_numbered_its_end_too_and_progress_is_not,
        refusals_and_errors_say_code_and_time_and_no_line_break_gets_out,
        heartbeats_tell_all_and_load_by_router,
        changed_load_is_told_within_its_window_and_small,
        load_that_changed_back_within_its_window_is_no_news,
        no_load_is_told_between_where_the_window_is_the_interval,
        after_an_announce_the_next_heartbeat_tells_all_even_if_it_is_for_the_load,
        a_cancel_finds_its_attempt_only,
        headers_are_read_while_cancels_look_for_their_task,
        the_time_left_runs,
        drain_says_draining_finishes_and_leaves_last,
        a_task_outlives_its_worker_and_says_closed,
        bad_names_and_numbers_are_refused};
    return run_suite("worker", tests, sizeof(tests) / sizeof(tests[0]));
}
