/* The buckets' caretaker.
 *
 * One thread owns the nats.c connection and makes every call that may block; the loop never waits
 * for it. Per wanted bucket it holds one state: UNKNOWN (not looked at yet), then BOUND (it was
 * there), CREATED (it was not, now it is), or AWAY (neither could be had; `why` says what stood in
 * the way). AWAY is never final: the thread looks again after 250 ms, doubling to 5 s. The loop may
 * ask for a look at any time (store_recheck). A lost link makes every bucket AWAY, a new one has
 * every bucket looked at again: it may be another server.
 *
 * The link: nats.c reconnects by itself, for ever, but two authentication errors in a row close it
 * for good. So the thread asks for its status at least once a second, and makes a new one,
 * credentials read anew, where it finds it closed. It takes no callbacks from nats.c: they come on
 * a thread of its own and may outlive the connection.
 *
 * An existing bucket is bound and never written to. A missing one is made by a plain create of its
 * stream, which fails where another router was faster (then it is bound); js_CreateKeyValue may
 * send an update in that case.
 *
 * Ending: `stopping` is set under the mutex, and nothing is posted after that, so the inbox can go.
 * Each call on the server ends within STORE_CALL_MS, and the thread ends after the call at hand.
 * Where that takes longer (a name lookup that hangs), store_destroy leaves the thread behind as an
 * orphan that frees the store itself.
 *
 * The mutex guards: stopping, finished, orphan, the buckets' `asked` and `posted`, and posting. All
 * else belongs to the thread once it runs.
 *
 * What it does not do: it reads and writes no records; that is the lane's, over its own connection.
 */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/inbox.h"
#include "base/log.h"
#include "store/options.h"

enum {
    STORE_MAGIC = 0x53544f52,
    BUCKETS_MAX = 16,
    NAME_SIZE = 65,
    WHY_SIZE = 256,
    REPORTS_MAX = 64,
    LOOK_MIN_MS = 250,
    LOOK_MAX_MS = 5000,
    WATCH_MS = 1000,     /* how often the link's status is looked at while all is well */
    CONNECTING_MS = 100, /* and while it is coming up */
    DESTROY_MS = 2000,
};

struct bucket {
    struct store_bucket wanted;
    char name[NAME_SIZE];
    enum store_bucket_state state;
    char why[WHY_SIZE];
    bool unsaid;  /* state or why has changed and is not posted yet */
    bool asked;   /* by the loop, under the mutex */
    mono look_at; /* when to look next; MONO_NEVER: no need */
    int wait_ms;  /* the pause after the next failure */
};

struct report {
    struct inbox_item item;
    enum store_bucket_state state;
    char bucket[NAME_SIZE];
    char why[WHY_SIZE];
};

struct store {
    unsigned magic;
    struct store_connection connection; /* copies */
    struct store_events events;
    void *arg;
    struct inbox *inbox;
    struct bucket buckets[BUCKETS_MAX];
    unsigned bucket_count;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, stopping, finished, orphan;
    /* the thread's own */
    natsConnection *nc;
    jsCtx *js;
    uint64_t reconnects; /* of nc, as last seen */
    bool up;
    mono connect_at; /* when to try a new connection */
    int connect_wait_ms;
};

static const size_t connection_texts[] = {
    offsetof(struct store_connection, url),         offsetof(struct store_connection, user),
    offsetof(struct store_connection, password),    offsetof(struct store_connection, token),
    offsetof(struct store_connection, nkey_file),   offsetof(struct store_connection, creds),
    offsetof(struct store_connection, cert),        offsetof(struct store_connection, key),
    offsetof(struct store_connection, ca),          offsetof(struct store_connection, name),
    offsetof(struct store_connection, inbox_prefix)};
#define TEXTS (sizeof(connection_texts) / sizeof(connection_texts[0]))

static const char **text_of(struct store_connection *c, size_t i)
{
    return (const char **)(void *)((char *)c + connection_texts[i]);
}

/* On the loop. */
static void deliver(void *arg, struct inbox_item *item)
{
    struct store *store = arg;
    struct report *report = CONTAINER_OF(item, struct report, item);

    MAGIC_CHECK(store, STORE_MAGIC);
    if (!store->stopping && store->events.bucket)
        store->events.bucket(store->arg, report->bucket, report->state, report->why);
    free(report);
}

