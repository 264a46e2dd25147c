/* Golden vectors of the protocol, each cut at every byte. */
#include "lane/parser.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAM                                                                                     \
    "INFO {\"server_id\":\"X\",\"max_payload\":1048576} \r\n"                                      \
    "PING\r\n"                                                                                     \
    "+OK\r\n"                                                                                      \
    "MSG foo.bar 9 11\r\nHello World\r\n"                                                          \
    "MSG foo.bar 9 GREETING.34 11\r\nHello\r\nWorl\r\n"                                            \
    "HMSG FOO.BAR 9 34 45\r\nNATS/1.0\r\nFoodGroup: vegetable\r\n\r\nHello World\r\n"              \
    "HMSG FOO.BAR 65536 BAZ.69 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"                                  \
    "MSG e 1 0\r\n\r\n"
#define GOOD_LEN (sizeof(STREAM) - 1)

/* One operation as a line of text. */
static void show(const struct parser_result *r, char *out, size_t size)
{
    const struct parser_message *m = &r->message;

    if (r->op == PARSER_MSG)
        snprintf(out, size, "MSG %llu [%.*s] [%.*s] [%.*s] [%.*s]\n", (unsigned long long)m->sid,
                 (int)m->subject.len, m->subject.ptr, (int)m->reply.len, m->reply.ptr,
                 (int)m->headers.len, m->headers.ptr, (int)m->payload.len, m->payload.ptr);
    else
        snprintf(out, size, "%d [%.*s]\n", (int)r->op, (int)r->text.len, r->text.ptr);
}

static const char expected[] =
    "2 [{\"server_id\":\"X\",\"max_payload\":1048576}]\n"
    "3 []\n"
    "5 []\n"
    "MSG 9 [foo.bar] [] [] [Hello World]\n"
    "MSG 9 [foo.bar] [GREETING.34] [] [Hello\r\nWorl]\n"
    "MSG 9 [FOO.BAR] [] [NATS/1.0\r\nFoodGroup: vegetable\r\n\r\n] [Hello World]\n"
    "MSG 65536 [FOO.BAR] [BAZ.69] [NATS/1.0 503\r\n\r\n] []\n"
    "MSG 1 [e] [] [] []\n";

/* Feeds `text` as two pieces, the way a reader with a buffer does; the first in an exact
 * allocation, so that a sanitizer sees any read beyond it. */
static void feed(const char *text, size_t len, size_t cut, char *out, size_t size)
{
    size_t used = 0, shown = 0;

    for (int piece = 0; piece < 2; piece++) {
        size_t have = piece ? len : cut;
        char *copy = malloc(have - used + 1), *at = copy;

        memcpy(copy, text + used, have - used);
        copy = realloc(copy, have - used ? have - used : 1);
        at = copy;
        for (;;) {
            struct parser_result r = parser_next(span_of(at, have - used), 1 << 20);

            if (r.op == PARSER_MORE) {
                ck_assert_uint_eq(r.used, 0);
                ck_assert(r.want == 0 || r.want > have - used);
                break;
            }
            ck_assert_int_ne(r.op, PARSER_BROKEN);
            show(&r, out + shown, size - shown);
            shown += strlen(out + shown);
            at += r.used;
            used += r.used;
        }
        free(copy);
    }
    ck_assert_uint_eq(used, len);
}

START_TEST(every_cut)
{
    char out[1024];

    for (size_t cut = 0; cut <= GOOD_LEN; cut++) {
        feed(STREAM, GOOD_LEN, cut, out, sizeof(out));
        ck_assert_str_eq(out, expected);
    }
}
END_TEST

START_TEST(wanted_size_is_told)
{
    struct parser_result r = parser_next(SPAN_LIT("MSG a 1 1000\r\nabc"), 1000);

    ck_assert_int_eq(r.op, PARSER_MORE);
    ck_assert_uint_eq(r.want, 14 + 1000 + 2);
}
END_TEST

START_TEST(errors_without_quotes)
{
    struct parser_result r = parser_next(SPAN_LIT("-ERR 'Stale Connection'\r\n"), 10);

    ck_assert_int_eq(r.op, PARSER_ERR);
    ck_assert(span_eq_str(r.text, "Stale Connection"));
    r = parser_next(SPAN_LIT("-ERR\r\n"), 10);
    ck_assert_int_eq(r.op, PARSER_ERR);
    ck_assert_uint_eq(r.text.len, 0);
    r = parser_next(SPAN_LIT("-ERR '\r\n"), 10);
    ck_assert_int_eq(r.op, PARSER_ERR);
}
END_TEST

START_TEST(broken_bytes)
{
    static const char *const bad[] = {"X",
                                      "HTTP/1.1 200 OK\r\n",
                                      "MSG a 1\r\n",
                                      "MSG a b 1\r\n",
                                      "MSG a 1 b c 1\r\n",
                                      "MSG a 1 -1\r\n",
                                      "MSG a 1 1001\r\n",
                                      "MSG a 1 99999999999999999999\r\n",
                                      "MSG a 1 1\r\nabc",
                                      "MSG a 1 1\n",
                                      "HMSG a 1 5\r\n",
                                      "HMSG a 1 5 4\r\nabcd\r\n",
                                      "HMSG a 1 r x 5 4\r\n",
                                      "PING x\r\n",
                                      "PINGS\r\n",
                                      "PONG\n",
                                      "MSG \r\n",
                                      "\r\n",
                                      "MSGa 1 1\r\n"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct parser_result r = parser_next(span_str(bad[i]), 1000);

        ck_assert_msg(r.op == PARSER_BROKEN, "%s", bad[i]);
    }
}
END_TEST

START_TEST(endless_line)
{
    char *line = malloc(PARSER_LINE_MAX);
    struct parser_result r;

    memset(line, 'a', PARSER_LINE_MAX);
    memcpy(line, "INFO ", 5);
    r = parser_next(span_of(line, PARSER_LINE_MAX - 1), 10);
    ck_assert_int_eq(r.op, PARSER_MORE);
    r = parser_next(span_of(line, PARSER_LINE_MAX), 10);
    ck_assert_int_eq(r.op, PARSER_BROKEN);
    free(line);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parser");
    TCase *tests = tcase_create("parser");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, every_cut);
    tcase_add_test(tests, wanted_size_is_told);
    tcase_add_test(tests, errors_without_quotes);
    tcase_add_test(tests, broken_bytes);
    tcase_add_test(tests, endless_line);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
