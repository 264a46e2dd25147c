#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/subject.h"

static struct span S(const char *text) {
    return span_str(text);
}

START_TEST(literals_and_patterns)
{
    static const char *const literal[] = {"a", "a.b", "chat.request.eu", "a*", "$JS.API", "a.>b"};
    static const char *const pattern[] = {"*", ">", "a.*", "a.>", "*.*.b"};
    static const char *const neither[] = {
        "", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r\nPUB x 0\r\n", "a.>.b", "\x7f", "a.\x01"};
    char big[5000];

    for (size_t i = 0; i < sizeof(literal) / sizeof(literal[0]); i++)
        ck_assert_msg(subject_is_literal(S(literal[i])) && subject_is_pattern(S(literal[i])), "%s",
                      literal[i]);
    for (size_t i = 0; i < sizeof(pattern) / sizeof(pattern[0]); i++)
        ck_assert_msg(!subject_is_literal(S(pattern[i])) && subject_is_pattern(S(pattern[i])), "%s",
                      pattern[i]);
    for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++)
        ck_assert_msg(!subject_is_literal(S(neither[i])) && !subject_is_pattern(S(neither[i])),
                      "%s", neither[i]);
    memset(big, 'a', sizeof(big));
    ck_assert(subject_is_literal(span_of(big, WB_SUBJECT_MAX)));
    ck_assert(!subject_is_literal(span_of(big, WB_SUBJECT_MAX + 1)));
    ck_assert(!subject_is_literal(span_of("a\0b", 3)));
}
END_TEST

START_TEST(matching)
{
    ck_assert(subject_matches(S("a.*"), S("a.b")));
    ck_assert(!subject_matches(S("a.*"), S("a")));
    ck_assert(!subject_matches(S("a.*"), S("a.b.c")));
    ck_assert(subject_matches(S("a.>"), S("a.b.c")));
    ck_assert(!subject_matches(S("a.>"), S("a")));
    ck_assert(subject_matches(S(">"), S("a")));
    ck_assert(subject_matches(S("a.b"), S("a.b")));
    ck_assert(!subject_matches(S("a.b"), S("a.bc")));
}
END_TEST

START_TEST(overlap_is_symmetric)
{
    static const struct {
        const char *a, *b;
        bool yes;
    } all[] = {{"a.b", "a.b", true},    {"a.*", "*.b", true},   {"a.>", "a", false},
               {"a.>", "a.b.c", true},  {"*.b", "a.c", false},  {">", "x.y", true},
               {"a.*.c", "a.b", false}, {"a.>", "*.*.c", true}, {"a.>", "b.>", false},
               {"$JS.x", "*.x", true}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ck_assert_msg(subject_overlaps(S(all[i].a), S(all[i].b)) == all[i].yes, "%s", all[i].a);
        ck_assert_msg(subject_overlaps(S(all[i].b), S(all[i].a)) == all[i].yes, "%s", all[i].b);
    }
}
END_TEST

START_TEST(tokens)
{
    ck_assert_uint_eq(subject_token_count(S("a.b.c")), 3);
    ck_assert_uint_eq(subject_token_count(S("")), 0);
    ck_assert(span_eq_str(subject_token(S("a.bb.c"), 1), "bb"));
    ck_assert(span_eq_str(subject_token(S("a.bb.c"), 2), "c"));
    ck_assert_uint_eq(subject_token(S("a.bb.c"), 3).len, 0);
}
END_TEST

START_TEST(built_subjects_parse_back)
{
    char out[WB_SUBJECT_MAX + 1];
    struct span s, w, r, t, prefix = S("my.prefix");
    size_t n = subject_reply(out, prefix, S("chat"), S("w1"), S("r-1"), S("tok_EN"));

    ck_assert_str_eq(out, "my.prefix.reply.chat.w1.r-1.tok_EN");
    ck_assert_uint_eq(n, strlen(out));
    ck_assert(subject_parse_reply(S(out), prefix, &s, &w, &r, &t));
    ck_assert(span_eq_str(s, "chat") && span_eq_str(w, "w1") && span_eq_str(r, "r-1") &&
              span_eq_str(t, "tok_EN"));
    subject_worker(out, prefix, S("chat"), S("w1"));
    ck_assert_str_eq(out, "my.prefix.worker.chat.w1");
    subject_worker_cancel(out, prefix, S("chat"), S("w1"));
    ck_assert_str_eq(out, "my.prefix.worker.chat.w1.cancel");
    subject_heartbeat(out, prefix, S("*"), S("*"));
    ck_assert_str_eq(out, "my.prefix.heartbeat.*.*");
    subject_heartbeat(out, prefix, S("chat"), S("w1"));
    ck_assert(subject_parse_heartbeat(S(out), prefix, &s, &w));
    ck_assert(span_eq_str(s, "chat") && span_eq_str(w, "w1"));
    subject_cancel(out, prefix, S("chat"), S("a.b.c"));
    ck_assert(subject_parse_cancel(S(out), prefix, &s, &t));
    ck_assert(span_eq_str(s, "chat") && span_eq_str(t, "a.b.c"));
    subject_join(out, prefix, "announce");
    ck_assert_str_eq(out, "my.prefix.announce");
}
END_TEST

START_TEST(other_shapes_do_not_parse)
{
    static const char *const bad[] = {"waybill.heartbeat.chat",
                                      "waybill.heartbeat.chat.w.x",
                                      "waybill.heartbeat..w",
                                      "waybill.heartbeat.chat.",
                                      "waybillx.heartbeat.chat.w",
                                      "waybill.heartbeats.chat.w",
                                      "waybill.heartbeat.ch at.w",
                                      "waybill.heartbeat.*.w",
                                      "waybill",
                                      "",
                                      "waybill.heartbeat.chat.w\r\n"};
    struct span s, w;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!subject_parse_heartbeat(S(bad[i]), S("waybill"), &s, &w), "%s", bad[i]);
    ck_assert(!subject_parse_cancel(S("waybill.cancel.chat"), S("waybill"), &s, &w));
    ck_assert(!subject_parse_cancel(S("waybill.cancel.chat.a..b"), S("waybill"), &s, &w));
    ck_assert(!subject_parse_cancel(S("waybill.cancel.chat."), S("waybill"), &s, &w));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subject");
    TCase *tcase = tcase_create("subject");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, literals_and_patterns);
    tcase_add_test(tcase, matching);
    tcase_add_test(tcase, overlap_is_symmetric);
    tcase_add_test(tcase, tokens);
    tcase_add_test(tcase, built_subjects_parse_back);
    tcase_add_test(tcase, other_shapes_do_not_parse);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
