#include "base/log.h"

#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int saved = -1;
static FILE *file;

static void capture(void)
{
    file = tmpfile();
    saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
}

static const char *captured(void)
{
    static char text[16384];
    size_t n;

    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

START_TEST(a_line_has_time_level_and_text)
{
    char time[WALL_TEXT_SIZE];
    const char *text;
    wall when;

    log_set_level(LOG_INFO);
    ck_assert_int_eq(log_get_level(), LOG_INFO);
    capture();
    log_write(LOG_DEBUG, "not wanted");
    log_write(LOG_WARN, "disk %d\nforged line", 7);
    log_set_level(LOG_OFF);
    log_write(LOG_ERROR, "not wanted");
    text = captured();
    memcpy(time, text, WALL_TEXT_SIZE - 1);
    time[WALL_TEXT_SIZE - 1] = 0;
    ck_assert(wall_parse(time, &when));
    ck_assert_str_eq(text + WALL_TEXT_SIZE - 1, " WARN  disk 7 forged line\n");
}
END_TEST

START_TEST(a_long_line_is_cut)
{
    const char *text;

    log_set_level(LOG_INFO);
    capture();
    log_write(LOG_INFO, "%05000d", 1);
    text = captured();
    ck_assert_uint_eq(lines(text), 1);
    ck_assert_uint_lt(strlen(text), 2100);
    ck_assert_str_eq(text + strlen(text) - 4, "...\n");
}
END_TEST

START_TEST(a_limiter_holds_back_and_tells)
{
    struct log_limit limit = {0};
    const char *text;

    log_set_level(LOG_INFO);
    capture();
    for (int i = 0; i < LOG_LIMIT_BURST + 5; i++)
        log_limited(&limit, (mono){100}, LOG_INFO, "flood %d", i);
    log_limited(&limit, (mono){1000100}, LOG_INFO, "later");
    log_limited(&limit, (mono){1000200}, LOG_INFO, "again");
    text = captured();
    ck_assert_uint_eq(lines(text), LOG_LIMIT_BURST + 2);
    ck_assert_ptr_nonnull(strstr(text, "(5 like this held back) later\n"));
    ck_assert_ptr_nonnull(strstr(text, "INFO  again\n"));
}
END_TEST

START_TEST(quoted_text_is_printable_and_fits)
{
    char out[LOG_QUOTE_SIZE], all[256];

    ck_assert_str_eq(log_quote(SPAN_LIT("plain text"), out), "plain text");
    ck_assert_str_eq(log_quote(SPAN_LIT("a\n\"\\\x1b[\xc3"), out), "a\\x0a\\\"\\\\\\x1b[\\xc3");
    ck_assert_str_eq(log_quote(SPAN_EMPTY, out), "");
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    for (size_t n = 0; n <= sizeof(all); n++) {
        log_quote(span_of(all, n), out);
        ck_assert_uint_lt(strlen(out), LOG_QUOTE_SIZE);
        for (const char *c = out; *c; c++)
            ck_assert(*c >= ' ' && *c < 0x7f);
    }
    ck_assert_str_eq(out + strlen(out) - 3, "...");
    memset(all, 'x', sizeof(all));
    ck_assert_uint_eq(strlen(log_quote(span_of(all, 128), out)), 128); /* just fits */
    ck_assert_uint_eq(strlen(log_quote(span_of(all, 129), out)), 131);
}
END_TEST

RUN_SUITE("log", a_line_has_time_level_and_text, a_long_line_is_cut, a_limiter_holds_back_and_tells,
          quoted_text_is_printable_and_fits)
