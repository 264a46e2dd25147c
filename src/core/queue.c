/* Who waits, and whose turn it is.
 *
 * A request waits for a field: any worker of the pool (pool->queue.any) or one worker
 * (w->priv->own). Each field is a `struct waiting` with a line for each priority. With an adapter
 * it waits for any, and request_excludes keeps the others' workers from it. A line is a treap by
 * arrival number, its root in the field and its nodes the tickets: entering at an old place,
 * leaving from anywhere and "the first behind this one" are O(log n).
 *
 * Arrival numbers are the pool's, given when a request waits for the first time and kept while it
 * lives: one that was granted and found nobody, or was refused again, returns to its old place.
 *
 * Wake-ups. worker_changed notes a worker in the registry when it is free and somebody waits that
 * it may serve; queue_next asks the noted ones and forgets those that nothing more can be done
 * with. So a freed worker costs one look, nobody is woken but whose turn it is, and where nobody
 * waits a change costs one comparison.
 *
 * Some changes do more than free a worker: a pool has fewer routable ones, or another worker holds
 * an adapter or is to load it. Then some may wait in vain, and some may go to a worker that was
 * free before. All that wait for any are looked through, once for as many changes as there were:
 * the former get a turn to find out, and the latter's worker is noted. In the same way those that
 * wait for one worker are looked through when it stops being routable or offers other ranks or
 * adapters (`told`).
 *
 * Turns. For a freed worker the first by (priority, arrival) among its own and the pool's is taken,
 * but a line that was passed over by higher ones TURNS times is next: of each TURNS + 1 grants one
 * goes to the next lower priority that waits, so none starves.
 *
 * A request never returns to a worker at which it failed otherwise than by a refusal. Such a worker
 * remembers up to which number the pool's lines hold only those (`passed`), so each is skipped once
 * for each worker, not at each wake-up. A ticket that enters below a remembered number makes all of
 * them void (`generation`). */
#include "core/queue.h"

#include <string.h>

#include "base/check.h"
#include "core/pool.h"
#include "core/request.h"

#define TURNS 7
#define RETRY_AFTER_MAX_MS 60000

static struct request *request_of(struct ticket *t)
{
    return CONTAINER_OF(t, struct request, ticket);
}

/* ---- a line ---- */

static uint32_t rank_of(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    number ^= number >> 32;
    number *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(number >> 32);
}

static void line_enter(struct ticket **link, struct ticket *t)
{
    struct ticket **below = &t->left, **above = &t->right, *rest;

    while (*link != NULL && (*link)->rank >= t->rank)
        link = (*link)->number < t->number ? &(*link)->right : &(*link)->left;
    rest = *link;
    *link = t;
    while (rest != NULL) {
        if (rest->number < t->number) {
            *below = rest;
            below = &rest->right;
        } else {
            *above = rest;
            above = &rest->left;
        }
        rest = rest->number < t->number ? rest->right : rest->left;
    }
    *below = *above = NULL;
}

