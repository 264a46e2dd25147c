/* The router's own state, shared by its parts. One struct router; a struct service for each
 * configured one; a struct transit for each client message in flight. All on the loop thread.
 *
 * A transit is on exactly one of these lists, and moving is the state change:
 *
 *   running     its core request decides: an attempt is out, a stream runs, or a pause ticks
 *               (transit.clock is armed)
 *   record_wait a client's retry, whose record is being read; nothing is chosen yet; ends by the
 *               answer or by the clock
 *   session_wait  another request, here or on another router, owns its session; ends when that
 *               one has bound or failed, or by the clock
 *   link_wait   the back lane is down, nothing can be chosen; ends by back up or by the clock
 *   start_wait  its target or a holder of its adapter was not heard of yet; ends by a worker
 *               joining, or by the clock
 *   queued      all workers that it may go to are busy: it waits for its turn (core/queue), or
 *               until the clock says that it has waited long enough
 *   held        all answers are in and the charge is released, but the messages to the client
 *               wait (for the bucket's acknowledgement, or for the front lane)
 *
 * transit_dispose takes it off, out of the id map and back into the slab: the only end. */
#ifndef ROUTER_STATE_H
#define ROUTER_STATE_H

#include "base/buf.h"
#include "base/deadline.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/slab.h"
#include "core/request.h"
#include "core/session.h"
#include "lane/header.h"
#include "lane/lane.h"
#include "router/counts.h"
#include "router/settings.h"
#include "wire/record.h"

#define TOKEN_HANDLE_LEN 11 /* the transit's handle */
#define TOKEN_RANDOM_LEN 16 /* 96 bits */
#define TOKEN_LEN (TOKEN_HANDLE_LEN + TOKEN_RANDOM_LEN)
#define INBOX_SIZE (WB_SUBJECT_MAX + 16)
#define MADE_ID_PREFIX_LEN 12 /* random, one per router's life */
#define MADE_ID_LEN (MADE_ID_PREFIX_LEN + TOKEN_HANDLE_LEN)
#define MESSAGE_SMALL 200 /* most requests fit */
#define HOLD_BYTES_MAX (1024 * 1024)

struct ledger;
struct presence;
struct monitor;
struct affinity;
struct attendance;

enum place {
    PLACE_RUNNING,
    PLACE_RECORD_WAIT,
    PLACE_SESSION_WAIT,
    PLACE_LINK_WAIT,
    PLACE_START_WAIT,
    PLACE_QUEUED,
    PLACE_HELD,
    PLACE_COUNT
};
enum clock_kind {
    CLOCK_NONE,
    CLOCK_FIRST_REPLY,
    CLOCK_INACTIVITY,
    CLOCK_ONE_WAY,
    CLOCK_PAUSE,
    CLOCK_RECORD,
    CLOCK_SESSION,
    CLOCK_QUEUE,
    CLOCK_FRONT
};

/* A message to the client, or a suspect message from a worker, kept for later: header block then
 * payload. */
struct held {
    struct held *next;
    uint32_t headers_len, payload_len;
    char bytes[];
};
static inline struct span held_headers(const struct held *h)
{
    return span_of(h->bytes, h->headers_len);
}

static inline struct span held_payload(const struct held *h)
{
    return span_of(h->bytes + h->headers_len, h->payload_len);
}

struct held_list {
    struct held *first, *last;
    size_t bytes;
};

