#include <pthread.h>
/* The client's side, answered by a router that this test plays. */
#include "waybill/client.h"

#include "fixture.h"

struct line { /* one message that the played router sends */
    const char *data, *seq, *outcome, *count, *error, *code;
};
static const struct line *script;
static size_t script_len;
static char seen_headers[512];

static void note(natsMsg *m, const char *name)
{
    const char *value = header(m, name);
    size_t used = strlen(seen_headers);
    if (value != NULL)
        snprintf(seen_headers + used, sizeof(seen_headers) - used, "%s=%s;", name, value);
}

static void set(natsMsg *m, const char *name, const char *value)
{
    if (value != NULL)
        ck_assert_int_eq(natsMsgHeader_Set(m, name, value), NATS_OK);
}

/* The script is handed to nats.c's thread. */
static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_request(natsConnection *conn, natsSubscription *sub, natsMsg *m, void *arg)
{
    (void)sub, (void)arg;
    pthread_mutex_lock(&script_lock);
    seen_headers[0] = '\0';
    note(m, "Waybill-Request-Id");
    note(m, "Waybill-Target");
    note(m, "Waybill-Timeout-Ms");
    note(m, "Waybill-Idempotent");
    note(m, "Waybill-Replies");
    note(m, "X-A");
    for (size_t i = 0; i < script_len; i++) {
        natsMsg *out = NULL;
        const struct line *l = &script[i];
        natsMsg_Create(&out, natsMsg_GetReply(m), NULL, l->data, (int)strlen(l->data));
        set(out, "Waybill-Seq", l->seq);
        set(out, "Waybill-Outcome", l->outcome);
        set(out, "Waybill-Count", l->count);
        set(out, "Waybill-Error", l->error);
        set(out, "Nats-Service-Error-Code", l->code);
        set(out, "Waybill-Worker", "w9");
        set(out, "Waybill-Rank", "2");
        set(out, "Waybill-Attempt", "3");
        natsConnection_PublishMsg(conn, out);
        natsMsg_Destroy(out);
    }
    natsMsg_Destroy(m);
    pthread_mutex_unlock(&script_lock);
}

static natsSubscription *play(const struct line *lines, size_t count)
{
    natsSubscription *sub = NULL;
    pthread_mutex_lock(&script_lock);
    script = lines;
    script_len = count;
    pthread_mutex_unlock(&script_lock);
    ck_assert_int_eq(natsConnection_Subscribe(&sub, nc, "ask", on_request, NULL), NATS_OK);
    ck_assert_int_eq(natsConnection_Flush(nc), NATS_OK);
    return sub;
}

/* A caller has its answer before the other side is done with the request: that one ends first, then
 * the process. */
static void stop(natsSubscription *sub)
{
    pthread_mutex_lock(&script_lock);
    natsSubscription_Destroy(sub);
    pthread_mutex_unlock(&script_lock);
}

static bool collect(void *arg, const wb_result *message)
{
    size_t len;
    const char *data = wb_result_data(message, &len);
    strncat(arg, data, len);
    return strchr(arg, '!') == NULL; /* `!` leaves the stream */
}

static wb_status stream(const struct line *lines, size_t count, char got[64], wb_result **end)
{
    natsSubscription *sub = play(lines, count);
    got[0] = '\0';
    wb_status s = wb_request_stream(nc, "ask", "x", 1, NULL, collect, got, end);
    /* A caller that leaves early does not wait for the other side: it ends before the process does.
     */
    stop(sub);
    return s;
}

START_TEST(an_answer_tells_who_gave_it_and_options_become_headers)
{
    static const struct line lines[] = {{.data = "fine"}};
    static const wb_header headers[] = {{"X-A", "b"}};
    const wb_request_options o = {.id = "r-1",
                                  .target = "w9/2",
                                  .timeout_ms = 5000,
                                  .idempotent = WB_CHOICE_YES,
                                  .headers = headers,
                                  .header_count = 1};
    natsSubscription *sub = play(lines, 1);
    wb_result *r;
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, &o, &r), WB_OK);
    ck_assert_str_eq(wb_result_worker(r), "w9");
    ck_assert_int_eq(wb_result_rank(r), 2);
    ck_assert_int_eq(wb_result_attempt(r), 3);
    ck_assert_int_eq(wb_result_code(r), 0);
    ck_assert_str_eq(seen_headers,
                     "Waybill-Request-Id=r-1;Waybill-Target=w9/2;Waybill-Timeout-Ms=5000;"
                     "Waybill-Idempotent=true;Waybill-Replies=one;X-A=b;");
    wb_result_destroy(r);
    stop(sub);
}
END_TEST

