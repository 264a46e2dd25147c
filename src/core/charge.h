/* The occupancy charge of one attempt: belongs to a worker and to that epoch of it. Taken with the
 * choice, moved on fallback, released exactly once. A zeroed charge is an empty one. A charge of an
 * ended epoch releases without touching the new epoch's count. */
#ifndef CORE_CHARGE_H
#define CORE_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

struct worker;
struct holding;

struct charge {
    struct worker *worker;   /* NULL: empty */
    struct holding *holding; /* the adapter it is for, on this worker, while counted; NULL: none */
    int64_t epoch;
    uint32_t bytes; /* counted in worker->bytes_out until the first message of the attempt or the
                       release; one message, which NATS keeps far below 4 GiB */
    uint8_t ended;  /* its epoch ended: no count holds it any more (charge_end) */
    struct link link;
};

void charge_take(struct charge *charge, struct worker *w, mono now);  /* CHECKs that it is empty */
void charge_move(struct charge *charge, struct worker *to, mono now); /* from its present worker */
/* Right after charge_take or charge_move: it is for an adapter. Counts in the adapter until the
 * charge moves, is released, or its epoch ends; h is of the charge's worker (worker_holding). */
void charge_adapter(struct charge *charge, struct holding *h);
void charge_bytes(struct charge *charge, uint64_t bytes,
                  mono now); /* sent; limit: registry_options.worker_bytes */
void charge_bytes_arrived(struct charge *charge,
                          mono now); /* the worker spoke: its bytes no longer count */
bool charge_release(struct charge *charge, mono now); /* false: was empty already */

#endif
