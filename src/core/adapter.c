/* Adapters of a pool: who holds them, and what is counted for them.
 *
 * An adapter is known while a worker holds or loads it, or is about to, else idle: on the list of
 * those that nobody has in hand, oldest first, kept a while for what was counted and dropped when
 * there are too many. So a name lives only while a worker said it, or while a request for it
 * occupies a worker's slot: names that clients make up cost nothing.
 *
 * A holding links one worker and one adapter; it is held or loading (pool.h says which lists it is
 * on then). In-flight of an adapter is the sum over its holdings, and each charge points to the one
 * it counts in, so that it ends exactly there, whatever the worker holds by then.
 *
 * With the first request for it an adapter is asked for: it gets a state of the pool's policy of
 * its own, over indexes of its own, and counts of its routable and free holders. From then on the
 * holdings are on their workers' watched lists and hear of each change; adapters that nobody asks
 * for cost nothing at a charge. The one asked for longest ago loses its state (its rotation, no
 * more) when there are too many.
 *
 * Candidates are the routable holders. Only if there is none, because nobody holds it or because
 * all who do are draining, ejected or lost, may others load it, if the pool allows that. A busy
 * holder is waited for: load never makes a second copy. */
#include "core/adapter.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/pool.h"

#define ADAPTER_MAGIC 0x61647074u
#define HOLDERS_MIN 4

struct arrivals { /* a ring of whole seconds */
    int64_t second;
    uint32_t counts[ADAPTER_WINDOW_S];
};

struct adapter {
    unsigned magic;
    struct pool *pool;
    struct adapter_list *list;
    struct adapter *next, *prev;
    struct holding **slots; /* those that hold it, by index */
    uint32_t *vacant;
    uint32_t slots_size, slots_used, vacant_count;
    uint32_t holders;
    uint32_t in_flight;
    struct holding *loading;
    uint64_t requests;
    struct arrivals *arrivals; /* NULL until the first */
    /* While it is asked for: */
    void *policy_state; /* NULL: it is not */
    struct adapter *asked_newer, *asked_older;
    struct min_tree marks; /* ends of its holders' overload marks */
    uint32_t routable, free, marked;
    size_t name_len;
    char name[];
};

struct span adapter_name(const struct adapter *adapter)
{
    return span_of(adapter->name, adapter->name_len);
}

struct holding *adapter_loading(const struct adapter *adapter)
{
    return adapter->loading;
}

/* ---- names ---- */

static void adapters_remove(struct adapter *adapter)
{
    struct adapter_list *list = adapter->list;

    if (adapter->prev != NULL)
        adapter->prev->next = adapter->next;
    else
        list->first = adapter->next;
    if (adapter->next != NULL)
        adapter->next->prev = adapter->prev;
    else
        list->last = adapter->prev;
    list->count--;
    adapter->list = NULL;
}

static void adapters_append(struct adapter_list *list, struct adapter *adapter)
{
    adapter->prev = list->last;
    adapter->next = NULL;
    if (list->last != NULL)
        list->last->next = adapter;
    else
        list->first = adapter;
    list->last = adapter;
    list->count++;
    adapter->list = list;
}

bool adapters_init(struct pool *pool)
{
    pool->adapters = map_create(ADAPTERS_MAX);
    if (pool->options.adapters_load)
        pool->memos = calloc(LOADER_MEMOS, sizeof(*pool->memos));
    pool->loader_round = 1;
    return pool->adapters != NULL && (pool->memos != NULL || !pool->options.adapters_load);
}

static void adapter_destroy(struct adapter *adapter)
{
    struct pool *pool = adapter->pool;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    CHECK(adapter->holders == 0 && adapter->loading == NULL && adapter->in_flight == 0);
    CHECK(adapter->policy_state == NULL);
    adapters_remove(adapter);
    CHECK(map_remove(pool->adapters, adapter_name(adapter)) == adapter);
    free(adapter->slots);
    free(adapter->vacant);
    free(adapter->arrivals);
    adapter->magic = 0;
    free(adapter);
}

void adapters_fini(struct pool *pool)
{
    CHECK(pool->known.count == 0);
    while (pool->idle.first != NULL)
        adapter_destroy(pool->idle.first);
    map_destroy(pool->adapters);
    free(pool->loaders);
    free(pool->memos);
}

