/* The one table of configuration keys. Loader, checks, --help, --show-config and the tests walk it;
 * a new key is a new row. */
#include "daemon/config.h"

#include <string.h>

#define TOP(field)                                                                                 \
    .scope = SCOPE_TOP, .offset = offsetof(struct router_settings, field),                         \
    .size = sizeof(((struct router_settings *)0)->field)
#define SERVICE(field)                                                                             \
    .scope = SCOPE_SERVICE, .offset = offsetof(struct service_settings, field),                    \
    .size = sizeof(((struct service_settings *)0)->field)
#define WORKER(field)                                                                              \
    .scope = SCOPE_WORKER, .offset = offsetof(struct static_settings, field),                      \
    .size = sizeof(((struct static_settings *)0)->field)
#define COUNT(type, field) .count_offset = offsetof(struct type, field)
#define DAY_MS 86400000
#define YEAR_S 31536000
#define SAFE_INT 9007199254740991 /* what a double holds exactly */

_Static_assert(sizeof(enum policy_kind) == 4 && sizeof(wb_replies) == 4 &&
                   sizeof(enum attribution_write) == 4 && sizeof(int) == 4,
               "words are stored as 4 bytes");

static const char *const write_words[] = {"async", "before_reply", "off", NULL};
static const char *const storage_words[] = {"file", "memory", NULL};
static const char *const policy_words[] = {
    "round_robin",     "random", "power_of_two", "least_loaded",
    "device_weighted", "hash",   "direct",       NULL};
static const char *const replies_words[] = {"one", "stream", "none", NULL};
static const char *const accept_words[] = {
    "target",  "priority", "idempotent", "advise",
    "timeout", "retry",    NULL}; /* order: enum accept_bit */
static const char *const interrupt_words[] = {"end", "resume", NULL};
static const char *const mode_words[] = {"hard", "soft", NULL};
static const char *const busy_words[] = {"wait", "spill", "fail", NULL};

