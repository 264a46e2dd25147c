#include "wire/error_body.h"
#include "wire/json_read.h"

static void copy_text(const cJSON *object, const char *name, char *out, size_t max)
{
    struct span text = json_member_text(object, name);
    size_t len = text.len < max ? text.len : max;
    while (len < text.len && len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
        len--; /* not through the middle of a character */
    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

wb_status error_body_decode(struct span json, struct error_brief *out)
{
    *out = (struct error_brief){0};
    cJSON *tree = json_read(json, NULL);
    const cJSON *attempts = cJSON_GetObjectItemCaseSensitive(tree, "attempts");
    wb_status s = WB_INVALID;
    if (json_member_text(tree, "error").len > 0 && cJSON_IsArray(attempts)) {
        const cJSON *one;
        copy_text(tree, "message", out->message, ERROR_MESSAGE_MAX);
        copy_text(tree, "scope", out->scope, ERROR_WORD_MAX);
        cJSON_ArrayForEach(one, attempts)
        {
            if (out->count == RECORD_TRIED_MAX)
                break;
            copy_text(one, "worker", out->attempts[out->count].worker, WB_NAME_MAX);
            copy_text(one, "cause", out->attempts[out->count].cause, ERROR_WORD_MAX);
            out->count++;
        }
        s = WB_OK;
    }
    cJSON_Delete(tree);
    return s;
}
