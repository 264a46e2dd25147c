/* A worker's heartbeats: one thread that sleeps until the next is due.
 *
 * Due is: interval_ms after the last one; at once when the state changes; a random 0 to 500 ms
 * after a router's announce, so that ten thousand workers do not answer it in one instant. These
 * are full ones, adapters included. While nats.c is reconnecting none is sent: it would be kept and
 * delivered late, and a late heartbeat says that a dead worker lives.
 *
 * Between them small ones, without adapters, tell the load when it has changed, since each router
 * counts what the others have here. The first change opens a window of load_ms; at its end the load
 * is told, if it is another than was told last. So many short tasks cost one heartbeat a window,
 * and one that came and went within a window costs none; a window as long as the interval never
 * ends before the next full one. Where a router may not know what is left out (it has announced
 * itself, or our link was away) the window ends with a full one.
 *
 * The thread reads the worker under its lock and publishes without it, but in the order of what it
 * read: a `ready` must not overtake the `draining` that drain's own thread sends. It sleeps on a
 * condition of its own, so requests do not wake it. It ends when the state is WORKER_STOPPED. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "client/message.h"
#include "client/worker_state.h"

#define ANNOUNCE_SPREAD_US 500000

enum kind { KIND_FULL, KIND_LOAD, KIND_LEAVING };

static enum heartbeat_state state_word(enum worker_state state)
{
    switch (state) {
    case WORKER_BUSY:
        return HB_BUSY;
    case WORKER_DRAINING:
        return HB_DRAINING;
    case WORKER_STOPPED:
        return HB_LEAVING;
    default:
        return HB_READY;
    }
}

static void fill_fixed(const struct wb_worker *w, struct heartbeat *hb)
{
    heartbeat_defaults(hb);
    hb->epoch = w->options.epoch;
    hb->interval_ms = w->options.interval_ms;
    hb->capacity = w->options.capacity;
    hb->weight = w->options.weight;
    hb->ranks = w->options.ranks;
    hb->adapter_slots = w->options.adapter_slots;
    if (w->class_name != NULL)
        memcpy(hb->class_name, w->class_name, strlen(w->class_name) + 1);
}

/* Under the lock. The spans point into the worker. */
static void fill_load(struct wb_worker *w, struct heartbeat *hb)
{
    hb->state = state_word(w->state);
    hb->inflight = w->told_inflight = w->inflight;
    w->load_changed = false;
    hb->has_inflight_by = true;
    for (unsigned i = 0; i < w->router_count; i++) {
        w->routers[i].told = w->routers[i].count;
        if (w->routers[i].count == 0)
            continue;
        struct heartbeat_inflight *slot = &hb->inflight_by[hb->inflight_by_count++];
        *slot = (struct heartbeat_inflight){span_str(w->routers[i].id), w->routers[i].count};
    }
}

static void fill_adapters(struct wb_worker *w, struct heartbeat *hb)
{
    w->full_owed = false;
    hb->has_adapters = true;
    for (unsigned i = 0; i < w->adapter_count; i++)
        hb->adapters[hb->adapter_count++] = span_str(w->adapters[i]);
}

static wb_status encode(struct wb_worker *w, enum kind kind, struct buf *out)
{
    struct heartbeat hb;
    fill_fixed(w, &hb);
    pthread_mutex_lock(&w->lock);
    hb.inflight_by = calloc(w->router_count + 1, sizeof(*hb.inflight_by));
    hb.adapters = calloc(w->adapter_count + 1, sizeof(*hb.adapters));
    wb_status s = WB_NO_MEMORY;
    if (hb.inflight_by != NULL && hb.adapters != NULL) {
        fill_load(w, &hb);
        if (kind != KIND_LOAD)
            fill_adapters(w, &hb);
        if (kind == KIND_LEAVING)
            hb.state = HB_LEAVING;
        s = heartbeat_encode_msgpack(&hb, out);
    }
    pthread_mutex_unlock(&w->lock);
    free(hb.inflight_by);
    free(hb.adapters);
    return s;
}

/* Routers know nothing of what it said, if it was made. */
static void not_told(struct wb_worker *w, bool made)
{
    pthread_mutex_lock(&w->lock);
    w->full_owed = true;
    if (made) {
        w->told_inflight = NOTHING_TOLD;
        w->load_changed = true;
    }
    pthread_mutex_unlock(&w->lock);
}