/* clang-format off */
const struct config_key config_keys[] = {
    {"router.id", TOP(id), .type = TYPE_TEXT, .form = FORM_ID, .flag = OPTION_ID,
     .help = "this router's id; default: host name and 4 random characters"},
    {"router.prefix", TOP(prefix), .type = TYPE_TEXT, .form = FORM_PREFIX, .fallback = "\"waybill\"", .flag = OPTION_PREFIX,
     .help = "first tokens of all subjects of Waybill's own; routers share it"},
    {"router.drain_ms", TOP(drain_ms), .type = TYPE_INT, .fallback = "30000", .max = 3600000, .unit = "ms",
     .help = "time for what is in flight when the process is told to stop"},
    {"router.start_wait_ms", TOP(start_wait_ms), .type = TYPE_INT, .fallback = "2000", .max = 600000, .unit = "ms",
     .help = "how long after the start an unheard worker is waited for"},
    {"router.reply_allow", TOP(reply_allow), COUNT(router_settings, reply_allow_count), .type = TYPE_TEXTS, .form = FORM_PATTERN,
     .fallback = "[]", .max = 256, .help = "reply subjects that clients may use; empty: all that are safe"},

    {"nats.url", TOP(nats.url), .type = TYPE_TEXT, .form = FORM_URLS, .fallback = "\"nats://127.0.0.1:4222\"",
     .flag = OPTION_SERVER, .env = "NATS_URL", .help = "servers, comma-separated; nats:// or tls://"},
    {"nats.user", TOP(nats.user), .type = TYPE_TEXT, .env = "NATS_USER", .help = "user name"},
    {"nats.password", TOP(nats.password), .type = TYPE_TEXT, .env = "NATS_PASSWORD", .secret = true, .help = "password"},
    {"nats.token", TOP(nats.token), .type = TYPE_TEXT, .env = "NATS_TOKEN", .secret = true, .help = "authentication token"},
    {"nats.nkey", TOP(nats.nkey), .type = TYPE_TEXT, .env = "NATS_NKEY", .help = "file with an nkey seed"},
    {"nats.creds", TOP(nats.creds), .type = TYPE_TEXT, .env = "NATS_CREDS", .help = "credentials file"},
    {"nats.cert", TOP(nats.cert), .type = TYPE_TEXT, .env = "NATS_CERT", .help = "file with the TLS client certificate"},
    {"nats.key", TOP(nats.key), .type = TYPE_TEXT, .env = "NATS_KEY", .help = "file with its private key"},
    {"nats.ca", TOP(nats.ca), .type = TYPE_TEXT, .env = "NATS_CA", .help = "file with the authorities to trust; asks for TLS"},
    {"nats.tls_first", TOP(nats.tls_first), .type = TYPE_BOOL, .fallback = "false", .help = "TLS handshake before the server's INFO"},
    {"nats.tls_insecure", TOP(nats.tls_insecure), .type = TYPE_BOOL, .fallback = "false", .help = "do not verify the server's certificate"},

    {"attribution.bucket", TOP(attribution.bucket), .type = TYPE_TEXT, .form = FORM_ID, .fallback = "\"waybill_attribution\"",
     .help = "key-value bucket of the records"},
    {"attribution.write", TOP(attribution.write), .type = TYPE_WORD, .words = write_words, .fallback = "\"async\"",
     .help = "record behind the answer, before it, or not at all"},
    {"attribution.write_timeout_ms", TOP(attribution.write_timeout_ms), .type = TYPE_INT, .fallback = "1000", .min = 1, .max = 60000,
     .unit = "ms", .help = "how long before_reply holds an answer back"},
    {"attribution.ttl_s", TOP(attribution.ttl_s), .type = TYPE_INT, .fallback = "3600", .min = 1, .max = 10LL * YEAR_S, .unit = "s",
     .help = "age of records in a bucket that is created"},
    {"attribution.history", TOP(attribution.history), .type = TYPE_INT, .fallback = "2", .min = 1, .max = 64,
     .help = "revisions kept per record in a bucket that is created"},
    {"attribution.max_bytes", TOP(attribution.max_bytes), .type = TYPE_INT, .fallback = "1073741824", .min = 65536, .max = SAFE_INT,
     .unit = "bytes", .help = "size of a bucket that is created"},
    {"attribution.replicas", TOP(attribution.replicas), .type = TYPE_INT, .fallback = "1", .min = 1, .max = 5,
     .help = "replicas of a bucket that is created"},
    {"attribution.storage", TOP(attribution.memory), .type = TYPE_WORD, .words = storage_words, .fallback = "\"file\"",
     .help = "storage of a bucket that is created"},

    {"limits.in_flight", TOP(limits.in_flight), .type = TYPE_INT, .fallback = "65536", .min = 1, .max = 1048576, .unit = "requests",
     .help = "requests at once; more are overloaded"},
    {"limits.bytes", TOP(limits.bytes), .type = TYPE_INT, .fallback = "268435456", .min = 65536, .max = SAFE_INT, .unit = "bytes",
     .help = "bytes held for requests; more are overloaded"},
    {"limits.worker_bytes", TOP(limits.worker_bytes), .type = TYPE_INT, .fallback = "16777216", .min = 1024, .max = SAFE_INT,
     .unit = "bytes", .help = "sent to one worker and not yet answered; over it the worker is not free"},
    {"limits.workers", TOP(limits.workers), .type = TYPE_INT, .fallback = "16384", .min = 1, .max = 1048576, .unit = "workers",
     .help = "workers known at once"},

    {"monitor.listen", TOP(monitor_listen), .type = TYPE_TEXT, .form = FORM_LISTEN, .flag = OPTION_MONITOR,
     .help = "address of /metrics and /healthz; absent: none"},

    {"services", .scope = SCOPE_TOP, .type = TYPE_OBJECTS, .min = 1, .max = 1024, .required = true, .help = "the services"},

    {"name", SERVICE(name), .type = TYPE_TEXT, .form = FORM_ID, .required = true, .help = "the service's name"},
    {"subjects", SERVICE(subjects), COUNT(service_settings, subject_count), .type = TYPE_TEXTS, .form = FORM_PATTERN, .min = 1, .max = 256,
     .required = true, .help = "subjects of requests"},
    {"queue_group", SERVICE(queue_group), .type = TYPE_TEXT, .form = FORM_LITERAL,
     .help = "queue group of the subjects; absent: the prefix"},
    {"policy", SERVICE(policy), .type = TYPE_WORD, .words = policy_words, .fallback = "\"least_loaded\"",
     .help = "how a worker is chosen"},
    {"ratio", SERVICE(ratio), .type = TYPE_INT, .fallback = "8", .min = 1, .max = 1000000,
     .help = "of device_weighted: requests to other devices for each one to a cpu"},
    {"replies", SERVICE(replies), .type = TYPE_WORD, .words = replies_words, .fallback = "\"one\"",
     .help = "what an answer is, unless the request says"},
    {"disclose", SERVICE(disclose), .type = TYPE_BOOL, .fallback = "true", .help = "clients learn worker names"},
    {"accept", SERVICE(accept), .type = TYPE_BITS, .words = accept_words,
     .fallback = "[\"target\",\"priority\",\"idempotent\",\"advise\",\"timeout\",\"retry\"]",
     .help = "which wishes clients may utter by header"},
    {"retry.max_attempts", SERVICE(retry.max_attempts), .type = TYPE_INT, .fallback = "3", .min = 1, .max = 16, .unit = "attempts",
     .help = "attempts per request, the first included"},
    {"retry.budget_percent", SERVICE(retry.budget_percent), .type = TYPE_INT, .fallback = "20", .max = 1000, .unit = "percent",
     .help = "retries as a share of recent requests, at least 3 a second"},
    {"retry.on_codes", SERVICE(retry.on_codes), COUNT(service_settings, retry.on_code_count), .type = TYPE_CODES, .fallback = "[429,503]",
     .max = RETRY_CODES_MAX, .help = "error codes that are refusals (of static workers, unless set: 429)"},
    {"retry.idempotent", SERVICE(retry.idempotent), .type = TYPE_BOOL, .fallback = "false",
     .help = "requests may be sent again after a worker may have got them"},
    {"timeouts.first_reply_ms", SERVICE(timeouts.first_reply_ms), .type = TYPE_INT, .fallback = "30000", .min = 1, .max = DAY_MS,
     .unit = "ms", .help = "from an attempt to its first message"},
    {"timeouts.inactivity_ms", SERVICE(timeouts.inactivity_ms), .type = TYPE_INT, .fallback = "30000", .min = 1, .max = DAY_MS,
     .unit = "ms", .help = "between later messages"},
    {"timeouts.total_ms", SERVICE(timeouts.total_ms), .type = TYPE_INT, .fallback = "0", .max = DAY_MS, .unit = "ms",
     .help = "for everything; 0: no limit"},
    {"heartbeats", SERVICE(heartbeats), .type = TYPE_BOOL, .fallback = "true", .help = "workers outside the config are accepted"},
    {"on_interrupt", .scope = SCOPE_SERVICE, .type = TYPE_WORD, .words = interrupt_words, .fallback = "\"end\"", .built = BUILT_NOT,
     .help = "what follows when a stream breaks"},
    {"slow_start_ms", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "0", .max = 3600000, .unit = "ms", .built = BUILT_NOT,
     .help = "ramps the weight of a new or restored worker; 0: off"},
    {"eject.enabled", SERVICE(eject_enabled), .type = TYPE_BOOL, .fallback = "true", .help = "failing workers are ejected"},
    {"eject.min_ms", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "1000", .min = 1, .max = DAY_MS, .unit = "ms",
     .built = BUILT_INERT, .help = "first ejection"},
    {"eject.max_ms", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "60000", .min = 1, .max = DAY_MS, .unit = "ms",
     .built = BUILT_INERT, .help = "longest ejection"},
    {"eject.timeouts", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "5", .max = 1000000, .built = BUILT_INERT,
     .help = "timeouts in a row that eject; 0: off"},
    {"eject.errors", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "0", .max = 1000000, .built = BUILT_NOT,
     .help = "answers of 500 or more in a row that eject; 0: off"},
    {"eject.max_percent", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "50", .max = 100, .unit = "percent",
     .built = BUILT_INERT, .help = "share of workers ejected at once"},
    {"queue.limit", SERVICE(queue.limit), .type = TYPE_INT, .fallback = "0", .max = 1048576, .unit = "requests",
     .help = "requests that may wait for a free worker; 0: none"},
    {"queue.wait_ms", SERVICE(queue.wait_ms), .type = TYPE_INT, .fallback = "5000", .max = DAY_MS, .unit = "ms",
     .help = "how long one waits"},
    {"session.ttl_s", .scope = SCOPE_SERVICE, .type = TYPE_INT, .min = 1, .max = YEAR_S, .unit = "s", .built = BUILT_NOT,
     .help = "idle time of a session; absent: no sessions"},
    {"session.mode", .scope = SCOPE_SERVICE, .type = TYPE_WORD, .words = mode_words, .fallback = "\"hard\"",
     .help = "a binding is a rule or a preference"},
    {"session.wait_ms", .scope = SCOPE_SERVICE, .type = TYPE_INT, .fallback = "1000", .max = DAY_MS, .unit = "ms",
     .help = "how long a request waits for another to bind"},
    {"session.on_busy", .scope = SCOPE_SERVICE, .type = TYPE_WORD, .words = busy_words, .fallback = "\"wait\"",
     .help = "when the bound worker is busy"},
    {"adapters.load", .scope = SCOPE_SERVICE, .type = TYPE_BOOL, .fallback = "false", .built = BUILT_NOT,
     .help = "a worker with a free slot is chosen to load an adapter that nobody holds"},
    {"workers", .scope = SCOPE_SERVICE, .type = TYPE_OBJECTS, .max = 4096, .help = "static workers: plain NATS responders"},

    {"id", WORKER(id), .type = TYPE_TEXT, .form = FORM_ID, .required = true, .help = "the worker's id"},
    {"subject", WORKER(subject), .type = TYPE_TEXT, .form = FORM_LITERAL, .required = true, .help = "where its requests go"},
    {"cancel_subject", WORKER(cancel_subject), .type = TYPE_TEXT, .form = FORM_LITERAL, .help = "where cancels go; absent: none are sent"},
    {"weight", WORKER(weight), .type = TYPE_INT, .fallback = "100", .min = 1, .max = 1000, .help = "its share of the load"},
    {"capacity", WORKER(capacity), .type = TYPE_INT, .fallback = "0", .max = 1000000, .unit = "requests",
     .help = "requests at once; 0: no limit known"},
    {"ranks", WORKER(ranks), .type = TYPE_INT, .fallback = "0", .max = 65536, .help = "number of its ranks; 0: none"},
    {"class", WORKER(class_name), .type = TYPE_TEXT, .form = FORM_ID, .help = "its device class, as cpu"},
    {"adapters", WORKER(adapters), COUNT(static_settings, adapter_count), .type = TYPE_TEXTS, .form = FORM_LONG_NAME, .fallback = "[]",
     .max = 1024, .help = "adapters that it holds"},
    {"heartbeat", WORKER(heartbeat), .type = TYPE_BOOL, .fallback = "false", .help = "its heartbeats are followed"},
};
/* clang-format on */
const unsigned config_key_count = sizeof config_keys / sizeof config_keys[0];

