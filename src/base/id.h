/* Text ids. All alphabets are [A-Za-z0-9_-] so that ids fit subjects, keys and headers. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdint.h>

#define ID_TOKEN_LEN 22   /* 6 characters of handle check, 16 of 96 random bits */
#define ID_REQUEST_LEN 22 /* 12 random ones per process, 10 of a counter */

/* Writes n base64url characters of secure random bits, no NUL. */
void id_random(char *out, unsigned n);
/* Writes n characters of value in base64url alphabet, least significant first, no NUL; and reads
 * them (-1: bad character). */
void id_encode(char *out, unsigned n, uint64_t value);
int64_t id_decode(const char *text, unsigned n);

#endif
