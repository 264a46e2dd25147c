/* The routers and the workers, as the routers tell. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "wire/json_read.h"

/* Counts that say that something is wrong, or was. */
static const struct trouble {
    const char *count;
    enum verdict verdict;
    const char *what, *advice;
} troubles[] = {
    {"attribution_failed", VERDICT_WARN, "records could not be written",
     "the router's log says why; look at the bucket's room and rights"},
    {"attribution_dropped", VERDICT_WARN, "records were dropped: the backlog was full",
     "JetStream is too slow or was away: look at the server's disk"},
    {"attribution_backlog", VERDICT_WARN, "records wait to be written",
     "once is nothing; if it stays, JetStream is slow or away"},
    {"heartbeats_malformed", VERDICT_WARN, "heartbeats were malformed",
     "the router's log names the worker; schemas/heartbeat.schema.json tells the form"},
    {"heartbeats_ignored", VERDICT_WARN, "heartbeats were ignored",
     "a worker names a service that no router has, or stands in the configuration as static"},
    {"duplicate_worker", VERDICT_WARN, "heartbeats came from a second worker of the same id",
     "give each worker an id of its own"},
    {"reply_subject_refused", VERDICT_WARN, "messages had a hostile reply subject",
     "the router's log names them: somebody tries to misuse the router's rights"},
    {"answers_dropped", VERDICT_WARN, "answers could not be sent to their client",
     "the router may lack the right to publish the clients' inbox prefix"},
};

#define BACKLOG_ALLOWED 1000

static void find_troubles(struct doctor *d, const char *router, const cJSON *counts)
{
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        const struct trouble *t = &troubles[i];
        double n = admin_number(counts, t->count);
        bool waits = strcmp(t->count, "attribution_backlog") == 0;
        if (n > (waits ? BACKLOG_ALLOWED : 0))
            doctor_find(d, t->verdict, "router", t->advice, "%s: %.0f %s", router, n, t->what);
    }
}

static void find_router(struct doctor *d, unsigned index)
{
    const cJSON *reply = d->stats.items[index],
                *counts = cJSON_GetObjectItemCaseSensitive(reply, "counts"),
                *sessions = cJSON_GetObjectItemCaseSensitive(reply, "sessions");
    const char *router = admin_text(reply, "router");
    doctor_find(d, VERDICT_OK, "router", NULL,
                "%s answers: %.0f requests, %.0f answered, %.0f in flight, %.0f waiting", router,
                admin_number(counts, "requests"), admin_number(counts, "answered"),
                admin_number(counts, "in_flight"), admin_number(counts, "waiting"));
    for (unsigned i = 0; i < index; i++)
        if (strcmp(router, admin_text(d->stats.items[i], "router")) == 0)
            doctor_find(d, VERDICT_FAIL, "router", "give each router an id of its own (router.id)",
                        "two routers are called %s: each gets the other's answers", router);
    if (cJSON_IsObject(sessions) &&
        !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(sessions, "shared")))
        doctor_find(d, VERDICT_WARN, "router",
                    "two routers may now bind one session to two workers: look at bucket "
                    "waybill_sessions and the router's rights",
                    "%s does not share its sessions", router);
    find_troubles(d, router, counts);
}

/* The same policy and key choose the same worker only where all routers are of one version. */
static void find_versions(struct doctor *d)
{
    struct admin_replies pings;
    const char *first = NULL, *other = NULL;
    if (admin_ask_subject(&d->link, "$SRV.PING.waybill", "", d->args->timeout_ms, d->stats.count,
                          &pings) == EXIT_FINE)
        first = admin_text(pings.items[0], "version");
    for (unsigned i = 1; first != NULL && i < pings.count; i++)
        if (strcmp(admin_text(pings.items[i], "version"), first) != 0)
            other = admin_text(pings.items[i], "version");
    if (first != NULL)
        doctor_find(d, other != NULL ? VERDICT_WARN : VERDICT_OK, "versions",
                    other != NULL ? "with policy hash they may choose differently: bring all to one"
                                  : NULL,
                    "%u of %u routers answer on $SRV, version %s%s%s", pings.count, d->stats.count,
                    first, other != NULL ? " and " : "", other != NULL ? other : "");
    admin_fini(&pings);
}

void doctor_routers(struct doctor *d)
{
    int code = admin_ask(&d->link, "show.stats", NULL, "{}", d->args->timeout_ms, ADMIN_REPLIES_MAX,
                         &d->stats);
    if (code != EXIT_FINE) {
        doctor_find(
            d, VERDICT_FAIL, "router",
            "start waybilld, or name another --prefix; a router in another account does not "
            "hear this one",
            "none answers on %s.admin.show.stats", d->link.prefix);
        return;
    }
    for (unsigned i = 0; i < d->stats.count; i++)
        find_router(d, i);
    find_versions(d);
}

