/* May these credentials do what their role needs (spec section 2), and no more?
 *
 * A right to publish is tried without publishing: the message's reply subject begins with "_R_.",
 * which a server keeps for itself. It looks at the right first and then refuses the reply subject,
 * so either refusal tells and nothing is delivered. Should a server not refuse it, the first try
 * shows that, and no other is made; the first of each role is one that nobody would mind.
 *
 * A right to subscribe is tried by a subscription that is given up at once. Both leave a line of a
 * violation in the server's log. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "wire/subject.h"

enum need { NEED, WISH, MUST_NOT };

struct right {
    const char *role;
    bool subscribe;
    enum need need;
    const char *subject; /* {p} prefix, {s} service, {w} worker, {o} another worker, {r} router, {b}
                            each bucket, {u} each request subject, {i} own inbox, {x} nobody */
    const char *why;
};

static const struct right rights[] = {
    {"operator", false, NEED, "$SRV.PING.waybill", "nats micro finds the routers"},
    {"operator", false, NEED, "$SRV.INFO.waybill", "nats micro info"},
    {"operator", false, NEED, "$SRV.STATS.waybill", "nats micro stats"},
    {"operator", false, NEED, "{p}.admin.show.workers", "waybill workers"},
    {"operator", false, NEED, "{p}.admin.show.stats", "waybill stats"},
    {"operator", false, NEED, "{p}.admin.show.sessions", "waybill sessions"},
    {"operator", false, WISH, "{p}.admin.do.cancel", "waybill cancel"},
    {"operator", false, WISH, "{p}.admin.do.unbind", "waybill sessions unbind"},
    {"operator", false, NEED, "$JS.API.STREAM.NAMES", "which streams capture worker subjects"},
    {"operator", false, NEED, "$JS.API.STREAM.MSG.GET.KV_{b}", "waybill who, trace and watch"},
    {"operator", false, WISH, "$JS.API.STREAM.INFO.KV_{b}", "a bucket's settings"},
    {"operator", false, WISH, "$JS.API.DIRECT.GET.KV_{b}", "nats kv get"},
    {"operator", true, NEED, "{i}.{x}", "get answers"},
    {"operator", true, NEED, "{p}.event.>", "events of the routers"},
    {"operator", false, MUST_NOT, "$KV.{b}.{x}", "forge a record"},
    {"operator", false, MUST_NOT, "$JS.API.STREAM.DELETE.KV_{b}", "delete the bucket"},
    {"operator", false, MUST_NOT, "$JS.API.CONSUMER.CREATE.KV_{b}",
     "have records pushed into any subject"},
    {"operator", false, MUST_NOT, "{p}.reply.{s}.{x}.{x}.{x}", "forge a worker's answer"},
    {"client", false, NEED, "{p}.cancel.{s}.{x}", "cancel its requests"},
    {"client", false, NEED, "{u}", "send requests"},
    {"client", true, NEED, "{i}.{x}", "get answers"},
    {"client", false, MUST_NOT, "{p}.worker.{s}.{x}", "go past the routers"},
    {"client", false, MUST_NOT, "{p}.reply.{s}.{x}.{x}.{x}", "forge a worker's answer"},
    {"client", false, MUST_NOT, "{p}.heartbeat.{s}.{x}", "pose as a worker"},
    {"client", false, MUST_NOT, "{p}.admin.do.cancel", "cancel requests of others"},
    {"client", false, MUST_NOT, "$KV.{b}.{x}", "forge a record"},
    {"client", true, MUST_NOT, "{p}.worker.>", "read requests of others"},
    {"worker", false, NEED, "{p}.reply.{s}.{w}.{x}.{x}", "answer"},
    {"worker", false, NEED, "{p}.heartbeat.{s}.{w}", "be discovered (a static one needs it not)"},
    {"worker", true, NEED, "{p}.worker.{s}.{w}", "get requests"},
    {"worker", true, NEED, "{p}.worker.{s}.{w}.cancel", "hear that an attempt is given up"},
    {"worker", true, NEED, "{p}.announce", "be discovered at once by a router that starts"},
    {"worker", false, MUST_NOT, "{p}.reply.{s}.{o}.{x}.{x}", "answer for another worker"},
    {"worker", false, MUST_NOT, "{p}.heartbeat.{s}.{o}", "pose as another worker"},
    {"worker", false, MUST_NOT, "{p}.worker.{s}.{o}", "send requests to another worker"},
    {"worker", false, MUST_NOT, "{p}.admin.do.cancel", "cancel requests"},
    {"worker", false, MUST_NOT, "$KV.{b}.{x}", "forge a record"},
    {"worker", true, MUST_NOT, "{p}.worker.{s}.{o}", "read another worker's requests"},
    {"static", false, NEED, "{p}.reply.{s}.{w}.{x}.{x}", "answer"},
    {"static", true, NEED, "{u}", "get requests"},
    {"static", false, MUST_NOT, "{p}.reply.{s}.{o}.{x}.{x}", "answer for another worker"},
    {"static", false, MUST_NOT, "{p}.worker.{s}.{o}", "send requests to another worker"},
    {"static", false, MUST_NOT, "{p}.admin.do.cancel", "cancel requests"},
    {"static", false, MUST_NOT, "$KV.{b}.{x}", "forge a record"},
    {"static", true, MUST_NOT, "{p}.worker.{s}.{o}", "read another worker's requests"},
    {"router", false, NEED, "{p}.event.doctor", "tell events"},
    {"router", false, NEED, "{p}.announce", "ask workers for heartbeats"},
    {"router", false, NEED, "{p}.worker.{s}.{x}", "send requests to workers"},
    {"router", false, NEED, "{p}.worker.{s}.{x}.cancel", "tell a worker to stop"},
    {"router", false, NEED, "_INBOX.{x}", "answer clients and operators"},
    {"router", false, NEED, "$JS.API.STREAM.NAMES", "find streams that capture worker subjects"},
    {"router", false, NEED, "$KV.{b}.{x}", "write records and bindings"},
    {"router", false, NEED, "$JS.API.STREAM.INFO.KV_{b}", "find the bucket"},
    {"router", false, NEED, "$JS.API.STREAM.CREATE.KV_{b}", "create the bucket"},
    {"router", false, NEED, "$JS.API.STREAM.MSG.GET.KV_{b}", "read a record"},
    {"router", false, NEED, "$JS.API.DIRECT.GET.KV_{b}.{x}", "read a binding"},
    {"router", false, NEED, "$JS.API.CONSUMER.CREATE.KV_{b}.{x}", "watch the bucket"},
    {"router", false, NEED, "$JS.API.CONSUMER.DELETE.KV_{b}.{x}", "end a watch"},
    {"router", false, NEED, "$JS.FC.KV_{b}.{x}", "keep a watch flowing"},
    {"router", true, NEED, "{u}", "get requests"},
    {"router", true, NEED, "{p}.reply.*.*.{r}.*", "get workers' answers"},
    {"router", true, NEED, "{p}.heartbeat.*.*", "discover workers"},
    {"router", true, NEED, "{p}.cancel.>", "hear clients cancel"},
    {"router", true, NEED, "{p}.gone.{r}.*", "hear that a client left"},
    {"router", true, NEED, "{p}.inbox.{r}.>", "hear acknowledgements of the buckets"},
    {"router", true, NEED, "{p}.admin.show.>", "be looked at"},
    {"router", true, NEED, "{p}.admin.do.>", "be steered"},
    {"router", true, NEED, "$SRV.PING", "be seen by nats micro"},
    {"router", true, NEED, "$SRV.PING.waybill", "be seen by nats micro"},
};
#define RIGHTS (sizeof(rights) / sizeof(rights[0]))
#define FLUSH_MS 5000

