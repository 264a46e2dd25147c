/* Two different free workers drawn by weight; the one with the lower load by weight, a tie to the
 * first drawn. */
#include <stdlib.h>
#include <string.h>

#include "core/policy.h"
#include "core/sum_tree.h"

struct power_of_two {
    struct sum_tree tree;
    uint64_t *keys; /* load by weight */
};

static void *create(uint32_t ratio)
{
    (void)ratio;
    return calloc(1, sizeof(struct power_of_two));
}

static void destroy(void *arg)
{
    struct power_of_two *state = arg;

    if (state == NULL)
        return;
    sum_tree_fini(&state->tree);
    free(state->keys);
    free(state);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct power_of_two *state = arg;
    uint64_t *keys = realloc(state->keys, indexes * sizeof(*keys));

    if (keys == NULL)
        return false;
    state->keys = keys;
    return sum_tree_grow(&state->tree, indexes);
}

static void changed(void *arg, const struct policy_item *item)
{
    struct power_of_two *state = arg;

    state->keys[item->index] = policy_load_key(item->load, item->weight);
    sum_tree_set(&state->tree, item->index, item->free ? item->weight : 0);
}

/* The second is drawn from what the first leaves of the total, stepping over the first's share. */
static uint32_t draw_two(const struct power_of_two *state, struct rng *rng)
{
    uint32_t total = sum_tree_total(&state->tree), begin, unused, first, second, weight, at;

    if (total == 0)
        return TREE_NONE;
    first = sum_tree_find(&state->tree, (uint32_t)rng_below(rng, total), &begin);
    weight = sum_tree_get(&state->tree, first);
    if (weight == total)
        return first;
    at = (uint32_t)rng_below(rng, total - weight);
    second = sum_tree_find(&state->tree, at < begin ? at : at + weight, &unused);
    return state->keys[second] < state->keys[first] ? second : first;
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct power_of_two *state = arg;
    uint32_t saved[POLICY_TRIED_MAX], index;

    sum_tree_hide(&state->tree, pick->tried, pick->tried_count, saved);
    index = draw_two(state, pick->rng);
    sum_tree_restore(&state->tree, pick->tried, pick->tried_count, saved);
    return index;
}

const struct policy policy_power_of_two = {
    .name = "power_of_two",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .changed = changed,
    .choose = choose,
};
