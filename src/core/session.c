/* The table of sessions; session.h draws the states.
 *
 * Places. A ticket is the session's owner, in its list of waiters, or counted among its users; a
 * ticket whose verdict has changed behind its back is on the ready list besides (an owner or user)
 * until the router takes it off. A session is on the idle list, oldest first, exactly while it is
 * bound and nobody uses or awaits it; on the outbox while it may have something to do in the
 * bucket. session_after ends each event: it puts the session where its state says and frees what is
 * no longer needed, so no function before it looks at lists of sessions.
 *
 * The bucket. `known` is what the key held when last heard of; `doubt` says that this may be wrong
 * (a write that lost or whose end is unknown), and then the key is read before anything else. What
 * is to be done follows from state and known alone (session_next_effect), at the moment it is asked
 * for. One effect at a time is out for each session; word of the watch that comes meanwhile is
 * judged by its revision when the effect ends: newer than what was written means doubt. Our own
 * echo is recognised by its content.
 *
 * A session whose effect failed is on the troubled list and has none until its turn: one a second
 * for the whole table while effects fail (a bucket that is full refuses everything), more and more
 * as soon as they succeed. A request that claims it, or must have it read, does not wait for that
 * turn.
 *
 * Who wins. The bucket's word always: whoever finds another router's claim or binding adopts it,
 * save one that is overdue, expired, or the very one found broken.
 *
 * A binding is numbered; a user carries the number it was given, so the late end of an older
 * request cannot rebind what was bound since. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/session_state.h"

#define SESSIONS_MAX 65536
#define CLOCKS_PER_RUN 4096
#define WORD_HOLDS_MS 1000
#define LOOKS_FOR_ROOM 64 /* a bucket that is slow may have many of the oldest under way */

/* ---- requests ---- */

static void clock_due(struct deadline *d, mono now);

struct session *session_create(struct sessions *table, const struct session_rules *rules,
                               struct span key)
{
    uint64_t handle;
    struct session *s = slab_take(table->slab, &handle);

    if (!s)
        return NULL;
    s->text = malloc(key.len);
    if (s->text) {
        memcpy(s->text, key.ptr, key.len);
        s->key = span_of(s->text, key.len);
    }
    if (!s->text || map_put(table->by_key, s->key, s) != WB_OK) {
        free(s->text);
        slab_give(table->slab, handle);
        return NULL;
    }
    MAGIC_SET(s, SESSION_MAGIC);
    s->handle = handle;
    s->table = table;
    s->rules = rules;
    s->rank = -1;
    list_init(&s->waiters);
    deadline_init(&s->clock, clock_due);
    return s;
}

/* Of the oldest idle ones, the first that the bucket holds; else the first whose word to it is
 * still to be given, which is lost with it; NULL: none. */
static struct session *oldest(struct sessions *table)
{
    struct session *unwritten = NULL;
    unsigned looks = 0;

    for (struct link *at = list_first(&table->idle); at && looks < LOOKS_FOR_ROOM;
         at = list_next(&table->idle, at), looks++) {
        struct session *s = CONTAINER_OF(at, struct session, idle);

        if (s->io != IO_NONE)
            continue;
        if (!table->up || session_is_written(s))
            return s;
        if (!unwritten)
            unwritten = s;
    }
    return unwritten;
}

/* By forgetting one here, where it need not be: that unbinds nothing. */
static bool make_room(struct sessions *table)
{
    struct session *s;

    if (slab_used(table->slab) < table->options.max)
        return true;
    s = oldest(table);
    if (!s)
        return false;
    session_note(table, SESSION_COUNT_FORGOTTEN);
    session_forget(s);
    return true;
}

enum session_verdict session_verdict(const struct session_ticket *t)
{
    switch ((enum session_role)t->role) {
    case SESSION_OWNER:
        CHECK(t->session);
        return t->session->state == SESSION_OWNED ? SESSION_GO_OWNER : SESSION_WAIT;
    case SESSION_WAITER:
        return SESSION_WAIT;
    case SESSION_USER:
        return SESSION_GO_BOUND;
    case SESSION_NONE:
        break;
    }
    return SESSION_GO_UNBOUND;
}

/* The caller hears it now and need not hear it again. */
static enum session_verdict told(struct session_ticket *t)
{
    enum session_verdict verdict = session_verdict(t);

    if (verdict != SESSION_WAIT)
        ticket_unready(t);
    return verdict;
}

/* What was read while no watch follows may have changed since. */
static bool is_stale(const struct session *s)
{
    const struct sessions *table = s->table;

    return table->up && !table->trusted &&
           (s->reading != table->reading ||
            !mono_before(table->now, mono_add_ms(s->told_at, WORD_HOLDS_MS)));
}

