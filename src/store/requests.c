/* Requests: from store_send to their one end.
 *
 * A request is in one of three places: `queued` (the sender has it to write), `sent` (an answer or
 * the clock ends the waiting), or in the loop's inbox, completed. Each takes its slot with it until
 * the loop has been told, so the slab's cap bounds all three. complete() is the one way into the
 * inbox, and it takes the request off its list under the mutex: so of an answer, a second one, the
 * clock and a lost link only the first counts. An answer names the request by its slab handle,
 * which no later request shares, and the step that it answers.
 *
 * Each step is a message of the request's own: a put or delete with its compare-and-set in the
 * headers, or a read from the leader by STREAM.MSG.GET. Most requests have one. A put on 0 that is
 * told of another revision may have met a marker only: then it looks, and puts on the marker's
 * revision, ROUNDS_MAX times at most.
 *
 * The sender makes the messages under the mutex and writes them without it, BATCH at a time: by
 * then it holds no request any more, for an answer may end one as soon as it is written. A write
 * blocks for STORE_CALL_MS at most, and one that fails halfway leaves a connection that is good for
 * nothing: the caretaker makes another. A server that has more than it can answer stops reading for
 * longer than that, well as its link is: so no more than SENT_MAX wait for it at once.
 *
 * A new epoch (the link went down or came up) ends what is older: queued, not applied; sent,
 * unknown. Nothing is sent twice. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/reply.h"
#include "store/state.h"

enum {
    BATCH = 64,
    SENT_MAX = 2048, /* at the server at once: beyond 10,000 of all clients it drops them */
    ROUNDS_MAX = 3,
    FIRED_AT_ONCE = 256, /* clocks, before the mutex is let go for a moment */
    HANDLE_DIGITS = 16,
    SUBJECT_SIZE = STORE_KEY_MAX + NAME_SIZE + 32,
};

enum place { NEW, QUEUED, SENT, COMPLETED };
enum step { WRITE, READ };

struct request {
    struct post post;
    struct store *store;
    struct bucket *bucket;
    uint64_t handle, token, epoch;
    enum place place;
    TAILQ_ENTRY(request) neighbours; /* in queued or sent */
    struct deadline clock;
    enum store_op op;
    enum step step;
    unsigned number; /* of the step: 0, 1, ... */
    bool create;     /* a put on 0 */
    unsigned rounds; /* of looking what stands in a create's way */
    uint64_t expect;
    char *bytes; /* the key and, behind it, the value */
    size_t key_len, value_len;
    /* once completed */
    wb_status status;
    uint64_t revision;
    wall created;
    bool deleted;
};

/* One hexadecimal digit that tells a request's steps apart; odd: a read. */
static unsigned code_of(const struct request *r)
{
    return r->number * 2 + (r->step == READ);
}

static void take_off(struct request *r)
{
    if (r->place == QUEUED) {
        TAILQ_REMOVE(&r->store->queued, r, neighbours);
    } else if (r->place == SENT) {
        TAILQ_REMOVE(&r->store->sent, r, neighbours);
        r->store->sent_count--;
        if (r->store->sender_waits && !TAILQ_EMPTY(&r->store->queued))
            pthread_cond_signal(&r->store->work);
    }
}

static void enqueue(struct request *r)
{
    take_off(r);
    r->place = QUEUED;
    TAILQ_INSERT_TAIL(&r->store->queued, r, neighbours);
    if (r->store->sender_waits)
        pthread_cond_signal(&r->store->work);
}

static struct span value_of(const struct request *r)
{
    return span_of(r->bytes + r->key_len, r->value_len);
}

