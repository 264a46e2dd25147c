#include "wire/connection.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/span.h"
#include "wire/json_read.h"

#define CONTEXT_FILE_MAX 65536

/* Each setting, its variable and its key in a context file. Walked in this order by both. */
static const struct setting {
    size_t offset;
    const char *variable, *key;
    bool is_path;
} settings[] = {
    {offsetof(struct connection, url), "NATS_URL", "url", false},
    {offsetof(struct connection, creds), "NATS_CREDS", "creds", true},
    {offsetof(struct connection, user), "NATS_USER", "user", false},
    {offsetof(struct connection, password), "NATS_PASSWORD", "password", false},
    {offsetof(struct connection, token), "NATS_TOKEN", "token", false},
    {offsetof(struct connection, nkey), "NATS_NKEY", "nkey", true},
    {offsetof(struct connection, cert), "NATS_CERT", "cert", true},
    {offsetof(struct connection, key), "NATS_KEY", "key", true},
    {offsetof(struct connection, ca), "NATS_CA", "ca", true},
    {offsetof(struct connection, inbox_prefix), NULL, "inbox_prefix", false},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static wb_status refuse(char *why, wb_status status, const char *what, const char *text)
{
    snprintf(why, 256, "%.160s: %.80s", what, text);
    return status;
}

/* Copies the value; a path's leading ~/ becomes the home directory, as the nats CLI does. */
static char *copy(const char *value, bool is_path)
{
    const char *home = getenv("HOME");
    char *out;

    if (!is_path || strncmp(value, "~/", 2) != 0 || !home)
        return strdup(value);
    return asprintf(&out, "%s%s", home, value + 1) < 0 ? NULL : out;
}

static wb_status fill(struct connection *c, const struct setting *setting, const char *value,
                      const char *origin)
{
    char **slot = (char **)(void *)((char *)c + setting->offset);

    if (*slot || !value || !value[0])
        return WB_OK;
    *slot = copy(value, setting->is_path);
    if (!*slot)
        return WB_NO_MEMORY;
    if (setting->offset == offsetof(struct connection, url))
        c->origin_url = origin;
    return WB_OK;
}

/* $XDG_CONFIG_HOME/nats/<rest>, else ~/.config/nats/<rest>. */
static bool config_path(char out[PATH_MAX], const char *rest)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n;

    if (base && base[0])
        n = snprintf(out, PATH_MAX, "%s/nats/%s", base, rest);
    else if (home && home[0])
        n = snprintf(out, PATH_MAX, "%s/.config/nats/%s", home, rest);
    else
        return false;
    return n > 0 && n < PATH_MAX;
}

/* The file's bytes with a NUL behind them (free); NULL with errno: EFBIG if it is too large. */
static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(CONTEXT_FILE_MAX + 1) : NULL;
    bool failed;

    if (!text) {
        if (file)
            fclose(file);
        return NULL;
    }
    errno = 0;
    *length = fread(text, 1, CONTEXT_FILE_MAX + 1, file);
    failed = ferror(file) || *length > CONTEXT_FILE_MAX;
    if (*length > CONTEXT_FILE_MAX)
        errno = EFBIG;
    fclose(file);
    if (failed) {
        free(text);
        return NULL;
    }
    text[*length] = '\0';
    return text;
}

static wb_status take_context(struct connection *c, const cJSON *tree, const char *path, char *why)
{
    const cJSON *tls_first = cJSON_GetObjectItemCaseSensitive(tree, "tls_first");

    if (!cJSON_IsObject(tree))
        return refuse(why, WB_INVALID, path, "not a JSON object");
    if (json_member_text(tree, "nsc").len && !json_member_text(tree, "creds").len)
        return refuse(why, WB_UNSUPPORTED, path, "nsc lookups; name a creds file");
    for (size_t i = 0; i < SETTINGS; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, settings[i].key);

        if (item && !cJSON_IsString(item) && !cJSON_IsNull(item))
            return refuse(why, WB_INVALID, settings[i].key, "expected text in the context");
        if (item && cJSON_IsString(item) &&
            fill(c, &settings[i], item->valuestring, "context") != WB_OK)
            return refuse(why, WB_NO_MEMORY, path, "no memory");
    }
    c->tls_first = c->tls_first || cJSON_IsTrue(tls_first);
    return WB_OK;
}

static wb_status load_context(struct connection *c, const char *name, char *why)
{
    char path[PATH_MAX], rest[300], *text;
    const char *wrong;
    size_t length;
    cJSON *tree;
    wb_status status;

    if (strchr(name, '/') || strstr(name, "..") || strlen(name) > 200)
        return refuse(why, WB_INVALID, "context", "its name holds '/' or '..', or is too long");
    snprintf(rest, sizeof(rest), "context/%s.json", name);
    if (!config_path(path, rest))
        return refuse(why, WB_NOT_FOUND, "context", "neither XDG_CONFIG_HOME nor HOME is set");
    text = read_file(path, &length);
    if (!text)
        return refuse(why, errno == ENOENT ? WB_NOT_FOUND : WB_IO, path, strerror(errno));
    tree = json_read(span_of(text, length), &wrong);
    status = tree ? take_context(c, tree, path, why) : refuse(why, WB_INVALID, path, wrong);
    cJSON_Delete(tree);
    free(text);
    return status;
}

/* The name in context.txt (free), or NULL: none is selected. */
static char *selected_context(void)
{
    char path[PATH_MAX], *text;
    size_t length;

    if (!config_path(path, "context.txt"))
        return NULL;
    text = read_file(path, &length);
    if (!text)
        return NULL;
    text[strcspn(text, " \t\r\n")] = '\0';
    if (text[0])
        return text;
    free(text);
    return NULL;
}

wb_status connection_resolve(struct connection *c, const char *context, bool use_selected,
                             char why[256])
{
    char *selected = NULL;
    wb_status status;

    why[0] = '\0';
    for (size_t i = 0; i < SETTINGS; i++)
        if (settings[i].variable &&
            fill(c, &settings[i], getenv(settings[i].variable), "environment") != WB_OK)
            return refuse(why, WB_NO_MEMORY, settings[i].variable, "no memory");
    if (!context || !context[0])
        context = getenv("NATS_CONTEXT");
    if ((!context || !context[0]) && use_selected)
        context = selected = selected_context();
    status = context && context[0] ? load_context(c, context, why) : WB_OK;
    free(selected);
    return status;
}

void connection_fini(struct connection *c)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        char **slot = (char **)(void *)((char *)c + settings[i].offset);

        free(*slot);
        *slot = NULL;
    }
    c->origin_url = NULL;
}
