/* libwaybill's requests: each has a reply subject and a synchronous subscription of its own, so
 * that a cancel can name the reply subject and nothing is shared between calls or threads.
 *
 * A stream is whole only if its numbers run 1, 2, 3 ... without a gap up to and including the end,
 * and the end's count is that of the data messages seen. Anything else is WB_HOLE: the subscription
 * is dropped, which tells the router that we left.
 *
 * Nothing here retries: the router does. The local wait is longer than the request's time, so that
 * the router's word comes first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/id.h"
#include "client/message.h"
#include "client/result.h"
#include "wire/headers.h"
#include "wire/name.h"
#include "wire/subject.h"

#define WAIT_DEFAULT_MS 60000 /* between messages; above the router's own clocks of 30 s */
#define WAIT_EXTRA_MS 2000
#define TIMEOUT_MAX_MS 86400000

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

static bool is_one_of(const char *value, const char *a, const char *b, const char *c)
{
    return value == NULL || strcmp(value, a) == 0 || strcmp(value, b) == 0 || strcmp(value, c) == 0;
}

static bool is_target(const char *target)
{
    if (target == NULL)
        return true;
    const char *slash = strchr(target, '/');
    unsigned long long rank;
    if (slash == NULL)
        return name_is_id(span_str(target));
    return name_is_id(span_of(target, (size_t)(slash - target))) &&
           span_to_u64(span_str(slash + 1), &rank);
}

static bool options_are_valid(const wb_request_options *o)
{
    return (o->id == NULL || name_is_request_id(span_str(o->id))) && is_target(o->target) &&
           (o->adapter == NULL || name_is_long(span_str(o->adapter))) &&
           (o->session == NULL || name_is_long(span_str(o->session))) &&
           is_one_of(o->priority, "low", "normal", "high") &&
           is_one_of(o->retry, "avoid", "prefer", "avoid") && o->timeout_ms >= 0 &&
           o->timeout_ms <= TIMEOUT_MAX_MS &&
           (o->reply_subject == NULL || message_is_subject(o->reply_subject)) &&
           (o->older_reply == NULL || message_is_subject(o->older_reply));
}

static wb_status set_headers(natsMsg *message, const wb_request_options *o, const char *replies)
{
    const struct {
        enum request_header header;
        const char *value;
    } texts[] = {
        {RH_REQUEST_ID, o->id},
        {RH_TARGET, o->target},
        {RH_ADAPTER, o->adapter},
        {RH_SESSION, o->session},
        {RH_HASH_KEY, o->hash_key},
        {RH_PRIORITY, o->priority},
        {RH_RETRY, o->retry},
        {RH_REPLY, o->older_reply},
        {RH_REPLIES, replies},
        {RH_ADVISE, o->advise ? "true" : NULL},
        {RH_IDEMPOTENT, o->idempotent == WB_CHOICE_DEFAULT ? NULL
                        : o->idempotent == WB_CHOICE_YES   ? "true"
                                                           : "false"},
    };
    wb_status s = message_add_all(message, o->headers, o->header_count);
    for (size_t i = 0; s == WB_OK && i < sizeof(texts) / sizeof(texts[0]); i++)
        s = message_set(message, request_headers[texts[i].header].name, texts[i].value);
    if (s == WB_OK && o->timeout_ms > 0)
        s = message_set_int(message, request_headers[RH_TIMEOUT_MS].name, o->timeout_ms);
    return s;
}

/* Subscribes to the reply subject, then sends. */
static wb_status begin(natsConnection *nc, const char *subject, const void *data, size_t len,
                       const wb_request_options *o, const char *replies, natsSubscription **sub)
{
    char made[WB_SUBJECT_MAX + 1];
    *sub = NULL;
    if (nc == NULL || !message_is_subject(subject) || !options_are_valid(o))
        return WB_INVALID;
    if (len > INT32_MAX)
        return WB_TOO_LARGE;
    const char *reply = o->reply_subject;
    if (reply == NULL) {
        wb_status s = wb_reply_subject(o->inbox_prefix, made);
        if (s != WB_OK)
            return s;
        reply = made;
    }
    if (natsConnection_Status(nc) != NATS_CONN_STATUS_CONNECTED)
        return WB_CLOSED; /* nats.c would keep it and send it late */
    natsMsg *message = NULL;
    wb_status s = message_status(natsMsg_Create(&message, subject, reply, data, (int)len));
    if (s == WB_OK)
        s = set_headers(message, o, replies);
    if (s == WB_OK)
        s = message_status(natsConnection_SubscribeSync(sub, nc, reply));
    if (s == WB_OK)
        s = message_status(natsConnection_PublishMsg(nc, message));
    natsMsg_Destroy(message);
    if (s != WB_OK) {
        natsSubscription_Destroy(*sub);
        *sub = NULL;
    }
    return s;
}

