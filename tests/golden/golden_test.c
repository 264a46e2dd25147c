/* Vectors that fix the bytes: heartbeats.json and acks.json hold inputs with what they mean;
 * record-*.json and error-*.json are what the encoders must write, byte for byte. schemas_test.py
 * holds the same files against the schemas. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/error_body.h"
#include "wire/heartbeat.h"
#include "wire/js.h"
#include "wire/record.h"

static char *read_file(const char *name)
{
    char path[512];
    FILE *file;
    char *text = malloc(1 << 20);
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
    file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s", path);
    n = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    text[n] = '\0';
    return text;
}

static cJSON *read_vectors(const char *name)
{
    char *text = read_file(name);
    cJSON *all = cJSON_Parse(text);

    free(text);
    ck_assert_msg(cJSON_IsArray(all), "%s", name);
    return all;
}

static const char *text_of(const cJSON *vector, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(vector, name));
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;

    for (; hex[0] && hex[1]; hex += 2) {
        char pair[3] = {hex[0], hex[1], '\0'};

        out[n++] = (char)strtol(pair, NULL, 16);
    }
    return n;
}

/* Decodes, then encodes both ways, and reads its own msgpack again. */
static void check_good(const char *name, struct span bytes, const char *canonical,
                       const char *packed)
{
    struct heartbeat hb;
    char why[128], *expected = malloc(65536);
    struct buf json, msgpack;

    ck_assert_msg(heartbeat_decode(bytes, &hb, why) == WB_OK, "%s: %s", name, why);
    buf_init(&json, 65536);
    buf_init(&msgpack, 65536);
    ck_assert_int_eq(heartbeat_encode_json(&hb, &json), WB_OK);
    ck_assert_msg(span_eq_str(buf_span(&json), canonical), "%s: %.*s", name, (int)buf_len(&json),
                  buf_span(&json).ptr);
    ck_assert_int_eq(heartbeat_encode_msgpack(&hb, &msgpack), WB_OK);
    if (packed)
        ck_assert_msg(span_eq(buf_span(&msgpack), span_of(expected, from_hex(packed, expected))),
                      "%s: msgpack differs", name);
    heartbeat_fini(&hb);
    ck_assert_int_eq(heartbeat_decode(buf_span(&msgpack), &hb, why), WB_OK);
    buf_clear(&json);
    ck_assert_int_eq(heartbeat_encode_json(&hb, &json), WB_OK);
    ck_assert_msg(span_eq_str(buf_span(&json), canonical), "%s: not the same again", name);
    heartbeat_fini(&hb);
    buf_fini(&json);
    buf_fini(&msgpack);
    free(expected);
}

static void check_one(const cJSON *vector, struct span bytes)
{
    const char *name = text_of(vector, "name"), *refused = text_of(vector, "refused");
    struct heartbeat hb;
    char why[128];

    if (!refused) {
        check_good(name, bytes, text_of(vector, "canonical"), text_of(vector, "packed"));
        return;
    }
    ck_assert_msg(heartbeat_decode(bytes, &hb, why) == WB_INVALID, "%s: accepted", name);
    ck_assert_msg(strncmp(why, refused, strlen(refused)) == 0, "%s: %s", name, why);
}

START_TEST(heartbeats)
{
    cJSON *all = read_vectors("heartbeats.json");
    const cJSON *vector;
    char *bytes = malloc(65536);

    cJSON_ArrayForEach(vector, all)
    {
        const char *hex = text_of(vector, "msgpack"), *json = text_of(vector, "json");

        if (hex)
            check_one(vector, span_of(bytes, from_hex(hex, bytes)));
        if (json)
            check_one(vector, span_str(json));
    }
    free(bytes);
    cJSON_Delete(all);
}
END_TEST

static double number_of(const cJSON *vector, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(vector, name);

    return item ? item->valuedouble : 0;
}

START_TEST(acknowledgements)
{
    cJSON *all = read_vectors("acks.json");
    const cJSON *vector;

    cJSON_ArrayForEach(vector, all)
    {
        const char *json = text_of(vector, "json");
        bool invalid = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(vector, "invalid"));
        struct js_ack ack;
        wb_status status = js_ack_parse(span_str(json), &ack);

        ck_assert_msg(status == (invalid ? WB_INVALID : WB_OK), "%s", json);
        if (invalid)
            continue;
        ck_assert_msg(span_eq_str(ack.stream, text_of(vector, "stream")), "%s", json);
        ck_assert_msg((double)ack.seq == number_of(vector, "seq"), "%s", json);
        ck_assert_msg(ack.code == (int)number_of(vector, "code"), "%s", json);
        ck_assert_msg(ack.err_code == (int)number_of(vector, "err_code"), "%s", json);
        ck_assert_msg(ack.duplicate ==
                          cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(vector, "duplicate")),
                      "%s", json);
    }
    cJSON_Delete(all);
}
END_TEST

