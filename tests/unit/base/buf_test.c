#include "base/buf.h"

#include "base/rng.h"
#include "suite.h"

#include <stdlib.h>

START_TEST(a_zeroed_buf_is_empty_and_full)
{
    struct buf b = {0};

    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert_uint_eq(buf_span(&b).len, 0);
    ck_assert_int_eq(buf_append(&b, "", 0), WB_OK);
    ck_assert_int_eq(buf_append(&b, "x", 1), WB_FULL);
    ck_assert_int_eq(buf_printf(&b, "%s", ""), WB_OK);
    ck_assert_int_eq(buf_printf(&b, "%d", 1), WB_FULL);
    ck_assert_ptr_null(buf_reserve(&b, 1));
    ck_assert_ptr_nonnull(buf_reserve(&b, 0));
    buf_consume(&b, 0);
    buf_shrink(&b);
    buf_fini(&b);
}
END_TEST

START_TEST(the_cap_holds_to_the_byte)
{
    struct buf b;

    buf_init(&b, 10);
    ck_assert_int_eq(buf_printf(&b, "%s", "12345"), WB_OK);
    ck_assert_int_eq(buf_printf(&b, "%s", "678901"), WB_FULL);
    ck_assert_int_eq(buf_printf(&b, "%s", "67890"), WB_OK); /* the NUL costs nothing */
    ck_assert_int_eq(buf_append(&b, "x", 1), WB_FULL);
    ck_assert(span_eq_str(buf_span(&b), "1234567890"));
    ck_assert_uint_le(b.size, 10);
    buf_consume(&b, 4);
    ck_assert_int_eq(buf_append(&b, "abcde", 5), WB_FULL);
    ck_assert_int_eq(buf_append(&b, "abcd", 4), WB_OK); /* moves down */
    ck_assert(span_eq_str(buf_span(&b), "567890abcd"));
    ck_assert_ptr_null(buf_reserve(&b, SIZE_MAX));
    buf_clear(&b);
    ck_assert_uint_eq(buf_len(&b), 0);
    buf_shrink(&b);
    ck_assert_ptr_null(b.data);
    ck_assert_int_eq(buf_append(&b, "again", 5), WB_OK);
    buf_fini(&b);
}
END_TEST

START_TEST(random_use_agrees_with_a_plain_array)
{
    enum { CAP = 3000 };
    char model[CAP];
    size_t len = 0;
    struct rng rng;
    struct buf b;

    rng_seed(&rng, 7);
    buf_init(&b, CAP);
    for (int step = 0; step < 20000; step++) {
        size_t n = rng_below(&rng, 400);
        char piece[400];

        if (rng_below(&rng, 2)) {
            memset(piece, 'a' + step % 26, n);
            ck_assert_int_eq(buf_append(&b, piece, n), len + n > CAP ? WB_FULL : WB_OK);
            if (len + n <= CAP) {
                memcpy(model + len, piece, n);
                len += n;
            }
        } else {
            n = n < len ? n : len;
            buf_consume(&b, n);
            memmove(model, model + n, len - n);
            len -= n;
        }
        ck_assert(span_eq(buf_span(&b), span_of(model, len)));
        ck_assert_uint_le(b.size, CAP);
    }
    buf_fini(&b);
}
END_TEST

START_TEST(reserved_room_is_written_in_place)
{
    struct buf b;
    char *room;

    buf_init(&b, 100000);
    room = buf_reserve(&b, 5000);
    memset(room, 'z', 5000);
    buf_grew(&b, 5000);
    ck_assert_int_eq(buf_printf(&b, "%0*d", 9000, 1), WB_OK); /* longer than the room left */
    ck_assert_uint_eq(buf_len(&b), 14000);
    ck_assert_int_eq(buf_span(&b).ptr[13999], '1');
    buf_fini(&b);
}
END_TEST

START_TEST(span_numbers_are_strict)
{
    unsigned long long n = 5;

    ck_assert(span_to_u64(SPAN_LIT("0012"), &n) && n == 12);
    ck_assert(span_to_u64(SPAN_LIT("999999999999999999"), &n) && n == 999999999999999999u);
    ck_assert(!span_to_u64(SPAN_LIT(""), &n) && !span_to_u64(SPAN_LIT("+1"), &n));
    ck_assert(!span_to_u64(SPAN_LIT(" 1"), &n) &&
              !span_to_u64(SPAN_LIT("1000000000000000000"), &n));
    ck_assert_uint_eq(n, 999999999999999999u);
    ck_assert(span_starts(SPAN_LIT("abc"), SPAN_EMPTY) &&
              !span_starts(SPAN_LIT("a"), SPAN_LIT("ab")));
}
END_TEST

RUN_SUITE("buf", a_zeroed_buf_is_empty_and_full, the_cap_holds_to_the_byte,
          random_use_agrees_with_a_plain_array, reserved_room_is_written_in_place,
          span_numbers_are_strict)
