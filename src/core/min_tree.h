/* A tournament over worker indexes: each node knows the smallest key below it and how many leaves
 * hold it, so the smallest is found, and one of equals is drawn, in O(log n). A leaf with
 * TREE_ABSENT takes no part. */
#ifndef CORE_MIN_TREE_H
#define CORE_MIN_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define TREE_ABSENT UINT64_MAX
#define TREE_NONE UINT32_MAX
#define TREE_FAN 8 /* children of a node: one cache line of keys */
#define TREE_LEVELS 9

struct min_tree { /* zeroed: a valid empty one */
    uint64_t *mins;
    uint32_t
        *counts; /* leaves below that hold the min; 0 when it is TREE_ABSENT; not kept for leaves */
    uint32_t leaves;
    unsigned levels;              /* level 0: the leaves; the last: the root alone */
    uint32_t offset[TREE_LEVELS]; /* of each level in the arrays */
};

bool min_tree_grow(struct min_tree *tree, uint32_t leaves); /* false: no memory, unchanged */
void min_tree_fini(struct min_tree *tree);
void min_tree_set(struct min_tree *tree, uint32_t index, uint64_t key);
uint32_t min_tree_first(const struct min_tree *tree); /* lowest index with the smallest key */
uint32_t min_tree_draw(const struct min_tree *tree,
                       struct rng *rng); /* any index with the smallest key */
/* Takes the leaves out and remembers them in saved[count]; put back with min_tree_restore in the
 * same arguments. */
void min_tree_hide(struct min_tree *tree, const uint32_t *indexes, unsigned count, uint64_t *saved);
void min_tree_restore(struct min_tree *tree, const uint32_t *indexes, unsigned count,
                      const uint64_t *saved);
/* Lays levels of TREE_FAN out for so many leaves; returns the number of nodes. Shared with
 * sum_tree. */
uint32_t tree_layout(uint32_t leaves, uint32_t offset[TREE_LEVELS], unsigned *levels);

static inline uint64_t min_tree_get(const struct min_tree *tree, uint32_t index)
{
    return index < tree->leaves ? tree->mins[index] : TREE_ABSENT;
}

static inline uint64_t min_tree_min(const struct min_tree *tree)
{
    return tree->leaves > 0 ? tree->mins[tree->offset[tree->levels - 1]] : TREE_ABSENT;
}

#endif
