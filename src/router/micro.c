/* What the NATS micro protocol (ADR-32) asks: a router is one instance of the service `waybill`,
 * its id is the router's, and each subject of its services is an endpoint.
 *
 *   $SRV.<verb>                 all services in the account
 *   $SRV.<verb>.waybill         all routers
 *   $SRV.<verb>.waybill.<id>    this one
 *
 * Processing time runs from a request's receipt to its end here, waiting included. A request counts
 * for the service, so for its first endpoint; what clients sent to which of its subjects is not
 * kept apart. The reply subject is checked like any other from outside. */
#include "router/micro.h"

#include <stdio.h>

#include "base/loop.h"
#include "waybill/version.h"
#include "wire/json.h"
#include "wire/subject.h"

#define MICRO_NAME "waybill"
#define DESCRIPTION "routes requests to the workers of its services"

static void identity(struct router *r, struct json *j, const char *type)
{
    json_object(j, NULL);
    json_text(j, "type", span_str(type));
    json_text(j, "name", SPAN_LIT(MICRO_NAME));
    json_text(j, "id", r->id);
    json_text(j, "version", SPAN_LIT(WB_VERSION));
    json_object(j, "metadata");
    json_text(j, "prefix", r->prefix);
    json_end_object(j);
}

/* Names of endpoints are unique: "<service>", then "<service>-2" ... */
static void endpoint(struct json *j, const struct service *s, unsigned index)
{
    char name[WB_NAME_MAX + 16];

    json_object(j, NULL);
    if (index == 0)
        snprintf(name, sizeof name, "%s", s->settings->name);
    else
        snprintf(name, sizeof name, "%s-%u", s->settings->name, index + 1);
    json_text(j, "name", span_str(name));
    json_text(j, "subject", span_str(s->settings->subjects[index]));
    json_text(j, "queue_group", s->queue);
}

static void ping(struct router *r, struct json *j)
{
    identity(r, j, "io.nats.micro.v1.ping_response");
    json_end_object(j);
}

static void info(struct router *r, struct json *j)
{
    identity(r, j, "io.nats.micro.v1.info_response");
    json_text(j, "description", SPAN_LIT(DESCRIPTION));
    json_array(j, "endpoints");
    for (unsigned i = 0; i < r->service_count; i++) {
        const struct service *s = &r->services[i];

        for (unsigned k = 0; k < s->settings->subject_count; k++) {
            endpoint(j, s, k);
            json_object(j, "metadata");
            json_text(j, "service", s->name);
            json_text(j, "policy", span_str(policy_name(s->settings->policy)));
            json_end_object(j);
            json_end_object(j);
        }
    }
    json_end_array(j);
    json_end_object(j);
}

static void numbers(struct json *j, const struct service *s, bool first)
{
    uint64_t errors = 0, requests = first ? s->requests : 0;
    int64_t busy_ns = first ? s->busy_us * 1000 : 0;

    for (int e = WB_BAD_REQUEST; first && e < WB_STATUS_COUNT; e++)
        errors += s->errors[e];
    json_int(j, "num_requests", (int64_t)requests);
    json_int(j, "num_errors", (int64_t)errors);
    json_text(j, "last_error", first ? span_str(s->last_error) : SPAN_EMPTY);
    json_int(j, "processing_time", busy_ns);
    json_int(j, "average_processing_time", requests ? busy_ns / (int64_t)requests : 0);
}

static void stats(struct router *r, struct json *j)
{
    char started[WALL_TEXT_SIZE];

    identity(r, j, "io.nats.micro.v1.stats_response");
    wall_format((wall){r->started_ms * 1000}, started);
    json_text(j, "started", span_str(started));
    json_array(j, "endpoints");
    for (unsigned i = 0; i < r->service_count; i++) {
        const struct service *s = &r->services[i];

        for (unsigned k = 0; k < s->settings->subject_count; k++) {
            endpoint(j, s, k);
            numbers(j, s, k == 0);
            json_end_object(j);
        }
    }
    json_end_array(j);
    json_end_object(j);
}

static void on_question(void *arg, const struct lane_message *m)
{
    struct router *r = arg;
    struct span verb = subject_token(m->subject, 1);
    struct json j;

    if (m->reply.len == 0 || intake_refuses(r, m))
        return;
    buf_clear(&r->body_out);
    json_begin(&j, &r->body_out);
    if (span_eq_str(verb, "PING"))
        ping(r, &j);
    else if (span_eq_str(verb, "INFO"))
        info(r, &j);
    else
        stats(r, &j);
    if (json_status(&j) != WB_OK ||
        lane_publish(r->front, m->reply, SPAN_EMPTY, SPAN_EMPTY, buf_span(&r->body_out)) != WB_OK)
        router_count(r, COUNT_CLIENT_LOST);
}

void micro_start(struct router *r)
{
    static const char *const verbs[] = {"PING", "INFO", "STATS"};
    char subject[WB_NAME_MAX + 32];

    for (unsigned i = 0; i < 3; i++) {
        snprintf(subject, sizeof subject, "$SRV.%s", verbs[i]);
        lane_subscribe(r->front, span_str(subject), SPAN_EMPTY, on_question, r);
        snprintf(subject, sizeof subject, "$SRV.%s.%s", verbs[i], MICRO_NAME);
        lane_subscribe(r->front, span_str(subject), SPAN_EMPTY, on_question, r);
        snprintf(subject, sizeof subject, "$SRV.%s.%s.%s", verbs[i], MICRO_NAME, r->settings->id);
        lane_subscribe(r->front, span_str(subject), SPAN_EMPTY, on_question, r);
    }
}
