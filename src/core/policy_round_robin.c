/* Smooth weighted rotation by virtual time.
 *
 * Each worker has a virtual start; a choice takes the free one whose middle (start plus half a
 * stride) comes first and moves its start on by a stride, which is inverse to its weight. The
 * pool's virtual now is the latest start served. A worker that joins or comes back free starts at
 * now at the earliest, so it can't claim the turns it missed, and one that was busy for less than a
 * turn keeps its place: the rotation of the others is never disturbed. Equal middles go by index,
 * so equal weights rotate exactly. Half a stride spreads heavy workers' turns among the light ones'
 * instead of bunching them at the front.
 *
 * Tried workers are only hidden for one choice; their starts stay. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/policy.h"

#define STRIDE UINT64_C(18018000) /* divides by 1 to 16, 100 and 1000 without a rest */
#define REBASE_AT (UINT64_C(1) << 62)

struct turn {
    uint64_t start;
    uint32_t weight; /* 0: just joined */
    bool free;
};

struct round_robin {
    struct min_tree tree;
    struct turn *turns;
    uint64_t now;
};

static void *create(uint32_t ratio)
{
    (void)ratio;
    return calloc(1, sizeof(struct round_robin));
}

static void destroy(void *arg)
{
    struct round_robin *state = arg;

    if (state == NULL)
        return;
    min_tree_fini(&state->tree);
    free(state->turns);
    free(state);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct round_robin *state = arg;
    uint32_t had = state->tree.leaves;
    struct turn *turns = realloc(state->turns, indexes * sizeof(*turns));

    if (turns == NULL)
        return false;
    state->turns = turns;
    if (!min_tree_grow(&state->tree, indexes))
        return false;
    memset(turns + had, 0, (indexes - had) * sizeof(*turns));
    return true;
}

static void joined(void *arg, uint32_t index, struct span id)
{
    struct round_robin *state = arg;

    (void)id;
    state->turns[index] = (struct turn){0};
}

static void left(void *arg, uint32_t index)
{
    (void)arg;
    (void)index;
}

static uint64_t middle(const struct turn *turn)
{
    return turn->start + STRIDE / turn->weight / 2;
}

static void changed(void *arg, const struct policy_item *item)
{
    struct round_robin *state = arg;
    struct turn *turn = &state->turns[item->index];

    if (turn->free == item->free && turn->weight == item->weight)
        return;
    /* What is left of the turn shrinks or grows with the weight, lest a worker made heavier wait
     * for ages. */
    if (turn->weight != item->weight && turn->weight != 0 && turn->start > state->now)
        turn->start = state->now + (turn->start - state->now) * turn->weight / item->weight;
    turn->weight = item->weight;
    if (item->free && !turn->free && turn->start < state->now)
        turn->start = state->now;
    turn->free = item->free;
    min_tree_set(&state->tree, item->index, turn->free ? middle(turn) : TREE_ABSENT);
}

/* Once in months: all times go back to near zero. */
static void rebase(struct round_robin *state)
{
    uint64_t base = state->now;

    for (uint32_t i = 0; i < state->tree.leaves; i++) {
        struct turn *turn = &state->turns[i];

        turn->start = turn->start > base ? turn->start - base : 0;
        if (turn->free)
            min_tree_set(&state->tree, i, middle(turn));
    }
    state->now = 0;
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct round_robin *state = arg;
    uint64_t saved[POLICY_TRIED_MAX];
    struct turn *turn;
    uint32_t index;

    min_tree_hide(&state->tree, pick->tried, pick->tried_count, saved);
    index = min_tree_first(&state->tree);
    min_tree_restore(&state->tree, pick->tried, pick->tried_count, saved);
    if (index == TREE_NONE || pick->peek)
        return index;
    turn = &state->turns[index];
    if (turn->start > state->now)
        state->now = turn->start;
    turn->start += STRIDE / turn->weight;
    min_tree_set(&state->tree, index, middle(turn));
    if (state->now > REBASE_AT)
        rebase(state);
    return index;
}

const struct policy policy_round_robin = {
    .name = "round_robin",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .joined = joined,
    .left = left,
    .changed = changed,
    .choose = choose,
};
