/* JetStream's answers, as servers of both generations write them. */
#include "store/reply.h"

#include <check.h>
#include <stdlib.h>

START_TEST(acknowledgements)
{
    static const struct {
        const char *json;
        wb_status status;
        uint64_t revision;
    } cases[] = {
        {"{\"stream\":\"KV_b\", \"seq\":12}", WB_OK, 12},
        {"{\"stream\":\"KV_b\",\"domain\":\"hub\",\"seq\":9007199254740991,\"duplicate\":true}",
         WB_IO, 0},
        {"{\"stream\":\"KV_b\",\"domain\":\"hub\",\"seq\":7}", WB_OK, 7},
        {"{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: "
         "3\"},\"stream\":\"KV_b\",\"seq\":0}",
         WB_EXISTS, 0},
        {"{\"error\":{\"code\":400,\"err_code\":10164},\"stream\":\"KV_b\",\"seq\":0}", WB_EXISTS,
         0},
        {"{\"error\":{\"code\":503,\"err_code\":10077},\"seq\":0}", WB_FULL, 0},
        {"{\"error\":{\"code\":400,\"err_code\":10054}}", WB_TOO_LARGE, 0},
        {"{\"error\":{\"code\":500}}", WB_IO, 0},
        {"{\"error\":7}", WB_IO, 0},
        {"{\"seq\":-1}", WB_IO, 0},
        {"{\"seq\":\"1\"}", WB_IO, 0},
        {"[]", WB_IO, 0},
        {"", WB_IO, 0},
        {"{\"seq\":1", WB_IO, 0},
    };
    uint64_t revision;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(reply_read_ack(span_str(cases[i].json), &revision) == cases[i].status, "%s",
                      cases[i].json);
        if (cases[i].status == WB_OK)
            ck_assert_uint_eq(revision, cases[i].revision);
    }
}
END_TEST

static wb_status read(const char *json, struct reply_message *out)
{
    return reply_read_message(span_str(json), out);
}

START_TEST(messages)
{
    struct reply_message m;
    wall when;

    ck_assert(wall_parse("2026-01-01T00:00:00.120000Z", &when));
    ck_assert_int_eq(read("{\"type\":\"io.nats.jetstream.api.v1.stream_msg_get_response\","
                          "\"message\":{\"subject\":\"$KV.b.k\",\"seq\":3,\"data\":\"aGVsbG8=\","
                          "\"time\":\"2026-01-01T00:00:00.12Z\"}}",
                          &m),
                     WB_OK);
    ck_assert_uint_eq(m.revision, 3);
    ck_assert_int_eq(m.created.us, when.us);
    ck_assert(!m.deleted);
    ck_assert(span_eq_str(span_of(m.value, m.value_len), "hello"));
    free(m.value);
    /* nanoseconds are cut; NATS/1.0 KV-Operation: DEL */
    ck_assert_int_eq(
        read("{\"message\":{\"seq\":4,\"hdrs\":\"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQo"
             "NCg==\",\"time\":\"2026-01-01T00:00:00.120000999Z\"}}",
             &m),
        WB_OK);
    ck_assert(m.deleted && !m.value && m.created.us == when.us);
    ck_assert_int_eq(read("{\"message\":{\"seq\":4,\"time\":\"2026-01-01T00:00:00Z\"}}", &m),
                     WB_OK);
    ck_assert(!m.deleted && !m.value && m.created.us == when.us - 120000);
    ck_assert_int_eq(read("{\"error\":{\"code\":404,\"err_code\":10037}}", &m), WB_NOT_FOUND);
    ck_assert_int_eq(read("{\"error\":{\"code\":404,\"err_code\":10059}}", &m), WB_CLOSED);
    ck_assert_int_eq(read("{\"message\":{\"seq\":1,\"data\":\"a b\"}}", &m), WB_IO);
    ck_assert_int_eq(read("{\"message\":7}", &m), WB_IO);
    ck_assert_int_eq(read("nonsense", &m), WB_IO);
}
END_TEST

START_TEST(places)
{
    struct reply_place p;

    ck_assert(reply_read_place("$JS.ACK.KV_b.cons.1.42.7.1767225600123456789.3", &p));
    ck_assert_uint_eq(p.stream_seq, 42);
    ck_assert_uint_eq(p.consumer_seq, 7);
    ck_assert_uint_eq(p.pending, 3);
    ck_assert_int_eq(p.created.us, 1767225600123456);
    ck_assert(reply_read_place("$JS.ACK.hub.hash.KV_b.cons.1.42.7.1767225600123456789.3", &p));
    ck_assert_uint_eq(p.stream_seq, 42);
    ck_assert(reply_read_place("$JS.ACK._.hash.KV_b.cons.1.42.7.1767225600123456789.0.rnd", &p));
    ck_assert_uint_eq(p.pending, 0);
    ck_assert(!reply_read_place("$JS.ACK.KV_b.cons.1.42.7.1767225600123456789", &p));
    ck_assert(!reply_read_place("$JS.ACK.KV_b.cons.1.x.7.1767225600123456789.3", &p));
    ck_assert(!reply_read_place("$JS.ACK.KV_b.cons.1.42.7.9.3", &p));
    ck_assert(!reply_read_place("_INBOX.a", &p));
    ck_assert(!reply_read_place("", &p));
    ck_assert(!reply_read_place(NULL, &p));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reply");
    TCase *tcase = tcase_create("reply");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, acknowledgements);
    tcase_add_test(tcase, messages);
    tcase_add_test(tcase, places);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