static void enter_bound(struct session *s, struct session_ticket *t)
{
    struct sessions *table = s->table;

    if (s->users == 0 && !mono_before(table->now, session_expiry(s))) {
        session_note(table, SESSION_COUNT_EXPIRED);
        session_claim(s, t);
    } else if (is_stale(s)) {
        s->doubt = true; /* read it first */
        session_is_fine(s);
        ticket_wait(s, t);
    } else {
        session_note(table, SESSION_COUNT_HITS);
        ticket_use(s, t);
    }
}

enum session_verdict session_enter(struct sessions *table, struct session_ticket *t,
                                   const struct session_rules *rules, struct span key, mono now)
{
    struct session *s = map_get(table->by_key, key);

    CHECK(t->role == SESSION_NONE && !t->ready);
    table->now = now;
    if (!s && (!make_room(table) || !(s = session_create(table, rules, key)))) {
        session_note(table, SESSION_COUNT_FULL);
        return SESSION_GO_UNBOUND;
    }
    t->session = s;
    if (s->state == SESSION_BOUND)
        enter_bound(s, t);
    else if (s->state == SESSION_ABSENT)
        session_claim(s, t);
    else
        ticket_wait(s, t);
    session_after(s);
    return told(t);
}

enum session_verdict session_wait_over(struct session_ticket *t, struct session_ticket **owner,
                                       mono now)
{
    struct session *s = t->session;
    struct sessions *table;

    *owner = NULL;
    if (!s)
        return SESSION_GO_UNBOUND;
    MAGIC_CHECK(s, SESSION_MAGIC);
    table = s->table;
    if (session_verdict(t) != SESSION_WAIT)
        return told(t);
    table->now = now;
    if (t->role == SESSION_OWNER) {
        session_own_locally(s);
    } else {
        link_remove(&t->link);
        if (s->state == SESSION_FOREIGN && !mono_before(now, session_overdue_at(s))) {
            session_note(table, SESSION_COUNT_TAKEN_OVER);
            session_claim(s, t);
        } else if (s->state == SESSION_BOUND) { /* the bucket's word did not come */
            ticket_use(s, t);
        } else {
            session_note(table, SESSION_COUNT_WAITED);
            *owner = s->owner;
            ticket_cast_out(t);
        }
    }
    session_after(s);
    return told(t);
}

struct session_binding session_bound(const struct session_ticket *t)
{
    CHECK(t->role == SESSION_USER);
    return (struct session_binding){span_of(t->session->worker, t->session->worker_len),
                                    t->session->rank};
}

enum session_verdict session_broken(struct session_ticket *t, mono now)
{
    struct session *s = t->session;
    struct sessions *table;

    CHECK(t->role == SESSION_USER && !t->ready);
    MAGIC_CHECK(s, SESSION_MAGIC);
    table = s->table;
    table->now = now;
    if (s->state == SESSION_BOUND && t->binding != s->binding) {
        t->binding = s->binding; /* bound anew meanwhile */
        return SESSION_GO_BOUND;
    }
    s->users--;
    if (s->state == SESSION_BOUND) {
        s->broken = true;
        session_claim(s, t);
    } else if (s->state == SESSION_ABSENT) {
        session_claim(s, t);
    } else {
        ticket_wait(s, t);
    }
    session_after(s);
    return told(t);
}

void session_answered(struct session_ticket *t, struct span worker, int32_t rank, int64_t epoch,
                      bool rebind, mono now)
{
    struct session *s = t->session;

    if (!s)
        return;
    MAGIC_CHECK(s, SESSION_MAGIC);
    s->table->now = now;
    if (t->role == SESSION_OWNER && s->state == SESSION_OWNED) {
        session_note(s->table, s->broken ? SESSION_COUNT_REBOUND : SESSION_COUNT_BOUND);
        ticket_unready(t);
        s->owner = NULL;
        session_bind(s, worker, rank, epoch);
        ticket_use(s, t);
        session_admit_waiters(s);
    } else if (rebind && t->role == SESSION_USER && s->state == SESSION_BOUND &&
               t->binding == s->binding &&
               (!span_eq_str(worker, s->worker) || (rank >= 0 && rank != s->rank))) {
        session_note(s->table, SESSION_COUNT_REBOUND);
        session_bind(s, worker, rank, epoch);
        t->binding = s->binding;
    } else {
        return;
    }
    session_after(s);
}

