/* Writing JSON on the hot path: appends to a buf without a tree. Errors stick. Reading goes through
 * cJSON elsewhere in wire. */
#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct json {
    struct buf *out;
    wb_status status; /* sticks */
    bool comma;       /* a comma is due before the next member */
};

void json_begin(struct json *j, struct buf *out);
void json_object(struct json *j, const char *key); /* key NULL: top level or array element */
void json_array(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_end_array(struct json *j);
void json_text(struct json *j, const char *key,
               struct span value); /* bytes that are not UTF-8 become U+FFFD */
void json_text_or_null(struct json *j, const char *key, struct span value); /* empty: null */
void json_int(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_double(struct json *j, const char *key, double value);  /* exact; not finite: null */
void json_raw(struct json *j, const char *key, struct span text); /* text is valid JSON already */
WB_MUST_USE wb_status json_status(const struct json *j);

#endif
