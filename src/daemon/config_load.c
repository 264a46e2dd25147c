/* Merging: for each key of the table, and for each service and worker, the value comes from the
 * first that has one:
 *
 *   flag > environment > file > nats context > default
 *
 * and its origin is remembered. Three passes over the tree, all of them to the end whatever they
 * find, so that every error is told at once:
 *   1. walk   every member must be a key or a group of keys, none twice;
 *   2. fill   every key gets its value; one of a wrong type is told, and its default stands in so
 * that later checks do not stumble over it;
 *   3. check  what single values cannot show (config_check.c).
 * Without a file, --service and --subject make a tree as a file would, its origin being "flag".
 *
 * Environment variables of the connection are rows of the table; wire/connection.h adds what a nats
 * context holds. The context that the user selected counts only if nobody gave a URL: else its
 * credentials would go to another server. */
#include "daemon/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/connection.h"
#include "wire/name.h"

#define MEMBERS_MAX 256 /* of one object; keeps the search for duplicates cheap */

struct loader {
    struct config *config;
    const struct args *args;
    struct config_errors *errors;
    cJSON *root; /* NULL: could not be read */
    enum config_origin root_origin;
    struct connection context;
};

/* Where a scope's values are read from and stored to. */
struct instance {
    enum config_scope scope;
    const cJSON *object;
    void *base;
    int service, worker;
    char at[64]; /* "", "services[0]." */
};

/* ---- pass 1 ---- */

/* out = at + name; a name that is not plain is quoted, so that the path stays readable. */
static void member_path(const char *at, const char *name, char out[CONFIG_PATH_SIZE])
{
    if (name_is_id(span_str(name))) {
        snprintf(out, CONFIG_PATH_SIZE, "%.180s%s", at, name);
    } else {
        cJSON *text = cJSON_CreateString(name);
        char *quoted = text ? cJSON_PrintUnformatted(text) : NULL;

        int n = (int)strlen(at); /* ends in a dot, or is empty */

        snprintf(out, CONFIG_PATH_SIZE, "%.*s[%.80s]",
                 n > 150 ? 150
                 : n     ? n - 1
                         : 0,
                 at, quoted ? quoted : "?");
        free(quoted);
        cJSON_Delete(text);
    }
}

static void walk(struct loader *l, const cJSON *object, enum config_scope scope, const char *prefix,
                 const char *at);

static void walk_elements(struct loader *l, const cJSON *list, enum config_scope scope,
                          const char *path)
{
    unsigned index = 0;

    for (const cJSON *v = cJSON_IsArray(list) ? list->child : NULL; v; v = v->next, index++) {
        char at[CONFIG_PATH_SIZE];

        snprintf(at, sizeof at, "%.180s[%u].", path, index);
        if (cJSON_IsObject(v)) {
            walk(l, v, scope, "", at);
        } else {
            at[strlen(at) - 1] = 0;
            config_error(l->errors, at, "expected an object {...}");
        }
    }
}

static void walk_member(struct loader *l, const cJSON *v, enum config_scope scope,
                        const char *prefix, const char *at)
{
    char dotted[160], group[sizeof dotted + 1], path[CONFIG_PATH_SIZE], below[CONFIG_PATH_SIZE],
        names[512];
    const struct config_key *key = NULL;
    bool plain = name_is_id(span_str(v->string)); /* "a.b" in quotes is not the key b of a */

    member_path(at, v->string, path);
    snprintf(dotted, sizeof dotted, "%.80s%.70s", prefix, v->string);
    if (plain)
        key = config_key_find(scope, dotted);
    if (key && key->type == TYPE_OBJECTS) {
        walk_elements(l, v, scope + 1, path);
    } else if (!key && plain && config_key_is_group(scope, dotted)) {
        snprintf(group, sizeof group, "%s.", dotted);
        snprintf(below, sizeof below, "%.250s.", path);
        if (cJSON_IsObject(v))
            walk(l, v, scope, group, below);
        else
            config_error(l->errors, path, "expected an object {...}");
    } else if (!key) {
        config_key_siblings(scope, prefix, names, sizeof names);
        config_error(l->errors, path, "unknown key, expected one of %s", names);
    }
}

