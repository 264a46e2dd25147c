/* Consistent hash with bounded load.
 *
 * Ring: each worker stands at points made of its id alone, as many as its weight asks for (40 at
 * weight 100), so every router with the same pool has the same ring whatever order it learned of
 * the workers in. The ring holds all known workers; those not free are stepped over, so a worker
 * that comes and goes moves only its own keys. The ring is a table of short sorted chains by the
 * points' leading bits: joining and leaving cost their own points only, and a key finds its place
 * in O(1).
 *
 * Bound: a worker takes no more than 1.25 times its share, by weight, of the load of the free
 * workers, the new request included; at least one free worker is always under that.
 *
 * Walk: from the key's place clockwise to the first free worker under its bound, over at most
 * WALK_MAX points. Hardly anybody is free if that fails, so then the few free ones are compared by
 * rendezvous hash, which is the same for every router too. Those who see the same loads pick the
 * same worker.
 *
 * A lack of memory for points leaves a worker with fewer of them; the comparison at the end still
 * finds it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/policy.h"

#define WALK_MAX 128
#define NODES_MAX (UINT32_C(1) << 24)
#define NODE_NONE UINT32_MAX

struct ring_node {
    uint64_t point;
    uint32_t next; /* in its chain, in order of points; or in the list of unused ones */
    uint32_t index;
};

struct member {
    struct span id;
    uint32_t weight, load;
    uint32_t points;   /* it has on the ring */
    uint32_t free_pos; /* in free_list */
    bool free;
};

struct ring {
    struct ring_node *nodes;
    uint32_t nodes_size, nodes_used, unused; /* unused: list of returned nodes */
    uint32_t *chains;
    unsigned bits;  /* 2^bits chains */
    uint32_t count; /* points */
    struct member *members;
    uint32_t members_size;
    uint32_t *free_list;
    uint32_t free_count;
    uint64_t free_load, free_weight;
};

static void *create(uint32_t ratio)
{
    struct ring *ring = calloc(1, sizeof(*ring));

    (void)ratio;
    if (ring == NULL)
        return NULL;
    ring->unused = NODE_NONE;
    ring->bits = 6;
    ring->chains = malloc(sizeof(*ring->chains) << ring->bits);
    if (ring->chains == NULL) {
        free(ring);
        return NULL;
    }
    memset(ring->chains, 0xff, sizeof(*ring->chains) << ring->bits);
    return ring;
}

static void destroy(void *arg)
{
    struct ring *ring = arg;

    if (ring == NULL)
        return;
    free(ring->nodes);
    free(ring->chains);
    free(ring->members);
    free(ring->free_list);
    free(ring);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct ring *ring = arg;
    struct member *members;
    uint32_t *list = realloc(ring->free_list, indexes * sizeof(*list));

    if (list == NULL)
        return false;
    ring->free_list = list;
    members = realloc(ring->members, indexes * sizeof(*members));
    if (members == NULL)
        return false;
    memset(members + ring->members_size, 0, (indexes - ring->members_size) * sizeof(*members));
    ring->members = members;
    ring->members_size = indexes;
    return true;
}

static uint32_t *place_of(struct ring *ring, uint64_t point)
{
    uint32_t *link = &ring->chains[point >> (64 - ring->bits)];

    while (*link != NODE_NONE && ring->nodes[*link].point < point)
        link = &ring->nodes[*link].next;
    return link;
}

static uint64_t point_of(const struct member *member, uint32_t number)
{
    return rng_hash(member->id.ptr, member->id.len, number);
}

/* Twice the chains; each old one splits in two, in order. The nodes are laid out anew so that a
 * chain lies in one piece. Without memory chains just get longer. */
static void widen(struct ring *ring)
{
    uint32_t old_count = UINT32_C(1) << ring->bits, used = 0;
    uint32_t *chains = malloc(2 * (size_t)old_count * sizeof(*chains));
    struct ring_node *nodes = malloc(ring->nodes_size * sizeof(*nodes));

    if (chains == NULL || nodes == NULL) {
        free(chains);
        free(nodes);
        return;
    }
    for (uint32_t i = 0; i < 2 * old_count; i++) {
        uint32_t *tail = &chains[i];

        for (uint32_t at = ring->chains[i / 2]; at != NODE_NONE; at = ring->nodes[at].next) {
            if ((ring->nodes[at].point >> (63 - ring->bits) & 1) != (i & 1))
                continue;
            nodes[used] = ring->nodes[at];
            *tail = used;
            tail = &nodes[used++].next;
        }
        *tail = NODE_NONE;
    }
    free(ring->chains);
    free(ring->nodes);
    ring->chains = chains;
    ring->nodes = nodes;
    ring->nodes_used = used;
    ring->unused = NODE_NONE;
    ring->bits++;
}

static uint32_t node_take(struct ring *ring)
{
    uint32_t at = ring->unused;

    if (at != NODE_NONE) {
        ring->unused = ring->nodes[at].next;
        return at;
    }
    if (ring->nodes_used == ring->nodes_size) {
        uint32_t size = ring->nodes_size > 0 ? 2 * ring->nodes_size : 1024;
        struct ring_node *nodes;

        if (size > NODES_MAX)
            return NODE_NONE;
        nodes = realloc(ring->nodes, size * sizeof(*nodes));
        if (nodes == NULL)
            return NODE_NONE;
        ring->nodes = nodes;
        ring->nodes_size = size;
    }
    return ring->nodes_used++;
}