#define EXCESS_MAX 32

struct trial {
    struct doctor *d;
    unsigned excess, excess_tried;
    const struct right *too_many[EXCESS_MAX];
    char subjects[EXCESS_MAX][WB_SUBJECT_MAX + 1];
    bool deaf; /* this server does not tell: no more tries */
};

bool doctor_may_publish(struct doctor *d, const char *subject, bool *sure)
{
    static unsigned tries;
    char reply[64];
    *sure = true;
    snprintf(reply, sizeof(reply), "_R_.waybill.doctor.%u", ++tries);
    if (natsConnection_PublishRequestString(d->link.nc, subject, reply, "") != NATS_OK ||
        natsConnection_FlushTimeout(d->link.nc, FLUSH_MS) != NATS_OK) {
        *sure = false;
        return false;
    }
    if (link_denied(&d->link, subject))
        return false;
    *sure = link_denied(&d->link, reply);
    return *sure;
}

static bool may_subscribe(struct doctor *d, const char *subject)
{
    natsSubscription *sub = NULL;
    natsStatus s = natsConnection_SubscribeSync(&sub, d->link.nc, subject);
    natsSubscription_Destroy(sub);
    return s == NATS_OK && natsConnection_FlushTimeout(d->link.nc, FLUSH_MS) == NATS_OK &&
           !link_denied(&d->link, subject);
}

/* A wildcard cannot be published: what a request under it might be called. */
static void make_literal(char *subject)
{
    for (char *c = subject; *c != '\0'; c++)
        if ((*c == '*' || *c == '>') && (c == subject || c[-1] == '.'))
            *c = 'x';
}

