/* The watch over one bucket: a thread that reads it through a consumer of its own, again and again.
 *
 *   begin: read the stream's state, have a consumer made that pushes each key's last revision and
 *          then all that comes, to an inbox of this reading             -> BEGUN
 *   follow: what it pushes, until a gap shows                            -> ENTRY, CURRENT
 *   end: forget the consumer                                             -> LOST
 *
 * nats.c's own watcher stands on the same consumer but tells nothing of its health, so the consumer
 * is made by nats.c and its messages are read here. A gap shows by
 *   - a new epoch of the link, or the bucket away (the caretaker's knowledge);
 *   - a number missing in the consumer's own count, or a heartbeat that tells of more than came;
 *   - silence: no message and no heartbeat for SILENCE_MS (the consumer is gone, or the server);
 *   - lag: the stream has a revision that has not come, and nothing has for SILENCE_MS;
 *   - the stream's time of creation is another.
 * Silence and lag are counted in waits that ended with nothing, so a slow loop looks like neither.
 *
 * CURRENT is when the server has nothing more to push: a message says so, or a heartbeat, which
 * comes only then. What the stream held when the consumer was made has come by then, or is gone: so
 * a last message that was removed is no lag for ever.
 *
 * Back-pressure: a full inbox of the loop makes the thread wait. It answers the server's
 * flow-control messages in turn with the others, so the server holds what is not yet read, beyond
 * some 32 MB.
 *
 * A reading's inbox is subscribed to by its full name: a server takes a wildcard for nobody there
 * and pushes nothing. A subscription is taken back at the end of its reading and freed in the next
 * one's beginning, after an answer has come over the same link: nats.c's reader takes a
 * subscription from its table and uses it without holding it, and by then it has put it down.
 *
 * Permissions: STREAM.INFO, CONSUMER.CREATE and CONSUMER.DELETE of the bucket's stream, and its
 * flow control ($JS.FC). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/reply.h"
#include "store/state.h"

enum {
    WATCH_MAGIC = 0x57415443,
    HEARTBEAT_MS = 500,
    SILENCE_MS = 2000,
    WAIT_MS = 100, /* for one message: how soon a stop is seen */
    CHECK_MS = 2000,
    PAUSE_MAX_MS = 2000,
    CONSUMER_SIZE = 128,
};

struct watch {
    unsigned magic;
    struct store *store;
    struct bucket *bucket;
    char stream[NAME_SIZE + 8], subjects[NAME_SIZE + 16]; /* "KV_B", "$KV.B.>" */
    size_t prefix_len;                                    /* of a key's subject before the key */
    int64_t stream_created; /* ns, of the last reading; 0: there was none */
    int pause_ms;           /* before the next try */
    /* of one reading */
    struct link *link;
    uint64_t epoch;
    natsSubscription **sub; /* in the link */
    unsigned readings;
    char consumer[CONSUMER_SIZE];
    uint64_t initial;      /* messages that the consumer had for us when it was made */
    uint64_t base;         /* the stream's last sequence just before that */
    uint64_t consumer_seq; /* the last one that came */
    uint64_t newest;       /* stream sequence that came */
    bool current;
    int64_t quiet_ms, idle_ms; /* waited without any message, without an entry */
    uint64_t behind;           /* a revision that the stream had and we did not; 0: none */
    mono check_at;
};

/* A watch event on its way; the key and value behind it. */
struct news {
    struct post post;
    const struct bucket *bucket;
    enum store_watch_event event;
    bool another;
    struct store_entry entry;
    size_t size;
    char bytes[];
};

/* On the loop. */
static void deliver(struct store *store, struct post *post)
{
    struct news *news = CONTAINER_OF(post, struct news, post);

    if (!store->stopping && store->events.watch)
        store->events.watch(store->arg, news->bucket->name, news->event, news->another,
                            news->event == STORE_WATCH_ENTRY ? &news->entry : NULL);
    pthread_mutex_lock(&store->mutex);
    store->watch_posts--;
    store->watch_bytes -= news->size;
    if (store->watch_posts == 0 || store->watch_posts == WATCH_POSTS_MAX / 2)
        pthread_cond_broadcast(&store->room);
    pthread_mutex_unlock(&store->mutex);
    free(news);
}

