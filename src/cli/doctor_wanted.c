/* What is wanted: the router's defaults, and what its configuration file says otherwise. The file
 * is not checked here: waybilld --check does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "wire/json_read.h"
#include "wire/name.h"

#define FILE_MAX (4u << 20)

static void take_int(const cJSON *section, const char *name, int64_t *out)
{
    int64_t n;
    if (json_integer(cJSON_GetObjectItemCaseSensitive(section, name), &n))
        *out = n;
}

static void take_name(const cJSON *section, const char *name, char out[WB_NAME_MAX + 1])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(section, name));
    if (text != NULL && strlen(text) <= WB_NAME_MAX)
        snprintf(out, WB_NAME_MAX + 1, "%s", text);
}

static void take_bucket(const cJSON *section, struct wanted_bucket *b)
{
    const char *storage =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(section, "storage"));
    take_int(section, "max_bytes", &b->max_bytes);
    take_int(section, "replicas", &b->replicas);
    if (storage != NULL)
        snprintf(b->storage, sizeof(b->storage), "%s", storage);
}

void wanted_add(struct wanted *w, const char *subject)
{
    char *copy = w->subject_count < WANTED_SUBJECTS_MAX ? strdup(subject) : NULL;
    if (copy != NULL)
        w->subjects[w->subject_count++] = copy;
}

static void take_services(const cJSON *services, struct wanted *w)
{
    const cJSON *service, *subject;
    int64_t longest_s = 0;
    cJSON_ArrayForEach(service, services)
    {
        int64_t ttl_s = 0;
        if (w->service[0] == '\0')
            take_name(service, "name", w->service);
        take_int(cJSON_GetObjectItemCaseSensitive(service, "session"), "ttl_s", &ttl_s);
        longest_s = ttl_s > longest_s ? ttl_s : longest_s;
        cJSON_ArrayForEach(subject, cJSON_GetObjectItemCaseSensitive(service, "subjects"))
        {
            const char *text = cJSON_GetStringValue(subject);
            if (text != NULL)
                wanted_add(w, text);
        }
    }
    w->sessions.ttl_s = 2 * longest_s;
    w->sessions.is_used = longest_s > 0;
}

static void take_config(const cJSON *config, struct wanted *w)
{
    const cJSON *records = cJSON_GetObjectItemCaseSensitive(config, "attribution");
    const char *write = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(records, "write"));
    take_bucket(records, &w->records);
    take_name(records, "bucket", w->records.name);
    take_int(records, "ttl_s", &w->records.ttl_s);
    take_int(records, "history", &w->records.history);
    w->records.is_used = write == NULL || strcmp(write, "off") != 0;
    take_bucket(cJSON_GetObjectItemCaseSensitive(config, "sessions"), &w->sessions);
    take_name(cJSON_GetObjectItemCaseSensitive(config, "router"), "prefix", w->prefix);
    take_services(cJSON_GetObjectItemCaseSensitive(config, "services"), w);
}

bool wanted_read(const char *file, struct wanted *out)
{
    *out = (struct wanted){.records = {"waybill_attribution", 3600, 2, 1 << 30, 1, "file", true},
                           .sessions = {"waybill_sessions", 0, 1, 1 << 30, 1, "file", false},
                           .prefix = WB_DEFAULT_PREFIX};
    if (file == NULL)
        return true;
    FILE *in = fopen(file, "r");
    char *text = calloc(1, FILE_MAX + 1);
    if (in == NULL || text == NULL) {
        fprintf(stderr, "waybill: --config: cannot read %s\n", file);
        if (in != NULL)
            fclose(in);
        free(text);
        return false;
    }
    size_t len = fread(text, 1, FILE_MAX, in);
    text[len] = '\0';
    fclose(in);
    cJSON_Minify(text); /* without its comments */
    const char *why = "";
    cJSON *config = json_read(span_str(text), &why);
    free(text);
    if (config == NULL) {
        fprintf(stderr, "waybill: --config: %s: %s; waybilld --check -c tells more\n", file, why);
        return false;
    }
    take_config(config, out);
    cJSON_Delete(config);
    if (name_is_id(span_str(out->records.name)))
        return true;
    fprintf(stderr, "waybill: --config: %s: attribution.bucket is not a name\n", file);
    return false;
}

void wanted_fini(struct wanted *w)
{
    for (unsigned i = 0; i < w->subject_count; i++)
        free(w->subjects[i]);
    w->subject_count = 0;
}
