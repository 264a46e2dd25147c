/* Clocks: of this machine, the NATS server, routers and workers.
 *
 * The server's: newer ones (2.10) date an answer of STREAM.INFO. A router's: what its records say
 * against when the server took them; the smallest difference of several is closest, since a write
 * takes time but never less than none. A worker's: its epoch is the time of its start. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/records.h"

#define WARN_MS 1000
#define FAIL_MS 60000
#define LATE_MS 5000     /* a write may take so long */
#define EPOCHS_FROM 1e12 /* a smaller one is a count, not a time */
#define ROUTERS_MAX 64
#define ADVICE "let all machines keep time (chrony, systemd-timesyncd)"

struct router_clock {
    char id[WB_NAME_MAX + 1];
    int64_t ahead_us; /* of the server's, at most */
    unsigned records;
};

struct clocks {
    struct doctor *d;
    struct router_clock routers[ROUTERS_MAX];
    unsigned count;
    int64_t newest_us; /* the server's time of the newest record; 0: none */
};

static enum verdict verdict_of(int64_t off_ms)
{
    return off_ms > FAIL_MS ? VERDICT_FAIL : off_ms > WARN_MS ? VERDICT_WARN : VERDICT_OK;
}

static void note(struct clocks *c, const struct revision *r)
{
    const char *id = admin_text(r->record, "router"), *end = admin_text(r->record, "finished_at");
    wall written, told;
    bool timed = revision_time(r->at, &written);
    if (timed && written.us > c->newest_us)
        c->newest_us = written.us;
    if (revision_time(end, &told)) {
        /* a stream's end: that is what the write followed */
    } else if (revision_time(admin_text(r->record, "received_at"), &told))
        told.us += (int64_t)admin_number(r->record, "first_reply_us");
    else
        return;
    if (!timed || strlen(id) > WB_NAME_MAX)
        return;
    unsigned i = 0;
    while (i < c->count && strcmp(c->routers[i].id, id) != 0)
        i++;
    if (i == ROUTERS_MAX)
        return;
    struct router_clock *router = &c->routers[i];
    if (i == c->count) {
        c->count++;
        snprintf(router->id, sizeof(router->id), "%s", id);
        router->ahead_us = INT64_MIN;
    }
    router->records++;
    if (told.us - written.us > router->ahead_us)
        router->ahead_us = told.us - written.us;
}

/* The last 64 revisions at most. */
static void read_records(struct clocks *c)
{
    struct revision got[RECORDS_BATCH_MAX];
    struct records r;
    unsigned used = 0;
    struct doctor *d = c->d;
    enum found found = records_open(&r, &d->link, d->wanted.records.name, d->args->timeout_ms);
    if (found == FOUND_ONE)
        found = records_last(&r, ">", &got[0]);
    if (found == FOUND_ONE) {
        uint64_t last = got[0].seq;
        revision_fini(&got[0]);
        found = records_batch(&r, ">", last > RECORDS_BATCH_MAX ? last - RECORDS_BATCH_MAX + 1 : 1,
                              RECORDS_BATCH_MAX, got, &used);
        (void)found; /* fewer tell as well */
    }
    for (unsigned i = 0; i < used; i++) {
        note(c, &got[i]);
        revision_fini(&got[i]);
    }
    records_close(&r);
}

static void find_routers(struct clocks *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        const struct router_clock *r = &c->routers[i];
        bool ahead = r->ahead_us > 0;
        int64_t off_ms = (ahead ? r->ahead_us : -r->ahead_us) / 1000;
        enum verdict v = verdict_of(ahead || off_ms < LATE_MS ? (ahead ? off_ms : 0) : off_ms);
        if (v == VERDICT_OK)
            doctor_find(c->d, v, "clock of a router", NULL,
                        "%s agrees with the server's, as its last %u records tell", r->id,
                        r->records);
        else
            doctor_find(c->d, v, "clock of a router",
                        ahead ? ADVICE : ADVICE ", or find out why its records are written so late",
                        "%s is %.3f s %s the server's", r->id, (double)off_ms / 1000,
                        ahead ? "ahead of" : "behind");
    }
    if (c->count == 0)
        doctor_find(c->d, VERDICT_OK, "clock of a router", NULL,
                    "not known: there is no record to tell");
}

static void find_server(struct clocks *c)
{
    char subject[WB_SUBJECT_MAX + 1];
    cJSON *info;
    wall before = clock_wall(), server;
    snprintf(subject, sizeof(subject), "$JS.API.STREAM.INFO.KV_%s", c->d->wanted.records.name);
    enum answer got = doctor_ask(c->d, subject, "", &info);
    wall after = clock_wall();
    bool told = got == ANSWER_GOOD && revision_time(admin_text(info, "ts"), &server);
    cJSON_Delete(info);
    if (!told)
        server.us = c->newest_us > after.us ? c->newest_us : after.us;
    int64_t ahead_us = server.us > after.us    ? server.us - after.us
                       : server.us < before.us ? server.us - before.us
                                               : 0;
    int64_t off_ms = (ahead_us > 0 ? ahead_us : -ahead_us) / 1000;
    if (verdict_of(off_ms) != VERDICT_OK)
        doctor_find(c->d, verdict_of(off_ms), "clock of the server", ADVICE,
                    "%.3f s %s this machine's", (double)off_ms / 1000,
                    ahead_us > 0 ? "ahead of" : "behind");
    else if (told)
        doctor_find(c->d, VERDICT_OK, "clock of the server", NULL, "agrees with this machine's");
    else
        doctor_find(c->d, VERDICT_OK, "clock of the server", NULL,
                    "not told by this server; by its records it is not ahead");
}

static void find_worker(struct doctor *d, const char *service, const cJSON *worker, wall now)
{
    double epoch_ms = admin_number(worker, "epoch"), off_ms = epoch_ms - (double)now.us / 1000;
    if (epoch_ms < EPOCHS_FROM || off_ms <= WARN_MS)
        return;
    doctor_find(d, VERDICT_WARN, "clock of a worker",
                ADVICE ": restarted with a right clock, it would be taken for its own predecessor",
                "%s of %s began %.3f s after now by this machine's clock", admin_text(worker, "id"),
                service, off_ms / 1000);
}

static void find_workers(struct doctor *d)
{
    const cJSON *service, *worker;
    wall now = clock_wall();
    unsigned before = d->counts[VERDICT_WARN];
    if (d->workers.count == 0)
        return;
    for (unsigned i = 0; i < d->workers.count && before == d->counts[VERDICT_WARN]; i++)
        cJSON_ArrayForEach(service,
                           cJSON_GetObjectItemCaseSensitive(d->workers.items[i], "services"))
            cJSON_ArrayForEach(worker, cJSON_GetObjectItemCaseSensitive(service, "workers"))
                find_worker(d, admin_text(service, "service"), worker, now);
    if (before == d->counts[VERDICT_WARN])
        doctor_find(d, VERDICT_OK, "clock of a worker", NULL, "none began in the future");
}

void doctor_clocks(struct doctor *d)
{
    struct clocks c = {.d = d};
    read_records(&c);
    find_server(&c);
    find_routers(&c);
    find_workers(d);
}
