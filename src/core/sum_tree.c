#include "core/sum_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

bool sum_tree_grow(struct sum_tree *tree, uint32_t leaves)
{
    struct sum_tree grown = {.leaves = leaves};
    uint32_t nodes;

    CHECK(leaves >= tree->leaves);
    if (leaves == tree->leaves)
        return true;
    nodes = tree_layout(leaves, grown.offset, &grown.levels);
    grown.sums = aligned_alloc(TREE_FAN * sizeof(*grown.sums), nodes * sizeof(*grown.sums));
    if (grown.sums == NULL)
        return false;
    memset(grown.sums, 0, nodes * sizeof(*grown.sums));
    for (uint32_t i = 0; i < tree->leaves; i++)
        sum_tree_set(&grown, i, tree->sums[i]);
    sum_tree_fini(tree);
    *tree = grown;
    return true;
}

void sum_tree_fini(struct sum_tree *tree)
{
    free(tree->sums);
    *tree = (struct sum_tree){0};
}

void sum_tree_set(struct sum_tree *tree, uint32_t index, uint32_t weight)
{
    uint32_t change, place = index;

    CHECK(index < tree->leaves);
    change = weight - tree->sums[index]; /* wraps round and back */
    if (change == 0)
        return;
    for (unsigned level = 0; level < tree->levels; level++) {
        tree->sums[tree->offset[level] + place] += change;
        place /= TREE_FAN;
    }
}

uint32_t sum_tree_find(const struct sum_tree *tree, uint32_t at, uint32_t *begin)
{
    uint32_t place = 0, left = at;

    for (unsigned level = tree->levels - 1; level-- > 0;) {
        const uint32_t *sums = tree->sums + tree->offset[level] + place * TREE_FAN;
        uint32_t child = 0, sum = 0, before = 0;

        for (unsigned i = 0; i < TREE_FAN; i++) { /* no branch: where it ends is chance */
            sum += sums[i];
            child += sum <= left;
            before = sum <= left ? sum : before;
        }
        left -= before;
        place = place * TREE_FAN + child;
    }
    *begin = at - left;
    return place;
}

uint32_t sum_tree_draw(const struct sum_tree *tree, struct rng *rng)
{
    uint32_t total = sum_tree_total(tree), begin;

    return total == 0 ? TREE_NONE : sum_tree_find(tree, (uint32_t)rng_below(rng, total), &begin);
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
