/* Session affinity (spec section 8): which worker a session belongs to, here and by the word of a
 * bucket that routers share.
 *
 *              enter, broken, overdue                     answered
 *   ABSENT ------------------------> CLAIMING --> OWNED ----------> BOUND
 *     ^        (no bucket: OWNED)        |  claimed  |                |
 *     |                                  v           v (taken over)   v
 *     +---- gone, failed, expired ---- FOREIGN <-----+---- another router rebinds
 *
 *   CLAIMING  one request here owns the session and awaits the bucket's word
 *   OWNED     the owner's request is on its way; its answer binds
 *   FOREIGN   another router's owner is choosing; overdue, it is taken over
 *   BOUND     requests go to the bound worker
 *
 * Pure: the bucket is reached by effects that the router carries out, one at a time for each
 * session, and by facts that it reports. What a session wants the bucket to hold follows from its
 * state; where the two differ a write is due, always a compare-and-set on the revision last known.
 * So an end that comes late, a write that lost, a word that was overtaken change nothing but
 * knowledge.
 *
 * Thread: the loop's. Blocking: never. Time is an argument. */
#ifndef CORE_SESSION_H
#define CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/span.h"
#include "waybill/status.h"
#include "waybill/types.h"

struct sessions;
struct session;
struct session_rules;

/* A binding is a rule, or a preference; and what follows where the bound worker is busy. */
enum session_mode { SESSION_HARD, SESSION_SOFT };
enum session_on_busy { ON_BUSY_WAIT, ON_BUSY_SPILL, ON_BUSY_FAIL };

enum session_state {
    SESSION_ABSENT,
    SESSION_CLAIMING,
    SESSION_OWNED,
    SESSION_FOREIGN,
    SESSION_BOUND,
    SESSION_STATES
};
const char *
session_state_name(enum session_state state); /* absent, claiming, owned, foreign, bound */

struct sessions_options {
    uint32_t max;       /* sessions held; 65536 */
    struct span router; /* the id that claims are made under; must outlive the table */
    bool shared;        /* there is a bucket; false: this router is alone */
};
struct sessions *sessions_create(const struct sessions_options *options); /* NULL: no memory */
void sessions_destroy(struct sessions *sessions); /* takes NULL; tickets must have left */
/* A service with sessions; its name must outlive the table. NULL: no memory. ttl_ms: idle time of a
 * binding; wait_ms: how long a request waits for an owner, and how old a claim may become. */
struct session_rules *sessions_add_service(struct sessions *sessions, struct span service,
                                           int64_t ttl_ms, int64_t wait_ms);
int64_t session_wait_ms(const struct session_rules *rules);

/* ---- requests ---- */

enum session_role {
    SESSION_NONE, /* no part in any session (any more) */
    SESSION_OWNER,
    SESSION_WAITER,
    SESSION_USER /* of a binding, which is in use by it */
};
/* One request's part in a session; embedded in the request, zeroed at first, at one address until
 * session_leave. */
struct session_ticket {
    struct session *session;
    struct link link; /* waiting in the session, or ready */
    uint32_t binding; /* which of the session's bindings it uses */
    uint8_t role;
    bool ready; /* on the ready list */
};

enum session_verdict {
    SESSION_WAIT,      /* until the ticket is ready, or session_wait_ms is over */
    SESSION_GO_OWNER,  /* choose; what answers is bound */
    SESSION_GO_BOUND,  /* to session_bound's worker */
    SESSION_GO_UNBOUND /* choose; nothing is bound */
};
enum session_verdict session_verdict(const struct session_ticket *ticket);

/* A request of the session `key` ("<service>.<name>" as it stands in the bucket) begins. A full
 * table without an idle session: SESSION_GO_UNBOUND. */
enum session_verdict session_enter(struct sessions *sessions, struct session_ticket *ticket,
                                   const struct session_rules *rules, struct span key, mono now);
/* The waiter's time is over: it goes unbound, unless it may own the session now. *owner: the ticket
 * whose present worker is to be followed; NULL: none. */
enum session_verdict session_wait_over(struct session_ticket *ticket, struct session_ticket **owner,
                                       mono now);

struct session_binding {
    struct span worker; /* valid until the session changes */
    int32_t rank;       /* -1: none */
};
struct session_binding session_bound(const struct session_ticket *ticket); /* of SESSION_GO_BOUND */
/* A user found its binding broken (worker lost, ejected, draining; the rank gone): the first one
 * owns the session anew, others wait for it or use what was bound meanwhile. */
enum session_verdict session_broken(struct session_ticket *ticket, mono now);
/* The request was answered. An owner binds; with `rebind` (soft mode) so does a user whose binding
 * still holds and names another worker or rank. Others change nothing. */
void session_answered(struct session_ticket *ticket, struct span worker, int32_t rank,
                      int64_t epoch, bool rebind, mono now);
/* The request is over, however it ended. Idempotent; a zeroed ticket may leave. */
void session_leave(struct session_ticket *ticket, mono now);

