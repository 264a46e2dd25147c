/* Assertions that stay on in release: for our own bugs only, never for peers' bytes, memory or the
 * network. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

_Noreturn void check_failed(const char *what, const char *file, int line);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_failed(#condition, __FILE__, __LINE__);                                          \
    } while (0)
/* First member of each object that travels through a void pointer. */
#define MAGIC_SET(object, value) ((object)->magic = (value))
#define MAGIC_CHECK(object, value) CHECK((object) != NULL && (object)->magic == (value))
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
