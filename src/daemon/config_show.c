/* --show-config: every key with its value and origin, as lines or as one JSON object. Secrets are
 * masked, also those in URLs. */
#include "daemon/config.h"

#include <stdlib.h>
#include <string.h>

#define MASK "********"

/* Hides what stands between "//" (or the start) and "@" of each URL of the list. NULL: no memory.
 */
static char *mask_urls(const char *list)
{
    size_t urls = 1;
    char *out, *o;

    for (const char *p = list; *p; p++)
        urls += *p == ',';
    out = o = malloc(strlen(list) + urls * sizeof MASK + 1);
    while (out && *list) {
        size_t n = strcspn(list, ",");
        const char *at = memrchr(list, '@', n);
        const char *scheme = memmem(list, n, "://", 3);
        const char *begin = scheme ? scheme + 3 : list;

        if (at && at >= begin) {
            o = mempcpy(o, list, (size_t)(begin - list));
            o = mempcpy(o, MASK, sizeof MASK - 1);
            o = mempcpy(o, at, (size_t)(list + n - at));
        } else {
            o = mempcpy(o, list, n);
        }
        list += n;
        if (*list)
            *o++ = *list++;
    }
    if (out)
        *o = 0;
    return out;
}

static cJSON *shown(const struct config_value *v)
{
    cJSON *out;

    if (!v->value)
        return cJSON_CreateNull();
    if (v->key->secret)
        return cJSON_CreateString(MASK);
    if (v->key->form == FORM_URLS && cJSON_IsString(v->value)) {
        char *masked = mask_urls(v->value->valuestring);

        out = cJSON_CreateString(masked ? masked : MASK);
        free(masked);
        return out;
    }
    return cJSON_Duplicate(v->value, 1);
}

void config_show(const struct config *config, bool json, FILE *out)
{
    if (json)
        fputs("{\n", out);
    for (unsigned i = 0; i < config->count; i++) {
        const struct config_value *v = &config->values[i];
        cJSON *value = shown(v);
        char *text = value ? cJSON_PrintUnformatted(value) : NULL;
        char path[CONFIG_PATH_SIZE];

        config_value_path(v, path);
        if (json)
            fprintf(out, "  \"%s\": {\"value\": %s, \"origin\": \"%s\"}%s\n", path,
                    text ? text : "null", config_origin_name(v->origin),
                    i + 1 < config->count ? "," : "");
        else
            fprintf(out, "%s = %s  (%s)\n", path, text ? text : "null",
                    config_origin_name(v->origin));
        free(text);
        cJSON_Delete(value);
    }
    if (json)
        fputs("}\n", out);
}