/* Posts what has not been said; what finds no room is said at the next turn. */
static void say(struct store *store, struct bucket *b)
{
    struct report *report;

    if (!b->unsaid)
        return;
    report = malloc(sizeof(*report));
    if (!report)
        return;
    report->state = b->state;
    memcpy(report->bucket, b->name, sizeof(b->name));
    memcpy(report->why, b->why, sizeof(b->why));
    pthread_mutex_lock(&store->mutex);
    if (!store->stopping && inbox_post(store->inbox, &report->item) == WB_OK) {
        b->unsaid = false;
        report = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    free(report);
}

static bool is_here(enum store_bucket_state state)
{
    return state == STORE_BOUND || state == STORE_CREATED;
}

/* The one place where a bucket's state changes. `answer`: the loop has asked and is told even where
 * nothing has changed. */
static void set_state(struct bucket *b, enum store_bucket_state state, const char *why, bool answer)
{
    mono now = clock_mono();

    if (state == STORE_BOUND && b->state == STORE_CREATED)
        state = STORE_CREATED; /* still ours */
    if (state != b->state || (state == STORE_AWAY && strcmp(why, b->why) != 0) || answer)
        b->unsaid = true;
    b->state = state;
    snprintf(b->why, sizeof(b->why), "%s", why);
    if (is_here(state)) {
        b->wait_ms = LOOK_MIN_MS;
        b->look_at = MONO_NEVER;
        return;
    }
    b->look_at = mono_add_ms(now, b->wait_ms);
    b->wait_ms = b->wait_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : b->wait_ms * 2;
}

static void all_away(struct store *store, const char *why)
{
    for (unsigned i = 0; i < store->bucket_count; i++) {
        struct bucket *b = &store->buckets[i];

        set_state(b, STORE_AWAY, why, false);
        b->look_at = MONO_NEVER; /* until there is a link */
        b->wait_ms = LOOK_MIN_MS;
        say(store, b);
    }
}

static void reason_of(natsStatus s, jsErrCode code, char why[WHY_SIZE])
{
    const char *text = nats_GetLastError(NULL);

    if (s == NATS_NO_RESPONDERS)
        text = "JetStream is not enabled, or has no leader";
    else if (s == NATS_TIMEOUT)
        text = "JetStream does not answer";
    else if (!text || !text[0])
        text = natsStatus_GetText(s);
    if (code)
        snprintf(why, WHY_SIZE, "%.200s (%d)", text, (int)code);
    else
        snprintf(why, WHY_SIZE, "%.200s", text);
}

static natsStatus bind_bucket(struct store *store, const struct bucket *b)
{
    kvStore *kv = NULL;
    natsStatus s = js_KeyValue(&kv, store->js, b->name);

    kvStore_Destroy(kv);
    return s;
}

static natsStatus create_bucket(struct store *store, const struct bucket *b, jsErrCode *code)
{
    const int64_t ns_per_s = 1000000000, two_minutes_s = 120;
    int64_t ttl_s = b->wanted.ttl_s;
    char stream[NAME_SIZE + 8], subject[NAME_SIZE + 8];
    const char *subjects[] = {subject};
    jsStreamConfig cfg;

    jsStreamConfig_Init(&cfg);
    snprintf(stream, sizeof(stream), "KV_%s", b->name);
    snprintf(subject, sizeof(subject), "$KV.%s.>", b->name);
    cfg.Name = stream;
    cfg.Subjects = subjects;
    cfg.SubjectsLen = 1;
    cfg.MaxMsgsPerSubject = b->wanted.history > 0 ? b->wanted.history : 1;
    cfg.MaxBytes = b->wanted.max_bytes > 0 ? b->wanted.max_bytes : -1;
    cfg.MaxAge = ttl_s * ns_per_s;
    cfg.MaxMsgSize = -1;
    cfg.Storage = b->wanted.memory ? js_MemoryStorage : js_FileStorage;
    cfg.Replicas = b->wanted.replicas > 0 ? b->wanted.replicas : 1;
    cfg.Discard = js_DiscardNew;
    cfg.AllowRollup = true;
    cfg.DenyDelete = true;
    cfg.AllowDirect = true;
    cfg.Duplicates = (ttl_s > 0 && ttl_s < two_minutes_s ? ttl_s : two_minutes_s) * ns_per_s;
    return js_AddStream(NULL, store->js, &cfg, NULL, code);
}

static void look(struct store *store, struct bucket *b, bool answer)
{
    enum store_bucket_state found = STORE_BOUND;
    char why[WHY_SIZE] = "";
    jsErrCode code = 0;
    natsStatus s = bind_bucket(store, b);

    if (s == NATS_NOT_FOUND) {
        s = create_bucket(store, b, &code);
        if (s == NATS_OK)
            found = STORE_CREATED;
        else if (code == JSStreamNameExistErr) /* another router was faster */
            s = bind_bucket(store, b);
    }
    if (s != NATS_OK) {
        reason_of(s, code, why);
        found = STORE_AWAY;
    } else if (found == STORE_CREATED) {
        b->state = STORE_UNKNOWN; /* what was known of an older one is void */
    }
    set_state(b, found, why, answer);
    say(store, b);
}

static void disconnect(struct store *store)
{
    jsCtx_Destroy(store->js);
    store->js = NULL;
    natsConnection_Destroy(store->nc);
    store->nc = NULL;
    store->up = false;
}

static void no_connection(const struct store *store, const char *why, char text[WHY_SIZE])
{
    snprintf(text, WHY_SIZE, "no connection to NATS: %.160s%s", why,
             store_options_lack(&store->connection));
}

static void connect_failed(struct store *store, const char *why)
{
    char text[WHY_SIZE];

    no_connection(store, why, text);
    disconnect(store);
    all_away(store, text);
    store->connect_at = mono_add_ms(clock_mono(), store->connect_wait_ms);
    store->connect_wait_ms =
        store->connect_wait_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : store->connect_wait_ms * 2;
}

static void connect_anew(struct store *store)
{
    natsOptions *options = NULL;
    jsOptions js;
    natsStatus s = store_options(&store->connection, &options);

    if (s == NATS_OK)
        s = natsConnection_Connect(&store->nc, options);
    natsOptions_Destroy(options);
    if (s != NATS_OK && s != NATS_NOT_YET_CONNECTED) {
        const char *text = nats_GetLastError(NULL);

        connect_failed(store, text && text[0] ? text : natsStatus_GetText(s));
        return;
    }
    jsOptions_Init(&js);
    js.Wait = STORE_CALL_MS;
    s = natsConnection_JetStream(&store->js, store->nc, &js);
    if (s != NATS_OK)
        connect_failed(store, natsStatus_GetText(s));
}

static uint64_t reconnects_of(natsConnection *nc)
{
    natsStatistics *stats = NULL;
    uint64_t n = 0;

    if (natsStatistics_Create(&stats) == NATS_OK && natsConnection_GetStats(nc, stats) == NATS_OK)
        (void)natsStatistics_GetCounts(stats, NULL, NULL, NULL, NULL, &n);
    natsStatistics_Destroy(stats);
    return n;
}

/* Sees what has become of the link. */
static void watch_link(struct store *store)
{
    const char *text = NULL;
    natsConnStatus status;

    if (!store->nc) {
        if (!mono_before(clock_mono(), store->connect_at))
            connect_anew(store);
        if (!store->nc)
            return;
    }
    status = natsConnection_Status(store->nc);
    (void)natsConnection_GetLastError(store->nc, &text);
    if (status == NATS_CONN_STATUS_CLOSED) {
        connect_failed(store, text && text[0] ? text : "closed");
    } else if (status != NATS_CONN_STATUS_CONNECTED) {
        char why[WHY_SIZE];

        no_connection(store, text && text[0] ? text : "lost", why);
        store->up = false;
        all_away(store, why);
    } else {
        uint64_t reconnects = reconnects_of(store->nc);

        if (store->up && reconnects == store->reconnects)
            return;
        store->up = true;
        store->reconnects = reconnects;
        store->connect_wait_ms = LOOK_MIN_MS;
        for (unsigned i = 0; i < store->bucket_count; i++)
            store->buckets[i].look_at = (mono){0};
    }
}

static bool is_stopping(struct store *store)
{
    bool stopping;

    pthread_mutex_lock(&store->mutex);
    stopping = store->stopping;
    pthread_mutex_unlock(&store->mutex);
    return stopping;
}

static void look_at_due(struct store *store)
{
    for (unsigned i = 0; i < store->bucket_count && store->up; i++) {
        struct bucket *b = &store->buckets[i];
        bool asked;

        if (is_stopping(store))
            return;
        pthread_mutex_lock(&store->mutex);
        asked = b->asked;
        b->asked = false;
        pthread_mutex_unlock(&store->mutex);
        if (asked || !mono_before(clock_mono(), b->look_at))
            look(store, b, asked);
        else
            say(store, b);
    }
}

/* Sleeps until something is due, the loop has asked for a look, or the store is to end. False: end.
 */
static bool wait_for_work(struct store *store, mono not_before)
{
    mono due = mono_add_ms(clock_mono(), store->up ? WATCH_MS : CONNECTING_MS);
    bool stopping;

    if (!store->nc)
        due = store->connect_at;
    for (unsigned i = 0; i < store->bucket_count; i++)
        due = mono_min(due, store->buckets[i].look_at);
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        mono until = due;
        struct timespec ts;

        for (unsigned i = 0; i < store->bucket_count && store->up; i++)
            if (store->buckets[i].asked)
                until = (mono){0};
        if (mono_before(until,
                        not_before)) /* asked over and over: no more than one look in LOOK_MIN_MS */
            until = not_before;
        stopping = store->stopping;
        if (stopping || !mono_before(clock_mono(), until))
            break;
        ts = (struct timespec){until.us / 1000000, until.us % 1000000 * 1000};
        pthread_cond_timedwait(&store->changed, &store->mutex, &ts);
    }
    pthread_mutex_unlock(&store->mutex);
    return !stopping;
}

