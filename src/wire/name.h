/* Names and ids that come from outside, checked before they enter a subject, key or header (spec
 * section 2). Pure. */
#ifndef WIRE_NAME_H
#define WIRE_NAME_H

#include "base/span.h"
#include "waybill/types.h"

bool name_is_id(struct span name); /* 1..64 of [A-Za-z0-9_-]: service, worker, router */
bool name_is_request_id(
    struct span name); /* 1..128 of [A-Za-z0-9_=.-], no leading, trailing, double dot */
bool name_is_long(struct span name); /* 1..256 printable ASCII, no space: adapter, session */
/* Key form of a long name: each byte outside [A-Za-z0-9_-] is =HH. Returns the length written (no
 * NUL), 0 if it does not fit. */
size_t name_to_key(struct span name, char *out, size_t size);
/* What name_to_key wrote, read back. Returns the length, 0: it is no such key or does not fit. */
size_t name_from_key(struct span key, char *out, size_t size);
/* Default router id from a host name: other characters as '-', cut to 59, '-' and 4 random ones.
 * out holds WB_NAME_MAX + 1. */
void name_router_default(const char *host, char *out);

#endif
