/* The buckets: there, as wanted, with room; and the clocks, as far as records and the server tell.
 */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/records.h"
#include "wire/json_read.h"

#define JS_NO_STREAM 10059
#define NS_PER_S 1e9
#define FULL_PERCENT 95
#define FILLING_PERCENT 80

static double number(const cJSON *info, const char *way)
{
    const cJSON *n = doctor_member(info, way);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static bool is_true(const cJSON *info, const char *way)
{
    return cJSON_IsTrue(doctor_member(info, way));
}

/* A number of the routers' counts, summed. */
static double routers_count(const struct doctor *d, const char *name)
{
    double sum = 0;
    for (unsigned i = 0; i < d->stats.count; i++)
        sum += admin_number(cJSON_GetObjectItemCaseSensitive(d->stats.items[i], "counts"), name);
    return sum;
}

static void find_missing(struct doctor *d, const struct wanted_bucket *b, bool is_records)
{
    double lost = routers_count(d, "attribution_failed") + routers_count(d, "attribution_dropped") +
                  routers_count(d, "attribution_backlog");
    if (!b->is_used)
        doctor_find(d, VERDICT_OK, "bucket", NULL, "%s does not exist, and nobody needs it",
                    b->name);
    else if (is_records && lost > 0)
        doctor_find(d, VERDICT_FAIL, "bucket",
                    "the routers' logs say why they cannot create it: the right to "
                    "$JS.API.STREAM.CREATE, or no room",
                    "%s does not exist, and %.0f records wait or are lost", b->name, lost);
    else
        doctor_find(
            d, VERDICT_WARN, "bucket",
            "the first router that needs it creates it; attribution.write \"off\" needs none",
            "%s does not exist", b->name);
}

static void find_room(struct doctor *d, const cJSON *info, const struct wanted_bucket *b)
{
    double max = number(info, "config.max_bytes"), bytes = number(info, "state.bytes"),
           percent = max > 0 ? bytes * 100 / max : 0;
    enum verdict v = percent >= FULL_PERCENT      ? VERDICT_FAIL
                     : percent >= FILLING_PERCENT ? VERDICT_WARN
                                                  : VERDICT_OK;
    if (max <= 0)
        doctor_find(d, VERDICT_WARN, "bucket room",
                    "give it a max_bytes, or the disk decides (nats stream edit --max-bytes)",
                    "%s is not limited; it holds %.0f bytes", b->name, bytes);
    else
        doctor_find(d, v, "bucket room",
                    v == VERDICT_OK ? NULL
                                    : "a full bucket takes nothing, not even deletes: raise "
                                      "max_bytes, or shorten max_age (nats stream edit)",
                    "%s is %.1f %% full: %.0f of %.0f bytes, %.0f keys", b->name, percent, bytes,
                    max, number(info, "state.num_subjects"));
}

static void find_setting(struct doctor *d, const struct wanted_bucket *b, const char *what,
                         double is, double wanted)
{
    if (is != wanted)
        doctor_find(d, VERDICT_WARN, "bucket settings",
                    "waybilld never changes an existing bucket: nats stream edit, or tell the "
                    "doctor what is wanted with --config",
                    "%s: %s is %.0f, wanted is %.0f", b->name, what, is, wanted);
}

static void find_settings(struct doctor *d, const cJSON *info, const struct wanted_bucket *b)
{
    unsigned warned = d->counts[VERDICT_WARN], failed = d->counts[VERDICT_FAIL];
    const cJSON *storage = doctor_member(info, "config.storage");
    const char *kind = cJSON_IsString(storage) ? storage->valuestring : "-";
    find_setting(d, b, "history", number(info, "config.max_msgs_per_subject"), (double)b->history);
    if (b->ttl_s > 0)
        find_setting(d, b, "ttl_s", number(info, "config.max_age") / NS_PER_S, (double)b->ttl_s);
    find_setting(d, b, "replicas", number(info, "config.num_replicas"), (double)b->replicas);
    if (number(info, "config.max_bytes") > 0)
        find_setting(d, b, "max_bytes", number(info, "config.max_bytes"), (double)b->max_bytes);
    if (strcmp(kind, b->storage) != 0)
        doctor_find(d, VERDICT_WARN, "bucket settings", "storage cannot be edited: make it anew",
                    "%s: storage is %s, wanted is %s", b->name, kind, b->storage);
    if (is_true(info, "config.sealed"))
        doctor_find(d, VERDICT_FAIL, "bucket settings",
                    "a sealed stream takes nothing: make it anew", "%s is sealed", b->name);
    if (!is_true(info, "config.allow_direct"))
        doctor_find(d, VERDICT_WARN, "bucket settings", "nats stream edit --allow-direct",
                    "%s: allow_direct is off", b->name);
    if (warned == d->counts[VERDICT_WARN] && failed == d->counts[VERDICT_FAIL])
        doctor_find(d, VERDICT_OK, "bucket settings", NULL,
                    "%s: history %.0f, ttl %.0f s, %s, replicas %.0f", b->name,
                    number(info, "config.max_msgs_per_subject"),
                    number(info, "config.max_age") / NS_PER_S, kind,
                    number(info, "config.num_replicas"));
}

static void find_replicas(struct doctor *d, const cJSON *info, const struct wanted_bucket *b)
{
    const cJSON *one, *cluster = doctor_member(info, "cluster");
    if (number(info, "config.num_replicas") <= 1)
        return;
    if (!cJSON_IsString(doctor_member(cluster, "leader")))
        doctor_find(d, VERDICT_FAIL, "bucket replicas", "start the servers that are missing",
                    "%s has no leader: nothing can be written", b->name);
    cJSON_ArrayForEach(one, doctor_member(cluster, "replicas"))
    {
        bool away = is_true(one, "offline"), behind = !is_true(one, "current");
        if (away || behind)
            doctor_find(d, VERDICT_WARN, "bucket replicas", "look at that server",
                        "%s: the replica on %s is %s", b->name, admin_text(one, "name"),
                        away ? "offline" : "behind");
    }
}

static void find_bucket(struct doctor *d, const struct wanted_bucket *b, bool is_records)
{
    char subject[WB_SUBJECT_MAX + 1], advice[WB_SUBJECT_MAX + 1];
    cJSON *info;
    snprintf(subject, sizeof(subject), "$JS.API.STREAM.INFO.KV_%s", b->name);
    enum answer got = doctor_ask(d, subject, "", &info);
    int error = doctor_js_error(info);
    snprintf(advice, sizeof(advice), "give these credentials the right to publish %.400s", subject);
    if (got == ANSWER_DENIED)
        doctor_find(d, VERDICT_WARN, "bucket", advice, "%s cannot be looked at: no right", b->name);
    else if (error == JS_NO_STREAM)
        find_missing(d, b, is_records);
    else if (got != ANSWER_GOOD || error != 0)
        doctor_find(d, VERDICT_FAIL, "bucket", "look at the server's log: it may have no leader",
                    "%s: no good answer in time (error %d)", b->name, error);
    else {
        doctor_find(d, VERDICT_OK, "bucket", NULL, "%s exists", b->name);
        find_settings(d, info, b);
        find_room(d, info, b);
        find_replicas(d, info, b);
    }
    cJSON_Delete(info);
}

void doctor_buckets(struct doctor *d)
{
    for (unsigned i = 0; i < d->stats.count; i++)
        if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(d->stats.items[i], "sessions")))
            d->wanted.sessions.is_used = true;
    find_bucket(d, &d->wanted.records, true);
    find_bucket(d, &d->wanted.sessions, false);
}
