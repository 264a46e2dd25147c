#include "client/exchange.h"

#include "client/message.h"
#include "wire/headers.h"
#include "wire/name.h"

#define WAIT_DEFAULT_MS 60000 /* between messages; above the router's own clocks of 30 s */
#define WAIT_EXTRA_MS 2000
#define TIMEOUT_MAX_MS 86400000

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

wb_status exchange_begin(natsConnection *nc, const char *subject, const void *data, size_t len,
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

wb_status exchange_next(natsSubscription *sub, mono until, wb_result **out)
{
    natsMsg *message = NULL;
    *out = NULL;
    int64_t left_ms = mono_diff_us(until, clock_mono()) / 1000;
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

mono exchange_end(const wb_request_options *o)
{
    return o->timeout_ms > 0 ? mono_add_ms(clock_mono(), o->timeout_ms + WAIT_EXTRA_MS)
                             : MONO_NEVER;
}

mono exchange_patience(mono end)
{
    return mono_is_never(end) ? mono_add_ms(clock_mono(), WAIT_DEFAULT_MS) : end;
}
