/* Reading JSON from outside through cJSON, with the bounds that cJSON lacks. */
#ifndef WIRE_JSON_READ_H
#define WIRE_JSON_READ_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define JSON_DEPTH_MAX 16

/* The tree (cJSON_Delete), or NULL: not JSON, something behind it, bytes that are not UTF-8, deeper
 * than JSON_DEPTH_MAX, a NUL in a text, or no memory. *why says which (why NULL: nobody asks). */
cJSON *json_read(struct span text, const char **why);
/* An integral number within +-2^53. */
bool json_integer(const cJSON *item, int64_t *out);
/* The member's text; empty if it is missing or no text. Lives in the tree. */
struct span json_member_text(const cJSON *object, const char *name);

#endif
