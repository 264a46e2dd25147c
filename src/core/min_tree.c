/* See min_tree.h. Invariant: a node's min is the smallest of its TREE_FAN children's and its count
 * the sum of the counts of those that hold it. Setting a leaf corrects its ancestors from what
 * changed below; a node's children are read only when the last holder of its min went away. */
#include "core/min_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

uint32_t tree_layout(uint32_t leaves, uint32_t offset[TREE_LEVELS], unsigned *levels)
{
    uint32_t nodes = 0, n = leaves;

    *levels = 0;
    for (;;) {
        CHECK(*levels < TREE_LEVELS);
        offset[(*levels)++] = nodes;
        nodes +=
            (n + TREE_FAN - 1) / TREE_FAN * TREE_FAN; /* whole blocks, so that scans need no ends */
        if (n == 1 && *levels > 1)
            return nodes;
        n = (n + TREE_FAN - 1) / TREE_FAN;
    }
}

bool min_tree_grow(struct min_tree *tree, uint32_t leaves)
{
    struct min_tree grown = {.leaves = leaves};
    uint32_t nodes;

    CHECK(leaves >= tree->leaves);
    if (leaves == tree->leaves)
        return true;
    nodes = tree_layout(leaves, grown.offset, &grown.levels);
    grown.mins = aligned_alloc(TREE_FAN * sizeof(*grown.mins), nodes * sizeof(*grown.mins));
    grown.counts = aligned_alloc(TREE_FAN * sizeof(*grown.counts), nodes * sizeof(*grown.counts));
    if (grown.mins == NULL || grown.counts == NULL) {
        min_tree_fini(&grown);
        return false;
    }
    memset(grown.mins, 0xff, nodes * sizeof(*grown.mins)); /* TREE_ABSENT */
    memset(grown.counts, 0, nodes * sizeof(*grown.counts));
    for (uint32_t i = 0; i < tree->leaves; i++)
        min_tree_set(&grown, i, tree->mins[i]);
    min_tree_fini(tree);
    *tree = grown;
    return true;
}

void min_tree_fini(struct min_tree *tree)
{
    free(tree->mins);
    free(tree->counts);
    *tree = (struct min_tree){0};
}

/* Leaves have no counts of their own: each counts once. */
static const uint32_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
_Static_assert(sizeof(ones) == TREE_FAN * sizeof(*ones), "a one for each child");

static uint32_t count_min(const struct min_tree *tree, unsigned level, uint32_t block,
                          uint64_t *min)
{
    uint32_t at = tree->offset[level] + block * TREE_FAN, count = 0;
    const uint64_t *mins = tree->mins + at;
    const uint32_t *counts = level == 0 ? ones : tree->counts + at;
    uint64_t least = mins[0];

    for (unsigned i = 1; i < TREE_FAN; i++)
        least = mins[i] < least ? mins[i] : least;
    for (unsigned i = 0; i < TREE_FAN; i++)
        count += counts[i] & -(uint32_t)(mins[i] == least);
    *min = least;
    return least == TREE_ABSENT ? 0 : count;
}

void min_tree_set(struct min_tree *tree, uint32_t index, uint64_t key)
{
    uint32_t place = index, old_count, count = key != TREE_ABSENT;
    uint64_t old;

    CHECK(index < tree->leaves);
    old = tree->mins[index];
    old_count = old != TREE_ABSENT;
    if (old == key)
        return;
    tree->mins[index] = key;
    for (unsigned level = 1; level < tree->levels; level++) {
        uint32_t node = tree->offset[level] + place / TREE_FAN;
        uint64_t min = tree->mins[node], new_min = min;
        uint32_t had = tree->counts[node], new_count = had;

        if (key < min) {
            new_min = key;
            new_count = count;
        } else {
            new_count -= old == min ? old_count : 0;
            new_count += key == min ? count : 0;
            if (new_count == 0)
                new_count = count_min(tree, level - 1, place / TREE_FAN, &new_min);
        }
        if (new_min == min && new_count == had)
            return;
        tree->mins[node] = new_min;
        tree->counts[node] = new_count;
        old = min;
        old_count = had;
        key = new_min;
        count = new_count;
        place /= TREE_FAN;
    }
}

/* The skip-th of the leaves with the smallest key. No branch inside a block: where it ends is
 * chance. */
static uint32_t find(const struct min_tree *tree, uint64_t min, uint32_t skip)
{
    uint32_t place = 0;

    for (unsigned level = tree->levels - 1; level-- > 0;) {
        uint32_t at = tree->offset[level] + place * TREE_FAN;
        const uint64_t *mins = tree->mins + at;
        const uint32_t *counts = level == 0 ? ones : tree->counts + at;
        uint32_t child = 0, sum = 0, before = 0;

        for (unsigned i = 0; i < TREE_FAN; i++) {
            sum += counts[i] & -(uint32_t)(mins[i] == min);
            child += sum <= skip;
            before = sum <= skip ? sum : before;
        }
        skip -= before;
        place = place * TREE_FAN + child;
    }
    return place;
}

uint32_t min_tree_first(const struct min_tree *tree)
{
    uint64_t min = min_tree_min(tree);

    return min == TREE_ABSENT ? TREE_NONE : find(tree, min, 0);
}

uint32_t min_tree_draw(const struct min_tree *tree, struct rng *rng)
{
    uint64_t min = min_tree_min(tree);
    uint32_t count;

    if (min == TREE_ABSENT)
        return TREE_NONE;
    count = tree->counts[tree->offset[tree->levels - 1]];
    return find(tree, min, count > 1 ? (uint32_t)rng_below(rng, count) : 0);
}

void min_tree_hide(struct min_tree *tree, const uint32_t *indexes, unsigned count, uint64_t *saved)
{
    for (unsigned i = 0; i < count; i++) {
        saved[i] = min_tree_get(tree, indexes[i]);
        if (saved[i] != TREE_ABSENT)
            min_tree_set(tree, indexes[i], TREE_ABSENT);
    }
}

void min_tree_restore(struct min_tree *tree, const uint32_t *indexes, unsigned count,
                      const uint64_t *saved)
{
    for (unsigned i = 0; i < count; i++)
        if (saved[i] != TREE_ABSENT)
            min_tree_set(tree, indexes[i], saved[i]);
}