static wb_status next(natsSubscription *sub, mono until, wb_result **out)
{
    natsMsg *message = NULL;
    *out = NULL;
    int64_t left_ms =
        mono_is_never(until) ? WAIT_DEFAULT_MS : mono_diff_us(until, clock_mono()) / 1000;
    natsStatus ns = natsSubscription_NextMsg(&message, sub, left_ms > 1 ? left_ms : 1);
    if (ns != NATS_OK)
        return message_status(ns);
    if (natsMsg_IsNoResponders(message)) {
        natsMsg_Destroy(message);
        return WB_NOT_FOUND;
    }
    *out = result_create(message);
    return *out != NULL ? WB_OK : WB_NO_MEMORY;
}

static mono wait_until(const wb_request_options *o)
{
    return o->timeout_ms > 0 ? mono_add_ms(clock_mono(), o->timeout_ms + WAIT_EXTRA_MS)
                             : MONO_NEVER;
}

wb_status wb_request(natsConnection *nc, const char *subject, const void *data, size_t len,
                     const wb_request_options *options, wb_result **out)
{
    static const wb_request_options none;
    const wb_request_options *o = options != NULL ? options : &none;
    natsSubscription *sub;
    *out = NULL;
    wb_status s = begin(nc, subject, data, len, o, o->advise ? NULL : "one", &sub);
    if (s != WB_OK)
        return s;
    s = next(sub, wait_until(o), out);
    natsSubscription_Destroy(sub);
    return s == WB_OK ? result_status(*out) : s;
}

struct stream {
    int64_t messages, data; /* seen so far: numbered ones, and those of them that are data */
    bool ended;
};

/* WB_OK: in its place. Sets ended at the end. */
static wb_status stream_take(struct stream *st, const wb_result *message)
{
    size_t len;
    wb_result_data(message, &len);
    if (message_get_int(message->message, H_SEQ, -1) != st->messages + 1)
        return WB_HOLE;
    st->messages++;
    const char *outcome = wb_result_outcome(message);
    st->ended = len == 0 && outcome != NULL;
    if (!st->ended) {
        st->data += wb_result_code(message) == 0;
        return WB_OK;
    }
    return message_get_int(message->message, H_COUNT_, -1) == st->data ? WB_OK : WB_HOLE;
}

/* What a whole stream's end means. An outcome other than done without a router's error is the
 * worker's own error. */
static wb_status end_status(const wb_result *end)
{
    wb_status s = result_status(end);
    if (s != WB_OK || wb_result_code(end) != 0 || strcmp(wb_result_outcome(end), "done") == 0)
        return s;
    s = wb_status_from_name(wb_result_outcome(end));
    return s != WB_INVALID ? s : WB_INTERNAL;
}

wb_status wb_request_stream(natsConnection *nc, const char *subject, const void *data, size_t len,
                            const wb_request_options *options,
                            bool (*on_message)(void *arg, const wb_result *message), void *arg,
                            wb_result **end)
{
    static const wb_request_options none;
    const wb_request_options *o = options != NULL ? options : &none;
    struct stream stream = {0};
    natsSubscription *sub;
    *end = NULL;
    wb_status s = begin(nc, subject, data, len, o, "stream", &sub);
    if (s != WB_OK)
        return s;
    mono until = wait_until(o);
    while (s == WB_OK && !stream.ended) {
        wb_result *message;
        s = next(sub, until, &message);
        if (s == WB_OK && message == NULL)
            s = WB_INTERNAL;
        if (s != WB_OK)
            break;
        s = stream_take(&stream, message);
        if (stream.ended) {
            *end = message;
            break;
        }
        if (s == WB_OK && on_message != NULL && !on_message(arg, message))
            s = WB_CANCELLED;
        wb_result_destroy(message);
    }
    natsSubscription_Destroy(sub);
    return s == WB_OK ? end_status(*end) : s;
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
    wb_status s = wb_reply_subject(NULL, inbox);
    if (s == WB_OK)
        s = message_status(natsMsg_Create(&message, subject, inbox, NULL, 0));
    if (s == WB_OK)
        s = message_set(message, H_REPLY, reply_subject);
    if (s == WB_OK)
        s = message_status(natsConnection_SubscribeSync(&sub, nc, inbox));
    if (s == WB_OK)
        s = message_status(natsConnection_PublishMsg(nc, message));
    if (s == WB_OK)
        s = next(sub, mono_add_ms(clock_mono(), timeout_ms), &answer);
    if (s == WB_OK)
        s = result_status(answer);
    natsMsg_Destroy(message);
    natsSubscription_Destroy(sub);
    wb_result_destroy(answer);
    return s == WB_TIMED_OUT ? WB_NOT_FOUND : s;
}
