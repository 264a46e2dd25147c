/* Heartbeats to bytes, for libwaybill's workers and the tests: every field that is not its default,
 * plus v and epoch. */
#include <msgpack.h>

#include "wire/heartbeat_fields.h"
#include "wire/json.h"
#include "wire/json_read.h"

static int64_t number_of(const struct heartbeat *hb, const struct heartbeat_field *field)
{
    const void *at = (const char *)hb + field->offset;

    if (field->kind == HK_INT)
        return *(const int *)at;
    return field->kind == HK_I64 ? *(const int64_t *)at : (int64_t) * (const uint32_t *)at;
}

static bool is_number(const struct heartbeat_field *field)
{
    return field->kind == HK_INT || field->kind == HK_I64 || field->kind == HK_U32;
}

static bool is_due(const struct heartbeat *hb, enum heartbeat_field_id id)
{
    const struct heartbeat_field *field = &heartbeat_fields[id];
    struct heartbeat plain;

    if (id == HF_V || id == HF_EPOCH)
        return true;
    if (is_number(field)) {
        heartbeat_defaults(&plain);
        return number_of(hb, field) != number_of(&plain, field);
    }
    switch (id) {
    case HF_STATE:
        return hb->state != HB_READY;
    case HF_CLASS:
        return hb->class_name[0] != '\0';
    case HF_RANKS:
        return hb->ranks != 0;
    case HF_ADAPTERS:
        return hb->has_adapters;
    case HF_INFLIGHT_BY:
        return hb->has_inflight_by;
    default:
        return hb->has_meta;
    }
}

static bool is_good(const struct heartbeat *hb)
{
    for (int i = 0; i < HF_COUNT; i++) {
        const struct heartbeat_field *field = &heartbeat_fields[i];

        if (is_number(field) &&
            (number_of(hb, field) < field->min || number_of(hb, field) > field->max))
            return false;
    }
    if (hb->has_meta) {
        cJSON *meta = json_read(hb->meta, NULL);
        bool is_map = cJSON_IsObject(meta);

        cJSON_Delete(meta);
        if (!is_map)
            return false;
    }
    return (unsigned)hb->state < HB_STATE_COUNT && hb->ranks <= HEARTBEAT_RANKS_MAX &&
           hb->adapter_count <= HEARTBEAT_ADAPTERS_MAX &&
           hb->inflight_by_count <= HEARTBEAT_ROUTERS_MAX && hb->meta.len <= HEARTBEAT_META_MAX;
}

static int write_to_buf(void *arg, const char *bytes, size_t n)
{
    return buf_append(arg, bytes, n) == WB_OK ? 0 : -1;
}

static int pack_text(msgpack_packer *p, struct span text)
{
    int failed = msgpack_pack_str(p, text.len);

    return failed ? failed : msgpack_pack_str_body(p, text.ptr, text.len);
}

static int pack_json(msgpack_packer *p, const cJSON *item)
{
    const cJSON *member;
    int64_t integer;
    int failed;

    if (cJSON_IsString(item))
        return pack_text(p, span_str(item->valuestring));
    if (json_integer(item, &integer))
        return msgpack_pack_int64(p, integer);
    if (cJSON_IsNumber(item))
        return msgpack_pack_double(p, item->valuedouble);
    if (cJSON_IsBool(item))
        return cJSON_IsTrue(item) ? msgpack_pack_true(p) : msgpack_pack_false(p);
    if (!cJSON_IsArray(item) && !cJSON_IsObject(item))
        return msgpack_pack_nil(p);
    failed = cJSON_IsArray(item) ? msgpack_pack_array(p, (size_t)cJSON_GetArraySize(item))
                                 : msgpack_pack_map(p, (size_t)cJSON_GetArraySize(item));
    cJSON_ArrayForEach(member, item)
    {
        if (!failed && cJSON_IsObject(item))
            failed = pack_text(p, span_str(member->string));
        if (!failed)
            failed = pack_json(p, member);
    }
    return failed;
}