struct transit {
    unsigned magic;
    uint8_t place, clock_kind, replies, recall;
    bool filter_headers; /* some client header must not reach the worker */
    bool in_map;
    bool made_id;       /* the router made the request id */
    bool id_header;     /* the client's headers hold it as Waybill-Request-Id */
    bool advice;        /* wants to be told the choice, not to be served */
    bool retry_unknown; /* the record that its retry asked for could not be read */
    bool numbered;      /* the worker numbers its stream messages */
    bool disclosed;     /* the first forwarded answer has carried the disclosure */
    bool held_for_ack, held_for_front;
    bool link_broke;  /* the back lane was lost while this attempt was out */
    bool ack_checked; /* suspects were looked into: take messages as they are */
    uint8_t hops;
    uint64_t handle;
    struct router *router;
    struct service *service;
    struct deadline clock;
    struct link link; /* on the list of its place */
    mono received, total_due;
    wall received_at;
    int64_t first_reply_us;
    uint32_t seq_in, seq_out, answers, memory_len;
    uint64_t entry;                                      /* the ledger's handle; 0: none */
    struct span subject, reply, headers, payload, trace; /* into memory */
    struct span id;                                      /* into memory, or `made` */
    char *
        memory; /* subject, reply, headers, payload: of router->smalls if they fit, else malloc's */
    uint64_t small;                /* handle of memory; 0: malloc's */
    char *recalled;                /* the worker of this id's record, for core; NULL: none */
    struct attendance *attendance; /* its part in a session; NULL: none */
    struct worker *server;         /* who gave the first answer; a reference is held */
    struct held *refusal;          /* last refusal, to be forwarded if nobody serves */
    struct held_list hold;         /* towards the client */
    struct held_list suspects;     /* from the worker, while check (b) runs */
    char token[TOKEN_LEN];
    /* From here on not cleared when taken: each is written before it is read. */
    struct request core;
    char made[MADE_ID_LEN];
};

struct transit_list {
    struct list list;
    uint32_t count;
};

struct service {
    const struct service_settings *settings;
    struct router *router;
    struct pool *pool;
    struct map *by_id; /* requests in flight whose id the client gave */
    struct span name, queue;
    uint64_t *sids; /* one per subject; 0: not subscribed */
    bool subscribed;
    uint64_t errors[WB_STATUS_COUNT];
    uint64_t requests, in_flight;
    int64_t busy_us;        /* of all requests that have ended, from receipt to end */
    const char *last_error; /* NULL: none yet */
};

struct router {
    unsigned magic;
    struct loop *loop;
    const struct router_settings *settings;
    struct span prefix, id;
    struct lane *front, *back;
    struct registry *registry;
    struct ledger *ledger;
    struct affinity *affinity; /* NULL: no service has sessions */
    struct presence *presence;
    struct monitor *monitor;
    struct store *store;
    struct deadlines *deadlines;
    struct loop_timer *timer;
    struct loop_hook *hook;
    struct slab *transits;
    struct slab *smalls; /* memory of messages up to MESSAGE_SMALL */
    struct map *static_subjects;
    struct service *services;
    unsigned service_count;
    struct transit_list places[PLACE_COUNT];
    uint64_t bytes_held;
    struct rng rng;
    uint64_t counts[COUNT_COUNT];
    struct log_limit log_hostile, log_heartbeat, log_trouble;
    struct buf first_lines;                /* what the headers of every first attempt have alike */
    struct buf headers_out, body_out;      /* scratch of the message under way */
    char reply_prefix[2 * WB_SUBJECT_MAX]; /* "<prefix>.reply." */
    size_t reply_prefix_len;
    char inbox_prefix[WB_SUBJECT_MAX]; /* "<prefix>.inbox.<router>.l." */
    size_t inbox_prefix_len;
    char id_prefix[16];
    uint64_t rid_counter;
    int64_t started_ms; /* wall; part of rid */
    mono start_until;
    bool giving_turns;   /* dispatch_waiting is at work */
    unsigned confirming; /* proofs under way that the server knows the subscriptions */
    bool draining, drain_flushed, drain_overdue, denied, ready_said;
    mono drain_due, timer_due, denied_due;
    mono proving_since; /* of the proof of the back link that is under way; never: none is */
    struct loop_timer *drain_timer;
    void (*drained)(void *arg);
    void *drained_arg;
    uint64_t sid_reply, sid_inbox, sid_heartbeat;
};

static inline void router_count(struct router *r, enum count which)
{
    r->counts[which]++;
}

/* A header block for the message under way, begun in headers_out. */
static inline struct header_writer router_headers(struct router *r)
{
    struct header_writer w;

    buf_clear(&r->headers_out);
    header_open(&w, &r->headers_out);
    return w;
}