/* On the loop. */
static void deliver(struct store *store, struct post *post)
{
    struct request *r = CONTAINER_OF(post, struct request, post);
    struct store_entry entry = {.key = span_of(r->bytes, r->key_len),
                                .value = r->deleted ? SPAN_EMPTY : value_of(r),
                                .revision = r->revision,
                                .created = r->created,
                                .deleted = r->deleted};

    if (!store->stopping && store->events.done)
        store->events.done(store->arg, r->token, r->status, r->status == WB_OK ? &entry : NULL);
    pthread_mutex_lock(&store->mutex);
    store->request_bytes -= r->key_len + r->value_len;
    free(r->bytes);
    slab_give(store->requests, r->handle);
    pthread_mutex_unlock(&store->mutex);
}

static void complete(struct request *r, wb_status status)
{
    struct store *store = r->store;

    CHECK(r->place == QUEUED || r->place == SENT);
    take_off(r);
    deadline_cancel(store->deadlines, &r->clock);
    r->place = COMPLETED;
    r->status = status;
    r->post.deliver = deliver;
    store_post(store, &r->post); /* refused where the store is ending: requests_fini frees it */
}

/* NATS names the subject that it refuses to publish to, in words only. */
static bool was_denied(const struct request *r)
{
    char subject[NAME_SIZE + 32];

    if (r->step == WRITE)
        snprintf(subject, sizeof(subject), "$KV.%s.", r->bucket->name);
    else
        snprintf(subject, sizeof(subject), "$JS.API.STREAM.MSG.GET.KV_%s\"", r->bucket->name);
    return strstr(r->store->denied, subject) != NULL;
}

static void time_out(struct deadline *clock, mono now)
{
    struct request *r = CONTAINER_OF(clock, struct request, clock);

    bool denied = r->place == SENT && was_denied(r);

    (void)now;
    if (r->place == SENT && !denied)
        store_ask(r->store, r->bucket);
    complete(r, denied ? WB_DENIED : WB_TIMED_OUT);
}

static bool is_key(struct span key)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-/_=.";

    if (key.len == 0 || key.len > STORE_KEY_MAX || key.ptr[0] == '.' || key.ptr[key.len - 1] == '.')
        return false;
    for (size_t i = 0; i < key.len; i++)
        if (!memchr(allowed, key.ptr[i], sizeof(allowed) - 1) ||
            (key.ptr[i] == '.' && key.ptr[i + 1] == '.'))
            return false;
    return true;
}

static wb_status admit(struct store *store, struct bucket *b, const struct store_request *request,
                       char *bytes, size_t size)
{
    uint64_t handle;
    struct request *r;

    if (!store->up || !b->open)
        return WB_CLOSED;
    if (store->request_bytes + size > STORE_REQUEST_BYTES_MAX)
        return WB_FULL;
    r = slab_take(store->requests, &handle);
    if (!r)
        return WB_FULL;
    r->store = store;
    r->bucket = b;
    r->handle = handle;
    r->token = request->token;
    r->epoch = store->epoch;
    r->op = request->op;
    r->step = request->op == STORE_GET ? READ : WRITE;
    r->expect = request->expect;
    r->create = request->op == STORE_PUT && request->expect == 0;
    r->bytes = bytes;
    r->key_len = request->key.len;
    r->value_len = size - request->key.len;
    deadline_init(&r->clock, time_out);
    if (deadline_set(store->deadlines, &r->clock, mono_add_ms(clock_mono(), request->timeout_ms)) !=
        WB_OK) {
        slab_give(store->requests, handle);
        return WB_NO_MEMORY;
    }
    store->request_bytes += size;
    enqueue(r);
    return WB_OK;
}

wb_status store_send(struct store *store, const struct store_request *request)
{
    size_t value_len = request->op == STORE_PUT ? request->value.len : 0;
    size_t size = request->key.len + value_len;
    struct bucket *b;
    char *bytes;
    wb_status status;

    MAGIC_CHECK(store, STORE_MAGIC);
    b = store_bucket_of(store, request->bucket);
    if (!b || !is_key(request->key) || request->timeout_ms <= 0 ||
        (request->op == STORE_DELETE && request->expect == 0))
        return WB_INVALID;
    if (value_len > STORE_REQUEST_BYTES_MAX - STORE_KEY_MAX)
        return WB_TOO_LARGE;
    bytes = malloc(size);
    if (!bytes)
        return WB_NO_MEMORY;
    memcpy(bytes, request->key.ptr, request->key.len);
    if (value_len > 0)
        memcpy(bytes + request->key.len, request->value.ptr, value_len);
    pthread_mutex_lock(&store->mutex);
    status = admit(store, b, request, bytes, size);
    pthread_mutex_unlock(&store->mutex);
    if (status != WB_OK)
        free(bytes);
    return status;
}

