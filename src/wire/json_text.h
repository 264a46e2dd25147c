/* The pieces of JSON that json.c and record.c write straight into reserved room: the caller makes
 * sure that it is there. Private to wire. */
#ifndef WIRE_JSON_TEXT_H
#define WIRE_JSON_TEXT_H

#include <stdint.h>

#include "base/span.h"

#define JSON_INT_MAX 20 /* characters of the longest int64 */

size_t json_text_size(struct span value);         /* exact length with quotes and escapes */
char *json_text_put(char *at, struct span value); /* returns the end */
char *json_int_put(char *at, int64_t value);

#endif