const struct config_key *config_key_find(enum config_scope scope, const char *path)
{
    for (unsigned i = 0; i < config_key_count; i++)
        if (config_keys[i].scope == scope && strcmp(config_keys[i].path, path) == 0)
            return &config_keys[i];
    return NULL;
}

bool config_key_is_group(enum config_scope scope, const char *path)
{
    size_t len = strlen(path);

    for (unsigned i = 0; i < config_key_count; i++)
        if (config_keys[i].scope == scope && strncmp(config_keys[i].path, path, len) == 0 &&
            config_keys[i].path[len] == '.')
            return true;
    return false;
}

void config_key_siblings(enum config_scope scope, const char *prefix, char *out, size_t size)
{
    size_t len = strlen(prefix), used = 0, last_len = 0;
    const char *last = "";

    out[0] = 0;
    for (unsigned i = 0; i < config_key_count; i++) {
        const char *name = config_keys[i].path + len;
        size_t n;
        int wrote;

        if (config_keys[i].scope != scope || strncmp(config_keys[i].path, prefix, len) != 0)
            continue;
        n = strcspn(name, ".");
        if (n == last_len && strncmp(name, last, n) == 0) /* groups stand together in the table */
            continue;
        last = name;
        last_len = n;
        wrote = snprintf(out + used, size - used, "%s%.*s", used ? ", " : "", (int)n, name);
        if (wrote < 0 || (size_t)wrote >= size - used)
            return;
        used += (size_t)wrote;
    }
}

