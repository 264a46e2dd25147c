#include "core_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define LOAD_SEED UINT64_C(0x61646170746572) /* all routers agree on it */

struct model model;
const char *const adapter_names[ADAPTERS] = {"a0", "a1", "a2"};

/* ---- facts ---- */

static unsigned set_of(unsigned number)
{
    return 1U << number;
}

bool set_has(unsigned set, unsigned number)
{
    return set >> number & 1;
}

static unsigned set_size(unsigned set)
{
    unsigned n = 0;

    for (; set != 0; set &= set - 1)
        n++;
    return n;
}

static unsigned number_in(const char *id)
{
    return (unsigned)atoi(id + 1);
}

unsigned number_of(const struct worker *w)
{
    return number_in(w->id);
}

static struct worker *worker_at(unsigned number)
{
    char id[8];

    snprintf(id, sizeof(id), "w%u", number);
    return pool_find(model.pool, span_str(id));
}

static bool admits(const struct worker *w)
{
    return w->discovered && (w->state == WORKER_READY || w->state == WORKER_BUSY);
}

static bool has_room(const struct worker *w)
{
    return w->state == WORKER_READY && w->overloaded_until.us <= model.now.us &&
           w->bytes_out <= WORKER_BYTES &&
           (w->capacity == 0 || w->occupancy + w->others < w->capacity);
}

/* Adapters that requests in flight make it load. */
static unsigned loads_on(const struct worker *w)
{
    unsigned set = 0;

    for (unsigned i = 0; i < LIVE; i++) {
        const struct live *live = &model.lives[i];

        if (live->used && live->adapter >= 0 && live->rq.charge.worker == w &&
            !live->rq.charge.ended)
            set |= set_of((unsigned)live->adapter);
    }
    return set & ~model.shadows[number_of(w)].adapters;
}

static void note_adapters(struct facts *f, const struct worker *w)
{
    const struct shadow *shadow = &model.shadows[number_of(w)];
    unsigned loads = loads_on(w), me = set_of(number_of(w));

    for (unsigned a = 0; a < ADAPTERS; a++) {
        if (set_has(shadow->adapters, a))
            f->holders[a] |= me;
        if (model.loading &&
            (set_has(loads, a) || shadow->slots > set_size(shadow->adapters) + set_size(loads)))
            f->loaders[a] |= me;
    }
}

struct facts facts_now(void)
{
    struct facts f = {0};
    const struct worker *resort = NULL;

    for (unsigned i = 0; i < IDS; i++) {
        const struct worker *w = worker_at(i);

        if (w == NULL)
            continue;
        f.known |= set_of(i);
        note_adapters(&f, w);
        if (has_room(w))
            f.roomy |= set_of(i);
        if (!admits(w))
            continue;
        f.admitting |= set_of(i);
        if (w->health == WORKER_HEALTHY)
            f.routable |= set_of(i);
        else if (resort == NULL || mono_before(w->ejected_until, resort->ejected_until))
            resort = w; /* moments of ejection differ: the model advances time before each */
    }
    if (f.routable == 0 && resort != NULL)
        f.routable = set_of(number_of(resort));
    f.free = f.routable & f.roomy;
    return f;
}

/* ---- who may be chosen ---- */

static bool has_target(const struct live *live)
{
    return live->target[0] != '\0';
}

static unsigned tried_by(const struct live *live)
{
    unsigned set = 0;

    for (unsigned i = 0; i < live->rq.tried_count; i++)
        set |= set_of(number_of(live->rq.tried[i]));
    return set;
}

/* Tried, and never again. */
static unsigned failed_at(const struct live *live)
{
    unsigned set = 0;

    for (unsigned i = 0; i < live->rq.tried_count; i++)
        if (live->rq.tried_causes[i] != CAUSE_REFUSED)
            set |= set_of(number_of(live->rq.tried[i]));
    return set;
}

/* The one of these that all routers let load it. */
static unsigned best_loader(unsigned adapter, unsigned of)
{
    const char *name = adapter_names[adapter];
    uint64_t highest = 0, seed = rng_hash(name, strlen(name), LOAD_SEED);
    unsigned best = 0;

    for (unsigned i = 0; i < IDS; i++) {
        const struct worker *w = set_has(of, i) ? worker_at(i) : NULL;
        uint64_t score = w != NULL ? rng_hash(w->id, strlen(w->id), seed) : 0;

        if (w != NULL && (best == 0 || score > highest)) {
            highest = score;
            best = set_of(i);
        }
    }
    return best;
}

