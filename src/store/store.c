/* The store's life, and the buckets' caretaker.
 *
 * The threads: the caretaker (here) owns the link and the buckets; the sender (requests.c) writes
 * requests and lets them time out; each watched bucket has a watcher (watch.c). The answers to
 * requests come on a thread of nats.c, the one callback that is taken from it. None of them waits
 * for the loop, except a watcher, and the loop never waits for one of them: the mutex is held for a
 * few stores or copies, never during a call of nats.c that may block.
 *
 * Per wanted bucket the caretaker holds one state: UNKNOWN (not looked at yet), then BOUND (it was
 * there), CREATED (it was not, now it is), or AWAY (neither could be had; `why` says what stood in
 * the way). AWAY is never final: the thread looks again after 250 ms, doubling to 5 s. The loop may
 * ask for a look at any time (store_recheck), and so does an answer that says it is missing, or a
 * request that got none: a JetStream that says nothing is AWAY, however well the link is. A lost
 * link makes every bucket AWAY, a new one has every bucket looked at again: it may be another
 * server.
 *
 * The link: nats.c reconnects by itself, for ever, but two authentication errors in a row close it
 * for good. So the caretaker asks for its status all the time, and makes a new one, credentials
 * read anew, where it finds it closed, or where a write stopped halfway. Every up and down begins a
 * new epoch, by which requests and watchers know that what they had is void. nats.c's buffer for
 * writes during a reconnect is off: nothing is sent late.
 *
 * An existing bucket is bound and never written to. A missing one is made by a plain create of its
 * stream, which fails where another router was faster (then it is bound); js_CreateKeyValue may
 * send an update in that case.
 *
 * What goes to the loop is a post, and there is one inbox, so that order is kept. It has a place
 * for all that may be under way (each kind is bounded by itself), hence posting never fails.
 *
 * Ending: `stopping` is set under the mutex, and nothing is posted after that, so the inbox can go.
 * Each call on the server ends within STORE_CALL_MS, and a thread ends after the call at hand.
 * Where that takes longer (a name lookup that hangs), store_destroy leaves the threads behind as
 * orphans; the last of them frees the store itself.
 */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "store/options.h"
#include "store/state.h"

struct report {
    struct post post;
    enum store_bucket_state state;
    char bucket[NAME_SIZE];
    char why[WHY_SIZE];
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

bool store_post(struct store *store, struct post *post)
{
    if (store->stopping)
        return false;
    CHECK(inbox_post(store->inbox, &post->item) == WB_OK); /* each kind is bounded */
    return true;
}

/* On the loop. */
static void deliver(void *arg, struct inbox_item *item)
{
    struct store *store = arg;
    struct post *post = CONTAINER_OF(item, struct post, item);

    MAGIC_CHECK(store, STORE_MAGIC);
    post->deliver(store, post);
}

static void deliver_report(struct store *store, struct post *post)
{
    struct report *report = CONTAINER_OF(post, struct report, post);

    pthread_mutex_lock(&store->mutex);
    store->reports--;
    pthread_mutex_unlock(&store->mutex);
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
    report->post.deliver = deliver_report;
    report->state = b->state;
    memcpy(report->bucket, b->name, sizeof(b->name));
    memcpy(report->why, b->why, sizeof(b->why));
    pthread_mutex_lock(&store->mutex);
    if (store->reports < REPORTS_MAX && store_post(store, &report->post)) {
        store->reports++;
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
static void set_state(struct store *store, struct bucket *b, enum store_bucket_state state,
                      const char *why, bool answer)
{
    mono now = clock_mono();

    if (state == STORE_BOUND && b->state == STORE_CREATED)
        state = STORE_CREATED; /* still ours */
    if (state != b->state || (state == STORE_AWAY && strcmp(why, b->why) != 0) || answer)
        b->unsaid = true;
    b->state = state;
    snprintf(b->why, sizeof(b->why), "%s", why);
    pthread_mutex_lock(&store->mutex);
    if (b->open != is_here(state)) {
        b->open = is_here(state);
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->mutex);
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

        set_state(store, b, STORE_AWAY, why, false);
        b->look_at = MONO_NEVER; /* until there is a link */
        b->wait_ms = LOOK_MIN_MS;
        say(store, b);
    }
}

static natsStatus bind_bucket(struct store *store, const struct bucket *b)
{
    kvStore *kv = NULL;
    natsStatus s = js_KeyValue(&kv, store->link->js, b->name);

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
    return js_AddStream(NULL, store->link->js, &cfg, NULL, code);
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
        link_reason(s, code, why);
        found = STORE_AWAY;
    } else if (found == STORE_CREATED) {
        b->state = STORE_UNKNOWN; /* what was known of an older one is void */
    }
    set_state(store, b, found, why, answer);
    say(store, b);
}

/* The one place where the link is taken up or down. */
static void set_link(struct store *store, struct link *link, bool up)
{
    pthread_mutex_lock(&store->mutex);
    store->link = link;
    store->up = up;
    store->epoch++;
    store->denied[0] = '\0';
    pthread_cond_broadcast(&store->changed);
    pthread_cond_broadcast(&store->work);
    pthread_mutex_unlock(&store->mutex);
}

static void disconnect(struct store *store)
{
    struct link *link = store->link;

    set_link(store, NULL, false);
    link_destroy(link);
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
    all_away(store, text);
    disconnect(store);
    store->connect_at = mono_add_ms(clock_mono(), store->connect_wait_ms);
    store->connect_wait_ms *= 2;
    if (store->connect_wait_ms > CONNECT_WAIT_MAX_MS)
        store->connect_wait_ms = CONNECT_WAIT_MAX_MS;
}

static void connect_anew(struct store *store)
{
    char why[WHY_SIZE];
    struct link *link = link_create(store, why);

    if (link)
        set_link(store, link, false);
    else
        connect_failed(store, why);
}

static void link_is_up(struct store *store)
{
    uint64_t reconnects = link_reconnects(store->link);

    if (store->up && reconnects == store->reconnects)
        return;
    store->reconnects = reconnects;
    store->connect_wait_ms = LOOK_MIN_MS;
    set_link(store, store->link, true);
    for (unsigned i = 0; i < store->bucket_count; i++)
        store->buckets[i].look_at = (mono){0};
}

/* Sees what has become of the link. */
static void watch_link(struct store *store)
{
    char reason[WHY_SIZE], why[WHY_SIZE];

    if (!store->link) {
        if (!mono_before(clock_mono(), store->connect_at))
            connect_anew(store);
        if (!store->link)
            return;
    }
    switch (link_look(store->link, reason)) {
    case LINK_DEAD:
        connect_failed(store, reason);
        break;
    case LINK_AWAY:
        no_connection(store, reason, why);
        if (store->up)
            set_link(store, store->link, false);
        all_away(store, why);
        break;
    case LINK_UP:
        link_is_up(store);
        break;
    }
}

bool store_is_stopping(struct store *store)
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
        bool asked, owed;

