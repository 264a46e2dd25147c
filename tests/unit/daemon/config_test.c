/* Golden configurations: good_*.json load without an error; bad_*.json give exactly the error paths
 * of their `// error: PATH` lines, in that order. Then precedence and origins, defaults, what is
 * not built, and the print-out. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/registry.h"
#include "daemon/config.h"
#include "wire/heartbeat.h"

static struct config config;
static struct config_errors errors;
static struct args args;

static void fresh(void)
{
    static const char *const names[] = {"NATS_URL",   "NATS_USER",   "NATS_PASSWORD", "NATS_TOKEN",
                                        "NATS_NKEY",  "NATS_CERT",   "NATS_KEY",      "NATS_CA",
                                        "NATS_CREDS", "NATS_CONTEXT"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setenv("HOME", "/nonexistent", 1);
    memset(&args, 0, sizeof args);
}

static void clear(void)
{
    config_fini(&config);
    config_errors_fini(&errors);
}

static bool load_golden(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
    args.value[OPTION_CONFIG] = path;
    return config_load(&config, &args, &errors);
}

static char *read_all(FILE *in, char *out, size_t size)
{
    size_t n;

    rewind(in);
    n = fread(out, 1, size - 1, in);
    out[n] = 0;
    return out;
}

static void compare_errors(const char *name)
{
    char line[512], path[1024];
    unsigned n = 0;
    FILE *in;

    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
    in = fopen(path, "re");
    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof line, in)) {
        if (strncmp(line, "// error: ", 10) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        ck_assert_msg(n < errors.count, "%s: no error at %s", name, line + 10);
        ck_assert_msg(strcmp(errors.items[n].path, line + 10) == 0,
                      "%s: expected an error at '%s', got '%s: %s'", name, line + 10,
                      errors.items[n].path, errors.items[n].text);
        n++;
    }
    fclose(in);
    ck_assert_msg(n == errors.count, "%s: also '%s: %s'", name,
                  n < errors.count ? errors.items[n].path : "",
                  n < errors.count ? errors.items[n].text : "");
}

START_TEST(golden_files_give_exactly_their_errors)
{
    DIR *dir = opendir(GOLDEN_DIR);
    struct dirent *entry;
    unsigned good = 0, bad = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir))) {
        bool is_good = strncmp(entry->d_name, "good_", 5) == 0;

        if (!is_good && strncmp(entry->d_name, "bad_", 4) != 0)
            continue;
        fresh();
        ck_assert_int_eq(load_golden(entry->d_name), is_good);
        compare_errors(entry->d_name);
        clear();
        good += is_good;
        bad += !is_good;
    }
    closedir(dir);
    ck_assert_uint_ge(good, 3);
    ck_assert_uint_ge(bad, 10);
}
END_TEST

START_TEST(minimal_file_takes_every_default)
{
    const struct router_settings *set = &config.settings;
    const struct service_settings *s;

    fresh();
    ck_assert(load_golden("good_minimal.json"));
    ck_assert_str_eq(set->prefix, "waybill");
    ck_assert_ptr_nonnull(set->id);
    ck_assert_int_eq(set->drain_ms, 30000);
    ck_assert_int_eq(set->start_wait_ms, 2000);
    ck_assert_str_eq(set->attribution.bucket, "waybill_attribution");
    ck_assert_int_eq(set->attribution.write, ATTRIBUTION_ASYNC);
    ck_assert_int_eq(set->attribution.write_timeout_ms, 1000);
    ck_assert_int_eq(set->attribution.ttl_s, 3600);
    ck_assert_int_eq(set->attribution.max_bytes, 1 << 30);
    ck_assert_int_eq(set->attribution.history, 2);
    ck_assert_int_eq(set->attribution.replicas, 1);
    ck_assert(!set->attribution.memory);
    ck_assert_str_eq(set->sessions.bucket, "waybill_sessions");
    ck_assert_int_eq(set->sessions.max_bytes, 1 << 30);
    ck_assert_int_eq(set->sessions.replicas, 1);
    ck_assert(!set->sessions.memory);
    ck_assert_uint_eq(set->limits.sessions, 65536);
    ck_assert_uint_eq(set->limits.in_flight, 65536);
    ck_assert_uint_eq(set->limits.bytes, 256u << 20);
    ck_assert_uint_eq(set->limits.worker_bytes, 16u << 20);
    ck_assert_uint_eq(set->limits.workers, 16384);
    ck_assert_str_eq(set->nats.url, "nats://127.0.0.1:4222");
    ck_assert_ptr_null(set->monitor_listen);
    ck_assert_uint_eq(set->service_count, 1);
    s = &set->services[0];
    ck_assert_str_eq(s->name, "chat");
    ck_assert_ptr_null(s->queue_group);
    ck_assert_int_eq(s->policy, POLICY_LEAST_LOADED);
    ck_assert_uint_eq(s->ratio, 8);
    ck_assert_int_eq(s->replies, WB_REPLIES_ONE);
    ck_assert(s->disclose && s->heartbeats && s->eject_enabled);
    ck_assert_uint_eq(s->accept, ACCEPT_ALL);
    ck_assert_uint_eq(s->retry.max_attempts, 3);
    ck_assert_uint_eq(s->retry.budget_percent, 20);
    ck_assert_uint_eq(s->retry.on_code_count, 2);
    ck_assert_int_eq(s->retry.on_codes[1], 503);
    ck_assert(!s->retry.on_codes_set && !s->retry.idempotent);
    ck_assert_int_eq(s->timeouts.first_reply_ms, 30000);
    ck_assert_int_eq(s->timeouts.total_ms, 0);
    ck_assert_int_eq(s->session.ttl_s, 0);
    ck_assert_int_eq(s->session.mode, SESSION_HARD);
    ck_assert_int_eq(s->session.wait_ms, 1000);
    ck_assert_int_eq(s->session.on_busy, ON_BUSY_WAIT);
    clear();
}
END_TEST

START_TEST(every_key_reaches_its_field)
{
    const struct router_settings *set = &config.settings;
    const struct service_settings *s;

    fresh();
    ck_assert(load_golden("good_every_key.json"));
    s = &set->services[0];
    ck_assert_str_eq(set->id, "r_1");
    ck_assert_str_eq(set->prefix, "my.bill");
    ck_assert_uint_eq(set->reply_allow_count, 2);
    ck_assert_str_eq(set->reply_allow[1], "app.*.reply");
    ck_assert_str_eq(set->nats.password, "//p");
    ck_assert(set->nats.tls_first && set->nats.tls_insecure);
    ck_assert_int_eq(set->attribution.write, ATTRIBUTION_BEFORE_REPLY);
    ck_assert(set->attribution.memory);
    ck_assert_int_eq(set->attribution.replicas, 5);
    ck_assert_str_eq(set->sessions.bucket, "s");
    ck_assert_int_eq(set->sessions.max_bytes, 9007199254740991);
    ck_assert_int_eq(set->sessions.replicas, 3);
    ck_assert(set->sessions.memory);
    ck_assert_uint_eq(set->limits.workers, 2);
    ck_assert_uint_eq(set->limits.sessions, 16777216);
    ck_assert_str_eq(set->monitor_listen, "[::]:0");
    ck_assert_uint_eq(s->subject_count, 2);
    ck_assert_str_eq(s->queue_group, "q.1");
    ck_assert_int_eq(s->policy, POLICY_DEVICE_WEIGHTED);
    ck_assert_int_eq(s->replies, WB_REPLIES_NONE);
    ck_assert_uint_eq(s->accept, ACCEPT_RETRY | ACCEPT_TARGET);
    ck_assert(s->retry.on_codes_set && s->retry.on_code_count == 0 && s->retry.idempotent);
    ck_assert_int_eq(s->timeouts.total_ms, 86400000);
    ck_assert(!s->heartbeats && !s->eject_enabled && !s->disclose);
    ck_assert_uint_eq(s->worker_count, 2);
    ck_assert_str_eq(s->workers[0].cancel_subject, "w.1.cancel");
    ck_assert_uint_eq(s->workers[0].weight, 1000);
    ck_assert_uint_eq(s->queue.limit, 10);
    ck_assert_int_eq(s->queue.wait_ms, 0);
    ck_assert_uint_eq(s->workers[0].capacity, 8);
    ck_assert_uint_eq(s->workers[0].ranks, 2);
    ck_assert_str_eq(s->workers[0].class_name, "cpu");
    ck_assert_str_eq(s->workers[0].adapters[0], "x/y:1");
    ck_assert(s->workers[0].heartbeat && !s->workers[1].heartbeat);
    ck_assert_uint_eq(s->workers[1].weight, 100);
    ck_assert_int_eq(s->session.ttl_s, 31536000);
    ck_assert_int_eq(s->session.mode, SESSION_SOFT);
    ck_assert_int_eq(s->session.wait_ms, 0);
    ck_assert_int_eq(s->session.on_busy, ON_BUSY_SPILL);
    ck_assert_int_eq(set->services[1].policy, POLICY_DIRECT);
    ck_assert_int_eq(set->services[1].session.ttl_s, 1);
    ck_assert_int_eq(set->services[1].session.mode, SESSION_HARD);
    ck_assert_int_eq(set->services[1].session.on_busy, ON_BUSY_FAIL);
    clear();
}
END_TEST

/* Every key of the table stands in the file that claims to hold every key. */
START_TEST(the_full_file_sets_every_key)
{
    fresh();
    ck_assert(load_golden("good_every_key.json"));
    for (unsigned i = 0; i < config.count; i++) {
        const struct config_value *v = &config.values[i];

        if (v->service <= 0 && v->worker <= 0)
            ck_assert_msg(v->origin == ORIGIN_FILE, "%s is not in the file", v->key->path);
    }
    clear();
}
END_TEST