struct adapter *adapter_find(const struct pool *pool, struct span name)
{
    return map_get(pool->adapters, name);
}

/* Finds or makes it; idle when made. NULL: no memory (full false) or too many names. */
static struct adapter *adapter_obtain(struct pool *pool, struct span name, bool *full)
{
    struct adapter *adapter = adapter_find(pool, name);

    *full = false;
    if (adapter != NULL)
        return adapter;
    if (map_count(pool->adapters) == ADAPTERS_MAX && pool->idle.count > 0)
        adapter_destroy(pool->idle.first);
    if (map_count(pool->adapters) == ADAPTERS_MAX || name.len > WB_LONG_NAME_MAX) {
        *full = true;
        return NULL;
    }
    adapter = calloc(1, sizeof(*adapter) + name.len + 1);
    if (adapter == NULL)
        return NULL;
    MAGIC_SET(adapter, ADAPTER_MAGIC);
    adapter->pool = pool;
    memcpy(adapter->name, name.ptr, name.len);
    adapter->name_len = name.len;
    if (map_put(pool->adapters, adapter_name(adapter), adapter) != WB_OK) {
        free(adapter);
        return NULL;
    }
    adapters_append(&pool->idle, adapter);
    return adapter;
}

static void move_to(struct adapter_list *list, struct adapter *adapter)
{
    if (adapter->list == list)
        return;
    adapters_remove(adapter);
    adapters_append(list, adapter);
}

/* Puts it on the list where it belongs. May destroy idle ones, never this one. */
static void adapter_settle(struct adapter *adapter)
{
    struct pool *pool = adapter->pool;
    struct adapter_list *list =
        adapter->holders > 0 || adapter->loading != NULL ? &pool->known : &pool->idle;

    move_to(list, adapter);
    if (list == &pool->idle && list->count > ADAPTERS_IDLE_MAX)
        adapter_destroy(list->first);
}

/* ---- asked for ---- */

static void tell(struct adapter *adapter, const struct holding *h, const struct policy_item *of)
{
    struct policy_item item = *of;

    item.index = h->index;
    adapter->pool->policy->changed(adapter->policy_state, &item);
}

static struct policy_item item_of(const struct worker *w)
{
    return (struct policy_item){
        .weight = w->weight,
        .load = worker_load(w),
        .routable = w->routable,
        .free = w->free,
        .cpu = w->cpu,
    };
}

static void mark(struct adapter *adapter, struct holding *h, int64_t until)
{
    if (h->mark == until)
        return;
    adapter->marked += (uint32_t)(until != 0) - (uint32_t)(h->mark != 0);
    h->mark = until;
    min_tree_set(&adapter->marks, h->index, until != 0 ? (uint64_t)until : TREE_ABSENT);
}

static void watch(struct adapter *adapter, struct holding *h)
{
    struct worker *w = h->worker;
    struct worker_adapters *half = w->priv->adapters;
    const struct policy *policy = adapter->pool->policy;
    struct policy_item item = item_of(w);

    h->prev = NULL;
    h->next = half->watched;
    if (h->next != NULL)
        h->next->prev = h;
    half->watched = h;
    adapter->routable += w->routable;
    adapter->free += w->free;
    if (policy->joined != NULL)
        policy->joined(adapter->policy_state, h->index, worker_name(w));
    tell(adapter, h, &item);
    mark(adapter, h, w->overloaded_until.us);
}

static void unlink_from(struct holding **list, struct holding *h)
{
    if (h->prev != NULL)
        h->prev->next = h->next;
    else
        *list = h->next;
    if (h->next != NULL)
        h->next->prev = h->prev;
    h->next = h->prev = NULL;
}

static void unwatch(struct adapter *adapter, struct holding *h)
{
    struct worker *w = h->worker;
    const struct policy *policy = adapter->pool->policy;
    struct policy_item item = item_of(w);

    unlink_from(&w->priv->adapters->watched, h);
    adapter->routable -= w->routable;
    adapter->free -= w->free;
    item.routable = item.free = false;
    tell(adapter, h, &item);
    if (policy->left != NULL)
        policy->left(adapter->policy_state, h->index);
    mark(adapter, h, 0);
}