static void check_file(const char *name, const struct buf *out)
{
    char *text = read_file(name);

    text[strcspn(text, "\n")] = '\0';
    ck_assert_msg(span_eq_str(buf_span(out), text), "%s: %.*s", name, (int)buf_len(out),
                  buf_span(out).ptr);
    free(text);
}

static void check_record(const char *name, const struct record *r)
{
    struct buf out;

    buf_init(&out, RECORD_SIZE_MAX);
    ck_assert_int_eq(record_encode(r, &out), WB_OK);
    check_file(name, &out);
    buf_fini(&out);
}

/* The example of the contract. */
static const struct record example = {.worker = SPAN_LIT("w2"),
                                      .rank = 0,
                                      .attempt = 2,
                                      .service = SPAN_LIT("chat"),
                                      .request_id = SPAN_LIT("r-1"),
                                      .tried = {{SPAN_LIT("w1"), SPAN_LIT("no_responders")}},
                                      .tried_count = 1,
                                      .selected = SPAN_LIT("w1"),
                                      .policy = SPAN_LIT("least_loaded"),
                                      .reason = SPAN_LIT("retry"),
                                      .session = SPAN_LIT("s-9"),
                                      .subject = SPAN_LIT("chat.request.eu"),
                                      .router = SPAN_LIT("router-1"),
                                      .rid = SPAN_LIT("router-1.1767225599000.42"),
                                      .worker_epoch = 1767225600000,
                                      .trace = SPAN_LIT("0af7651916cd43dd8448eb211c80319c"),
                                      .received_at = {1767225600000000},
                                      .first_reply_us = 1843,
                                      .finished_at = {-1},
                                      .replies = -1,
                                      .code = -1,
                                      .outcome = SPAN_LIT("streaming")};

START_TEST(records)
{
    struct record r = example;

    check_record("record-streaming.json", &r);
    r.rank = -1;
    r.attempt = 1;
    r.tried_count = 0;
    r.selected = r.worker;
    r.reason = SPAN_LIT("policy");
    r.session = r.trace = SPAN_EMPTY;
    r.worker_epoch = -1;
    r.finished_at = (wall){1767225600002001};
    r.replies = 1;
    r.code = 500;
    r.outcome = SPAN_LIT("error");
    check_record("record-plain.json", &r);
    r.session = SPAN_LIT("quote\"back\\slash");
    r.adapter = SPAN_LIT("org/model:v2");
    r.tried[0] = (struct record_tried){SPAN_LIT("w1"), SPAN_LIT("timeout")};
    r.tried[1] = (struct record_tried){SPAN_LIT("w3"), SPAN_LIT("refused")};
    r.tried_count = 2;
    r.code = -1;
    r.outcome = SPAN_LIT("done");
    check_record("record-escapes.json", &r);
}
END_TEST

START_TEST(error_bodies)
{
    static const struct record_tried tried[] = {{SPAN_LIT("w1"), SPAN_LIT("refused")},
                                                {SPAN_LIT("w2"), SPAN_LIT("timeout")}};
    struct buf out;

    buf_init(&out, 4096);
    ck_assert_int_eq(error_body_encode(&out, WB_OVERLOADED, SPAN_LIT("all 2 workers are busy"),
                                       SPAN_LIT("r-1"), tried, 2, "service", true),
                     WB_OK);
    check_file("error-overloaded.json", &out);
    buf_clear(&out);
    ck_assert_int_eq(error_body_encode(&out, WB_TIMEOUT, SPAN_LIT("first_reply_ms (30000) ran out"),
                                       SPAN_LIT("r-1"), tried, 2, NULL, false),
                     WB_OK);
    check_file("error-undisclosed.json", &out);
    buf_clear(&out);
    ck_assert_int_eq(error_body_encode(&out, WB_BAD_REQUEST,
                                       SPAN_LIT("Waybill-Target \"a b\xff\r\n\" is no name"),
                                       SPAN_EMPTY, NULL, 0, NULL, true),
                     WB_OK);
    check_file("error-hostile.json", &out);
    buf_fini(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tcase = tcase_create("golden");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, heartbeats);
    tcase_add_test(tcase, acknowledgements);
    tcase_add_test(tcase, records);
    tcase_add_test(tcase, error_bodies);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
