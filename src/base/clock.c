#include "base/clock.h"

#include <string.h>
#include <time.h>

#define US_PER_S 1000000
#define WALL_MIN_S (-62167219200) /* year 0 */
#define WALL_MAX_S 253402300799   /* end of year 9999: what four digits can say */
#define SECOND_LEN 19             /* "2026-01-01T00:00:00" */

mono clock_mono(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (mono){(int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000};
}

mono clock_mono_coarse(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (mono){(int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000};
}

wall clock_wall(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (wall){(int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000};
}

static void put_digits(char *out, int n, int64_t value)
{
    while (n-- > 0) {
        out[n] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void format_second(int64_t second, char out[SECOND_LEN])
{
    time_t t = (time_t)second;
    struct tm tm;

    gmtime_r(&t, &tm);
    put_digits(out, 4, tm.tm_year + 1900);
    out[4] = '-';
    put_digits(out + 5, 2, tm.tm_mon + 1);
    out[7] = '-';
    put_digits(out + 8, 2, tm.tm_mday);
    out[10] = 'T';
    put_digits(out + 11, 2, tm.tm_hour);
    out[13] = ':';
    put_digits(out + 14, 2, tm.tm_min);
    out[16] = ':';
    put_digits(out + 17, 2, tm.tm_sec);
}

void wall_format(wall when, char out[WALL_TEXT_SIZE])
{
    /* Times to write come in runs of the same second: its text is worth keeping. */
    static _Thread_local int64_t kept_second = INT64_MIN;
    static _Thread_local char kept[SECOND_LEN];
    int64_t second = when.us / US_PER_S, rest = when.us % US_PER_S;

    if (rest < 0) {
        rest += US_PER_S;
        second--;
    }
    if (second < WALL_MIN_S) {
        second = WALL_MIN_S;
        rest = 0;
    } else if (second > WALL_MAX_S) {
        second = WALL_MAX_S;
        rest = US_PER_S - 1;
    }
    if (second != kept_second) {
        format_second(second, kept);
        kept_second = second;
    }
    memcpy(out, kept, SECOND_LEN);
    out[SECOND_LEN] = '.';
    put_digits(out + SECOND_LEN + 1, 6, rest);
    out[WALL_TEXT_SIZE - 2] = 'Z';
    out[WALL_TEXT_SIZE - 1] = 0;
}

static int get_digits(const char *text, int n)
{
    int value = 0;

    for (int i = 0; i < n; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

bool wall_parse(const char *text, wall *out)
{
    static const char shape[WALL_TEXT_SIZE] = "0000-00-00T00:00:00.000000Z";
    char again[WALL_TEXT_SIZE];
    struct tm tm = {0};
    wall when;

    if (!text)
        return false;
    for (int i = 0; i < WALL_TEXT_SIZE; i++) /* ends at the first difference, so never past a NUL */
        if (shape[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
            return false;
    tm.tm_year = get_digits(text, 4) - 1900;
    tm.tm_mon = get_digits(text + 5, 2) - 1;
    tm.tm_mday = get_digits(text + 8, 2);
    tm.tm_hour = get_digits(text + 11, 2);
    tm.tm_min = get_digits(text + 14, 2);
    tm.tm_sec = get_digits(text + 17, 2);
    when.us = (int64_t)timegm(&tm) * US_PER_S + get_digits(text + 20, 6);
    wall_format(when, again); /* timegm takes February 30th; what we write never says so */
    if (memcmp(text, again, WALL_TEXT_SIZE) != 0)
        return false;
    *out = when;
    return true;
}
