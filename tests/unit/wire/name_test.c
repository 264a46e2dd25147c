#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/name.h"

/* What must never become a token, key or header, whoever asks. */
static const struct span hostile[] = {
    {"", 0},
    {"a b", 3},
    {"a\r\nPUB x 0\r\n", 14},
    {"*", 1},
    {">", 1},
    {"a\0b", 3},
    {"\xff\xfe\x00\x01", 4},
    {" ", 1},
    {"a\t", 2},
    {"\x7f", 1},
    {"\xc3\xa9", 2},
    {"a\n", 2},
    {"a>", 2},
    {"a*b", 3},
    {"a/b\r", 4},
};

START_TEST(hostile_names_are_no_ids)
{
    char big[5000];

    memset(big, 'a', sizeof(big));
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        ck_assert_msg(!name_is_id(hostile[i]), "%zu", i);
        ck_assert_msg(!name_is_request_id(hostile[i]), "%zu", i);
    }
    ck_assert(!name_is_id(span_of(big, sizeof(big))));
    ck_assert(!name_is_request_id(span_of(big, sizeof(big))));
    ck_assert(!name_is_long(span_of(big, sizeof(big))));
    ck_assert(!name_is_id(SPAN_LIT("a.b")));
}
END_TEST

START_TEST(lengths_are_bounded)
{
    char text[300];

    memset(text, 'a', sizeof(text));
    ck_assert(name_is_id(span_of(text, 1)) && name_is_id(span_of(text, 64)));
    ck_assert(!name_is_id(span_of(text, 65)));
    ck_assert(name_is_request_id(span_of(text, 128)) && !name_is_request_id(span_of(text, 129)));
    ck_assert(name_is_long(span_of(text, 256)) && !name_is_long(span_of(text, 257)));
}
END_TEST

START_TEST(request_ids_keep_their_dots_inside)
{
    ck_assert(name_is_request_id(SPAN_LIT("a.b=c-d_e")));
    ck_assert(!name_is_request_id(SPAN_LIT(".a")));
    ck_assert(!name_is_request_id(SPAN_LIT("a.")));
    ck_assert(!name_is_request_id(SPAN_LIT("a..b")));
    ck_assert(!name_is_request_id(SPAN_LIT(".")));
    ck_assert(!name_is_request_id(SPAN_LIT("a/b")));
}
END_TEST

START_TEST(long_names_are_printable_without_spaces)
{
    ck_assert(name_is_long(SPAN_LIT("org/model:v1.*>~!")));
    ck_assert(!name_is_long(SPAN_LIT("a b")));
    ck_assert(!name_is_long(SPAN_LIT("a\r\n")));
    ck_assert(!name_is_long(SPAN_LIT("\xc3\xa9")));
    ck_assert(!name_is_long(SPAN_LIT("")));
}
END_TEST

START_TEST(keys_escape_every_other_byte)
{
    char key[16];

    ck_assert_uint_eq(name_to_key(SPAN_LIT("a/b.C"), key, sizeof(key)), 9);
    ck_assert_mem_eq(key, "a=2Fb=2EC", 9);
    ck_assert_uint_eq(name_to_key(SPAN_LIT("="), key, 3), 3);
    ck_assert_mem_eq(key, "=3D", 3);
    ck_assert_uint_eq(name_to_key(SPAN_LIT("="), key, 2), 0);
    ck_assert_uint_eq(name_to_key(SPAN_LIT("abc"), key, 2), 0);
}
END_TEST

START_TEST(default_router_ids_are_ids_and_differ)
{
    char a[WB_NAME_MAX + 1], b[WB_NAME_MAX + 1], host[300];

    name_router_default("node.example:1", a);
    name_router_default("node.example:1", b);
    ck_assert(name_is_id(span_str(a)));
    ck_assert_mem_eq(a, "node-example-1-", 15);
    ck_assert_uint_eq(strlen(a), 19);
    ck_assert_str_ne(a, b);
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    name_router_default(host, a);
    ck_assert_uint_eq(strlen(a), WB_NAME_MAX);
    name_router_default("", a);
    ck_assert(name_is_id(span_str(a)));
    name_router_default(NULL, a);
    ck_assert(name_is_id(span_str(a)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("name");
    TCase *tcase = tcase_create("name");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, hostile_names_are_no_ids);
    tcase_add_test(tcase, lengths_are_bounded);
    tcase_add_test(tcase, request_ids_keep_their_dots_inside);
    tcase_add_test(tcase, long_names_are_printable_without_spaces);
    tcase_add_test(tcase, keys_escape_every_other_byte);
    tcase_add_test(tcase, default_router_ids_are_ids_and_differ);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
