/* The key-value buckets by nats.c, off the loop: one thread of the store's own does every blocking
 * call and posts what it learned to the loop's inbox. The store never blocks the loop, never exits
 * because JetStream is away, and never changes the settings of an existing bucket. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "waybill/status.h"

struct loop;
struct store;

#define STORE_NKEY_PUBLIC_SIZE 64

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
};

enum store_bucket_state { STORE_UNKNOWN, STORE_BOUND, STORE_CREATED, STORE_AWAY };

struct store_events {
    /* On the loop. `why` is valid during the call. Comes after each change of state. */
    void (*bucket)(void *arg, const char *bucket, enum store_bucket_state state, const char *why);
};

struct store *store_create(struct loop *loop, const struct store_connection *connection,
                           const struct store_events *events, void *arg);
/* Declares a bucket to bind or create; before store_start. */
WB_MUST_USE wb_status store_want(struct store *store, const struct store_bucket *bucket);
WB_MUST_USE wb_status store_start(struct store *store);
/* Loop thread: asks for the bucket to be looked at again (an acknowledgement said it is missing).
 * Rate-limited inside. */
void store_recheck(struct store *store, const char *bucket);
/* Ends the thread (bounded: 2 s) and frees. Takes NULL. */
void store_destroy(struct store *store);

#endif
