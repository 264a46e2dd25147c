/* The server's side of the NATS client protocol, from bytes to operations. Takes any split of
 * bytes; holds nothing but its position: the caller keeps the unparsed tail (the read buffer) and
 * feeds it again with more. Pure. Limits: control line 4096 + , header and payload by max_payload.
 */
#ifndef LANE_PARSER_H
#define LANE_PARSER_H

#include <stdint.h>

#include "base/span.h"
#include "waybill/status.h"

enum parser_op {
    PARSER_MORE,
    PARSER_MSG,
    PARSER_INFO,
    PARSER_PING,
    PARSER_PONG,
    PARSER_OK,
    PARSER_ERR,
    PARSER_BROKEN
};

struct parser_message {
    uint64_t sid;
    struct span subject, reply, headers, payload;
};

struct parser_result {
    enum parser_op op;
    size_t used; /* bytes consumed; 0 with PARSER_MORE */
    size_t want; /* with PARSER_MORE: total bytes of the operation if already known, else 0: lets
                    the reader size its buffer */
    struct parser_message message; /* PARSER_MSG; points into the input */
    struct span text;              /* PARSER_INFO: the JSON; PARSER_ERR: the text without quotes */
};

#define PARSER_LINE_MAX 65536 /* INFO of a large cluster is the longest line */

/* Reads one operation from the front of `input`. max_message bounds header + payload sizes
 * (PARSER_BROKEN over it). */
struct parser_result parser_next(struct span input, size_t max_message);

#endif