/* --- out --- */

static natsStatus make_read(const struct request *r, const char *reply, natsMsg **out)
{
    char subject[NAME_SIZE + 32], body[SUBJECT_SIZE + 32];
    int length = snprintf(body, sizeof(body), "{\"last_by_subj\":\"$KV.%s.%.*s\"}", r->bucket->name,
                          (int)r->key_len, r->bytes);

    snprintf(subject, sizeof(subject), "$JS.API.STREAM.MSG.GET.KV_%s", r->bucket->name);
    return natsMsg_Create(out, subject, reply, body, length);
}

static natsStatus make_write(const struct request *r, const char *reply, natsMsg **out)
{
    char subject[SUBJECT_SIZE], expect[24];
    struct span value = value_of(r);
    natsStatus s;

    snprintf(subject, sizeof(subject), "$KV.%s.%.*s", r->bucket->name, (int)r->key_len, r->bytes);
    snprintf(expect, sizeof(expect), "%" PRIu64, r->expect);
    s = natsMsg_Create(out, subject, reply, value.ptr, (int)value.len);
    if (s == NATS_OK)
        s = natsMsgHeader_Set(*out, "Nats-Expected-Last-Subject-Sequence", expect);
    if (s == NATS_OK && r->op == STORE_DELETE)
        s = natsMsgHeader_Set(*out, "KV-Operation", "DEL");
    return s;
}

static natsMsg *make_message(const struct request *r, const struct link *link)
{
    char reply[INBOX_SIZE + HANDLE_DIGITS + 16];
    natsMsg *msg = NULL;
    natsStatus s;

    snprintf(reply, sizeof(reply), "%s.r.%016" PRIx64 "%x", link->inbox, r->handle, code_of(r));
    s = r->step == READ ? make_read(r, reply, &msg) : make_write(r, reply, &msg);
    if (s == NATS_OK)
        return msg;
    natsMsg_Destroy(msg);
    return NULL;
}

struct batch {
    natsMsg *messages[BATCH];
    uint64_t handles[BATCH];
    natsStatus results[BATCH];
    unsigned n;
};

/* Mutex held. NULL: none waits, or the server has enough to answer. */
static struct request *next_to_send(struct store *store)
{
    return store->sent_count < SENT_MAX ? TAILQ_FIRST(&store->queued) : NULL;
}

/* Mutex held. */
static void make_batch(struct store *store, const struct link *link, struct batch *batch)
{
    struct request *r;

    batch->n = 0;
    while (batch->n < BATCH && (r = next_to_send(store)) != NULL) {
        natsMsg *msg = make_message(r, link);

        if (!msg) {
            complete(r, WB_NO_MEMORY);
            continue;
        }
        take_off(r);
        r->place = SENT;
        TAILQ_INSERT_TAIL(&store->sent, r, neighbours);
        store->sent_count++;
        batch->messages[batch->n] = msg;
        batch->handles[batch->n++] = r->handle;
    }
}

/* What a write that failed means to its request, and whether the link can still be used. */
static wb_status status_of(natsStatus s, bool *broken)
{
    *broken = false;
    switch (s) {
    case NATS_MAX_PAYLOAD:
        return WB_TOO_LARGE;
    case NATS_NO_MEMORY:
        return WB_NO_MEMORY;
    case NATS_INSUFFICIENT_BUFFER: /* reconnecting */
    case NATS_CONNECTION_CLOSED:
    case NATS_CONNECTION_DISCONNECTED:
    case NATS_NO_SERVER_SUPPORT:
        return WB_CLOSED;
    default: /* some of it may be on its way */
        *broken = true;
        return WB_TIMED_OUT;
    }
}

