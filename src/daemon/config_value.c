/* Single values: do they fit their key, and into which field they go. */
#include "daemon/config.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "wire/name.h"
#include "wire/subject.h"

#define CODE_MIN 100
#define CODE_MAX 999

static bool port_fits(const char *text, size_t len, unsigned long long min)
{
    unsigned long long port = 0;

    return span_to_u64(span_of(text, len), &port) && port >= min && port <= 65535;
}

/* host, host:port, [v6] or [v6]:port of a server. */
static bool address_fits(struct span a)
{
    const char *colon;

    for (size_t i = 0; i < a.len; i++)
        if ((unsigned char)a.ptr[i] <= ' ' || (unsigned char)a.ptr[i] >= 0x7f)
            return false;
    if (a.len && a.ptr[0] == '[') {
        const char *close = memchr(a.ptr, ']', a.len);
        size_t rest;

        if (!close || close == a.ptr + 1)
            return false;
        rest = a.len - (size_t)(close + 1 - a.ptr);
        return rest == 0 || (close[1] == ':' && port_fits(close + 2, rest - 1, 1));
    }
    colon = memchr(a.ptr, ':', a.len);
    if (!colon)
        return a.len > 0;
    return colon > a.ptr && port_fits(colon + 1, a.len - (size_t)(colon + 1 - a.ptr), 1);
}

/* What the monitor can bind without asking a name server: v4:port, [v6]:port, localhost:port,
 * :port. */
static bool listen_fits(struct span a)
{
    const char *colon = memrchr(a.ptr, ':', a.len);
    char host[64];
    unsigned char bytes[16];
    size_t n = colon ? (size_t)(colon - a.ptr) : 0;

    if (!colon || n >= sizeof host || !port_fits(colon + 1, a.len - n - 1, 0))
        return false;
    memcpy(host, a.ptr, n);
    host[n] = 0;
    if (n == 0 || strcmp(host, "localhost") == 0)
        return true;
    if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        return inet_pton(AF_INET6, host + 1, bytes) == 1;
    }
    return inet_pton(AF_INET, host, bytes) == 1;
}

static bool url_fits(struct span url)
{
    static const char *const schemes[] = {"nats://", "tls://"};
    const char *at;

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (!span_starts(url, span_str(schemes[i])))
            continue;
        url = span_of(url.ptr + strlen(schemes[i]), url.len - strlen(schemes[i]));
        break;
    }
    at = memrchr(url.ptr, '@', url.len);
    if (at)
        url = span_of(at + 1, url.len - (size_t)(at + 1 - url.ptr));
    if (url.len && url.ptr[url.len - 1] == '/')
        url.len--;
    return address_fits(url);
}

static bool urls_fit(struct span list)
{
    if (list.len > 4096)
        return false;
    for (;;) {
        const char *comma = memchr(list.ptr, ',', list.len);
        struct span url = span_of(list.ptr, comma ? (size_t)(comma - list.ptr) : list.len);

        while (url.len && url.ptr[0] == ' ')
            url = span_of(url.ptr + 1, url.len - 1);
        while (url.len && url.ptr[url.len - 1] == ' ')
            url.len--;
        if (!url_fits(url))
            return false;
        if (!comma)
            return true;
        list = span_of(comma + 1, list.len - (size_t)(comma + 1 - list.ptr));
    }
}

static bool prefix_fits(struct span p)
{
    return subject_is_literal(p) && p.len <= 128 && p.ptr[0] != '$' &&
           !span_eq_str(subject_token(p, 0), "_INBOX");
}

static bool form_fits(enum config_form form, const char *text)
{
    struct span s = span_str(text);

    switch (form) {
    case FORM_ID:
        return name_is_id(s);
    case FORM_LONG_NAME:
        return name_is_long(s);
    case FORM_LITERAL:
        return subject_is_literal(s);
    case FORM_PATTERN:
        return subject_is_pattern(s);
    case FORM_PREFIX:
        return prefix_fits(s);
    case FORM_URLS:
        return urls_fit(s);
    case FORM_LISTEN:
        return listen_fits(s);
    case FORM_ANY:
        break;
    }
    return s.len >= 1 && s.len <= 4096;
}

static int word_index(const char *const *words, const cJSON *v)
{
    for (int i = 0; cJSON_IsString(v) && words[i]; i++)
        if (strcmp(words[i], v->valuestring) == 0)
            return i;
    return -1;
}

static bool int_fits(const cJSON *v, int64_t min, int64_t max)
{
    double d = v->valuedouble;

    return cJSON_IsNumber(v) && isfinite(d) && d == floor(d) && d >= (double)min &&
           d <= (double)max;
}

/* One element of a list is told what an element must be. */
static void tell(const struct config_key *key, bool element, const cJSON *v, const char *path,
                 struct config_errors *errors)
{
    struct config_key single = *key;
    char expected[512];
    char *got = key->secret ? NULL : cJSON_PrintUnformatted(v);

    if (element) {
        single.type = key->type == TYPE_TEXTS  ? TYPE_TEXT
                      : key->type == TYPE_BITS ? TYPE_WORD
                                               : TYPE_INT;
        single.min = CODE_MIN;
        single.max = CODE_MAX;
    }
    config_key_expected(&single, expected, sizeof expected);
    if (got)
        config_error(errors, path, "expected %s, got %.80s%s", expected, got,
                     strlen(got) > 80 ? "..." : "");
    else
        config_error(errors, path, "expected %s", expected);
    free(got);
}

