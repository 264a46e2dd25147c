/* Chunks of equal objects, each object with a generation beside it.
 *
 * A slot is in one of three places: not made yet (number >= made), taken (next == TAKEN), or on the
 * free list (next is the following free slot). Its generation grows when it is given back, so a
 * handle names one owner only; after 2^32 owners of one slot a handle could be mistaken, and 0 is
 * skipped so that no handle is 0.
 *
 * The free list is last in, first out: the object most likely in the cache is taken next. Chunks
 * are kept until destroy. */
#include "base/slab.h"

#include "base/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SHIFT 6
#define CHUNK_SLOTS (1u << CHUNK_SHIFT)
#define NO_SLOT UINT32_MAX
#define TAKEN (UINT32_MAX - 1)
#define ALIGNMENT _Alignof(max_align_t)

struct slot {
    uint32_t generation;
    uint32_t next;
};

struct chunk {
    struct slot slots[CHUNK_SLOTS];
    max_align_t objects[];
};

struct slab {
    struct chunk **chunks;
    size_t object_size, stride, zeroed;
    uint32_t max, made, used, free_list;
};

struct slab *slab_create(size_t object_size, uint32_t max)
{
    struct slab *slab = calloc(1, sizeof(*slab));

    CHECK(object_size > 0 && max > 0 && max < TAKEN);
    if (!slab)
        return NULL;
    slab->object_size = slab->zeroed = object_size;
    slab->stride = (object_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    slab->max = max;
    slab->free_list = NO_SLOT;
    slab->chunks = calloc((max >> CHUNK_SHIFT) + 1, sizeof(*slab->chunks));
    if (!slab->chunks) {
        free(slab);
        return NULL;
    }
    return slab;
}

void slab_zero_only(struct slab *slab, size_t n)
{
    CHECK(n <= slab->object_size);
    slab->zeroed = n;
}

void slab_destroy(struct slab *slab)
{
    if (!slab)
        return;
    for (uint32_t i = 0; i <= slab->max >> CHUNK_SHIFT; i++)
        free(slab->chunks[i]);
    free(slab->chunks);
    free(slab);
}

static struct slot *slot_at(const struct slab *slab, uint32_t number)
{
    return &slab->chunks[number >> CHUNK_SHIFT]->slots[number & (CHUNK_SLOTS - 1)];
}

static void *object_at(const struct slab *slab, uint32_t number)
{
    char *objects = (char *)slab->chunks[number >> CHUNK_SHIFT]->objects;

    return objects + slab->stride * (number & (CHUNK_SLOTS - 1));
}

static uint64_t handle_of(uint32_t number, const struct slot *slot)
{
    return (uint64_t)slot->generation << 32 | number;
}

static bool make_slot(struct slab *slab, uint32_t *number)
{
    struct chunk **chunk = &slab->chunks[slab->made >> CHUNK_SHIFT];

    if (slab->made == slab->max)
        return false;
    if (!*chunk) {
        *chunk = malloc(sizeof(**chunk) + slab->stride * CHUNK_SLOTS);
        if (!*chunk)
            return false;
    }
    *number = slab->made++;
    slot_at(slab, *number)->generation = 1;
    return true;
}

void *slab_take(struct slab *slab, uint64_t *handle)
{
    uint32_t number = slab->free_list;
    struct slot *slot;
    void *object;

    if (number == NO_SLOT) {
        if (!make_slot(slab, &number))
            return NULL;
        slot = slot_at(slab, number);
    } else {
        slot = slot_at(slab, number);
        slab->free_list = slot->next;
    }
    slot->next = TAKEN;
    slab->used++;
    *handle = handle_of(number, slot);
    object = object_at(slab, number);
    return slab->zeroed > 0 ? memset(object, 0, slab->zeroed) : object;
}

void *slab_get(const struct slab *slab, uint64_t handle)
{
    uint32_t number = (uint32_t)handle;
    const struct slot *slot;

    if (number >= slab->made)
        return NULL;
    slot = slot_at(slab, number);
    if (slot->next != TAKEN || slot->generation != handle >> 32)
        return NULL;
    return object_at(slab, number);
}

void slab_give(struct slab *slab, uint64_t handle)
{
    struct slot *slot;

    CHECK(slab_get(slab, handle) != NULL);
    slot = slot_at(slab, (uint32_t)handle);
    if (++slot->generation == 0)
        slot->generation = 1;
    slot->next = slab->free_list;
    slab->free_list = (uint32_t)handle;
    slab->used--;
}

uint32_t slab_used(const struct slab *slab)
{
    return slab->used;
}

void slab_each(struct slab *slab, void (*fn)(void *arg, void *object, uint64_t handle), void *arg)
{
    for (uint32_t i = 0; i < slab->made; i++) {
        struct slot *slot = slot_at(slab, i);

        if (slot->next == TAKEN)
            fn(arg, object_at(slab, i), handle_of(i, slot));
    }
}
