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
    s->state = (uint8_t)state;
}

/* ---- tickets ---- */

void tickets_append(struct ticket_list *list, struct session_ticket *t)
{
    t->prev = list->last;
    t->next = NULL;
    if (list->last)
        list->last->next = t;
    else
        list->first = t;
    list->last = t;
    list->count++;
}

void tickets_prepend(struct ticket_list *list, struct session_ticket *t)
{
    t->next = list->first;
    t->prev = NULL;
    if (list->first)
        list->first->prev = t;
    else
        list->last = t;
    list->first = t;
    list->count++;
}

void tickets_remove(struct ticket_list *list, struct session_ticket *t)
{
    if (t->prev)
        t->prev->next = t->next;
    else
        list->first = t->next;
    if (t->next)
        t->next->prev = t->prev;
    else
        list->last = t->prev;
    t->next = t->prev = NULL;
    list->count--;
}

void ticket_unready(struct sessions *table, struct session_ticket *t)
{
    if (t->ready)
        tickets_remove(&table->ready, t);
    t->ready = false;
}

/* Its verdict is final: the router has to hear of it. */
void ticket_wake(struct session *s, struct session_ticket *t)
{
    if (t->ready)
        return;
    t->ready = true;
    tickets_append(&s->table->ready, t);
}

void ticket_wait(struct session *s, struct session_ticket *t)
{
    t->role = SESSION_WAITER;
    tickets_append(&s->waiters, t);
}

struct session_ticket *session_take_waiter(struct session *s)
{
    struct session_ticket *t = s->waiters.first;

    if (t)
        tickets_remove(&s->waiters, t);
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
    sessions_unlink(&s->table->troubled, s);
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

    if (!table->up || s->io != IO_NONE || s->troubled.in)
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

    if (s->state == SESSION_CLAIMING)
        at = mono_add_ms(s->claimed_at, s->rules->wait_ms);
    else if (s->state == SESSION_FOREIGN && s->waiters.count > 0)
        at = session_overdue_at(s);
    else if (s->state == SESSION_BOUND)
        at = mono_min(s->users ? MONO_NEVER : session_expiry(s), session_renewal(s));
    return s->io == IO_NONE || s->state == SESSION_CLAIMING || s->state == SESSION_FOREIGN
               ? at
               : MONO_NEVER; /* the end of the operation looks again */
}

/* ---- lists of sessions ---- */

static struct links *links_in(struct session *s, const struct session_list *list)
{
    if (list == &s->table->idle)
        return &s->idle;
    return list == &s->table->outbox ? &s->outbox : &s->troubled;
}

void sessions_unlink(struct session_list *list, struct session *s)
{
    struct links *l = links_in(s, list);

    if (!l->in)
        return;
    if (l->prev)
        links_in(l->prev, list)->next = l->next;
    else
        list->first = l->next;
    if (l->next)
        links_in(l->next, list)->prev = l->prev;
    else
        list->last = l->prev;
    *l = (struct links){0};
}

void sessions_link_to(struct session_list *list, struct session *s)
{
    struct links *l = links_in(s, list);

    if (l->in)
        return;
    *l = (struct links){.prev = list->last, .in = true};
    if (list->last)
        links_in(list->last, list)->next = s;
    else
        list->first = s;
    list->last = s;
}

void session_forget(struct session *s)
{
    struct sessions *table = s->table;

    sessions_unlink(&table->idle, s);
    sessions_unlink(&table->outbox, s);
    sessions_unlink(&table->troubled, s);
    deadline_cancel(table->clocks, &s->clock);
    CHECK(map_remove(table->by_key, s->key) == s);
    free(s->text);
    s->magic = 0;
    slab_give(table->slab, s->handle);
}

static bool is_needed(const struct session *s)
{
    enum session_effect_kind kind;

    if (s->owner || s->waiters.count || s->users || s->io != IO_NONE ||
        session_next_effect(s, &kind))
        return true;
    if (s->state == SESSION_ABSENT) /* the key is still to go */
        return s->remove && s->table->up && (s->doubt || s->known_hold != SESSION_HOLDS_NOTHING);
    return s->state == SESSION_BOUND;
}

/* Ends each event. */
void session_after(struct session *s)
{
    struct sessions *table = s->table;
    enum session_effect_kind kind;

    if (s->state == SESSION_CLAIMING && !s->doubt && s->io == IO_NONE && s->known_mine &&
        s->known_hold == SESSION_HOLDS_INIT)
        own(s);
    if (s->state == SESSION_BOUND && !s->doubt && s->io == IO_NONE)
        session_admit_waiters(s); /* they waited for the bucket's word */
    if (!is_needed(s)) {
        session_forget(s);
        return;
    }
    if (s->state == SESSION_BOUND && s->users == 0 && s->waiters.count == 0)
        sessions_link_to(&table->idle, s);
    else
        sessions_unlink(&table->idle, s);
    if (session_next_effect(s, &kind))
        sessions_link_to(&table->outbox, s);
    if (!mono_is_never(due(s)) || s->clock.slot) {
        /* The heap holds as many as the table. Without memory for it the next event arms it. */
        if (deadline_set(table->clocks, &s->clock, due(s)) != WB_OK)
            session_note(table, SESSION_COUNT_FAILED);
    }
}

void sessions_all(struct sessions *table, void (*fn)(void *arg, void *session))
{
    map_each(table->by_key, fn, table);
}
