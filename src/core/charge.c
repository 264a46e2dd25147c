/* Charges: who occupies a worker.
 *
 * A charge is empty (worker NULL), counted (in w->occupancy and w->bytes_out, on w->charges),
 * ending (its epoch ended: counted no more, on the private list until its owner has been told), or
 * told (on w->charges again, not counted, until its owner releases it). `ended` says which; the
 * counts never look at epochs, so an epoch that comes back can't be mixed up with an older one of
 * the same number. The count of its adapter begins after the worker's and ends with it. Each charge
 * that is not empty holds a reference to its worker. */
#include "core/charge.h"

#include "base/check.h"
#include "core/pool.h"

enum { CHARGE_COUNTED, CHARGE_ENDING, CHARGE_TOLD };

static void charge_uncount(struct charge *charge)
{
    struct worker *w = charge->worker;

    CHECK(w->occupancy > 0 && w->bytes_out >= charge->bytes);
    w->occupancy--;
    w->pool->own--;
    w->bytes_out -= charge->bytes;
    charge->bytes = 0;
    if (charge->holding != NULL)
        holding_leave(charge->holding);
    charge->holding = NULL;
}

void charge_adapter(struct charge *charge, struct holding *h)
{
    CHECK(charge->worker != NULL && charge->holding == NULL && charge->ended == CHARGE_COUNTED);
    CHECK(h->worker == charge->worker);
    charge->holding = h;
    holding_enter(h);
}

void charge_take(struct charge *charge, struct worker *w, mono now)
{
    MAGIC_CHECK(w, WORKER_MAGIC);
    CHECK(charge->worker == NULL && w->discovered);
    *charge = (struct charge){.worker = w, .epoch = w->epoch};
    list_prepend(&w->charges, &charge->link);
    w->refs++;
    w->occupancy++;
    w->pool->own++;
    worker_changed(w, now);
}

bool charge_release(struct charge *charge, mono now)
{
    struct worker *w = charge->worker;

    if (w == NULL)
        return false;
    MAGIC_CHECK(w, WORKER_MAGIC);
    link_remove(&charge->link);
    if (charge->ended == CHARGE_COUNTED) {
        charge_uncount(charge);
        if (w->discovered)
            worker_changed(w, now);
    }
    *charge = (struct charge){0};
    worker_unref(w);
    return true;
}

void charge_move(struct charge *charge, struct worker *to, mono now)
{
    CHECK(charge_release(charge, now));
    charge_take(charge, to, now);
}

void charge_bytes(struct charge *charge, uint64_t bytes, mono now)
{
    struct worker *w = charge->worker;
    uint64_t limit;
    bool was_over;

    CHECK(w != NULL);
    if (charge->ended != CHARGE_COUNTED)
        return;
    limit = w->pool->registry->options.worker_bytes;
    was_over = w->bytes_out > limit;
    CHECK(bytes <= UINT32_MAX - charge->bytes);
    charge->bytes += (uint32_t)bytes;
    w->bytes_out += bytes;
    if (!was_over && w->bytes_out > limit && w->discovered)
        worker_changed(w, now);
}

void charge_bytes_arrived(struct charge *charge, mono now)
{
    struct worker *w = charge->worker;
    uint64_t limit;
    bool was_over;

    CHECK(w != NULL);
    if (charge->bytes == 0)
        return;
    limit = w->pool->registry->options.worker_bytes;
    was_over = w->bytes_out > limit;
    CHECK(w->bytes_out >= charge->bytes);
    w->bytes_out -= charge->bytes;
    charge->bytes = 0;
    if (was_over && w->bytes_out <= limit && w->discovered)
        worker_changed(w, now);
}

void charge_end_epoch(struct worker *w, bool begun_too)
{
    const struct registry_options *options = &w->pool->registry->options;
    struct link *next;

    for (struct link *at = list_first(&w->charges); at != NULL; at = next) {
        struct charge *charge = CONTAINER_OF(at, struct charge, link);

        next = list_next(&w->charges, at);
        if (charge->ended != CHARGE_COUNTED)
            continue;
        if (!begun_too && options->events.attempt_begun != NULL &&
            options->events.attempt_begun(options->arg, charge))
            continue;
        link_remove(at);
        charge_uncount(charge);
        charge->ended = CHARGE_ENDING;
        list_prepend(&w->priv->ending, at);
    }
}

void charge_hand_over(struct worker *w, mono now)
{
    const struct registry_options *options = &w->pool->registry->options;

    struct link *at;

    worker_ref(w);
    while ((at = list_first(&w->priv->ending)) != NULL) {
        struct charge *charge = CONTAINER_OF(at, struct charge, link);

        link_remove(at);
        charge->ended = CHARGE_TOLD;
        list_prepend(&w->charges, at);
        if (options->events.attempt_lost != NULL)
            options->events.attempt_lost(options->arg, charge, now);
    }
    worker_unref(w);
}
