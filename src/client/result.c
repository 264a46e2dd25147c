#include "client/result.h"

#include <stdlib.h>

#include "client/message.h"
#include "wire/headers.h"

static void read_trouble(wb_result *result)
{
    size_t len;
    const void *data = wb_result_data(result, &len);
    if (len == 0 || message_get(result->message, H_ERROR) == NULL)
        return;
    struct error_brief *trouble = malloc(sizeof(*trouble));
    if (trouble != NULL && error_body_decode(span_of(data, len), trouble) != WB_OK) {
        free(trouble);
        trouble = NULL;
    }
    result->trouble = trouble;
}

wb_result *result_create(natsMsg *message)
{
    wb_result *result = calloc(1, sizeof(*result));
    if (result == NULL) {
        natsMsg_Destroy(message);
        return NULL;
    }
    result->message = message;
    read_trouble(result);
    return result;
}

void wb_result_destroy(wb_result *result)
{
    if (result == NULL)
        return;
    natsMsg_Destroy(result->message);
    free(result->trouble);
    free(result);
}

wb_status wb_result_status(const wb_result *result)
{
    const char *name = message_get(result->message, H_ERROR);
    if (name == NULL)
        return WB_OK;
    wb_status s = wb_status_from_name(name);
    return s != WB_INVALID ? s : WB_INTERNAL; /* a newer router's error */
}

const void *wb_result_data(const wb_result *result, size_t *len)
{
    *len = (size_t)natsMsg_GetDataLength(result->message);
    return natsMsg_GetData(result->message);
}

const char *wb_result_worker(const wb_result *result)
{
    return message_get(result->message, H_WORKER);
}

int64_t wb_result_rank(const wb_result *result)
{
    return message_get_int(result->message, H_RANK, -1);
}

int64_t wb_result_attempt(const wb_result *result)
{
    return message_get_int(result->message, H_ATTEMPT, -1);
}

const char *wb_result_request_id(const wb_result *result)
{
    return message_get(result->message, H_REQUEST_ID);
}

const char *wb_result_outcome(const wb_result *result)
{
    return message_get(result->message, H_OUTCOME);
}

const char *wb_result_delivered(const wb_result *result)
{
    return message_get(result->message, H_DELIVERED);
}

int wb_result_code(const wb_result *result)
{
    int64_t code = message_get_int(result->message, H_SERVICE_ERROR_CODE, 0);
    if (code > 0 && code < 100000)
        return (int)code;
    bool error = message_get(result->message, H_SERVICE_ERROR) != NULL ||
                 message_get(result->message, H_SERVICE_ERROR_CODE) != NULL;
    return error ? 500 : 0;
}

const char *wb_result_error_text(const wb_result *result)
{
    return message_get(result->message, H_SERVICE_ERROR);
}

const char *wb_result_message(const wb_result *result)
{
    return result->trouble != NULL ? result->trouble->message : wb_result_error_text(result);
}

static const char *text_or_null(const char *text)
{
    return *text != '\0' ? text : NULL;
}

const char *wb_result_scope(const wb_result *result)
{
    return result->trouble != NULL ? text_or_null(result->trouble->scope) : NULL;
}

unsigned wb_result_tried_count(const wb_result *result)
{
    return result->trouble != NULL ? result->trouble->count : 0;
}

wb_tried wb_result_tried(const wb_result *result, unsigned index)
{
    if (index >= wb_result_tried_count(result))
        return (wb_tried){NULL, NULL};
    return (wb_tried){text_or_null(result->trouble->attempts[index].worker),
                      result->trouble->attempts[index].cause};
}

int64_t wb_result_retry_after_ms(const wb_result *result)
{
    return message_get_int(result->message, H_RETRY_AFTER_MS, -1);
}

const char *wb_result_header(const wb_result *result, const char *name)
{
    return message_get(result->message, span_str(name));
}

void wb_result_each_header(const wb_result *result,
                           void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
    const char **names = NULL;
    int count = 0;
    if (natsMsgHeader_Keys(result->message, &names, &count) != NATS_OK)
        return;
    for (int i = 0; i < count; i++) {
        const char **values = NULL;
        int n = 0;
        if (natsMsgHeader_Values(result->message, names[i], &values, &n) != NATS_OK)
            continue;
        for (int k = 0; k < n; k++)
            fn(arg, names[i], values[k]);
        free((void *)values);
    }
    free((void *)names);
}
