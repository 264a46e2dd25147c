/* Workers made known: by the config and by heartbeats.
 *
 * An epoch is one life of a worker's process. A higher one ends all that is under way in the lower
 * one at once and starts from nothing; a lower one is a second process under the same id and is
 * ignored while the higher one lives. The first heartbeat of a static worker begins no new life:
 * what the config said was true of the same process, so its attempts go on. What may be left out of
 * a heartbeat (adapters, meta) stays as it was within an epoch. All memory is taken before anything
 * changes, so a report is applied whole or not at all. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

struct parts { /* what a report brings that needs memory */
    char **adapters;
    uint32_t adapter_count;
    char *meta;
    struct holdings_plan plan;
    bool adapters_stay; /* the same as it has */
};

static char *copy_span(struct span text)
{
    char *copy = malloc(text.len + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

static void parts_fini(struct parts *parts)
{
    for (uint32_t i = 0; parts->adapters != NULL && i < parts->adapter_count; i++)
        free(parts->adapters[i]);
    free(parts->adapters);
    free(parts->meta);
    holdings_plan_fini(&parts->plan);
    *parts = (struct parts){0};
}

static bool parts_add_adapter(struct parts *parts, struct span name)
{
    char *copy = copy_span(name);

    if (copy == NULL)
        return false;
    parts->adapters[parts->adapter_count++] = copy;
    return true;
}

static bool same_adapters(const struct worker *w, const struct worker_report *report)
{
    if (w == NULL || !report->has_adapters || report->adapter_count != w->adapter_count ||
        (w->priv->adapters != NULL && w->priv->adapters->partial))
        return false;
    for (uint32_t i = 0; i < w->adapter_count; i++)
        if (!span_eq_str(report->adapters[i], w->adapters[i]))
            return false;
    return w->priv->adapters != NULL || report->adapter_slots == 0;
}

/* The first report of an epoch: what it lacks is none. */
static bool is_first(const struct worker *w, const struct worker_report *report)
{
    return w == NULL || !w->heard || (w->discovered && report->epoch > w->epoch);
}

/* w: NULL if it is not known yet. A report that says nothing new takes no memory. */
static bool parts_init(struct parts *parts, struct pool *pool, struct worker *w,
                       const struct worker_report *report)
{
    uint32_t count = report->has_adapters ? report->adapter_count : 0;
    /* Who had no slots and has some now holds nothing yet, but may. */
    bool unsaid = !report->has_adapters && !is_first(w, report) &&
                  (w->priv->adapters != NULL || report->adapter_slots == 0);

    *parts = (struct parts){.adapters_stay = unsaid || same_adapters(w, report)};
    if (!parts->adapters_stay && !holdings_prepare(&parts->plan, pool, w, report->adapters, count,
                                                   report->adapter_slots > 0)) {
        parts_fini(parts);
        return false;
    }
    if (!parts->adapters_stay && count > 0) {
        parts->adapters = calloc(count, sizeof(char *));
        if (parts->adapters == NULL) {
            parts_fini(parts);
            return false;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (!parts_add_adapter(parts, report->adapters[i])) {
                parts_fini(parts);
                return false;
            }
        }
    }
    if (report->has_meta && (parts->meta = copy_span(report->meta)) == NULL) {
        parts_fini(parts);
        return false;
    }
    return true;
}

static void put_adapters(struct worker *w, struct parts *parts)
{
    for (uint32_t i = 0; i < w->adapter_count; i++)
        free(w->adapters[i]);
    free(w->adapters);
    w->adapters = parts->adapters;
    w->adapter_count = parts->adapter_count;
    parts->adapters = NULL;
    parts->adapter_count = 0;
    holdings_commit(&parts->plan, w);
    queue_adapters_changed(w->pool);
}

static void put_meta(struct worker *w, struct parts *parts)
{
    free(w->meta);
    w->meta = parts->meta;
    parts->meta = NULL;
}

static uint32_t weight_of(uint32_t weight)
{
    return weight == 0 ? 100 : weight > WEIGHT_MAX ? WEIGHT_MAX : weight;
}

static void put_class(struct worker *w, struct span name)
{
    size_t len = name.len < WB_NAME_MAX ? name.len : WB_NAME_MAX;

    memset(w->class_name, 0, sizeof(w->class_name));
    if (len > 0)
        memcpy(w->class_name, name.ptr, len);
    w->cpu = strcmp(w->class_name, "cpu") == 0;
}

/* fresh: is_first. */
static void apply(struct worker *w, const struct worker_report *report, struct parts *parts,
                  bool fresh, mono now)
{
    uint32_t others = report->others;
    bool offers_other = w->ranks != report->ranks || w->adapter_slots != report->adapter_slots ||
                        !parts->adapters_stay;

    if (!report->has_others)
        others = report->inflight > w->occupancy ? report->inflight - w->occupancy : 0;
    w->told = report->has_adapters || (w->told && !is_first(w, report));
    w->epoch = report->epoch;
    w->state = report->state;
    w->interval_ms =
        (uint16_t)(report->interval_ms > 0 && report->interval_ms <= 60000 ? report->interval_ms
                                                                           : 5000);
    w->capacity = report->capacity;
    w->weight = weight_of(report->weight);
    w->ranks = (uint16_t)report->ranks;
    w->adapter_slots = report->adapter_slots;
    w->reported_inflight = report->inflight;
    w->reported_queued = report->queued;
    put_class(w, report->class_name);
    if (!parts->adapters_stay)
        put_adapters(w, parts);
    if (report->has_meta || fresh)
        put_meta(w, parts);
    if (offers_other)
        queue_worker_told(w);
    w->heard = true;
    w->heard_at = now;
    w->priv->counts_ours = report->counts_ours || (w->priv->counts_ours && !fresh);
    worker_put_others(w, others, now); /* by the new interval */
}

static bool static_parts(struct parts *parts, struct worker *w, const struct static_worker *entry)
{
    struct span *names = calloc(entry->adapter_count + 1, sizeof(*names));
    struct worker_report report = {
        .has_adapters = true, .adapters = names, .adapter_count = entry->adapter_count};
    bool done;

    if (names == NULL)
        return false;
    for (uint32_t i = 0; i < entry->adapter_count; i++)
        names[i] = span_str(entry->adapters[i]);
    done = parts_init(parts, w->pool, w, &report);
    free(names);
    return done;
}

/* Without memory for it w->subject stays NULL. */
static void put_subject(struct worker *w, struct span subject)
{
    CHECK(subject.len <= UINT16_MAX);
    w->subject = copy_span(subject);
    w->subject_len = (uint16_t)subject.len;
}

wb_status pool_add_static(struct pool *pool, const struct static_worker *entry, mono now)
{
    struct span id = span_str(entry->id);
    struct parts parts = {0};
    struct worker *w;
    wb_status status = WB_NO_MEMORY;

    if (id.len == 0 || id.len > WB_NAME_MAX)
        return WB_INVALID;
    w = worker_create(pool, id);
    if (w == NULL)
        return WB_NO_MEMORY;
    worker_ref(w);
    w->is_static = true;
    w->follows_heartbeats = entry->follows_heartbeats;
    w->weight = weight_of(entry->weight);
    w->capacity = entry->capacity;
    w->ranks = (uint16_t)entry->ranks;
    put_class(w, span_str(entry->class_name));
    put_subject(w, span_str(entry->subject));
    if (entry->cancel_subject != NULL)
        w->cancel_subject = copy_span(span_str(entry->cancel_subject));
    if (w->subject != NULL && (entry->cancel_subject == NULL || w->cancel_subject != NULL) &&
        static_parts(&parts, w, entry)) {
        put_adapters(w, &parts);
        status = pool_list(pool, w);
    }
    parts_fini(&parts);
    if (status == WB_OK) {
        w->discovered = true;
        worker_changed(w, now);
        worker_event(w, WORKER_EVENT_JOINED, now);
    }
    worker_unref(w);
    return status;
}

static enum report_result join_new(struct pool *pool, const struct worker_report *report,
                                   struct parts *parts, mono now)
{
    struct worker *w = worker_create(pool, report->id);
    enum report_result result = REPORT_NO_MEMORY;
    wb_status status;

    if (w == NULL)
        return REPORT_NO_MEMORY;
    worker_ref(w);
    put_subject(w, report->subject);
    if (report->cancel_subject.len > 0)
        w->cancel_subject = copy_span(report->cancel_subject);
    if (w->subject == NULL || (report->cancel_subject.len > 0 && w->cancel_subject == NULL))
        goto done;
    status = pool_list(pool, w);
    if (status == WB_FULL)
        result = REPORT_FULL;
    if (status != WB_OK)
        goto done;
    apply(w, report, parts, true, now);
    if (worker_listen(w, now) != WB_OK) {
        worker_forget_others(w);
        pool_unlist(pool, w);
        goto done;
    }
    w->discovered = true;
    worker_changed(w, now);
    worker_event(w, WORKER_EVENT_JOINED, now);
    if (w->discovered && w->state == WORKER_DRAINING)
        worker_event(w, WORKER_EVENT_DRAINING, now);
    result = REPORT_NEW;
done:
    worker_unref(w);
    return result;
}

/* The first heartbeat of a static worker: its attempts are the epoch's own. */
static void adopt_epoch(struct worker *w, int64_t epoch)
{
    for (struct link *at = list_first(&w->charges); at != NULL; at = list_next(&w->charges, at)) {
        struct charge *charge = CONTAINER_OF(at, struct charge, link);

        if (charge->ended == 0)
            charge->epoch = epoch;
    }
}

/* A fresh heartbeat restores, but not again and again a worker that heartbeats and does not listen.
 */
static void restore_by_heartbeat(struct worker *w, mono now)
{
    if (w->health != WORKER_EJECTED)
        return;
    if (w->priv->restored &&
        mono_diff_us(now, w->priv->restored_at) < INT64_C(1000) * RESTORE_AGAIN_MS)
        return;
    w->priv->restored = true;
    w->priv->restored_at = now;
    worker_restore(w, now);
}

static enum report_result update(struct worker *w, const struct worker_report *report,
                                 struct parts *parts, mono now)
{
    bool back = !w->discovered;
    bool new_epoch = !back && w->heard && report->epoch > w->epoch;
    bool same_epoch = !is_first(w, report);
    bool was_draining = same_epoch && w->state == WORKER_DRAINING;

    if (worker_listen(w, now) != WB_OK)
        return REPORT_NO_MEMORY;
    worker_ref(w);
    if (new_epoch || (back && report->epoch != w->epoch)) {
        charge_end_epoch(w, true);
        worker_clear_mark(w);
        w->priv->restored = false;
    } else if (!back && !w->heard) {
        adopt_epoch(w, report->epoch);
    }
    apply(w, report, parts, !same_epoch, now);
    CHECK(worker_listen(w, now) == WB_OK); /* by the new interval; armed already */
    w->discovered = true;
    worker_changed(w, now);
    if (new_epoch) {
        worker_restore(w, now);
        worker_event(w, WORKER_EVENT_EPOCH, now);
    } else {
        restore_by_heartbeat(w, now);
        if (back)
            worker_event(w, WORKER_EVENT_JOINED, now);
    }
    if (w->state == WORKER_DRAINING && !was_draining)
        worker_event(w, WORKER_EVENT_DRAINING, now);
    charge_hand_over(w, now);
    worker_unref(w);
    return back ? REPORT_NEW : new_epoch ? REPORT_NEW_EPOCH : REPORT_UPDATED;
}

enum report_result pool_report(struct pool *pool, const struct worker_report *report, mono now)
{
    struct worker *w = pool_find(pool, report->id);
    enum report_result result;
    struct parts parts;

    if (w != NULL && w->is_static && !w->follows_heartbeats)
        return REPORT_IGNORED_STATIC;
    if (w == NULL && !pool->options.heartbeats)
        return REPORT_NOT_ACCEPTED;
    if (w != NULL && w->discovered && w->heard && report->epoch < w->epoch) {
        worker_event(w, WORKER_EVENT_DUPLICATE, now);
        return REPORT_STALE_EPOCH;
    }
    if (report->state == WORKER_LEAVING) {
        if (w != NULL && w->discovered)
            worker_depart(w, WORKER_EVENT_LEFT, true, now);
        return REPORT_LEFT;
    }
    if (!parts_init(&parts, pool, w, report))
        return REPORT_NO_MEMORY;
    result = w == NULL ? join_new(pool, report, &parts, now) : update(w, report, &parts, now);
    parts_fini(&parts);
    return result;
}
