/* The ledger: attribution records on their way to the bucket.
 *
 * An entry is one record, with at most two revisions: the first when the first answer arrived, for
 * a stream a second when it ended. It is in exactly one of these places, and in none once done:
 *
 *   queued   to be written when the gate is open; order of arrival
 *   sent     published to $KV.<bucket>.<key>, its acknowledgement awaited (ACK_MS)
 *   reading  a compare-and-set failed: the present record is being read from the leader (READ_MS)
 *   stored   its first revision is acknowledged (or was given up) and its stream runs on
 *
 * Writes are pipelined up to WINDOW; the backlog is bounded in entries and bytes: over it a
 * revision is dropped and counted, requests go on. When JetStream says no or nothing (503, full,
 * timeout), the gate closes with back-off and one entry at a time probes it, so a missing bucket
 * costs a few messages a second. A record that could not be written within GIVE_UP_MS is given up
 * and counted.
 *
 * A client's retry may ask for a record that has not reached the bucket: each key leads to its
 * newest entry. When that one is done the bucket is the place to ask, whatever older entries of the
 * key still wait. An older one that fails its compare-and-set gives way: the newer would write over
 * it, and many of one key in a backlog would use up each other's rounds.
 *
 * The rules of who may overwrite whom are spec section 6's: the first try of a first revision is a
 * plain put if the router made the id, else compare-and-set on 0; everything later is a
 * compare-and-set; on "wrong last sequence" (10071) the record is read and judge() decides. */
#include "router/ledger.h"
#include "router/affinity.h"
#include "router/links.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/list.h"
#include "base/loop.h"
#include "store/store.h"
#include "wire/headers.h"
#include "wire/js.h"

#define WINDOW 4096
#define ENTRIES_MAX 65536
#define BACKLOG_BYTES_MAX (64u * 1024 * 1024)
#define ACK_MS 5000
#define READ_MS 1000
#define GIVE_UP_MS 120000
#define GATE_MIN_MS 250 /* ADR-22: pause between tries while JetStream has no leader */
#define GATE_MAX_MS 5000
#define START_MS 2000 /* how long the first write waits for the bucket to be bound */
#define ROUNDS_MAX 3
#define ENTRY_MAGIC 0x656e7472u
#define ERR_WRONG_SEQUENCE 10071
#define ERR_BUSY 10167 /* 2.11 and later: too many at once */
#define NO_EXPECT UINT64_MAX
#define RID_SIZE (WB_NAME_MAX + 48)

enum entry_place { ENTRY_QUEUED, ENTRY_SENT, ENTRY_READING, ENTRY_STORED, ENTRY_PLACES };

struct entry {
    unsigned magic;
    uint8_t place, rounds;
    bool ending;    /* the revision under way is the stream's end */
    bool open;      /* its stream runs: an end will come */
    bool replaces;  /* the end stands in for a first revision that was given up */
    bool newest;    /* of its key here: by_key leads to it */
    bool overtaken; /* a newer entry of its key came: what stands in the way is not fought over */
    uint16_t key_len;
    uint32_t first_len, end_len;
    uint64_t handle, transit, rid, expect, revision;
    mono born, sent_at;
    wall received_at;
    struct link link;        /* on the list of its place */
    struct deadline confirm; /* before_reply: how long the answer waits */
    struct ledger *ledger;
    char *first; /* key, then the first revision's value */
    char *end;
};

struct entry_list {
    struct list list;
    uint32_t count;
};

struct ledger {
    struct router *router;
    struct slab *entries;
    struct entry_list lists[ENTRY_PLACES];
    struct map *by_key; /* the newest entry of each key */
    uint64_t bytes;
    struct loop_timer *timer;
    struct loop_hook *hook;
    mono gate_until; /* closed until then */
    int64_t gate_ms; /* present back-off; 0: open */
    bool probing;    /* one entry is out to see whether the gate may open */
    char kv_prefix[WB_SUBJECT_MAX], get_subject[WB_SUBJECT_MAX];
    size_t kv_prefix_len;
    struct buf scratch, data;
    char rid_prefix[WB_NAME_MAX + 24];
    size_t rid_prefix_len;
};

static void put_in(struct entry *e, enum entry_place place, bool front)
{
    struct entry_list *lists = e->ledger->lists;

    if (e->place != ENTRY_PLACES) {
        link_remove(&e->link);
        lists[e->place].count--;
    }
    e->place = (uint8_t)place;
    if (place == ENTRY_PLACES)
        return;
    if (front)
        list_prepend(&lists[place].list, &e->link);
    else
        list_append(&lists[place].list, &e->link);
    lists[place].count++;
}

