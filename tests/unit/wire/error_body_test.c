#include <check.h>
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

int main(void)
{
    Suite *suite = suite_create("error_body");
    TCase *tcase = tcase_create("error_body");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, worker_names_are_hidden_on_demand);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
