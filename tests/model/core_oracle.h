/* What must be true of core, worked out naively: by counting all requests and looking at all
 * workers anew each time. Nothing here is fast, and nothing is shared with core's own way of
 * knowing it; sets of workers are masks over the numbers in their ids (w0, w1, ...).
 *
 * core_model_test.c drives core with random events and keeps `model`; before each choice it asks
 * here what must come of it. */
#ifndef MODEL_CORE_ORACLE_H
#define MODEL_CORE_ORACLE_H

#include "base/rng.h"
#include "core/adapter.h"
#include "core/request.h"

#define IDS 12
#define LIVE 48
#define ADAPTERS 3
#define WORKER_BYTES 4096
#define RANK_ANY (-2)

struct shadow { /* what is true of an id by its heartbeats and messages alone */
    bool known;
    int64_t epoch;
    enum worker_state state;
    uint32_t interval_ms, ranks, slots;
    unsigned adapters; /* set of those that it holds */
    int64_t dead_at;   /* us */
    bool told;         /* in this epoch, what it holds */
};

struct live {
    struct request rq;
    bool used;
    bool granted; /* it came from the queue, and has not failed since */
    unsigned sends;
    int adapter; /* -1: none */
    char key[4], target[8];
    uint64_t order; /* of its first waiting; 0: none */
    mono wait_over;
    const struct worker *waits_at; /* only compared; NULL: any */
    unsigned waits_for;            /* that one's number, as a set */
    char sent_to[WB_NAME_MAX + 1];
    enum recall how; /* what a retry of the client asks for */
    char recalled[8];
    int32_t recalled_rank;
    struct pin pin; /* of its session, at the last choice */
    char pinned[8];
    bool at_bound;           /* the last choice was its session's worker */
    bool rebinding, rebound; /* told to rebind; has done so */
};

struct model {
    struct registry *registry;
    struct pool *pool;
    struct shadow shadows[IDS];
    struct live lives[LIVE];
    mono now, wait_until;
    bool loading; /* adapters.load */
    enum policy_kind policy;
    uint32_t queue_limit;
};
extern struct model model;
extern const char *const adapter_names[ADAPTERS];

unsigned number_of(const struct worker *w);
bool set_has(unsigned set, unsigned number);

struct facts {
    unsigned known, admitting, routable, roomy, free;
    unsigned holders[ADAPTERS];
    unsigned loaders[ADAPTERS]; /* may load it, or are loading it */
};
struct facts facts_now(void);

/* What must come of a choice. */
struct expected {
    enum next_kind kind;
    unsigned workers; /* NEXT_CHOSEN: one of these; NEXT_QUEUE: for this one, or 0: any */
    int32_t rank;     /* RANK_ANY: one that it has */
    enum reason reason;
    bool at_bound;
    wb_status error;
    const char *scope;
};
struct expected expect_choice(const struct live *live);
/* Of those free, those that may be given to a request that waits for any. */
unsigned may_be_given(const struct facts *f, const struct live *live);
/* Those that it may still go to from the queue, free or not. */
unsigned may_hope_for(const struct facts *f, const struct live *live);
/* Whom its record names and it is to avoid, since there is another one. */
unsigned avoided_by(const struct facts *f, const struct live *live);
/* Moved to another before the send; without any its worker was tried, and what is next? */
unsigned may_fall_back_to(const struct facts *f, const struct live *live);
struct expected expect_after_fall(const struct facts *f, const struct live *live);
/* Its attempts, or its time in the queue, are over. */
struct expected expect_end(const struct live *live);
struct expected expect_wait_over(const struct live *live);
/* Its session's worker would serve it now. */
bool is_bound_free(const struct facts *f, const struct live *live);
/* Of a request that waits for one worker alone: does that offer what it asks for? */
bool suits(const struct facts *f, const struct live *live);
/* Must it go on waiting? */
bool waits_rightly_at(const struct facts *f, const struct live *live);

#endif