static void line_leave(struct ticket **link, struct ticket *t)
{
    struct ticket *left = t->left, *right = t->right;

    while (*link != t) {
        CHECK(*link != NULL);
        link = (*link)->number < t->number ? &(*link)->right : &(*link)->left;
    }
    while (left != NULL && right != NULL) {
        if (left->rank > right->rank) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left != NULL ? left : right;
    t->left = t->right = NULL;
}

/* The first with a higher number than this; 0: the first of all. */
static struct ticket *line_after(struct ticket *root, uint64_t number)
{
    struct ticket *found = NULL;

    while (root != NULL) {
        if (root->number > number) {
            found = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return found;
}

/* ---- what is noted ---- */

static void note_worker(struct worker *w)
{
    struct worker_private *p = w->priv;
    struct registry *registry = w->pool->registry;

    if (p->noted)
        return;
    p->noted = true;
    p->noted_before = NULL;
    p->noted_behind = registry->noted;
    if (registry->noted != NULL)
        registry->noted->priv->noted_before = w;
    registry->noted = w;
}

void queue_forget(struct worker *w)
{
    struct worker_private *p = w->priv;

    if (!p->noted)
        return;
    if (p->noted_before != NULL)
        p->noted_before->priv->noted_behind = p->noted_behind;
    else
        w->pool->registry->noted = p->noted_behind;
    if (p->noted_behind != NULL)
        p->noted_behind->priv->noted_before = p->noted_before;
    p->noted_before = p->noted_behind = NULL;
    p->noted = false;
}

static bool serves_own(const struct worker *w, mono now)
{
    return worker_admits(w) && worker_has_room(w, 0, now);
}

/* Those that wait for it alone go: it serves them, or takes no requests any more. */
static bool own_may_go(const struct worker *w, mono now)
{
    return !worker_admits(w) || serves_own(w, now);
}

void queue_worker_changed(struct worker *w, mono now)
{
    const struct worker_private *p = w->priv;

    if ((w->free && w->pool->queue.any.count > 0) || (p->own.count > 0 && own_may_go(w, now)))
        note_worker(w);
}

void queue_worker_told(struct worker *w)
{
    if (w->priv->own.count == 0)
        return;
    w->priv->told = true;
    note_worker(w);
}

static void look_through(struct pool *pool)
{
    struct queue *q = &pool->queue;

    q->look = 0;
    q->looked_up_to = 0;
    q->passed_most = 0;
    q->generation++;
    if (q->looked_at)
        return;
    q->looked_at = true;
    q->next_look = pool->registry->looks;
    pool->registry->looks = pool;
}

void queue_pool_shrank(struct pool *pool)
{
    if (pool->queue.any.count > 0 && pool->routable <= pool->queue.most_excluded)
        look_through(pool);
}

void queue_adapters_changed(struct pool *pool)
{
    if (pool->queue.for_adapters > 0)
        look_through(pool);
}

bool queue_due(const struct registry *registry)
{
    return registry->noted != NULL || registry->looks != NULL;
}

/* ---- in and out ---- */

uint32_t pool_waiting(const struct pool *pool)
{
    return pool->queue.count;
}

bool queue_has_room(const struct request *rq, bool bound)
{
    const struct pool *pool = rq->pool;
    uint32_t limit = pool->options.queue_limit;

    if (limit == 0 && bound)
        limit = QUEUE_BOUND_MAX;
    return pool->queue.count < limit;
}

static void line_entered(struct queue *q, const struct ticket *t)
{
    if (t->number <= q->passed_most) {
        q->passed_most = 0;
        q->generation++;
    }
}

void queue_join(struct request *rq, struct worker *only, mono now)
{
    struct ticket *t = &rq->ticket;
    struct queue *q = &rq->pool->queue;

    if (!rq->waited) {
        rq->waited = true;
        *t = (struct ticket){.number = ++q->last_number,
                             .line = (uint8_t)(rq->priority - PRIORITY_HIGH)};
        t->rank = rank_of(t->number);
    }
    CHECK(t->waiting == NULL);
    if (t->due.us == 0)
        t->due = mono_add_ms(now, rq->pool->options.queue_wait_ms);
    t->only = only;
    if (only != NULL)
        worker_ref(only);
    t->waiting = only != NULL ? &only->priv->own : &q->any;
    line_enter(&t->waiting->lines[t->line], t);
    t->waiting->count++;
    if (q->count++ == 0)
        q->moved_at = now;
    if (only != NULL)
        return;
    line_entered(q, t);
    q->for_adapters += rq->adapter.len > 0;
    if (request_excluded_count(rq) > q->most_excluded)
        q->most_excluded = request_excluded_count(rq);
}

void queue_leave(struct request *rq)
{
    struct ticket *t = &rq->ticket;
    struct queue *q = &rq->pool->queue;

    CHECK(t->waiting != NULL);
    line_leave(&t->waiting->lines[t->line], t);
    t->waiting->count--;
    q->count--;
    if (t->only == NULL)
        q->for_adapters -= rq->adapter.len > 0;
    if (q->any.count == 0)
        q->most_excluded = 0;
    t->waiting = NULL;
    worker_unref(t->only);
    t->only = NULL;
}

/* ---- turns ---- */

static void sync_passed(struct worker *w)
{
    struct worker_private *p = w->priv;

    if (p->passed_generation == w->pool->queue.generation)
        return;
    memset(p->passed, 0, sizeof(p->passed));
    p->passed_generation = w->pool->queue.generation;
}

static void pass(struct worker *w, const struct ticket *t)
{
    struct queue *q = &w->pool->queue;

    w->priv->passed[t->line] = t->number;
    if (q->passed_most < t->number)
        q->passed_most = t->number;
}

void queue_pass_on(const struct request *rq)
{
    struct worker *w = rq->pool->registry->noted;

    if (w == NULL || w->pool != rq->pool || !w->free || request_excludes(rq, w))
        return;
    sync_passed(w);
    pass(w, &rq->ticket);
}

static struct ticket *first_unexcluded(struct worker *w, unsigned line)
{
    struct ticket *const *root = &w->pool->queue.any.lines[line];
    struct ticket *t;

    sync_passed(w);
    for (t = line_after(*root, w->priv->passed[line]);
         t != NULL && request_excludes(request_of(t), w); t = line_after(*root, t->number))
        pass(w, t);
    return t;
}

#define SOURCES 2 /* its own, the pool's */

static struct ticket *first_own(const struct worker *w, unsigned line, mono now)
{
    return w->priv->own.count > 0 && own_may_go(w, now) ? line_after(w->priv->own.lines[line], 0)
                                                        : NULL;
}

/* For each priority the first of each source that this worker may serve now. */
static void offers_for(struct worker *w, struct ticket *offers[PRIORITIES][SOURCES], mono now)
{
    for (int p = 0; p < PRIORITIES; p++) {
        offers[p][0] = first_own(w, (unsigned)p, now);
        offers[p][1] = w->free ? first_unexcluded(w, (unsigned)p) : NULL;
    }
}

static struct ticket *earlier(struct ticket *a, struct ticket *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return a->number < b->number ? a : b;
}

static struct ticket *whose_turn(struct ticket *const offers[PRIORITIES][SOURCES])
{
    for (int p = 0; p < PRIORITIES; p++)
        for (int s = 0; s < SOURCES; s++)
            if (offers[p][s] != NULL && offers[p][s]->waiting->passed_over[p] >= TURNS)
                return offers[p][s];
    for (int p = 0; p < PRIORITIES; p++)
        if (offers[p][0] != NULL || offers[p][1] != NULL)
            return earlier(offers[p][0], offers[p][1]);
    return NULL;
}

static struct ticket *turn_at(struct worker *w, mono now)
{
    struct ticket *offers[PRIORITIES][SOURCES], *t;

    offers_for(w, offers, now);
    t = whose_turn((struct ticket *const(*)[SOURCES])offers);
    if (t == NULL)
        return NULL;
    t->waiting->passed_over[t->line] = 0;
    for (int p = t->line + 1; p < PRIORITIES; p++)
        for (int s = 0; s < SOURCES; s++)
            if (offers[p][s] != NULL && offers[p][s]->waiting->passed_over[p] < TURNS)
                offers[p][s]->waiting->passed_over[p]++;
    return t;
}

/* Somebody whom others kept from it may serve it now. */
static void note_left(const struct request *rq)
{
    struct worker *may[3];

    may[0] = request_left_with(rq);
    request_loaders(rq, may + 1);
    for (unsigned i = 0; i < 3; i++)
        if (may[i] != NULL && may[i]->free)
            note_worker(may[i]);
}

/* The next that waits for workers of which none is left. */
static struct ticket *hopeless_in(struct pool *pool)
{
    struct queue *q = &pool->queue;
    struct ticket *t;

    for (; q->look < PRIORITIES; q->look++, q->looked_up_to = 0) {
        while ((t = line_after(q->any.lines[q->look], q->looked_up_to)) != NULL) {
            q->looked_up_to = t->number;
            if (!request_may_hope(request_of(t)))
                return t;
            note_left(request_of(t));
        }
    }
    return NULL;
}

/* The next that waits for this worker alone, and in vain. */
static struct ticket *hopeless_at(const struct worker *w)
{
    struct ticket *t;

    for (unsigned line = 0; line < PRIORITIES; line++)
        for (t = line_after(w->priv->own.lines[line], 0); t != NULL;
             t = line_after(w->priv->own.lines[line], t->number))
            if (request_waits_in_vain(request_of(t), w))
                return t;
    return NULL;
}

static struct request *grant(struct ticket *t)
{
    struct request *rq = request_of(t);

    CHECK(rq->state == REQUEST_QUEUED);
    queue_leave(rq);
    rq->state = REQUEST_GRANTED;
    return rq;
}

/* The time between two grants while somebody waits, smoothed. */
static void note_rate(struct queue *q, mono now)
{
    int64_t us = mono_diff_us(now, q->moved_at);

    q->between_us = q->between_us == 0 ? us : (7 * q->between_us + us) / 8;
    q->moved_at = now;
}

struct request *queue_next(struct registry *registry, mono now)
{
    struct ticket *t;

    while (registry->looks != NULL) {
        struct pool *pool = registry->looks;

        t = hopeless_in(pool);
        if (t != NULL)
            return grant(t);
        registry->looks = pool->queue.next_look;
        pool->queue.looked_at = false;
    }
    while (registry->noted != NULL) {
        struct worker *w = registry->noted;

        t = w->priv->told ? hopeless_at(w) : NULL;
        if (t != NULL)
            return grant(t);
        w->priv->told = false;
        t = turn_at(w, now);
        if (t != NULL) {
            note_rate(&w->pool->queue, now);
            return grant(t);
        }
        queue_forget(w);
    }
    return NULL;
}

int64_t queue_retry_after_ms(const struct pool *pool, mono now)
{
    const struct queue *q = &pool->queue;
    int64_t each = q->between_us, still = mono_diff_us(now, q->moved_at), ms;

    if (q->count == 0)
        return 0;
    /* A queue that stands still longer than usual is slower than it was. */
    if (each < still)
        each = still;
    if (each / 1000 >= RETRY_AFTER_MAX_MS)
        return RETRY_AFTER_MAX_MS;
    ms = (each * ((int64_t)q->count + 1) + 999) / 1000;
    return ms < RETRY_AFTER_MAX_MS ? ms : RETRY_AFTER_MAX_MS;
}