static const char *worker_advice(const char *standing)
{
    if (strcmp(standing, "ejected") == 0)
        return "it did not answer: look at its process; an answer or a fresh heartbeat restores it";
    if (strcmp(standing, "overloaded") == 0 || strcmp(standing, "full") == 0 ||
        strcmp(standing, "busy") == 0)
        return "it has all it can do: more workers, or more capacity";
    if (strcmp(standing, "unknown") == 0)
        return "it is configured but was not heard of: is it running, with this prefix and id?";
    return NULL;
}

static void find_worker(struct doctor *d, const char *router, const char *service,
                        const cJSON *worker)
{
    const char *standing = admin_text(worker, "standing");
    const cJSON *heard = cJSON_GetObjectItemCaseSensitive(worker, "heard_ms_ago");
    char ago[48] = "never heard of";
    if (cJSON_IsNumber(heard))
        snprintf(ago, sizeof(ago), "heard of %.1f s ago", heard->valuedouble / 1000);
    bool lame = strcmp(standing, "ejected") == 0 || strcmp(standing, "unknown") == 0;
    doctor_find(d, lame ? VERDICT_WARN : VERDICT_OK, "worker", worker_advice(standing),
                "%s of %s, by %s: %s, %s", admin_text(worker, "id"), service, router, standing,
                ago);
}

static void find_service(struct doctor *d, const char *router, const cJSON *service)
{
    const char *name = admin_text(service, "service");
    double discovered = admin_number(service, "discovered"),
           routable = admin_number(service, "routable"), idle = admin_number(service, "free");
    const cJSON *worker;
    if (d->wanted.service[0] == '\0')
        snprintf(d->wanted.service, sizeof(d->wanted.service), "%s", name);
    if (discovered == 0 || routable == 0)
        doctor_find(d, VERDICT_FAIL, "service",
                    discovered == 0 ? "start a worker; if one runs, look at its --service, prefix "
                                      "and right to publish heartbeats"
                                    : "all are draining or ejected: look at them",
                    "%s, by %s: %.0f workers discovered, none routable: requests get no_worker",
                    name, router, discovered);
    else
        doctor_find(d, idle > 0 ? VERDICT_OK : VERDICT_WARN, "service",
                    idle > 0 ? NULL : "all are busy: more workers, or a queue (queue.limit)",
                    "%s, by %s: %.0f workers discovered, %.0f routable, %.0f free", name, router,
                    discovered, routable, idle);
    cJSON_ArrayForEach(worker, cJSON_GetObjectItemCaseSensitive(service, "workers"))
        find_worker(d, router, name, worker);
}

static double discovered_by(const cJSON *reply, const char *service)
{
    const cJSON *one;
    cJSON_ArrayForEach(one,
                       cJSON_GetObjectItemCaseSensitive(
                           reply, "services")) if (strcmp(admin_text(one, "service"), service) ==
                                                   0) return admin_number(one, "discovered");
    return -1;
}

/* Routers that do not hear the same heartbeats. */
static void find_disagreement(struct doctor *d)
{
    const cJSON *service;
    for (unsigned i = 1; i < d->workers.count; i++) {
        const cJSON *reply = d->workers.items[i];
        cJSON_ArrayForEach(service, cJSON_GetObjectItemCaseSensitive(reply, "services"))
        {
            const char *name = admin_text(service, "service");
            double here = admin_number(service, "discovered"),
                   there = discovered_by(d->workers.items[0], name);
            if (there >= 0 && here != there)
                doctor_find(
                    d, VERDICT_WARN, "service",
                    "right after a start it is nothing; else look at the routes between the "
                    "servers and the routers' right to subscribe heartbeats",
                    "%s: %s knows %.0f workers, %s %.0f", name, admin_text(reply, "router"), here,
                    admin_text(d->workers.items[0], "router"), there);
        }
    }
}

void doctor_workers(struct doctor *d)
{
    const cJSON *service;
    if (d->stats.count == 0 || admin_ask(&d->link, "show.workers", NULL, "{}", d->args->timeout_ms,
                                         d->stats.count, &d->workers) != EXIT_FINE)
        return;
    for (unsigned i = 0; i < d->workers.count; i++)
        cJSON_ArrayForEach(service,
                           cJSON_GetObjectItemCaseSensitive(d->workers.items[i], "services"))
            find_service(d, admin_text(d->workers.items[i], "router"), service);
    find_disagreement(d);
}
