#include "wire/control.h"

#include "wire/json_read.h"

static wb_status member(const cJSON *root, const char *name, char *out, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    size_t len;

    if (!item || cJSON_IsNull(item))
        return WB_OK;
    if (!cJSON_IsString(item) || (len = strlen(item->valuestring)) >= size)
        return WB_INVALID;
    memcpy(out, item->valuestring, len + 1);
    return WB_OK;
}

wb_status control_body_parse(struct span json, struct control_body *out)
{
    cJSON *root;
    wb_status status = WB_INVALID;

    memset(out, 0, sizeof *out);
    if (json.len == 0)
        return WB_OK;
    root = json_read(json, NULL);
    if (cJSON_IsObject(root) &&
        member(root, "service", out->service, sizeof out->service) == WB_OK &&
        member(root, "session", out->session, sizeof out->session) == WB_OK)
        status = member(root, "request_id", out->request_id, sizeof out->request_id);
    cJSON_Delete(root);
    return status;
}
