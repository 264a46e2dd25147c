/* A session and the bucket: what is learned of it, what is done in it; session.c has the essay. */
#include "base/check.h"
#include "core/session_state.h"

#define RETRY_MS 1000    /* after an operation on the bucket failed */
#define RETRY_SOON_MS 50 /* while operations succeed again */
#define RETRY_BATCH_MAX 256
#define OPERATION_MS 2000 /* an operation that no request waits for */

/* ---- facts ---- */

/* The key is gone, or was never written. */
static void learn_nothing(struct session *s, bool was_written)
{
    struct session_ticket *first;

    if (s->state == SESSION_ABSENT)
        s->remove = false; /* nothing is left to go */
    if (s->state != SESSION_FOREIGN && !(s->state == SESSION_BOUND && was_written))
        return; /* what is owned or bound here is written again */
    session_move(s, SESSION_ABSENT);
    if ((first = session_take_waiter(s)))
        session_claim(s, first);
}

/* It was told to choose, and is on its way to whom it chose. */
static bool is_choosing(const struct session *s, const struct session_ticket *owner)
{
    return s->state == SESSION_OWNED && !owner->ready;
}

/* Another router's owner is choosing. */
static void learn_claim(struct session *s)
{
    if (s->state == SESSION_FOREIGN)
        return;
    if (s->state == SESSION_ABSENT)
        s->remove = false; /* the key is another's now */
    if (s->state == SESSION_CLAIMING && !mono_before(s->table->now, session_overdue_at(s))) {
        session_note(s->table, SESSION_COUNT_TAKEN_OVER);
        return; /* ours follows on its revision */
    }
    if (s->owner) {
        struct session_ticket *owner = s->owner;

        s->owner = NULL;
        if (is_choosing(s, owner)) {
            session_note(s->table, SESSION_COUNT_LOST);
            ticket_cast_out(owner);
        } else {
            ticket_unready(owner);
            owner->role = SESSION_WAITER;
            list_prepend(&s->waiters, &owner->link);
        }
    }
    s->broken = false;
    session_move(s, SESSION_FOREIGN);
}

/* Our own claim: the one under way, one given up meanwhile, or one of an earlier life. */
static void learn_own_claim(struct session *s)
{
    if (s->state == SESSION_ABSENT) {
        s->remove = true;
    } else if (s->state == SESSION_FOREIGN) {
        struct session_ticket *first = session_take_waiter(s);

        session_move(s, SESSION_ABSENT);
        s->remove = true;
        if (first)
            session_claim(s, first);
    }
}

static void adopt(struct session *s, const struct session_fact *fact)
{
    struct session_ticket *owner = s->owner;
    bool choosing = owner && is_choosing(s, owner);

    session_note(s->table, SESSION_COUNT_ADOPTED);
    session_bind(s, fact->worker, fact->rank, fact->epoch);
    s->known_binding = s->binding;
    s->idle_since = fact->written;
    s->owner = NULL;
    if (choosing) {
        session_note(s->table, SESSION_COUNT_LOST);
        ticket_cast_out(owner);
    } else if (owner) {
        ticket_use(s, owner);
        ticket_wake(s, owner);
    }
    session_admit_waiters(s);
}

static bool same_binding(const struct session *s, struct span worker, int32_t rank)
{
    return span_eq_str(worker, s->worker) && rank == s->rank;
}

static void learn_binding(struct session *s, const struct session_fact *fact)
{
    bool same = s->binding > 0 && same_binding(s, fact->worker, fact->rank);
    bool dead = !mono_before(s->table->now, mono_add_ms(fact->written, s->rules->ttl_ms));

    switch ((enum session_state)s->state) {
    case SESSION_CLAIMING:
    case SESSION_OWNED:
        if (dead || (s->broken && same))
            return; /* ours follows on its revision */
        adopt(s, fact);
        return;
    case SESSION_ABSENT:
        if (s->remove && ++s->tries < UNBIND_TRIES_MAX)
            return;
        adopt(s, fact);
        return;
    case SESSION_BOUND:
        if (same) {
            s->known_binding = s->binding;
            session_admit_waiters(s);
            return;
        }
        adopt(s, fact);
        return;
    case SESSION_FOREIGN:
        adopt(s, fact);
        return;
    case SESSION_STATES:
        break;
    }
}

