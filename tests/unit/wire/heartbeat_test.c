#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "wire/heartbeat.h"

static void refused(const char *bytes, size_t n, const char *about)
{
    struct heartbeat hb;
    char why[128];

    ck_assert_msg(heartbeat_decode(span_of(bytes, n), &hb, why) == WB_INVALID, "accepted: %s",
                  about);
    ck_assert_msg(strstr(why, about) != NULL, "%s: %s", about, why);
    ck_assert_ptr_null(hb.memory);
}

START_TEST(an_empty_map_is_all_defaults)
{
    struct heartbeat hb;
    char why[128];

    for (int i = 0; i < 2; i++) {
        struct span bytes = i ? SPAN_LIT("{}") : span_of("\x80", 1);

        ck_assert_int_eq(heartbeat_decode(bytes, &hb, why), WB_OK);
        ck_assert(hb.v == 1 && hb.epoch == 0 && hb.state == HB_READY && hb.interval_ms == 5000);
        ck_assert(hb.weight == 100 && hb.capacity == 0 && hb.ranks == 0 && !hb.class_name[0]);
        ck_assert(!hb.has_adapters && !hb.has_meta && !hb.has_inflight_by);
        heartbeat_fini(&hb);
    }
}
END_TEST

START_TEST(headers_that_claim_more_than_there_is)
{
    refused("\xdf\xff\xff\xff\xff", 5, "malformed");          /* map32 of 4 G pairs */
    refused("\x81\xa1x\xdd\xff\xff\xff\xff", 8, "malformed"); /* array32 */
    refused("\x81\xa1x\xdb\xff\xff\xff\xff", 8, "malformed"); /* str32 */
    refused("\x81\xa1x\xc6\xff\xff\xff\xff", 8, "malformed"); /* bin32 */
    refused("\x81\xa1x\xc9\xff\xff\xff\xff\x01", 9, "malformed");
    refused("\x81", 1, "malformed");
    refused("\x80\x80", 2, "malformed"); /* trailing bytes */
    refused("\x81\xa1x\xc1", 4, "malformed");
    refused("", 0, "expected a msgpack map");
    refused("\x93\x01\x02\x03", 4, "expected a msgpack map");
    refused("[]", 2, "expected a msgpack map");
    refused("{\"v\":1}x", 8, "malformed");
    refused("{\"epoch\\u0000\":1}", 16, "a NUL");
}
END_TEST

START_TEST(nesting_is_bounded)
{
    char deep[60000];

    memset(deep, 0x91, sizeof(deep));
    memcpy(deep, "\x81\xa1x", 3);
    deep[sizeof(deep) - 1] = '\xc0';
    refused(deep, sizeof(deep), "nested");
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "{\"x\":", 5);
    refused(deep, sizeof(deep), "nested");
}
END_TEST

START_TEST(size_is_bounded)
{
    static char big[HEARTBEAT_SIZE_MAX + 1];
    struct heartbeat hb;
    char why[128];

    memset(big, ' ', sizeof(big));
    big[0] = '{';
    big[1] = '}';
    ck_assert_int_eq(heartbeat_decode(span_of(big, sizeof(big)), &hb, why), WB_TOO_LARGE);
    ck_assert_int_eq(heartbeat_decode(span_of(big, sizeof(big) - 1), &hb, why), WB_OK);
    heartbeat_fini(&hb);
}
END_TEST

START_TEST(mutations_of_a_good_one_do_no_harm)
{
    struct rng rng;
    struct heartbeat hb, again;
    char why[128];
    struct span json = SPAN_LIT(
        "{\"v\":1,\"epoch\":5,\"state\":\"busy\",\"inflight_by\":{\"r1\":2,\"r2\":3},\"class\":"
        "\"gpu\","
        "\"ranks\":[0,1],\"adapters\":[\"a\",\"b/c\"],\"meta\":{\"x\":[1,2.5,null,true,\"t\"]}}");
    struct buf packed;

    rng_seed(&rng, 1);
    buf_init(&packed, 4096);
    ck_assert_int_eq(heartbeat_decode(json, &hb, why), WB_OK);
    ck_assert_int_eq(heartbeat_encode_msgpack(&hb, &packed), WB_OK);
    for (int i = 0; i < 20000; i++) {
        struct span source = i % 2 ? json : buf_span(&packed);
        size_t n = source.len - rng_below(&rng, 4) * (rng_below(&rng, 8) == 0);
        char *copy = malloc(n);

        memcpy(copy, source.ptr, n);
        for (uint64_t k = rng_below(&rng, 4); k > 0; k--)
            copy[rng_below(&rng, n)] = (char)rng_next(&rng);
        if (heartbeat_decode(span_of(copy, n), &again, why) == WB_OK)
            heartbeat_fini(&again);
        free(copy);
    }
    heartbeat_fini(&hb);
    buf_fini(&packed);
}
END_TEST

START_TEST(the_encoder_refuses_what_the_decoder_would)
{
    struct heartbeat hb;
    struct buf out;

    buf_init(&out, 4096);
    heartbeat_defaults(&hb);
    hb.weight = 0;
    ck_assert_int_eq(heartbeat_encode_msgpack(&hb, &out), WB_INVALID);
    heartbeat_defaults(&hb);
    hb.has_meta = true;
    hb.meta = SPAN_LIT("[1]");
    ck_assert_int_eq(heartbeat_encode_json(&hb, &out), WB_INVALID);
    heartbeat_fini(&hb);
    buf_fini(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heartbeat");
    TCase *tcase = tcase_create("heartbeat");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, an_empty_map_is_all_defaults);
    tcase_add_test(tcase, headers_that_claim_more_than_there_is);
    tcase_add_test(tcase, nesting_is_bounded);
    tcase_add_test(tcase, size_is_bounded);
    tcase_add_test(tcase, mutations_of_a_good_one_do_no_harm);
    tcase_add_test(tcase, the_encoder_refuses_what_the_decoder_would);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
