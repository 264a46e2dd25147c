/* Sums of weights over worker indexes: one index is drawn in proportion to its weight in O(log n).
 * Weight 0 takes no part. */
#ifndef CORE_SUM_TREE_H
#define CORE_SUM_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/min_tree.h"

struct sum_tree { /* zeroed: a valid empty one */
    uint32_t *sums;
    uint32_t leaves;
    unsigned levels; /* as in min_tree */
    uint32_t offset[TREE_LEVELS];
};

bool sum_tree_grow(struct sum_tree *tree, uint32_t leaves); /* false: no memory, unchanged */
void sum_tree_fini(struct sum_tree *tree);
void sum_tree_set(struct sum_tree *tree, uint32_t index, uint32_t weight);
/* The index whose share of [0, total) holds `at`, and where its share begins. */
uint32_t sum_tree_find(const struct sum_tree *tree, uint32_t at, uint32_t *begin);
uint32_t sum_tree_draw(const struct sum_tree *tree, struct rng *rng); /* TREE_NONE: all are 0 */
void sum_tree_hide(struct sum_tree *tree, const uint32_t *indexes, unsigned count, uint32_t *saved);
void sum_tree_restore(struct sum_tree *tree, const uint32_t *indexes, unsigned count,
                      const uint32_t *saved);

static inline uint32_t sum_tree_total(const struct sum_tree *tree)
{
    return tree->leaves > 0 ? tree->sums[tree->offset[tree->levels - 1]] : 0;
}

static inline uint32_t sum_tree_get(const struct sum_tree *tree, uint32_t index)
{
    return index < tree->leaves ? tree->sums[index] : 0;
}

#endif
