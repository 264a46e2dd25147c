#include "wire/json_read.h"

#include <math.h>

#include "wire/utf8.h"

/* cJSON recurses to depth 1000, cuts texts at \u0000 and takes any bytes: all this is refused
 * before it sees them. NULL: nothing is wrong. */
static const char *scan(struct span text)
{
    bool inside = false;
    unsigned depth = 0;

    if (utf8_bad_at(text) < text.len)
        return "not UTF-8";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '\0')
            return "a NUL in the text";
        if (inside && c == '\\') {
            if (text.len - i >= 6 && memcmp(text.ptr + i + 1, "u0000", 5) == 0)
                return "a NUL in the text";
            i++;
        } else if (c == '"') {
            inside = !inside;
        } else if (!inside && (c == '{' || c == '[')) {
            if (++depth > JSON_DEPTH_MAX)
                return "nested deeper than 16";
        } else if (!inside && (c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return NULL;
}

cJSON *json_read(struct span text, const char **why)
{
    const char *end = NULL, *wrong = text.len ? scan(text) : "empty";
    cJSON *tree = NULL;

    if (!wrong) {
        wrong = "malformed JSON";
        tree = cJSON_ParseWithLengthOpts(text.ptr, text.len, &end, 0);
    }
    while (tree && end < text.ptr + text.len && (unsigned char)*end <= ' ')
        end++;
    if (tree && end == text.ptr + text.len)
        return tree;
    cJSON_Delete(tree);
    if (why)
        *why = wrong;
    return NULL;
}

bool json_integer(const cJSON *item, int64_t *out)
{
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 9007199254740992.0) ||
        floor(item->valuedouble) != item->valuedouble)
        return false;
    *out = (int64_t)item->valuedouble;
    return true;
}

struct span json_member_text(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsString(item) ? span_str(item->valuestring) : SPAN_EMPTY;
}
