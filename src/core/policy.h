/* A policy is a const table of functions over a state of its own, one for each pool. It knows
 * workers by their index in the pool and only what it is told in notices; it never sees a worker.
 * All are O(log n) or better in the number of indexes. */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/span.h"
#include "core/min_tree.h"

#define POLICY_TRIED_MAX 16
#define WEIGHT_MAX 1000

struct policy_item {
    uint32_t index, weight, load;
    bool routable, free, cpu; /* free only if routable */
};

struct policy_pick {
    uint32_t tried[POLICY_TRIED_MAX]; /* indexes that must not be chosen, each once */
    unsigned tried_count;
    uint64_t key;    /* of the request, for hash */
    bool peek;       /* change nothing */
    struct rng *rng; /* a copy when peeking */
};

struct policy {
    const char *name;
    void *(*create)(uint32_t ratio); /* NULL: no memory */
    void (*destroy)(void *state);    /* takes NULL */
    bool (*grow)(void *state,
                 uint32_t indexes); /* a power of two; false: no memory, usable as before */
    /* Both NULL for a policy that needs no names. id lives until `left`. Between them `changed`
     * tells of it; at `left` it is neither routable nor free. */
    void (*joined)(void *state, uint32_t index, struct span id);
    void (*left)(void *state, uint32_t index);
    void (*changed)(void *state, const struct policy_item *item);
    uint32_t (*choose)(void *state, struct policy_pick *pick); /* TREE_NONE: none is free */
};

extern const struct policy policy_round_robin, policy_random, policy_power_of_two,
    policy_least_loaded, policy_device_weighted, policy_hash, policy_direct;

/* Load divided by weight, as a number that orders the same way. */
static inline uint64_t policy_load_key(uint32_t load, uint32_t weight)
{
    return ((uint64_t)load << 32) / weight;
}

#endif
