/* Byte-string keys to pointers; the only user of uthash. Keys are NOT copied: they must live,
 * unchanged, in the value's owner until removal. Nodes come from a free list. One thread. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/span.h"
#include "waybill/status.h"

struct map;

struct map *map_create(unsigned max);
void map_destroy(struct map *map); /* takes NULL; values are untouched */
WB_MUST_USE wb_status map_put(struct map *map, struct span key,
                              void *value);            /* WB_EXISTS, WB_FULL, WB_NO_MEMORY */
void *map_get(const struct map *map, struct span key); /* NULL: none */
void *map_remove(struct map *map, struct span key);    /* the value, or NULL */
unsigned map_count(const struct map *map);
/* Order of insertion. fn may remove the entry it is called with. */
void map_each(struct map *map, void (*fn)(void *arg, void *value), void *arg);

#endif
