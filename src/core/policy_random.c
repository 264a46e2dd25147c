/* Any free worker, by weight. */
#include <stdlib.h>

#include "core/policy.h"
#include "core/sum_tree.h"

struct by_chance {
    struct sum_tree tree;
};

static void *create(uint32_t ratio)
{
    (void)ratio;
    return calloc(1, sizeof(struct by_chance));
}

static void destroy(void *arg)
{
    struct by_chance *state = arg;

    if (state == NULL)
        return;
    sum_tree_fini(&state->tree);
    free(state);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct by_chance *state = arg;

    return sum_tree_grow(&state->tree, indexes);
}

static void changed(void *arg, const struct policy_item *item)
{
    struct by_chance *state = arg;

    sum_tree_set(&state->tree, item->index, item->free ? item->weight : 0);
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct by_chance *state = arg;
    uint32_t saved[POLICY_TRIED_MAX], index;

    sum_tree_hide(&state->tree, pick->tried, pick->tried_count, saved);
    index = sum_tree_draw(&state->tree, pick->rng);
    sum_tree_restore(&state->tree, pick->tried, pick->tried_count, saved);
    return index;
}

const struct policy policy_random = {
    .name = "random",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .changed = changed,
    .choose = choose,
};
