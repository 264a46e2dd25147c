/* Consistent hash with bounded load.
 *
 * Ring: each worker stands at points made of its id alone, as many as its weight asks for (20 at
 * weight 100), so every router with the same pool has the same ring whatever order it learned of
 * the workers in; two workers on one point stand in the order of their ids. The ring holds all
 * known workers; those not free are stepped over, so a worker that comes and goes moves only its
 * own keys.
 *
 * The ring is one array of slots in the order of the points, with gaps: a point's home is the slot
 * that its leading bits name; it stands there or, if others of the same order took that, a little
 * behind. So a key finds its place in one or two cache lines, and joining and leaving shift only
 * the few points up to the next gap. Doubled and halved as points come and go, so gaps stay short.
 *
 * Bound: a worker takes no more than 1.25 times its share, by weight, of the load of the free
 * workers, the new request included; at least one free worker is always under that.
 *
 * Walk: from the key's place clockwise to the first free worker under its bound, over at most
 * WALK_MAX points. Hardly anybody is free if that fails, so then the few free ones are compared by
 * rendezvous hash, which is the same for every router too. Those who see the same loads pick the
 * same worker.
 *
 * A choice reads the slots and `free`, 8 bytes for each worker; all else of a worker stands apart.
 *
 * A lack of memory for points leaves a worker with fewer of them; the comparison at the end still
 * finds it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/policy.h"

#define WALK_MAX 128
#define BITS_MIN 6
#define BITS_MAX 24
#define NOBODY UINT32_MAX

struct slot {
    uint32_t point;
    uint32_t index; /* NOBODY: a gap */
};

struct free_one { /* weight 0: not free */
    uint32_t load, weight;
};

struct member {
    struct span id;
    uint32_t weight;
    uint32_t points;   /* it has on the ring */
    uint32_t free_pos; /* in free_list */
};

struct ring {
    struct slot *slots; /* 2^bits, at least a fifth of them gaps */
    unsigned bits;
    uint32_t count; /* points */
    struct free_one *free;
    struct member *members;
    uint32_t members_size;
    uint32_t *free_list;
    uint32_t free_count;
    uint64_t free_load, free_weight;
};

static uint32_t mask_of(const struct ring *ring)
{
    return (UINT32_C(1) << ring->bits) - 1;
}

static uint32_t home_of(const struct ring *ring, uint32_t point)
{
    return point >> (32 - ring->bits);
}

static bool is_gap(const struct ring *ring, uint32_t slot)
{
    return ring->slots[slot].index == NOBODY;
}

/* How far behind its home the point in this slot stands. */
static uint32_t way_of(const struct ring *ring, uint32_t slot)
{
    return (slot - home_of(ring, ring->slots[slot].point)) & mask_of(ring);
}

static struct slot *slots_create(unsigned bits)
{
    struct slot *slots = aligned_alloc(64, sizeof(*slots) << bits);

    if (slots != NULL)
        memset(slots, 0xff, sizeof(*slots) << bits); /* NOBODY */
    return slots;
}

static void *create(uint32_t ratio)
{
    struct ring *ring = calloc(1, sizeof(*ring));

    (void)ratio;
    if (ring == NULL)
        return NULL;
    ring->bits = BITS_MIN;
    ring->slots = slots_create(ring->bits);
    if (ring->slots == NULL) {
        free(ring);
        return NULL;
    }
    return ring;
}

static void destroy(void *arg)
{
    struct ring *ring = arg;

    if (ring == NULL)
        return;
    free(ring->slots);
    free(ring->free);
    free(ring->members);
    free(ring->free_list);
    free(ring);
}

static bool grow(void *arg, uint32_t indexes)
{
    struct ring *ring = arg;
    uint32_t had = ring->members_size, added = indexes - had;
    uint32_t *list = realloc(ring->free_list, indexes * sizeof(*list));
    struct free_one *free_ones;
    struct member *members;

    if (list == NULL)
        return false;
    ring->free_list = list;
    free_ones = realloc(ring->free, indexes * sizeof(*free_ones));
    if (free_ones == NULL)
        return false;
    ring->free = free_ones;
    members = realloc(ring->members, indexes * sizeof(*members));
    if (members == NULL)
        return false;
    ring->members = members;
    memset(free_ones + had, 0, added * sizeof(*free_ones));
    memset(members + had, 0, added * sizeof(*members));
    ring->members_size = indexes;
    return true;
}

/* The slot of the first point that is not before this one, or the gap where such a one belongs. */
static uint32_t seek(const struct ring *ring, uint32_t point)
{
    uint32_t mask = mask_of(ring), slot = home_of(ring, point);

    for (uint32_t way = 0; !is_gap(ring, slot); way++, slot = (slot + 1) & mask) {
        uint32_t its_way = way_of(ring, slot);

        if (its_way < way || (its_way == way && ring->slots[slot].point >= point))
            break;
    }
    return slot;
}

static bool has_lower_id(const struct ring *ring, uint32_t index, uint32_t than)
{
    struct span a = ring->members[index].id, b = ring->members[than].id;
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order < 0 || (order == 0 && a.len < b.len);
}

