/* Private to core/request*.c: what the life of a request, its candidates, its choice and its advice
 * ask of each other. request.c has the essay. What the queue asks stands in pool.h. */
#ifndef CORE_REQUEST_PARTS_H
#define CORE_REQUEST_PARTS_H

#include "core/pool.h"
#include "core/request.h"

static inline bool request_has_target(const struct request *rq)
{
    return rq->recall == RECALL_NONE && rq->target.len > 0;
}

static inline bool request_has_adapter(const struct request *rq)
{
    return rq->adapter.len > 0;
}

/* To its session's worker and no other, save as that is busy or gone. */
static inline bool request_is_pinned(const struct request *rq)
{
    return rq->pin == PIN_HARD && !request_has_target(rq);
}

/* ---- request.c: how it fails ---- */

/* Into FAILED, the charge released. */
struct next request_fail(struct request *rq, wb_status error, mono now);
/* Nobody is left to try: the last cause decides. */
struct next request_fail_by_cause(struct request *rq, mono now);
/* worker NULL: all that hold the adapter, or the whole service. */
struct next request_fail_overloaded(struct request *rq, const struct worker *worker, mono now);
struct overload {
    const char *scope;
    int64_t retry_after_ms;
};
struct overload request_overload(struct pool *pool, struct span adapter,
                                 const struct worker *worker, mono now);

/* ---- request_candidates.c: whom it may go to; changes nothing ---- */

/* What a choice came to; worker NULL: nobody is free. */
struct pick {
    struct worker *worker;
    int32_t rank;
    enum reason reason;
};
/* The preferred one if it is free, else by the policy among those untried. */
struct pick request_pick(const struct request *rq, bool peek, mono now);
struct pick request_pick_untried(const struct request *rq, bool peek, mono now);
/* By the policy, from the queue: also one that refused and is free again. */
struct pick request_pick_again(const struct request *rq, bool peek, mono now);
bool request_untried_left(const struct request *rq); /* free or not */

/* What the target's worker says to a new request; ejection is the caller's own risk. */
wb_status request_target_status(const struct worker *w, int32_t rank, struct span adapter,
                                mono now);

/* How it stands with the worker that the session is bound to. */
enum bond {
    BOND_UNHEARD, /* not discovered */
    BOND_BROKEN,  /* not routable, the rank gone, or the client's retry avoids it */
    BOND_LACKING, /* it does not hold the adapter, and may not load it */
    BOND_TRIED,   /* in vain, by this request */
    BOND_BUSY,
    BOND_FREE
};
enum bond request_bond(const struct request *rq, const struct pin *pin, const struct worker *w);
/* A target that contradicts the binding is a conflict, unless that is broken anyway. */
bool request_contradicts(const struct request *rq, const struct pin *pin);
/* Constraints that no choice can meet. */
wb_status request_constraints(const struct request *rq);

/* ---- request_choose.c ---- */

/* Charges the worker, from now on or instead of another. False: its adapter can't be counted, for
 * want of memory, and nothing has changed. */
bool request_occupy(struct request *rq, struct worker *w, mono now);
/* Nobody is free among those it may go to now. */
struct next request_wait_or_fail(struct request *rq, mono now);

#endif