START_TEST(a_routers_error_has_its_status_a_workers_its_code)
{
    static const struct line of_router[] = {{.data = "{}", .error = "overloaded", .code = "429"}};
    static const struct line of_worker[] = {{.data = "{}", .code = "422"}};
    wb_result *r;
    natsSubscription *sub = play(of_router, 1);
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, NULL, &r), WB_OVERLOADED);
    ck_assert_int_eq(wb_result_code(r), 429);
    wb_result_destroy(r);
    script = of_worker;
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, NULL, &r), WB_OK);
    ck_assert_int_eq(wb_result_code(r), 422);
    wb_result_destroy(r);
    stop(sub);
    ck_assert_int_eq(wb_request(nc, "nobody.there", "x", 1, NULL, &r), WB_NOT_FOUND);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(a_whole_stream_is_fine)
{
    static const struct line lines[] = {{.data = "a", .seq = "1"},
                                        {.data = "b", .seq = "2"},
                                        {.data = "", .seq = "3", .outcome = "done", .count = "2"}};
    char got[64];
    wb_result *end;
    ck_assert_int_eq(stream(lines, 3, got, &end), WB_OK);
    ck_assert_str_eq(got, "ab");
    ck_assert_str_eq(wb_result_outcome(end), "done");
    wb_result_destroy(end);
}
END_TEST

START_TEST(a_gap_a_repeat_or_a_wrong_count_is_a_hole)
{
    static const struct line gap[] = {{.data = "a", .seq = "1"}, {.data = "b", .seq = "3"}};
    static const struct line repeat[] = {{.data = "a", .seq = "1"}, {.data = "a", .seq = "1"}};
    static const struct line none[] = {{.data = "a"}};
    static const struct line count[] = {{.data = "a", .seq = "1"},
                                        {.data = "", .seq = "2", .outcome = "done", .count = "2"}};
    static const struct line end_gap[] = {
        {.data = "a", .seq = "1"}, {.data = "", .seq = "3", .outcome = "done", .count = "1"}};
    char got[64];
    wb_result *end;
    ck_assert_int_eq(stream(gap, 2, got, &end), WB_HOLE);
    ck_assert_str_eq(got, "a");
    ck_assert_int_eq(stream(repeat, 2, got, &end), WB_HOLE);
    ck_assert_str_eq(got, "a");
    ck_assert_int_eq(stream(none, 1, got, &end), WB_HOLE);
    ck_assert_int_eq(stream(count, 2, got, &end), WB_HOLE);
    wb_result_destroy(end);
    ck_assert_int_eq(stream(end_gap, 2, got, &end), WB_HOLE);
    wb_result_destroy(end);
}
END_TEST

START_TEST(a_stream_that_broke_off_has_the_routers_status)
{
    static const struct line lines[] = {
        {.data = "a", .seq = "1"},
        {.data = "{}", .seq = "2", .error = "interrupted", .code = "502"},
        {.data = "",
         .seq = "3",
         .outcome = "interrupted",
         .count = "1",
         .error = "interrupted",
         .code = "502"}};
    char got[64];
    wb_result *end;
    ck_assert_int_eq(stream(lines, 3, got, &end), WB_INTERRUPTED);
    ck_assert_str_eq(got, "a{}");
    wb_result_destroy(end);
}
END_TEST

#define BODY                                                                                       \
    "{\"error\":\"overloaded\",\"message\":\"all are busy\",\"request_id\":\"r\",\"attempts\":["   \
    "{\"worker\":\"w1\",\"cause\":\"refused\"},{\"worker\":null,\"cause\":\"lost\"}],\"scope\":"   \
    "\"adapter\"}"

static void check_details(const wb_result *r)
{
    ck_assert_str_eq(wb_result_message(r), "all are busy");
    ck_assert_str_eq(wb_result_scope(r), "adapter");
    ck_assert_uint_eq(wb_result_tried_count(r), 2);
    ck_assert_str_eq(wb_result_tried(r, 0).worker, "w1");
    ck_assert_str_eq(wb_result_tried(r, 0).cause, "refused");
    ck_assert_ptr_null(wb_result_tried(r, 1).worker);
    ck_assert_str_eq(wb_result_tried(r, 1).cause, "lost");
    ck_assert_ptr_null(wb_result_tried(r, 2).cause);
}

