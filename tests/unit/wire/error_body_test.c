#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/error_body.h"

START_TEST(worker_names_are_hidden_on_demand)
{
    struct record_tried tried[] = {{SPAN_LIT("w1"), SPAN_LIT("timeout")}};
    struct buf out;

    buf_init(&out, 4096);
    ck_assert_int_eq(error_body_encode(&out, WB_TIMEOUT, SPAN_LIT("first_reply_ms \"30000\""),
                                       SPAN_LIT("r"), tried, 1, NULL, false),
                     WB_OK);
    ck_assert(span_eq_str(
        buf_span(&out),
        "{\"error\":\"timeout\",\"message\":\"first_reply_ms \\\"30000\\\"\","
        "\"request_id\":\"r\",\"attempts\":[{\"worker\":null,\"cause\":\"timeout\"}]}"));
    buf_clear(&out);
    ck_assert_int_eq(error_body_encode(&out, WB_OVERLOADED, SPAN_LIT("busy"), SPAN_LIT("r"), tried,
                                       1, "service", true),
                     WB_OK);
    ck_assert(span_eq_str(
        buf_span(&out),
        "{\"error\":\"overloaded\",\"message\":\"busy\",\"request_id\":\"r\","
        "\"attempts\":[{\"worker\":\"w1\",\"cause\":\"timeout\"}],\"scope\":\"service\"}"));
    buf_fini(&out);
}
END_TEST

START_TEST(what_was_written_is_read_back)
{
    struct record_tried tried[] = {{SPAN_LIT("w1"), SPAN_LIT("refused")},
                                   {SPAN_LIT("w2"), SPAN_LIT("timeout")}};
    struct buf out;
    struct error_brief brief;

    buf_init(&out, 4096);
    ck_assert_int_eq(error_body_encode(&out, WB_OVERLOADED, SPAN_LIT("a \"b\""), SPAN_LIT("r"),
                                       tried, 2, "service", true),
                     WB_OK);
    ck_assert_int_eq(error_body_decode(buf_span(&out), &brief), WB_OK);
    ck_assert_str_eq(brief.message, "a \"b\"");
    ck_assert_str_eq(brief.scope, "service");
    ck_assert_uint_eq(brief.count, 2);
    ck_assert_str_eq(brief.attempts[0].worker, "w1");
    ck_assert_str_eq(brief.attempts[0].cause, "refused");
    ck_assert_str_eq(brief.attempts[1].worker, "w2");
    buf_clear(&out);
    ck_assert_int_eq(
        error_body_encode(&out, WB_TIMEOUT, SPAN_LIT("late"), SPAN_LIT("r"), tried, 1, NULL, false),
        WB_OK);
    ck_assert_int_eq(error_body_decode(buf_span(&out), &brief), WB_OK);
    ck_assert_str_eq(brief.scope, "");
    ck_assert_str_eq(brief.attempts[0].worker, "");
    buf_fini(&out);
}
END_TEST

START_TEST(strange_bodies_are_cut_or_refused)
{
    static const char *const not_ours[] = {"",
                                           "later",
                                           "[]",
                                           "{\"error\":\"timeout\"}",
                                           "{\"error\":7,\"attempts\":[]}",
                                           "{\"error\":\"\",\"attempts\":[]}"};
    struct error_brief brief;
    char text[4096];

    for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++)
        ck_assert_int_eq(error_body_decode(span_str(not_ours[i]), &brief), WB_INVALID);
    /* a newer router's word; 20 attempts, one of them no object; a message cut before a character
     * of two bytes */
    size_t n = (size_t)snprintf(text, sizeof(text), "{\"error\":\"new\",\"attempts\":[7");
    for (int i = 0; i < 19; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ",{\"cause\":\"%040d\"}", i);
    n += (size_t)snprintf(text + n, sizeof(text) - n, "],\"message\":\"%0511d\u00e9\"}", 0);
    ck_assert_int_eq(error_body_decode(span_of(text, n), &brief), WB_OK);
    ck_assert_uint_eq(brief.count, RECORD_TRIED_MAX);
    ck_assert_str_eq(brief.attempts[0].cause, "");
    ck_assert_uint_eq(strlen(brief.attempts[1].cause), ERROR_WORD_MAX);
    ck_assert_uint_eq(strlen(brief.message), 511);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error_body");
    TCase *tcase = tcase_create("error_body");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, worker_names_are_hidden_on_demand);
    tcase_add_test(tcase, what_was_written_is_read_back);
    tcase_add_test(tcase, strange_bodies_are_cut_or_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
