/* The main() that the tests of this folder share: one case per program, run as CK_ENV says. */
#ifndef UNIT_BASE_SUITE_H
#define UNIT_BASE_SUITE_H

#include <check.h>
#include <stddef.h>

#define RUN_SUITE(name, ...)                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *tests[] = {__VA_ARGS__};                                                      \
        return run_suite(name, tests, sizeof(tests) / sizeof(tests[0]));                           \
    }

static int run_suite(const char *name, const TTest **tests, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
