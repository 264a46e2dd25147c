/* The moves of a session and of the tickets in it, and what follows from a state; session.c has the
 * essay. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/session_state.h"

const char *session_state_name(enum session_state state)
{
    static const char *const names[SESSION_STATES] = {"absent", "claiming", "owned", "foreign",
                                                      "bound"};

    CHECK((unsigned)state < SESSION_STATES);
    return names[state];
}

void session_note(struct sessions *table, enum session_count which)
{
    table->counts[which]++;
}

/* ---- how many are bound to a worker ---- */

static struct span worker_key(struct span service, struct span worker,
                              char text[2 * WB_NAME_MAX + 1])
{
    CHECK(service.len <= WB_NAME_MAX && worker.len <= WB_NAME_MAX);
    memcpy(text, service.ptr, service.len);
    text[service.len] = '.';
    memcpy(text + service.len + 1, worker.ptr, worker.len);
    return span_of(text, service.len + 1 + worker.len);
}

/* Without memory the session is not counted: the number is for operators only. */
static void count_bound(struct session *s)
{
    struct map *map = s->table->by_worker;
    char text[2 * WB_NAME_MAX + 1];
    struct span key = worker_key(s->rules->service, span_str(s->worker), text);
    struct bindings *b = map_get(map, key);

    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            return;
        b->key = worker_key(s->rules->service, span_str(s->worker), b->text);
        if (map_put(map, b->key, b) != WB_OK) {
            free(b);
            return;
        }
    }
    b->count++;
    s->counted = b;
}

static void uncount_bound(struct session *s)
{
    struct bindings *b = s->counted;

    s->counted = NULL;
    if (!b || --b->count > 0)
        return;
    CHECK(map_remove(s->table->by_worker, b->key) == b);
    free(b);
}

uint32_t sessions_bound_to(const struct sessions *table, struct span service, struct span worker)
{
    char text[2 * WB_NAME_MAX + 1];
    const struct bindings *b = map_get(table->by_worker, worker_key(service, worker, text));

    return b ? b->count : 0;
}

void session_move(struct session *s, enum session_state state)
{
    static const unsigned moves[SESSION_STATES] = {
        [SESSION_ABSENT] = 1u << SESSION_CLAIMING | 1u << SESSION_OWNED | 1u << SESSION_FOREIGN |
                           1u << SESSION_BOUND,
        [SESSION_CLAIMING] = 1u << SESSION_OWNED | 1u << SESSION_FOREIGN | 1u << SESSION_BOUND |
                             1u << SESSION_ABSENT,
        [SESSION_OWNED] = 1u << SESSION_FOREIGN | 1u << SESSION_BOUND | 1u << SESSION_ABSENT,
        [SESSION_FOREIGN] = 1u << SESSION_CLAIMING | 1u << SESSION_OWNED | 1u << SESSION_BOUND |
                            1u << SESSION_ABSENT,
        [SESSION_BOUND] = 1u << SESSION_CLAIMING | 1u << SESSION_OWNED | 1u << SESSION_FOREIGN |
                          1u << SESSION_BOUND | 1u << SESSION_ABSENT,
    };

    CHECK(moves[s->state] & 1u << state);
    uncount_bound(s);
    s->state = (uint8_t)state;
}

/* ---- tickets ---- */

void ticket_unready(struct session_ticket *t)
{
    if (t->ready)
        link_remove(&t->link);
    t->ready = false;
}

/* Its verdict is final: the router has to hear of it. */
void ticket_wake(struct session *s, struct session_ticket *t)
{
    if (t->ready)
        return;
    t->ready = true;
    list_append(&s->table->ready, &t->link);
}

void ticket_wait(struct session *s, struct session_ticket *t)
{
    t->role = SESSION_WAITER;
    list_append(&s->waiters, &t->link);
}

struct session_ticket *session_take_waiter(struct session *s)
{
    struct session_ticket *t = LIST_OWNER(list_first(&s->waiters), struct session_ticket, link);

