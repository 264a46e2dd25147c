/* Deadlines: an intrusive heap ordered by due time. One loop timer drives it (the owner sets it to
 * deadlines_next after each turn). A deadline moved later is only noted and put right when it comes
 * up, so re-arming a clock at each message of a stream costs a store. O(log n) set and cancel.
 * Thread: the owner's. Never allocates in set except to grow the heap: deadline_set fails with
 * WB_FULL at the cap given at creation; reserve the cap to the number of objects that own
 * deadlines. */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include "base/clock.h"
#include "waybill/status.h"

struct deadline {
    mono due;      /* MONO_NEVER when not armed */
    mono key;      /* what the heap is ordered by: never later than due */
    unsigned slot; /* 1-based place in the heap; 0: not in it */
    void (*fire)(struct deadline *self, mono now);
};

struct deadlines;

struct deadlines *deadlines_create(unsigned max);
void deadlines_destroy(struct deadlines *heap); /* takes NULL */
void deadline_init(struct deadline *d, void (*fire)(struct deadline *self, mono now));
/* Of deadline_set: all but the common case. */
WB_MUST_USE wb_status deadline_move(struct deadlines *heap, struct deadline *d, mono due);
static inline WB_MUST_USE wb_status deadline_set(struct deadlines *heap, struct deadline *d,
                                                 mono due) /* MONO_NEVER cancels */
{
    if (d->slot == 0 || due.us < d->key.us || mono_is_never(due))
        return deadline_move(heap, d, due);
    d->due = due;
    return WB_OK;
}
void deadline_cancel(struct deadlines *heap, struct deadline *d); /* idempotent */
/* Fires all that are due, each disarmed first; a callback may set or cancel any deadline. At most
 * `budget` callbacks a call. */
unsigned deadlines_run(struct deadlines *heap, mono now, unsigned budget);
mono deadlines_next(const struct deadlines *heap); /* MONO_NEVER: none */
unsigned deadlines_armed(const struct deadlines *heap);

#endif
