/* Equal-sized objects with handles that cannot be mistaken for a later owner's: handle = generation
 * << 32 | slot. Taking is O(1); memory grows by chunks up to the cap and addresses are stable.
 * Objects are zeroed when taken. Generations start at 1, so a handle is never 0. One thread. */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

struct slab;

struct slab *slab_create(size_t object_size, uint32_t max);
/* Right after creation: only the first n bytes of an object are zeroed when it is taken; the rest
 * is as its last owner left it. */
void slab_zero_only(struct slab *slab, size_t n);
void slab_destroy(struct slab *slab); /* takes NULL; objects still taken are gone too */
void *slab_take(struct slab *slab, uint64_t *handle);     /* NULL at the cap or without memory */
void *slab_get(const struct slab *slab, uint64_t handle); /* NULL if that owner has given it back */
void slab_give(struct slab *slab, uint64_t handle);
uint32_t slab_used(const struct slab *slab);
/* Calls fn for each taken object; fn may give back the object it is called with, and no other. */
void slab_each(struct slab *slab, void (*fn)(void *arg, void *object, uint64_t handle), void *arg);

#endif