static void asked_unlink(struct adapter *adapter)
{
    struct pool *pool = adapter->pool;

    if (adapter->asked_newer != NULL)
        adapter->asked_newer->asked_older = adapter->asked_older;
    else
        pool->asked_newest = adapter->asked_older;
    if (adapter->asked_older != NULL)
        adapter->asked_older->asked_newer = adapter->asked_newer;
    else
        pool->asked_oldest = adapter->asked_newer;
    pool->asked--;
}

static void asked_link(struct adapter *adapter)
{
    struct pool *pool = adapter->pool;

    adapter->asked_newer = NULL;
    adapter->asked_older = pool->asked_newest;
    if (pool->asked_newest != NULL)
        pool->asked_newest->asked_newer = adapter;
    else
        pool->asked_oldest = adapter;
    pool->asked_newest = adapter;
    pool->asked++;
}

static void forget_asked(struct adapter *adapter)
{
    if (adapter->policy_state == NULL)
        return;
    for (uint32_t i = 0; i < adapter->slots_used; i++)
        if (adapter->slots[i] != NULL)
            unwatch(adapter, adapter->slots[i]);
    CHECK(adapter->routable == 0 && adapter->free == 0 && adapter->marked == 0);
    adapter->pool->policy->destroy(adapter->policy_state);
    adapter->policy_state = NULL;
    min_tree_fini(&adapter->marks);
    asked_unlink(adapter);
}

/* It has holders. False: no memory. */
static bool ask(struct adapter *adapter)
{
    struct pool *pool = adapter->pool;
    void *state;

    if (adapter->policy_state != NULL) {
        if (pool->asked_newest != adapter) {
            asked_unlink(adapter);
            asked_link(adapter);
        }
        return true;
    }
    state = pool->policy->create(pool->options.ratio);
    if (state == NULL)
        return false;
    if (!pool->policy->grow(state, adapter->slots_size) ||
        !min_tree_grow(&adapter->marks, adapter->slots_size)) {
        pool->policy->destroy(state);
        return false;
    }
    adapter->policy_state = state;
    for (uint32_t i = 0; i < adapter->slots_used; i++)
        if (adapter->slots[i] != NULL)
            watch(adapter, adapter->slots[i]);
    asked_link(adapter);
    if (pool->asked > ADAPTERS_ASKED_MAX)
        forget_asked(pool->asked_oldest);
    return true;
}

/* ---- holding and loading ---- */

static bool make_room(struct adapter *adapter)
{
    uint32_t size = adapter->slots_size > 0 ? 2 * adapter->slots_size : HOLDERS_MIN;
    struct holding **slots;
    uint32_t *vacant;

    if (adapter->vacant_count > 0 || adapter->slots_used < adapter->slots_size)
        return true;
    slots = realloc(adapter->slots, size * sizeof(struct holding *));
    if (slots == NULL)
        return false;
    adapter->slots = slots;
    vacant = realloc(adapter->vacant, size * sizeof(*vacant));
    if (vacant == NULL)
        return false;
    adapter->vacant = vacant;
    if (adapter->policy_state != NULL &&
        (!min_tree_grow(&adapter->marks, size) ||
         !adapter->pool->policy->grow(adapter->policy_state, size)))
        return false;
    adapter->slots_size = size;
    return true;
}

static struct holding *holding_create(struct worker *w, struct adapter *adapter)
{
    struct holding *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->adapter = adapter;
    h->worker = w;
    h->index = TREE_NONE;
    return h;
}

static void loading_begin(struct holding *h)
{
    struct adapter *adapter = h->adapter;

    h->prev = NULL;
    h->next = adapter->loading;
    if (h->next != NULL)
        h->next->prev = h;
    adapter->loading = h;
    h->worker->priv->adapters->loading++;
    loader_forget(adapter->pool, adapter_name(adapter));
    queue_worker_told(h->worker);
}

static void loading_end(struct holding *h)
{
    unlink_from(&h->adapter->loading, h);
    h->worker->priv->adapters->loading--;
    loader_forget(h->adapter->pool, adapter_name(h->adapter));
    queue_worker_told(h->worker);
}