static struct entry *first_in(const struct ledger *l, enum entry_place place)
{
    return LIST_OWNER(list_first(&l->lists[place].list), struct entry, link);
}

static struct entry *last_in(const struct ledger *l, enum entry_place place)
{
    return LIST_OWNER(list_last(&l->lists[place].list), struct entry, link);
}

static struct span key_of(const struct entry *e)
{
    /* The analyzer loses track of the lists: discard() takes an entry off before it is freed. */
    return span_of(e->first, e->key_len); // NOLINT(clang-analyzer-unix.Malloc)
}

/* From here on its key leads to it, and not to an older entry of a request with the same id. */
static void index_entry(struct entry *e)
{
    struct map *by_key = e->ledger->by_key;
    wb_status status = map_put(by_key, key_of(e), e);

    if (status == WB_EXISTS) {
        struct entry *older = map_remove(by_key, key_of(e));

        older->newest = false;
        older->overtaken = true;
        status = map_put(by_key, key_of(e), e);
    }
    e->newest = status == WB_OK;
}

static struct transit *transit_of(struct entry *e)
{
    return e->transit ? slab_get(e->ledger->router->transits, e->transit) : NULL;
}

static void confirm(struct entry *e, bool confirmed)
{
    struct transit *t = transit_of(e);

    deadline_cancel(e->ledger->router->deadlines, &e->confirm);
    if (t && t->held_for_ack)
        relay_release(t, confirmed);
}

static void discard(struct entry *e)
{
    struct ledger *l = e->ledger;
    struct transit *t = transit_of(e);

    if (t && t->entry == e->handle)
        t->entry = 0;
    confirm(e, false);
    put_in(e, ENTRY_PLACES, false);
    if (e->newest)
        map_remove(l->by_key, key_of(e));
    l->bytes -= e->first_len + e->end_len;
    free(e->first);
    free(e->end);
    e->magic = 0;
    slab_give(l->entries, e->handle);
}

/* The revision under way is over. */
static void revision_done(struct entry *e, bool stored)
{
    e->rounds = 0;
    if (e->ending || (!e->open && !e->end)) {
        confirm(e, stored);
        discard(e);
        return;
    }
    confirm(e, stored);
    e->replaces = !stored;
    if (e->end) {
        e->ending = true;
        e->expect = stored ? e->revision : 0;
        put_in(e, ENTRY_QUEUED, false);
    } else {
        put_in(e, ENTRY_STORED, false);
    }
}

static void count(struct entry *e, enum count which)
{
    router_count(e->ledger->router, which);
}

static void give_up(struct entry *e)
{
    count(e, COUNT_ATTRIBUTION_FAILED);
    revision_done(e, false);
}

static void superseded(struct entry *e)
{
    count(e, COUNT_ATTRIBUTION_SUPERSEDED);
    e->open = false; /* what comes later of this request is older too */
    confirm(e, false);
    discard(e);
}

static void close_gate(struct ledger *l, mono now)
{
    if (l->gate_ms && mono_before(now, l->gate_until))
        return; /* one of a burst: the first closed it */
    l->gate_ms = l->gate_ms ? l->gate_ms * 2 : GATE_MIN_MS;
    if (l->gate_ms > GATE_MAX_MS)
        l->gate_ms = GATE_MAX_MS;
    l->gate_until = mono_add_ms(
        now, l->gate_ms / 2 + (int64_t)rng_below(&l->router->rng, (uint64_t)l->gate_ms / 2 + 1));
    l->probing = false;
    loop_timer_set(l->timer, l->gate_until);
}

static void open_gate(struct ledger *l)
{
    l->gate_ms = 0;
    l->probing = false;
}

/* Not acknowledged: to be tried again, or given up if it is too old. */
static void again(struct entry *e, mono now)
{
    if (mono_diff_us(now, e->born) > GIVE_UP_MS * 1000LL) {
        e->born = now; /* the end has its own time */
        give_up(e);
        return;
    }
    count(e, COUNT_ATTRIBUTION_RETRIED);
    if (!e->ending && e->expect == NO_EXPECT)
        e->expect = 0; /* a repeat is a compare-and-set */
    put_in(e, ENTRY_QUEUED, true);
}

static struct span value_of(const struct entry *e)
{
    return e->ending ? span_of(e->end, e->end_len)
                     : span_of(e->first + e->key_len, e->first_len - e->key_len);
}