        if (store_is_stopping(store))
            return;
        pthread_mutex_lock(&store->mutex);
        asked = b->asked;
        owed = b->owed;
        b->asked = b->owed = false;
        pthread_mutex_unlock(&store->mutex);
        if (asked || !mono_before(clock_mono(), b->look_at))
            look(store, b, owed);
        else
            say(store, b);
    }
}

void store_wait(struct store *store, pthread_cond_t *cond, mono until)
{
    mono latest = mono_add_ms(clock_mono(), 3600 * 1000);
    struct timespec ts;

    until = mono_min(until, latest);
    ts = (struct timespec){until.us / 1000000, until.us % 1000000 * 1000};
    pthread_cond_timedwait(cond, &store->mutex, &ts);
}

/* Sleeps until something is due, somebody has asked for a look, or the store is to end. False: end.
 */
static bool wait_for_work(struct store *store, mono not_before)
{
    mono due = mono_add_ms(clock_mono(), store->up ? LINK_MS : CONNECTING_MS);
    bool stopping;

    if (!store->link)
        due = store->connect_at;
    for (unsigned i = 0; i < store->bucket_count; i++)
        due = mono_min(due, store->buckets[i].look_at);
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        mono until = due;

        for (unsigned i = 0; i < store->bucket_count && store->up; i++)
            if (store->buckets[i].asked)
                until = (mono){0};
        if (mono_before(until,
                        not_before)) /* asked over and over: no more than one look in LOOK_MIN_MS */
            until = not_before;
        stopping = store->stopping;
        if (stopping || !mono_before(clock_mono(), until))
            break;
        store_wait(store, &store->changed, until);
    }
    pthread_mutex_unlock(&store->mutex);
    return !stopping;
}

static void release(struct store *store)
{
    requests_fini(store);
    for (size_t i = 0; i < TEXTS; i++)
        free((void *)(uintptr_t)*text_of(&store->connection, i));
    pthread_cond_destroy(&store->room);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->mutex);
    store->magic = 0;
    free(store);
}

void store_thread_ends(struct store *store)
{
    bool last_orphan;

    nats_ReleaseThreadMemory();
    pthread_mutex_lock(&store->mutex);
    last_orphan = --store->running == 0 && store->orphan;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (last_orphan)
        release(store);
}

