/* Subjects: matching, overlap, and Waybill's own layout (spec section 2). Pure. */
#ifndef WIRE_SUBJECT_H
#define WIRE_SUBJECT_H

#include "base/buf.h"
#include "base/span.h"
#include "waybill/types.h"

/* Tokens non-empty, no blanks, controls or non-ASCII < 0x21; literal: no `*` or `>` tokens. At most
 * WB_SUBJECT_MAX. */
bool subject_is_literal(struct span subject);
bool subject_is_pattern(struct span subject); /* wildcards allowed in their places */
bool subject_matches(struct span pattern, struct span literal);
bool subject_overlaps(struct span a, struct span b); /* can one literal match both patterns? */
/* The n-th token (0-based); empty span if there is none. */
struct span subject_token(struct span subject, unsigned n);
unsigned subject_token_count(struct span subject);

/* Builders write NUL-terminated text into out (size WB_SUBJECT_MAX + 1) and return its length;
 * parts must be valid ids (CHECKed). */
size_t subject_worker(char *out, struct span prefix, struct span service, struct span worker);
size_t subject_worker_cancel(char *out, struct span prefix, struct span service,
                             struct span worker);
size_t subject_reply(char *out, struct span prefix, struct span service, struct span worker,
                     struct span router, struct span token);
size_t subject_heartbeat(char *out, struct span prefix, struct span service,
                         struct span worker); /* parts may be "*" */
size_t subject_cancel(char *out, struct span prefix, struct span service, struct span request_id);
size_t subject_join(char *out, struct span prefix,
                    const char *rest); /* "<prefix>.<rest>", e.g. "announce" */

/* <prefix>.<kind>.<service>.<worker>[...] to its parts; false if it has not that shape. prefix may
 * hold dots. */
bool subject_parse_heartbeat(struct span subject, struct span prefix, struct span *service,
                             struct span *worker);
bool subject_parse_reply(struct span subject, struct span prefix, struct span *service,
                         struct span *worker, struct span *router, struct span *token);
bool subject_parse_cancel(struct span subject, struct span prefix, struct span *service,
                          struct span *request_id);

#endif