START_TEST(flag_beats_environment_beats_file)
{
    fresh();
    setenv("NATS_URL", "nats://environment:1", 1);
    setenv("NATS_USER", "from-environment", 1);
    ck_assert(load_golden("good_every_key.json"));
    ck_assert_str_eq(config.settings.nats.url, "nats://environment:1");
    ck_assert_str_eq(config.settings.nats.user, "from-environment");
    ck_assert_str_eq(config.settings.nats.token, "t");
    ck_assert_int_eq(config_find(&config, "nats.url", -1, -1)->origin, ORIGIN_ENVIRONMENT);
    ck_assert_int_eq(config_find(&config, "nats.token", -1, -1)->origin, ORIGIN_FILE);
    clear();
    args.value[OPTION_SERVER] = "nats://flag:1";
    args.value[OPTION_ID] = "from-flag";
    ck_assert(load_golden("good_every_key.json"));
    ck_assert_str_eq(config.settings.nats.url, "nats://flag:1");
    ck_assert_str_eq(config.settings.id, "from-flag");
    ck_assert_int_eq(config_find(&config, "nats.url", -1, -1)->origin, ORIGIN_FLAG);
    clear();
    fresh();
}
END_TEST

static void write_context(char root[32], const char *text)
{
    char path[256];
    FILE *out;

    strcpy(root, "/tmp/waybill-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof path, "mkdir -p %s/nats/context", root);
    ck_assert_int_eq(system(path), 0);
    snprintf(path, sizeof path, "%s/nats/context/one.json", root);
    out = fopen(path, "we");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
    snprintf(path, sizeof path, "%s/nats/context.txt", root);
    out = fopen(path, "we");
    ck_assert_ptr_nonnull(out);
    fputs("one", out);
    fclose(out);
}

START_TEST(context_fills_what_nobody_else_says)
{
    char root[32], path[64];

    fresh();
    write_context(root, "{\"url\":\"nats://context:1\",\"user\":\"cu\",\"token\":\"ct\"}");
    setenv("XDG_CONFIG_HOME", root, 1);
    setenv("NATS_CONTEXT", "one", 1);
    ck_assert(load_golden("good_minimal.json"));
    ck_assert_str_eq(config.settings.nats.url, "nats://context:1");
    ck_assert_str_eq(config.settings.nats.user, "cu");
    ck_assert_int_eq(config_find(&config, "nats.user", -1, -1)->origin, ORIGIN_CONTEXT);
    clear();
    ck_assert(load_golden("good_contract.json")); /* has a URL */
    ck_assert_str_eq(config.settings.nats.url, "nats://127.0.0.1:4222");
    ck_assert_str_eq(config.settings.nats.user, "cu");
    clear();
    unsetenv("NATS_CONTEXT"); /* now only selected: its credentials never go to the file's server */
    ck_assert(load_golden("good_contract.json"));
    ck_assert_ptr_null(config.settings.nats.user);
    clear();
    ck_assert(load_golden("good_minimal.json"));
    ck_assert_str_eq(config.settings.nats.url, "nats://context:1");
    clear();
    setenv("NATS_CONTEXT", "missing", 1);
    ck_assert(!load_golden("good_minimal.json"));
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_str_eq(errors.items[0].path, "nats");
    clear();
    snprintf(path, sizeof path, "rm -r %s", root);
    ck_assert_int_eq(system(path), 0);
    fresh();
}
END_TEST

START_TEST(bad_flag_and_bad_environment_are_named)
{
    fresh();
    args.value[OPTION_ID] = "a.b";
    setenv("NATS_URL", "gopher://x", 1);
    ck_assert(!load_golden("good_minimal.json"));
    ck_assert_uint_eq(errors.count, 2);
    ck_assert_str_eq(errors.items[0].path, "router.id (--id)");
    ck_assert_str_eq(errors.items[1].path, "nats.url (NATS_URL)");
    clear();
    fresh();
}
END_TEST

START_TEST(service_from_flags_needs_no_file)
{
    fresh();
    args.value[OPTION_SERVICE] = "chat";
    args.subjects[0] = "chat.>";
    args.subjects[1] = "talk";
    args.subject_count = 2;
    args.value[OPTION_POLICY] = "random";
    args.value[OPTION_REPLIES] = "stream";
    ck_assert(config_load(&config, &args, &errors));
    ck_assert_str_eq(config.settings.services[0].name, "chat");
    ck_assert_str_eq(config.settings.services[0].subjects[1], "talk");
    ck_assert_int_eq(config.settings.services[0].policy, POLICY_RANDOM);
    ck_assert_int_eq(config.settings.services[0].replies, WB_REPLIES_STREAM);
    ck_assert_int_eq(config_find(&config, "policy", 0, -1)->origin, ORIGIN_FLAG);
    ck_assert_int_eq(config_find(&config, "ratio", 0, -1)->origin, ORIGIN_DEFAULT);
    clear();
    args.value[OPTION_POLICY] = "fastest";
    ck_assert(!config_load(&config, &args, &errors));
    ck_assert_str_eq(errors.items[0].path, "services[0].policy");
    clear();
}
END_TEST

static unsigned warned;

static void count_warning(const char *path)
{
    (void)path;
    warned++;
}

START_TEST(what_is_not_built_is_refused_at_start_only)
{
    static const char *const expected[] = {"services[0].on_interrupt", "services[0].slow_start_ms",
                                           "services[0].eject.errors"};

    fresh();
    ck_assert(load_golden("good_every_key.json"));
    warned = 0;
    config_check_built(&config, &errors, count_warning);
    ck_assert_uint_eq(errors.count, sizeof expected / sizeof expected[0]);
    for (unsigned i = 0; i < errors.count; i++)
        ck_assert_str_eq(errors.items[i].path, expected[i]);
    ck_assert_uint_eq(warned, 4);
    clear();
    ck_assert(load_golden("good_minimal.json"));
    config_check_built(&config, &errors, count_warning);
    ck_assert_uint_eq(errors.count, 0);
    clear();
}
END_TEST

START_TEST(print_out_has_origins_and_no_secrets)
{
    static char text[65536];
    FILE *out = tmpfile();
    cJSON *root;

    fresh();
    ck_assert(load_golden("good_every_key.json"));
    config_show(&config, false, out);
    read_all(out, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "router.id = \"r_1\"  (file)\n"));
    ck_assert_ptr_nonnull(strstr(text, "services[1].ratio = 8  (default)\n"));
    ck_assert_ptr_nonnull(strstr(text, "services[0].session.ttl_s = 31536000  (file)\n"));
    ck_assert_ptr_nonnull(strstr(text, "services[1].session.ttl_s = 1  (file)\n"));
    ck_assert_ptr_nonnull(strstr(text, "services[1].session.wait_ms = 1000  (default)\n"));
    ck_assert_ptr_nonnull(strstr(text, "sessions.bucket = \"s\"  (file)\n"));
    ck_assert_ptr_nonnull(strstr(text, "nats://********@[::1]:4222, bare"));
    ck_assert_ptr_null(strstr(text, "u:p"));
    ck_assert_ptr_null(strstr(text, "//p"));
    fclose(out);
    out = tmpfile();
    config_show(&config, true, out);
    root = cJSON_Parse(read_all(out, text, sizeof text));
    ck_assert_ptr_nonnull(root);
    ck_assert_int_eq(cJSON_GetArraySize(root), (int)config.count);
    ck_assert_str_eq(
        cJSON_GetObjectItem(cJSON_GetObjectItem(root, "nats.token"), "value")->valuestring,
        "********");
    cJSON_Delete(root);
    fclose(out);
    clear();
}
END_TEST

