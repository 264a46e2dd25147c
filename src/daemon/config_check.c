/* Checks across values. All run on whatever could be loaded: a field may be NULL where its own
 * error was told already. */
#include "daemon/config.h"

#include <string.h>

#include "wire/subject.h"

#define SUBJECTS_MAX 8192 /* of all services: bounds the search for overlaps */

struct check {
    const struct router_settings *set;
    const struct config *config;
    struct config_errors *errors;
};

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void path_of(char out[CONFIG_PATH_SIZE], unsigned service, const char *list, unsigned index,
                    const char *member)
{
    snprintf(out, CONFIG_PATH_SIZE, "services[%u].%s[%u]%s", service, list, index, member);
}

/* ---- subjects ---- */

/* Whose ground a service's subject touches; NULL: nobody's. `$*.>` means every first token that
 * begins with $. */
static const char *reserved(const struct check *c, struct span subject)
{
    struct span first = subject_token(subject, 0);
    bool wild = span_eq_str(first, "*") || span_eq_str(first, ">");
    bool one_token = subject_token_count(subject) == 1 && !span_eq_str(first, ">");
    char own[WB_SUBJECT_MAX + 1];

    if (first.len && first.ptr[0] == '$')
        return "$*.>";
    if (wild && !one_token)
        return "$*.>";
    if (subject_overlaps(subject, SPAN_LIT("_INBOX.>")))
        return "_INBOX.>";
    if (c->set->prefix) {
        snprintf(own, sizeof own, "%s.>", c->set->prefix);
        if (subject_overlaps(subject, span_str(own)))
            return "<prefix>.>, the router's own subjects";
    }
    return NULL;
}

static void check_against_workers(const struct check *c, unsigned s, unsigned k)
{
    struct span subject = span_str(c->set->services[s].subjects[k]);
    char path[CONFIG_PATH_SIZE];

    path_of(path, s, "subjects", k, "");
    for (unsigned i = 0; i < c->set->service_count; i++) {
        const struct service_settings *other = &c->set->services[i];

        for (unsigned w = 0; w < other->worker_count; w++) {
            const struct static_settings *worker = &other->workers[w];

            if (worker->subject && subject_matches(subject, span_str(worker->subject)))
                config_error(c->errors, path,
                             "overlaps services[%u].workers[%u].subject (%s): requests would loop",
                             i, w, worker->subject);
            if (worker->cancel_subject &&
                subject_matches(subject, span_str(worker->cancel_subject)))
                config_error(c->errors, path,
                             "overlaps services[%u].workers[%u].cancel_subject (%s)", i, w,
                             worker->cancel_subject);
        }
    }
}

static void check_against_earlier(const struct check *c, unsigned s, unsigned k)
{
    struct span subject = span_str(c->set->services[s].subjects[k]);
    char path[CONFIG_PATH_SIZE];

    path_of(path, s, "subjects", k, "");
    for (unsigned i = 0; i < s; i++) {
        const struct service_settings *other = &c->set->services[i];

        for (unsigned n = 0; n < other->subject_count; n++)
            if (subject_overlaps(subject, span_str(other->subjects[n])))
                config_error(c->errors, path,
                             "overlaps services[%u].subjects[%u] (%s), expected subjects that no "
                             "other service has",
                             i, n, other->subjects[n]);
    }
}

static void check_subjects(const struct check *c)
{
    unsigned total = 0;

    for (unsigned s = 0; s < c->set->service_count; s++)
        total += c->set->services[s].subject_count;
    if (total > SUBJECTS_MAX) {
        config_error(c->errors, "services", "expected at most %d subjects in all", SUBJECTS_MAX);
        return;
    }
    for (unsigned s = 0; s < c->set->service_count; s++) {
        for (unsigned k = 0; k < c->set->services[s].subject_count; k++) {
            const char *whose = reserved(c, span_str(c->set->services[s].subjects[k]));

            if (whose) {
                char path[CONFIG_PATH_SIZE];

                path_of(path, s, "subjects", k, "");
                config_error(c->errors, path, "overlaps %s", whose);
            }
            check_against_earlier(c, s, k);
            check_against_workers(c, s, k);
        }
    }
}

/* ---- names ---- */

static void check_service_names(const struct check *c)
{
    for (unsigned s = 0; s < c->set->service_count; s++) {
        for (unsigned i = 0; i < s; i++) {
            if (!same(c->set->services[i].name, c->set->services[s].name))
                continue;
            char path[CONFIG_PATH_SIZE];

            snprintf(path, sizeof path, "services[%u].name", s);
            config_error(c->errors, path, "is services[%u]'s name too, expected another", i);
            break;
        }
    }
}

