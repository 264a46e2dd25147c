/* A doubly linked list through links that its objects embed; it owns and allocates nothing.
 *
 * The list is a ring through its head, so a link is taken out without knowing its list and without
 * a branch. A link is on one list or on none; a zeroed link is on none. A list must be initialised
 * and stay where it is; objects go back to the caller by LIST_OWNER, which takes NULL. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

struct link {
    struct link *next, *prev; /* NULL: on no list */
};

struct list {
    struct link head; /* next: the first, prev: the last, itself if there are none */
};

static inline void list_init(struct list *list)
{
    list->head.next = list->head.prev = &list->head;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool link_is_on(const struct link *link)
{
    return link->next != NULL;
}

static inline void link_between(struct link *link, struct link *prev, struct link *next)
{
    CHECK(!link_is_on(link));
    link->next = next;
    link->prev = prev;
    prev->next = link;
    next->prev = link;
}

static inline void list_append(struct list *list, struct link *link)
{
    link_between(link, list->head.prev, &list->head);
}

static inline void list_prepend(struct list *list, struct link *link)
{
    link_between(link, &list->head, list->head.next);
}

static inline void link_remove(struct link *link) /* from the list it is on */
{
    CHECK(link_is_on(link));
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

/* The link after this one, NULL at the end. Ask before taking this one out. */
static inline struct link *list_next(const struct list *list, const struct link *link)
{
    return link->next != &list->head ? link->next : NULL;
}

static inline struct link *list_first(const struct list *list)
{
    return list_next(list, &list->head);
}

static inline struct link *list_last(const struct list *list)
{
    return list->head.prev != &list->head ? list->head.prev : NULL;
}

static inline void *list_owner(struct link *link, size_t offset)
{
    return link != NULL ? (char *)link - offset : NULL;
}

#define LIST_OWNER(link, type, member) ((type *)list_owner((link), offsetof(type, member)))

#endif
