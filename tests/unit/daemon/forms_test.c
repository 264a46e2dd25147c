/* Forms of single texts: server lists and listen addresses, the edges of each. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

static bool fits(const char *path, const char *text)
{
    static struct config_errors errors;
    cJSON *v = cJSON_CreateString(text);
    bool fine = config_value_check(config_key_find(SCOPE_TOP, path), v, path, &errors);

    ck_assert_int_eq(fine, errors.count == 0);
    config_errors_fini(&errors);
    cJSON_Delete(v);
    return fine;
}

START_TEST(listen_addresses)
{
    static const char *const good[] = {"127.0.0.1:8090", "0.0.0.0:0", "localhost:1",
                                       ":65535",         "[::1]:80",  "[::]:0"};
    static const char *const bad[] = {
        "",       "8090",  "127.0.0.1", "127.0.0.1:", "1.2.3.4:x",     "1.2.3:80",   "a.b:80",
        "::1:80", "[::1]", "[]:80",     "[::1:80",    "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:+1"};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(fits("monitor.listen", good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!fits("monitor.listen", bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(server_lists)
{
    static const char *const good[] = {"nats://127.0.0.1:4222",
                                       "tls://h",
                                       "h",
                                       "h:1",
                                       "nats://u:p@h:1,nats://token@[::1]:2",
                                       "a, b ,c",
                                       "nats://h:4222/"};
    static const char *const bad[] = {"",    ",",       "a,",  "http://h", "nats://", "nats://:1",
                                      "h:0", "h:65536", "h:x", "[::1",     "a b",     "nats://u@"};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(fits("nats.url", good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!fits("nats.url", bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(prefixes)
{
    char longest[130];

    ck_assert(fits("router.prefix", "waybill"));
    ck_assert(fits("router.prefix", "a.b-c.d_e"));
    ck_assert(!fits("router.prefix", ""));
    ck_assert(!fits("router.prefix", "a."));
    ck_assert(!fits("router.prefix", "a.*"));
    ck_assert(!fits("router.prefix", "$x"));
    ck_assert(!fits("router.prefix", "_INBOX"));
    ck_assert(!fits("router.prefix", "_INBOX.a"));
    memset(longest, 'a', sizeof longest - 1);
    longest[129] = 0;
    ck_assert(!fits("router.prefix", longest));
    longest[128] = 0;
    ck_assert(fits("router.prefix", longest));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forms");
    TCase *tests = tcase_create("forms");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, listen_addresses);
    tcase_add_test(tests, server_lists);
    tcase_add_test(tests, prefixes);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
