#include "core/sum_tree.h"

#include <stdlib.h>

#include "base/check.h"

bool sum_tree_grow(struct sum_tree *tree, uint32_t leaves)
{
    uint32_t *sums;

    CHECK(leaves >= tree->leaves && (leaves & (leaves - 1)) == 0);
    if (leaves == tree->leaves)
        return true;
    sums = calloc(2 * (size_t)leaves, sizeof(*sums));
    if (sums == NULL)
        return false;
    for (uint32_t i = 0; i < tree->leaves; i++)
        sums[leaves + i] = tree->sums[tree->leaves + i];
    for (uint32_t i = leaves - 1; i >= 1; i--)
        sums[i] = sums[2 * (size_t)i] + sums[2 * (size_t)i + 1];
    free(tree->sums);
    tree->sums = sums;
    tree->leaves = leaves;
    return true;
}

void sum_tree_fini(struct sum_tree *tree)
{
    free(tree->sums);
    *tree = (struct sum_tree){0};
}

void sum_tree_set(struct sum_tree *tree, uint32_t index, uint32_t weight)
{
    uint32_t change;

    CHECK(index < tree->leaves);
    change = weight - tree->sums[tree->leaves + index]; /* wraps round and back */
    if (change == 0)
        return;
    for (uint32_t i = tree->leaves + index; i >= 1; i >>= 1)
        tree->sums[i] += change;
}

uint32_t sum_tree_draw(const struct sum_tree *tree, struct rng *rng)
{
    uint32_t i = 1, at;

    if (tree->leaves == 0 || tree->sums[1] == 0)
        return TREE_NONE;
    at = (uint32_t)rng_below(rng, tree->sums[1]);
    while (i < tree->leaves) {
        uint32_t left = tree->sums[2 * (size_t)i];
        bool right = at >= left;

        at -= right ? left : 0;
        i = 2 * i + right;
    }
    return i - tree->leaves;
}

void sum_tree_hide(struct sum_tree *tree, const uint32_t *indexes, unsigned count, uint32_t *saved)
{
    for (unsigned i = 0; i < count; i++) {
        saved[i] = sum_tree_get(tree, indexes[i]);
        if (saved[i] != 0)
            sum_tree_set(tree, indexes[i], 0);
    }
}

void sum_tree_restore(struct sum_tree *tree, const uint32_t *indexes, unsigned count,
                      const uint32_t *saved)
{
    for (unsigned i = 0; i < count; i++)
        if (saved[i] != 0)
            sum_tree_set(tree, indexes[i], saved[i]);
}