static int pack_meta(msgpack_packer *p, struct span meta)
{
    cJSON *tree = json_read(meta, NULL);
    int failed = cJSON_IsObject(tree) ? pack_json(p, tree) : -1;

    cJSON_Delete(tree);
    return failed;
}

static int pack_field(msgpack_packer *p, const struct heartbeat *hb, enum heartbeat_field_id id)
{
    const struct heartbeat_field *field = &heartbeat_fields[id];
    int failed = pack_text(p, field->name);

    if (failed)
        return failed;
    switch (field->kind) {
    case HK_STATE:
        return pack_text(p, span_str(heartbeat_state_names[hb->state]));
    case HK_CLASS:
        return pack_text(p, span_str(hb->class_name));
    case HK_RANKS:
        return msgpack_pack_uint32(p, hb->ranks);
    case HK_ADAPTERS:
        failed = msgpack_pack_array(p, hb->adapter_count);
        for (uint32_t i = 0; !failed && i < hb->adapter_count; i++)
            failed = pack_text(p, hb->adapters[i]);
        return failed;
    case HK_INFLIGHT_BY:
        failed = msgpack_pack_map(p, hb->inflight_by_count);
        for (uint32_t i = 0; !failed && i < hb->inflight_by_count; i++) {
            failed = pack_text(p, hb->inflight_by[i].router);
            if (!failed)
                failed = msgpack_pack_uint32(p, hb->inflight_by[i].count);
        }
        return failed;
    case HK_META:
        return pack_meta(p, hb->meta);
    default:
        return msgpack_pack_int64(p, number_of(hb, field));
    }
}

wb_status heartbeat_encode_msgpack(const struct heartbeat *hb, struct buf *out)
{
    msgpack_packer packer;
    size_t due = 0;
    int failed;

    if (!is_good(hb))
        return WB_INVALID;
    for (int i = 0; i < HF_COUNT; i++)
        due += is_due(hb, (enum heartbeat_field_id)i);
    msgpack_packer_init(&packer, out, write_to_buf);
    failed = msgpack_pack_map(&packer, due);
    for (int i = 0; !failed && i < HF_COUNT; i++)
        if (is_due(hb, (enum heartbeat_field_id)i))
            failed = pack_field(&packer, hb, (enum heartbeat_field_id)i);
    return failed ? WB_FULL : WB_OK;
}

static void write_field(struct json *j, const struct heartbeat *hb, enum heartbeat_field_id id)
{
    const struct heartbeat_field *field = &heartbeat_fields[id];
    const char *key = field->name.ptr;

    switch (field->kind) {
    case HK_STATE:
        json_text(j, key, span_str(heartbeat_state_names[hb->state]));
        break;
    case HK_CLASS:
        json_text(j, key, span_str(hb->class_name));
        break;
    case HK_RANKS:
        json_int(j, key, hb->ranks);
        break;
    case HK_ADAPTERS:
        json_array(j, key);
        for (uint32_t i = 0; i < hb->adapter_count; i++)
            json_text(j, NULL, hb->adapters[i]);
        json_end_array(j);
        break;
    case HK_INFLIGHT_BY:
        json_object(j, key);
        for (uint32_t i = 0; i < hb->inflight_by_count; i++) {
            char router[WB_NAME_MAX + 1];
            struct span name = hb->inflight_by[i].router;

            if (name.len > WB_NAME_MAX) {
                j->status = WB_INVALID;
                return;
            }
            memcpy(router, name.ptr, name.len);
            router[name.len] = '\0';
            json_int(j, router, hb->inflight_by[i].count);
        }
        json_end_object(j);
        break;
    case HK_META:
        json_raw(j, key, hb->meta);
        break;
    default:
        json_int(j, key, number_of(hb, field));
    }
}

wb_status heartbeat_encode_json(const struct heartbeat *hb, struct buf *out)
{
    struct json j;

    if (!is_good(hb))
        return WB_INVALID;
    json_begin(&j, out);
    json_object(&j, NULL);
    for (int i = 0; i < HF_COUNT; i++)
        if (is_due(hb, (enum heartbeat_field_id)i))
            write_field(&j, hb, (enum heartbeat_field_id)i);
    json_end_object(&j);
    return json_status(&j);
}
