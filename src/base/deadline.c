/* A four-way heap of (key, deadline) pairs; the key stands in the array so that sifting touches no
 * deadline but those that move.
 *
 * A deadline is in one of two places: in the heap (slot is its 1-based index, due is when it fires)
 * or out of it (slot 0, due MONO_NEVER). Invariants: entry.key == deadline.key <= deadline.due;
 * children's keys are not before their parent's.
 *
 * Moving a deadline later stores due and leaves the key: at its old key it comes up, gets its true
 * key and sinks. Nothing fires by an old key, so callbacks come in the order of due. The price:
 * deadlines_next may name a moment at which deadlines_run only puts keys right; each move later
 * costs at most one such turn.
 *
 * Does not: own the deadlines (destroy leaves them alone), read a clock, or know the loop. */
#include "base/deadline.h"

#include "base/check.h"

#include <stdlib.h>

#define ARITY 4
#define FIRST_SIZE 64

struct entry {
    int64_t key;
    struct deadline *d;
};

struct deadlines {
    struct entry *entries; /* 1-based: entries[0] is not used */
    unsigned count, size, max;
};

struct deadlines *deadlines_create(unsigned max)
{
    struct deadlines *heap = calloc(1, sizeof(*heap));

    if (heap)
        heap->max = max;
    return heap;
}

void deadlines_destroy(struct deadlines *heap)
{
    if (!heap)
        return;
    free(heap->entries);
    free(heap);
}

void deadline_init(struct deadline *d, void (*fire)(struct deadline *self, mono now))
{
    *d = (struct deadline){.due = MONO_NEVER, .key = MONO_NEVER, .fire = fire};
}

static void place(struct deadlines *heap, unsigned slot, struct entry e)
{
    heap->entries[slot] = e;
    e.d->slot = slot;
}

/* Indices with base 1: the children of i are (i - 1) * ARITY + 2 and the ARITY - 1 after it. */
static void sift_up(struct deadlines *heap, unsigned slot, struct entry e)
{
    while (slot > 1) {
        unsigned parent = (slot - 2) / ARITY + 1;

        if (heap->entries[parent].key <= e.key)
            break;
        place(heap, slot, heap->entries[parent]);
        slot = parent;
    }
    place(heap, slot, e);
}

static void sift_down(struct deadlines *heap, unsigned slot, struct entry e)
{
    for (;;) {
        size_t first = ((size_t)slot - 1) * ARITY + 2, last = first + ARITY - 1, best = first;

        if (first > heap->count)
            break;
        if (last > heap->count)
            last = heap->count;
        for (size_t i = first + 1; i <= last; i++)
            if (heap->entries[i].key < heap->entries[best].key)
                best = i;
        if (heap->entries[best].key >= e.key)
            break;
        place(heap, slot, heap->entries[best]);
        slot = (unsigned)best;
    }
    place(heap, slot, e);
}

static wb_status grow(struct deadlines *heap)
{
    size_t size = heap->size ? (size_t)heap->size * 2 : FIRST_SIZE;
    struct entry *entries;

    if (size > heap->max)
        size = heap->max;
    entries = realloc(heap->entries, (size + 1) * sizeof(*entries));
    if (!entries)
        return WB_NO_MEMORY;
    heap->entries = entries;
    heap->size = (unsigned)size;
    return WB_OK;
}

wb_status deadline_move(struct deadlines *heap, struct deadline *d, mono due)
{
    wb_status status;

    if (mono_is_never(due)) {
        deadline_cancel(heap, d);
        return WB_OK;
    }
    if (!d->slot) {
        if (heap->count == heap->max)
            return WB_FULL;
        if (heap->count == heap->size) {
            status = grow(heap);
            if (status != WB_OK)
                return status;
        }
        d->slot = ++heap->count;
    }
    d->due = d->key = due;
    sift_up(heap, d->slot, (struct entry){due.us, d});
    return WB_OK;
}

void deadline_cancel(struct deadlines *heap, struct deadline *d)
{
    unsigned slot = d->slot;
    struct entry last;

    if (!slot)
        return;
    CHECK(slot <= heap->count && heap->entries[slot].d == d);
    d->slot = 0;
    d->due = d->key = MONO_NEVER;
    last = heap->entries[heap->count--];
    if (last.d == d)
        return;
    /* The one that fills the hole may come from another branch: it can belong above or below. */
    if (slot > 1 && last.key < heap->entries[(slot - 2) / ARITY + 1].key)
        sift_up(heap, slot, last);
    else
        sift_down(heap, slot, last);
}

unsigned deadlines_run(struct deadlines *heap, mono now, unsigned budget)
{
    unsigned fired = 0;

    while (fired < budget && heap->count && heap->entries[1].key <= now.us) {
        struct deadline *d = heap->entries[1].d;

        if (d->key.us != d->due.us) {
            d->key = d->due;
            sift_down(heap, 1, (struct entry){d->key.us, d});
            continue;
        }
        deadline_cancel(heap, d);
        fired++;
        d->fire(d, now);
    }
    return fired;
}

mono deadlines_next(const struct deadlines *heap)
{
    return heap->count ? (mono){heap->entries[1].key} : MONO_NEVER;
}

unsigned deadlines_armed(const struct deadlines *heap)
{
    return heap->count;
}