/* Who holds it serves it; only if no routable worker does, the one whom all routers pick. */
static unsigned candidates(const struct facts *f, int adapter, unsigned without)
{
    unsigned holders;

    if (adapter < 0)
        return f->routable & ~without;
    holders = f->routable & f->holders[adapter];
    if (holders != 0)
        return holders & ~without;
    return best_loader((unsigned)adapter, f->routable & f->loaders[adapter] & ~without);
}

/* Those that might be candidates, were it not for others. */
static unsigned permitted(const struct facts *f, int adapter)
{
    unsigned holders;

    if (adapter < 0)
        return f->routable;
    holders = f->routable & f->holders[adapter];
    return holders != 0 ? holders : f->routable & f->loaders[adapter];
}

static unsigned recalled_by(const struct facts *f, const struct live *live, enum recall how)
{
    if (live->how != how || has_target(live))
        return 0;
    return set_of(number_in(live->recalled)) & permitted(f, live->adapter) & ~tried_by(live);
}

unsigned avoided_by(const struct facts *f, const struct live *live)
{
    unsigned named = recalled_by(f, live, RECALL_AVOID);

    return candidates(f, live->adapter, tried_by(live) | named) != 0 ? named : 0;
}

/* again: from the queue, also one that refused. */
static unsigned by_policy(const struct facts *f, const struct live *live, bool again)
{
    unsigned without = again ? failed_at(live) : tried_by(live);
    unsigned named = recalled_by(f, live, RECALL_AVOID);

    if (candidates(f, live->adapter, without | named) != 0)
        without |= named;
    return candidates(f, live->adapter, without) & f->free;
}

unsigned may_be_given(const struct facts *f, const struct live *live)
{
    return by_policy(f, live, false) | by_policy(f, live, true);
}

unsigned may_fall_back_to(const struct facts *f, const struct live *live)
{
    if (has_target(live) || live->pin.mode == PIN_HARD)
        return 0;
    return by_policy(f, live, false);
}

unsigned may_hope_for(const struct facts *f, const struct live *live)
{
    return candidates(f, live->adapter, failed_at(live));
}

static bool may_serve(const struct facts *f, int adapter, unsigned number)
{
    return adapter < 0 || set_has(f->holders[adapter] | f->loaders[adapter], number);
}

static bool is_hard(const struct live *live)
{
    return live->pin.mode == PIN_HARD && !has_target(live);
}

bool suits(const struct facts *f, const struct live *live)
{
    unsigned number = number_in(has_target(live) ? live->target : live->pinned);
    int32_t rank = has_target(live) ? live->rq.target_rank : live->pin.rank;
    const struct worker *w = worker_at(number);

    return w != NULL && rank < (int32_t)w->ranks && may_serve(f, live->adapter, number) &&
           (has_target(live) || set_has(f->routable, number));
}

bool waits_rightly_at(const struct facts *f, const struct live *live)
{
    return suits(f, live) && (f->admitting & ~f->roomy & live->waits_for) != 0;
}

/* ---- sessions ---- */

enum bond { UNHEARD, BROKEN, LACKING, FAILED, BUSY, FREE };

static bool has_turn(const struct live *live)
{
    return live->rq.state == REQUEST_GRANTED;
}

/* A session's worker that lacks the adapter may load it, if there is no other way for it. */
static bool may_load_for(const struct live *live)
{
    return live->pin.mode == PIN_HARD && live->pin.on_busy != ON_BUSY_SPILL;
}

static enum bond bond_with(const struct facts *f, const struct live *live)
{
    unsigned number = number_in(live->pinned), it = set_of(number);
    const struct worker *w = worker_at(number);

    if (w == NULL)
        return UNHEARD;
    if ((f->routable & failed_at(live) & it) != 0)
        return FAILED;
    if ((f->routable & it) == 0 || live->pin.rank >= (int32_t)w->ranks ||
        (avoided_by(f, live) & it) != 0)
        return BROKEN;
    if (!may_serve(f, live->adapter, number))
        return LACKING;
    if (live->adapter >= 0 && !set_has(f->holders[live->adapter], number) && !may_load_for(live))
        return BUSY;
    if ((tried_by(live) & it) != 0 && !has_turn(live))
        return BUSY;
    return (f->free & it) != 0 ? FREE : BUSY;
}

bool is_bound_free(const struct facts *f, const struct live *live)
{
    return !has_target(live) && (live->pin.mode == PIN_HARD || live->pin.mode == PIN_SOFT) &&
           bond_with(f, live) == FREE;
}

/* ---- what must come of a choice ---- */

static struct expected fails(wb_status error, const char *scope)
{
    return (struct expected){.kind = NEXT_FAIL, .error = error, .scope = scope};
}

/* Of those that were tried, or, first, of those that might have been. */
static const char *scope_of(const struct live *live)
{
    return has_target(live) || (is_hard(live) && live->at_bound) ? "worker"
           : live->adapter >= 0                                  ? "adapter"
                                                                 : "service";
}

