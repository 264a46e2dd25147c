#include "router/affinity.h"
#include "router/ledger.h"
#include "router/presence.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"

#define TRANSIT_MAGIC 0x7472616eu

/* The record's key: ids are unique within a service. */
size_t transit_key(struct span service, struct span id,
                   char out[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2])
{
    memcpy(out, service.ptr, service.len);
    out[service.len] = '.';
    memcpy(out + service.len + 1, id.ptr, id.len);
    return service.len + 1 + id.len;
}

/* Its own slab, so that a large message does not pay for the room of a small one. */
static char *memory_take(struct router *r, size_t len, uint64_t *small)
{
    *small = 0;
    return len <= MESSAGE_SMALL ? slab_take(r->smalls, small) : malloc(len);
}

static void memory_give(struct transit *t)
{
    if (t->small)
        slab_give(t->router->smalls, t->small);
    else
        free(t->memory);
}

static struct span copy_in(char **at, struct span from)
{
    struct span to = {*at, from.len};

    if (from.len)
        memcpy(*at, from.ptr, from.len);
    *at += from.len;
    return to;
}

struct transit *transit_create(struct router *r, struct service *s, const struct lane_message *m,
                               mono now)
{
    size_t len = m->subject.len + m->reply.len + m->headers.len + m->payload.len;
    uint64_t handle;
    struct transit *t;
    char *at;

    if (r->bytes_held + len > r->settings->limits.bytes)
        return NULL;
    t = slab_take(r->transits, &handle);
    if (!t)
        return NULL;
    t->memory = at = memory_take(r, len, &t->small);
    if (!at) {
        slab_give(r->transits, handle);
        return NULL;
    }
    t->magic = TRANSIT_MAGIC;
    t->handle = handle;
    t->router = r;
    t->service = s;
    t->memory_len = (uint32_t)len;
    t->subject = copy_in(&at, m->subject);
    t->reply = copy_in(&at, m->reply);
    t->headers = copy_in(&at, m->headers);
    t->payload = copy_in(&at, m->payload);
    t->received = now;
    t->received_at = clock_wall();
    t->total_due = MONO_NEVER;
    t->replies = (uint8_t)s->settings->replies;
    r->bytes_held += len;
    s->in_flight++;
    deadline_init(&t->clock, dispatch_clock);
    t->place = PLACE_COUNT;
    transit_place(t, PLACE_RUNNING);
    return t;
}

void transit_place(struct transit *t, enum place place)
{
    struct transit_list *places = t->router->places;

    if (t->place == place)
        return;
    if (t->place != PLACE_COUNT) {
        link_remove(&t->link);
        places[t->place].count--;
    }
    t->place = (uint8_t)place;
    if (place != PLACE_COUNT) {
        list_append(&places[place].list, &t->link);
        places[place].count++;
    }
}

void transit_arm(struct transit *t, enum clock_kind kind, mono due)
{
    t->clock_kind = (uint8_t)kind;
    /* The heap's cap is the slab's: each transit owns one deadline, so it cannot be full but for
     * want of memory. */
    if (deadline_set(t->router->deadlines, &t->clock, mono_min(due, t->total_due)) != WB_OK)
        log_limited(&t->router->log_trouble, loop_now(t->router->loop), LOG_ERROR,
                    "no memory for a clock");
}

void transit_forget_token(struct transit *t)
{
    memset(t->token, 0, sizeof t->token);
}

void transit_dispose(struct transit *t)
{
    struct router *r;

    MAGIC_CHECK(t, TRANSIT_MAGIC);
    r = t->router;
    request_end(&t->core, loop_now(r->loop));
    affinity_leave(t, loop_now(r->loop));
    affinity_forget(t);
    deadline_cancel(r->deadlines, &t->clock);
    if (t->suspects.first) {
        presence_forget(r->presence, t);
        held_clear(&t->suspects);
    }
    if (t->in_map)
        map_remove(t->service->by_id, t->id);
    transit_place(t, PLACE_COUNT);
    held_clear(&t->hold);
    free(t->refusal);
    free(t->recalled);
    worker_unref(t->server);
    r->bytes_held -= t->memory_len;
    t->service->in_flight--;
    t->service->busy_us += mono_diff_us(loop_now(r->loop), t->received);
    memory_give(t);
    t->magic = 0;
    slab_give(r->transits, t->handle);
}

struct transit *transit_of_made_id(struct router *r, const struct service *s, struct span id)
{
    struct transit *t;

    if (id.len != MADE_ID_LEN || memcmp(id.ptr, r->id_prefix, MADE_ID_PREFIX_LEN) != 0)
        return NULL;
    t = slab_get(r->transits, (uint64_t)id_decode(id.ptr + MADE_ID_PREFIX_LEN, TOKEN_HANDLE_LEN));
    return t && t->made_id && t->service == s ? t : NULL;
}

void transit_forget_id(struct transit *t)
{
    CHECK(t->place == PLACE_HELD);
    if (t->in_map)
        map_remove(t->service->by_id, t->id);
    t->in_map = t->made_id = false;
}

struct transit *transit_of_charge(const struct charge *charge)
{
    struct request *rq = CONTAINER_OF(charge, struct request, charge);
    struct transit *t = CONTAINER_OF(rq, struct transit, core);

    MAGIC_CHECK(t, TRANSIT_MAGIC);
    return t;
}

struct held *held_create(struct span headers, struct span payload)
{
    struct held *h = malloc(sizeof *h + headers.len + payload.len);

    if (!h)
        return NULL;
    h->next = NULL;
    h->headers_len = (uint32_t)headers.len;
    h->payload_len = (uint32_t)payload.len;
    memcpy(h->bytes, headers.ptr, headers.len);
    memcpy(h->bytes + headers.len, payload.ptr, payload.len);
    return h;
}

void held_append(struct held_list *list, struct held *held)
{
    if (list->last)
        list->last->next = held;
    else
        list->first = held;
    list->last = held;
    list->bytes += held->headers_len + (size_t)held->payload_len;
}

struct held *held_take(struct held_list *list)
{
    struct held *h = list->first;

    if (!h)
        return NULL;
    list->first = h->next;
    if (!list->first)
        list->last = NULL;
    list->bytes -= h->headers_len + (size_t)h->payload_len;
    h->next = NULL;
    return h;
}

void held_clear(struct held_list *list)
{
    struct held *h;

    while ((h = held_take(list)))
        free(h);
}
