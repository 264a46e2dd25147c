#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json.h"

static struct buf out;

static void expect(struct json *j, const char *text)
{
    ck_assert_int_eq(json_status(j), WB_OK);
    ck_assert_msg(span_eq_str(buf_span(&out), text), "%.*s", (int)buf_len(&out),
                  buf_span(&out).ptr);
    buf_clear(&out);
}

static void write_text(const char *bytes, size_t n, const char *text)
{
    struct json j;

    buf_init(&out, 65536);
    json_begin(&j, &out);
    json_text(&j, NULL, span_of(bytes, n));
    expect(&j, text);
    buf_fini(&out);
}

START_TEST(commas_nesting_and_scalars)
{
    struct json j;

    buf_init(&out, 4096);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_int(&j, "min", INT64_MIN);
    json_int(&j, "max", INT64_MAX);
    json_array(&j, "list");
    json_int(&j, NULL, 0);
    json_object(&j, NULL);
    json_end_object(&j);
    json_array(&j, NULL);
    json_end_array(&j);
    json_bool(&j, NULL, true);
    json_end_array(&j);
    json_null(&j, "n");
    json_bool(&j, "f", false);
    json_double(&j, "d", 0.5);
    json_double(&j, "inf", 1e308 * 10);
    json_text_or_null(&j, "t", SPAN_EMPTY);
    json_text(&j, "e", SPAN_EMPTY);
    json_raw(&j, "r", SPAN_LIT("{}"));
    json_end_object(&j);
    expect(&j, "{\"min\":-9223372036854775808,\"max\":9223372036854775807,\"list\":[0,{},[],true],"
               "\"n\":null,\"f\":false,\"d\":0.5,\"inf\":null,\"t\":null,\"e\":\"\",\"r\":{}}");
    buf_fini(&out);
}
END_TEST

START_TEST(texts_are_escaped_and_made_utf8)
{
    write_text("plain text of more than eight", 29, "\"plain text of more than eight\"");
    write_text("12345678\"\\\n\r\t\b\f\x01\x1f", 17,
               "\"12345678\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f\"");
    write_text("a\0b", 3, "\"a\\u0000b\"");
    write_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
               "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    write_text("\xff"
               "a\xc3",
               3,
               "\"\xef\xbf\xbd"
               "a\xef\xbf\xbd\"");
    write_text("\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
    write_text("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* surrogate */
    write_text("\x7f", 1, "\"\x7f\"");
}
END_TEST

/* Eight bytes are looked at in one piece: a quote at each place of a text of each length. */
START_TEST(a_quote_is_escaped_wherever_it_stands)
{
    for (size_t n = 1; n <= 40; n++) {
        for (size_t at = 0; at <= n; at++) { /* n: none */
            char text[64], want[64];
            size_t w = 0;

            want[w++] = '"';
            for (size_t i = 0; i < n; i++) {
                text[i] = i == at ? '"' : (char)('#' + i);
                text[i] = i != at && text[i] == '\\' ? 'x' : text[i];
                if (i == at)
                    want[w++] = '\\';
                want[w++] = text[i];
            }
            want[w++] = '"';
            want[w] = '\0';
            write_text(text, n, want);
        }
    }
}
END_TEST

START_TEST(errors_stick)
{
    struct json j;

    buf_init(&out, 16);
    json_begin(&j, &out);
    json_object(&j, NULL);
    json_text(&j, "key", SPAN_LIT("far too long for this"));
    json_end_object(&j);
    ck_assert_int_ne(json_status(&j), WB_OK);
    ck_assert_uint_eq(buf_len(&out), 1);
    buf_fini(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tcase = tcase_create("json");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, commas_nesting_and_scalars);
    tcase_add_test(tcase, texts_are_escaped_and_made_utf8);
    tcase_add_test(tcase, a_quote_is_escaped_wherever_it_stands);
    tcase_add_test(tcase, errors_stick);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
