/* The free worker with the smallest load by weight; equals are drawn by chance, so that many
 * routers do not all run to one. */
#include <stdlib.h>

#include "core/policy.h"

struct least_loaded {
    struct min_tree tree;
};

static void *create(uint32_t ratio)
{
    (void)ratio;
    return calloc(1, sizeof(struct least_loaded));
}

static void destroy(void *arg)
{
    struct least_loaded *state = arg;

    if (state == NULL)
        return;
    min_tree_fini(&state->tree);
    free(state);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct least_loaded *state = arg;

    return min_tree_grow(&state->tree, indexes);
}

static void changed(void *arg, const struct policy_item *item)
{
    struct least_loaded *state = arg;

    min_tree_set(&state->tree, item->index,
                 item->free ? policy_load_key(item->load, item->weight) : TREE_ABSENT);
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct least_loaded *state = arg;
    uint64_t saved[POLICY_TRIED_MAX];
    uint32_t index;

    min_tree_hide(&state->tree, pick->tried, pick->tried_count, saved);
    index = min_tree_draw(&state->tree, pick->rng);
    min_tree_restore(&state->tree, pick->tried, pick->tried_count, saved);
    return index;
}

const struct policy policy_least_loaded = {
    .name = "least_loaded",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .changed = changed,
    .choose = choose,
};
