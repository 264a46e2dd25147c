#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "wire/headers.h"

START_TEST(every_header_finds_itself)
{
    for (int i = 0; i < RH_COUNT; i++) {
        ck_assert_int_eq(request_header_find(request_headers[i].name), i);
        ck_assert(header_is_waybill(request_headers[i].name));
        ck_assert_ptr_nonnull(request_headers[i].help);
    }
}
END_TEST

START_TEST(names_are_case_sensitive_but_the_family_is_not)
{
    ck_assert_int_eq(request_header_find(SPAN_LIT("waybill-target")), RH_COUNT);
    ck_assert_int_eq(request_header_find(SPAN_LIT("Waybill-Targets")), RH_COUNT);
    ck_assert_int_eq(request_header_find(SPAN_LIT("")), RH_COUNT);
    ck_assert(header_is_waybill(SPAN_LIT("wAYBILL-x")));
    ck_assert(header_is_waybill(SPAN_LIT("Waybill-")));
    ck_assert(!header_is_waybill(SPAN_LIT("Waybill")));
    ck_assert(!header_is_waybill(SPAN_LIT("X-Waybill-Y")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("headers");
    TCase *tcase = tcase_create("headers");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, every_header_finds_itself);
    tcase_add_test(tcase, names_are_case_sensitive_but_the_family_is_not);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
