/* Serves only requests that name their worker: chooses nobody. */
#include "core/policy.h"

static char nothing;

static void *create(uint32_t ratio)
{
    (void)ratio;
    return &nothing;
}

static void destroy(void *arg)
{
    (void)arg;
}

static bool grow(void *arg, uint32_t indexes)
{
    (void)arg;
    (void)indexes;
    return true;
}

static void changed(void *arg, const struct policy_item *item)
{
    (void)arg;
    (void)item;
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    (void)arg;
    (void)pick;
    return TREE_NONE;
}

const struct policy policy_direct = {
    .name = "direct",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .changed = changed,
    .choose = choose,
};