static bool element_fits(const struct config_key *key, const cJSON *v)
{
    switch (key->type) {
    case TYPE_TEXTS:
        return cJSON_IsString(v) && form_fits(key->form, v->valuestring);
    case TYPE_BITS:
        return word_index(key->words, v) >= 0;
    default:
        return int_fits(v, CODE_MIN, CODE_MAX);
    }
}

static bool list_check(const struct config_key *key, const cJSON *list, const char *path,
                       struct config_errors *errors)
{
    int64_t max = key->type == TYPE_BITS ? 64 : key->max;
    unsigned index = 0;
    bool fine = true;

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < key->min ||
        cJSON_GetArraySize(list) > max) {
        tell(key, false, list, path, errors);
        return false;
    }
    for (const cJSON *v = list->child; v; v = v->next, index++) {
        char at[CONFIG_PATH_SIZE];

        snprintf(at, sizeof at, "%s[%u]", path, index);
        if (!element_fits(key, v)) {
            tell(key, true, v, at, errors);
            fine = false;
            continue;
        }
        for (const cJSON *other = list->child; other != v; other = other->next) {
            if (cJSON_Compare(other, v, 1)) {
                config_error(errors, at, "stands in the list twice");
                fine = false;
                break;
            }
        }
    }
    return fine;
}

bool config_value_check(const struct config_key *key, const cJSON *v, const char *path,
                        struct config_errors *errors)
{
    bool fine = false;

    switch (key->type) {
    case TYPE_BOOL:
        fine = cJSON_IsBool(v);
        break;
    case TYPE_INT:
        fine = int_fits(v, key->min, key->max);
        break;
    case TYPE_TEXT:
        fine = cJSON_IsString(v) && form_fits(key->form, v->valuestring);
        break;
    case TYPE_WORD:
        fine = word_index(key->words, v) >= 0;
        break;
    case TYPE_TEXTS:
    case TYPE_BITS:
    case TYPE_CODES:
        return list_check(key, v, path, errors);
    case TYPE_OBJECTS:
        fine = cJSON_IsArray(v) && cJSON_GetArraySize(v) >= key->min &&
               cJSON_GetArraySize(v) <= key->max;
        break;
    }
    if (!fine)
        tell(key, false, v, path, errors);
    return fine;
}

static void store_number(const struct config_key *key, int64_t n, char *field)
{
    if (key->size == 8) {
        memcpy(field, &n, 8);
    } else if (key->size == 4) {
        uint32_t narrow = (uint32_t)n;

        memcpy(field, &narrow, 4);
    } else {
        bool flag = n != 0;

        CHECK(key->size == sizeof flag);
        memcpy(field, &flag, sizeof flag);
    }
}

static wb_status store_texts(const struct config_key *key, const cJSON *list, char *base)
{
    unsigned count = 0, size = (unsigned)cJSON_GetArraySize(list);
    char **texts;

    if (size == 0)
        return WB_OK;
    texts = calloc(size, sizeof *texts);
    if (!texts)
        return WB_NO_MEMORY;
    memcpy(base + key->offset, &texts, sizeof texts);
    memcpy(base + key->count_offset, &size, sizeof size);
    for (const cJSON *v = list->child; v; v = v->next) {
        texts[count] = strdup(v->valuestring);
        if (!texts[count++])
            return WB_NO_MEMORY;
    }
    return WB_OK;
}

wb_status config_value_store(const struct config_key *key, const cJSON *v, void *base)
{
    char *field = (char *)base + key->offset;
    unsigned count = 0;
    int64_t mask = 0;
    char *text;

    if (key->size == 0)
        return WB_OK;
    switch (key->type) {
    case TYPE_BOOL:
        store_number(key, cJSON_IsTrue(v), field);
        break;
    case TYPE_INT:
        store_number(key, (int64_t)v->valuedouble, field);
        break;
    case TYPE_WORD:
        store_number(key, word_index(key->words, v), field);
        break;
    case TYPE_TEXT:
        text = strdup(v->valuestring);
        if (!text)
            return WB_NO_MEMORY;
        memcpy(field, &text, sizeof text);
        break;
    case TYPE_TEXTS:
        return store_texts(key, v, base);
    case TYPE_BITS:
        for (v = v->child; v; v = v->next) {
            int bit = word_index(key->words, v);

            CHECK(bit >= 0); /* config_value_check has seen it */
            mask |= (int64_t)1 << bit;
        }
        store_number(key, mask, field);
        break;
    case TYPE_CODES:
        for (v = v->child; v; v = v->next)
            ((int *)(void *)field)[count++] = v->valueint;
        memcpy((char *)base + key->count_offset, &count, sizeof count);
        break;
    case TYPE_OBJECTS:
        break;
    }
    return WB_OK;
}

const char *config_origin_name(enum config_origin origin)
{
    static const char *const names[] = {"default", "context", "file", "environment", "flag"};

    return names[origin];
}

void config_value_path(const struct config_value *value, char out[CONFIG_PATH_SIZE])
{
    if (value->worker >= 0)
        snprintf(out, CONFIG_PATH_SIZE, "services[%d].workers[%d].%s", value->service,
                 value->worker, value->key->path);
    else if (value->service >= 0)
        snprintf(out, CONFIG_PATH_SIZE, "services[%d].%s", value->service, value->key->path);
    else
        snprintf(out, CONFIG_PATH_SIZE, "%s", value->key->path);
}

const struct config_value *config_find(const struct config *config, const char *path, int service,
                                       int worker)
{
    for (unsigned i = 0; i < config->count; i++) {
        const struct config_value *v = &config->values[i];

        if (v->service == service && v->worker == worker && strcmp(v->key->path, path) == 0)
            return v;
    }
    return NULL;
}