static void owner_left(struct session *s)
{
    struct session_ticket *next = session_take_waiter(s);

    s->owner = next;
    if (next) { /* the claim stays ours */
        next->role = SESSION_OWNER;
        if (s->state == SESSION_OWNED)
            ticket_wake(s, next);
        return;
    }
    session_move(s, SESSION_ABSENT);
    s->broken = false;
    s->remove = true;            /* the claim */
    s->tries = UNBIND_TRIES_MAX; /* what another has bound since stays */
}

void session_leave(struct session_ticket *t, mono now)
{
    struct session *s = t->session;

    if (!s)
        return;
    MAGIC_CHECK(s, SESSION_MAGIC);
    s->table->now = now;
    ticket_unready(t);
    if (t->role == SESSION_WAITER) {
        link_remove(&t->link);
    } else if (t->role == SESSION_OWNER) {
        CHECK(s->owner == t);
        owner_left(s);
    } else if (t->role == SESSION_USER) {
        CHECK(s->users > 0);
        s->users--;
        s->idle_since = now;
    }
    ticket_cast_out(t);
    session_after(s);
}

bool sessions_busy(const struct sessions *table)
{
    return !list_is_empty(&table->ready) || !list_is_empty(&table->outbox);
}

struct session_ticket *sessions_ready(struct sessions *table)
{
    struct session_ticket *t = LIST_OWNER(list_first(&table->ready), struct session_ticket, link);

    if (t)
        ticket_unready(t);
    return t;
}

const struct session_rules *session_rules_of(const struct sessions *table, struct span key)
{
    const char *dot = memchr(key.ptr, '.', key.len);
    const struct session_rules *rules = table->rules;

    if (!dot)
        return NULL;
    while (rules && !span_eq(rules->service, span_of(key.ptr, (size_t)(dot - key.ptr))))
        rules = rules->next;
    return rules;
}

/* Not known here: the bucket may hold it all the same. */
static void look_to_unbind(struct sessions *table, struct span key)
{
    const struct session_rules *rules = session_rules_of(table, key);
    struct session *s = NULL;

    if (rules && table->up && make_room(table))
        s = session_create(table, rules, key);
    if (!s)
        return;
    s->doubt = true;
    s->remove = true;
    session_after(s);
}

bool session_unbind(struct sessions *table, struct span key, mono now)
{
    struct session *s = map_get(table->by_key, key);

    table->now = now;
    if (!s) {
        look_to_unbind(table, key);
        return false;
    }
    if (s->state != SESSION_BOUND)
        return false;
    session_move(s, SESSION_ABSENT);
    s->remove = true;
    s->tries = 0;
    session_after(s);
    return true;
}

/* ---- time ---- */

static void clock_due(struct deadline *d, mono now)
{
    struct session *s = CONTAINER_OF(d, struct session, clock);
    struct sessions *table = s->table;

    MAGIC_CHECK(s, SESSION_MAGIC);
    table->now = now;
    if (s->state == SESSION_CLAIMING &&
        !mono_before(now, mono_add_ms(s->claimed_at, s->rules->wait_ms))) {
        session_own_locally(s);
    } else if (s->state == SESSION_FOREIGN && !list_is_empty(&s->waiters) &&
               !mono_before(now, session_overdue_at(s))) {
        session_note(table, SESSION_COUNT_TAKEN_OVER);
        session_claim(s, session_take_waiter(s));
    } else if (s->state == SESSION_BOUND && s->users == 0 && list_is_empty(&s->waiters) &&
               s->io == IO_NONE && !mono_before(now, session_expiry(s))) {
        session_note(table, SESSION_COUNT_EXPIRED);
        session_move(s, SESSION_ABSENT);
        s->remove = s->known_mine;   /* another router's may be in use there */
        s->tries = UNBIND_TRIES_MAX; /* whoever renewed it keeps it */
    }
    session_after(s);
}

mono sessions_run(struct sessions *table, mono now)
{
    table->now = now;
    (void)deadlines_run(table->clocks, now, CLOCKS_PER_RUN);
    sessions_retry(table);
    return sessions_next(table);
}

mono sessions_next(const struct sessions *table)
{
    mono next = deadlines_next(table->clocks);

    return !list_is_empty(&table->troubled) ? mono_min(next, table->retry_at) : next;
}

/* ---- life ---- */

struct sessions *sessions_create(const struct sessions_options *options)
{
    struct sessions *table = calloc(1, sizeof *table);

    if (!table)
        return NULL;
    table->options = *options;
    table->told = !options->shared;
    table->retry_batch = 1;
    if (table->options.max == 0)
        table->options.max = SESSIONS_MAX;
    list_init(&table->idle);
    list_init(&table->outbox);
    list_init(&table->ready);
    list_init(&table->troubled);
    table->slab = slab_create(sizeof(struct session), table->options.max);
    table->by_key = map_create(table->options.max);
    table->by_worker = map_create(table->options.max);
    table->clocks = deadlines_create(table->options.max);
    if (!table->slab || !table->by_key || !table->by_worker || !table->clocks) {
        sessions_destroy(table);
        return NULL;
    }
    return table;
}

