/* INFO read, CONNECT written, -ERR understood, credentials found and signed. */
#include "lane/handshake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct urls {
    char all[256];
};

static void on_url(void *arg, struct span url)
{
    struct urls *urls = arg;
    size_t n = strlen(urls->all);

    snprintf(urls->all + n, sizeof(urls->all) - n, "%.*s;", (int)url.len, url.ptr);
}

START_TEST(info_of_a_server)
{
    static const char json[] =
        "{\"server_id\":\"NDX\",\"server_name\":\"N\\\"D\",\"version\":\"2.9.10\",\"proto\":1,"
        "\"git_commit\":\"x\",\"go\":\"go1.19.8\",\"host\":\"127.0.0.1\",\"port\":4222,"
        "\"headers\":true,\"max_payload\":1048576,\"client_id\":5,\"nested\":{\"a\":[1,{\"b\":\"]"
        "\"}]},"
        "\"nonce\":\"abc-_\",\"tls_required\":true,\"tls_available\":false,\"auth_required\":true,"
        "\"connect_urls\":[\"10.0.0.1:4222\", \"[::1]:4223\"],\"ldm\":true} ";
    struct handshake_info info;
    struct urls urls = {""};

    ck_assert(handshake_read_info(SPAN_LIT(json), &info, on_url, &urls) == WB_OK);
    ck_assert_str_eq(info.server_id, "NDX");
    ck_assert_str_eq(info.version, "2.9.10");
    ck_assert_str_eq(info.nonce, "abc-_");
    ck_assert_uint_eq(info.max_payload, 1048576);
    ck_assert(info.headers && info.tls_required && !info.tls_available && info.ldm);
    ck_assert(info.has_urls);
    ck_assert_str_eq(urls.all, "10.0.0.1:4222;[::1]:4223;");
    ck_assert(handshake_read_info(SPAN_LIT("{}"), &info, NULL, NULL) == WB_OK);
    ck_assert(!info.headers && !info.has_urls && info.max_payload == 0);
    ck_assert(handshake_read_info(SPAN_LIT("{\"connect_urls\":null,\"max_payload\":-1}"), &info,
                                  NULL, NULL) == WB_OK);
}
END_TEST

START_TEST(info_malformed)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "}",
                                      "[]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1",
                                      "{\"a\":1,}",
                                      "{\"a\":\"b}",
                                      "{\"a\":\"b\\",
                                      "{\"a\":[1}}x",
                                      "{\"headers\":1}",
                                      "{\"connect_urls\":[1]}",
                                      "{\"connect_urls\":[\"a\"",
                                      "{\"a\":1}{",
                                      "{\"nonce\":1}",
                                      "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]}"};
    struct handshake_info info;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(handshake_read_info(span_str(bad[i]), &info, NULL, NULL) == WB_INVALID, "%s",
                      bad[i]);
}
END_TEST

START_TEST(connect_is_escaped)
{
    struct credentials who = {.user = "a\"b\\", .password = "p\n"};
    struct buf out;

    buf_init(&out, 4096);
    ck_assert(handshake_write_connect(&out, &who, "router", true) == WB_OK);
    ck_assert(buf_append(&out, "", 1) == WB_OK);
    ck_assert_ptr_nonnull(strstr(out.data, "\"tls_required\":true"));
    ck_assert_ptr_nonnull(strstr(out.data, "\"no_responders\":true"));
    ck_assert_ptr_nonnull(strstr(out.data, ",\"name\":\"router\",\"user\":\"a\\\"b\\\\\",\"pass\":"
                                           "\"p\\u000a\"}\r\n"));
    ck_assert_ptr_null(strstr(out.data, "auth_token"));
    buf_fini(&out);
    buf_init(&out, 64);
    ck_assert(handshake_write_connect(&out, &who, NULL, false) == WB_FULL);
    buf_fini(&out);
}
END_TEST