    if (t)
        link_remove(&t->link);
    return t;
}

void ticket_use(struct session *s, struct session_ticket *t)
{
    t->role = SESSION_USER;
    t->binding = s->binding;
    s->users++;
}

void session_admit_waiters(struct session *s)
{
    struct session_ticket *t;

    while ((t = session_take_waiter(s))) {
        ticket_use(s, t);
        ticket_wake(s, t);
    }
}

/* Owns the session no more and has no other part in it. Its answer binds nothing. */
void ticket_cast_out(struct session_ticket *t)
{
    t->session = NULL;
    t->role = SESSION_NONE;
}

/* The claim stands, by the bucket's word or for want of it. */
static void own(struct session *s)
{
    session_move(s, SESSION_OWNED);
    ticket_wake(s, s->owner);
}

void session_own_locally(struct session *s)
{
    if (s->table->options.shared)
        session_note(s->table, SESSION_COUNT_LOCAL);
    own(s);
}

/* Makes the ticket, which is in no list, the owner of a session that has none. */
void session_claim(struct session *s, struct session_ticket *t)
{
    t->role = SESSION_OWNER;
    s->owner = t;
    s->remove = false;
    s->claimed_at = s->table->now;
    /* somebody waits for it */
    session_is_fine(s);
    if (s->table->up || !s->table->told) /* at the start its word is waited for */
        session_move(s, SESSION_CLAIMING);
    else
        session_own_locally(s);
}

/* ---- bindings ---- */

void session_bind(struct session *s, struct span worker, int32_t rank, int64_t epoch)
{
    CHECK(worker.len > 0 && worker.len <= WB_NAME_MAX);
    session_move(s, SESSION_BOUND);
    memcpy(s->worker, worker.ptr, worker.len);
    s->worker[worker.len] = '\0';
    s->worker_len = (uint8_t)worker.len;
    count_bound(s);
    s->rank = rank;
    s->epoch = epoch;
    if (++s->binding == 0)
        s->binding = 1;
    s->broken = false;
    s->remove = false;
    s->idle_since = s->table->now;
}

bool session_is_written(const struct session *s)
{
    return s->known_hold == SESSION_HOLDS_BOUND && s->known_binding == s->binding;
}

mono session_overdue_at(const struct session *s)
{
    return mono_add_ms(s->known_written, s->rules->wait_ms);
}

mono session_expiry(const struct session *s)
{
    mono since = s->idle_since;

    if (session_is_written(s) && mono_before(since, s->known_written))
        since = s->known_written;
    return mono_add_ms(since, s->rules->ttl_ms);
}

/* A binding in use, or used since it was last written, is written again. */
static mono session_renewal(const struct session *s)
{
    if (!s->table->up || !session_is_written(s) ||
        (s->users == 0 && !mono_before(s->known_written, s->idle_since)))
        return MONO_NEVER;
    return mono_add_ms(s->known_written, s->rules->ttl_ms / 3);
}

/* ---- what is to be done in the bucket ---- */

/* False: nothing. */
bool session_next_effect(const struct session *s, enum session_effect_kind *kind)
{
    const struct sessions *table = s->table;

    if (!table->up || s->io != IO_NONE || link_is_on(&s->troubled))
        return false;
    if (s->doubt) {
        *kind = SESSION_READ;
        return s->state != SESSION_ABSENT || s->remove;
    }
    switch ((enum session_state)s->state) {
    case SESSION_CLAIMING:
    case SESSION_OWNED:
        *kind = SESSION_WRITE;
        return s->known_hold != SESSION_HOLDS_INIT || !s->known_mine;
    case SESSION_BOUND:
        *kind = SESSION_WRITE;
        return !session_is_written(s) || !mono_before(table->now, session_renewal(s));
    case SESSION_ABSENT:
        *kind = SESSION_DELETE;
        return s->remove && s->known_hold != SESSION_HOLDS_NOTHING;
    case SESSION_FOREIGN:
    case SESSION_STATES:
        break;
    }
    return false;
}

