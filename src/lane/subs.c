/* A slot is free, subscribed or leaving. Free slots form a queue, not a stack, so that a sid stays
 * unused as long as possible after its subscription ended. */
#include "lane/subs.h"

#include <stdlib.h>

#include "base/check.h"

void subs_init(struct subs *subs)
{
    memset(subs, 0, sizeof(*subs));
    subs->used = 1;
    subs->leaving_end = &subs->leaving;
}

void subs_fini(struct subs *subs)
{
    for (uint32_t sid = 1; sid < subs->used; sid++)
        free(subs->slots[sid].sub);
    free(subs->slots);
    subs_init(subs);
}

static bool grow(struct subs *subs)
{
    uint32_t size = subs->size ? subs->size * 2 : 32;
    struct subs_slot *slots;

    if (size > SUBS_MAX + 1)
        size = SUBS_MAX + 1;
    if (size == subs->size)
        return false;
    slots = realloc(subs->slots, size * sizeof(*slots));
    if (!slots)
        return false;
    memset(slots + subs->size, 0, (size - subs->size) * sizeof(*slots));
    subs->slots = slots;
    subs->size = size;
    return true;
}

/* Fresh sids first while they cost no memory: 0 when there is none. */
static uint32_t take_sid(struct subs *subs)
{
    uint32_t sid = subs->first_free;

    if (sid == 0) {
        if (subs->used >= subs->size && !grow(subs))
            return 0;
        return subs->used++;
    }
    subs->first_free = subs->slots[sid].next_free;
    if (subs->first_free == 0)
        subs->last_free = 0;
    return sid;
}

struct subscription *subs_add(struct subs *subs, struct span subject, struct span queue,
                              void (*on_message)(void *arg, const struct lane_message *m),
                              void *arg)
{
    struct subscription *sub = calloc(1, sizeof(*sub) + subject.len + queue.len + 1);
    uint32_t sid = sub ? take_sid(subs) : 0;

    if (sid == 0) {
        free(sub);
        return NULL;
    }
    memcpy(sub->text, subject.ptr, subject.len);
    if (queue.len > 0)
        memcpy(sub->text + subject.len, queue.ptr, queue.len);
    sub->subject = span_of(sub->text, subject.len);
    sub->queue = span_of(sub->text + subject.len, queue.len);
    sub->sid = sid;
    sub->on_message = on_message;
    sub->arg = arg;
    subs->slots[sid].sub = sub;
    subs->count++;
    return sub;
}

void subs_remove(struct subs *subs, struct subscription *sub)
{
    uint32_t sid = (uint32_t)sub->sid;

    CHECK(subs->slots[sid].sub == sub && !sub->leaving);
    subs->slots[sid].sub = NULL;
    subs->slots[sid].next_free = 0;
    if (subs->last_free)
        subs->slots[subs->last_free].next_free = sid;
    else
        subs->first_free = sid;
    subs->last_free = sid;
    subs->count--;
    free(sub);
}

void subs_leave(struct subs *subs, struct subscription *sub)
{
    CHECK(!sub->leaving);
    sub->leaving = true;
    sub->mark = ++subs->mark;
    sub->next_leaving = NULL;
    *subs->leaving_end = sub;
    subs->leaving_end = &sub->next_leaving;
}

void subs_left(struct subs *subs, uint64_t mark)
{
    while (subs->leaving && subs->leaving->mark <= mark) {
        struct subscription *sub = subs->leaving;

        subs->leaving = sub->next_leaving;
        if (!subs->leaving)
            subs->leaving_end = &subs->leaving;
        sub->leaving = false;
        subs_remove(subs, sub);
    }
}