static void walk(struct loader *l, const cJSON *object, enum config_scope scope, const char *prefix,
                 const char *at)
{
    unsigned members = 0;
    char path[CONFIG_PATH_SIZE];

    for (const cJSON *v = object->child; v; v = v->next) {
        const cJSON *other = object->child;

        if (++members > MEMBERS_MAX) {
            member_path(at, v->string, path);
            config_error(l->errors, path, "the object has more than %d members", MEMBERS_MAX);
            return;
        }
        while (other != v && strcmp(other->string, v->string) != 0)
            other = other->next;
        if (other != v) {
            member_path(at, v->string, path);
            config_error(l->errors, path, "stands twice, expected once");
        } else {
            walk_member(l, v, scope, prefix, at);
        }
    }
}

/* ---- pass 2 ---- */

/* The value at a dotted path, or NULL. */
static const cJSON *look_up(const cJSON *object, const char *path)
{
    char name[WB_NAME_MAX + 1];

    while (object) {
        size_t n = strcspn(path, ".");

        snprintf(name, sizeof name, "%.*s", (int)n, path);
        object = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
        if (path[n] == 0)
            return object;
        path += n + 1;
    }
    return NULL;
}

static const char *from_environment(const struct config_key *key)
{
    const char *text = key->env ? getenv(key->env) : NULL;

    return text && *text ? text : NULL;
}

static char **context_field(struct connection *c, const char *path)
{
    struct {
        const char *path;
        char **field;
    } const fields[] = {
        {"nats.url", &c->url},     {"nats.user", &c->user}, {"nats.password", &c->password},
        {"nats.token", &c->token}, {"nats.nkey", &c->nkey}, {"nats.creds", &c->creds},
        {"nats.cert", &c->cert},   {"nats.key", &c->key},   {"nats.ca", &c->ca},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].path, path) == 0)
            return fields[i].field;
    return NULL;
}

/* Gives wire/connection what stands above a context, and keeps what comes back. */
static void read_context(struct loader *l)
{
    char why[256] = "";
    wb_status status;

    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char **field = key->scope == SCOPE_TOP ? context_field(&l->context, key->path) : NULL;
        const cJSON *in_file;
        const char *text;

        if (!field)
            continue;
        in_file = look_up(l->root, key->path);
        text = key->flag != OPTION_NONE && l->args->value[key->flag] ? l->args->value[key->flag]
                                                                     : from_environment(key);
        if (!text && in_file)
            text = cJSON_IsString(in_file) ? in_file->valuestring : "";
        if (text && !(*field = strdup(text)))
            l->errors->no_memory = true;
    }
    status = connection_resolve(&l->context, NULL, l->context.url == NULL, why);
    if (status == WB_NO_MEMORY)
        l->errors->no_memory = true;
    else if (status != WB_OK)
        config_error(l->errors, "nats", "context: %s", *why ? why : wb_status_text(status));
}

static cJSON *fallback_of(const struct config_key *key)
{
    char host[256] = "", id[WB_NAME_MAX + 1];
    bool named;

    if (key->scope == SCOPE_TOP && strcmp(key->path, "router.id") == 0) {
        named = gethostname(host, sizeof host - 1) == 0;
        name_router_default(named ? host : NULL, id); /* it has a word for no name */
        return cJSON_CreateString(id);
    }
    return key->fallback ? cJSON_Parse(key->fallback) : NULL;
}

static cJSON *from_context(struct loader *l, const struct config_key *key)
{
    char **field = context_field(&l->context, key->path);

    if (field && *field)
        return cJSON_CreateString(*field);
    if (strcmp(key->path, "nats.tls_first") == 0 && l->context.tls_first)
        return cJSON_CreateTrue();
    if (strcmp(key->path, "nats.tls_insecure") == 0 && l->context.tls_insecure)
        return cJSON_CreateTrue();
    return NULL;
}

