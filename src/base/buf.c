/* One allocation holds the live bytes data[head..tail) and idle room on both sides.
 *
 * Invariants: head <= tail <= size <= max; an empty buf has head == tail == 0; data is NULL exactly
 * when size is 0. One byte more than size is allocated, so that vsnprintf's NUL never costs a
 * caller a byte of his cap.
 *
 * Consuming only moves head. The live bytes move when the tail has no room: down to the front if
 * what was consumed is at least what is left (so each byte moves at most once per byte consumed),
 * else into a doubled allocation; at the cap they move down whatever it costs. */
#include "base/buf.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BUF_FIRST_SIZE 256

void buf_init(struct buf *b, size_t max)
{
    CHECK(max < SIZE_MAX / 4);
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

static void move_down(struct buf *b)
{
    size_t len = buf_len(b);

    if (b->data)
        memmove(b->data, b->data + b->head, len);
    b->head = 0;
    b->tail = len;
}

static size_t next_size(const struct buf *b, size_t need)
{
    size_t size = b->size ? b->size * 2 : BUF_FIRST_SIZE;

    while (size < need)
        size *= 2;
    return size < b->max ? size : b->max;
}

char *buf_make_room(struct buf *b, size_t n)
{
    static char nothing[1]; /* what zero bytes of an empty buf point to */
    size_t len = buf_len(b), size;
    char *data;

    if (n > b->max - len)
        return NULL;
    if (b->size - b->tail >= n)
        return b->data ? b->data + b->tail : nothing;
    if (b->size - len >= n && (b->head >= len || b->size == b->max)) {
        move_down(b);
        return b->data + b->tail;
    }
    size = next_size(b, len + n);
    data = malloc(size + 1);
    if (!data)
        return NULL;
    if (b->data)
        memcpy(data, b->data + b->head, len);
    free(b->data);
    b->data = data;
    b->size = size;
    b->head = 0;
    b->tail = len;
    return data + len;
}

static wb_status why_not(const struct buf *b, size_t n)
{
    return n > b->max - buf_len(b) ? WB_FULL : WB_NO_MEMORY;
}

wb_status buf_append(struct buf *b, const void *bytes, size_t n)
{
    char *room;

    if (n == 0)
        return WB_OK;
    room = buf_reserve(b, n);
    if (!room)
        return why_not(b, n);
    memcpy(room, bytes, n);
    b->tail += n;
    return WB_OK;
}

wb_status buf_printf(struct buf *b, const char *format, ...)
{
    size_t room = b->size - b->tail;
    va_list args;
    char *out;
    int n;

    va_start(args, format);
    n = b->data ? vsnprintf(b->data + b->tail, room + 1, format, args)
                : vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        return WB_INVALID;
    if ((size_t)n > room) {
        out = buf_reserve(b, (size_t)n);
        if (!out)
            return why_not(b, (size_t)n);
        va_start(args, format);
        vsnprintf(out, (size_t)n + 1, format, args);
        va_end(args);
    }
    b->tail += (size_t)n;
    return WB_OK;
}

void buf_consume(struct buf *b, size_t n)
{
    CHECK(n <= buf_len(b));
    b->head += n;
    if (b->head == b->tail)
        b->head = b->tail = 0;
}

void buf_clear(struct buf *b)
{
    b->head = b->tail = 0;
}

void buf_shrink(struct buf *b)
{
    if (buf_len(b) == 0)
        buf_fini(b);
}
