#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/control.h"
#include "wire/heartbeat.h"
#include "wire/json_read.h"
#include "wire/record.h"
#include "wire/utf8.h"

/* What stands between two plain characters, and whether it is UTF-8. */
static const struct {
    const char *bytes;
    bool good;
} samples[] = {
    {"\xc3\xa9", true},
    {"\xe2\x82\xac", true},
    {"\xf0\x9f\x98\x80", true},
    {"\xef\xbf\xbf", true},
    {"\xf4\x8f\xbf\xbf", true},
    {"\x7f", true},
    {"\xff", false},
    {"\x80", false},
    {"\xc3", false},
    {"\xc0\x80", false}, /* overlong */
    {"\xe0\x9f\xbf", false},
    {"\xf0\x8f\xbf\xbf", false}, /* overlong */
    {"\xed\xa0\x80", false},     /* a surrogate */
    {"\xf4\x90\x80\x80", false},
    {"\xf5\x80\x80\x80", false}, /* beyond U+10FFFF */
    {"\xe2\x82", false},
};
enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

START_TEST(well_formed_or_where_it_is_not)
{
    ck_assert_uint_eq(utf8_bad_at(SPAN_EMPTY), 0);
    for (int i = 0; i < SAMPLES; i++) {
        char text[16];
        struct span all;

        snprintf(text, sizeof(text), "a%sb", samples[i].bytes);
        all = span_str(text);
        ck_assert_msg(utf8_bad_at(all) == (samples[i].good ? all.len : 1), "sample %d", i);
    }
    ck_assert_uint_eq(utf8_bad_at(span_of("abc\xe2\x82", 5)), 3); /* cut short */
}
END_TEST

/* RFC 8259 section 8.1: JSON between systems is UTF-8. One rule for whatever we read. */
static void try_all(struct span (*write)(char *out, size_t size, const char *bytes),
                    bool (*accept)(struct span json))
{
    for (int i = 0; i < SAMPLES; i++) {
        char text[512];

        ck_assert_msg(accept(write(text, sizeof(text), samples[i].bytes)) == samples[i].good,
                      "sample %d", i);
    }
}

static bool json_accepts(struct span json)
{
    const char *why = NULL;
    cJSON *tree = json_read(json, &why);

    ck_assert(tree || strcmp(why, "not UTF-8") == 0);
    cJSON_Delete(tree);
    return tree != NULL;
}

static struct span in_value(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "{\"meta\":{\"k\":\"%s\"}}", bytes));
}

static struct span in_key(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "{\"meta\":{\"%s\":1}}", bytes));
}

static struct span in_unknown(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "{\"unknown\":\"%s\"}", bytes));
}

START_TEST(json_that_is_not_utf8_is_refused)
{
    try_all(in_value, json_accepts);
    try_all(in_key, json_accepts);
}
END_TEST

static bool heartbeat_accepts(struct span bytes)
{
    struct heartbeat hb, again;
    char why[128];
    struct buf out;

    if (heartbeat_decode(bytes, &hb, why) != WB_OK) {
        ck_assert_msg(strstr(why, "UTF-8") != NULL, "%s", why);
        return false;
    }
    /* What was accepted can be written, and is the same again. */
    for (int packed = 0; packed < 2; packed++) {
        buf_init(&out, 4096);
        ck_assert_int_eq((packed ? heartbeat_encode_msgpack : heartbeat_encode_json)(&hb, &out),
                         WB_OK);
        ck_assert_int_eq(heartbeat_decode(buf_span(&out), &again, why), WB_OK);
        ck_assert(span_eq(hb.meta, again.meta));
        heartbeat_fini(&again);
        buf_fini(&out);
    }
    heartbeat_fini(&hb);
    return true;
}

static struct span packed_value(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "\x81\xa4meta\x81\xa1k%c%s",
                                         (int)(0xa0 + strlen(bytes)), bytes));
}

static struct span packed_key(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "\x81\xa4meta\x81%c%s\x01",
                                         (int)(0xa0 + strlen(bytes)), bytes));
}

START_TEST(heartbeats_accepted_but_not_writable_again)
{
    try_all(in_value, heartbeat_accepts);
    try_all(in_key, heartbeat_accepts);
    try_all(in_unknown, heartbeat_accepts);
    try_all(packed_value, heartbeat_accepts);
    try_all(packed_key, heartbeat_accepts);
    /* JSON lacks a text with a NUL as well: our own writer's form of it is not read again. */
    ck_assert(!heartbeat_accepts(span_of("\x81\xa4meta\x81\xa1k\xa3"
                                         "a\0b",
                                         13)));
    /* integers that a double does not hold, written as JSON's numbers are */
    ck_assert(heartbeat_accepts(
        span_of("\x81\xa4meta\x81\xa1k\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", 18)));
    ck_assert(heartbeat_accepts(
        span_of("\x81\xa4meta\x81\xa1k\xcb\x7f\xef\xff\xff\xff\xff\xff\xff", 18)));
}
END_TEST

static struct span in_record(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size,
                                         "{\"v\":1,\"worker\":\"w\",\"subject\":\"%s\",\"rid\":"
                                         "\"x\",\"received_at\":\"2026-01-01T00:00:00.000000Z\","
                                         "\"outcome\":\"done\"}",
                                         bytes));
}

static bool record_accepts(struct span json)
{
    struct record_brief brief;

    return record_decode_brief(json, &brief) == WB_OK;
}

static struct span in_command(char *out, size_t size, const char *bytes)
{
    return span_of(out, (size_t)snprintf(out, size, "{\"service\":\"a%s\"}", bytes));
}

static bool command_accepts(struct span json)
{
    struct control_body body;

    return control_body_parse(json, &body) == WB_OK;
}

START_TEST(records_and_commands_are_read_by_the_same_rule)
{
    try_all(in_record, record_accepts);
    try_all(in_command, command_accepts);
    ck_assert(!command_accepts(SPAN_LIT("{\"service\":\"a\\u0000b\"}")));
    ck_assert(!command_accepts(SPAN_LIT("{} trailing")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tcase = tcase_create("utf8");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, well_formed_or_where_it_is_not);
    tcase_add_test(tcase, json_that_is_not_utf8_is_refused);
    tcase_add_test(tcase, heartbeats_accepted_but_not_writable_again);
    tcase_add_test(tcase, records_and_commands_are_read_by_the_same_rule);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
