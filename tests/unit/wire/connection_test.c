#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "wire/connection.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[64];

static void write_file(const char *name, const char *text)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/nats/%s", home, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    static const char *const names[] = {"NATS_URL",   "NATS_CREDS",  "NATS_USER", "NATS_PASSWORD",
                                        "NATS_TOKEN", "NATS_NKEY",   "NATS_CERT", "NATS_KEY",
                                        "NATS_CA",    "NATS_CONTEXT"};
    char path[100];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    snprintf(home, sizeof(home), "/tmp/wb-connection-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    setenv("XDG_CONFIG_HOME", home, 1);
    setenv("HOME", "/home/somebody", 1);
    snprintf(path, sizeof(path), "%s/nats", home);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/nats/context", home);
    mkdir(path, 0700);
    write_file("context/prod.json",
               "{\"description\":\"x\",\"url\":\"nats://prod:4222\",\"user\":\"u\","
               "\"creds\":\"~/prod.creds\",\"inbox_prefix\":\"_I\",\"nsc\":\"\","
               "\"tls_first\":true}");
    write_file("context/bad.json", "{\"url\":");
    write_file("context/odd.json", "{\"url\":5}");
}

START_TEST(nothing_set_leaves_nothing_set)
{
    struct connection c = {0};
    char why[256];

    setup();
    ck_assert_int_eq(connection_resolve(&c, NULL, true, why), WB_OK);
    ck_assert_ptr_null(c.url);
    connection_fini(&c);
}
END_TEST

START_TEST(environment_goes_before_the_context)
{
    struct connection c = {.password = strdup("given")};
    char why[256];

    setup();
    setenv("NATS_URL", "nats://env:1", 1);
    setenv("NATS_PASSWORD", "env", 1);
    setenv("NATS_CONTEXT", "prod", 1);
    ck_assert_int_eq(connection_resolve(&c, NULL, false, why), WB_OK);
    ck_assert_str_eq(c.url, "nats://env:1");
    ck_assert_str_eq(c.origin_url, "environment");
    ck_assert_str_eq(c.password, "given");
    ck_assert_str_eq(c.user, "u");
    ck_assert_str_eq(c.creds, "/home/somebody/prod.creds");
    ck_assert_str_eq(c.inbox_prefix, "_I");
    ck_assert(c.tls_first);
    connection_fini(&c);
}
END_TEST

START_TEST(the_selected_context_counts_only_when_asked_for)
{
    struct connection c = {0};
    char why[256];

    setup();
    write_file("context.txt", "prod\n");
    ck_assert_int_eq(connection_resolve(&c, NULL, false, why), WB_OK);
    ck_assert_ptr_null(c.url);
    ck_assert_int_eq(connection_resolve(&c, NULL, true, why), WB_OK);
    ck_assert_str_eq(c.url, "nats://prod:4222");
    ck_assert_str_eq(c.origin_url, "context");
    connection_fini(&c);
}
END_TEST

START_TEST(bad_contexts_say_why)
{
    struct connection c = {0};
    char why[256];

    setup();
    ck_assert_int_eq(connection_resolve(&c, "missing", false, why), WB_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(why, "missing.json"));
    ck_assert_int_eq(connection_resolve(&c, "bad", false, why), WB_INVALID);
    ck_assert_int_eq(connection_resolve(&c, "odd", false, why), WB_INVALID);
    ck_assert_int_eq(connection_resolve(&c, "../../etc/passwd", false, why), WB_INVALID);
    connection_fini(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tcase = tcase_create("connection");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, nothing_set_leaves_nothing_set);
    tcase_add_test(tcase, environment_goes_before_the_context);
    tcase_add_test(tcase, the_selected_context_counts_only_when_asked_for);
    tcase_add_test(tcase, bad_contexts_say_why);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
