/* The request state machine: choose, charge, resolve, send, fail, retry, answer, end. Pure
 * decisions; the router owns the bytes and embeds this struct.
 *
 *   NEW --choose--> CHOSEN --resolve--> OUT --answered--> SERVED --finish--> ENDED
 *    ^                 |  (vanished:       |
 *    |                 |   choose again)   +--failed--> PAUSED --(its time)--> choose, or FAILED
 *    +-- WAITING (start_wait: target or adapter's holder not yet heard of)
 *
 * From choose or resolve, where all that are permitted are only busy:
 *   QUEUED --its turn (queue_next)--> GRANTED --choose--> CHOSEN, or QUEUED again at its old place
 *     +-- its time is over (request_wait_over) --> FAILED
 *
 * Where the pin of its session is broken, choose leaves it in NEW, PAUSED or WAITING; from GRANTED
 * it goes to PAUSED, its turn is over. It may choose again at once, or when its session has a word.
 *
 * A charge is held exactly in CHOSEN, OUT and SERVED. Every function CHECKs that the state allows
 * it; peers cannot make a wrong call happen, only the router's own bugs can. Events that may come
 * late (a clock, a lost worker) are asked about with request_state first. */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/queue.h"
#include "core/registry.h"
#include "core/session.h"

#define REQUEST_TRIED_MAX 16

enum request_state {
    REQUEST_NEW,
    REQUEST_CHOSEN,
    REQUEST_OUT,
    REQUEST_SERVED,
    REQUEST_PAUSED,
    REQUEST_WAITING,
    REQUEST_QUEUED,
    REQUEST_GRANTED,
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
    REASON_PREFER,
    REASON_AVOID,
    REASON_SESSION,
    REASON_REBIND,
    REASON_SPILL,
    REASON_ADAPTER_LOAD,
    REASON_COUNT
};
const char *reason_name(enum reason reason);

/* What a client's retry asks of the worker that the record of its id names (Waybill-Retry). */
enum recall { RECALL_NONE, RECALL_AVOID, RECALL_PREFER };

/* What a request's session asks of the choice (session.h). */
enum pin_mode {
    PIN_NONE,  /* nothing */
    PIN_OWNER, /* nothing yet: whoever answers is bound */
    PIN_SOFT,  /* this worker if it is free, and holds the adapter, else by the policy */
    PIN_HARD   /* this worker and no other, save as `on_busy` says */
};
struct pin {
    enum pin_mode mode;
    struct span worker;
    int32_t rank; /* -1: none */
    enum session_on_busy on_busy;
};

struct request {
    struct pool *pool;
    struct charge charge; /* its worker is the present attempt's */
    enum request_state state : 8;
    enum delivered delivered : 8; /* worst over all attempts */
    enum reason reason : 8;
    enum cause last_cause : 8;
    uint8_t tried_count;
    uint8_t attempt; /* number of the present or last attempt; 0: none sent */
    bool idempotent,
        one_way;     /* one_way: no reply subject, or replies none: only no_responders is retried */
    bool malformed;  /* the target can't be a worker's id */
    bool refused;    /* a worker has sent a refusal, which may be forwarded at the end */
    bool progressed; /* present attempt: delivery is certain */
    uint8_t pin;     /* enum pin_mode of the last choice */
    uint8_t on_busy; /* enum session_on_busy of that */
    bool rebinding;  /* its binding was found broken: the next choice as owner replaces it */
    bool rebound;    /* and has: once for a request */
    uint8_t recall;  /* enum recall; set: there is no target, and `recalled` names the worker */
    int8_t priority; /* enum priority */
    bool waited;     /* the ticket holds */
    bool bound;      /* the present or last attempt is at its session's worker */
    bool arrived;    /* counted in its adapter's arrivals */
    int32_t rank;    /* -1: none */
    int32_t target_rank;     /* -1: none named */
    int32_t recalled_rank;   /* -1: none recorded */
    int32_t pinned_rank;     /* of the last choice's pin; -1: none */
    struct span recalled;    /* the record's worker, in the router's memory */
    struct span target, key; /* the worker named and the hash key, in the router's message;
                                empty: none */
    struct span adapter;     /* likewise */
    struct worker *selected; /* first choice, a reference is held */
    int64_t retry_after_ms;  /* of the last refusal; 0: none */
    /* Not cleared at the start, since most requests try nobody in vain. */
    struct worker *tried[REQUEST_TRIED_MAX]; /* the first tried_count hold, a reference each */
    uint8_t tried_causes[REQUEST_TRIED_MAX]; /* enum cause */
    struct ticket ticket;                    /* once waited */
};

enum next_kind {
    NEXT_CHOSEN, /* charged; call request_resolve */
    NEXT_SEND,   /* prepare from the client's message for charge.worker and rank, publish, then
                    request_sent */
    NEXT_PAUSE,  /* call request_choose again at `at` */
    NEXT_WAIT,   /* worker or holder not heard of yet: choose again when one joins, or at `at` */
    NEXT_REBIND, /* the pin is broken: session_broken, then choose again by what it says */
    NEXT_QUEUE,  /* all permitted are only busy: it waits for its turn (queue_next), or until `at`,
                    then request_wait_over */
    NEXT_FAIL    /* answer `error`; charges are released; then request_end */
};
struct next {
    enum next_kind kind;
    mono at;
    wb_status error;
    const char *scope;      /* of WB_OVERLOADED: "worker", "adapter" or "service" */
    int64_t retry_after_ms; /* of WB_OVERLOADED */
    bool queue_full;        /* WB_OVERLOADED for want of room in the queue */
    bool forward_refusal;   /* WB_OVERLOADED whose last refusal's headers and payload are to be
                               forwarded */
};

struct request_params {
    struct span target;  /* worker id, empty: none */
    int32_t target_rank; /* -1: none */
    struct span key;
    struct span adapter; /* empty: none; outlives the request */
    bool idempotent, one_way;
    enum priority priority;
};
void request_init(struct request *rq, struct pool *pool, const struct request_params *params,
                  mono now);
/* From NEW, before request_choose: the record of this id names worker and rank (-1: none), and the
 * client wants it avoided or preferred. The name must live as long as the request; the worker may
 * be unknown, or go. A target wins: with one this does nothing.
 *
 * Avoid: it is not chosen while another permitted worker is untried, busy or not. Prefer: it is
 * chosen while it is free and untried, with the rank if it still has it; else the policy decides.
 */
void request_recall(struct request *rq, enum recall how, struct span worker, int32_t rank);
/* From NEW, PAUSED, WAITING or GRANTED: chooses and charges. pin: of its session, NULL: it has
 * none; read during the call only. wait_until: while now is before it, an unknown target or bound
 * worker is NEXT_WAIT, and so is an adapter that nobody is known to hold. NEXT_CHOSEN, NEXT_WAIT,
 * NEXT_QUEUE, NEXT_REBIND or NEXT_FAIL. A worker that refused is chosen again only from GRANTED.
 * Before a newcomer chooses, those whose turn it is must have had it (queue_due, queue_next), or it
 * overtakes them. */
struct next request_choose(struct request *rq, const struct pin *pin, mono wait_until, mono now);
/* From QUEUED: it has waited its time. NEXT_FAIL: overloaded, or its last refusal forwarded. */
struct next request_wait_over(struct request *rq, mono now);
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
struct advice request_advise(const struct request *rq, const struct pin *pin, mono now);

#endif