static mono due(const struct session *s)
{
    mono at = MONO_NEVER;

    if (s->io != IO_NONE && s->state != SESSION_CLAIMING && s->state != SESSION_FOREIGN)
        return MONO_NEVER; /* the end of the operation looks again */
    if (s->state == SESSION_CLAIMING)
        at = mono_add_ms(s->claimed_at, s->rules->wait_ms);
    else if (s->state == SESSION_FOREIGN && !list_is_empty(&s->waiters))
        at = session_overdue_at(s);
    else if (s->state == SESSION_BOUND) {
        mono renewal = session_renewal(s);

        if (!mono_before(s->table->now, renewal)) /* it is on the outbox, or on the troubled list */
            renewal = MONO_NEVER;
        at = mono_min(s->users ? MONO_NEVER : session_expiry(s), renewal);
    }
    return at;
}

/* ---- where it is ---- */

static void put_on(struct list *list, struct link *link)
{
    if (!link_is_on(link))
        list_append(list, link);
}

static void take_off(struct link *link)
{
    if (link_is_on(link))
        link_remove(link);
}

void session_is_fine(struct session *s)
{
    take_off(&s->troubled);
}

void session_forget(struct session *s)
{
    struct sessions *table = s->table;

    take_off(&s->idle);
    take_off(&s->outbox);
    session_is_fine(s);
    deadline_cancel(table->clocks, &s->clock);
    uncount_bound(s);
    CHECK(map_remove(table->by_key, s->key) == s);
    free(s->text);
    s->magic = 0;
    slab_give(table->slab, s->handle);
}

/* Though nothing is to be done in the bucket now. */
static bool is_needed(const struct session *s)
{
    if (s->state == SESSION_BOUND || s->owner || !list_is_empty(&s->waiters) || s->users ||
        s->io != IO_NONE)
        return true;
    /* The key is still to go: also while the bucket is away, if it is an operator's wish; a claim
     * or binding that is given up runs out there too. */
    if (s->state == SESSION_ABSENT)
        return s->remove && (s->table->up || s->tries < UNBIND_TRIES_MAX) &&
               (s->doubt || s->known_hold != SESSION_HOLDS_NOTHING);
    return false;
}

/* Ends each event. */
void session_after(struct session *s)
{
    struct sessions *table = s->table;
    enum session_effect_kind kind;
    bool has_effect;
    mono at;

    if (s->state == SESSION_CLAIMING && !s->doubt && s->io == IO_NONE && s->known_mine &&
        s->known_hold == SESSION_HOLDS_INIT)
        own(s);
    if (s->state == SESSION_BOUND && !s->doubt && s->io == IO_NONE)
        session_admit_waiters(s); /* they waited for the bucket's word */
    if (s->state == SESSION_ABSENT && !s->remove && !list_is_empty(&s->waiters))
        session_claim(s, session_take_waiter(s)); /* what they waited to hear of is gone */
    has_effect = session_next_effect(s, &kind);
    if (!has_effect && !is_needed(s)) {
        session_forget(s);
        return;
    }
    at = due(s);
    if (s->state == SESSION_BOUND && s->users == 0 && list_is_empty(&s->waiters))
        put_on(&table->idle, &s->idle);
    else
        take_off(&s->idle);
    if (has_effect)
        put_on(&table->outbox, &s->outbox);
    /* One that is armed for nothing stays, since most sessions need it again with the next event;
     * it comes up in vain at worst. The heap holds as many as the table; without memory for it the
     * next event arms it. */
    if (!mono_is_never(at) && deadline_set(table->clocks, &s->clock, at) != WB_OK)
        session_note(table, SESSION_COUNT_FAILED);
}

void sessions_all(struct sessions *table, void (*fn)(void *arg, void *session))
{
    map_each(table->by_key, fn, table);
}
