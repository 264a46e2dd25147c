/* Who waits, and whose turn it is.
 *
 * A request waits for a field: any worker of the pool (pool->queue.any) or one worker
 * (w->priv->own). Each field is a `struct waiting` with a line for each priority, so what other
 * fields there may be (the holders of an adapter) are other owners of a `struct waiting`, and other
 * sources in `offers_for`. A line is a treap by arrival number, its root in the field and its nodes
 * the tickets: entering at an old place, leaving from anywhere and "the first behind this one" are
 * O(log n).
 *
 * Arrival numbers are the pool's, given when a request waits for the first time and kept while it
 * lives: one that was granted and found nobody, or was refused again, returns to its old place.
 *
 * Wake-ups. worker_changed notes a worker in the registry when it is free and somebody waits that
 * it may serve; queue_next asks the noted ones and forgets those that nothing more can be done
 * with. A pool is noted when it has fewer routable workers than before, since some may wait in vain
 * now. So a freed worker costs one look, nobody is woken but whose turn it is, and where nobody
 * waits a change costs one comparison.
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

/* Those that wait for it alone: it serves them, or they wait in vain, for it takes no requests any
 * more, or is not routable and their session may rebind. (A target only waits on.) */
static bool own_may_go(const struct worker *w, mono now)
{
    return !worker_admits(w) || !w->routable || serves_own(w, now);
}

void queue_worker_changed(struct worker *w, mono now)
{
    const struct worker_private *p = w->priv;

    if ((w->free && w->pool->queue.any.count > 0) || (p->own.count > 0 && own_may_go(w, now)))
        note_worker(w);
}

void queue_forget_passed(struct pool *pool)
{
    pool->queue.passed_most = 0;
    pool->queue.generation++;
}

void queue_pool_shrank(struct pool *pool)
{
    struct queue *q = &pool->queue;

    if (q->any.count == 0 || pool->routable > q->most_excluded)
        return;
    q->look = 0;
    q->looked_up_to = 0;
    queue_forget_passed(pool); /* who was to be avoided may be all that is left */
    if (q->shrank)
        return;
    q->shrank = true;
    q->next_shrunk = pool->registry->shrunk;
    pool->registry->shrunk = pool;
}

bool queue_due(const struct registry *registry)
{
    return registry->noted != NULL || registry->shrunk != NULL;
}

/* ---- in and out ---- */

uint32_t pool_waiting(const struct pool *pool)
{
    return pool->queue.count;
}

bool queue_has_room(const struct request *rq)
{
    const struct pool *pool = rq->pool;
    uint32_t limit = pool->options.queue_limit;

    if (limit == 0 && rq->bound)
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
    if (request_excluded_count(rq) > q->most_excluded)
        q->most_excluded = request_excluded_count(rq);
}

void queue_pass_on(struct registry *registry)
{
    if (registry->noted != NULL)
        queue_forget(registry->noted);
}

void queue_leave(struct request *rq)
{
    struct ticket *t = &rq->ticket;
    struct queue *q = &rq->pool->queue;

    CHECK(t->waiting != NULL);
    line_leave(&t->waiting->lines[t->line], t);
    t->waiting->count--;
    q->count--;
    if (q->any.count == 0)
        q->most_excluded = 0;
    t->waiting = NULL;
    worker_unref(t->only);
    t->only = NULL;
}

/* ---- turns ---- */

static struct ticket *first_unexcluded(struct worker *w, unsigned line)
{
    struct queue *q = &w->pool->queue;
    struct worker_private *p = w->priv;
    struct ticket *t;

    if (p->passed_generation != q->generation) {
        memset(p->passed, 0, sizeof(p->passed));
        p->passed_generation = q->generation;
    }
    t = line_after(q->any.lines[line], p->passed[line]);
    while (t != NULL && request_excludes(request_of(t), w)) {
        p->passed[line] = t->number;
        if (q->passed_most < t->number)
            q->passed_most = t->number;
        t = line_after(q->any.lines[line], t->number);
    }
    return t;
}

#define SOURCES 2 /* its own, the pool's */

/* The first of those that wait for it alone; where it is only not routable, the first whose session
 * may rebind. */
static struct ticket *first_own(struct worker *w, unsigned line, mono now)
{
    struct ticket *t;

    if (w->priv->own.count == 0 || !own_may_go(w, now))
        return NULL;
    t = line_after(w->priv->own.lines[line], 0);
    if (!worker_admits(w) || serves_own(w, now))
        return t;
    while (t != NULL && !request_may_rebind(request_of(t)))
        t = line_after(w->priv->own.lines[line], t->number);
    return t;
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

/* The next that waits for workers of which none is left. For whom none is left but the one that it
 * avoids, that one may do now. */
static struct ticket *hopeless_in(struct pool *pool)
{
    struct queue *q = &pool->queue;
    struct worker *last;
    struct ticket *t;

    for (; q->look < PRIORITIES; q->look++, q->looked_up_to = 0) {
        while ((t = line_after(q->any.lines[q->look], q->looked_up_to)) != NULL) {
            q->looked_up_to = t->number;
            if (!request_may_hope(request_of(t)))
                return t;
            last = request_left_with(request_of(t));
            if (last != NULL && last->free)
                note_worker(last);
        }
    }
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

    while (registry->shrunk != NULL) {
        struct pool *pool = registry->shrunk;

        t = hopeless_in(pool);
        if (t != NULL)
            return grant(t);
        registry->shrunk = pool->queue.next_shrunk;
        pool->queue.shrank = false;
    }
    while (registry->noted != NULL) {
        struct worker *w = registry->noted;

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
