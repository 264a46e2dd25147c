#include "base/loop.h"

#include "suite.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Turns until the condition holds, for at most ten seconds. */
#define TURN_UNTIL(loop, condition)                                                                \
    do {                                                                                           \
        mono end = mono_add_ms(clock_mono(), 10000);                                               \
        while (!(condition) && mono_before(clock_mono(), end))                                     \
            loop_turn((loop), 100);                                                                \
        ck_assert(condition);                                                                      \
    } while (0)

struct seen {
    struct loop *loop;
    struct loop_io *io;
    struct loop_timer *timer;
    struct loop_hook *hook;
    int fd, ready, count, result;
    mono at, due;
};

static void count_only(void *arg)
{
    ((struct seen *)arg)->count++;
}

static void on_ready(void *arg, int ready)
{
    struct seen *seen = arg;
    char byte;

    seen->count++;
    seen->ready |= ready;
    if (ready & LOOP_READ)
        seen->result = (int)recv(seen->fd, &byte, 1, 0);
}

START_TEST(a_descriptor_reports_what_is_wanted)
{
    struct seen seen = {.loop = loop_create()};
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    seen.fd = fds[0];
    seen.io = loop_io_open(seen.loop, fds[0], on_ready, &seen);
    ck_assert_ptr_nonnull(seen.io);
    ck_assert_int_eq(send(fds[1], "abc", 3, 0), 3);
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 0); /* nothing was asked for */
    loop_io_want(seen.io, LOOP_READ);
    TURN_UNTIL(seen.loop, seen.count == 3); /* level-triggered: a byte a call */
    ck_assert_int_eq(seen.ready, LOOP_READ);
    loop_io_want(seen.io, LOOP_READ | LOOP_WRITE);
    TURN_UNTIL(seen.loop, seen.ready & LOOP_WRITE);
    loop_io_want(seen.io, 0);
    seen.count = 0;
    ck_assert_int_eq(send(fds[1], "d", 1, 0), 1);
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 0);
    loop_io_close(seen.io);
    loop_io_close(NULL);
    close(fds[0]);
    close(fds[1]);
    ck_assert_ptr_null(loop_io_open(seen.loop, fds[0], on_ready, &seen)); /* a dead number */
    loop_destroy(seen.loop);
}
END_TEST

static void on_ready_close(void *arg, int ready)
{
    struct seen *seen = arg;

    seen->count++;
    seen->ready = ready;
    loop_io_close(seen->io);
    close(seen->fd);
}

START_TEST(an_error_sets_both_bits_and_closing_inside_is_safe)
{
    struct seen seen = {.loop = loop_create()};
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    close(fds[0]); /* a pipe without a reader is in error */
    seen.fd = fds[1];
    seen.io = loop_io_open(seen.loop, fds[1], on_ready_close, &seen);
    loop_io_want(seen.io, LOOP_READ);
    TURN_UNTIL(seen.loop, seen.count);
    ck_assert_int_eq(seen.ready, LOOP_READ | LOOP_WRITE);
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 1);
    loop_destroy(seen.loop);
}
END_TEST

static void on_ready_count(void *arg, int ready)
{
    struct seen *seen = arg;

    seen->count++;
    seen->ready = ready;
}

START_TEST(an_error_that_is_not_handled_is_told_again)
{
    struct seen seen = {.loop = loop_create()};
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    close(fds[0]);
    seen.io = loop_io_open(seen.loop, fds[1], on_ready_count, &seen);
    loop_io_want(seen.io, LOOP_READ);
    TURN_UNTIL(seen.loop, seen.count >= 3);
    loop_io_close(seen.io);
    close(fds[1]);
    loop_destroy(seen.loop);
}
END_TEST

static void on_ready_time(void *arg, int ready)
{
    struct seen *seen = arg;

    (void)ready;
    seen->at = loop_now(seen->loop);
    seen->count++;
    loop_io_want(seen->io, 0);
}

static void send_byte(void *arg)
{
    struct seen *seen = arg;

    seen->result = (int)send(seen->fd, "x", 1, 0);
}

START_TEST(a_descriptor_sees_the_time_after_the_sleep)
{
    struct seen seen = {.loop = loop_create()}, sender = {0};
    struct loop_timer *timer;
    int fds[2];
    mono before;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    seen.io = loop_io_open(seen.loop, fds[0], on_ready_time, &seen);
    loop_io_want(seen.io, LOOP_READ);
    sender.fd = fds[1];
    timer = loop_timer_create(seen.loop, send_byte, &sender);
    before = loop_update_now(seen.loop);
    loop_timer_set(timer, mono_add_ms(before, 30));
    TURN_UNTIL(seen.loop, seen.count);
    ck_assert_int_ge(mono_diff_us(seen.at, before), 30000);
    ck_assert(!mono_before(loop_now(seen.loop), seen.at));
    loop_timer_destroy(timer);
    loop_io_close(seen.io);
    close(fds[0]);
    close(fds[1]);
    loop_destroy(seen.loop);
}
END_TEST