/* `removed`: where the key holds nothing somebody took it away, and the binding with it. */
static void learn(struct session *s, const struct session_fact *fact, bool removed)
{
    bool was_written = removed && session_is_written(s);

    s->doubt = false;
    s->overtaken = 0;
    s->known_hold = (uint8_t)fact->hold;
    s->known_mine =
        fact->hold != SESSION_HOLDS_NOTHING && span_eq(fact->router, s->table->options.router);
    s->known_binding = 0;
    s->known_revision = fact->hold == SESSION_HOLDS_NOTHING ? 0 : fact->revision;
    s->known_written = fact->written;
    s->reading = s->table->reading;
    s->told_at = s->table->now;
    if (fact->revision > s->seen)
        s->seen = fact->revision;
    if (fact->hold == SESSION_HOLDS_NOTHING)
        learn_nothing(s, was_written);
    else if (fact->hold == SESSION_HOLDS_BOUND)
        learn_binding(s, fact);
    else if (s->known_mine)
        learn_own_claim(s);
    else
        learn_claim(s);
}

/* ---- the bucket ---- */

bool sessions_effect(struct sessions *table, struct session_effect *out)
{
    struct session *s;

    while ((s = LIST_OWNER(list_first(&table->outbox), struct session, outbox))) {
        enum session_effect_kind kind;

        link_remove(&s->outbox);
        if (!session_next_effect(s, &kind))
            continue;
        *out = (struct session_effect){.kind = kind,
                                       .token = s->handle,
                                       .key = s->key,
                                       .expect = s->known_revision,
                                       .timeout_ms = OPERATION_MS};
        if (s->state == SESSION_CLAIMING || !list_is_empty(&s->waiters))
            out->timeout_ms = s->rules->wait_ms > 0 ? s->rules->wait_ms : 1;
        s->io = IO_OUT;
        s->io_kind = (uint8_t)kind;
        s->io_hold = SESSION_HOLDS_NOTHING;
        s->overtaken = 0;
        if (kind == SESSION_WRITE) {
            bool bound = s->state == SESSION_BOUND;

            s->io_hold = bound ? SESSION_HOLDS_BOUND : SESSION_HOLDS_INIT;
            s->io_binding = s->binding;
            out->put = (struct session_fact){
                .hold = (enum session_hold)s->io_hold,
                .router = table->options.router,
                .worker = bound ? span_str(s->worker) : SPAN_EMPTY,
                .rank = bound ? s->rank : -1,
                .epoch = bound ? s->epoch : -1,
            };
        }
        return true;
    }
    return false;
}

static void written(struct session *s, uint64_t revision)
{
    s->known_hold = s->io_hold;
    s->known_mine = true;
    s->known_binding = s->io_hold == SESSION_HOLDS_BOUND ? s->io_binding : 0;
    s->known_revision = s->io_hold == SESSION_HOLDS_NOTHING ? 0 : revision;
    s->known_written = s->table->now;
    s->reading = s->table->reading;
    s->told_at = s->table->now;
    if (s->io_kind == SESSION_DELETE)
        s->remove = false;
    if (revision > s->seen)
        s->seen = revision;
    s->doubt = s->overtaken > revision;
}

/* Nothing more can be said of the bucket now: those who wait for its word go on without. */
static void go_on_alone(struct session *s)
{
    if (s->state == SESSION_CLAIMING)
        session_own_locally(s);
    else if (s->state == SESSION_BOUND)
        session_admit_waiters(s);
}

/* It is tried again in its turn. Expired here, it has expired there as well: nobody need know. */
static void failed(struct session *s)
{
    struct sessions *table = s->table;

    session_note(table, SESSION_COUNT_FAILED);
    table->retry_batch = 1;
    if (list_is_empty(&table->troubled))
        table->retry_at = mono_add_ms(table->now, RETRY_MS);
    list_append(&table->troubled, &s->troubled);
    s->doubt = true;
    if (s->state == SESSION_ABSENT && s->tries >= UNBIND_TRIES_MAX)
        s->remove = false;
    go_on_alone(s);
}

void sessions_retry(struct sessions *table)
{
    if (list_is_empty(&table->troubled) || mono_before(table->now, table->retry_at))
        return;
    for (uint32_t n = table->retry_batch; n > 0 && !list_is_empty(&table->troubled); n--) {
        struct session *s = LIST_OWNER(list_first(&table->troubled), struct session, troubled);

        session_is_fine(s);
        session_after(s);
    }
    table->retry_at = mono_add_ms(table->now, table->retry_batch > 1 ? RETRY_SOON_MS : RETRY_MS);
}