static void insert(struct ring *ring, struct slot add)
{
    uint32_t mask = mask_of(ring), slot = seek(ring, add.point);

    while (!is_gap(ring, slot) && ring->slots[slot].point == add.point &&
           has_lower_id(ring, ring->slots[slot].index, add.index))
        slot = (slot + 1) & mask;
    for (; !is_gap(ring, slot); slot = (slot + 1) & mask) {
        struct slot moved = ring->slots[slot];

        ring->slots[slot] = add;
        add = moved;
    }
    ring->slots[slot] = add;
}

/* Without memory it stays as it is. */
static void resize(struct ring *ring, unsigned bits)
{
    uint32_t old_mask = mask_of(ring);
    struct slot *old = ring->slots, *slots = slots_create(bits);

    if (slots == NULL)
        return;
    ring->slots = slots;
    ring->bits = bits;
    for (uint32_t i = 0; i <= old_mask; i++)
        if (old[i].index != NOBODY)
            insert(ring, old[i]);
    free(old);
}

static uint32_t point_of(const struct member *member, uint32_t number)
{
    return (uint32_t)(rng_hash(member->id.ptr, member->id.len, number) >> 32);
}

static bool add_point(struct ring *ring, uint32_t index)
{
    struct member *member = &ring->members[index];
    uint32_t most = mask_of(ring) / 5 * 4;

    if (ring->count >= most && ring->bits < BITS_MAX) {
        resize(ring, ring->bits + 1);
        most = mask_of(ring) / 5 * 4;
    }
    if (ring->count >= most)
        return false;
    insert(ring, (struct slot){point_of(member, member->points), index});
    member->points++;
    ring->count++;
    return true;
}

static void remove_point(struct ring *ring, uint32_t index)
{
    struct member *member = &ring->members[index];
    uint32_t mask = mask_of(ring), slot = seek(ring, point_of(member, --member->points)), next;

    while (ring->slots[slot].index != index) {
        CHECK(!is_gap(ring, slot));
        slot = (slot + 1) & mask; /* two workers on one point */
    }
    for (; next = (slot + 1) & mask, !is_gap(ring, next) && way_of(ring, next) > 0; slot = next)
        ring->slots[slot] = ring->slots[next];
    ring->slots[slot].index = NOBODY;
    ring->count--;
    if (ring->count < mask / 8 && ring->bits > BITS_MIN)
        resize(ring, ring->bits - 1);
}

static void stand(struct ring *ring, uint32_t index, uint32_t wanted)
{
    struct member *member = &ring->members[index];

    while (member->points > wanted)
        remove_point(ring, index);
    while (member->points < wanted)
        if (!add_point(ring, index))
            return;
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

static void list_free(struct ring *ring, uint32_t index)
{
    ring->members[index].free_pos = ring->free_count;
    ring->free_list[ring->free_count++] = index;
}

static void unlist_free(struct ring *ring, uint32_t index)
{
    uint32_t pos = ring->members[index].free_pos, last = ring->free_list[--ring->free_count];

    ring->free_list[pos] = last;
    ring->members[last].free_pos = pos;
}

static void changed(void *arg, const struct policy_item *item)
{
    struct ring *ring = arg;
    struct free_one *one = &ring->free[item->index], old = *one;
    struct member *member;

    *one = item->free ? (struct free_one){item->load, item->weight} : (struct free_one){0, 0};
    ring->free_load += (uint64_t)one->load - old.load;
    ring->free_weight += (uint64_t)one->weight - old.weight;
    if (old.weight == item->weight && item->free)
        return;
    if (item->free && old.weight == 0)
        list_free(ring, item->index);
    else if (!item->free && old.weight != 0)
        unlist_free(ring, item->index);
    member = &ring->members[item->index];
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

/* load < ceil(1.25 * (all load + 1) * share), in whole numbers; false for who is not free. */
static bool under_bound(const struct ring *ring, uint32_t index)
{
    const struct free_one *one = &ring->free[index];

    return (uint64_t)one->load * 4 * ring->free_weight < 5 * (ring->free_load + 1) * one->weight;
}

static uint32_t compare_free(const struct ring *ring, const struct policy_pick *pick)
{
    uint32_t best = TREE_NONE;
    uint64_t best_score = 0;
    bool best_under = false;

    for (uint32_t i = 0; i < ring->free_count; i++) {
        uint32_t index = ring->free_list[i];
        const struct member *member = &ring->members[index];
        bool under = under_bound(ring, index);
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
    uint32_t mask = mask_of(ring), slot;
    unsigned points = ring->count < WALK_MAX ? ring->count : WALK_MAX;

    if (ring->free_count == 0)
        return TREE_NONE;
    for (slot = seek(ring, (uint32_t)(pick->key >> 32)); points > 0; slot = (slot + 1) & mask) {
        uint32_t index = ring->slots[slot].index;

        if (index == NOBODY)
            continue;
        if (under_bound(ring, index) && !is_tried(pick, index))
            return index;
        points--;
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
