/* Private to core/session*.c: the table, its sessions, and the moves that requests and the bucket
 * share. session.c has the essay. */
#ifndef CORE_SESSION_STATE_H
#define CORE_SESSION_STATE_H

#include "base/deadline.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "core/session.h"

#define SESSION_MAGIC 0x73657373u
#define UNBIND_TRIES_MAX 5 /* against a router that renews at the same time */

enum io { IO_NONE, IO_OUT };

/* How many sessions are bound to one worker of a service; lives while there are any. */
struct bindings {
    uint32_t count;
    struct span key; /* "<service>.<worker>", into text */
    char text[2 * WB_NAME_MAX + 1];
};

struct session {
    unsigned magic;
    uint8_t state, io, io_kind, io_hold, known_hold, tries;
    bool known_mine; /* written under this router's id */
    bool doubt;      /* what is known may be wrong */
    bool broken;     /* owned to replace the binding that `worker` still names */
    bool remove;     /* absent, and the key should be too */
    uint8_t worker_len;
    uint32_t binding; /* number of the present one, from 1 */
    uint32_t known_binding, io_binding;
    uint32_t reading; /* the last reading of the bucket that told of it */
    mono told_at;     /* when the bucket last did */
    uint32_t users;
    int32_t rank;
    int64_t epoch;
    uint64_t handle, known_revision, seen, overtaken;
    mono known_written, idle_since, claimed_at;
    struct sessions *table;
    const struct session_rules *rules;
    struct session_ticket *owner;
    struct list waiters;                /* tickets, the first is the next owner */
    struct link idle, outbox, troubled; /* on the table's */
    struct deadline clock;
    struct bindings *counted; /* where it counts as bound; NULL: nowhere */
    struct span key;          /* into text */
    char worker[WB_NAME_MAX + 1];
    char *text;
};

struct session_rules {
    struct session_rules *next;
    struct span service;
    int64_t ttl_ms, wait_ms;
};

struct sessions {
    struct sessions_options options;
    struct session_rules *rules;
    struct slab *slab;
    struct map *by_key;
    struct map *by_worker; /* struct bindings */
    struct deadlines *clocks;
    struct list idle, outbox, troubled; /* sessions */
    mono retry_at; /* when the next of the troubled ones are tried again, and how many of them */
    uint32_t retry_batch;
    struct list ready; /* tickets */
    uint32_t reading;  /* number of the present reading of the bucket */
    bool up, trusted;
    bool told; /* whether the bucket can be reached */
    mono now;  /* of the event under way */
    uint64_t counts[SESSION_COUNTS];
};

/* ---- session_moves.c ---- */

void session_note(struct sessions *table, enum session_count which);
void session_move(struct session *s, enum session_state state); /* CHECKs that the move is legal */
/* Its verdict is final: the router has to hear of it; or has heard. */
void ticket_wake(struct session *s, struct session_ticket *t);
void ticket_unready(struct session_ticket *t);
void ticket_wait(struct session *s, struct session_ticket *t);
void ticket_use(struct session *s, struct session_ticket *t);
/* It has no part in the session any more. Its answer binds nothing. */
void ticket_cast_out(struct session_ticket *t);
struct session_ticket *session_take_waiter(struct session *s); /* NULL: none */
void session_admit_waiters(struct session *s);                 /* as users */
/* Makes the ticket, which is in no list, the owner of a session that has none. */
void session_claim(struct session *s, struct session_ticket *t);
void session_own_locally(struct session *s); /* the claim stands without the bucket's word */
void session_bind(struct session *s, struct span worker, int32_t rank, int64_t epoch);
bool session_is_written(const struct session *s); /* the bucket holds the present binding */
mono session_overdue_at(const struct session *s);
mono session_expiry(const struct session *s);
/* What is to be done in the bucket now. False: nothing. */
bool session_next_effect(const struct session *s, enum session_effect_kind *kind);
/* Ends each event: puts the session where its state says, and frees it if nobody needs it. */
void session_after(struct session *s);
void session_forget(struct session *s);
void session_is_fine(struct session *s); /* on the troubled list no more; idempotent */
void sessions_all(struct sessions *table, void (*fn)(void *arg, void *session));

/* ---- session_bucket.c ---- */

/* Those whose operation failed, the next few of them, if it is time. */
void sessions_retry(struct sessions *table);

/* ---- session.c ---- */

const struct session_rules *session_rules_of(const struct sessions *table, struct span key);

struct session *session_create(struct sessions *table, const struct session_rules *rules,
                               struct span key); /* NULL: full, or no memory */

#endif