START_TEST(an_error_tells_its_details_and_a_forwarded_refusal_has_none)
{
    static const struct line body[] = {{.data = BODY, .error = "overloaded", .code = "429"}};
    static const struct line refusal[] = {{.data = "later", .error = "overloaded", .code = "429"}};
    static const struct line newer[] = {{.data = "{}", .error = "never_heard_of", .code = "418"}};
    wb_result *r;
    natsSubscription *sub = play(body, 1);
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, NULL, &r), WB_OVERLOADED);
    ck_assert_int_eq(wb_result_status(r), WB_OVERLOADED);
    check_details(r);
    wb_result_destroy(r);
    stop(sub);
    sub = play(refusal, 1);
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, NULL, &r), WB_OVERLOADED);
    ck_assert_ptr_null(wb_result_message(r));
    ck_assert_ptr_null(wb_result_scope(r));
    ck_assert_uint_eq(wb_result_tried_count(r), 0);
    wb_result_destroy(r);
    stop(sub);
    sub = play(newer, 1);
    ck_assert_int_eq(wb_request(nc, "ask", "x", 1, NULL, &r), WB_INTERNAL);
    wb_result_destroy(r);
    stop(sub);
}
END_TEST

START_TEST(a_stream_is_read_message_by_message)
{
    static const struct line lines[] = {{.data = "a", .seq = "1"},
                                        {.data = "b", .seq = "2"},
                                        {.data = "", .seq = "3", .outcome = "done", .count = "2"}};
    natsSubscription *sub = play(lines, 3);
    wb_stream *stream;
    wb_result *m;
    size_t len;
    ck_assert_int_eq(wb_stream_open(nc, "ask", "x", 1, NULL, &stream), WB_OK);
    for (int64_t i = 1; i <= 2; i++) {
        ck_assert_int_eq(wb_stream_next(stream, BOUND_MS, &m), WB_OK);
        ck_assert_int_eq(((const char *)wb_result_data(m, &len))[0], "ab"[i - 1]);
        ck_assert_int_eq(wb_stream_count(stream), i);
        ck_assert_ptr_null(wb_stream_end(stream));
        wb_result_destroy(m);
    }
    for (int i = 0; i < 2; i++) { /* and the end again */
        ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_OK);
        ck_assert_ptr_null(m);
        ck_assert_str_eq(wb_result_outcome(wb_stream_end(stream)), "done");
    }
    wb_stream_close(stream);
    wb_stream_close(NULL);
    stop(sub);
}
END_TEST

START_TEST(a_wait_that_runs_out_leaves_the_stream_as_it_was)
{
    natsSubscription *sub = play(NULL, 0);
    wb_stream *stream;
    wb_result *m;
    char reply[WB_SUBJECT_MAX + 1];
    ck_assert_int_eq(wb_reply_subject(NULL, reply), WB_OK);
    const wb_request_options o = {.reply_subject = reply};
    ck_assert_int_eq(wb_stream_open(nc, "ask", "x", 1, &o, &stream), WB_OK);
    ck_assert_int_eq(wb_stream_next(stream, 0, &m), WB_TIMED_OUT);
    ck_assert_int_eq(wb_stream_next(stream, 20, &m), WB_TIMED_OUT);
    ck_assert_ptr_null(m);
    natsMsg *out = NULL;
    natsMsg_Create(&out, reply, NULL, "a", 1);
    set(out, "Waybill-Seq", "1");
    ck_assert_int_eq(natsConnection_PublishMsg(nc, out), NATS_OK);
    natsMsg_Destroy(out);
    ck_assert_int_eq(wb_stream_next(stream, BOUND_MS, &m), WB_OK);
    ck_assert_ptr_nonnull(m);
    wb_result_destroy(m);
    wb_stream_close(stream);
    stop(sub);
}
END_TEST

START_TEST(a_hole_stays_a_hole_and_tells_what_came_before)
{
    static const struct line lines[] = {{.data = "a", .seq = "1"},
                                        {.data = "c", .seq = "3"},
                                        {.data = "", .seq = "4", .outcome = "done", .count = "3"}};
    natsSubscription *sub = play(lines, 3);
    wb_stream *stream;
    wb_result *m;
    ck_assert_int_eq(wb_stream_open(nc, "ask", "x", 1, NULL, &stream), WB_OK);
    ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_OK);
    wb_result_destroy(m);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_HOLE);
        ck_assert_ptr_null(m);
    }
    ck_assert_int_eq(wb_stream_count(stream), 1);
    ck_assert_ptr_null(wb_stream_end(stream));
    wb_stream_close(stream);
    stop(sub);
    ck_assert_int_eq(wb_stream_open(nc, "nobody.there", "x", 1, NULL, &stream), WB_OK);
    ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_NOT_FOUND);
    wb_stream_close(stream);
    ck_assert_int_eq(wb_stream_open(nc, "a b", "x", 1, NULL, &stream), WB_INVALID);
    ck_assert_ptr_null(stream);
}
END_TEST

