/* Header blocks: what is a block, what is found in it, and that copying keeps every byte. */
#include "lane/header.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#define BLOCK                                                                                      \
    "NATS/1.0 503 No Responders\r\nA: 1\r\nEmpty:\r\nB:  two words \r\nA: 3\r\nX-y: a:b\r\n\r\n"

static struct span lit(const char *text)
{
    return span_str(text);
}

START_TEST(well_formed_blocks)
{
    static const char *const good[] = {
        "",    "NATS/1.0\r\n\r\n",       "NATS/1.0 503\r\n\r\n",
        BLOCK, "NATS/1.0\r\nA:\r\n\r\n", "NATS/1.0\r\nA: \xc3\xa9\r\n\r\n"};
    static const char *const bad[] = {"NATS/1.0",
                                      "NATS/1.0\r\n",
                                      "NATS/1.1\r\n\r\n",
                                      "NATS/1.0\r\nA: 1\r\n",
                                      "NATS/1.0\r\nA\r\n\r\n",
                                      "NATS/1.0\r\n: 1\r\n\r\n",
                                      "NATS/1.0\r\nA b: 1\r\n\r\n",
                                      "NATS/1.0\r\nA: 1\n\r\n",
                                      "NATS/1.0\r\nA: 1\rB\r\n\r\n",
                                      "NATS/1.0\r\n\r\nA: 1\r\n\r\n",
                                      "NATS/1.0\r\n\r\nx",
                                      "\r\n",
                                      "NATS/1.0\r\nA: 1\r\n\n",
                                      "NATS/1.0\r\n A: folded\r\n\r\n",
                                      "NATS/1.0\n\n",
                                      "NATS/1.0\r\n\xc3\xa9: 1\r\n\r\n"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ck_assert_msg(header_check(lit(good[i])) == WB_OK, "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(header_check(lit(bad[i])) == WB_INVALID, "%s", bad[i]);
}
END_TEST

START_TEST(status_is_read)
{
    ck_assert_int_eq(header_status(lit(BLOCK)), 503);
    ck_assert_int_eq(header_status(lit("NATS/1.0 404\r\n\r\n")), 404);
    ck_assert_int_eq(header_status(lit("NATS/1.0\r\n\r\n")), 0);
    ck_assert_int_eq(header_status(lit("NATS/1.0 5x3\r\n\r\n")), 0);
    ck_assert_int_eq(header_status(lit("NATS/1.0 5033\r\n\r\n")), 0);
    ck_assert_int_eq(header_status(lit("NATS/1.0 50")), 0);
    ck_assert_int_eq(header_status(SPAN_EMPTY), 0);
}
END_TEST

START_TEST(fields_in_order)
{
    static const char *const want[][2] = {
        {"A", "1"}, {"Empty", ""}, {"B", "two words"}, {"A", "3"}, {"X-y", "a:b"}};
    struct header_iter iter;
    struct header_field f;
    unsigned n = 0;

    header_begin(&iter, lit(BLOCK));
    for (; header_next(&iter, &f); n++) {
        ck_assert(span_eq_str(f.name, want[n][0]));
        ck_assert(span_eq_str(f.value, want[n][1]));
        ck_assert_int_eq(f.line.ptr[f.line.len - 1], '\n');
    }
    ck_assert_uint_eq(n, 5);
    header_begin(&iter, SPAN_EMPTY);
    ck_assert(!header_next(&iter, &f));
    header_begin(&iter, lit("junk\r\nA: 1\r\n\r\n"));
    ck_assert(!header_next(&iter, &f));
}
END_TEST

START_TEST(first_of_a_name_is_found)
{
    struct span value;

    ck_assert(header_find(lit(BLOCK), SPAN_LIT("A"), &value));
    ck_assert(span_eq_str(value, "1"));
    ck_assert(header_find(lit(BLOCK), SPAN_LIT("Empty"), &value));
    ck_assert_uint_eq(value.len, 0);
    ck_assert(!header_find(lit(BLOCK), SPAN_LIT("a"), &value));
    ck_assert(!header_find(SPAN_EMPTY, SPAN_LIT("A"), &value));
}
END_TEST

static bool drop_a(void *arg, const struct header_field *f)
{
    ++*(int *)arg;
    return span_eq_str(f->name, "A");
}

START_TEST(copy_keeps_bytes)
{
    struct header_writer w;
    struct buf out;
    int asked = 0;

    buf_init(&out, 4096);
    header_open(&w, &out);
    header_copy(&w, lit(BLOCK), drop_a, &asked);
    header_add(&w, SPAN_LIT("New"), SPAN_LIT("v"));
    header_add_u64(&w, SPAN_LIT("Zero"), 0);
    header_add_u64(&w, SPAN_LIT("Big"), 18446744073709551615ull);
    ck_assert(header_close(&w) == WB_OK);
    ck_assert_int_eq(asked, 5);
    ck_assert(span_eq_str(buf_span(&out),
                          "NATS/1.0\r\nEmpty:\r\nB:  two words \r\nX-y: a:b\r\nNew: v\r\nZero: "
                          "0\r\nBig: 18446744073709551615\r\n\r\n"));
    ck_assert(header_check(buf_span(&out)) == WB_OK);
    buf_clear(&out);
    header_open(&w, &out);
    header_copy(&w, lit(BLOCK), NULL, NULL);
    header_copy(&w, SPAN_EMPTY, NULL, NULL);
    ck_assert(header_close(&w) == WB_OK);
    ck_assert(
        span_eq_str(buf_span(&out),
                    "NATS/1.0\r\nA: 1\r\nEmpty:\r\nB:  two words \r\nA: 3\r\nX-y: a:b\r\n\r\n"));
    buf_fini(&out);
}
END_TEST

START_TEST(failure_sticks)
{
    struct header_writer w;
    struct buf out;

    buf_init(&out, 20);
    header_open(&w, &out);
    header_add(&w, SPAN_LIT("Name"), SPAN_LIT("far too long a value"));
    header_add(&w, SPAN_LIT("A"), SPAN_LIT("1"));
    ck_assert(header_close(&w) == WB_FULL);
    buf_fini(&out);
}
END_TEST

/* Found by the fuzzer: the copy in one piece took the walk's end for its begin, and the size
 * wrapped. */
START_TEST(a_block_that_does_not_begin_as_one_copies_nothing)
{
    struct header_writer w;
    struct buf out;

    buf_init(&out, 256);
    header_open(&w, &out);
    header_copy(&w, lit("N\r\n\rAT0\r\nE:\r\n\r\n"), NULL, NULL);
    ck_assert_int_eq(header_close(&w), WB_OK);
    ck_assert_uint_eq(buf_len(&out), sizeof("NATS/1.0\r\n\r\n") - 1);
    buf_fini(&out);
}
END_TEST

START_TEST(a_whole_block_is_copied_in_one_piece)
{
    struct header_writer w;
    struct buf out;

    buf_init(&out, 4096);
    header_open(&w, &out);
    header_copy_whole(&w, lit(BLOCK));
    header_copy_whole(&w, SPAN_EMPTY);
    header_copy_whole(&w, lit("NATS/1.0\r\n\r\n"));
    ck_assert(header_close(&w) == WB_OK);
    ck_assert(
        span_eq_str(buf_span(&out),
                    "NATS/1.0\r\nA: 1\r\nEmpty:\r\nB:  two words \r\nA: 3\r\nX-y: a:b\r\n\r\n"));
    buf_fini(&out);
}
END_TEST

/* One line end in a value would be a header of the sender's own: wherever it stands. */
START_TEST(a_value_with_a_line_end_ends_the_program)
{
    char value[] = "twenty bytes of text";
    struct header_writer w;
    struct buf out;

    value[_i / 2] = _i % 2 ? '\r' : '\n';
    buf_init(&out, 256);
    header_open(&w, &out);
    header_add(&w, SPAN_LIT("A"), span_str(value));
}
END_TEST

START_TEST(any_other_byte_is_a_value)
{
    char value[24];
    struct header_writer w;
    struct buf out;

    buf_init(&out, 256);
    for (int byte = 0; byte < 256; byte++) {
        if (byte == '\r' || byte == '\n')
            continue;
        memset(value, byte, sizeof(value));
        buf_clear(&out);
        header_open(&w, &out);
        header_add(&w, SPAN_LIT("A"), span_of(value, sizeof(value)));
        ck_assert_int_eq(header_close(&w), WB_OK);
        ck_assert_uint_eq(buf_len(&out), sizeof("NATS/1.0\r\nA: \r\n\r\n") - 1 + sizeof(value));
    }
    buf_fini(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header");
    TCase *tests = tcase_create("header");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, well_formed_blocks);
    tcase_add_test(tests, status_is_read);
    tcase_add_test(tests, fields_in_order);
    tcase_add_test(tests, first_of_a_name_is_found);
    tcase_add_test(tests, copy_keeps_bytes);
    tcase_add_test(tests, a_block_that_does_not_begin_as_one_copies_nothing);
    tcase_add_test(tests, failure_sticks);
    tcase_add_test(tests, a_whole_block_is_copied_in_one_piece);
    tcase_add_loop_test_raise_signal(tests, a_value_with_a_line_end_ends_the_program, SIGABRT, 0,
                                     2 * 20);
    tcase_add_test(tests, any_other_byte_is_a_value);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
