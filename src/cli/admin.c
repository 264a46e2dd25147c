#include "cli/admin.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "waybill/client.h"
#include "wire/json_read.h"
#include "wire/name.h"
#include "wire/subject.h"

/* After a first reply the others come soon: how long a pause ends the wait. */
#define PAUSE_MS 300

static natsStatus send(struct link *link, const char *subject, const char *body,
                       natsSubscription **sub)
{
    char inbox[WB_SUBJECT_MAX + 1];
    if (wb_reply_subject(link->inbox_prefix, inbox) != WB_OK)
        return NATS_INVALID_ARG;
    natsStatus s = natsConnection_SubscribeSync(sub, link->nc, inbox);
    if (s == NATS_OK)
        s = natsConnection_PublishRequestString(link->nc, subject, inbox, body);
    return s;
}

static void collect(natsSubscription *sub, int64_t timeout_ms, unsigned enough,
                    struct admin_replies *out)
{
    mono until = mono_add_ms(clock_mono(), timeout_ms);
    while (out->count < enough && out->count < ADMIN_REPLIES_MAX) {
        natsMsg *message = NULL;
        int64_t left_ms = mono_diff_us(until, clock_mono()) / 1000;
        if (out->count > 0 && left_ms > PAUSE_MS)
            left_ms = PAUSE_MS;
        if (left_ms < 1 || natsSubscription_NextMsg(&message, sub, left_ms) != NATS_OK)
            return; /* no responders too: nobody else will answer */
        cJSON *reply = json_read(
            span_of(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)), NULL);
        if (reply != NULL)
            out->items[out->count++] = reply;
        natsMsg_Destroy(message);
    }
}

int admin_ask(struct link *link, const char *what, const char *router, const char *body,
              int64_t timeout_ms, unsigned enough, struct admin_replies *out)
{
    char rest[160], subject[WB_SUBJECT_MAX + 1];
    out->count = 0;
    if (router != NULL && !name_is_id(span_str(router))) {
        fprintf(stderr, "waybill: --router: not a router's id\n");
        return EXIT_USAGE;
    }
    snprintf(rest, sizeof(rest), "admin.%s%s%s", what, router != NULL ? "." : "",
             router != NULL ? router : "");
    subject_join(subject, span_str(link->prefix), rest);
    return admin_ask_subject(link, subject, body, timeout_ms, router != NULL ? 1 : enough, out);
}

int admin_ask_subject(struct link *link, const char *subject, const char *body, int64_t timeout_ms,
                      unsigned enough, struct admin_replies *out)
{
    out->count = 0;
    natsSubscription *sub = NULL;
    natsStatus s = send(link, subject, body, &sub);
    if (s == NATS_OK)
        collect(sub, timeout_ms, enough, out);
    natsSubscription_Destroy(sub);
    if (s != NATS_OK) {
        fprintf(stderr, "waybill: %s: %s\n", subject, natsStatus_GetText(s));
        return EXIT_NO_LINK;
    }
    return out->count > 0 ? EXIT_FINE : EXIT_NOTHING;
}

void admin_fini(struct admin_replies *replies)
{
    for (unsigned i = 0; i < replies->count; i++)
        cJSON_Delete(replies->items[i]);
    replies->count = 0;
}

void admin_print(const struct admin_replies *replies)
{
    putchar('[');
    for (unsigned i = 0; i < replies->count; i++) {
        char *text = cJSON_PrintUnformatted(replies->items[i]);
        printf("%s%s", i > 0 ? "," : "", text != NULL ? text : "null");
        free(text);
    }
    printf("]\n");
}

const char *admin_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "-";
}

double admin_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}