START_TEST(comments_keep_lines_and_columns)
{
    char text[] = "{ // one\n /* two\n */ \"a//b\": \"/*\\\"*/\", x }";
    cJSON *root = config_text_parse(text, strlen(text), &errors);

    ck_assert_ptr_null(root);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_ptr_nonnull(strstr(errors.items[0].text, "line 3,"));
    clear();
}
END_TEST

START_TEST(a_comma_at_the_end_is_named_where_it_stands)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{\"a\":1,}", "line 1, column 7: a comma with nothing behind it"},
        {"{\n \"a\": {\"b\": 1, // last\n }}", "line 2, column 14: a comma with nothing behind it"},
        {"{\"a\":[1,2 ,\n ]}", "line 1, column 11: a comma with nothing behind it"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        ck_assert_ptr_null(config_text_parse(text, strlen(text), &errors));
        ck_assert_str_eq(errors.items[0].text, cases[i].error);
        clear();
    }
}
END_TEST

START_TEST(a_file_that_is_not_utf8_is_refused_with_its_place)
{
    char value[] = "{\n \"services\": [\"\xff\"]}", comment[] = "{} // \xe9",
         good[] = "{} // \xc3\xa9";

    ck_assert_ptr_null(config_text_parse(value, strlen(value), &errors));
    ck_assert_str_eq(errors.items[0].text, "line 2, column 16: a byte that is not UTF-8");
    clear();
    /* Comments are blanked before: JSON never sees them. */
    for (int i = 0; i < 2; i++) {
        char *text = i ? good : comment;
        cJSON *root = config_text_parse(text, strlen(text), &errors);

        ck_assert_ptr_nonnull(root);
        cJSON_Delete(root);
    }
    clear();
}
END_TEST

