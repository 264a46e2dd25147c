/* libwaybill's requests: each has a reply subject and a synchronous subscription of its own, so
 * that a cancel can name the reply subject and nothing is shared between calls or threads.
 *
 * Nothing here retries: the router does. The local wait is longer than the request's time, so that
 * the router's word comes first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "client/exchange.h"
#include "client/message.h"
#include "wire/headers.h"
#include "wire/name.h"
#include "wire/subject.h"

wb_status wb_reply_subject(const char *inbox_prefix, char out[WB_SUBJECT_MAX + 1])
{
    const char *prefix = inbox_prefix != NULL ? inbox_prefix : "_INBOX";
    if (!message_is_subject(prefix) || strlen(prefix) + 1 + ID_REQUEST_LEN > WB_SUBJECT_MAX)
        return WB_INVALID;
    int n = snprintf(out, WB_SUBJECT_MAX + 1, "%s.", prefix);
    id_random(out + n, ID_REQUEST_LEN);
    out[n + ID_REQUEST_LEN] = '\0';
    return WB_OK;
}

wb_status wb_request(natsConnection *nc, const char *subject, const void *data, size_t len,
                     const wb_request_options *options, wb_result **out)
{
    static const wb_request_options none;
    const wb_request_options *o = options != NULL ? options : &none;
    natsSubscription *sub;
    *out = NULL;
    wb_status s = exchange_begin(nc, subject, data, len, o, o->advise ? NULL : "one", &sub);
    if (s != WB_OK)
        return s;
    s = exchange_next(sub, exchange_patience(exchange_end(o)), out);
    natsSubscription_Destroy(sub);
    return s == WB_OK ? wb_result_status(*out) : s;
}

/* The answer to a cancel comes beside the request's own, where its client may listen. */
static wb_status inbox_beside(const char *reply_subject, char out[WB_SUBJECT_MAX + 1])
{
    const char *dot = strrchr(reply_subject, '.');
    if (dot == NULL)
        return wb_reply_subject(NULL, out);
    char prefix[WB_SUBJECT_MAX + 1];
    snprintf(prefix, sizeof(prefix), "%.*s", (int)(dot - reply_subject), reply_subject);
    return wb_reply_subject(prefix, out);
}

wb_status wb_cancel(natsConnection *nc, const char *prefix, const char *service,
                    const char *request_id, const char *reply_subject, int64_t timeout_ms)
{
    char subject[WB_SUBJECT_MAX + 1], inbox[WB_SUBJECT_MAX + 1];
    struct span before = span_str(prefix != NULL ? prefix : WB_DEFAULT_PREFIX);
    if (nc == NULL || !subject_is_literal(before) || before.len > WB_NAME_MAX || service == NULL ||
        !name_is_id(span_str(service)) || request_id == NULL ||
        !name_is_request_id(span_str(request_id)) || !message_is_subject(reply_subject) ||
        timeout_ms < 1)
        return WB_INVALID;
    subject_cancel(subject, before, span_str(service), span_str(request_id));
    natsMsg *message = NULL;
    natsSubscription *sub = NULL;
    wb_result *answer = NULL;
    wb_status s = inbox_beside(reply_subject, inbox);
    if (s == WB_OK)
        s = message_status(natsMsg_Create(&message, subject, inbox, NULL, 0));
    if (s == WB_OK)
        s = message_set(message, H_REPLY, reply_subject);
    if (s == WB_OK)
        s = message_status(natsConnection_SubscribeSync(&sub, nc, inbox));
    if (s == WB_OK)
        s = message_status(natsConnection_PublishMsg(nc, message));
    if (s == WB_OK)
        s = exchange_next(sub, mono_add_ms(clock_mono(), timeout_ms), &answer);
    if (s == WB_OK)
        s = wb_result_status(answer);
    natsMsg_Destroy(message);
    natsSubscription_Destroy(sub);
    wb_result_destroy(answer);
    return s == WB_TIMED_OUT ? WB_NOT_FOUND : s;
}
