#include "wire/json_read.h"

#include <math.h>

/* cJSON recurses to depth 1000 and cuts texts at \u0000: both are refused before it sees them. */
static bool scan(struct span text)
{
    bool inside = false;
    unsigned depth = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '\0')
            return false;
        if (inside && c == '\\') {
            if (text.len - i >= 6 && memcmp(text.ptr + i + 1, "u0000", 5) == 0)
                return false;
            i++;
        } else if (c == '"') {
            inside = !inside;
        } else if (!inside && (c == '{' || c == '[')) {
            if (++depth > JSON_DEPTH_MAX)
                return false;
        } else if (!inside && (c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return true;
}

cJSON *json_read(struct span text)
{
    const char *end = NULL;
    cJSON *tree;

    if (text.len == 0 || !scan(text))
        return NULL;
    tree = cJSON_ParseWithLengthOpts(text.ptr, text.len, &end, 0);
    if (!tree)
        return NULL;
    while (end < text.ptr + text.len && (unsigned char)*end <= ' ')
        end++;
    if (end == text.ptr + text.len)
        return tree;
    cJSON_Delete(tree);
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