/* Mutex held. */
static void settle_failures(struct store *store, struct link *link, const struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++) {
        struct request *r = slab_get(store->requests, batch->handles[i]);
        bool broken;
        wb_status status;

        if (batch->results[i] == NATS_OK)
            continue;
        status = status_of(batch->results[i], &broken);
        link->broken = link->broken || broken;
        if (r && r->place == SENT)
            complete(r, status);
    }
}

/* Mutex held; let go while writing. */
static void write_batch(struct store *store, struct link *link)
{
    struct batch batch;
    bool good = true;

    make_batch(store, link, &batch);
    pthread_mutex_unlock(&store->mutex);
    for (unsigned i = 0; i < batch.n; i++) {
        bool broken;

        /* behind half a message nothing may follow */
        batch.results[i] =
            good ? natsConnection_PublishMsg(link->nc, batch.messages[i]) : NATS_CONNECTION_CLOSED;
        if (batch.results[i] != NATS_OK) {
            (void)status_of(batch.results[i], &broken);
            good = good && !broken;
        }
        natsMsg_Destroy(batch.messages[i]);
    }
    pthread_mutex_lock(&store->mutex);
    settle_failures(store, link, &batch);
}

/* Mutex held. What is older than the epoch ends. */
static void fail_older(struct store *store, struct request_list *list, wb_status status)
{
    struct request *next;

    for (struct request *r = TAILQ_FIRST(list); r; r = next) {
        next = TAILQ_NEXT(r, neighbours);
        if (r->epoch != store->epoch)
            complete(r, status);
    }
}

/* Mutex held. */
static void fail_queued(struct store *store)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&store->queued)) != NULL)
        complete(r, WB_CLOSED);
}

void *requests_run(void *arg)
{
    struct store *store = arg;
    uint64_t epoch = 0;

    MAGIC_CHECK(store, STORE_MAGIC);
    pthread_mutex_lock(&store->mutex);
    while (!store->stopping) {
        if (store->epoch != epoch) {
            epoch = store->epoch;
            fail_older(store, &store->queued, WB_CLOSED);
            fail_older(store, &store->sent, WB_TIMED_OUT);
        }
        if (deadlines_run(store->deadlines, clock_mono(), FIRED_AT_ONCE) == FIRED_AT_ONCE) {
            pthread_mutex_unlock(&store->mutex); /* let the loop in */
            pthread_mutex_lock(&store->mutex);
            continue; /* it may have stopped us, or the link have changed */
        }
        if (next_to_send(store)) {
            struct link *link = link_borrow(store);

            if (link) {
                write_batch(store, link);
                link_give_back(link);
            } else {
                fail_queued(store);
            }
        } else if (mono_before(clock_mono(), deadlines_next(store->deadlines))) {
            store->sender_waits = true;
            store_wait(store, &store->work, deadlines_next(store->deadlines));
            store->sender_waits = false;
        }
    }
    pthread_mutex_unlock(&store->mutex);
    store_thread_ends(store);
    return NULL;
}

/* --- in --- */

struct answer {
    bool nobody; /* no responders: JetStream or the stream is not there */
    wb_status status;
    uint64_t revision;
    struct reply_message message; /* a read's */
};

static void read_answer(natsMsg *msg, bool is_read, struct answer *out)
{
    struct span json = span_of(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));

    *out = (struct answer){.nobody = natsMsg_IsNoResponders(msg)};
    if (out->nobody)
        out->status = WB_CLOSED;
    else if (is_read)
        out->status = reply_read_message(json, &out->message);
    else
        out->status = reply_read_ack(json, &out->revision);
}

static void next_step(struct request *r, enum step step)
{
    r->step = step;
    r->number++;
    enqueue(r);
}