static bool has_room(const struct store *store, size_t size)
{
    return store->watch_posts == 0 || (store->watch_posts < WATCH_POSTS_MAX &&
                                       store->watch_bytes + size <= WATCH_POST_BYTES_MAX);
}

/* Waits for room. The store frees what comes too late. */
static void post_news(struct store *store, struct news *news)
{
    bool posted;

    pthread_mutex_lock(&store->mutex);
    while (!store->stopping && !has_room(store, news->size))
        store_wait(store, &store->room, MONO_NEVER);
    posted = store_post(store, &news->post);
    if (posted) {
        store->watch_posts++;
        store->watch_bytes += news->size;
    }
    pthread_mutex_unlock(&store->mutex);
    if (!posted)
        free(news);
}

/* Waits for memory too: nothing is left out. */
static void tell(struct watch *w, enum store_watch_event event, bool another,
                 const struct store_entry *entry)
{
    size_t size = entry ? entry->key.len + entry->value.len : 0;
    struct news *news = malloc(sizeof(*news) + size);

    while (!news && !store_is_stopping(w->store)) {
        pthread_mutex_lock(&w->store->mutex);
        store_wait(w->store, &w->store->room, mono_add_ms(clock_mono(), WAIT_MS));
        pthread_mutex_unlock(&w->store->mutex);
        news = malloc(sizeof(*news) + size);
    }
    if (!news)
        return;
    *news = (struct news){
        .post = {.deliver = deliver}, .bucket = w->bucket, .event = event, .another = another};
    news->size = sizeof(*news) + size;
    if (entry) {
        news->entry = *entry;
        memcpy(news->bytes, entry->key.ptr, entry->key.len);
        if (entry->value.len > 0)
            memcpy(news->bytes + entry->key.len, entry->value.ptr, entry->value.len);
        news->entry.key.ptr = news->bytes;
        news->entry.value.ptr = news->bytes + entry->key.len;
    }
    post_news(w->store, news);
}

/* --- following --- */

static void is_current(struct watch *w)
{
    if (w->current)
        return;
    w->current = true;
    if (w->newest < w->base)
        w->newest = w->base;
    tell(w, STORE_WATCH_CURRENT, false, NULL);
}

static const char *header(natsMsg *msg, const char *name)
{
    const char *value = NULL;

    return natsMsgHeader_Get(msg, name, &value) == NATS_OK ? value : NULL;
}

/* Tells the server that what came before it has been read. */
static void answer_flow_control(struct watch *w, const char *subject)
{
    if (strncmp(subject, "$JS.FC.", 7) == 0)
        (void)natsConnection_PublishString(w->link->nc, subject, "");
}

/* A heartbeat or flow control. False: a gap. */
static bool on_control(struct watch *w, natsMsg *msg)
{
    const char *reply = natsMsg_GetReply(msg);
    const char *stalled = header(msg, "Nats-Consumer-Stalled");
    const char *last = header(msg, "Nats-Last-Consumer");
    unsigned long long seq;

    if (reply && *reply) {
        answer_flow_control(w, reply);
        return true;
    }
    if (last && span_to_u64(span_str(last), &seq) && seq != w->consumer_seq)
        return false;
    if (stalled)
        answer_flow_control(w, stalled);
    else
        is_current(w);
    return true;
}

