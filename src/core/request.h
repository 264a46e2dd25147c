/* The request state machine: choose, charge, resolve, send, fail, retry, answer, end. Pure
 * decisions; the router owns the bytes and embeds this struct.
 *
 *   NEW --choose--> CHOSEN --resolve--> OUT --answered--> SERVED --finish--> ENDED
 *    ^                 |  (vanished:       |
 *    |                 |   choose again)   +--failed--> PAUSED --(its time)--> choose again, or
 * FAILED
 *    +-- WAITING (start_wait: target or adapter's holder not yet heard of)
 *
 * A charge is held exactly in CHOSEN, OUT and SERVED. Every function CHECKs that the state allows
 * it; peers cannot make a wrong call happen, only the router's own bugs can. Events that may come
 * late (a clock, a lost worker) are asked about with request_state first. */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/registry.h"

#define REQUEST_TRIED_MAX 16

enum request_state {
    REQUEST_NEW,
    REQUEST_CHOSEN,
    REQUEST_OUT,
    REQUEST_SERVED,
    REQUEST_PAUSED,
    REQUEST_WAITING,
    REQUEST_FAILED,
    REQUEST_ENDED
};

enum cause {
    CAUSE_NONE,
    CAUSE_NO_RESPONDERS,
    CAUSE_GONE,
    CAUSE_REFUSED,
    CAUSE_LOST,
    CAUSE_TIMEOUT,
    CAUSE_CANCELLED,
    CAUSE_DEADLINE,
    CAUSE_LINK,
    CAUSE_INTERRUPTED,
    CAUSE_COUNT
};
const char *cause_name(enum cause cause); /* no_responders, gone, refused, lost, timeout, cancelled,
                                             deadline, link, interrupted */

enum delivered { DELIVERED_NO, DELIVERED_MAYBE, DELIVERED_YES };
const char *delivered_name(enum delivered delivered); /* no, maybe, yes */

enum reason {
    REASON_POLICY,
    REASON_TARGET,
    REASON_FALLBACK,
    REASON_RETRY,
    REASON_ADAPTER_LOAD,
    REASON_COUNT
};
const char *reason_name(enum reason reason);

struct tried {
    struct worker *worker; /* a reference is held */
    enum cause cause;
};

struct request {
    enum request_state state;
    struct pool *pool;
    struct charge charge; /* its worker is the present attempt's */
    uint8_t tried_count;
    uint8_t attempt; /* number of the present or last attempt; 0: none sent */
    bool idempotent,
        one_way;     /* one_way: no reply subject, or replies none: only no_responders is retried */
    bool malformed;  /* the target can't be a worker's id */
    bool refused;    /* a worker has sent a refusal, which may be forwarded at the end */
    bool progressed; /* present attempt: delivery is certain */
    bool arrived;    /* counted in its adapter's arrivals */
    enum delivered delivered; /* worst over all attempts */
    enum reason reason;
    enum cause last_cause;
    int32_t rank;            /* -1: none */
    int32_t target_rank;     /* -1: none named */
    struct span key;         /* hash key, owned by the router's message */
    struct span adapter;     /* likewise; empty: none */
    struct worker *selected; /* first choice, a reference is held */
    int64_t retry_after_ms;  /* of the last refusal; 0: none */
    /* Not cleared at the start, since most requests touch neither. */
    char target[WB_NAME_MAX + 1];          /* "": none */
    struct tried tried[REQUEST_TRIED_MAX]; /* the first tried_count hold */
};

enum next_kind {
    NEXT_CHOSEN, /* charged; call request_resolve */
    NEXT_SEND,   /* prepare from the client's message for charge.worker and rank, publish, then
                    request_sent */
    NEXT_PAUSE,  /* call request_choose again at `at` */
    NEXT_WAIT, /* target or holder not heard of yet: choose again when a worker joins, or at `at` */
    NEXT_FAIL  /* answer `error`; charges are released; then request_end */
};
struct next {
    enum next_kind kind;
    mono at;
    wb_status error;
    const char *scope;      /* of WB_OVERLOADED: "worker", "adapter" or "service" */
    int64_t retry_after_ms; /* of WB_OVERLOADED */
    bool forward_refusal;   /* WB_OVERLOADED whose last refusal's headers and payload are to be
                               forwarded */
};

struct request_params {
    struct span target;  /* worker id, empty: none */
    int32_t target_rank; /* -1: none */
    struct span key;
    struct span adapter; /* empty: none; outlives the request */
    bool idempotent, one_way;
};
void request_init(struct request *rq, struct pool *pool, const struct request_params *params,
                  mono now);
/* From NEW, PAUSED or WAITING: chooses and charges. wait_until: while now is before it, an unknown
 * target is NEXT_WAIT, and so is an adapter that nobody is known to hold. `NEXT_CHOSEN`,
 * `NEXT_WAIT` or `NEXT_FAIL`. */
struct next request_choose(struct request *rq, mono wait_until, mono now);
/* From CHOSEN: is the worker still there? If not: cause gone, move to another (the charge moves,
 * the rank is dropped, reason fallback). Is it overloaded, not counting the own charge? Then
 * refused without a send. Else takes the attempt number: NEXT_SEND. */
struct next request_resolve(struct request *rq, mono now);
/* Published: bytes count against worker_bytes. */
void request_sent(struct request *rq, uint64_t bytes, mono now);
/* From CHOSEN after NEXT_SEND: the message could not be prepared or published; tries nobody else,
 * blames nobody; state FAILED, charge released. */
void request_unsendable(struct request *rq, mono now);
/* From OUT: the attempt failed before its first answer. Releases the charge, does to the worker
 * what section 5's table says (not for CAUSE_LINK/CANCELLED/DEADLINE), updates delivered and tried,
 * decides. retry_after_ms: of a refusal, 0: not given. NEXT_PAUSE with at == now means at once. */
struct next request_failed(struct request *rq, enum cause cause, int64_t retry_after_ms, mono now);
void request_progress(struct request *rq, mono now); /* OUT or SERVED */
/* From OUT: the first answer. tried keeps its history; charge.worker, rank and attempt name who
 * served. */
void request_answered(struct request *rq, mono now);
/* From any state: ends it, releases charge and references; idempotent. error_code >= 500 of the
 * answer or 0 is for the health counts. */
void request_end(struct request *rq, mono now);

struct advice {
    struct worker *worker; /* NULL: error says why */
    int32_t rank;
    enum reason reason;
    wb_status error;
    const char *scope; /* these two of WB_OVERLOADED, as in struct next */
    int64_t retry_after_ms;
};
/* What request_choose would do for a NEW request, without doing it. */
struct advice request_advise(struct pool *pool, const struct request_params *params, mono now);

#endif