/* The first that has a value; the file's is checked even where it is overridden. Owned by the
 * caller; NULL: nobody has. */
static cJSON *find_value(struct loader *l, const struct instance *in, const struct config_key *key,
                         const char *path, enum config_origin *origin)
{
    const cJSON *in_file = look_up(in->object, key->path);
    const char *text = NULL;
    cJSON *v = NULL;

    if (key->flag != OPTION_NONE && (text = l->args->value[key->flag]))
        *origin = ORIGIN_FLAG;
    else if ((text = from_environment(key)))
        *origin = ORIGIN_ENVIRONMENT;
    if (in_file && !config_value_check(key, in_file, path, l->errors))
        in_file = NULL;
    if (text) {
        v = cJSON_CreateString(text);
    } else if (in_file) {
        *origin = l->root_origin;
        return cJSON_Duplicate(in_file, 1);
    } else if (in->scope == SCOPE_TOP && !look_up(in->object, key->path)) {
        v = from_context(l, key);
        *origin = ORIGIN_CONTEXT;
    }
    if (v) {
        const char *name = *origin == ORIGIN_FLAG          ? args_option_name(key->flag)
                           : *origin == ORIGIN_ENVIRONMENT ? key->env
                                                           : "nats context";
        char from[CONFIG_PATH_SIZE];

        snprintf(from, sizeof from, "%.160s (%s)", path, name);
        if (!config_value_check(key, v, from, l->errors)) {
            cJSON_Delete(v);
            v = NULL;
        }
    }
    return v;
}

static bool remember(struct config *c, struct config_value value)
{
    if (c->count == c->size) {
        unsigned size = c->size ? 2 * c->size : 128;
        struct config_value *grown = realloc(c->values, size * sizeof *grown);

        if (!grown)
            return false;
        c->values = grown;
        c->size = size;
    }
    c->values[c->count++] = value;
    return true;
}

static void fill_key(struct loader *l, const struct instance *in, const struct config_key *key)
{
    struct config_value value = {.key = key, .service = in->service, .worker = in->worker};
    char path[CONFIG_PATH_SIZE];

    snprintf(path, sizeof path, "%s%s", in->at, key->path);
    value.value = find_value(l, in, key, path, &value.origin);
    if (!value.value) {
        if (key->required && !look_up(in->object, key->path)) {
            char expected[512];

            config_key_expected(key, expected, sizeof expected);
            config_error(l->errors, path, "is missing, expected %s", expected);
        }
        value.origin = ORIGIN_DEFAULT;
        value.value = fallback_of(key);
        if (!value.value && key->fallback)
            l->errors->no_memory = true;
    }
    if (value.value && config_value_store(key, value.value, in->base) != WB_OK)
        l->errors->no_memory = true;
    if (in->scope == SCOPE_SERVICE && strcmp(key->path, "retry.on_codes") == 0)
        ((struct service_settings *)in->base)->retry.on_codes_set = value.origin != ORIGIN_DEFAULT;
    if (!remember(l->config, value)) {
        cJSON_Delete(value.value);
        l->errors->no_memory = true;
    }
}

static void fill(struct loader *l, const struct instance *in)
{
    for (unsigned i = 0; i < config_key_count; i++)
        if (config_keys[i].scope == in->scope && config_keys[i].type != TYPE_OBJECTS)
            fill_key(l, in, &config_keys[i]);
}

/* Checks the list under `key` and makes room for its elements; the number of them, 0 if it does not
 * fit. */
static unsigned make_room(struct loader *l, const struct instance *in, const char *name,
                          size_t each, void **out)
{
    const struct config_key *key = config_key_find(in->scope, name);
    const cJSON *list = look_up(in->object, name);
    char path[CONFIG_PATH_SIZE], expected[512];
    int n;

    snprintf(path, sizeof path, "%s%s", in->at, name);
    if (!list) {
        config_key_expected(key, expected, sizeof expected);
        if (key->required)
            config_error(l->errors, path, "is missing, expected %s", expected);
        return 0;
    }
    if (!config_value_check(key, list, path, l->errors))
        return 0;
    n = cJSON_GetArraySize(list);
    *out = NULL;
    if (n <= 0)
        return 0;
    *out = calloc((size_t)n, each);
    if (!*out) {
        l->errors->no_memory = true;
        return 0;
    }
    return (unsigned)n;
}