static void *run(void *arg)
{
    struct store *store = arg;
    mono next = {0};

    MAGIC_CHECK(store, STORE_MAGIC);
    while (wait_for_work(store, next)) {
        watch_link(store);
        next = mono_add_ms(clock_mono(), store->up ? LOOK_MIN_MS : 0);
        look_at_due(store);
    }
    disconnect(store);
    store_thread_ends(store);
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
    pthread_cond_init(&store->work, &attributes);
    pthread_cond_init(&store->room, &attributes);
    pthread_condattr_destroy(&attributes);
    store->inbox =
        inbox_create(loop, REPORTS_MAX + STORE_REQUESTS_MAX + WATCH_POSTS_MAX, deliver, store);
    nats_Open(-1); /* before any thread of ours may end with nats.c unopened */
    if (!copy_connection(store, connection) || !store->inbox || requests_init(store) != WB_OK) {
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
    if (store_bucket_of(store, bucket->name))
        return WB_EXISTS;
    if (store->bucket_count == BUCKETS_MAX)
        return WB_FULL;
    b = &store->buckets[store->bucket_count++];
    *b = (struct bucket){.wanted = *bucket, .wait_ms = LOOK_MIN_MS, .look_at = MONO_NEVER};
    memcpy(b->name, bucket->name, length + 1);
    b->wanted.name = b->name;
    return WB_OK;
}

static bool start_thread(struct store *store, void *(*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&store->mutex);
    store->running++;
    pthread_mutex_unlock(&store->mutex);
    if (pthread_create(&store->threads[store->thread_count], NULL, fn, arg) == 0) {
        store->thread_count++;
        return true;
    }
    pthread_mutex_lock(&store->mutex);
    store->running--;
    pthread_mutex_unlock(&store->mutex);
    return false;
}

wb_status store_start(struct store *store)
{
    MAGIC_CHECK(store, STORE_MAGIC);
    CHECK(!store->started);
    store->started = true;
    if (!start_thread(store, run, store) || !start_thread(store, requests_run, store))
        return WB_IO;
    for (unsigned i = 0; i < store->bucket_count; i++) {
        void *watch;

        if (!store->buckets[i].wanted.watch)
            continue;
        watch = watch_create(store, &store->buckets[i]);
        if (!watch || !start_thread(store, watch_run, watch)) {
            free(watch);
            return WB_IO;
        }
    }
    return WB_OK;
}

struct bucket *store_bucket_of(struct store *store, const char *name)
{
    for (unsigned i = 0; i < store->bucket_count; i++)
        if (strcmp(store->buckets[i].name, name) == 0)
            return &store->buckets[i];
    return NULL;
}

void store_ask(struct store *store, struct bucket *b)
{
    b->asked = true;
    pthread_cond_broadcast(&store->changed);
}

void store_recheck(struct store *store, const char *bucket)
{
    struct bucket *b;

    MAGIC_CHECK(store, STORE_MAGIC);
    b = store_bucket_of(store, bucket);
    if (!b)
        return;
    pthread_mutex_lock(&store->mutex);
    b->owed = true;
    store_ask(store, b);
    pthread_mutex_unlock(&store->mutex);
}

/* Tells the threads to end and waits, within bounds, until they have. */
static void stop_threads(struct store *store)
{
    mono until = mono_add_ms(clock_mono(), DESTROY_MS);

    pthread_mutex_lock(&store->mutex);
    store->stopping = true;
    pthread_cond_broadcast(&store->changed);
    pthread_cond_broadcast(&store->work);
    pthread_cond_broadcast(&store->room);
    while (store->running > 0 && mono_before(clock_mono(), until))
        store_wait(store, &store->changed, until);
    pthread_mutex_unlock(&store->mutex);
}

void store_destroy(struct store *store)
{
    bool orphan;

    if (!store)
        return;
    MAGIC_CHECK(store, STORE_MAGIC);
    stop_threads(store);
    inbox_destroy(store->inbox); /* nothing is posted once stopping is set */
    store->inbox = NULL;
    pthread_mutex_lock(&store->mutex);
    orphan = store->orphan = store->running > 0;
    for (unsigned i = 0; i < store->thread_count && orphan; i++)
        pthread_detach(store->threads[i]);
    pthread_mutex_unlock(&store->mutex);
    if (orphan) {
        log_write(LOG_WARN, "store: a call does not end; its thread is left behind");
        return;
    }
    for (unsigned i = 0; i < store->thread_count; i++)
        pthread_join(store->threads[i], NULL);
    release(store);
}

void store_library_end(void)
{
    (void)nats_CloseAndWait(LIBRARY_END_MS); /* one left behind is the system's to end */
}
