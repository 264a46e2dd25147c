/* One connection of nats.c and what hangs on it: see struct link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/id.h"
#include "store/options.h"
#include "store/state.h"

enum { INBOX_RANDOM = 22 };

void link_reason(natsStatus s, jsErrCode code, char why[WHY_SIZE])
{
    const char *text = nats_GetLastError(NULL);

    if (s == NATS_NO_RESPONDERS)
        text = "JetStream is not enabled, or has no leader";
    else if (s == NATS_TIMEOUT)
        text = "JetStream does not answer";
    else if (!text || !text[0])
        text = natsStatus_GetText(s);
    if (code)
        snprintf(why, WHY_SIZE, "%.200s (%d)", text, (int)code);
    else
        snprintf(why, WHY_SIZE, "%.200s", text);
}

static void new_inbox(const struct store *store, char out[INBOX_SIZE])
{
    const char *prefix = store->connection.inbox_prefix;
    char random[INBOX_RANDOM + 1];

    id_random(random, INBOX_RANDOM);
    random[INBOX_RANDOM] = '\0';
    snprintf(out, INBOX_SIZE, "%.400s.%s", prefix ? prefix : "_INBOX", random);
}

static void answers_ended(void *closure)
{
    struct link *link = closure;
    struct store *store = link->store;

    pthread_mutex_lock(&store->mutex);
    link->answers_ended = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

/* nats.c's own handler prints to stderr. The connection's last error can't be asked for instead:
 * nats.c hands out the very bytes that its threads write to. */
static void on_error(natsConnection *nc, natsSubscription *sub, natsStatus err, void *closure)
{
    struct link *link = closure;
    struct store *store = link->store;
    const char *text = sub ? NULL : nats_GetLastError(NULL);

    (void)nc;
    if (!text || !text[0])
        text = natsStatus_GetText(err);
    pthread_mutex_lock(&store->mutex);
    snprintf(link->error, sizeof(link->error), "%s", text);
    if (err == NATS_NOT_PERMITTED) /* only the words tell what it was that NATS refused */
        snprintf(store->denied, sizeof(store->denied), "%s", text);
    pthread_mutex_unlock(&store->mutex);
}

static void on_closed(natsConnection *nc, void *closure)
{
    struct link *link = closure;
    struct store *store = link->store;

    (void)nc;
    pthread_mutex_lock(&store->mutex);
    link->closed = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

static natsStatus connect_link(struct link *link)
{
    natsOptions *options = NULL;
    natsStatus s = store_options(&link->store->connection, &options);

    if (s == NATS_OK)
        s = natsOptions_SetErrorHandler(options, on_error, link);
    if (s == NATS_OK)
        s = natsOptions_SetClosedCB(options, on_closed, link);
    link->closed = false;
    if (s == NATS_OK)
        s = natsConnection_Connect(&link->nc, options);
    if (!link->nc)
        link->closed = true;
    natsOptions_Destroy(options);
    return s;
}

static natsStatus hear_answers(struct link *link)
{
    char subject[INBOX_SIZE + 8];
    natsStatus s;

    snprintf(subject, sizeof(subject), "%s.r.*", link->inbox);
    s = natsConnection_Subscribe(&link->answers, link->nc, subject, requests_answer, link);
    if (s != NATS_OK)
        return s;
    s = natsSubscription_SetPendingLimits(link->answers, -1, -1); /* the requests bound it */
    if (s != NATS_OK)
        return s;
    link->answers_ended = false; /* first: it may be called at once */
    s = natsSubscription_SetOnCompleteCB(link->answers, answers_ended, link);
    if (s != NATS_OK)
        link->answers_ended = true;
    return s;
}

struct link *link_create(struct store *store, char why[WHY_SIZE])
{
    struct link *link = calloc(1, sizeof(*link));
    natsStatus s = NATS_NO_MEMORY;
    jsOptions js;

    if (link) {
        link->store = store;
        link->answers_ended = true;
        s = connect_link(link);
    }
    if (s == NATS_OK) {
        jsOptions_Init(&js);
        js.Wait = STORE_CALL_MS;
        s = natsConnection_JetStream(&link->js, link->nc, &js);
        new_inbox(store, link->inbox);
        if (s == NATS_OK)
            s = hear_answers(link);
    }
    if (s == NATS_OK)
        return link;
    link_reason(s, 0, why);
    link_destroy(link);
    return NULL;
}

void link_destroy(struct link *link)
{
    struct store *store;

    if (!link)
        return;
    store = link->store;
    natsConnection_Close(link->nc); /* ends the calls of those who have it */
    pthread_mutex_lock(&store->mutex);
    while (link->borrowed > 0 || !link->answers_ended || !link->closed)
        pthread_cond_wait(&store->changed, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
    natsSubscription_Destroy(link->answers);
    for (unsigned i = 0; i < store->bucket_count; i++)
        natsSubscription_Destroy(link->pushed[i]);
    jsCtx_Destroy(link->js);
    natsConnection_Destroy(link->nc);
    free(link);
}

enum link_state link_look(struct link *link, char why[WHY_SIZE])
{
    natsConnStatus status = natsConnection_Status(link->nc);
    struct store *store = link->store;
    bool closed, broken;

    pthread_mutex_lock(&store->mutex);
    closed = link->closed;
    broken = link->broken;
    if (status == NATS_CONN_STATUS_CONNECTED)
        link->error[0] = '\0';
    snprintf(why, WHY_SIZE, "%s", link->error[0] ? link->error : "lost");
    pthread_mutex_unlock(&store->mutex);
    if (broken)
        snprintf(why, WHY_SIZE, "a write failed");
    if (closed || broken)
        return LINK_DEAD;
    return status == NATS_CONN_STATUS_CONNECTED ? LINK_UP : LINK_AWAY;
}

uint64_t link_reconnects(const struct link *link)
{
    natsStatistics *stats = NULL;
    uint64_t n = 0;

    if (natsStatistics_Create(&stats) == NATS_OK &&
        natsConnection_GetStats(link->nc, stats) == NATS_OK)
        (void)natsStatistics_GetCounts(stats, NULL, NULL, NULL, NULL, &n);
    natsStatistics_Destroy(stats);
    return n;
}

struct link *link_borrow(struct store *store)
{
    if (!store->up || !store->link || store->link->broken)
        return NULL;
    store->link->borrowed++;
    return store->link;
}

void link_give_back(struct link *link)
{
    CHECK(link->borrowed > 0);
    if (--link->borrowed == 0)
        pthread_cond_broadcast(&link->store->changed);
}