START_TEST(errors_are_judged)
{
    struct span subject;

    ck_assert(handshake_read_error(SPAN_LIT("Permissions Violation for Publish to \"a.b\""),
                                   &subject) == HANDSHAKE_DENIED_PUBLISH);
    ck_assert(span_eq_str(subject, "a.b"));
    ck_assert(handshake_read_error(
                  SPAN_LIT("Permissions Violation for Subscription to \"c.>\" using queue \"q\""),
                  &subject) == HANDSHAKE_DENIED_SUBSCRIBE);
    ck_assert(span_eq_str(subject, "c.>"));
    ck_assert(handshake_read_error(SPAN_LIT("Permissions Violation for Publish"), &subject) ==
              HANDSHAKE_DENIED_PUBLISH);
    ck_assert_uint_eq(subject.len, 0);
    ck_assert(handshake_read_error(SPAN_LIT("Authorization Violation"), &subject) ==
              HANDSHAKE_REFUSED);
    ck_assert(handshake_read_error(SPAN_LIT("User Authentication Expired"), &subject) ==
              HANDSHAKE_REFUSED);
    ck_assert(handshake_read_error(SPAN_LIT("stale connection"), &subject) == HANDSHAKE_OVER);
    ck_assert(handshake_read_error(SPAN_LIT("maximum subscriptions exceeded"), &subject) ==
              HANDSHAKE_LIVES);
    ck_assert(handshake_read_error(SPAN_EMPTY, &subject) == HANDSHAKE_LIVES);
}
END_TEST

/* A pair made for this test with the published nkey format. */
#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define PUBLIC "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

START_TEST(public_key_of_a_seed)
{
    char public[64];

    ck_assert(credentials_public_of(SEED, public) == WB_OK);
    ck_assert_str_eq(public, PUBLIC);
    ck_assert(credentials_public_of("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3WY",
                                    public) == WB_INVALID);
    ck_assert(credentials_public_of("", public) == WB_INVALID);
    ck_assert(credentials_public_of("hunter2", public) == WB_INVALID);
}
END_TEST

START_TEST(credentials_from_files)
{
    char path[] = "/tmp/lane-creds-XXXXXX", why[CREDENTIALS_TEXT_MAX];
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    struct lane_options options = {.creds_file = path};
    struct credentials who;

    fputs("-----BEGIN NATS USER JWT-----\r\neyJ0.a.b\r\n------END NATS USER JWT------\n\n"
          "*** IMPORTANT ***\n\n-----BEGIN USER NKEY SEED-----\n" SEED
          "\n------END USER NKEY SEED------\n",
          file);
    fclose(file);
    ck_assert_msg(credentials_gather(&who, &options, "", "", "", "nonce", why) == WB_OK, "%s", why);
    ck_assert_str_eq(who.jwt, "eyJ0.a.b");
    ck_assert_uint_eq(strlen(who.signature), 86);
    ck_assert_str_eq(who.public, "");
    credentials_fini(&who);
    options = (struct lane_options){.nkey_file = path};
    ck_assert_msg(credentials_gather(&who, &options, "", "", "", "nonce", why) == WB_OK, "%s", why);
    ck_assert_str_eq(who.public, PUBLIC);
    ck_assert_uint_eq(strlen(who.signature), 86);
    credentials_fini(&who);
    unlink(path);
    ck_assert(credentials_gather(&who, &options, "", "", "", "nonce", why) == WB_IO);
    ck_assert_ptr_nonnull(strstr(why, path));
}
END_TEST

START_TEST(url_goes_before_options)
{
    struct lane_options options = {.user = "o", .password = "p"};
    struct credentials who;
    char why[CREDENTIALS_TEXT_MAX];

    ck_assert(credentials_gather(&who, &options, "", "", "tok", "", why) == WB_OK);
    ck_assert_str_eq(who.token, "tok");
    ck_assert(!who.user || !*who.user);
    credentials_fini(&who);
    ck_assert(credentials_gather(&who, &options, "", "", "", "", why) == WB_OK);
    ck_assert_str_eq(who.user, "o");
    credentials_fini(&who);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handshake");
    TCase *tests = tcase_create("handshake");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, info_of_a_server);
    tcase_add_test(tests, info_malformed);
    tcase_add_test(tests, connect_is_escaped);
    tcase_add_test(tests, errors_are_judged);
    tcase_add_test(tests, public_key_of_a_seed);
    tcase_add_test(tests, credentials_from_files);
    tcase_add_test(tests, url_goes_before_options);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
