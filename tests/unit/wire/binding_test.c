/* Keys and values of the bucket of sessions. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/binding.h"

static struct binding bound_to(const char *worker, int32_t rank, int64_t epoch)
{
    struct binding b = {.bound = true, .rank = rank, .epoch = epoch};

    strcpy(b.router, "router-1");
    strcpy(b.worker, worker);
    return b;
}

static void check_round(const struct binding *b, const char *text)
{
    struct binding back;
    struct buf out;

    buf_init(&out, BINDING_SIZE_MAX);
    ck_assert_int_eq(binding_encode(b, &out), WB_OK);
    ck_assert_msg(span_eq_str(buf_span(&out), text), "%.*s", (int)buf_len(&out),
                  buf_span(&out).ptr);
    ck_assert_int_eq(binding_decode(buf_span(&out), &back), WB_OK);
    ck_assert_int_eq(back.bound, b->bound);
    ck_assert_str_eq(back.router, b->router);
    ck_assert_str_eq(back.worker, b->worker);
    ck_assert_int_eq(back.rank, b->rank);
    ck_assert_int_eq(back.epoch, b->epoch);
    buf_fini(&out);
}

START_TEST(values_as_the_schema_says_and_back)
{
    struct binding init = {.rank = -1, .epoch = -1};
    struct binding plain = bound_to("w1", -1, -1), full = bound_to("w2", 3, 1767225600000);

    strcpy(init.router, "router-1");
    check_round(&init, "{\"v\":1,\"state\":\"init\",\"router\":\"router-1\",\"worker\":null,"
                       "\"rank\":null,\"worker_epoch\":null}");
    check_round(&plain, "{\"v\":1,\"state\":\"bound\",\"router\":\"router-1\",\"worker\":\"w1\","
                        "\"rank\":null,\"worker_epoch\":null}");
    check_round(&full, "{\"v\":1,\"state\":\"bound\",\"router\":\"router-1\",\"worker\":\"w2\","
                       "\"rank\":3,\"worker_epoch\":1767225600000}");
}
END_TEST

START_TEST(what_is_no_binding_is_refused)
{
    static const struct {
        const char *text;
        wb_status status;
    } bad[] = {
        {"", WB_INVALID},
        {"[]", WB_INVALID},
        {"{}", WB_INVALID},
        {"{\"v\":0,\"state\":\"init\",\"router\":\"r\"}", WB_INVALID},
        {"{\"v\":2,\"state\":\"init\",\"router\":\"r\"}", WB_UNSUPPORTED},
        {"{\"v\":1,\"state\":\"gone\",\"router\":\"r\"}", WB_INVALID},
        {"{\"v\":1,\"state\":\"init\"}", WB_INVALID},
        {"{\"v\":1,\"state\":\"init\",\"router\":\"a b\"}", WB_INVALID},
        {"{\"v\":1,\"state\":\"bound\",\"router\":\"r\"}", WB_INVALID},
        {"{\"v\":1,\"state\":\"bound\",\"router\":\"r\",\"worker\":\"a.b\"}", WB_INVALID},
        {"{\"v\":1,\"state\":\"bound\",\"router\":\"r\",\"worker\":\"w\",\"rank\":-2}", WB_INVALID},
        {"{\"v\":1,\"state\":\"bound\",\"router\":\"r\",\"worker\":\"w\",\"rank\":65536}",
         WB_INVALID},
        {"{\"v\":1,\"state\":\"bound\",\"router\":\"r\",\"worker\":\"w\",\"worker_epoch\":\"1\"}",
         WB_INVALID},
    };
    static char big[2 * BINDING_SIZE_MAX];
    struct binding b;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(binding_decode(span_str(bad[i].text), &b) == bad[i].status, "%s",
                      bad[i].text);
    memset(big, ' ', sizeof big);
    memcpy(big, "{\"v\":1,\"state\":\"init\",\"router\":\"r\"}", 36);
    ck_assert_int_eq(binding_decode(span_of(big, sizeof big), &b), WB_INVALID);
}
END_TEST

START_TEST(keys_hold_any_name_and_give_it_back)
{
    static const char *const names[] = {"s-9", "a.b", "user@example.org/x", "=41", "*", ">", "~"};
    char key[BINDING_KEY_MAX], text[WB_LONG_NAME_MAX], longest[WB_LONG_NAME_MAX];
    struct span service, name;
    size_t n;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        n = binding_key(SPAN_LIT("chat"), span_str(names[i]), key);
        ck_assert(binding_key_read(span_of(key, n), &service, &name, text));
        ck_assert(span_eq_str(service, "chat"));
        ck_assert(span_eq_str(name, names[i]));
    }
    n = binding_key(SPAN_LIT("chat"), SPAN_LIT("a.b"), key);
    ck_assert(span_eq_str(span_of(key, n), "chat.a=2Eb"));
    memset(longest, '/', sizeof longest);
    n = binding_key(SPAN_LIT("chat"), span_of(longest, sizeof longest), key);
    ck_assert_uint_eq(n, 5 + 3 * WB_LONG_NAME_MAX);
    ck_assert(binding_key_read(span_of(key, n), &service, &name, text));
    ck_assert_uint_eq(name.len, WB_LONG_NAME_MAX);
}
END_TEST

START_TEST(what_is_no_key_is_refused)
{
    static const char *const bad[] = {"",         "chat",     ".a",     "chat.",
                                      "chat.a.b", "chat.=4",  "chat.=", "chat.=4g",
                                      "chat.=2e", "chat.=20", "a b.c"};
    char text[WB_LONG_NAME_MAX];
    struct span service, name;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!binding_key_read(span_str(bad[i]), &service, &name, text), "%s", bad[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("binding");
    TCase *tcase = tcase_create("binding");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, values_as_the_schema_says_and_back);
    tcase_add_test(tcase, what_is_no_binding_is_refused);
    tcase_add_test(tcase, keys_hold_any_name_and_give_it_back);
    tcase_add_test(tcase, what_is_no_key_is_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