START_TEST(table_is_sound)
{
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        ck_assert_ptr_eq(config_key_find(key->scope, key->path), key); /* no path twice */
        ck_assert_msg(key->help && *key->help, "%s", key->path);
        if (key->fallback) {
            cJSON *v = cJSON_Parse(key->fallback);

            ck_assert_msg(v && config_value_check(key, v, key->path, &errors), "%s", key->path);
            cJSON_Delete(v);
        }
    }
    for (enum policy_kind kind = 0; kind < POLICY_COUNT; kind++)
        ck_assert_str_eq(config_key_find(SCOPE_SERVICE, "policy")->words[kind], policy_name(kind));
    ck_assert_ptr_null(config_key_find(SCOPE_SERVICE, "policy")->words[POLICY_COUNT]);
}
END_TEST

static const cJSON *resolve(const cJSON *root, const cJSON *node)
{
    const cJSON *ref = cJSON_GetObjectItemCaseSensitive(node, "$ref");
    char *part, *save, text[256];

    if (!cJSON_IsString(ref) || strncmp(ref->valuestring, "#/", 2) != 0)
        return node;
    snprintf(text, sizeof text, "%s", ref->valuestring + 2);
    node = root;
    for (part = strtok_r(text, "/", &save); part; part = strtok_r(NULL, "/", &save))
        node = cJSON_GetObjectItemCaseSensitive(node, part);
    return node;
}