static void release(struct store *store)
{
    for (size_t i = 0; i < TEXTS; i++)
        free((void *)(uintptr_t)*text_of(&store->connection, i));
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    store->magic = 0;
    free(store);
}

static void *run(void *arg)
{
    struct store *store = arg;
    bool orphan;
    mono next = {0};

    MAGIC_CHECK(store, STORE_MAGIC);
    while (wait_for_work(store, next)) {
        watch_link(store);
        next = mono_add_ms(clock_mono(), store->up ? LOOK_MIN_MS : 0);
        look_at_due(store);
    }
    disconnect(store);
    nats_ReleaseThreadMemory();
    pthread_mutex_lock(&store->mutex);
    store->finished = true;
    orphan = store->orphan;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (orphan)
        release(store);
    return NULL;
}

static bool copy_connection(struct store *store, const struct store_connection *from)
{
    bool good = true;

    store->connection = *from;
    for (size_t i = 0; i < TEXTS; i++) {
        const char **text = text_of(&store->connection, i);

        if (*text) {
            *text = strdup(*text);
            good = good && *text;
        }
    }
    return good;
}

struct store *store_create(struct loop *loop, const struct store_connection *connection,
                           const struct store_events *events, void *arg)
{
    struct store *store = calloc(1, sizeof(*store));
    pthread_condattr_t attributes;

    if (!store)
        return NULL;
    MAGIC_SET(store, STORE_MAGIC);
    store->events = *events;
    store->arg = arg;
    store->connect_wait_ms = LOOK_MIN_MS;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    store->inbox = inbox_create(loop, REPORTS_MAX, deliver, store);
    if (!copy_connection(store, connection) || !store->inbox) {
        store_destroy(store);
        return NULL;
    }
    return store;
}