const char *config_form_text(enum config_form form)
{
    switch (form) {
    case FORM_ID:
        return "a name of 1 to 64 characters of [A-Za-z0-9_-]";
    case FORM_LONG_NAME:
        return "a name of 1 to 256 printable ASCII characters without spaces";
    case FORM_LITERAL:
        return "a literal subject (non-empty tokens, no wildcards, at most 512 characters)";
    case FORM_PATTERN:
        return "a subject of non-empty tokens, * and a last > allowed, at most 512 characters";
    case FORM_PREFIX:
        return "a literal subject of at most 128 characters that does not begin with $ or _INBOX";
    case FORM_URLS:
        return "servers as nats://host:port or tls://host:port, comma-separated";
    case FORM_LISTEN:
        return "ADDRESS:PORT: an IPv4 address, an IPv6 address in brackets, localhost or nothing, "
               "and "
               "a port from 0 to 65535";
    case FORM_ANY:
        break;
    }
    return "a text of 1 to 4096 bytes";
}

static void join_words(const char *const *words, char *out, size_t size)
{
    size_t used = 0;

    out[0] = 0;
    for (; *words; words++) {
        int wrote = snprintf(out + used, size - used, "%s%s", used ? ", " : "", *words);

        if (wrote < 0 || (size_t)wrote >= size - used)
            return;
        used += (size_t)wrote;
    }
}