static void on_due(void *arg)
{
    struct seen *seen = arg;

    seen->count++;
    seen->at = clock_mono();
    ck_assert(!mono_before(seen->at, seen->due));
    ck_assert(!mono_before(loop_now(seen->loop), seen->due));
}

START_TEST(a_timer_fires_once_and_never_early)
{
    struct seen seen = {.loop = loop_create()};

    seen.timer = loop_timer_create(seen.loop, on_due, &seen);
    for (int i = 0; i < 60; i++) {
        int before = seen.count;

        seen.due = mono_add_us(clock_mono(), i * 137);
        loop_timer_set(seen.timer, seen.due);
        TURN_UNTIL(seen.loop, seen.count > before);
        ck_assert_int_eq(seen.count, before + 1);
        loop_turn(seen.loop, 1);
        ck_assert_int_eq(seen.count, before + 1);
    }
    loop_timer_destroy(seen.timer);
    loop_timer_destroy(NULL);
    loop_destroy(seen.loop);
}
END_TEST

START_TEST(a_timer_moves_and_is_cancelled)
{
    struct seen seen = {.loop = loop_create()};
    mono start = clock_mono();

    seen.timer = loop_timer_create(seen.loop, on_due, &seen);
    loop_timer_set(seen.timer, start);
    loop_timer_set(seen.timer, MONO_NEVER);
    loop_turn(seen.loop, 5);
    ck_assert_int_eq(seen.count, 0);
    loop_timer_set(seen.timer, mono_add_ms(start, 100000));
    seen.due = mono_add_ms(clock_mono(), 5);
    loop_timer_set(seen.timer, seen.due);
    TURN_UNTIL(seen.loop, seen.count == 1);
    loop_timer_set(seen.timer, mono_add_us(MONO_NEVER, -1)); /* far away, without overflow */
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 1);
    loop_timer_destroy(seen.timer);
    loop_destroy(seen.loop);
}
END_TEST

static void set_to_past(void *arg)
{
    struct seen *seen = arg;

    seen->count++;
    loop_timer_set(seen->timer, (mono){0});
}

START_TEST(a_timer_set_to_the_past_by_its_callback_does_not_starve_the_loop)
{
    struct seen seen = {.loop = loop_create()}, wakes = {0};
    struct loop_wake *wake = loop_wake_create(seen.loop, count_only, &wakes);

    seen.timer = loop_timer_create(seen.loop, set_to_past, &seen);
    loop_timer_set(seen.timer, (mono){0});
    loop_wake_send(wake);
    TURN_UNTIL(seen.loop, wakes.count == 1 && seen.count > 3);
    loop_wake_destroy(wake);
    loop_timer_destroy(seen.timer);
    loop_destroy(seen.loop);
}
END_TEST

static void stop_it(void *arg)
{
    struct seen *seen = arg;

    seen->count++;
    loop_stop(seen->loop);
}

START_TEST(run_ends_by_stop_and_can_run_again)
{
    struct seen seen = {.loop = loop_create()};

    seen.timer = loop_timer_create(seen.loop, stop_it, &seen);
    for (int i = 1; i <= 3; i++) {
        loop_timer_set(seen.timer, mono_add_ms(clock_mono(), 2));
        loop_run(seen.loop);
        ck_assert_int_eq(seen.count, i);
    }
    loop_stop(seen.loop); /* before it runs: it does not */
    loop_run(seen.loop);
    loop_timer_destroy(seen.timer);
    loop_destroy(seen.loop);
    loop_destroy(NULL);
}
END_TEST

START_TEST(a_turn_waits_no_longer_than_told)
{
    struct loop *loop = loop_create();
    mono start = clock_mono();

    loop_turn(loop, 0);
    ck_assert_int_lt(mono_diff_us(clock_mono(), start), 1000000);
    start = clock_mono();
    loop_turn(loop, 20);
    ck_assert_int_ge(mono_diff_us(clock_mono(), start), 19000);
    ck_assert_int_lt(mono_diff_us(clock_mono(), start), 5000000);
    loop_destroy(loop);
}
END_TEST

static char order[16];

static void hook_a(void *arg)
{
    (void)arg;
    strcat(order, "a");
}

static void hook_b(void *arg)
{
    struct seen *seen = arg;

    strcat(order, "b");
    if (seen->hook) { /* the one after this one goes */
        loop_hook_destroy(seen->hook);
        seen->hook = NULL;
    }
}

static void hook_c(void *arg)
{
    (void)arg;
    strcat(order, "c");
}