/* The next ticket whose verdict is no longer SESSION_WAIT; NULL: none. */
struct session_ticket *sessions_ready(struct sessions *sessions);
/* Has sessions_ready, or perhaps sessions_effect, something to give? */
bool sessions_busy(const struct sessions *sessions);
/* For operators: the binding goes, here and in the bucket. False: not bound as far as is known
 * here; the bucket is looked into all the same, save while a request claims it: what comes of that
 * is newer. Requests under way go on. */
bool session_unbind(struct sessions *sessions, struct span key, mono now);

/* ---- the bucket ---- */

enum session_hold { SESSION_HOLDS_NOTHING, SESSION_HOLDS_INIT, SESSION_HOLDS_BOUND };
/* What a key of the bucket holds. */
struct session_fact {
    enum session_hold hold;
    struct span router, worker; /* of init and bound; of bound */
    int32_t rank;
    int64_t epoch;     /* -1: unknown */
    uint64_t revision; /* of the value or of its delete marker; 0: there is none */
    mono written;      /* by the bucket's own timestamp */
};

enum session_effect_kind { SESSION_READ, SESSION_WRITE, SESSION_DELETE };
struct session_effect {
    enum session_effect_kind kind;
    uint64_t token;          /* for sessions_done */
    struct span key;         /* valid until sessions_done */
    struct session_fact put; /* of SESSION_WRITE: what is to be written */
    uint64_t expect;         /* revision; 0: only if there is none */
    int64_t timeout_ms;
};
/* The next thing to be done in the bucket. Each effect is answered by one sessions_done. False:
 * none. */
bool sessions_effect(struct sessions *sessions, struct session_effect *out);

enum session_result {
    SESSION_DONE,  /* fact: what was read, or the revision that was written */
    SESSION_OTHER, /* the compare-and-set found another revision */
    SESSION_FAILED /* whether it was done is unknown */
};
void sessions_done(struct sessions *sessions, uint64_t token, enum session_result result,
                   const struct session_fact *fact, mono now);
/* The watch: a key holds this now. */
void sessions_seen(struct sessions *sessions, struct span key, const struct session_fact *fact,
                   mono now);
/* The whole bucket is being read: what sessions_seen does not tell before sessions_current is not
 * there. `another`: it is not the bucket of before, revisions began anew. */
void sessions_reading(struct sessions *sessions, bool another, mono now);
void sessions_current(struct sessions *sessions, mono now);
/* The watch may have missed something: until sessions_current a binding is read before it is used,
 * again and again, since nobody tells of changes. */
void sessions_gap(struct sessions *sessions);
/* The bucket can be reached, or not: without it sessions are bound here alone, and written when it
 * is back. Until the first call claims wait for its word. */
void sessions_link(struct sessions *sessions, bool up, mono now);
/* True: bindings are shared with other routers at present. */
bool sessions_shared(const struct sessions *sessions);

/* ---- time, numbers ---- */

/* Does what is due; when to call again. */
mono sessions_run(struct sessions *sessions, mono now);
mono sessions_next(const struct sessions *sessions);

enum session_count {
    SESSION_COUNT_HITS,       /* a request found its session bound */
    SESSION_COUNT_BOUND,      /* bindings made by an answer */
    SESSION_COUNT_ADOPTED,    /* taken over from another router's */
    SESSION_COUNT_REBOUND,    /* a broken binding was replaced */
    SESSION_COUNT_TAKEN_OVER, /* an overdue claim of another router was taken */
    SESSION_COUNT_LOST,       /* an owner here was overtaken by another router */
    SESSION_COUNT_EXPIRED,
    SESSION_COUNT_FORGOTTEN, /* the oldest idle one made room */
    SESSION_COUNT_FULL,      /* no idle one: a request went unbound */
    SESSION_COUNT_WAITED,    /* a waiter's time ran out */
    SESSION_COUNT_LOCAL,     /* claimed without the bucket's word */
    SESSION_COUNT_FAILED,    /* operations on the bucket that failed */
    SESSION_COUNTS
};
struct session_count_info {
    const char *name, *help;
};
extern const struct session_count_info session_count_table[SESSION_COUNTS];
uint64_t sessions_count(const struct sessions *sessions, enum session_count which);
uint32_t sessions_held(const struct sessions *sessions);
/* How many are bound to this worker as far as is known here; the names are ids. O(1). */
uint32_t sessions_bound_to(const struct sessions *sessions, struct span service,
                           struct span worker);

struct session_view {
    struct span key;
    enum session_state state;
    struct span worker; /* empty unless bound */
    int32_t rank;
    uint32_t users, waiters;
    int64_t idle_ms;   /* -1: in use */
    uint64_t revision; /* 0: not in the bucket */
};
/* Oldest first. fn changes nothing; false ends it. */
void sessions_each(struct sessions *sessions, bool (*fn)(void *arg, const struct session_view *v),
                   void *arg, mono now);
/* False: no such session. */
bool sessions_find(const struct sessions *sessions, struct span key, struct session_view *out,
                   mono now);

#endif