static void fill_workers(struct loader *l, const struct instance *of, struct service_settings *s)
{
    void *room = NULL;
    unsigned n = make_room(l, of, "workers", sizeof *s->workers, &room), i = 0;

    s->workers = room;
    s->worker_count = n;
    if (n == 0)
        return;
    for (const cJSON *v = look_up(of->object, "workers")->child; v; v = v->next, i++) {
        struct instance in = {SCOPE_WORKER, v, &s->workers[i], of->service, (int)i, ""};

        snprintf(in.at, sizeof in.at, "%.32sworkers[%u].", of->at, i);
        if (cJSON_IsObject(v)) /* else told by the walk */
            fill(l, &in);
    }
}

static void fill_services(struct loader *l, const struct instance *top)
{
    struct router_settings *set = &l->config->settings;
    void *room = NULL;
    unsigned n = make_room(l, top, "services", sizeof *set->services, &room), i = 0;

    set->services = room;
    set->service_count = n;
    if (n == 0)
        return;
    for (const cJSON *v = look_up(top->object, "services")->child; v; v = v->next, i++) {
        struct instance in = {SCOPE_SERVICE, v, &set->services[i], (int)i, -1, ""};

        snprintf(in.at, sizeof in.at, "services[%u].", i);
        if (!cJSON_IsObject(v))
            continue;
        fill(l, &in);
        fill_workers(l, &in, &set->services[i]);
    }
}

/* ---- all of it ---- */

/* The tree that a file for these flags would hold. */
static cJSON *tree_of_flags(const struct args *args)
{
    cJSON *root = cJSON_CreateObject(), *service = NULL, *subjects = NULL;

    service = cJSON_CreateObject();
    subjects =
        cJSON_CreateStringArray((const char *const *)args->subjects, (int)args->subject_count);
    if (!root || !service || !subjects) {
        cJSON_Delete(root);
        cJSON_Delete(service);
        cJSON_Delete(subjects);
        return NULL;
    }
    cJSON_AddStringToObject(service, "name", args->value[OPTION_SERVICE]);
    cJSON_AddItemToObject(service, "subjects", subjects);
    if (args->value[OPTION_POLICY])
        cJSON_AddStringToObject(service, "policy", args->value[OPTION_POLICY]);
    if (args->value[OPTION_REPLIES])
        cJSON_AddStringToObject(service, "replies", args->value[OPTION_REPLIES]);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "services"), service);
    return root;
}

bool config_load(struct config *config, const struct args *args, struct config_errors *errors)
{
    struct loader l = {.config = config, .args = args, .errors = errors};
    struct instance top = {SCOPE_TOP, NULL, &config->settings, -1, -1, ""};

    memset(config, 0, sizeof *config);
    if (args->value[OPTION_CONFIG]) {
        l.root = config_file_read(args->value[OPTION_CONFIG], errors);
        l.root_origin = ORIGIN_FILE;
    } else {
        l.root = tree_of_flags(args);
        l.root_origin = ORIGIN_FLAG;
        errors->no_memory = errors->no_memory || !l.root;
    }
    if (l.root) {
        top.object = l.root;
        walk(&l, l.root, SCOPE_TOP, "", "");
        read_context(&l);
        fill(&l, &top);
        fill_services(&l, &top);
        config_check(config, errors);
    }
    connection_fini(&l.context);
    cJSON_Delete(l.root);
    return errors->count == 0 && !errors->no_memory;
}

void config_fini(struct config *config)
{
    for (unsigned i = 0; i < config->count; i++)
        cJSON_Delete(config->values[i].value);
    free(config->values);
    settings_fini(&config->settings);
    memset(config, 0, sizeof *config);
}
