#include "wire/binding.h"

#include <string.h>

#include "wire/json.h"
#include "wire/json_read.h"
#include "wire/name.h"

#define RANK_MAX 65535

wb_status binding_encode(const struct binding *b, struct buf *out)
{
    struct json j;

    json_begin(&j, out);
    json_object(&j, NULL);
    json_int(&j, "v", 1);
    json_text(&j, "state", b->bound ? SPAN_LIT("bound") : SPAN_LIT("init"));
    json_text(&j, "router", span_str(b->router));
    json_text_or_null(&j, "worker", b->bound ? span_str(b->worker) : SPAN_EMPTY);
    if (b->bound && b->rank >= 0)
        json_int(&j, "rank", b->rank);
    else
        json_null(&j, "rank");
    if (b->bound && b->epoch >= 0)
        json_int(&j, "worker_epoch", b->epoch);
    else
        json_null(&j, "worker_epoch");
    json_end_object(&j);
    return json_status(&j);
}

static bool take_id(const cJSON *tree, const char *name, char out[WB_NAME_MAX + 1])
{
    struct span text = json_member_text(tree, name);

    if (!name_is_id(text))
        return false;
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

/* An integer of 0 to max, or null, or missing: -1. */
static bool take_number(const cJSON *tree, const char *name, int64_t max, int64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, name);

    *out = -1;
    if (!item || cJSON_IsNull(item))
        return true;
    return json_integer(item, out) && *out >= 0 && *out <= max;
}

static wb_status decode(const cJSON *tree, struct binding *out)
{
    struct span state = json_member_text(tree, "state");
    int64_t v, rank;

    if (!cJSON_IsObject(tree) || !json_integer(cJSON_GetObjectItemCaseSensitive(tree, "v"), &v) ||
        v < 1)
        return WB_INVALID;
    if (v > 1)
        return WB_UNSUPPORTED;
    out->bound = span_eq_str(state, "bound");
    if ((!out->bound && !span_eq_str(state, "init")) || !take_id(tree, "router", out->router))
        return WB_INVALID;
    if (!out->bound)
        return WB_OK;
    if (!take_id(tree, "worker", out->worker) || !take_number(tree, "rank", RANK_MAX, &rank) ||
        !take_number(tree, "worker_epoch", INT64_C(1) << 53, &out->epoch))
        return WB_INVALID;
    out->rank = (int32_t)rank;
    return WB_OK;
}

wb_status binding_decode(struct span json, struct binding *out)
{
    cJSON *tree = json.len <= BINDING_SIZE_MAX ? json_read(json, NULL) : NULL;
    wb_status status;

    memset(out, 0, sizeof *out);
    out->rank = -1;
    out->epoch = -1;
    status = tree ? decode(tree, out) : WB_INVALID;
    cJSON_Delete(tree);
    return status;
}

size_t binding_key(struct span service, struct span name, char out[BINDING_KEY_MAX])
{
    memcpy(out, service.ptr, service.len);
    out[service.len] = '.';
    return service.len + 1 +
           name_to_key(name, out + service.len + 1, BINDING_KEY_MAX - service.len - 1);
}

bool binding_key_read(struct span key, struct span *service, struct span *name,
                      char text[WB_LONG_NAME_MAX])
{
    const char *dot = memchr(key.ptr, '.', key.len);
    size_t n;

    if (!dot)
        return false;
    *service = span_of(key.ptr, (size_t)(dot - key.ptr));
    n = name_from_key(span_of(dot + 1, key.len - service->len - 1), text, WB_LONG_NAME_MAX);
    *name = span_of(text, n);
    return name_is_id(*service) && name_is_long(*name);
}
