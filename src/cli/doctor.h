/* waybill doctor: what its parts share. Each part looks at one thing and tells findings, in order.
 * Nothing is changed and no worker gets a message: rights to publish are tried without publishing
 * (doctor_rights.c). Private to the doctor. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <cjson/cJSON.h>

#include "cli/admin.h"
#include "waybill/types.h"
#include "wire/json.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL, VERDICTS };

struct doctor_args {
    struct common common;
    const char *role, *service, *worker, *router, *config;
    struct option_list subjects;
    int64_t timeout_ms;
};

/* What a bucket should be: the router's defaults, or what its configuration says. */
struct wanted_bucket {
    char name[WB_NAME_MAX + 1];
    int64_t ttl_s, history, max_bytes, replicas; /* ttl_s 0: nobody says */
    char storage[8];
    bool is_used;
};

#define WANTED_SUBJECTS_MAX 64
struct wanted {
    struct wanted_bucket records, sessions;
    char prefix[WB_NAME_MAX + 1], service[WB_NAME_MAX + 1];
    char *subjects[WANTED_SUBJECTS_MAX]; /* of the services */
    unsigned subject_count;
};

/* Defaults, then the file (JSON with comments; NULL: none). False: it has said on stderr why. */
bool wanted_read(const char *file, struct wanted *out);
void wanted_add(struct wanted *w, const char *subject); /* one over the bound is left out */
void wanted_fini(struct wanted *w);

struct doctor {
    const struct doctor_args *args;
    struct wanted wanted;
    struct link link;
    struct admin_replies stats, workers; /* of all routers */
    struct buf text;
    struct json json; /* the findings, with --json */
    unsigned counts[VERDICTS];
    bool has_jetstream;
};

/* One finding: which check, what is the case, what to do about it (NULL: nothing). */
void doctor_find(struct doctor *d, enum verdict verdict, const char *check, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

enum answer { ANSWER_GOOD, ANSWER_NOBODY, ANSWER_DENIED, ANSWER_SILENCE };
/* A question to which the answer is JSON; *out is the caller's to delete, NULL unless
 * ANSWER_GOOD. */
enum answer doctor_ask(struct doctor *d, const char *subject, const char *body, cJSON **out);
/* A member by its way through objects, "config.max_age". NULL: it is not there. */
const cJSON *doctor_member(const cJSON *tree, const char *way);
/* JetStream's error code in an answer, 0: none. */
int doctor_js_error(const cJSON *answer);

void doctor_server(struct doctor *d);  /* its version, the way to it */
void doctor_streams(struct doctor *d); /* JetStream, streams that capture worker subjects */
void doctor_buckets(struct doctor *d);
void doctor_rights(struct doctor *d);
void doctor_routers(struct doctor *d);
void doctor_workers(struct doctor *d);
void doctor_blindness(struct doctor *d); /* is a 503 to be had? */
void doctor_clocks(struct doctor *d);

/* May these credentials publish there? Nothing is published. False in *sure: the server does not
 * say. */
bool doctor_may_publish(struct doctor *d, const char *subject, bool *sure);

#endif