static bool on_entry(struct watch *w, natsMsg *msg, const struct reply_place *place)
{
    const char *subject = natsMsg_GetSubject(msg);
    struct store_entry entry = {.revision = place->stream_seq, .created = place->created};

    if (place->consumer_seq != w->consumer_seq + 1)
        return false;
    w->consumer_seq = place->consumer_seq;
    w->newest = place->stream_seq;
    w->idle_ms = 0;
    if (strncmp(subject, w->subjects, w->prefix_len) == 0 && subject[w->prefix_len]) {
        entry.key = span_str(subject + w->prefix_len);
        entry.deleted =
            reply_is_marker(header(msg, "KV-Operation"), header(msg, "Nats-Marker-Reason"));
        entry.value = entry.deleted
                          ? SPAN_EMPTY
                          : span_of(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
        tell(w, STORE_WATCH_ENTRY, false, &entry);
    }
    if (place->pending == 0)
        is_current(w);
    return true;
}

static bool on_message(struct watch *w, natsMsg *msg)
{
    const char *status = header(msg, "Status");
    struct reply_place place;

    w->quiet_ms = 0;
    if (status)
        return strcmp(status, "100") == 0 && on_control(w, msg);
    return !reply_read_place(natsMsg_GetReply(msg), &place) || on_entry(w, msg, &place);
}

/* Compares with what the stream says of itself. May block. False: it is another one, or gone. */
static bool check_stream(struct watch *w)
{
    jsStreamInfo *info = NULL;
    natsStatus s = js_GetStreamInfo(&info, w->link->js, w->stream, NULL, NULL);
    bool same = s != NATS_NOT_FOUND;

    if (s == NATS_OK) {
        same = info->Created == w->stream_created;
        if (w->newest >= w->behind)
            w->behind = 0;
        if (w->current && w->behind == 0 && info->State.Msgs > 0 &&
            info->State.LastSeq > w->newest) {
            w->behind = info->State.LastSeq;
            w->idle_ms = 0; /* it may be on its way */
        }
    }
    jsStreamInfo_Destroy(info);
    w->check_at = mono_add_ms(clock_mono(), CHECK_MS);
    return same;
}

/* Does all that the reading stands on still hold? */
static bool holds(struct watch *w)
{
    bool good;

    pthread_mutex_lock(&w->store->mutex);
    good = !w->store->stopping && w->store->epoch == w->epoch && w->bucket->open;
    pthread_mutex_unlock(&w->store->mutex);
    return good;
}

static bool on_nothing(struct watch *w)
{
    w->quiet_ms += WAIT_MS;
    w->idle_ms += WAIT_MS;
    if (w->behind <= w->newest)
        w->behind = 0;
    return w->quiet_ms < SILENCE_MS && (w->behind == 0 || w->idle_ms < SILENCE_MS);
}

/* Returns when there is, or may be, a gap. */
static void follow(struct watch *w)
{
    bool good = true;

    if (w->initial == 0)
        is_current(w);
    while (good && holds(w)) {
        natsMsg *msg = NULL;
        natsStatus s = natsSubscription_NextMsg(&msg, *w->sub, WAIT_MS);

        if (s == NATS_OK)
            good = on_message(w, msg);
        else
            good = s == NATS_TIMEOUT && on_nothing(w);
        natsMsg_Destroy(msg);
        if (good && !mono_before(clock_mono(), w->check_at))
            good = check_stream(w);
    }
}

/* --- beginning and ending --- */

static natsStatus add_consumer(struct watch *w, const char *inbox, jsErrCode *code)
{
    const int64_t ns_per_ms = 1000000;
    jsConsumerConfig cfg;
    jsConsumerInfo *info = NULL;
    natsStatus s;

    jsConsumerConfig_Init(&cfg);
    cfg.DeliverPolicy = js_DeliverLastPerSubject;
    cfg.AckPolicy = js_AckNone;
    cfg.ReplayPolicy = js_ReplayInstant;
    cfg.MaxDeliver = 1;
    cfg.FilterSubject = w->subjects;
    cfg.DeliverSubject = inbox;
    cfg.FlowControl = true;
    cfg.Heartbeat = HEARTBEAT_MS * ns_per_ms;
    cfg.MemoryStorage = true;
    cfg.Replicas = 1;
    s = js_AddConsumer(&info, w->link->js, w->stream, &cfg, NULL, code);
    if (s == NATS_OK) {
        snprintf(w->consumer, sizeof(w->consumer), "%s", info->Name);
        w->initial = info->NumPending + info->Delivered.Consumer;
    }
    jsConsumerInfo_Destroy(info);
    return s;
}

static natsStatus subscribe(struct watch *w, char inbox[INBOX_SIZE + 32])
{
    unsigned number = (unsigned)(w->bucket - w->store->buckets);
    natsStatus s;

    natsSubscription_Destroy(*w->sub); /* the last reading's */
    *w->sub = NULL;
    snprintf(inbox, INBOX_SIZE + 32, "%s.%u.%u", w->link->inbox, number, ++w->readings);
    s = natsConnection_SubscribeSync(w->sub, w->link->nc, inbox);
    if (s == NATS_OK)
        s = natsSubscription_SetPendingLimits(*w->sub, -1, -1); /* flow control bounds it */
    return s;
}

/* False: not now. Then nothing is told, and end() tidies up. */
static bool begin(struct watch *w)
{
    char inbox[INBOX_SIZE + 32];
    jsStreamInfo *info = NULL;
    int64_t created = 0;
    jsErrCode code = 0;
    natsStatus s = js_GetStreamInfo(&info, w->link->js, w->stream, NULL, &code);
    bool another;

    if (s == NATS_OK) {
        created = info->Created;
        w->base = info->State.LastSeq;
        jsStreamInfo_Destroy(info);
        s = subscribe(w, inbox);
    }
    if (s == NATS_OK && holds(w))
        s = add_consumer(w, inbox, &code);
    if (s == NATS_NOT_FOUND || s == NATS_TIMEOUT) {
        pthread_mutex_lock(&w->store->mutex);
        store_ask(w->store, w->bucket);
        pthread_mutex_unlock(&w->store->mutex);
    }
    if (s != NATS_OK || !holds(w))
        return false;
    another = w->stream_created != 0 && w->stream_created != created;
    w->stream_created = created;
    w->check_at = mono_add_ms(clock_mono(), CHECK_MS);
    tell(w, STORE_WATCH_BEGUN, another, NULL);
    return true;
}

/* Tells the server at once; the consumer would go by itself, a few seconds later. */
static void end(struct watch *w)
{
    char subject[CONSUMER_SIZE + NAME_SIZE + 48];

    if (*w->sub)
        (void)natsSubscription_Unsubscribe(*w->sub);
    if (!w->consumer[0])
        return;
    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DELETE.%s.%s", w->stream, w->consumer);
    (void)natsConnection_PublishString(w->link->nc, subject, "");
}

static void forget_reading(struct watch *w)
{
    w->consumer[0] = '\0';
    w->initial = w->base = w->consumer_seq = w->newest = w->behind = 0;
    w->current = false;
    w->quiet_ms = w->idle_ms = 0;
}

/* Waits for a link and the bucket, and borrows. False: the store ends. */
static bool wait_for_link(struct watch *w, mono not_before)
{
    struct store *store = w->store;
    bool stopping;

    w->link = NULL;
    pthread_mutex_lock(&store->mutex);
    while (!store->stopping && !w->link) {
        bool early = mono_before(clock_mono(), not_before);

        if (!early && w->bucket->open)
            w->link = link_borrow(store);
        if (!w->link)
            store_wait(store, &store->changed, early ? not_before : MONO_NEVER);
    }
    w->epoch = store->epoch;
    stopping = store->stopping;
    pthread_mutex_unlock(&store->mutex);
    return w->link != NULL && !stopping;
}

static void give_back(struct watch *w)
{
    if (!w->link)
        return;
    pthread_mutex_lock(&w->store->mutex);
    link_give_back(w->link);
    pthread_mutex_unlock(&w->store->mutex);
    w->link = NULL;
}

void *watch_create(struct store *store, struct bucket *bucket)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    MAGIC_SET(w, WATCH_MAGIC);
    w->store = store;
    w->bucket = bucket;
    w->pause_ms = LOOK_MIN_MS;
    snprintf(w->stream, sizeof(w->stream), "KV_%s", bucket->name);
    snprintf(w->subjects, sizeof(w->subjects), "$KV.%s.>", bucket->name);
    w->prefix_len = strlen(w->subjects) - 1;
    return w;
}

void *watch_run(void *arg)
{
    struct watch *w = arg;
    struct store *store = w->store;
    mono next = {0};

    MAGIC_CHECK(w, WATCH_MAGIC);
    while (wait_for_link(w, next)) {
        bool begun;

        forget_reading(w);
        w->sub = &w->link->pushed[w->bucket - store->buckets];
        begun = begin(w);
        if (begun)
            follow(w);
        end(w);
        give_back(w);
        if (begun) {
            tell(w, STORE_WATCH_LOST, false, NULL);
            w->pause_ms = LOOK_MIN_MS;
        }
        next = mono_add_ms(clock_mono(), w->pause_ms);
        w->pause_ms = w->pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : w->pause_ms * 2;
    }
    give_back(w);
    free(w);
    store_thread_ends(store);
    return NULL;
}
