/* The command line: what is taken, what is refused and with which words. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/args.h"

static struct args args;
static char why[256];

static bool parse(const char *line)
{
    static char text[512];
    static char *argv[32];
    int argc = 1;
    char *save = NULL;

    snprintf(text, sizeof text, "%s", line);
    argv[0] = "waybilld";
    for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save))
        argv[argc++] = p;
    argv[argc] = NULL;
    why[0] = 0;
    return args_parse(&args, argc, argv, why);
}

START_TEST(options_are_taken)
{
    ck_assert(parse("-c f.json -s nats://a:1 --id=r1 --prefix p --monitor :1 --log-level debug"));
    ck_assert_str_eq(args.value[OPTION_CONFIG], "f.json");
    ck_assert_str_eq(args.value[OPTION_SERVER], "nats://a:1");
    ck_assert_str_eq(args.value[OPTION_ID], "r1");
    ck_assert_int_eq(args.log_level, LOG_DEBUG);
    ck_assert(parse("--check -c f"));
    ck_assert_ptr_nonnull(args.value[OPTION_CHECK]);
    ck_assert(parse("--config f --show-config=json") && args.show_json);
    ck_assert(parse("--config f --show-config") && !args.show_json);
    ck_assert(parse("--service a --subject b --subject c --policy hash --replies one"));
    ck_assert_uint_eq(args.subject_count, 2);
    ck_assert_str_eq(args.subjects[1], "c");
    ck_assert(parse("--version"));
    ck_assert(parse("-h"));
}
END_TEST

START_TEST(mistakes_are_told)
{
    static const char *const lines[][2] = {
        {"", "nothing to route"},
        {"--check", "nothing to route"},
        {"-c", "an argument is missing"},
        {"--nonsense", "bad option"},
        {"-c a -c b", "--config is given twice"},
        {"-c a b", "unexpected argument: b"},
        {"-c a --service s --subject t", "not both"},
        {"--service s", "go together"},
        {"-c a --subject s", "go together"},
        {"-c a --policy hash", "belong to --service"},
        {"-c a --log-level loud", "--log-level: expected"},
        {"-c a --show-config=xml", "--show-config: expected"},
        {"--check=1 -c a", "bad option"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        ck_assert_msg(!parse(lines[i][0]), "%s", lines[i][0]);
        ck_assert_msg(strstr(why, lines[i][1]) != NULL, "%s: %s", lines[i][0], why);
    }
}
END_TEST

START_TEST(help_names_every_option)
{
    static char text[65536];
    FILE *out = tmpfile();
    size_t n;

    args_help(out);
    rewind(out);
    n = fread(text, 1, sizeof text - 1, out);
    text[n] = 0;
    fclose(out);
    for (enum option_id id = OPTION_NONE + 1; id < OPTION_COUNT; id++)
        ck_assert_msg(strstr(text, args_option_name(id)) != NULL, "%s", args_option_name(id));
    ck_assert_ptr_nonnull(strstr(text, "services[].retry.max_attempts = 3"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("args");
    TCase *tests = tcase_create("args");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, options_are_taken);
    tcase_add_test(tests, mistakes_are_told);
    tcase_add_test(tests, help_names_every_option);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
