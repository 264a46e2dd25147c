/* Header blocks as bytes. A block is `NATS/1.0[ status]\r\n` then `Name: value\r\n` lines then
 * `\r\n`. Pure functions: nothing is allocated, order and bytes are kept, names are case-sensitive.
 * A block of length 0 means "no headers". */
#ifndef LANE_HEADER_H
#define LANE_HEADER_H

#include "base/buf.h"
#include "base/span.h"
#include "waybill/status.h"

struct header_iter {
    const char *at, *end;
    bool malformed; /* the version line; header_walk says so */
};
struct header_field {
    struct span name;
    struct span value; /* without surrounding blanks */
    struct span line;  /* the whole line with its CRLF */
};

/* WB_INVALID unless every line has this form: version line, name of printable non-colon ASCII, no
 * bare CR or LF, closing CRLF. */
WB_MUST_USE wb_status header_check(struct span block);
/* The three-digit status of the first line, 0: none. */
int header_status(struct span block);
void header_begin(struct header_iter *iter, struct span block);
bool header_next(struct header_iter *iter,
                 struct header_field *field); /* tolerates malformed blocks: stops */
/* Checks as it goes, as header_check does: a block is well formed once this has said HEADER_END. */
enum header_step { HEADER_FIELD, HEADER_END, HEADER_MALFORMED };
enum header_step header_walk(struct header_iter *iter, struct header_field *field);
/* First field of that name; false: none. */
bool header_find(struct span block, struct span name, struct span *value);

/* Writing. Start a block, copy or add fields, close it. All return WB_FULL/WB_NO_MEMORY through
 * `status`, which sticks. */
struct header_writer {
    struct buf *out;
    wb_status status;
};
void header_open(struct header_writer *w, struct buf *out); /* writes NATS/1.0\r\n */
/* All fields of the block for which drop is false, byte for byte, in order. drop may be NULL. */
void header_copy(struct header_writer *w, struct span block,
                 bool (*drop)(void *arg, const struct header_field *f), void *arg);
/* All fields as one piece. The block is empty or ends with its closing CRLF: the caller has seen
 * it. */
void header_copy_whole(struct header_writer *w, struct span block);
/* The caller guarantees name and value hold no CR, LF or colon in the name (CHECKed). */
void header_add(struct header_writer *w, struct span name, struct span value);
void header_lines(struct header_writer *w,
                  struct span lines); /* whole fields, made by these functions before */
void header_add_u64(struct header_writer *w, struct span name, unsigned long long value);
WB_MUST_USE wb_status header_close(struct header_writer *w); /* closing CRLF; the sticky status */

#endif