static wb_status tell(struct wb_worker *w, enum kind kind)
{
    struct buf bytes;
    buf_init(&bytes, HEARTBEAT_SIZE_MAX);
    pthread_mutex_lock(&w->telling);
    wb_status s = WB_CLOSED;
    if (natsConnection_Status(w->nc) == NATS_CONN_STATUS_CONNECTED)
        s = encode(w, kind, &bytes);
    if (s == WB_OK) {
        struct span all = buf_span(&bytes);
        s = message_status(
            natsConnection_Publish(w->nc, w->heartbeat_subject, all.ptr, (int)all.len));
    }
    if (s != WB_OK)
        not_told(w, s != WB_CLOSED || buf_len(&bytes) > 0);
    pthread_mutex_unlock(&w->telling);
    buf_fini(&bytes);
    return s;
}

wb_status heartbeats_send(struct wb_worker *w, bool leaving)
{
    return w->options.no_heartbeats ? WB_OK : tell(w, leaving ? KIND_LEAVING : KIND_FULL);
}

void heartbeats_load(struct wb_worker *w)
{
    if (w->load_changed)
        return;
    w->load_changed = true;
    pthread_cond_signal(&w->due);
}

/* Under the lock. */
static bool load_is_news(const struct wb_worker *w)
{
    if (!w->load_changed || w->inflight != w->told_inflight)
        return w->load_changed;
    for (unsigned i = 0; i < w->router_count; i++)
        if (w->routers[i].count != w->routers[i].told)
            return true;
    return false;
}

/* How often the link came back. What was sent before may be lost. */
static uint64_t count_reconnects(natsConnection *nc)
{
    natsStatistics *all = NULL;
    uint64_t count = 0;
    if (natsStatistics_Create(&all) == NATS_OK && natsConnection_GetStats(nc, all) == NATS_OK)
        natsStatistics_GetCounts(all, NULL, NULL, NULL, NULL, &count);
    natsStatistics_Destroy(all);
    return count;
}

/* One heartbeat, with the lock let go. Nothing depends on it: the next one follows in any case, and
 * routers count what is missing. */
static void beat_once(struct wb_worker *w, enum kind kind, uint64_t *reconnects)
{
    pthread_mutex_unlock(&w->lock);
    uint64_t count = count_reconnects(w->nc);
    wb_status s = tell(w, count != *reconnects ? KIND_FULL : kind);
    if (s == WB_OK)
        *reconnects = count;
    pthread_mutex_lock(&w->lock);
}

static void *beat(void *arg)
{
    struct wb_worker *w = arg;
    MAGIC_CHECK(w, WORKER_MAGIC);
    uint64_t reconnects = count_reconnects(w->nc);
    mono window_end = MONO_NEVER;
    pthread_mutex_lock(&w->lock);
    while (w->state != WORKER_STOPPED) {
        mono now = clock_mono();
        if (w->load_changed && mono_is_never(window_end))
            window_end = mono_add_ms(now, w->options.load_ms);
        if (!mono_before(now, w->next_beat) || (w->full_owed && !mono_before(now, window_end))) {
            window_end = MONO_NEVER;
            w->next_beat = mono_add_ms(now, w->options.interval_ms);
            beat_once(w, KIND_FULL, &reconnects);
        } else if (!mono_before(now, window_end)) {
            window_end = MONO_NEVER;
            if (load_is_news(w))
                beat_once(w, KIND_LOAD, &reconnects);
            else
                w->load_changed = false;
        } else {
            worker_wait(w, &w->due, mono_min(w->next_beat, window_end));
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

wb_status heartbeats_start(struct wb_worker *w)
{
    if (w->options.no_heartbeats)
        return WB_OK;
    w->next_beat = clock_mono();
    if (pthread_create(&w->beater, NULL, beat, w) != 0)
        return WB_NO_MEMORY;
    w->beating = true;
    return WB_OK;
}

void heartbeats_stop(struct wb_worker *w)
{
    if (!w->beating)
        return;
    pthread_join(w->beater, NULL);
    w->beating = false;
}

static void due_at(struct wb_worker *w, mono when)
{
    w->next_beat = mono_min(w->next_beat, when);
    pthread_cond_signal(&w->due);
}

void heartbeats_announce(struct wb_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->full_owed = true;
    due_at(w, mono_add_us(clock_mono(), (int64_t)rng_below(&w->rng, ANNOUNCE_SPREAD_US + 1)));
    pthread_mutex_unlock(&w->lock);
}

void heartbeats_now(struct wb_worker *w)
{
    pthread_mutex_lock(&w->lock);
    due_at(w, clock_mono());
    pthread_mutex_unlock(&w->lock);
}