static struct expected fails_by_cause(const struct live *live)
{
    switch (live->rq.last_cause) {
    case CAUSE_REFUSED:
        return fails(WB_OVERLOADED, scope_of(live));
    case CAUSE_LOST:
        return fails(WB_WORKER_LOST, NULL);
    case CAUSE_CANCELLED:
        return fails(WB_CANCELLED, NULL);
    case CAUSE_LINK:
        return fails(WB_LINK_LOST, NULL);
    case CAUSE_TIMEOUT:
        return fails(WB_TIMEOUT, NULL);
    default:
        return fails(WB_NO_WORKER, NULL);
    }
}

static struct expected fails_first(const struct live *live, wb_status error)
{
    return live->rq.tried_count > 0 ? fails_by_cause(live) : fails(error, NULL);
}

static bool has_room_to_wait(bool bound)
{
    uint32_t waiting = 0;

    for (unsigned i = 0; i < LIVE; i++)
        waiting += model.lives[i].used && model.lives[i].rq.state == REQUEST_QUEUED;
    return waiting < (model.queue_limit == 0 && bound ? QUEUE_BOUND_MAX : model.queue_limit);
}

static struct expected is_heard_later(void)
{
    return (struct expected){.kind = NEXT_WAIT};
}

static struct expected waits_at(const struct live *live, unsigned number)
{
    if (has_turn(live) || has_room_to_wait(is_hard(live)))
        return (struct expected){.kind = NEXT_QUEUE, .workers = set_of(number)};
    return live->rq.tried_count > 0 ? fails_by_cause(live) : fails(WB_OVERLOADED, "worker");
}

static struct expected rebinds(const struct live *live)
{
    return live->rebound ? fails_by_cause(live) : (struct expected){.kind = NEXT_REBIND};
}

static bool may_tell_yet(unsigned number)
{
    return !model.shadows[number].told && mono_before(model.now, model.wait_until);
}

static struct expected contradicted(const struct facts *f, const struct live *live)
{
    enum bond bond = bond_with(f, live);

    if (bond == UNHEARD && mono_before(model.now, model.wait_until))
        return is_heard_later();
    return bond == UNHEARD || bond == BROKEN ? rebinds(live) : fails(WB_SESSION_CONFLICT, NULL);
}

static struct expected expect_target(const struct facts *f, const struct live *live)
{
    unsigned number = number_in(live->target);
    const struct worker *w = worker_at(number);
    int32_t rank = live->rq.target_rank;
    bool bound = live->pin.mode == PIN_HARD || live->pin.mode == PIN_SOFT;

    if (bound && (strcmp(live->pinned, live->target) != 0 ||
                  (rank >= 0 && live->pin.rank >= 0 && rank != live->pin.rank)))
        return contradicted(f, live);
    if (w == NULL && mono_before(model.now, model.wait_until))
        return is_heard_later();
    if (w == NULL)
        return fails_first(live, WB_UNKNOWN_WORKER);
    if (rank >= (int32_t)w->ranks)
        return fails_first(live, WB_BAD_REQUEST);
    if (!may_serve(f, live->adapter, number))
        return may_tell_yet(number) ? is_heard_later() : fails_first(live, WB_UNKNOWN_ADAPTER);
    if (!set_has(f->admitting, number))
        return fails_first(live, WB_NO_WORKER);
    if (!set_has(f->roomy, number) || (live->rq.tried_count > 0 && !has_turn(live)))
        return waits_at(live, number);
    if (bound && rank < 0 && live->pin.rank < (int32_t)w->ranks)
        rank = live->pin.rank;
    return (struct expected){.kind = NEXT_CHOSEN,
                             .workers = set_of(number),
                             .rank = rank >= 0       ? rank
                                     : w->ranks == 0 ? -1
                                                     : RANK_ANY,
                             .reason = REASON_TARGET};
}

static struct expected waits_or_fails(const struct facts *f, const struct live *live)
{
    if (may_hope_for(f, live) != 0 && (has_turn(live) || has_room_to_wait(false)))
        return (struct expected){.kind = NEXT_QUEUE};
    if (candidates(f, live->adapter, tried_by(live)) != 0)
        return fails(WB_OVERLOADED, live->adapter >= 0 ? "adapter" : "service");
    if (live->rq.tried_count > 0)
        return fails_by_cause(live);
    return fails(live->adapter >= 0 && f->holders[live->adapter] == 0 ? WB_UNKNOWN_ADAPTER
                                                                      : WB_NO_WORKER,
                 NULL);
}

static struct expected expect_policy(const struct facts *f, const struct live *live)
{
    struct expected e = {.kind = NEXT_CHOSEN, .rank = -1};
    unsigned preferred = recalled_by(f, live, RECALL_PREFER) & f->free;

