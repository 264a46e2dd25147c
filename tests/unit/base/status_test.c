#include "waybill/status.h"

#include "suite.h"

#include <string.h>

START_TEST(every_row_is_filled_and_names_differ)
{
    for (int i = 0; i < WB_STATUS_COUNT; i++) {
        const char *name = wb_status_name((wb_status)i);

        ck_assert_str_ne(name, "unknown");
        ck_assert_uint_gt(strlen(wb_status_text((wb_status)i)), 0);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(name, wb_status_name((wb_status)j));
    }
}
END_TEST

START_TEST(router_errors_have_the_codes_of_the_contract)
{
    static const struct {
        const char *name;
        int code;
    } rows[] = {{"bad_request", 400},      {"unknown_worker", 404}, {"unknown_adapter", 404},
                {"session_conflict", 409}, {"duplicate", 409},      {"payload_too_large", 413},
                {"overloaded", 429},       {"cancelled", 499},      {"internal", 500},
                {"worker_lost", 502},      {"link_lost", 502},      {"interrupted", 502},
                {"no_worker", 503},        {"draining", 503},       {"timeout", 504}};
    const size_t n = sizeof(rows) / sizeof(rows[0]);

    ck_assert_uint_eq(n, WB_STATUS_COUNT - WB_BAD_REQUEST);
    for (size_t i = 0; i < n; i++) {
        wb_status status = wb_status_from_name(rows[i].name);

        ck_assert_int_eq(status, WB_BAD_REQUEST + (int)i);
        ck_assert_int_eq(wb_status_code(status), rows[i].code);
        ck_assert_str_eq(wb_status_name(status), rows[i].name);
    }
    for (int i = 0; i < WB_BAD_REQUEST; i++)
        ck_assert_int_eq(wb_status_code((wb_status)i), 0);
}
END_TEST

START_TEST(what_is_outside_the_table_is_unknown)
{
    ck_assert_str_eq(wb_status_name((wb_status)-1), "unknown");
    ck_assert_str_eq(wb_status_text(WB_STATUS_COUNT), "unknown");
    ck_assert_int_eq(wb_status_code(WB_STATUS_COUNT), 0);
    ck_assert(!wb_status_retryable(WB_STATUS_COUNT));
    ck_assert_int_eq(wb_status_from_name(NULL), WB_INVALID);
    ck_assert_int_eq(wb_status_from_name(""), WB_INVALID);
    ck_assert_int_eq(wb_status_from_name("full"), WB_INVALID); /* local: never on the wire */
}
END_TEST

START_TEST(a_fault_of_the_request_is_not_retryable)
{
    ck_assert(!wb_status_retryable(WB_OK));
    ck_assert(!wb_status_retryable(WB_BAD_REQUEST));
    ck_assert(!wb_status_retryable(WB_PAYLOAD_TOO_LARGE));
    ck_assert(!wb_status_retryable(WB_CANCELLED));
    ck_assert(wb_status_retryable(WB_OVERLOADED));
    ck_assert(wb_status_retryable(WB_NO_WORKER));
    ck_assert(wb_status_retryable(WB_TIMEOUT));
}
END_TEST

RUN_SUITE("status", every_row_is_filled_and_names_differ,
          router_errors_have_the_codes_of_the_contract, what_is_outside_the_table_is_unknown,
          a_fault_of_the_request_is_not_retryable)