static size_t kv_subject(const struct ledger *l, struct span key, char *out)
{
    memcpy(out, l->kv_prefix, l->kv_prefix_len);
    memcpy(out + l->kv_prefix_len, key.ptr, key.len);
    return l->kv_prefix_len + key.len;
}

static bool send(struct entry *e, mono now)
{
    struct ledger *l = e->ledger;
    char subject[2 * WB_SUBJECT_MAX], inbox[INBOX_SIZE];
    struct span headers = SPAN_EMPTY;
    wb_status status;

    if (e->expect != NO_EXPECT) {
        struct header_writer w;

        buf_clear(&l->scratch);
        header_open(&w, &l->scratch);
        header_add_u64(&w, H_EXPECTED_LAST_SUBJECT_SEQ, e->expect);
        if (header_close(&w) != WB_OK)
            return false;
        headers = buf_span(&l->scratch);
    }
    status = lane_publish_known(
        l->router->back, span_of(subject, kv_subject(l, key_of(e), subject)),
        span_of(inbox, links_inbox(l->router, 'a', e->handle, inbox)), headers, value_of(e));
    if (status == WB_TOO_LARGE || status == WB_INVALID) {
        give_up(e);
        return true;
    }
    if (status != WB_OK)
        return false;
    e->sent_at = now;
    put_in(e, ENTRY_SENT, false);
    return true;
}

static void pump(struct ledger *l, mono now)
{
    struct entry *e;

    if (!lane_is_up(l->router->back))
        return;
    if (l->gate_ms && (l->probing || mono_before(now, l->gate_until)))
        return;
    while ((e = first_in(l, ENTRY_QUEUED)) && l->lists[ENTRY_SENT].count < WINDOW) {
        if (!send(e, now)) {
            loop_timer_set(l->timer, mono_add_ms(now, 20));
            return;
        }
        if (l->gate_ms && l->lists[ENTRY_SENT].count) {
            l->probing = true;
            break;
        }
    }
}

wb_status ledger_ask(struct ledger *l, struct span key, char kind, uint64_t handle)
{
    char subject[2 * WB_SUBJECT_MAX], inbox[INBOX_SIZE];
    wb_status status;

    buf_clear(&l->scratch);
    status = js_msg_get_request(&l->scratch, span_of(subject, kv_subject(l, key, subject)));
    if (status != WB_OK)
        return status;
    return lane_publish(l->router->back, span_str(l->get_subject),
                        span_of(inbox, links_inbox(l->router, kind, handle, inbox)), SPAN_EMPTY,
                        buf_span(&l->scratch));
}

static void read_record(struct entry *e, mono now)
{
    if (++e->rounds > ROUNDS_MAX) {
        give_up(e);
        return;
    }
    if (ledger_ask(e->ledger, key_of(e), 'r', e->handle) != WB_OK) {
        again(e, now);
        return;
    }
    e->sent_at = now;
    put_in(e, ENTRY_READING, false);
}

static void acknowledged(struct entry *e, uint64_t seq)
{
    open_gate(e->ledger);
    count(e, COUNT_ATTRIBUTION_WRITTEN);
    e->revision = seq;
    revision_done(e, true);
}

static void on_ack(struct entry *e, const struct lane_message *m, mono now)
{
    struct ledger *l = e->ledger;
    struct js_ack ack = {0};
    bool nobody, readable;

    if (e->place != ENTRY_SENT)
        return;
    nobody = m->headers.len && header_status(m->headers);
    if (nobody)
        store_recheck(l->router->store, l->router->settings->attribution.bucket);
    readable = !nobody && js_ack_parse(m->payload, &ack) == WB_OK;
    if (readable && ack.code == 0) {
        acknowledged(e, ack.seq);
    } else if (readable && ack.err_code == ERR_WRONG_SEQUENCE) {
        open_gate(l);
        if (e->overtaken)
            superseded(e);
        else
            read_record(e, now);
    } else if (readable && ack.code == 400 && ack.err_code != ERR_BUSY) {
        open_gate(l);
        give_up(e);
    } else {
        close_gate(l, now);
        again(e, now);
    }
}

