/* Is it UTF-8 (RFC 3629)? Pure. */
#ifndef WIRE_UTF8_H
#define WIRE_UTF8_H

#include "base/span.h"

/* Length of the well-formed sequence at the start of n bytes, n > 0; 0: there is none. */
size_t utf8_length(const unsigned char *s, size_t n);
/* Offset of the first byte that belongs to no well-formed sequence; text.len: all is well. */
size_t utf8_bad_at(struct span text);

#endif