/* From loading, or just made, to held; there is room. */
static void hold(struct holding *h)
{
    struct adapter *adapter = h->adapter;

    if (h->in_flight > 0)
        loading_end(h);
    h->index = adapter->vacant_count > 0 ? adapter->vacant[--adapter->vacant_count]
                                         : adapter->slots_used++;
    CHECK(h->index < adapter->slots_size);
    adapter->slots[h->index] = h;
    adapter->holders++;
    if (adapter->policy_state != NULL)
        watch(adapter, h);
    adapter_settle(adapter);
}

/* From held to loading, or to nothing (false). */
static bool let_go(struct holding *h)
{
    struct adapter *adapter = h->adapter;
    bool stays = h->in_flight > 0;

    if (adapter->policy_state != NULL)
        unwatch(adapter, h);
    adapter->slots[h->index] = NULL;
    adapter->vacant[adapter->vacant_count++] = h->index;
    h->index = TREE_NONE;
    if (--adapter->holders == 0)
        forget_asked(adapter);
    if (stays)
        loading_begin(h);
    else
        free(h);
    adapter_settle(adapter);
    return stays;
}

/* Where it stands, or would, in the worker's list. */
static uint32_t place_of(const struct worker_adapters *half, const struct adapter *adapter)
{
    uint32_t low = 0, high = half->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if ((uintptr_t)half->holdings[middle]->adapter < (uintptr_t)adapter)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct holding *holding_find(const struct worker *w, const struct adapter *adapter)
{
    const struct worker_adapters *half = w->priv->adapters;
    uint32_t place;

    if (half == NULL || adapter == NULL)
        return NULL;
    place = place_of(half, adapter);
    return place < half->count && half->holdings[place]->adapter == adapter ? half->holdings[place]
                                                                            : NULL;
}

static bool is_held(const struct holding *h)
{
    return h != NULL && h->index != TREE_NONE;
}

void holding_enter(struct holding *h)
{
    if (h->in_flight++ == 0 && !is_held(h)) {
        loading_begin(h);
        adapter_settle(h->adapter);
        loader_settle(h->worker);
    }
    h->adapter->in_flight++;
}

static void list_take_out(struct worker_adapters *half, const struct holding *h)
{
    uint32_t place = place_of(half, h->adapter);

    CHECK(place < half->count && half->holdings[place] == h);
    half->count--;
    memmove(&half->holdings[place], &half->holdings[place + 1],
            (half->count - place) * sizeof(struct holding *));
}

void holding_leave(struct holding *h)
{
    struct adapter *adapter = h->adapter;
    struct worker *w = h->worker;

    CHECK(h->in_flight > 0 && adapter->in_flight > 0);
    adapter->in_flight--;
    if (--h->in_flight > 0 || is_held(h))
        return;
    loading_end(h);
    list_take_out(w->priv->adapters, h);
    free(h);
    adapter_settle(adapter);
    loader_settle(w);
}

static struct worker_adapters *half_create(void)
{
    struct worker_adapters *half = calloc(1, sizeof(*half));

    if (half != NULL)
        half->loader = TREE_NONE;
    return half;
}

struct holding *worker_holding(struct worker *w, struct span name)
{
    struct worker_adapters *half = w->priv->adapters;
    bool full;
    struct adapter *adapter = adapter_obtain(w->pool, name, &full);
    struct holding *h = holding_find(w, adapter), **holdings;
    uint32_t place;

    if (h != NULL || adapter == NULL || half == NULL)
        return h;
    holdings = realloc(half->holdings, (half->count + 1) * sizeof(struct holding *));
    if (holdings == NULL)
        return NULL;
    half->holdings = holdings;
    h = holding_create(w, adapter);
    if (h == NULL)
        return NULL;
    place = place_of(half, adapter);
    memmove(&holdings[place + 1], &holdings[place],
            (half->count - place) * sizeof(struct holding *));
    holdings[place] = h;
    half->count++;
    return h;
}

/* ---- what a worker says it holds ---- */

static int by_address(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;

    return ((uintptr_t)x->adapter > (uintptr_t)y->adapter) -
           ((uintptr_t)x->adapter < (uintptr_t)y->adapter);
}

static bool plan_add(struct holdings_plan *plan, struct pool *pool, const struct worker *w,
                     struct span name)
{
    bool full;
    struct planned *planned = &plan->planned[plan->count];

    planned->fresh = NULL;
    planned->adapter = adapter_obtain(pool, name, &full);
    if (planned->adapter == NULL) {
        plan->partial = plan->partial || full;
        return full;
    }
    plan->count++;
    move_to(&pool->known, planned->adapter); /* lest room for another be made by its end */
    if (w != NULL && is_held(holding_find(w, planned->adapter)))
        return true;
    planned->fresh = holding_create(NULL, planned->adapter);
    return planned->fresh != NULL && make_room(planned->adapter);
}

static void plan_unique(struct holdings_plan *plan)
{
    uint32_t kept = 0;

    if (plan->count > 0)
        qsort(plan->planned, plan->count, sizeof(*plan->planned), by_address);
    for (uint32_t i = 0; i < plan->count; i++) {
        if (kept > 0 && plan->planned[kept - 1].adapter == plan->planned[i].adapter)
            free(plan->planned[i].fresh);
        else
            plan->planned[kept++] = plan->planned[i];
    }
    plan->count = kept;
}

bool holdings_prepare(struct holdings_plan *plan, struct pool *pool, struct worker *w,
                      const struct span *names, uint32_t count, bool slots)
{
    struct worker_adapters *half = w != NULL ? w->priv->adapters : NULL;
    uint32_t had = half != NULL ? half->count : 0;

    *plan = (struct holdings_plan){0};
    if (half == NULL && (count > 0 || slots)) {
        half = half_create();
        if (half == NULL)
            return false;
        if (w != NULL) {
            w->priv->adapters = half;
            w->holds = true;
        } else {
            plan->half = half;
        }
    }
    if (count + had == 0)
        return true;
    plan->planned = calloc(count + 1, sizeof(*plan->planned));
    plan->room = calloc(count + had, sizeof(struct holding *));
    if (plan->planned == NULL || plan->room == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!plan_add(plan, pool, w, names[i]))
            return false;
    plan_unique(plan);
    pool->left_out += plan->partial;
    return true;
}

/* One step: OLD is what the worker had of this adapter (or NULL), NEXT what the plan has. The
 * holding that it has from now on; NULL: none. */
static struct holding *step(struct worker *w, struct holding *old, struct planned *next)
{
    if (next == NULL)
        return is_held(old) && !let_go(old) ? NULL : old;
    if (is_held(old))
        return old;
    if (old == NULL) {
        old = next->fresh;
        next->fresh = NULL;
        old->worker = w;
    }
    hold(old);
    return old;
}

void holdings_commit(struct holdings_plan *plan, struct worker *w)
{
    struct worker_adapters *half = w->priv->adapters;
    uint32_t i = 0, k = 0, count = 0;

    if (half == NULL)
        half = w->priv->adapters = plan->half;
    else
        free(plan->half);
    plan->half = NULL;
    if (half == NULL)
        return;
    w->holds = true;
    while (i < half->count || k < plan->count) {
        struct holding *old = i < half->count ? half->holdings[i] : NULL;
        struct planned *next = k < plan->count ? &plan->planned[k] : NULL;
        uintptr_t a = old != NULL ? (uintptr_t)old->adapter : UINTPTR_MAX;
        uintptr_t b = next != NULL ? (uintptr_t)next->adapter : UINTPTR_MAX;
        struct holding *h = step(w, a <= b ? old : NULL, b <= a ? next : NULL);

        i += a <= b;
        k += b <= a;
        if (h != NULL)
            plan->room[count++] = h;
    }
    free(half->holdings);
    half->holdings = plan->room;
    half->count = count;
    half->partial = plan->partial;
    plan->room = NULL;
}

void holdings_plan_fini(struct holdings_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        free(plan->planned[i].fresh);
        adapter_settle(plan->planned[i].adapter);
    }
    free(plan->planned);
    free(plan->room);
    free(plan->half);
    *plan = (struct holdings_plan){0};
}