wb_status store_want(struct store *store, const struct store_bucket *bucket)
{
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t length = strlen(bucket->name);
    struct bucket *b;

    MAGIC_CHECK(store, STORE_MAGIC);
    CHECK(!store->started);
    if (length == 0 || length >= NAME_SIZE || strspn(bucket->name, allowed) != length ||
        bucket->ttl_s < 0 || bucket->ttl_s > INT64_MAX / 1000000000 || bucket->history > 64)
        return WB_INVALID;
    for (unsigned i = 0; i < store->bucket_count; i++)
        if (strcmp(store->buckets[i].name, bucket->name) == 0)
            return WB_EXISTS;
    if (store->bucket_count == BUCKETS_MAX)
        return WB_FULL;
    b = &store->buckets[store->bucket_count++];
    *b = (struct bucket){.wanted = *bucket, .wait_ms = LOOK_MIN_MS, .look_at = MONO_NEVER};
    memcpy(b->name, bucket->name, length + 1);
    b->wanted.name = b->name;
    return WB_OK;
}

wb_status store_start(struct store *store)
{
    MAGIC_CHECK(store, STORE_MAGIC);
    CHECK(!store->started);
    if (pthread_create(&store->thread, NULL, run, store) != 0)
        return WB_IO;
    store->started = true;
    return WB_OK;
}

void store_recheck(struct store *store, const char *bucket)
{
    MAGIC_CHECK(store, STORE_MAGIC);
    pthread_mutex_lock(&store->mutex);
    for (unsigned i = 0; i < store->bucket_count; i++)
        if (strcmp(store->buckets[i].name, bucket) == 0)
            store->buckets[i].asked = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

/* Tells the thread to end and waits, within bounds, until it has. */
static void stop_thread(struct store *store)
{
    mono until = mono_add_ms(clock_mono(), DESTROY_MS);
    struct timespec ts = {until.us / 1000000, until.us % 1000000 * 1000};

    pthread_mutex_lock(&store->mutex);
    store->stopping = true;
    pthread_cond_broadcast(&store->changed);
    while (store->started && !store->finished)
        if (pthread_cond_timedwait(&store->changed, &store->mutex, &ts) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&store->mutex);
}

void store_destroy(struct store *store)
{
    bool orphan;

    if (!store)
        return;
    MAGIC_CHECK(store, STORE_MAGIC);
    stop_thread(store);
    inbox_destroy(store->inbox); /* nothing is posted once stopping is set */
    store->inbox = NULL;
    pthread_mutex_lock(&store->mutex);
    orphan = store->orphan = store->started && !store->finished;
    if (orphan)
        pthread_detach(store->thread);
    pthread_mutex_unlock(&store->mutex);
    if (orphan) {
        log_write(LOG_WARN, "store: a call does not end; its thread is left behind");
        return;
    }
    if (store->started)
        pthread_join(store->thread, NULL);
    release(store);
}
