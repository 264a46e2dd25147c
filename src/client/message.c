#include "client/message.h"

#include "wire/subject.h"

wb_status message_status(natsStatus status)
{
    switch (status) {
    case NATS_OK:
        return WB_OK;
    case NATS_NO_MEMORY:
        return WB_NO_MEMORY;
    case NATS_TIMEOUT:
        return WB_TIMED_OUT;
    case NATS_NOT_FOUND:
    case NATS_NO_RESPONDERS:
        return WB_NOT_FOUND;
    case NATS_CONNECTION_CLOSED:
    case NATS_CONNECTION_DISCONNECTED:
    case NATS_NO_SERVER:
    case NATS_INVALID_SUBSCRIPTION:
    case NATS_STALE_CONNECTION:
    case NATS_DRAINING:
        return WB_CLOSED;
    case NATS_NOT_PERMITTED:
    case NATS_CONNECTION_AUTH_FAILED:
        return WB_DENIED;
    case NATS_MAX_PAYLOAD:
        return WB_TOO_LARGE;
    case NATS_INSUFFICIENT_BUFFER:
    case NATS_SLOW_CONSUMER:
        return WB_FULL;
    case NATS_INVALID_ARG:
    case NATS_INVALID_SUBJECT:
        return WB_INVALID;
    default:
        return WB_IO;
    }
}

static bool name_is_safe(const char *name)
{
    if (name == NULL || *name == '\0')
        return false;
    for (; *name != '\0'; name++)
        if (*name <= ' ' || *name > '~' || *name == ':')
            return false;
    return true;
}

static bool value_is_safe(const char *value)
{
    return value != NULL && strpbrk(value, "\r\n") == NULL;
}

wb_status message_add_all(natsMsg *message, const wb_header *headers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!name_is_safe(headers[i].name) || !value_is_safe(headers[i].value))
            return WB_INVALID;
        natsStatus s = natsMsgHeader_Add(message, headers[i].name, headers[i].value);
        if (s != NATS_OK)
            return message_status(s);
    }
    return WB_OK;
}

wb_status message_set(natsMsg *message, struct span name, const char *value)
{
    if (value == NULL)
        return WB_OK;
    if (!value_is_safe(value))
        return WB_INVALID;
    return message_status(natsMsgHeader_Set(message, name.ptr, value)); /* our names are literals */
}

wb_status message_set_literal(natsMsg *message, struct span name, const char *value)
{
    return message_status(natsMsgHeader_Set(message, name.ptr, value));
}

wb_status message_set_int(natsMsg *message, struct span name, int64_t value)
{
    char text[24], *at = text + sizeof(text); /* snprintf would cost a tenth of an answer */
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    *--at = '\0';
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *--at = '-';
    return message_set_literal(message, name, at);
}

const char *message_get(const natsMsg *message, struct span name)
{
    const char *value = NULL;
    /* nats.c parses the headers at the first look, hence its missing const */
    natsMsg *m = (natsMsg *)(uintptr_t)message;
    return natsMsgHeader_Get(m, name.ptr, &value) == NATS_OK ? value : NULL;
}

int64_t message_get_int(const natsMsg *message, struct span name, int64_t absent)
{
    return message_number(message_get(message, name), absent);
}

int64_t message_number(const char *value, int64_t absent)
{
    unsigned long long n;
    return value != NULL && span_to_u64(span_str(value), &n) ? (int64_t)n : absent;
}

bool message_is_subject(const char *subject)
{
    return subject != NULL && subject_is_literal(span_str(subject));
}
