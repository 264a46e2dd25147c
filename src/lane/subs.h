/* The subscriptions of a lane: an array by sid, so that a message finds its receiver by index. */
#ifndef LANE_SUBS_H
#define LANE_SUBS_H

#include "lane/lane.h"

#define SUBS_MAX 65536

struct subscription {
    uint64_t sid;
    struct span subject, queue; /* into `text` */
    void (*on_message)(void *arg, const struct lane_message *m);
    void *arg;
    struct subscription *next_leaving;
    bool leaving;  /* UNSUB was sent; on the leaving list until its PONG */
    uint64_t mark; /* with leaving: which UNSUB it was */
    char text[];
};

struct subs_slot {
    struct subscription *sub; /* NULL: free */
    uint32_t next_free;       /* sid, 0: the last */
};

struct subs {
    struct subs_slot *slots; /* by sid; slot 0 is never used */
    uint32_t size, used;     /* allocated; highest sid ever used + 1 */
    uint32_t first_free, last_free;
    uint32_t count;
    struct subscription *leaving, **leaving_end; /* oldest first */
    uint64_t mark;
};

void subs_init(struct subs *subs);
void subs_fini(struct subs *subs);
/* NULL: no memory, or SUBS_MAX reached. Sids are used again, the one longest free first. */
struct subscription *subs_add(struct subs *subs, struct span subject, struct span queue,
                              void (*on_message)(void *arg, const struct lane_message *m),
                              void *arg);
void subs_remove(struct subs *subs, struct subscription *sub); /* not one that is leaving */
void subs_leave(struct subs *subs, struct subscription *sub);
/* Forgets those that left at or before `mark`. */
void subs_left(struct subs *subs, uint64_t mark);

static inline struct subscription *subs_get(const struct subs *subs, uint64_t sid)
{
    return sid < subs->used ? subs->slots[sid].sub : NULL;
}

#endif
