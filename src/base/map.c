/* A uthash table of nodes that point to the caller's keys.
 *
 * A node is on the free list or in the table. Node memory comes in chunks, kept until destroy. The
 * hash has a seed of its own per map, from the kernel, because keys are named by clients: nobody
 * outside can aim at one bucket.
 *
 * uthash frees its table when the last entry goes and starts small again with the next one. A map
 * of requests in flight would pay that at each request, so one anchor entry is always in the table.
 * Its key length is one that no caller can have, so it is never compared and never found; it stays
 * first in the order of insertion. */
#include "base/map.h"

#include "base/check.h"
#include "base/rng.h"

#include <limits.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, value) ((value) = (unsigned)rng_hash((key), (length), 0))
#include <uthash.h>

#define CHUNK_NODES 128
#define ANCHOR_LENGTH UINT_MAX

struct node {
    UT_hash_handle hh;
    void *value;
    struct node *next_free;
};

struct chunk {
    struct chunk *next;
    struct node nodes[CHUNK_NODES];
};

struct map {
    struct node *table; /* the anchor, as long as the map lives */
    struct node *free_list;
    struct chunk *chunks;
    uint64_t seed;
    unsigned max, count;
    struct node anchor;
};

static unsigned hash_of(const struct map *map, struct span key)
{
    CHECK(key.len < ANCHOR_LENGTH);
    return (unsigned)rng_hash(key.ptr, key.len, map->seed);
}

/* Adds a node under a hash already known. False: no memory, and the node is not in the table. */
static bool add(struct map *map, struct node *node, const char *key, unsigned length, unsigned hash)
{
    unsigned before = map->table ? HASH_COUNT(map->table) : 0;

    HASH_ADD_KEYPTR_BYHASHVALUE(hh, map->table, key, length, hash, node);
    return map->table && HASH_COUNT(map->table) == before + 1;
}

struct map *map_create(unsigned max)
{
    struct map *map = calloc(1, sizeof(*map));

    if (!map)
        return NULL;
    map->max = max;
    rng_secure(&map->seed, sizeof(map->seed));
    if (!add(map, &map->anchor, "", ANCHOR_LENGTH, 0)) {
        free(map);
        return NULL;
    }
    return map;
}

void map_destroy(struct map *map)
{
    if (!map)
        return;
    HASH_CLEAR(hh, map->table);
    while (map->chunks) {
        struct chunk *chunk = map->chunks;

        map->chunks = chunk->next;
        free(chunk);
    }
    free(map);
}

static struct node *find(const struct map *map, struct span key, unsigned hash)
{
    struct node *node;

    HASH_FIND_BYHASHVALUE(hh, map->table, key.ptr, (unsigned)key.len, hash, node);
    return node;
}

static bool make_nodes(struct map *map)
{
    struct chunk *chunk = malloc(sizeof(*chunk));

    if (!chunk)
        return false;
    chunk->next = map->chunks;
    map->chunks = chunk;
    for (unsigned i = CHUNK_NODES; i-- > 0;) {
        chunk->nodes[i].next_free = map->free_list;
        map->free_list = &chunk->nodes[i];
    }
    return true;
}

wb_status map_put(struct map *map, struct span key, void *value)
{
    unsigned hash = hash_of(map, key);
    struct node *node;

    CHECK(value != NULL);
    if (find(map, key, hash))
        return WB_EXISTS;
    if (map->count >= map->max)
        return WB_FULL;
    if (!map->free_list && !make_nodes(map))
        return WB_NO_MEMORY;
    node = map->free_list;
    if (!add(map, node, key.ptr, (unsigned)key.len, hash))
        return WB_NO_MEMORY;
    map->free_list = node->next_free;
    node->value = value;
    map->count++;
    return WB_OK;
}

void *map_get(const struct map *map, struct span key)
{
    const struct node *node = find(map, key, hash_of(map, key));

    return node ? node->value : NULL;
}

void *map_remove(struct map *map, struct span key)
{
    struct node *node = find(map, key, hash_of(map, key));

    if (!node)
        return NULL;
    HASH_DELETE(hh, map->table, node);
    node->next_free = map->free_list;
    map->free_list = node;
    map->count--;
    return node->value;
}

unsigned map_count(const struct map *map)
{
    return map->count;
}

void map_each(struct map *map, void (*fn)(void *arg, void *value), void *arg)
{
    struct node *node = map->anchor.hh.next, *next;

    for (; node; node = next) {
        next = node->hh.next;
        fn(arg, node->value);
    }
}