/* Names the static worker that comes before (service, worker) and has that subject. */
static bool earlier_subject(const struct check *c, unsigned service, unsigned worker,
                            char found[64])
{
    const char *subject = c->set->services[service].workers[worker].subject;

    for (unsigned s = 0; s <= service; s++) {
        const struct service_settings *other = &c->set->services[s];
        unsigned end = s == service ? worker : other->worker_count;

        for (unsigned w = 0; w < end; w++) {
            if (same(other->workers[w].subject, subject)) {
                snprintf(found, 64, "services[%u].workers[%u]", s, w);
                return true;
            }
        }
    }
    return false;
}

static void check_workers(const struct check *c)
{
    unsigned total = 0;

    for (unsigned s = 0; s < c->set->service_count; s++)
        total += c->set->services[s].worker_count;
    if (total > c->set->limits.workers || total > SUBJECTS_MAX) {
        config_error(c->errors, "limits.workers",
                     "expected at least the %u static workers, and those at most %d", total,
                     SUBJECTS_MAX);
        return;
    }
    for (unsigned s = 0; s < c->set->service_count; s++) {
        const struct service_settings *service = &c->set->services[s];

        for (unsigned w = 0; w < service->worker_count; w++) {
            char path[CONFIG_PATH_SIZE], other[64];
            unsigned i = 0;

            while (i < w && !same(service->workers[i].id, service->workers[w].id))
                i++;
            if (i < w) {
                path_of(path, s, "workers", w, ".id");
                config_error(c->errors, path, "is workers[%u]'s id too, expected another", i);
            }
            if (earlier_subject(c, s, w, other)) {
                path_of(path, s, "workers", w, ".subject");
                config_error(c->errors, path, "is the subject of %s too, expected another", other);
            }
        }
    }
}

/* ---- contradictions ---- */

static double number_of(const struct check *c, const char *path, int service)
{
    const struct config_value *v = config_find(c->config, path, service, -1);

    return v && cJSON_IsNumber(v->value) ? v->value->valuedouble : 0;
}

static void check_services(const struct check *c)
{
    for (unsigned s = 0; s < c->set->service_count; s++) {
        const struct service_settings *service = &c->set->services[s];
        char path[CONFIG_PATH_SIZE];

        if (service->name && service->policy == POLICY_DIRECT &&
            !(service->accept & ACCEPT_TARGET)) {
            snprintf(path, sizeof path, "services[%u].accept", s);
            config_error(c->errors, path,
                         "expected \"target\" in it, because the policy is direct");
        }
        if (service->name && !service->heartbeats && service->worker_count == 0) {
            snprintf(path, sizeof path, "services[%u].workers", s);
            config_error(c->errors, path,
                         "expected at least one worker, because heartbeats is false");
        }
        if (number_of(c, "eject.min_ms", (int)s) > number_of(c, "eject.max_ms", (int)s)) {
            snprintf(path, sizeof path, "services[%u].eject.min_ms", s);
            config_error(c->errors, path, "expected at most eject.max_ms");
        }
    }
}

static void check_nats(const struct check *c)
{
    if (c->set->nats.cert && !c->set->nats.key)
        config_error(c->errors, "nats.key", "is missing, expected the key of nats.cert");
    if (c->set->nats.key && !c->set->nats.cert)
        config_error(c->errors, "nats.cert", "is missing, expected the certificate of nats.key");
}

/* Records and sessions in one bucket would share an age, and a key where a session is named as a
 * request. */
static void check_buckets(const struct check *c)
{
    if (same(c->set->sessions.bucket, c->set->attribution.bucket))
        config_error(c->errors, "sessions.bucket",
                     "is attribution.bucket (%s) too, expected another bucket",
                     c->set->attribution.bucket);
}

void config_check(const struct config *config, struct config_errors *errors)
{
    struct check c = {&config->settings, config, errors};

    check_nats(&c);
    check_buckets(&c);
    check_service_names(&c);
    check_services(&c);
    check_workers(&c);
    check_subjects(&c);
}

void config_check_built(const struct config *config, struct config_errors *errors,
                        void (*warn)(const char *path))
{
    for (unsigned i = 0; i < config->count; i++) {
        const struct config_value *v = &config->values[i];
        cJSON *fallback;
        char path[CONFIG_PATH_SIZE];

        if (v->key->built == BUILT || v->origin == ORIGIN_DEFAULT)
            continue;
        fallback = v->key->fallback ? cJSON_Parse(v->key->fallback) : NULL;
        config_value_path(v, path);
        if (fallback && cJSON_Compare(fallback, v->value, 1))
            ; /* says what holds anyway */
        else if (v->key->built == BUILT_INERT)
            warn(path);
        else if (v->key->fallback)
            config_error(errors, path, "not built in this version, expected %s or nothing",
                         v->key->fallback);
        else
            config_error(errors, path, "not built in this version, expected nothing");
        cJSON_Delete(fallback);
    }
}