static void destroy_one(void *arg, void *session)
{
    struct session *s = session;

    (void)arg;
    CHECK(!s->owner && s->users == 0 && list_is_empty(&s->waiters));
    session_forget(s);
}

void sessions_destroy(struct sessions *table)
{
    struct session_rules *next;

    if (!table)
        return;
    if (table->by_key && table->by_worker && table->slab && table->clocks) {
        sessions_all(table, destroy_one);
        CHECK(map_count(table->by_worker) == 0);
    }
    for (struct session_rules *rules = table->rules; rules; rules = next) {
        next = rules->next;
        free(rules);
    }
    map_destroy(table->by_key);
    map_destroy(table->by_worker);
    deadlines_destroy(table->clocks);
    slab_destroy(table->slab);
    free(table);
}

struct session_rules *sessions_add_service(struct sessions *table, struct span service,
                                           int64_t ttl_ms, int64_t wait_ms)
{
    struct session_rules *rules = calloc(1, sizeof *rules);

    if (!rules)
        return NULL;
    *rules = (struct session_rules){table->rules, service, ttl_ms, wait_ms};
    table->rules = rules;
    return rules;
}

int64_t session_wait_ms(const struct session_rules *rules)
{
    return rules->wait_ms;
}

const struct session_count_info session_count_table[SESSION_COUNTS] = {
    [SESSION_COUNT_HITS] = {"hits", "requests that found their session bound"},
    [SESSION_COUNT_BOUND] = {"bound", "sessions bound by an answer"},
    [SESSION_COUNT_ADOPTED] = {"adopted", "bindings taken from another router"},
    [SESSION_COUNT_REBOUND] = {"rebound", "bindings replaced by a later answer"},
    [SESSION_COUNT_TAKEN_OVER] = {"taken_over", "overdue claims of other routers that were taken"},
    [SESSION_COUNT_LOST] = {"overtaken", "owners here that another router overtook"},
    [SESSION_COUNT_EXPIRED] = {"expired", "bindings that were idle for too long"},
    [SESSION_COUNT_FORGOTTEN] = {"forgotten", "idle sessions that made room for others"},
    [SESSION_COUNT_FULL] = {"full", "requests that went unbound for want of room"},
    [SESSION_COUNT_WAITED] = {"waits_over", "requests that waited for their session in vain"},
    [SESSION_COUNT_LOCAL] = {"local", "sessions claimed without the bucket's word"},
    [SESSION_COUNT_FAILED] = {"store_failures", "operations on the bucket that failed"},
};

uint64_t sessions_count(const struct sessions *table, enum session_count which)
{
    return table->counts[which];
}

uint32_t sessions_held(const struct sessions *table)
{
    return slab_used(table->slab);
}

static uint32_t waiters_of(const struct session *s)
{
    uint32_t n = 0;

    for (const struct link *at = list_first(&s->waiters); at; at = list_next(&s->waiters, at))
        n++;
    return n;
}

static void view_of(const struct session *s, struct session_view *v, mono now)
{
    bool bound = s->state == SESSION_BOUND;

    *v = (struct session_view){
        .key = s->key,
        .state = (enum session_state)s->state,
        .worker = bound ? span_str(s->worker) : SPAN_EMPTY,
        .rank = bound ? s->rank : -1,
        .users = s->users,
        .waiters = waiters_of(s),
        .idle_ms = bound && s->users == 0 ? mono_diff_us(now, s->idle_since) / 1000 : -1,
        .revision = s->known_revision,
    };
}

struct viewing {
    bool (*fn)(void *arg, const struct session_view *v);
    void *arg;
    mono now;
    bool over;
};

static void view_one(void *arg, void *session)
{
    struct viewing *viewing = arg;
    struct session_view v;

    if (viewing->over)
        return;
    view_of(session, &v, viewing->now);
    viewing->over = !viewing->fn(viewing->arg, &v);
}

void sessions_each(struct sessions *table, bool (*fn)(void *arg, const struct session_view *v),
                   void *arg, mono now)
{
    struct viewing viewing = {fn, arg, now, false};

    map_each(table->by_key, view_one, &viewing);
}

bool sessions_find(const struct sessions *table, struct span key, struct session_view *out,
                   mono now)
{
    const struct session *s = map_get(table->by_key, key);

    if (s)
        view_of(s, out, now);
    return s != NULL;
}
