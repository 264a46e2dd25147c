/* The configuration: one table of keys, the loader that walks it, the checks, and the print-out.
 * Thread: main's, before the loop runs. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/args.h"
#include "router/settings.h"
#include "waybill/status.h"

/* ---- errors: all are gathered, each with its path ---- */

#define CONFIG_ERRORS_MAX 200
#define CONFIG_PATH_SIZE 256

struct config_errors {
    struct config_error {
        char *path; /* "services[0].policy"; "" : the file as a whole */
        char *text;
    } items[CONFIG_ERRORS_MAX];
    unsigned count, more; /* more: how many did not fit */
    bool no_memory;
};
void config_error(struct config_errors *errors, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void config_errors_print(const struct config_errors *errors, const char *file, FILE *out);
void config_errors_fini(struct config_errors *errors);

/* ---- the table ---- */

enum config_scope { SCOPE_TOP, SCOPE_SERVICE, SCOPE_WORKER };
enum config_type {
    TYPE_BOOL,
    TYPE_INT,    /* min..max; stored in size 4 or 8 */
    TYPE_TEXT,   /* of `form` */
    TYPE_WORD,   /* one of `words`; stored as its index, size 4 or (bool) 1 */
    TYPE_TEXTS,  /* min..max texts of `form`, none twice */
    TYPE_BITS,   /* words, none twice; stored as a mask by index */
    TYPE_CODES,  /* up to max integers of 100..999 */
    TYPE_OBJECTS /* objects of the next scope */
};
enum config_form {
    FORM_ANY,       /* 1..4096 bytes */
    FORM_ID,        /* name_is_id */
    FORM_LONG_NAME, /* name_is_long */
    FORM_LITERAL,
    FORM_PATTERN,
    FORM_PREFIX,
    FORM_URLS,
    FORM_LISTEN
};
/* What waybilld does with a key today. --check knows them all. */
enum config_built {
    BUILT,
    BUILT_NOT,  /* refuses to start when it is set to other than its default */
    BUILT_INERT /* warns then: nothing follows it yet */
};

struct config_key {
    const char *path; /* within its scope, dotted */
    enum config_scope scope;
    enum config_type type;
    enum config_form form;
    const char *fallback; /* JSON text; NULL: none */
    int64_t min, max;
    const char *const *words; /* NULL-terminated */
    const char *unit;         /* "" : none */
    const char *help;
    size_t offset, size; /* in the scope's struct; size 0: not stored */
    size_t count_offset; /* of lists */
    enum option_id flag; /* OPTION_NONE: none */
    const char *env;     /* NULL: none */
    bool required, secret;
    enum config_built built;
};

extern const struct config_key config_keys[];
extern const unsigned config_key_count;
const struct config_key *config_key_find(enum config_scope scope, const char *path); /* or NULL */
/* Do keys "<path>.…" exist? */
bool config_key_is_group(enum config_scope scope, const char *path);
/* What stands below prefix ("" or "retry."): "a, b, c". */
void config_key_siblings(enum config_scope scope, const char *prefix, char *out, size_t size);
/* What a value of the key must be: "an integer from 1 to 16". */
void config_key_expected(const struct config_key *key, char *out, size_t size);
const char *config_form_text(enum config_form form);
void config_table_help(FILE *out);
/* The same as a page of Markdown: deploy/config.md, which a test compares. */
void config_reference(FILE *out);

/* ---- values ---- */

enum config_origin { ORIGIN_DEFAULT, ORIGIN_CONTEXT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };
const char *config_origin_name(enum config_origin origin);

struct config_value {
    const struct config_key *key;
    int service, worker; /* -1: not within one */
    enum config_origin origin;
    cJSON *value; /* owned; NULL: not given and no default */
};

struct config {
    struct router_settings settings;
    struct config_value *values; /* in the order of the table, services after the rest */
    unsigned count, size;
};

/* Tells errors with their path (of elements too). `path` names the value. */
bool config_value_check(const struct config_key *key, const cJSON *value, const char *path,
                        struct config_errors *errors);
/* Stores a checked value into the scope's struct, over a zeroed field. */
WB_MUST_USE wb_status config_value_store(const struct config_key *key, const cJSON *value,
                                         void *base);
/* The path of a value: "services[0].workers[1].id". */
void config_value_path(const struct config_value *value, char out[CONFIG_PATH_SIZE]);
const struct config_value *config_find(const struct config *config, const char *path, int service,
                                       int worker);

/* ---- the steps ---- */

/* Reads and parses a file (bounded to 4 MiB); comments are blanked. NULL: told in errors. The
 * caller deletes it. */
cJSON *config_file_read(const char *file, struct config_errors *errors);
/* The same for text in memory, which is changed. */
cJSON *config_text_parse(char *text, size_t len, struct config_errors *errors);
/* Blanks comments outside strings, keeping lines and columns. Returns NULL, or what is wrong and
 * where (offset). */
const char *config_strip_comments(char *text, size_t len, size_t *where);

/* Merges flags, environment, file, context and defaults, runs every check. config is zeroed first
 * and must be given to config_fini whatever comes out. True: no errors. */
bool config_load(struct config *config, const struct args *args, struct config_errors *errors);
void config_fini(struct config *config);
/* What single keys cannot show: names, overlaps, contradictions. Called by config_load. */
void config_check(const struct config *config, struct config_errors *errors);
/* Keys that this version cannot follow; errors for those it refuses, `warn` for those it ignores.
 */
void config_check_built(const struct config *config, struct config_errors *errors,
                        void (*warn)(const char *path));
void config_show(const struct config *config, bool json, FILE *out);

#endif