/* "<router>.<its start>.<number>": names one write of one router's life. */
static size_t write_rid(const struct ledger *l, uint64_t number, char out[RID_SIZE])
{
    char digits[20];
    unsigned used = 0;
    size_t n = l->rid_prefix_len;

    memcpy(out, l->rid_prefix, n);
    do {
        digits[used++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (used)
        out[n++] = digits[--used];
    return n;
}

static bool is_ours(const struct entry *e, const struct record_brief *b)
{
    char rid[RID_SIZE];
    size_t n = write_rid(e->ledger, e->rid, rid);

    return span_eq_str(span_of(rid, n), b->rid);
}

static void write_over(struct entry *e, uint64_t revision)
{
    count(e, COUNT_ATTRIBUTION_RETRIED);
    e->expect = revision;
    put_in(e, ENTRY_QUEUED, true);
}

enum verdict { VERDICT_DONE, VERDICT_WRITE_OVER, VERDICT_SUPERSEDED };

/* Spec section 6: who may overwrite what the bucket holds. A marker: nothing is there. */
static enum verdict judge(const struct entry *e, const struct js_message *found, struct span data)
{
    struct record_brief brief;
    bool mine;

    if (found->marker)
        return e->ending && !e->replaces ? VERDICT_SUPERSEDED : VERDICT_WRITE_OVER;
    if (record_decode_brief(data, &brief) != WB_OK)
        return VERDICT_SUPERSEDED; /* unreadable: of a newer version perhaps */
    mine = is_ours(e, &brief);
    if (mine && !(e->ending && strcmp(brief.outcome, "streaming") == 0))
        return VERDICT_DONE;
    return mine || brief.received_at.us < e->received_at.us ? VERDICT_WRITE_OVER
                                                            : VERDICT_SUPERSEDED;
}

static void on_read(struct entry *e, const struct lane_message *m, mono now)
{
    struct ledger *l = e->ledger;
    struct js_message found = {0};

    if (e->place != ENTRY_READING)
        return;
    buf_clear(&l->data);
    if ((m->headers.len && header_status(m->headers)) ||
        js_msg_get_parse(m->payload, &found, &l->data) != WB_OK ||
        (found.code && found.code != 404)) {
        close_gate(l, now);
        again(e, now);
        return;
    }
    if (found.code == 404) {
        found.marker = true;
        found.seq = 0;
    }
    switch (judge(e, &found, buf_span(&l->data))) {
    case VERDICT_DONE:
        acknowledged(e, found.seq);
        break;
    case VERDICT_WRITE_OVER:
        write_over(e, found.seq);
        break;
    case VERDICT_SUPERSEDED:
        superseded(e);
        break;
    }
}

void ledger_on_inbox(struct ledger *l, struct span token, const struct lane_message *m, mono now)
{
    struct entry *e;

    if (token.len != 1 + TOKEN_HANDLE_LEN)
        return;
    e = slab_get(l->entries, (uint64_t)id_decode(token.ptr + 1, TOKEN_HANDLE_LEN));
    if (!e)
        return;
    MAGIC_CHECK(e, ENTRY_MAGIC);
    if (token.ptr[0] == 'a')
        on_ack(e, m, now);
    else if (token.ptr[0] == 'r')
        on_read(e, m, now);
}

/* Sent and reading entries stand in the order of time: only the heads can be late. */
static void expire(struct ledger *l, enum entry_place place, int64_t limit_ms, mono now)
{
    struct entry *e;

    while ((e = first_in(l, place)) && mono_diff_us(now, e->sent_at) > limit_ms * 1000) {
        /* Silence may be a missing bucket: a listener on its subjects hides the 503. */
        store_recheck(l->router->store, l->router->settings->attribution.bucket);
        close_gate(l, now);
        again(e, now);
    }
}

static void tick(void *arg)
{
    struct ledger *l = arg;
    mono now = loop_now(l->router->loop);

    expire(l, ENTRY_SENT, ACK_MS, now);
    expire(l, ENTRY_READING, READ_MS, now);
    pump(l, now);
    loop_timer_set(l->timer,
                   mono_add_ms(now, l->lists[ENTRY_SENT].count || l->lists[ENTRY_READING].count ||
                                            l->lists[ENTRY_QUEUED].count
                                        ? 100
                                        : 1000));
}

static void before_sleep(void *arg)
{
    struct ledger *l = arg;

    if (first_in(l, ENTRY_QUEUED))
        pump(l, loop_now(l->router->loop));
}

static wb_status encode(struct transit *t, const char *outcome, int code, bool end,
                        uint64_t rid_number, struct buf *out)
{
    struct router *r = t->router;
    char rid[RID_SIZE];
    struct record rec = {
        .worker = worker_name(t->server),
        .rank = t->core.rank,
        .attempt = t->core.attempt,
        .service = t->service->name,
        .request_id = t->id,
        .selected = span_str(t->core.selected ? t->core.selected->id : NULL),
        .policy = span_str(policy_name(t->service->settings->policy)),
        .reason = span_str(reason_name(t->core.reason)),
        .session = affinity_name(t),
        .adapter = t->core.adapter,
        .subject = t->subject,
        .router = r->id,
        .worker_epoch = t->core.charge.worker ? t->core.charge.epoch : t->server->epoch,
        .trace = t->trace.ptr ? t->trace : SPAN_EMPTY,
        .received_at = t->received_at,
        .first_reply_us = t->first_reply_us,
        .finished_at = {-1},
        .replies = -1,
        .code = code ? code : -1,
        .outcome = span_str(outcome),
    };

    for (unsigned i = 0; i < t->core.tried_count && rec.tried_count < RECORD_TRIED_MAX; i++) {
        if (t->core.tried_causes[i] == CAUSE_NONE)
            continue;
        rec.tried[rec.tried_count].worker = worker_name(t->core.tried[i]);
        rec.tried[rec.tried_count++].cause = span_str(cause_name(t->core.tried_causes[i]));
    }
    if (end) {
        rec.finished_at = (wall){t->received_at.us + mono_diff_us(loop_now(r->loop), t->received)};
        rec.replies = (int64_t)(t->replies == WB_REPLIES_STREAM ? t->answers : 1);
    }
    rec.rid = span_of(rid, write_rid(r->ledger, rid_number, rid));
    return record_encode(&rec, out);
}

static void confirm_late(struct deadline *d, mono now)
{
    struct entry *e = CONTAINER_OF(d, struct entry, confirm);

    (void)now;
    MAGIC_CHECK(e, ENTRY_MAGIC);
    confirm(e, false);
}

static bool room(struct ledger *l)
{
    if (ledger_backlog(l) < ENTRIES_MAX && l->bytes < BACKLOG_BYTES_MAX)
        return true;
    router_count(l->router, COUNT_ATTRIBUTION_DROPPED);
    return false;
}

bool ledger_first(struct transit *t, const char *outcome, int code, mono now)
{
    struct router *r = t->router;
    struct ledger *l = r->ledger;
    struct entry *e;
    uint64_t handle;
    bool stream = t->replies == WB_REPLIES_STREAM;

    if (r->settings->attribution.write == ATTRIBUTION_OFF || !room(l))
        return false;
    e = slab_take(l->entries, &handle);
    if (!e) {
        router_count(r, COUNT_ATTRIBUTION_DROPPED);
        return false;
    }
    e->magic = ENTRY_MAGIC;
    e->place = ENTRY_PLACES;
    e->handle = handle;
    e->ledger = l;
    e->rid = ++r->rid_counter;
    buf_clear(&l->data);
    e->key_len = (uint16_t)(t->service->name.len + 1 + t->id.len);
    if (buf_reserve(&l->data, e->key_len)) {
        transit_key(t->service->name, t->id, l->data.data + l->data.tail);
        buf_grew(&l->data, e->key_len);
    }
    if (encode(t, outcome, code, !stream, e->rid, &l->data) != WB_OK ||
        !(e->first = malloc(buf_len(&l->data)))) {
        e->magic = 0;
        slab_give(l->entries, handle);
        router_count(r, COUNT_ATTRIBUTION_DROPPED);
        return false;
    }
    e->first_len = (uint32_t)buf_len(&l->data);
    memcpy(e->first, buf_span(&l->data).ptr, e->first_len);
    l->bytes += e->first_len;
    index_entry(e);
    e->transit = t->handle;
    e->open = stream;
    e->expect = t->made_id ? NO_EXPECT : 0;
    e->born = now;
    e->received_at = t->received_at;
    deadline_init(&e->confirm, confirm_late);
    if (t->held_for_ack &&
        deadline_set(r->deadlines, &e->confirm,
                     mono_add_ms(now, r->settings->attribution.write_timeout_ms)) != WB_OK)
        t->held_for_ack = false;
    t->entry = handle;
    put_in(e, ENTRY_QUEUED, false);
    return true;
}

void ledger_end(struct transit *t, const char *outcome, int code, mono now)
{
    struct router *r = t->router;
    struct ledger *l = r->ledger;
    struct entry *e = t->entry ? slab_get(l->entries, t->entry) : NULL;

    if (!e || !e->open)
        return;
    e->open = false;
    buf_clear(&l->data);
    if (encode(t, outcome, code, true, e->rid, &l->data) == WB_OK &&
        (e->end = malloc(buf_len(&l->data)))) {
        e->end_len = (uint32_t)buf_len(&l->data);
        memcpy(e->end, buf_span(&l->data).ptr, e->end_len);
        l->bytes += e->end_len;
    } else {
        router_count(r, COUNT_ATTRIBUTION_DROPPED);
    }
    if (e->place != ENTRY_STORED)
        return;
    if (!e->end) {
        discard(e);
        return;
    }
    e->ending = true;
    e->born = now;
    e->expect = e->replaces ? 0 : e->revision;
    put_in(e, ENTRY_QUEUED, false);
}

bool ledger_newest(const struct ledger *l, struct span key, struct span *value)
{
    const struct entry *e = map_get(l->by_key, key);

    if (!e)
        return false;
    MAGIC_CHECK(e, ENTRY_MAGIC);
    *value = e->end ? span_of(e->end, e->end_len)
                    : span_of(e->first + e->key_len, e->first_len - e->key_len);
    return true;
}

void ledger_link(struct ledger *l, bool up, mono now)
{
    struct entry *e;

    l->probing = false; /* whatever was out to probe is answered no more */
    if (up)
        return; /* the queue is written as the gate allows */
    /* Whether what was sent arrived is unknown: each is tried again, as a repeat. */
    while ((e = last_in(l, ENTRY_SENT)))
        again(e, now);
    while ((e = last_in(l, ENTRY_READING)))
        again(e, now);
}

void ledger_bucket(struct ledger *l, bool there, mono now)
{
    (void)now;
    if (there)
        open_gate(l);
}

uint32_t ledger_backlog(const struct ledger *l)
{
    return l->lists[ENTRY_QUEUED].count + l->lists[ENTRY_SENT].count +
           l->lists[ENTRY_READING].count;
}

uint64_t ledger_backlog_bytes(const struct ledger *l)
{
    return l->bytes;
}

bool ledger_idle(const struct ledger *l)
{
    return ledger_backlog(l) == 0;
}

struct ledger *ledger_create(struct router *r)
{
    struct ledger *l = calloc(1, sizeof *l);
    const char *bucket = r->settings->attribution.bucket;

    if (!l)
        return NULL;
    l->router = r;
    for (unsigned i = 0; i < ENTRY_PLACES; i++)
        list_init(&l->lists[i].list);
    l->entries = slab_create(sizeof(struct entry), ENTRIES_MAX + r->settings->limits.in_flight);
    l->by_key = map_create(ENTRIES_MAX + r->settings->limits.in_flight);
    l->kv_prefix_len = (size_t)snprintf(l->kv_prefix, sizeof l->kv_prefix, "$KV.%s.", bucket);
    snprintf(l->get_subject, sizeof l->get_subject, "$JS.API.STREAM.MSG.GET.KV_%s", bucket);
    l->rid_prefix_len = (size_t)snprintf(l->rid_prefix, sizeof l->rid_prefix, "%s.%" PRId64 ".",
                                         r->settings->id, r->started_ms);
    buf_init(&l->scratch, 4096);
    buf_init(&l->data, 256 * 1024);
    l->hook = loop_hook_create(r->loop, before_sleep, l);
    l->timer = loop_timer_create(r->loop, tick, l);
    if (!l->entries || !l->by_key || !l->hook || !l->timer) {
        ledger_destroy(l);
        return NULL;
    }
    return l;
}

void ledger_start(struct ledger *l)
{
    mono now = loop_now(l->router->loop);

    /* Until the store has bound the bucket a write may fall on nobody's ear without a word: wait
     * for it, within bounds. */
    l->gate_ms = GATE_MIN_MS;
    l->gate_until = mono_add_ms(now, START_MS);
    loop_timer_set(l->timer, mono_add_ms(now, 100));
}

static void free_entry(void *arg, void *object, uint64_t handle)
{
    struct ledger *l = arg;
    struct entry *e = object;

    free(e->first);
    free(e->end);
    deadline_cancel(l->router->deadlines, &e->confirm);
    slab_give(l->entries, handle);
}

void ledger_destroy(struct ledger *l)
{
    if (!l)
        return;
    if (l->entries)
        slab_each(l->entries, free_entry, l);
    map_destroy(l->by_key);
    slab_destroy(l->entries);
    loop_timer_destroy(l->timer);
    if (l->hook)
        loop_hook_destroy(l->hook);
    buf_fini(&l->scratch);
    buf_fini(&l->data);
    free(l);
}
