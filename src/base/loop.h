/* The event loop: the only user of libuv. One thread runs it and owns everything created on it;
 * only loop_wake_send may be called from elsewhere. No call here blocks except loop_run. */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/clock.h"
#include "waybill/status.h"

struct loop;
struct loop_io;
struct loop_timer;
struct loop_signal;
struct loop_wake;
struct loop_hook;
struct loop_lookup;
struct sockaddr;

struct loop *loop_create(void); /* NULL: no memory or no descriptors */
/* Destroy takes NULL. Everything created on the loop must have been closed before; closing handles
 * are reaped here. */
void loop_destroy(struct loop *loop);
/* Runs until loop_stop. */
void loop_run(struct loop *loop);
/* One turn; waits at most max_wait_ms (0: not at all). For tests and drains. */
void loop_turn(struct loop *loop, int max_wait_ms);
void loop_stop(struct loop *loop);
/* Time read once per turn, after the poll: cheap, and the same for all callbacks of a turn. */
mono loop_now(const struct loop *loop);
/* Reads the clock again; for long callbacks. */
mono loop_update_now(struct loop *loop);

/* Called once each turn just before the loop sleeps, in the order of creation: where output buffers
 * are sent. */
struct loop_hook *loop_hook_create(struct loop *loop, void (*fn)(void *arg), void *arg);
void loop_hook_destroy(struct loop_hook *hook);

enum { LOOP_READ = 1, LOOP_WRITE = 2 };
/* Watches fd (not owned; made non-blocking), at first for nothing. Level-triggered. Callback gets
 * the ready set; on an error condition both bits are set. Safe to close from inside. NULL: no
 * memory, or fd cannot be watched or already is. */
struct loop_io *loop_io_open(struct loop *loop, int fd, void (*fn)(void *arg, int ready),
                             void *arg);
void loop_io_want(struct loop_io *io, int events); /* 0 pauses */
void loop_io_close(struct loop_io *io);            /* before close(fd); takes NULL */

struct loop_timer *loop_timer_create(struct loop *loop, void (*fn)(void *arg), void *arg);
/* Once, never before due; MONO_NEVER cancels. Set to a past time it fires in the next turn, so it
 * cannot starve descriptors. */
void loop_timer_set(struct loop_timer *timer, mono due);
void loop_timer_destroy(struct loop_timer *timer); /* takes NULL */

struct loop_signal *loop_signal_open(struct loop *loop, int signum,
                                     void (*fn)(void *arg, int signum), void *arg);
void loop_signal_close(struct loop_signal *sig);

/* Wakes the loop from any thread; several sends may become one call. */
struct loop_wake *loop_wake_create(struct loop *loop, void (*fn)(void *arg), void *arg);
void loop_wake_send(struct loop_wake *wake);
void loop_wake_destroy(struct loop_wake *wake);

/* Name lookup off the loop. The callback gets an array of addresses valid during the call (n = 0:
 * failed, text says why). It is called exactly once, later, unless loop_lookup_cancel came first;
 * the lookup is gone after it. NULL: no memory or a bad port, no call follows. */
struct loop_address {
    unsigned char bytes[28]; /* a sockaddr_in or sockaddr_in6 */
    unsigned length;
    int family;
};
struct loop_lookup *loop_lookup_start(struct loop *loop, const char *host, int port,
                                      void (*fn)(void *arg, const struct loop_address *all, int n,
                                                 const char *text),
                                      void *arg);
void loop_lookup_cancel(struct loop_lookup *lookup); /* takes NULL */

#endif