void holdings_drop(struct worker *w)
{
    struct worker_adapters *half = w->priv->adapters;
    uint32_t kept = 0;

    if (half == NULL)
        return;
    for (uint32_t i = 0; i < half->count; i++) {
        struct holding *h = half->holdings[i];

        if (!is_held(h) || let_go(h))
            half->holdings[kept++] = h;
    }
    half->count = kept;
    loader_remove(w);
}

void holdings_fini(struct worker *w)
{
    holdings_drop(w);
    if (w->priv->adapters == NULL)
        return;
    CHECK(w->priv->adapters->count == 0);
    free(w->priv->adapters->holdings);
    free(w->priv->adapters);
    w->priv->adapters = NULL;
    w->holds = false;
}

void holdings_changed(struct worker *w, const struct policy_item *item, bool was_routable,
                      bool was_free)
{
    for (struct holding *h = w->priv->adapters->watched; h != NULL; h = h->next) {
        struct adapter *adapter = h->adapter;

        adapter->routable += (uint32_t)item->routable - (uint32_t)was_routable;
        adapter->free += (uint32_t)item->free - (uint32_t)was_free;
        tell(adapter, h, item);
        mark(adapter, h, w->overloaded_until.us);
    }
    if (item->routable != was_routable) {
        if (w->priv->adapters->loading > 0)
            w->pool->loader_round++;
        queue_adapters_changed(w->pool);
    }
    loader_settle(w);
}