static void settle_write(struct request *r, const struct answer *a)
{
    if (a->status == WB_EXISTS && r->create && r->rounds < ROUNDS_MAX) {
        r->rounds++;
        next_step(r, READ);
    } else {
        r->revision = a->revision;
        r->deleted = r->op == STORE_DELETE;
        complete(r, a->status == WB_NOT_FOUND ? WB_IO : a->status);
    }
}

/* What stood in the way of a create: a marker is written over, and nothing at all any more is as
 * good. */
static void settle_look(struct request *r, const struct answer *a)
{
    if (a->status == WB_OK && !a->message.deleted) {
        complete(r, WB_EXISTS);
    } else if (a->status == WB_OK || a->status == WB_NOT_FOUND) {
        r->expect = a->status == WB_OK ? a->message.revision : 0;
        next_step(r, WRITE);
    } else {
        complete(r, a->status);
    }
}

static void settle_get(struct request *r, struct answer *a)
{
    wb_status status = a->status;

    if (status == WB_OK && a->message.value_len > 0) {
        char *bytes = realloc(r->bytes, r->key_len + a->message.value_len);

        if (bytes) {
            memcpy(bytes + r->key_len, a->message.value, a->message.value_len);
            r->bytes = bytes;
            r->value_len = a->message.value_len;
            r->store->request_bytes += r->value_len;
        } else {
            status = WB_NO_MEMORY;
        }
    }
    r->revision = a->message.revision;
    r->created = a->message.created;
    r->deleted = a->message.deleted;
    complete(r, status);
}

/* The request's handle and step's code out of the end of an answer's subject. */
static bool read_subject(const char *subject, uint64_t *handle, unsigned *code)
{
    const char *last = strrchr(subject, '.');
    char digits[HANDLE_DIGITS + 1];
    char *end;

    if (!last || strlen(last) != 1 + HANDLE_DIGITS + 1)
        return false;
    memcpy(digits, last + 1, HANDLE_DIGITS);
    digits[HANDLE_DIGITS] = '\0';
    *handle = strtoull(digits, &end, 16);
    if (*end)
        return false;
    *code = (unsigned)strtoul(last + 1 + HANDLE_DIGITS, &end, 16);
    return !*end;
}

void requests_answer(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *closure)
{
    struct link *link = closure;
    struct store *store = link->store;
    uint64_t handle;
    unsigned code;
    struct request *r;
    struct answer answer;

    (void)nc;
    (void)sub;
    if (!read_subject(natsMsg_GetSubject(msg), &handle, &code)) {
        natsMsg_Destroy(msg);
        return;
    }
    read_answer(msg, code % 2 == 1, &answer);
    pthread_mutex_lock(&store->mutex);
    r = slab_get(store->requests, handle);
    if (r && r->place == SENT && code_of(r) == code) {
        if (answer.nobody || answer.status == WB_CLOSED)
            store_ask(store, r->bucket);
        if (r->op == STORE_GET)
            settle_get(r, &answer);
        else if (r->step == READ)
            settle_look(r, &answer);
        else
            settle_write(r, &answer);
    }
    pthread_mutex_unlock(&store->mutex);
    free(answer.message.value);
    natsMsg_Destroy(msg);
}

/* --- life --- */

wb_status requests_init(struct store *store)
{
    TAILQ_INIT(&store->queued);
    TAILQ_INIT(&store->sent);
    store->requests = slab_create(sizeof(struct request), STORE_REQUESTS_MAX);
    store->deadlines = deadlines_create(STORE_REQUESTS_MAX);
    return store->requests && store->deadlines ? WB_OK : WB_NO_MEMORY;
}

static void free_bytes(void *arg, void *object, uint64_t handle)
{
    struct request *r = object;

    (void)arg;
    (void)handle;
    free(r->bytes);
}

void requests_fini(struct store *store)
{
    if (store->requests)
        slab_each(store->requests, free_bytes, NULL);
    slab_destroy(store->requests);
    deadlines_destroy(store->deadlines);
}
