/* What lane.c and traffic.c share: the lane itself. Nobody else includes this. */
#ifndef LANE_INNER_H
#define LANE_INNER_H

#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rng.h"
#include "lane/handshake.h"
#include "lane/lane.h"
#include "lane/pool.h"
#include "lane/subs.h"
#include "lane/transport.h"

#define LANE_MAGIC 0x1a9e0001u
#define LANE_TEXT_MAX 640

#define READ_MIN (64u << 10)     /* first size of a read, and of the buffer */
#define READ_MAX (1u << 20)      /* most that is read, and so handled, in one turn */
#define MESSAGE_MAX (64u << 20)  /* the hard limit of nats-server */
#define SEND_AT (256u << 10)     /* output is sent without waiting for the end of the turn */
#define CONTROL_ROOM (64u << 20) /* output beyond the mark: SUB, UNSUB, PING, PONG, one message */
#define CONTROL_LINE_MAX                                                                           \
    4000 /* subject, reply and queue of one operation: the server closes at 4096 */
#define PONGS_MAX 8192

/* What a PONG, when it comes, answers. */
enum pong_kind { PONG_PROBE, PONG_FLUSH, PONG_UNSUB, PONG_LEAVE, PONG_CLOSE };

struct pong {
    enum pong_kind kind;
    uint64_t mark;                  /* PONG_UNSUB */
    void (*fn)(void *arg, bool ok); /* PONG_FLUSH */
    void *arg;
};

/* Within LANE_HANDSHAKE: what is awaited. */
enum handshake_step { STEP_INFO, STEP_TLS, STEP_PONG };

/* What the `soon` timer does, outside of any call into the lane. */
enum { SOON_FAIL = 1, SOON_READ = 2, SOON_DRAINED = 4 };

struct lane {
    uint32_t magic;
    enum lane_state state;
    enum handshake_step step;
    unsigned soon;  /* SOON_ bits; the timer is armed while not 0 */
    unsigned depth; /* calls from the loop that are on the stack */
    bool destroyed; /* freed when depth falls to 0 */
    struct loop *loop;
    struct loop_timer *clock; /* the state's own time: back-off, connect, ping, close */
    struct loop_timer *soon_timer;
    struct loop_hook *hook;
    struct lane_options options;
    struct lane_events events;
    void *arg;
    struct rng rng;

    struct pool pool;
    struct pool_server *server;  /* present or last */
    struct transport *transport; /* NULL in IDLE, WAITING and CLOSED */
    struct handshake_info info;
    struct buf first_info; /* its URLs are learned once the server has proved itself */
    bool tls_required;     /* of the options, not of the server */
    unsigned tried;        /* connects since the last pause */
    unsigned pauses;       /* in a row: the exponent of the back-off */
    mono up_since;
    unsigned ups;

    struct buf in, out;
    size_t read_size;
    size_t in_want;      /* bytes of the operation that the front of `in` begins, 0 unknown */
    bool out_stuck;      /* the socket takes no more: `ready` will tell */
    bool out_refused;    /* WB_FULL was said, `drained` is owed */
    uint64_t quiet_mark; /* in_bytes + out_bytes at the last ping */
    size_t max_payload;

    struct subs subs;
    bool unsub_ping;    /* UNSUBs were written since the last PING that vouches for them */
    struct pong *pongs; /* ring */
    unsigned pong_first, pong_count, pong_size;
    unsigned pings_out;
    bool leaving; /* lame duck: on PONG_LEAVE to another server */

    wb_status broken; /* with SOON_FAIL */
    char broken_text[LANE_TEXT_MAX];
    char said[LANE_TEXT_MAX]; /* the server's last -ERR on this connection, "" none */
    char last_error[LANE_TEXT_MAX];
    char server_name[POOL_HOST_SIZE + 8];
    struct log_limit log_limit;
    struct lane_counts counts;
};

/* lane.c. From the loop only, between lane_enter and lane_leave. */
void lane_fail(struct lane *lane, wb_status why, const char *text);
/* From anywhere: fails soon. */
void lane_break(struct lane *lane, wb_status why, const char *text);
void lane_soon(struct lane *lane, unsigned what);
void lane_on_info(struct lane *lane, struct span json);
void lane_on_pong(struct lane *lane);
void lane_on_error(struct lane *lane, struct span text);

/* traffic.c */
void traffic_read(struct lane *lane);
void traffic_send(struct lane *lane);
/* A control line beyond the mark; a failure breaks the connection. */
void traffic_control(struct lane *lane, struct span text);
void traffic_sub(struct lane *lane, const struct subscription *sub);
void traffic_unsub(struct lane *lane, const struct subscription *sub);
void traffic_ping(struct lane *lane, struct pong pong);
bool traffic_next_pong(struct lane *lane, struct pong *pong);
void traffic_reset(struct lane *lane);    /* a connection ended: buffers emptied */
void traffic_be_small(struct lane *lane); /* memory back, if there was little traffic lately */

#endif
