/* A stream as its client sees it.
 *
 * It is whole only if its numbers run 1, 2, 3 ... without a gap up to and including the end, and
 * the end's count is that of the data messages seen. Anything else is WB_HOLE: the subscription is
 * dropped.
 *
 * Places: open, over. It is over with the end message, a hole, a lost link or the request's time,
 * and keeps that status for whoever asks again; `end` is there only if the end message came. A wait
 * of the caller's own that ran out does not end it.
 *
 * The router tells an error's details in the message before the end; they are kept for the end, so
 * that who looks only there has them too. One thread at a time; it takes no lock. */
#include <stdlib.h>

#include "base/check.h"
#include "client/exchange.h"
#include "client/message.h"
#include "wire/headers.h"

#define STREAM_MAGIC 0x77627374u

struct wb_stream {
    uint32_t magic;
    natsSubscription *sub; /* NULL: over */
    mono until;
    int64_t messages, data; /* seen so far: numbered ones, and those of them that are data */
    wb_status status;       /* once over */
    struct error_brief *trouble;
    wb_result *end;
};

wb_status wb_stream_open(natsConnection *nc, const char *subject, const void *data, size_t len,
                         const wb_request_options *options, wb_stream **out)
{
    static const wb_request_options none;
    const wb_request_options *o = options != NULL ? options : &none;
    *out = NULL;
    wb_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return WB_NO_MEMORY;
    MAGIC_SET(stream, STREAM_MAGIC);
    wb_status s = exchange_begin(nc, subject, data, len, o, "stream", &stream->sub);
    if (s != WB_OK) {
        wb_stream_close(stream);
        return s;
    }
    stream->until = exchange_end(o);
    *out = stream;
    return WB_OK;
}

static wb_status over(wb_stream *stream, wb_status status)
{
    natsSubscription_Destroy(stream->sub);
    stream->sub = NULL;
    stream->status = status;
    return status;
}

/* WB_OK: in its place. */
static wb_status take(wb_stream *stream, const wb_result *message, bool *ended)
{
    size_t len;
    wb_result_data(message, &len);
    if (message_get_int(message->message, H_SEQ, -1) != stream->messages + 1)
        return WB_HOLE;
    stream->messages++;
    *ended = len == 0 && wb_result_outcome(message) != NULL;
    if (!*ended) {
        stream->data += wb_result_code(message) == 0;
        return WB_OK;
    }
    return message_get_int(message->message, H_COUNT_, -1) == stream->data ? WB_OK : WB_HOLE;
}

/* What a whole stream's end means. An outcome other than done without a router's error is the
 * worker's own error. */
static wb_status end_status(const wb_result *end)
{
    wb_status s = wb_result_status(end);
    if (s != WB_OK || wb_result_code(end) != 0 || strcmp(wb_result_outcome(end), "done") == 0)
        return s;
    s = wb_status_from_name(wb_result_outcome(end));
    return s != WB_INVALID ? s : WB_INTERNAL;
}

static wb_status at_end(wb_stream *stream, wb_result *end, wb_status status)
{
    stream->end = end;
    if (end->trouble == NULL) {
        end->trouble = stream->trouble;
        stream->trouble = NULL;
    }
    return over(stream, status == WB_OK ? end_status(end) : status);
}

static void keep_trouble(wb_stream *stream, const wb_result *message)
{
    if (message->trouble == NULL || stream->trouble != NULL)
        return;
    stream->trouble = malloc(sizeof(*stream->trouble));
    if (stream->trouble != NULL)
        *stream->trouble = *message->trouble;
}

wb_status wb_stream_next(wb_stream *stream, int64_t wait_ms, wb_result **out)
{
    MAGIC_CHECK(stream, STREAM_MAGIC);
    *out = NULL;
    if (stream->sub == NULL)
        return stream->status;
    mono until = exchange_patience(stream->until);
    mono own = wait_ms < 0 ? MONO_NEVER : mono_add_ms(clock_mono(), wait_ms);
    wb_result *message;
    bool ended = false;
    wb_status s = exchange_next(stream->sub, mono_min(until, own), &message);
    if (s == WB_TIMED_OUT && mono_before(own, until))
        return s;
    if (s != WB_OK)
        return over(stream, s);
    s = take(stream, message, &ended);
    if (ended)
        return at_end(stream, message, s);
    if (s != WB_OK) {
        wb_result_destroy(message);
        return over(stream, s);
    }
    keep_trouble(stream, message);
    *out = message;
    return WB_OK;
}

const wb_result *wb_stream_end(const wb_stream *stream)
{
    return stream->end;
}

int64_t wb_stream_count(const wb_stream *stream)
{
    return stream->data;
}

void wb_stream_close(wb_stream *stream)
{
    if (stream == NULL)
        return;
    natsSubscription_Destroy(stream->sub);
    wb_result_destroy(stream->end);
    free(stream->trouble);
    stream->magic = 0;
    free(stream);
}

wb_status wb_request_stream(natsConnection *nc, const char *subject, const void *data, size_t len,
                            const wb_request_options *options,
                            bool (*on_message)(void *arg, const wb_result *message), void *arg,
                            wb_result **end)
{
    wb_stream *stream;
    wb_result *message;
    *end = NULL;
    wb_status s = wb_stream_open(nc, subject, data, len, options, &stream);
    if (s != WB_OK)
        return s;
    while ((s = wb_stream_next(stream, -1, &message)) == WB_OK && message != NULL) {
        bool go_on = on_message == NULL || on_message(arg, message);
        wb_result_destroy(message);
        if (!go_on) {
            s = WB_CANCELLED;
            break;
        }
    }
    *end = stream->end;
    stream->end = NULL;
    wb_stream_close(stream);
    return s;
}
