#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/record.h"

static struct record example(void)
{
    struct record r = {.worker = SPAN_LIT("w2"),
                       .rank = -1,
                       .attempt = 2,
                       .service = SPAN_LIT("chat"),
                       .request_id = SPAN_LIT("r-1"),
                       .tried = {{SPAN_LIT("w1"), SPAN_LIT("no_responders")}},
                       .tried_count = 1,
                       .selected = SPAN_LIT("w1"),
                       .policy = SPAN_LIT("least_loaded"),
                       .reason = SPAN_LIT("retry"),
                       .subject = SPAN_LIT("chat.request.eu"),
                       .router = SPAN_LIT("router-1"),
                       .rid = SPAN_LIT("router-1.1767225599000.42"),
                       .worker_epoch = 1767225600000,
                       .received_at = {1767225600000000},
                       .first_reply_us = 1843,
                       .finished_at = {-1},
                       .replies = -1,
                       .code = -1,
                       .outcome = SPAN_LIT("streaming")};
    return r;
}

START_TEST(the_biggest_record_fits_its_bound)
{
    struct record r = example();
    struct buf out;
    char text[WB_SUBJECT_MAX];

    memset(text, 'x', sizeof(text));
    r.subject = span_of(text, WB_SUBJECT_MAX);
    r.session = r.adapter = span_of(text, WB_LONG_NAME_MAX);
    r.request_id = span_of(text, WB_REQUEST_ID_MAX);
    r.worker = r.selected = r.service = r.router = span_of(text, WB_NAME_MAX);
    r.rid = span_of(text, 128);
    r.rank = r.attempt = r.worker_epoch = r.first_reply_us = r.replies = r.code = INT64_MAX;
    r.finished_at = r.received_at;
    r.trace = span_of(text, 32);
    for (r.tried_count = 0; r.tried_count < RECORD_TRIED_MAX; r.tried_count++)
        r.tried[r.tried_count] = (struct record_tried){r.worker, SPAN_LIT("no_responders")};
    buf_init(&out, RECORD_SIZE_MAX);
    ck_assert_int_eq(record_encode(&r, &out), WB_OK);
    ck_assert_uint_lt(buf_len(&out), RECORD_SIZE_MAX);
    buf_fini(&out);
}
END_TEST

START_TEST(a_full_buffer_is_left_alone)
{
    struct record r = example();
    struct buf out;

    buf_init(&out, 64);
    ck_assert_int_eq(record_encode(&r, &out), WB_FULL);
    ck_assert_uint_eq(buf_len(&out), 0);
    buf_fini(&out);
}
END_TEST

START_TEST(a_record_reads_back)
{
    struct record r = example();
    struct record_brief brief;
    struct buf out;

    r.rank = 3;
    buf_init(&out, RECORD_SIZE_MAX);
    ck_assert_int_eq(record_encode(&r, &out), WB_OK);
    ck_assert_int_eq(record_decode_brief(buf_span(&out), &brief), WB_OK);
    ck_assert_str_eq(brief.worker, "w2");
    ck_assert_int_eq(brief.rank, 3);
    ck_assert_str_eq(brief.rid, "router-1.1767225599000.42");
    ck_assert_str_eq(brief.outcome, "streaming");
    ck_assert_int_eq(brief.received_at.us, r.received_at.us);
    ck_assert_int_eq(brief.v, 1);
    buf_fini(&out);
}
END_TEST

START_TEST(bad_records_are_refused)
{
#define REST "\"rid\":\"x\",\"received_at\":\"2026-01-01T00:00:00.000000Z\",\"outcome\":\"done\"}"
    static const struct {
        const char *text;
        wb_status status;
    } all[] = {
        {"", WB_INVALID},
        {"[]", WB_INVALID},
        {"{", WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\",\"rank\":null," REST, WB_OK},
        {"{\"v\":1,\"worker\":\"w\"," REST "x", WB_INVALID},
        {"{\"v\":2,\"worker\":\"w\"," REST, WB_UNSUPPORTED},
        {"{\"worker\":\"w\"," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"a b\"," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\\u0000x\"," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":null," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\",\"rank\":-1," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\",\"rank\":1.5," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\",\"rank\":\"1\"," REST, WB_INVALID},
        {"{\"v\":1,\"worker\":\"w\",\"rid\":\"x\",\"received_at\":\"yesterday\",\"outcome\":"
         "\"done\"}",
         WB_INVALID},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct record_brief brief;

        ck_assert_msg(record_decode_brief(span_str(all[i].text), &brief) == all[i].status, "%s",
                      all[i].text);
    }
}
END_TEST

START_TEST(trace_ids)
{
    ck_assert(span_eq_str(
        record_trace_of(SPAN_LIT("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        "0af7651916cd43dd8448eb211c80319c"));
    ck_assert_uint_eq(
        record_trace_of(SPAN_LIT("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x")).len,
        32);
    ck_assert_uint_eq(
        record_trace_of(SPAN_LIT("00-00000000000000000000000000000000-b7ad6b7169203331-01")).len,
        0);
    ck_assert_uint_eq(
        record_trace_of(SPAN_LIT("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).len,
        0);
    ck_assert_uint_eq(
        record_trace_of(SPAN_LIT("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).len,
        0);
    ck_assert_uint_eq(record_trace_of(SPAN_LIT("00-0af7")).len, 0);
    ck_assert_uint_eq(record_trace_of(SPAN_EMPTY).len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, the_biggest_record_fits_its_bound);
    tcase_add_test(tcase, a_full_buffer_is_left_alone);
    tcase_add_test(tcase, a_record_reads_back);
    tcase_add_test(tcase, bad_records_are_refused);
    tcase_add_test(tcase, trace_ids);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