static void expand(const struct doctor *d, const struct right *r, const char *bucket,
                   const char *subject, char out[WB_SUBJECT_MAX + 1])
{
    const struct doctor_args *args = d->args;
    size_t used = 0;
    for (const char *c = r->subject; *c != '\0' && used < WB_SUBJECT_MAX; c++) {
        const char *put = NULL;
        if (*c != '{') {
            out[used++] = *c;
            continue;
        }
        switch (c[1]) {
        case 'p':
            put = d->link.prefix;
            break;
        case 's':
            put = d->wanted.service[0] != '\0' ? d->wanted.service : "doctor";
            break;
        case 'w':
            put = args->worker;
            break;
        case 'r':
            put = args->router;
            break;
        case 'i':
            put = d->link.inbox_prefix != NULL ? d->link.inbox_prefix : "_INBOX";
            break;
        case 'o':
            put = "another-worker";
            break;
        case 'b':
            put = bucket;
            break;
        case 'u':
            put = subject;
            break;
        default:
            put = "waybill-doctor";
        }
        int n = snprintf(out + used, WB_SUBJECT_MAX + 1 - used, "%s", put != NULL ? put : "");
        used += (size_t)n < WB_SUBJECT_MAX - used ? (size_t)n : WB_SUBJECT_MAX - used;
        c += 2;
    }
    out[used] = '\0';
}

/* Said at the end: who may do all of it has no permissions at all, which is one finding. */
static void find_excess(const struct trial *t)
{
    struct doctor *d = t->d;
    if (t->excess_tried == 0 || t->deaf)
        return;
    if (t->excess == 0)
        doctor_find(d, VERDICT_OK, "right too many", NULL,
                    "none of %u that this role should not have", t->excess_tried);
    else if (t->excess == t->excess_tried)
        doctor_find(d, VERDICT_WARN, "right too many",
                    "give each role its own user: the permissions are in deploy/README.md",
                    "these credentials may do everything: whoever has them could %s",
                    t->too_many[0]->why);
    else
        for (unsigned i = 0; i < t->excess && i < EXCESS_MAX; i++)
            doctor_find(d, VERDICT_WARN, "right too many",
                        "take it away: the permissions of this role are in deploy/README.md",
                        "may %s %s: could %s", t->too_many[i]->subscribe ? "subscribe" : "publish",
                        t->subjects[i], t->too_many[i]->why);
}

static void note_excess(struct trial *t, const struct right *r, const char *subject, bool may)
{
    t->excess_tried++;
    if (may && t->excess < EXCESS_MAX) {
        t->too_many[t->excess] = r;
        snprintf(t->subjects[t->excess++], WB_SUBJECT_MAX + 1, "%s", subject);
    }
}

static void try_one(struct trial *t, const struct right *r, const char *bucket, const char *pattern)
{
    char subject[WB_SUBJECT_MAX + 1], advice[WB_SUBJECT_MAX + 128];
    const char *verb = r->subscribe ? "subscribe" : "publish";
    bool sure = true;
    if (t->deaf)
        return;
    expand(t->d, r, bucket, pattern, subject);
    if (!r->subscribe)
        make_literal(subject);
    bool may =
        r->subscribe ? may_subscribe(t->d, subject) : doctor_may_publish(t->d, subject, &sure);
    if (!sure) {
        t->deaf = true;
        doctor_find(t->d, VERDICT_WARN, "rights", "look into the server's configuration instead",
                    "this server does not tell them without a message being sent");
        return;
    }
    if (r->need == MUST_NOT) {
        note_excess(t, r, subject, may);
        return;
    }
    snprintf(advice, sizeof(advice), "give this user the right to %s %s", verb, subject);
    doctor_find(t->d,
                may               ? VERDICT_OK
                : r->need == NEED ? VERDICT_FAIL
                                  : VERDICT_WARN,
                r->subscribe ? "right to subscribe" : "right to publish", may ? NULL : advice,
                may ? "%s (%s)" : "%s is denied (%s)", subject, r->why);
}

void doctor_rights(struct doctor *d)
{
    struct trial t = {.d = d};
    const char *const buckets[] = {d->wanted.records.name, d->wanted.sessions.name};
    for (size_t i = 0; i < RIGHTS; i++) {
        const struct right *r = &rights[i];
        if (strcmp(r->role, d->args->role) != 0)
            continue;
        if (strstr(r->subject, "{b}") != NULL)
            for (unsigned b = 0; b < 2; b++)
                try_one(&t, r, buckets[b], NULL);
        else if (strstr(r->subject, "{u}") != NULL)
            for (unsigned u = 0; u < d->wanted.subject_count; u++)
                try_one(&t, r, NULL, d->wanted.subjects[u]);
        else
            try_one(&t, r, NULL, NULL);
    }
    find_excess(&t);
}