/* The transits at a place, oldest there first. Ask for the next before the present one moves on. */
static inline struct transit *transit_first(struct router *r, enum place place)
{
    return LIST_OWNER(list_first(&r->places[place].list), struct transit, link);
}

static inline struct transit *transit_next(const struct transit *t)
{
    return LIST_OWNER(list_next(&t->router->places[t->place].list, &t->link), struct transit, link);
}

/* transit.c */
struct transit *transit_create(struct router *r, struct service *s, const struct lane_message *m,
                               mono now);
void transit_place(struct transit *t, enum place place);
void transit_arm(struct transit *t, enum clock_kind kind,
                 mono due);                   /* never later than the total time */
void transit_forget_token(struct transit *t); /* what comes for the attempt from now on is late */
void transit_dispose(struct transit *t);
/* The transit in flight of an id that this router made; NULL: none, or not such an id. */
struct transit *transit_of_made_id(struct router *r, const struct service *s, struct span id);
/* t only holds messages that wait to be sent: its id leads to it no more and may be used again. */
void transit_forget_id(struct transit *t);
struct transit *transit_of_charge(const struct charge *charge);
size_t transit_key(struct span service, struct span id,
                   char out[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2]);
struct held *held_create(struct span headers, struct span payload);
void held_append(struct held_list *list, struct held *held);
struct held *held_take(struct held_list *list);
void held_clear(struct held_list *list);

/* intake.c */
void intake_on_request(void *arg, const struct lane_message *m);
/* Checked, and its record read if it asked for that: to be sent, or told what would be. */
void intake_proceed(struct transit *t, mono now);
bool intake_refuses(struct router *r,
                    const struct lane_message *m); /* hostile reply subject: counted and logged */

/* recall.c */
/* Looks for the record of t's id; intake_proceed follows, now or later. */
void recall_start(struct transit *t, enum recall how, mono now);
void recall_on_inbox(struct router *r, struct span token, const struct lane_message *m, mono now);
void recall_late(struct transit *t, mono now); /* its clock ran out */

/* dispatch.c */
void dispatch_start(struct transit *t, mono now);
/* Cheap when nobody's turn it is. True: more are left than fit one round of the loop. */
bool dispatch_waiting(struct router *r, mono now);
void dispatch_follow(struct transit *t, struct next next, mono now);
void dispatch_failed(struct transit *t, enum cause cause, int64_t retry_after_ms, mono now);
/* The end before a first answer: tells the client, tells the worker if an attempt is out, releases
 * all. */
void dispatch_give_up(struct transit *t, wb_status error, const char *message, mono now);
void dispatch_cancel(struct transit *t, mono now); /* by the client or admin */
void dispatch_clock(struct deadline *d, mono now);
void dispatch_tell_cancel(struct transit *t); /* to the attempt's worker */

/* relay.c */
void relay_on_reply(void *arg, const struct lane_message *m);
/* After the first answer: ends stream and record with this outcome ("interrupted", "timeout",
 * "cancelled"). */
void relay_interrupt(struct transit *t, wb_status error, const char *message, mono now);
void relay_error(struct transit *t, wb_status error, const char *message, const struct next *next);
/* An error to somebody who has no transit. */
void relay_refuse(struct router *r, struct service *s, struct span reply, struct span id,
                  bool stream, wb_status error, const char *message, int64_t retry_after_ms);
void relay_release(struct transit *t, bool confirmed); /* sends what is held */
void relay_suspects(struct transit *t, mono now);      /* check (b) ended or its time ran out */
void relay_front_up(struct router *r);
void relay_front_down(struct router *r, mono now);

/* control.c */
void control_start(struct router *r);
void control_event(struct router *r, const char *kind, struct span service, struct span worker,
                   const char *detail);
void control_stats(struct router *r, struct buf *out); /* the JSON of show.stats */

/* metrics.c */
wb_status metrics_write(struct router *r, struct buf *out);

/* router.c */
bool router_ready(const struct router *r);
void router_subscribe_due(struct router *r, mono now);

#endif