START_TEST(a_streams_end_has_the_details_of_the_error_before_it)
{
    static const struct line lines[] = {
        {.data = BODY, .seq = "1", .error = "overloaded", .code = "429"},
        {.data = "",
         .seq = "2",
         .outcome = "error",
         .count = "0",
         .error = "overloaded",
         .code = "429"}};
    natsSubscription *sub = play(lines, 2);
    wb_stream *stream;
    wb_result *m;
    ck_assert_int_eq(wb_stream_open(nc, "ask", "x", 1, NULL, &stream), WB_OK);
    ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_OK);
    ck_assert_int_eq(wb_result_status(m), WB_OVERLOADED);
    wb_result_destroy(m);
    ck_assert_int_eq(wb_stream_next(stream, -1, &m), WB_OVERLOADED);
    check_details(wb_stream_end(stream));
    wb_stream_close(stream);
    stop(sub);
}
END_TEST

START_TEST(a_callback_may_leave_the_stream)
{
    static const struct line lines[] = {{.data = "!", .seq = "1"}, {.data = "b", .seq = "2"}};
    char got[64];
    wb_result *end;
    ck_assert_int_eq(stream(lines, 2, got, &end), WB_CANCELLED);
    ck_assert_str_eq(got, "!");
    ck_assert_ptr_null(end);
}
END_TEST

START_TEST(nothing_malformed_is_sent)
{
    static const wb_header bad_value[] = {{"X", "a\r\nPUB x 0"}}, bad_name[] = {{"X: y", "a"}};
    const wb_request_options bad[] = {
        {.id = "a b"},
        {.id = ".a"},
        {.target = "w/x"},
        {.priority = "urgent"},
        {.session = "a\nb"},
        {.hash_key = "a\r\nb"},
        {.reply_subject = "a.*"},
        {.headers = bad_value, .header_count = 1},
        {.headers = bad_name, .header_count = 1},
    };
    wb_result *r;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(wb_request(nc, "ask", "x", 1, &bad[i], &r) == WB_INVALID, "options %zu", i);
    ck_assert_int_eq(wb_request(nc, "ask it", "x", 1, NULL, &r), WB_INVALID);
    ck_assert_int_eq(wb_cancel(nc, NULL, "s", "a b", "_INBOX.x", 100), WB_INVALID);
    ck_assert_int_eq(wb_cancel(nc, NULL, "s.t", "a", "_INBOX.x", 100), WB_INVALID);
}
END_TEST

START_TEST(a_cancel_names_the_reply_subject)
{
    natsSubscription *sub = NULL;
    char reply[WB_SUBJECT_MAX + 1], other[WB_SUBJECT_MAX + 1];
    ck_assert_int_eq(wb_reply_subject(NULL, reply), WB_OK);
    ck_assert_int_eq(wb_reply_subject(NULL, other), WB_OK);
    ck_assert_str_ne(reply, other);
    ck_assert_int_eq(wb_cancel(nc, NULL, "s", "r-1", reply, 200), WB_NOT_FOUND);
    ck_assert_int_eq(natsConnection_SubscribeSync(&sub, nc, "waybill.cancel.s.r-1"), NATS_OK);
    ck_assert_int_eq(wb_cancel(nc, NULL, "s", "r-1", reply, 50), WB_NOT_FOUND);
    natsMsg *m = next_message(sub);
    ck_assert_str_eq(header(m, "Waybill-Reply"), reply);
    natsMsg_Destroy(m);
    /* its client may listen below its own inbox prefix only */
    ck_assert_int_eq(wb_reply_subject("mine.own", reply), WB_OK);
    ck_assert_int_eq(wb_cancel(nc, NULL, "s", "r-1", reply, 50), WB_NOT_FOUND);
    m = next_message(sub);
    ck_assert_int_eq(strncmp(natsMsg_GetReply(m), "mine.own.", 9), 0);
    ck_assert_str_ne(natsMsg_GetReply(m), reply);
    natsMsg_Destroy(m);
    stop(sub);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {an_answer_tells_who_gave_it_and_options_become_headers,
                                  a_routers_error_has_its_status_a_workers_its_code,
                                  a_whole_stream_is_fine,
                                  a_gap_a_repeat_or_a_wrong_count_is_a_hole,
                                  a_stream_that_broke_off_has_the_routers_status,
                                  an_error_tells_its_details_and_a_forwarded_refusal_has_none,
                                  a_stream_is_read_message_by_message,
                                  a_wait_that_runs_out_leaves_the_stream_as_it_was,
                                  a_hole_stays_a_hole_and_tells_what_came_before,
                                  a_streams_end_has_the_details_of_the_error_before_it,
                                  a_callback_may_leave_the_stream,
                                  nothing_malformed_is_sent,
                                  a_cancel_names_the_reply_subject};
    return run_suite("client", tests, sizeof(tests) / sizeof(tests[0]));
}
