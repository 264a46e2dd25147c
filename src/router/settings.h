/* What the router is told at its creation: plain data, checked before (daemon's table and checks),
 * read-only while the router lives. Strings are on the heap and owned by the structs; NULL means
 * "not given" where the comment says so. Durations carry their unit. */
#ifndef ROUTER_SETTINGS_H
#define ROUTER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/registry.h"
#include "core/session.h"
#include "waybill/types.h"

/* When the record of who served is written: behind the answer, before it, or never. */
enum attribution_write { ATTRIBUTION_ASYNC, ATTRIBUTION_BEFORE_REPLY, ATTRIBUTION_OFF };

/* Which wishes clients may utter by header (spec section 3). */
enum accept_bit {
    ACCEPT_TARGET = 1,
    ACCEPT_PRIORITY = 2,
    ACCEPT_IDEMPOTENT = 4,
    ACCEPT_ADVISE = 8,
    ACCEPT_TIMEOUT = 16,
    ACCEPT_RETRY = 32,
    ACCEPT_ALL = 63
};

#define RETRY_CODES_MAX 32

/* A plain NATS responder that stands in the config. */
struct static_settings {
    char *id, *subject;
    char *cancel_subject; /* NULL: it is never told to stop */
    uint32_t weight;      /* 100 */
    uint32_t capacity;    /* 0: no limit known */
    uint32_t ranks;       /* 0: none */
    char *class_name;     /* NULL: none */
    char **adapters;
    unsigned adapter_count;
    bool heartbeat; /* its heartbeats are followed */
};

struct service_settings {
    char *name;
    char **subjects;
    unsigned subject_count;
    char *queue_group; /* NULL: the prefix */
    enum policy_kind policy;
    uint32_t ratio; /* of device_weighted; 8 */
    wb_replies replies;
    bool disclose;
    unsigned accept; /* ACCEPT_ bits */
    struct {
        uint32_t max_attempts, budget_percent; /* 3, 20 */
        int on_codes[RETRY_CODES_MAX];         /* 429, 503 */
        unsigned on_code_count;
        bool on_codes_set; /* the file gave a list, perhaps an empty one */
        bool idempotent;
    } retry;
    struct {
        int64_t first_reply_ms, inactivity_ms, total_ms; /* 30000, 30000, 0: no limit */
    } timeouts;
    struct {
        int64_t ttl_s;   /* 0: no sessions */
        int64_t wait_ms; /* 1000 */
        enum session_mode mode;
        enum session_on_busy on_busy;
    } session;
    bool heartbeats; /* workers outside the config are accepted */
    bool eject_enabled;
    struct static_settings *workers;
    unsigned worker_count;
};

struct router_settings {
    char *id, *prefix;
    int64_t drain_ms, start_wait_ms; /* 30000, 2000 */
    char **reply_allow;
    unsigned reply_allow_count; /* 0: no narrowing */
    struct {
        char *bucket;
        enum attribution_write write;
        int64_t write_timeout_ms, ttl_s, max_bytes; /* 1000, 3600, 1 GiB */
        int history, replicas;                      /* 2, 1 */
        bool memory;                                /* storage: memory */
    } attribution;
    struct {
        char *bucket;
        int64_t max_bytes; /* 1 GiB */
        int replicas;      /* 1 */
        bool memory;       /* storage: memory */
    } sessions;
    struct {
        uint32_t in_flight;           /* 65536 */
        uint64_t bytes, worker_bytes; /* 256 MiB held, 16 MiB unanswered per worker */
        uint32_t workers;             /* 16384 */
        uint32_t sessions;            /* 65536 */
    } limits;
    struct {
        char *url, *user, *password, *token, *nkey, *creds, *cert, *key, *ca; /* NULL: not given */
        bool tls_first, tls_insecure;
    } nats;
    char *monitor_listen; /* NULL: none */
    struct service_settings *services;
    unsigned service_count;
};

/* Frees all strings and lists and zeroes the struct; takes NULL and half-filled ones. Thread: any.
 */
void settings_fini(struct router_settings *settings);

#endif
