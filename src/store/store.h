/* The key-value buckets by nats.c, off the loop: the store's own threads make every call that may
 * block and post what they learned to the loop's inbox. The store never blocks the loop, never
 * exits because JetStream is away, and never changes the settings of an existing bucket.
 *
 * All functions here belong to the loop's thread, and all events come on it. What the store says
 * comes in the order in which it was learned; between the answers to requests and the watch there
 * is no order: an own write may be seen before or after its acknowledgement. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/span.h"
#include "waybill/status.h"

struct loop;
struct store;

#define STORE_NKEY_PUBLIC_SIZE 64

enum {
    STORE_KEY_MAX = 1024,              /* bytes of a key */
    STORE_REQUESTS_MAX = 65536,        /* under way at once */
    STORE_REQUEST_BYTES_MAX = 64 << 20 /* their keys and values, and what was read for them */
};

struct store_connection { /* strings are copied; NULL: not set */
    const char *url, *user, *password, *token, *nkey_file, *creds, *cert, *key, *ca;
    /* The public key of an nkey seed, which nats.c does not work out itself (the lane's
     * credentials_public_of). Needed with nkey_file; called on the store's thread at each connect.
     */
    wb_status (*nkey_public)(const char *seed, char out[STORE_NKEY_PUBLIC_SIZE]);
    bool tls, tls_insecure;
    bool tls_first; /* from nats.c 3.9 on; an older one begins in clear, and `why` then says so */
    const char *name;
    const char *inbox_prefix; /* "<prefix>.inbox.<router>" */
};

struct store_bucket {
    const char *name;
    int64_t ttl_s;
    int history;
    int64_t max_bytes;
    int replicas;
    bool memory; /* storage: memory instead of file */
    bool watch;  /* tell events.watch of every key and every change, from store_start on */
};

enum store_bucket_state { STORE_UNKNOWN, STORE_BOUND, STORE_CREATED, STORE_AWAY };

/* One key as the bucket holds it. Valid during the call it is handed to. */
struct store_entry {
    struct span key, value; /* value empty when deleted */
    uint64_t revision;
    wall created; /* by the server's clock; 0 in the answer to a PUT or DELETE, which does not tell
                   */
    bool deleted; /* a delete or purge marker */
};

enum store_op { STORE_GET, STORE_PUT, STORE_DELETE };

struct store_request { /* bytes are copied */
    enum store_op op;
    const char *bucket; /* one given to store_want */
    struct span key;    /* characters of NATS keys: A-Z a-z 0-9 - / _ = and inner dots */
    struct span value;  /* PUT */
    uint64_t expect; /* PUT, DELETE: compare-and-set on this revision; 0 (PUT only): only if there
                        is none, or a delete marker */
    int64_t timeout_ms; /* > 0, over all steps */
    uint64_t token;     /* comes back */
};

enum store_watch_event {
    STORE_WATCH_BEGUN,   /* a fresh reading begins: every key of the bucket follows as ENTRY; what
                            does not appear until CURRENT is not there */
    STORE_WATCH_ENTRY,   /* a key's newest revision, markers too */
    STORE_WATCH_CURRENT, /* the reading is complete; from here each ENTRY is news */
    STORE_WATCH_LOST     /* there is or may be a gap: link lost, bucket gone, watch silent. BEGUN
                            is next */
};

/* On the loop. NULL members are allowed. */
struct store_events {
    /* `why` is valid during the call. Comes after each change of state. */
    void (*bucket)(void *arg, const char *bucket, enum store_bucket_state state, const char *why);
    /* The one end of an accepted request. `entry` is NULL unless WB_OK.
     * WB_OK         done: entry->revision is the new one (PUT, DELETE); or entry is what was read
     *               from the stream's leader (GET; a marker comes with entry->deleted)
     * WB_EXISTS     another revision is there: nothing was written
     * WB_NOT_FOUND  GET: nothing is there, not even a marker
     * WB_TIMED_OUT  no answer in time, or the link was lost after it was sent (then it comes
     *               early): it is unknown whether a write was applied, or will be
     * WB_CLOSED     not applied: it was not sent, or JetStream or the bucket is away
     * WB_DENIED     not applied: NATS refused the permission; comes when the time has run out
     * WB_FULL       not applied: the bucket, the account or the server is full, or too busy
     * WB_TOO_LARGE  not applied: over the server's or the bucket's size limit
     * WB_NO_MEMORY  not applied
     * WB_IO         another error of JetStream; not applied */
    void (*done)(void *arg, uint64_t token, wb_status status, const struct store_entry *entry);
    /* A bucket declared with .watch. BEGUN, ENTRY..., CURRENT, ENTRY..., LOST, and again; LOST may
     * come at any place after BEGUN. `entry` with ENTRY only. `another`, with BEGUN only: the
     * bucket is not the one of the last BEGUN, it was deleted and made anew. Age takes keys away
     * without a word (before nats-server 2.11), and so does a purge of the whole stream. */
    void (*watch)(void *arg, const char *bucket, enum store_watch_event event, bool another,
                  const struct store_entry *entry);
};

/* Copies connection and events. NULL: no memory. */
struct store *store_create(struct loop *loop, const struct store_connection *connection,
                           const struct store_events *events, void *arg);
/* Declares a bucket to bind or create; before store_start. WB_INVALID, WB_EXISTS, WB_FULL (16). */
WB_MUST_USE wb_status store_want(struct store *store, const struct store_bucket *bucket);
/* WB_IO: no threads to be had; destroy is what is left. */
WB_MUST_USE wb_status store_start(struct store *store);
/* Loop thread: asks for the bucket to be looked at again (an acknowledgement said it is missing).
 * Rate-limited inside. */
void store_recheck(struct store *store, const char *bucket);
/* Never blocks, keeps nothing of the caller's. An accepted request (WB_OK) ends exactly once,
 * through events.done, and never inside this call; a refused one does not. Requests go out in the
 * order they came in, pipelined. A PUT on 0 that meets a marker takes two more rounds.
 * WB_CLOSED: no link, or the bucket is away now. WB_FULL: too many under way. WB_TOO_LARGE: more
 * bytes than may be under way at all. WB_INVALID: a bucket not asked for, a bad key, a DELETE on 0,
 * no timeout. WB_NO_MEMORY. */
WB_MUST_USE wb_status store_send(struct store *store, const struct store_request *request);
/* Ends the threads (bounded: 2 s) and frees. No event comes after it, nor for requests that are
 * under way. Not from inside an event. Takes NULL. */
void store_destroy(struct store *store);
/* After the process's last store: ends nats.c's own threads, which the exit of the process would
 * race with. Blocks until they have, for at most a second. */
void store_library_end(void);

#endif