void config_key_expected(const struct config_key *key, char *out, size_t size)
{
    char words[256];

    switch (key->type) {
    case TYPE_BOOL:
        snprintf(out, size, "true or false");
        break;
    case TYPE_INT:
        snprintf(out, size, "an integer from %lld to %lld", (long long)key->min,
                 (long long)key->max);
        break;
    case TYPE_TEXT:
        snprintf(out, size, "%s", config_form_text(key->form));
        break;
    case TYPE_WORD:
        join_words(key->words, words, sizeof words);
        snprintf(out, size, "one of %s", words);
        break;
    case TYPE_TEXTS:
        snprintf(out, size, "a list of %lld to %lld, none twice, each %s", (long long)key->min,
                 (long long)key->max, config_form_text(key->form));
        break;
    case TYPE_BITS:
        join_words(key->words, words, sizeof words);
        snprintf(out, size, "a list of some of %s, none twice", words);
        break;
    case TYPE_CODES:
        snprintf(out, size, "a list of at most %lld integers from 100 to 999, none twice",
                 (long long)key->max);
        break;
    case TYPE_OBJECTS:
        snprintf(out, size, "a list of %lld to %lld objects", (long long)key->min,
                 (long long)key->max);
        break;
    }
}

void config_table_help(FILE *out)
{
    static const char *const where[] = {"", "services[].", "services[].workers[]."};

    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char expected[512];

        config_key_expected(key, expected, sizeof expected);
        fprintf(out, "  %s%s%s%s\n      %s%s\n      %s", where[key->scope], key->path,
                key->fallback ? " = " : "", key->fallback ? key->fallback : "", key->help,
                key->required ? " (required)" : "", expected);
        if (key->unit)
            fprintf(out, "; unit: %s", key->unit);
        if (key->env)
            fprintf(out, "; environment: %s", key->env);
        if (key->flag != OPTION_NONE)
            fprintf(out, "; flag: %s", args_option_name(key->flag));
        if (key->built == BUILT_NOT)
            fputs("; checked, but not built in this version", out);
        fputc('\n', out);
    }
}