void sessions_done(struct sessions *table, uint64_t token, enum session_result result,
                   const struct session_fact *fact, mono now)
{
    struct session *s = slab_get(table->slab, token);

    CHECK(s && s->io == IO_OUT);
    table->now = now;
    s->io = IO_NONE;
    if (result == SESSION_DONE && s->io_kind == SESSION_READ) {
        uint64_t overtaken = s->overtaken;

        /* Whoever unbinds leaves a marker. No trace of it at all: the bucket is another one, or has
         * lost it. */
        learn(s, fact, fact->revision > 0);
        s->doubt = overtaken > fact->revision;
    } else if (result == SESSION_DONE) {
        written(s, fact->revision);
        if (table->retry_batch < RETRY_BATCH_MAX)
            table->retry_batch *= 2;
    } else if (result == SESSION_OTHER) {
        s->doubt = true;
    } else {
        failed(s);
    }
    session_after(s);
}

static void seen_unknown(struct sessions *table, struct span key, const struct session_fact *fact)
{
    const struct session_rules *rules = session_rules_of(table, key);
    struct session *s;

    if (!rules || fact->hold != SESSION_HOLDS_BOUND ||
        slab_used(table->slab) >= table->options.max ||
        !mono_before(table->now, mono_add_ms(fact->written, rules->ttl_ms)))
        return;
    s = session_create(table, rules, key);
    if (!s)
        return;
    learn(s, fact, true);
    session_after(s);
}

static bool is_echo(const struct session *s, const struct session_fact *fact)
{
    if (s->io_kind == SESSION_READ || fact->hold != s->io_hold)
        return false;
    return fact->hold == SESSION_HOLDS_NOTHING || span_eq(fact->router, s->table->options.router);
}

void sessions_seen(struct sessions *table, struct span key, const struct session_fact *fact,
                   mono now)
{
    struct session *s = map_get(table->by_key, key);

    table->now = now;
    if (!s) {
        seen_unknown(table, key, fact);
        return;
    }
    s->reading = table->reading;
    s->told_at = now;
    if (fact->revision <= s->seen) {
        if (fact->revision == s->known_revision && fact->hold == s->known_hold) {
            s->known_written = fact->written;
            s->doubt = s->doubt && s->io != IO_NONE;
        }
        if (s->state == SESSION_BOUND && !s->doubt)
            session_admit_waiters(s);
    } else if (s->io == IO_OUT) {
        if (!is_echo(s, fact) && fact->revision > s->overtaken)
            s->overtaken = fact->revision;
    } else {
        learn(s, fact, true);
    }
    session_after(s);
}

static void revisions_began_anew(void *arg, void *session)
{
    struct session *s = session;

    (void)arg;
    s->known_hold = SESSION_HOLDS_NOTHING;
    s->known_mine = false;
    s->known_binding = 0;
    s->known_revision = s->seen = s->overtaken = 0;
    s->doubt = s->doubt || s->io == IO_OUT;
    session_after(s);
}

void sessions_reading(struct sessions *table, bool another, mono now)
{
    table->now = now;
    table->trusted = false;
    table->reading++;
    if (another)
        sessions_all(table, revisions_began_anew);
}

static void not_there(void *arg, void *session)
{
    struct sessions *table = arg;
    struct session *s = session;

    if (s->reading != table->reading && s->io == IO_OUT) {
        s->overtaken = UINT64_MAX; /* what is under way may be of before */
    } else if (s->reading != table->reading && s->known_revision > 0) {
        const struct session_fact nothing = {.hold = SESSION_HOLDS_NOTHING};

        learn(s, &nothing, true);
    }
    session_after(s);
}

void sessions_current(struct sessions *table, mono now)
{
    table->now = now;
    table->trusted = true;
    sessions_all(table, not_there);
}

void sessions_gap(struct sessions *table)
{
    table->trusted = false;
    table->reading++; /* nothing has been read since */
}

static void link_changed(void *arg, void *session)
{
    struct sessions *table = arg;
    struct session *s = session;

    session_is_fine(s);
    if (!table->up)
        go_on_alone(s);
    session_after(s);
}

void sessions_link(struct sessions *table, bool up, mono now)
{
    table->now = now;
    if (!table->options.shared || (up == table->up && table->told))
        return;
    table->told = true;
    table->up = up;
    table->trusted = false;
    sessions_all(table, link_changed);
}

bool sessions_shared(const struct sessions *table)
{
    return table->up;
}