/* ---- choosing ---- */

/* The adapter, if it has a routable holder. */
static struct adapter *candidates(const struct pool *pool, struct span name)
{
    struct adapter *adapter = adapter_find(pool, name);

    return adapter != NULL && adapter->holders > 0 && (!ask(adapter) || adapter->routable > 0)
               ? adapter
               : NULL;
}

static void pick_tried(const struct adapter *adapter, const struct choice *choice,
                       struct policy_pick *pick)
{
    pick->tried_count = 0;
    for (unsigned i = 0; i < choice->tried_count; i++) {
        const struct worker *w = pool_present(adapter->pool, choice->tried[i]);
        const struct holding *h = w != NULL ? holding_find(w, adapter) : NULL;

        if (is_held(h))
            pick->tried[pick->tried_count++] = h->index;
    }
}

struct worker *adapter_choose(struct pool *pool, const struct choice *choice,
                              struct policy_pick *pick)
{
    struct adapter *adapter = candidates(pool, choice->adapter);
    struct worker *w;
    uint32_t index;

    if (adapter == NULL) {
        w = loader_best(pool, choice->adapter, choice);
        return w != NULL && w->free ? w : NULL;
    }
    if (adapter->policy_state == NULL || adapter->free == 0)
        return NULL;
    pick_tried(adapter, choice, pick);
    index = pool->policy->choose(adapter->policy_state, pick);
    return index == TREE_NONE ? NULL : adapter->slots[index]->worker;
}

bool adapter_has_untried(struct pool *pool, const struct choice *choice)
{
    struct adapter *adapter = candidates(pool, choice->adapter);
    struct policy_pick pick;
    uint32_t routable;

    if (adapter == NULL)
        return loader_best(pool, choice->adapter, choice) != NULL;
    if (adapter->policy_state == NULL)
        return true; /* for all that is known without memory for it */
    routable = adapter->routable;
    pick_tried(adapter, choice, &pick);
    for (unsigned i = 0; i < pick.tried_count; i++)
        routable -= adapter->slots[pick.tried[i]]->worker->routable;
    return routable > 0;
}

bool pool_adapter_held(const struct pool *pool, struct span name)
{
    const struct adapter *adapter = adapter_find(pool, name);

    return adapter != NULL && adapter->holders > 0;
}

wb_status pool_adapter_status(struct pool *pool, struct span name)
{
    struct choice none = {.adapter = name};

    if (candidates(pool, name) != NULL || loader_best(pool, name, &none) != NULL)
        return WB_OK;
    return pool_adapter_held(pool, name) ? WB_NO_WORKER : WB_UNKNOWN_ADAPTER;
}

bool worker_holds(const struct worker *w, struct span name)
{
    return is_held(holding_find(w, adapter_find(w->pool, name)));
}

bool worker_may_serve(const struct worker *w, struct span name)
{
    const struct holding *h = holding_find(w, adapter_find(w->pool, name));

    return is_held(h) || (w->pool->options.adapters_load && h != NULL) || worker_has_slot(w);
}