    if (live->adapter >= 0) /* to load it is for whom all routers pick, whoever did before */
        preferred &= f->holders[live->adapter];
    e.reason = avoided_by(f, live) != 0 ? REASON_AVOID : REASON_POLICY;
    e.workers = by_policy(f, live, false);
    if (preferred != 0) {
        e.workers = preferred;
        e.reason = REASON_PREFER;
        if (live->recalled_rank < (int32_t)worker_at(number_in(live->recalled))->ranks)
            e.rank = live->recalled_rank;
    }
    if (live->rq.tried_count > 0)
        e.reason = REASON_RETRY;
    if (e.workers == 0 && has_turn(live))
        e.workers = by_policy(f, live, true);
    return e.workers != 0 ? e : waits_or_fails(f, live);
}

static struct expected expect_bound(const struct facts *f, const struct live *live)
{
    struct expected e = {.kind = NEXT_CHOSEN,
                         .workers = set_of(number_in(live->pinned)),
                         .rank = live->pin.rank,
                         .at_bound = true,
                         .reason = live->rq.tried_count > 0 ? REASON_RETRY : REASON_SESSION};
    enum bond bond = bond_with(f, live);

    if (bond == FREE)
        return e;
    if (bond == UNHEARD && mono_before(model.now, model.wait_until))
        return is_heard_later();
    if (live->pin.mode == PIN_SOFT)
        return expect_policy(f, live);
    if (bond == UNHEARD || bond == BROKEN)
        return rebinds(live);
    if (bond == LACKING)
        return may_tell_yet(number_in(live->pinned)) ? is_heard_later()
                                                     : fails(WB_SESSION_CONFLICT, NULL);
    if (bond == FAILED)
        return fails_by_cause(live);
    if (live->pin.on_busy == ON_BUSY_WAIT) {
        struct expected waits = waits_at(live, number_in(live->pinned));

        /* at whom it avoids: for anybody better, that is */
        if (waits.kind == NEXT_QUEUE && (recalled_by(f, live, RECALL_AVOID) & waits.workers) != 0 &&
            !set_has(tried_by(live), number_in(live->pinned)))
            waits.workers = 0;
        return waits;
    }
    if (live->pin.on_busy == ON_BUSY_FAIL)
        return live->rq.tried_count > 0 ? fails_by_cause(live) : fails(WB_OVERLOADED, "worker");
    e = expect_policy(f, live);
    if (e.reason == REASON_POLICY)
        e.reason = REASON_SPILL;
    return e;
}

static struct expected expect_any(const struct facts *f, const struct live *live)
{
    if (!has_target(live) && (live->rq.target_rank >= 0 || model.policy == POLICY_DIRECT))
        return fails(WB_BAD_REQUEST, NULL);
    if (has_target(live))
        return expect_target(f, live);
    if (live->adapter >= 0 && live->rq.tried_count == 0 &&
        mono_before(model.now, model.wait_until) && f->holders[live->adapter] == 0)
        return is_heard_later();
    if (live->pin.mode == PIN_HARD || live->pin.mode == PIN_SOFT)
        return expect_bound(f, live);
    return expect_policy(f, live);
}

struct expected expect_choice(const struct live *live)
{
    struct facts f = facts_now();
    struct expected e = expect_any(&f, live);

    if (e.kind != NEXT_CHOSEN)
        return e;
    if (live->pin.mode == PIN_OWNER && live->rebinding && e.reason != REASON_TARGET)
        e.reason = REASON_REBIND;
    /* Among several the reason hangs on which; candidates are all holders, or one loader. */
    if (live->adapter >= 0 && (e.workers & f.holders[live->adapter]) == 0)
        e.reason = REASON_ADAPTER_LOAD;
    return e;
}

struct expected expect_after_fall(const struct facts *f, const struct live *live)
{
    if (has_target(live))
        return fails_by_cause(live);
    if (is_hard(live) && !live->at_bound && candidates(f, live->adapter, tried_by(live)) == 0 &&
        !(may_hope_for(f, live) != 0 && has_room_to_wait(false)))
        return fails_by_cause(live);
    return is_hard(live) ? (struct expected){.kind = NEXT_PAUSE} : waits_or_fails(f, live);
}

struct expected expect_end(const struct live *live)
{
    return fails_by_cause(live);
}

struct expected expect_wait_over(const struct live *live)
{
    if (live->rq.last_cause == CAUSE_REFUSED)
        return fails_by_cause(live);
    return fails(WB_OVERLOADED, live->waits_for != 0 ? "worker"
                                : live->adapter >= 0 ? "adapter"
                                                     : "service");
}