START_TEST(hooks_run_in_order_of_creation)
{
    struct seen seen = {.loop = loop_create()};
    struct loop_hook *a = loop_hook_create(seen.loop, hook_a, NULL);
    struct loop_hook *b = loop_hook_create(seen.loop, hook_b, &seen);
    struct loop_hook *c = loop_hook_create(seen.loop, hook_c, NULL);
    struct loop_hook *d = loop_hook_create(seen.loop, hook_a, NULL);

    loop_turn(seen.loop, 0);
    ck_assert_str_eq(order, "abca");
    seen.hook = c;
    loop_turn(seen.loop, 0);
    ck_assert_str_eq(order, "abcaaba");
    loop_hook_destroy(d);
    loop_hook_destroy(a);
    loop_turn(seen.loop, 0);
    ck_assert_str_eq(order, "abcaabab");
    loop_hook_destroy(b);
    loop_hook_destroy(NULL);
    loop_destroy(seen.loop);
}
END_TEST

START_TEST(wakes_merge_and_end)
{
    struct seen seen = {.loop = loop_create()};
    struct loop_wake *wake = loop_wake_create(seen.loop, count_only, &seen);

    loop_wake_send(wake);
    loop_wake_send(wake);
    TURN_UNTIL(seen.loop, seen.count == 1);
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 1);
    loop_wake_send(wake);
    loop_wake_destroy(wake); /* no call after it */
    loop_turn(seen.loop, 0);
    ck_assert_int_eq(seen.count, 1);
    loop_destroy(seen.loop);
}
END_TEST

static void on_signal(void *arg, int signum)
{
    struct seen *seen = arg;

    seen->count++;
    seen->result = signum;
}

START_TEST(a_signal_arrives)
{
    struct seen seen = {.loop = loop_create()};
    struct loop_signal *sig = loop_signal_open(seen.loop, SIGUSR1, on_signal, &seen);

    ck_assert_ptr_nonnull(sig);
    ck_assert_ptr_null(loop_signal_open(seen.loop, SIGKILL, on_signal, &seen));
    raise(SIGUSR1);
    TURN_UNTIL(seen.loop, seen.count == 1);
    ck_assert_int_eq(seen.result, SIGUSR1);
    loop_signal_close(sig);
    loop_destroy(seen.loop);
}
END_TEST

static void on_found(void *arg, const struct loop_address *all, int n, const char *text)
{
    struct seen *seen = arg;

    seen->count++;
    seen->result = n;
    ck_assert_int_eq(n == 0, text[0] != 0);
    if (n) {
        struct sockaddr_in in;

        ck_assert_int_eq(all[0].family, AF_INET);
        ck_assert_uint_eq(all[0].length, sizeof(in));
        memcpy(&in, all[0].bytes, sizeof(in));
        ck_assert_uint_eq(ntohs(in.sin_port), 4222);
        ck_assert_uint_eq(ntohl(in.sin_addr.s_addr), INADDR_LOOPBACK);
    }
}

START_TEST(a_lookup_calls_back_once)
{
    struct seen seen = {.loop = loop_create()};

    ck_assert_ptr_nonnull(loop_lookup_start(seen.loop, "127.0.0.1", 4222, on_found, &seen));
    TURN_UNTIL(seen.loop, seen.count == 1);
    ck_assert_int_eq(seen.result, 1);
    ck_assert_ptr_nonnull(loop_lookup_start(seen.loop, "bad name.invalid", 1, on_found, &seen));
    TURN_UNTIL(seen.loop, seen.count == 2);
    ck_assert_int_eq(seen.result, 0);
    ck_assert_ptr_null(loop_lookup_start(seen.loop, "127.0.0.1", 65536, on_found, &seen));
    loop_destroy(seen.loop);
}
END_TEST

START_TEST(a_cancelled_lookup_does_not_call)
{
    struct seen seen = {.loop = loop_create()};

    for (int i = 0; i < 20; i++)
        loop_lookup_cancel(loop_lookup_start(seen.loop, "127.0.0.1", 4222, on_found, &seen));
    loop_lookup_cancel(NULL);
    loop_turn(seen.loop, 0);
    loop_destroy(seen.loop); /* waits for the threads */
    ck_assert_int_eq(seen.count, 0);
}
END_TEST

START_TEST(what_was_left_open_is_freed_all_the_same)
{
    struct seen seen = {.loop = loop_create()};

    ck_assert_ptr_nonnull(loop_timer_create(seen.loop, on_due, &seen));
    ck_assert_ptr_nonnull(loop_hook_create(seen.loop, count_only, &seen));
    ck_assert_ptr_nonnull(loop_wake_create(seen.loop, count_only, &seen));
    loop_destroy(seen.loop);
}
END_TEST

RUN_SUITE("loop", a_descriptor_reports_what_is_wanted,
          an_error_sets_both_bits_and_closing_inside_is_safe,
          an_error_that_is_not_handled_is_told_again, a_descriptor_sees_the_time_after_the_sleep,
          a_timer_fires_once_and_never_early, a_timer_moves_and_is_cancelled,
          a_timer_set_to_the_past_by_its_callback_does_not_starve_the_loop,
          run_ends_by_stop_and_can_run_again, a_turn_waits_no_longer_than_told,
          hooks_run_in_order_of_creation, wakes_merge_and_end, a_signal_arrives,
          a_lookup_calls_back_once, a_cancelled_lookup_does_not_call,
          what_was_left_open_is_freed_all_the_same)