static void add_point(struct ring *ring, uint32_t index)
{
    struct member *member = &ring->members[index];
    uint64_t point = point_of(member, member->points);
    uint32_t at = node_take(ring), *link;

    if (at == NODE_NONE)
        return;
    link = place_of(ring, point);
    ring->nodes[at] = (struct ring_node){point, *link, index};
    *link = at;
    member->points++;
    if (++ring->count > UINT32_C(1) << ring->bits && ring->bits < 24)
        widen(ring);
}

static void remove_point(struct ring *ring, uint32_t index)
{
    struct member *member = &ring->members[index];
    uint32_t *link = place_of(ring, point_of(member, --member->points)), at;

    while (*link != NODE_NONE && ring->nodes[*link].index != index)
        link = &ring->nodes[*link].next; /* two workers on one point */
    CHECK(*link != NODE_NONE);
    at = *link;
    *link = ring->nodes[at].next;
    ring->nodes[at].next = ring->unused;
    ring->unused = at;
    ring->count--;
}

static void stand(struct ring *ring, uint32_t index, uint32_t wanted)
{
    struct member *member = &ring->members[index];

    while (member->points > wanted)
        remove_point(ring, index);
    while (member->points < wanted) {
        uint32_t had = member->points;

        add_point(ring, index);
        if (member->points == had)
            return;
    }
}

static void joined(void *arg, uint32_t index, struct span id)
{
    struct ring *ring = arg;

    ring->members[index] = (struct member){.id = id};
}

static void left(void *arg, uint32_t index)
{
    struct ring *ring = arg;

    stand(ring, index, 0);
    ring->members[index] = (struct member){0};
}

static void changed(void *arg, const struct policy_item *item)
{
    struct ring *ring = arg;
    struct member *member = &ring->members[item->index];

    if (member->free) {
        ring->free_load -= member->load;
        ring->free_weight -= member->weight;
    }
    if (item->free) {
        ring->free_load += item->load;
        ring->free_weight += item->weight;
    }
    if (item->free && !member->free) {
        member->free_pos = ring->free_count;
        ring->free_list[ring->free_count++] = item->index;
    } else if (!item->free && member->free) {
        uint32_t last = ring->free_list[--ring->free_count];

        ring->free_list[member->free_pos] = last;
        ring->members[last].free_pos = member->free_pos;
    }
    member->free = item->free;
    member->load = item->load;
    if (member->weight != item->weight) {
        member->weight = item->weight;
        stand(ring, item->index, (item->weight + 4) / 5);
    }
}

static bool is_tried(const struct policy_pick *pick, uint32_t index)
{
    for (unsigned i = 0; i < pick->tried_count; i++)
        if (pick->tried[i] == index)
            return true;
    return false;
}

/* load < ceil(1.25 * (all load + 1) * share), in whole numbers. */
static bool under_bound(const struct ring *ring, const struct member *member)
{
    return (uint64_t)member->load * 4 * ring->free_weight <
           5 * (ring->free_load + 1) * member->weight;
}

static uint32_t compare_free(const struct ring *ring, const struct policy_pick *pick)
{
    uint32_t best = TREE_NONE;
    uint64_t best_score = 0;
    bool best_under = false;

    for (uint32_t i = 0; i < ring->free_count; i++) {
        uint32_t index = ring->free_list[i];
        const struct member *member = &ring->members[index];
        bool under = under_bound(ring, member);
        uint64_t score;

        if (is_tried(pick, index) || (best_under && !under))
            continue;
        score = rng_hash(member->id.ptr, member->id.len, pick->key);
        if (best == TREE_NONE || (under && !best_under) || score > best_score) {
            best = index;
            best_score = score;
            best_under = under;
        }
    }
    return best;
}

static uint32_t choose(void *arg, struct policy_pick *pick)
{
    struct ring *ring = arg;
    uint32_t chain = (uint32_t)(pick->key >> (64 - ring->bits)), at;
    unsigned chains_left = 4 * WALK_MAX;

    if (ring->free_count == 0)
        return TREE_NONE;
    at = *place_of(ring, pick->key);
    for (unsigned steps = 0; steps < WALK_MAX; steps++) {
        const struct member *member;

        while (at == NODE_NONE && chains_left-- > 0) {
            chain = (chain + 1) & ((UINT32_C(1) << ring->bits) - 1);
            at = ring->chains[chain];
        }
        if (at == NODE_NONE)
            break;
        member = &ring->members[ring->nodes[at].index];
        if (member->free && under_bound(ring, member) && !is_tried(pick, ring->nodes[at].index))
            return ring->nodes[at].index;
        at = ring->nodes[at].next;
    }
    return compare_free(ring, pick);
}

const struct policy policy_hash = {
    .name = "hash",
    .create = create,
    .destroy = destroy,
    .grow = grow,
    .joined = joined,
    .left = left,
    .changed = changed,
    .choose = choose,
};
