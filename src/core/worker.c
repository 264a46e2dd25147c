#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

#define BLOCK_SIZE ((sizeof(struct worker_whole) + WORKER_LINE - 1) / WORKER_LINE * WORKER_LINE)

_Static_assert(offsetof(struct worker, epoch) == WORKER_LINE, "a choice touches one line");
_Static_assert(offsetof(struct worker, refused) <= 2 * (size_t)WORKER_LINE, "a request two");

struct worker *worker_create(struct pool *pool, struct span id)
{
    struct worker_whole *whole;
    struct worker *w;

    CHECK(id.len > 0 && id.len <= WB_NAME_MAX);
    whole = aligned_alloc(WORKER_LINE, BLOCK_SIZE);
    if (whole == NULL)
        return NULL;
    memset(whole, 0, sizeof(*whole));
    w = &whole->worker;
    MAGIC_SET(w, WORKER_MAGIC);
    w->pool = pool;
    w->priv = &whole->priv;
    list_init(&w->charges);
    list_init(&w->priv->ending);
    w->weight = 100;
    w->interval_ms = 5000;
    memcpy(w->id, id.ptr, id.len);
    w->priv->worker = w;
    w->id_len = (uint8_t)id.len;
    deadline_init(&w->priv->silence, worker_silence_due);
    deadline_init(&w->priv->recheck, worker_recheck_due);
    deadline_init(&w->priv->others_end, worker_others_due);
    // cppcheck-suppress memleak ; w lies at the begin of whole, and worker_unref frees it by that
    return w;
}

void worker_ref(struct worker *w)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    w->refs++;
}

void worker_unref(struct worker *w)
{
    if (w == NULL)
        return;
    MAGIC_CHECK(w, WORKER_MAGIC);
    CHECK(w->refs > 0);
    if (--w->refs > 0 || w->listed)
        return;
    CHECK(list_is_empty(&w->charges) && list_is_empty(&w->priv->ending));
    CHECK(w->priv->own.count == 0);
    queue_forget(w);
    holdings_fini(w);
    for (uint32_t i = 0; i < w->adapter_count; i++)
        free(w->adapters[i]);
    free(w->adapters);
    free(w->subject);
    free(w->cancel_subject);
    free(w->meta);
    w->magic = 0;
    free(CONTAINER_OF(w, struct worker_whole, worker));
}

bool worker_admits(const struct worker *w)
{
    return w->discovered && (w->state == WORKER_READY || w->state == WORKER_BUSY);
}

bool worker_has_room(const struct worker *w, uint32_t own, mono now)
{
    return w->state == WORKER_READY && !(w->marked && mono_before(now, w->overloaded_until)) &&
           (w->capacity == 0 || worker_load_count(w) - own < w->capacity) &&
           w->bytes_out <= w->pool->registry->options.worker_bytes;
}

/* The truth table; the first that fits:
 *
 *   discovered  state              health   marked  capacity or bytes used up | standing
 *   no          any                any      any     any                       | unknown
 *   yes         draining, leaving  any      any     any                       | draining
 *   yes         ready, busy        ejected  any     any                       | ejected
 *   yes         busy               healthy  any     any                       | busy
 *   yes         ready              healthy  yes     any                       | overloaded
 *   yes         ready              healthy  no      yes                       | full
 *   yes         ready              healthy  no      no                        | free
 *
 * An ejected one is routable only as the last resort. */
enum worker_standing worker_standing(const struct worker *w, mono now)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    if (!w->discovered)
        return STANDING_UNKNOWN;
    if (!worker_admits(w))
        return STANDING_DRAINING;
    if (w->health == WORKER_EJECTED)
        return STANDING_EJECTED;
    if (w->state == WORKER_BUSY)
        return STANDING_BUSY;
    if (mono_before(now, w->overloaded_until))
        return STANDING_OVERLOADED;
    return worker_has_room(w, 0, now) ? STANDING_FREE : STANDING_FULL;
}

const char *worker_standing_name(enum worker_standing standing)
{
    static const char *const names[] = {"unknown", "draining",   "ejected", "busy",
                                        "full",    "overloaded", "free"};

    CHECK((unsigned)standing < sizeof(names) / sizeof(names[0]));
    return names[standing];
}

const char *worker_state_name(enum worker_state state)
{
    static const char *const names[] = {"ready", "busy", "draining", "leaving"};

    CHECK((unsigned)state < sizeof(names) / sizeof(names[0]));
    return names[state];
}
