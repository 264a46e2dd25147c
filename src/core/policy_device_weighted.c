/* Two groups: class `cpu` and the others. A free cpu worker is used only while
 *     cpu-in-flight < other-in-flight * cpu-workers / (ratio * other-workers)
 * by integer division, counted over the routable ones; inside the group least loaded. A group
 * without a free worker is skipped, and where there is only one group it is plain least loaded. */
#include <stdlib.h>
#include <string.h>

#include "core/policy.h"

struct counted { /* as it stands in the sums */
    uint32_t load;
    bool routable, cpu;
};

struct group {
    struct min_tree tree;
    uint64_t workers, in_flight;
};

struct device_weighted {
    struct group groups[2]; /* [1]: cpu */
    struct counted *counted;
    uint32_t ratio;
};

static void *create(uint32_t ratio)
{
    struct device_weighted *state = calloc(1, sizeof(*state));

    if (state != NULL)
        state->ratio = ratio > 0 ? ratio : 8;
    return state;
}

static void destroy(void *arg)
{
    struct device_weighted *state = arg;

    if (state == NULL)
        return;
    min_tree_fini(&state->groups[0].tree);
    min_tree_fini(&state->groups[1].tree);
    free(state->counted);
    free(state);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct device_weighted *state = arg;
    uint32_t had = state->groups[1].tree.leaves; /* the last to grow */
    struct counted *counted = realloc(state->counted, indexes * sizeof(*counted));

    if (counted == NULL)
        return false;
    state->counted = counted;
    if (!min_tree_grow(&state->groups[0].tree, indexes) ||
        !min_tree_grow(&state->groups[1].tree, indexes))
        return false;
    memset(counted + had, 0, (indexes - had) * sizeof(*counted));
    return true;
}

static void changed(void *arg, const struct policy_item *item)
{
    struct device_weighted *state = arg;
    struct counted *counted = &state->counted[item->index];

    if (counted->routable) {
        state->groups[counted->cpu].workers--;
        state->groups[counted->cpu].in_flight -= counted->load;
    }
    if (counted->cpu != item->cpu)
        min_tree_set(&state->groups[counted->cpu].tree, item->index, TREE_ABSENT);
    *counted = (struct counted){item->load, item->routable, item->cpu};
    if (item->routable) {
        state->groups[item->cpu].workers++;
        state->groups[item->cpu].in_flight += item->load;
    }
    min_tree_set(&state->groups[item->cpu].tree, item->index,
                 item->free ? policy_load_key(item->load, item->weight) : TREE_ABSENT);
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct device_weighted *state = arg;
    struct group *other = &state->groups[0], *cpu = &state->groups[1];
    uint64_t saved_other[POLICY_TRIED_MAX], saved_cpu[POLICY_TRIED_MAX];
    uint32_t index;
    bool use_cpu = true;

    if (other->workers > 0)
        use_cpu = cpu->in_flight <
                  other->in_flight * cpu->workers / ((uint64_t)state->ratio * other->workers);
    min_tree_hide(&other->tree, pick->tried, pick->tried_count, saved_other);
    min_tree_hide(&cpu->tree, pick->tried, pick->tried_count, saved_cpu);
    index = min_tree_draw(use_cpu ? &cpu->tree : &other->tree, pick->rng);
    if (index == TREE_NONE)
        index = min_tree_draw(use_cpu ? &other->tree : &cpu->tree, pick->rng);
    min_tree_restore(&cpu->tree, pick->tried, pick->tried_count, saved_cpu);
    min_tree_restore(&other->tree, pick->tried, pick->tried_count, saved_other);
    return index;
}

const struct policy policy_device_weighted = {
    .name = "device_weighted",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .changed = changed,
    .choose = choose,
};
