#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/js.h"

START_TEST(what_is_no_ack_is_invalid)
{
    static const char *const bad[] = {"",
                                      "{}",
                                      "[]",
                                      "hello",
                                      "{\"stream\":\"S\"}",
                                      "{\"seq\":1}",
                                      "{\"stream\":\"S\",\"seq\":0}",
                                      "{\"stream\":\"S\",\"seq\":-1}",
                                      "{\"stream\":\"\",\"seq\":1}",
                                      "{\"stream\":1,\"seq\":1}",
                                      "{\"stream\":\"S\",\"seq\":\"1\"}",
                                      "{\"stream\":\"S\",\"seq\":1}x",
                                      "{\"stream\":\"S\",\"seq\":1",
                                      "{\"stream\":\"S\",\"seq\":1.5}"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct js_ack ack;

        ck_assert_msg(js_ack_parse(span_str(bad[i]), &ack) == WB_INVALID, "%s", bad[i]);
    }
}
END_TEST

START_TEST(a_big_payload_is_no_ack)
{
    static char big[100000];
    struct js_ack ack;

    memset(big, ' ', sizeof(big));
    memcpy(big, "{\"stream\":\"S\", \"seq\":1}", 23);
    ck_assert_int_eq(js_ack_parse(span_of(big, sizeof(big)), &ack), WB_INVALID);
}
END_TEST

START_TEST(messages_are_read_with_their_markers)
{
    struct js_message m;
    struct buf data;

    buf_init(&data, 4096);
    ck_assert_int_eq(
        js_msg_get_parse(SPAN_LIT("{\"type\":\"x\",\"message\":{\"subject\":\"$KV.a.b\","
                                  "\"seq\":7,\"data\":\"eyJ2IjoxfQ==\"}}"),
                         &m, &data),
        WB_OK);
    ck_assert_uint_eq(m.seq, 7);
    ck_assert(!m.marker && m.code == 0);
    ck_assert(span_eq_str(buf_span(&data), "{\"v\":1}"));
    buf_clear(&data);
    /* NATS/1.0\r\nKV-Operation: DEL\r\n\r\n */
    ck_assert_int_eq(
        js_msg_get_parse(SPAN_LIT("{\"message\":{\"seq\":8,\"hdrs\":"
                                  "\"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==\"}}"),
                         &m, &data),
        WB_OK);
    ck_assert(m.marker && m.seq == 8 && buf_len(&data) == 0);
    ck_assert_int_eq(
        js_msg_get_parse(SPAN_LIT("{\"error\":{\"code\":404,\"err_code\":10037}}"), &m, &data),
        WB_OK);
    ck_assert(m.code == 404 && m.err_code == 10037);
    ck_assert_int_eq(
        js_msg_get_parse(SPAN_LIT("{\"message\":{\"seq\":1,\"data\":\"!!\"}}"), &m, &data),
        WB_INVALID);
    ck_assert_int_eq(js_msg_get_parse(SPAN_LIT("{\"message\":{}}"), &m, &data), WB_INVALID);
    ck_assert_int_eq(js_msg_get_parse(SPAN_LIT("nonsense"), &m, &data), WB_INVALID);
    buf_fini(&data);
}
END_TEST

static void count(void *arg, struct span name)
{
    *(size_t *)arg += name.len;
}

START_TEST(stream_names)
{
    size_t n = 0;
    struct buf out;

    ck_assert_int_eq(js_names_parse(SPAN_LIT("{\"streams\":[\"ab\",\"cde\"]}"), count, &n), WB_OK);
    ck_assert_uint_eq(n, 5);
    ck_assert_int_eq(js_names_parse(SPAN_LIT("{\"total\":0,\"streams\":null}"), count, &n), WB_OK);
    ck_assert_int_eq(js_names_parse(SPAN_LIT("{\"error\":{\"code\":503}}"), count, &n),
                     WB_UNSUPPORTED);
    ck_assert_int_eq(js_names_parse(SPAN_LIT("{}"), count, &n), WB_INVALID);
    buf_init(&out, 256);
    ck_assert_int_eq(js_names_request(&out, SPAN_LIT("a\".>")), WB_OK);
    ck_assert(span_eq_str(buf_span(&out), "{\"subject\":\"a\\\".>\"}"));
    buf_clear(&out);
    ck_assert_int_eq(js_msg_get_request(&out, SPAN_LIT("$KV.b.k")), WB_OK);
    ck_assert(span_eq_str(buf_span(&out), "{\"last_by_subj\":\"$KV.b.k\"}"));
    buf_fini(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("js");
    TCase *tcase = tcase_create("js");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, what_is_no_ack_is_invalid);
    tcase_add_test(tcase, a_big_payload_is_no_ack);
    tcase_add_test(tcase, messages_are_read_with_their_markers);
    tcase_add_test(tcase, stream_names);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