static const cJSON *member(const cJSON *node, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(node, name);
}

/* The schema's number under `name`, or `absent`. */
static double number(const cJSON *node, const char *name, double absent)
{
    const cJSON *item = member(node, name);

    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static bool is_type(const cJSON *node, const char *type)
{
    const char *text = cJSON_GetStringValue(member(node, "type"));

    return text && strcmp(text, type) == 0;
}

static bool same_words(const cJSON *list, const char *const *words)
{
    const cJSON *one = list ? list->child : NULL;

    for (; *words && one; words++, one = one->next)
        if (!cJSON_IsString(one) || strcmp(one->valuestring, *words) != 0)
            return false;
    return !*words && !one;
}

/* Forms are held against the schema by value in the end-to-end tests; here, that each has its
 * pattern and none but FORM_ANY and the URLs have no more than a length. */
static bool same_text(enum config_form form, const cJSON *node)
{
    bool has_pattern = member(node, "pattern") != NULL;

    if (!is_type(node, "string"))
        return false;
    if (form == FORM_ANY || form == FORM_URLS || form == FORM_LISTEN)
        return !has_pattern && number(node, "minLength", 0) == 1 &&
               number(node, "maxLength", 0) == 4096;
    return has_pattern;
}

static bool same_list(const struct config_key *key, const cJSON *node)
{
    return is_type(node, "array") && number(node, "minItems", 0) == (double)key->min &&
           number(node, "maxItems", 0) == (double)key->max;
}

static bool same_values(const cJSON *root, const struct config_key *key, const cJSON *node)
{
    const cJSON *items = resolve(root, member(node, "items"));

    switch (key->type) {
    case TYPE_BOOL:
        return is_type(node, "boolean");
    case TYPE_INT:
        return is_type(node, "integer") && number(node, "minimum", -1) == (double)key->min &&
               number(node, "maximum", -1) == (double)key->max;
    case TYPE_TEXT:
        return same_text(key->form, node);
    case TYPE_WORD:
        return same_words(member(node, "enum"), key->words);
    case TYPE_TEXTS:
        return same_list(key, node) && cJSON_IsTrue(member(node, "uniqueItems")) &&
               same_text(key->form, items);
    case TYPE_BITS:
        return is_type(node, "array") && cJSON_IsTrue(member(node, "uniqueItems")) &&
               same_words(member(items, "enum"), key->words);
    case TYPE_CODES:
        return same_list(key, node) && cJSON_IsTrue(member(node, "uniqueItems")) &&
               is_type(items, "integer") && number(items, "minimum", 0) == 100 &&
               number(items, "maximum", 0) == 999;
    case TYPE_OBJECTS:
        return same_list(key, node) && is_type(items, "object");
    }
    return false;
}

/* `own` is the property as it stands, where a default may stand beside a $ref. */
static bool same_default(const struct config_key *key, const cJSON *own)
{
    cJSON *fallback = key->fallback ? cJSON_Parse(key->fallback) : NULL;
    const cJSON *published = member(own, "default");
    bool same = fallback ? cJSON_Compare(fallback, published, true) : !published;

    cJSON_Delete(fallback);
    return same;
}

static bool is_required(const cJSON *object, const char *name)
{
    const cJSON *one;

    cJSON_ArrayForEach(one, member(object, "required")) if (strcmp(one->valuestring, name) ==
                                                            0) return true;
    return false;
}

/* Every property of the schema's object is a key or a group of the table, and means the same.
 * Returns how many keys it saw. */
static unsigned hold_against_table(const cJSON *root, const cJSON *object, enum config_scope scope,
                                   const char *prefix)
{
    unsigned seen = 0;
    const cJSON *own;

    ck_assert_msg(cJSON_IsFalse(member(object, "additionalProperties")), "'%s' is open", prefix);
    cJSON_ArrayForEach(own, member(object, "properties"))
    {
        const cJSON *node = resolve(root, own);
        const struct config_key *key;
        char path[128];

        snprintf(path, sizeof path, "%s%s", prefix, own->string);
        key = config_key_find(scope, path);
        if (!key && config_key_is_group(scope, path)) {
            snprintf(path, sizeof path, "%s%s.", prefix, own->string);
            seen += hold_against_table(root, node, scope, path);
            continue;
        }
        ck_assert_msg(key != NULL, "the schema has %s, which waybilld does not know", path);
        ck_assert_msg(same_values(root, key, node), "%s: schema and table differ", path);
        ck_assert_msg(same_default(key, own), "%s: another default in the schema", path);
        ck_assert_msg(is_required(object, own->string) == key->required, "%s: required?", path);
        seen++;
        if (key->type == TYPE_OBJECTS)
            seen += hold_against_table(root, resolve(root, member(node, "items")), scope + 1, "");
    }
    return seen;
}

/* The published schema and the table are one set of keys, with the same ranges and defaults. */
START_TEST(schema_and_table_are_the_same)
{
    static char text[262144];
    FILE *in = fopen(SCHEMA_FILE, "re");
    cJSON *root;

    ck_assert_ptr_nonnull(in);
    root = cJSON_Parse(read_all(in, text, sizeof text));
    fclose(in);
    ck_assert_ptr_nonnull(root);
    ck_assert_uint_eq(hold_against_table(root, root, SCOPE_TOP, ""), config_key_count);
    cJSON_Delete(root);
}
END_TEST

START_TEST(a_static_worker_has_no_more_than_a_heartbeat_may_say)
{
    ck_assert_int_eq(config_key_find(SCOPE_WORKER, "ranks")->max, HEARTBEAT_RANKS_MAX);
    ck_assert_int_eq(config_key_find(SCOPE_WORKER, "adapters")->max, HEARTBEAT_ADAPTERS_MAX);
    ck_assert_int_eq(config_key_find(SCOPE_WORKER, "capacity")->max, HEARTBEAT_COUNT_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, golden_files_give_exactly_their_errors);
    tcase_add_test(tests, minimal_file_takes_every_default);
    tcase_add_test(tests, every_key_reaches_its_field);
    tcase_add_test(tests, the_full_file_sets_every_key);
    tcase_add_test(tests, flag_beats_environment_beats_file);
    tcase_add_test(tests, context_fills_what_nobody_else_says);
    tcase_add_test(tests, bad_flag_and_bad_environment_are_named);
    tcase_add_test(tests, service_from_flags_needs_no_file);
    tcase_add_test(tests, what_is_not_built_is_refused_at_start_only);
    tcase_add_test(tests, print_out_has_origins_and_no_secrets);
    tcase_add_test(tests, comments_keep_lines_and_columns);
    tcase_add_test(tests, a_file_that_is_not_utf8_is_refused_with_its_place);
    tcase_add_test(tests, a_comma_at_the_end_is_named_where_it_stands);
    tcase_add_test(tests, table_is_sound);
    tcase_add_test(tests, schema_and_table_are_the_same);
    tcase_add_test(tests, a_static_worker_has_no_more_than_a_heartbeat_may_say);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
