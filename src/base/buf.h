/* Bounded bytes: grows by doubling up to a cap given at init. Consumed from the front without
 * moving until it must. A zeroed buf is a valid empty one of cap 0. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"
#include "waybill/status.h"

struct buf {
    char *data;
    size_t head, tail; /* bytes are data[head..tail) */
    size_t size;       /* allocated */
    size_t max;
};

void buf_init(struct buf *b, size_t max); /* allocates nothing */
void buf_fini(struct buf *b);
/* Room for n more bytes in one piece, or NULL (over max, or no memory: buf unchanged). Then write
 * and buf_grew. */
char *buf_make_room(struct buf *b, size_t n); /* buf_reserve's slow half */
WB_MUST_USE wb_status buf_append(struct buf *b, const void *bytes,
                                 size_t n); /* WB_FULL or WB_NO_MEMORY: unchanged */
WB_MUST_USE wb_status buf_printf(struct buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);  /* keeps the memory */
void buf_shrink(struct buf *b); /* gives idle memory back when empty */

static inline char *buf_reserve(struct buf *b, size_t n)
{
    return b->data && b->size - b->tail >= n ? b->data + b->tail : buf_make_room(b, n);
}

static inline size_t buf_len(const struct buf *b)
{
    return b->tail - b->head;
}

static inline void buf_grew(struct buf *b, size_t n)
{
    b->tail += n;
}

static inline struct span buf_span(const struct buf *b)
{
    return span_of(b->data ? b->data + b->head : "", b->tail - b->head);
}

#endif
