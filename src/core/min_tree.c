/* See min_tree.h. Invariant: an inner node is what `joined` makes of its two children; set walks up
 * only as far as something changes. Siblings lie side by side so that one cache line serves each
 * level. */
#include "core/min_tree.h"

#include <stdlib.h>

#include "base/check.h"

static struct min_node joined(const struct min_node *pair)
{
    if (pair[0].min < pair[1].min)
        return pair[0];
    if (pair[1].min < pair[0].min)
        return pair[1];
    return (struct min_node){pair[0].min, pair[0].count + pair[1].count};
}

bool min_tree_grow(struct min_tree *tree, uint32_t leaves)
{
    struct min_node *nodes;

    CHECK(leaves >= tree->leaves && (leaves & (leaves - 1)) == 0);
    if (leaves == tree->leaves)
        return true;
    nodes = aligned_alloc(64, (2 * (size_t)leaves * sizeof(*nodes) + 63) / 64 * 64);
    if (nodes == NULL)
        return false;
    nodes[0] = (struct min_node){TREE_ABSENT, 0};
    for (uint32_t i = 0; i < leaves; i++)
        nodes[leaves + i] =
            i < tree->leaves ? tree->nodes[tree->leaves + i] : (struct min_node){TREE_ABSENT, 0};
    for (uint32_t i = leaves - 1; i >= 1; i--)
        nodes[i] = joined(&nodes[2 * (size_t)i]);
    free(tree->nodes);
    tree->nodes = nodes;
    tree->leaves = leaves;
    return true;
}

void min_tree_fini(struct min_tree *tree)
{
    free(tree->nodes);
    *tree = (struct min_tree){0};
}

void min_tree_set(struct min_tree *tree, uint32_t index, uint64_t key)
{
    struct min_node *nodes = tree->nodes;
    uint32_t i = tree->leaves + index;

    CHECK(index < tree->leaves);
    if (nodes[i].min == key)
        return;
    nodes[i] = (struct min_node){key, key != TREE_ABSENT};
    while (i > 1) {
        struct min_node node;

        i >>= 1;
        node = joined(&nodes[2 * (size_t)i]);
        if (node.min == nodes[i].min && node.count == nodes[i].count)
            return;
        nodes[i] = node;
    }
}

uint32_t min_tree_first(const struct min_tree *tree)
{
    uint32_t i = 1;

    if (min_tree_min(tree) == TREE_ABSENT)
        return TREE_NONE;
    while (i < tree->leaves)
        i = 2 * i + (tree->nodes[2 * (size_t)i].min != tree->nodes[1].min);
    return i - tree->leaves;
}

uint32_t min_tree_draw(const struct min_tree *tree, struct rng *rng)
{
    uint32_t i = 1, skip;

    if (min_tree_min(tree) == TREE_ABSENT)
        return TREE_NONE;
    skip = tree->nodes[1].count > 1 ? (uint32_t)rng_below(rng, tree->nodes[1].count) : 0;
    while (i < tree->leaves) {
        const struct min_node *left = &tree->nodes[2 * (size_t)i];
        uint32_t in_left = left->min == tree->nodes[1].min ? left->count : 0;
        bool right = skip >= in_left;

        skip -= right ? in_left : 0;
        i = 2 * i + right;
    }
    return i - tree->leaves;
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