bool adapter_permits(struct pool *pool, struct span name, const struct worker *w)
{
    return candidates(pool, name) != NULL ? worker_holds(w, name) : worker_may_serve(w, name);
}

struct worker *adapter_loader(struct pool *pool, const struct choice *choice)
{
    return candidates(pool, choice->adapter) == NULL ? loader_best(pool, choice->adapter, choice)
                                                     : NULL;
}

/* ---- numbers ---- */

static void arrivals_advance(struct arrivals *arrivals, int64_t second)
{
    if (second - arrivals->second >= ADAPTER_WINDOW_S) {
        memset(arrivals->counts, 0, sizeof(arrivals->counts));
        arrivals->second = second;
    }
    while (arrivals->second < second)
        arrivals->counts[(uint64_t)++arrivals->second % ADAPTER_WINDOW_S] = 0;
}

bool pool_adapter_arrived(struct pool *pool, struct span name, mono now)
{
    struct adapter *adapter = adapter_find(pool, name);
    int64_t second = now.us / 1000000;

    if (adapter == NULL)
        return false;
    adapter->requests++;
    if (adapter->arrivals == NULL)
        adapter->arrivals = calloc(1, sizeof(*adapter->arrivals));
    if (adapter->arrivals == NULL)
        return true;
    arrivals_advance(adapter->arrivals, second);
    adapter->arrivals->counts[(uint64_t)second % ADAPTER_WINDOW_S]++;
    return true;
}

static uint32_t arrivals_within(const struct arrivals *arrivals, int64_t second)
{
    uint32_t sum = 0;

    if (arrivals == NULL)
        return 0;
    /* A ring that has not moved on for a while holds seconds before the window. */
    for (int64_t age = second - arrivals->second; age < ADAPTER_WINDOW_S; age++) {
        int64_t at = second - age;

        if (at < 0)
            break;
        sum += arrivals->counts[(uint64_t)at % ADAPTER_WINDOW_S];
    }
    return sum;
}

int64_t pool_adapter_retry_after_ms(struct pool *pool, struct span name, mono now)
{
    const struct adapter *adapter = candidates(pool, name);
    int64_t ms;

    if (adapter == NULL || adapter->policy_state == NULL || adapter->marked < adapter->routable)
        return 1000; /* whoever is busy without a mark may be free at any time */
    ms = (mono_diff_us((mono){(int64_t)min_tree_min(&adapter->marks)}, now) + 999) / 1000;
    return ms < 1 ? 1 : ms;
}

struct adapter_totals pool_adapter_totals(const struct pool *pool)
{
    struct adapter_totals totals = {.known = pool->known.count + pool->idle.count,
                                    .left_out = pool->left_out};

    for (const struct adapter *adapter = pool->known.first; adapter; adapter = adapter->next) {
        totals.held += adapter->holders > 0;
        totals.in_flight += adapter->in_flight;
    }
    return totals;
}

struct adapter_standing adapter_standing(const struct adapter *adapter)
{
    struct adapter_standing standing = {adapter->routable, adapter->free};

    if (adapter->policy_state != NULL)
        return standing;
    for (uint32_t i = 0; i < adapter->slots_used; i++) {
        standing.routable += adapter->slots[i] != NULL && adapter->slots[i]->worker->routable;
        standing.free += adapter->slots[i] != NULL && adapter->slots[i]->worker->free;
    }
    return standing;
}

void pool_each_adapter(const struct pool *pool,
                       bool (*fn)(void *arg, const struct adapter_numbers *numbers), void *arg,
                       mono now)
{
    const struct adapter *lists[] = {pool->known.first, pool->idle.first};

    for (unsigned i = 0; i < 2; i++) {
        for (const struct adapter *adapter = lists[i]; adapter; adapter = adapter->next) {
            struct adapter_numbers numbers = {
                .name = adapter_name(adapter),
                .holders = adapter->holders,
                .in_flight = adapter->in_flight,
                .arrivals = arrivals_within(adapter->arrivals, now.us / 1000000),
                .requests = adapter->requests,
                .adapter = adapter,
            };

            if (!fn(arg, &numbers))
                return;
        }
    }
}
