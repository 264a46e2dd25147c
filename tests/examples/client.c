/** @example client.c
 * A client: one answer; a stream with a callback; a stream read message by message, and cancelled
 * after LIMIT of them.
 *
 *     NATS_URL=nats://127.0.0.1:4222 client one|stream SUBJECT TEXT
 *     NATS_URL=nats://127.0.0.1:4222 client pull SUBJECT TEXT [SERVICE LIMIT]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <waybill/client.h>

static void show_error(wb_status s, const wb_result *result)
{
    fprintf(stderr, "%s: %s\n", wb_status_name(s), wb_status_text(s));
    if (result == NULL)
        return;
    if (wb_result_message(result) != NULL)
        fprintf(stderr, "%d %s\n", wb_result_code(result), wb_result_message(result));
    for (unsigned i = 0; i < wb_result_tried_count(result); i++) {
        wb_tried tried = wb_result_tried(result, i);
        fprintf(stderr, "%s: %s\n", tried.worker != NULL ? tried.worker : "?", tried.cause);
    }
    if (wb_status_retryable(s) && wb_result_retry_after_ms(result) >= 0)
        fprintf(stderr, "try again in %lld ms\n", (long long)wb_result_retry_after_ms(result));
}

static int one(natsConnection *nc, const char *subject, const char *text)
{
    wb_result *result;
    wb_request_options options = {.timeout_ms = 10000, .idempotent = WB_CHOICE_YES};
    wb_status s = wb_request(nc, subject, text, strlen(text), &options, &result);
    int code = 1;
    if (s != WB_OK) {
        show_error(s, result);
    } else if (wb_result_code(result) != 0) {
        fprintf(stderr, "%s answers %d: %s\n", wb_result_worker(result), wb_result_code(result),
                wb_result_error_text(result));
    } else {
        size_t len;
        const char *data = wb_result_data(result, &len);
        printf("%.*s\n", (int)len, data);
        printf("served by %s, rank %lld, request %s\n", wb_result_worker(result),
               (long long)wb_result_rank(result), wb_result_request_id(result));
        code = 0;
    }
    wb_result_destroy(result);
    return code;
}

static void print(const wb_result *message)
{
    size_t len;
    const char *data = wb_result_data(message, &len);
    printf("%.*s\n", (int)len, data);
}

static bool on_message(void *arg, const wb_result *message)
{
    (void)arg;
    if (wb_result_status(message) == WB_OK)
        print(message);
    return true; /* false: leave the stream */
}

static int stream(natsConnection *nc, const char *subject, const char *text)
{
    wb_result *end;
    wb_status s = wb_request_stream(nc, subject, text, strlen(text), NULL, on_message, NULL, &end);
    if (s == WB_OK)
        printf("%s, served by %s\n", wb_result_outcome(end), wb_result_worker(end));
    else
        show_error(s, end); /* WB_HOLE: something is missing, whatever else was said */
    wb_result_destroy(end);
    return s == WB_OK ? 0 : 1;
}

static int pull(natsConnection *nc, const char *subject, const char *text, const char *service,
                long limit)
{
    char reply[WB_SUBJECT_MAX + 1], id[32];
    wb_stream *stream = NULL;
    wb_result *message;
    snprintf(id, sizeof(id), "example-%ld", (long)getpid());
    wb_request_options options = {.id = id, .reply_subject = reply}; /* what a cancel names */
    wb_status s = wb_reply_subject(NULL, reply);
    if (s == WB_OK)
        s = wb_stream_open(nc, subject, text, strlen(text), &options, &stream);
    if (s != WB_OK) {
        show_error(s, NULL);
        return 1;
    }
    while ((s = wb_stream_next(stream, -1, &message)) == WB_OK && message != NULL) {
        if (wb_result_status(message) == WB_OK)
            print(message);
        wb_result_destroy(message);
        if (service != NULL && wb_stream_count(stream) == limit)
            printf("cancel: %s\n", wb_status_name(wb_cancel(nc, NULL, service, id, reply, 2000)));
    }
    if (s == WB_OK)
        printf("%lld messages, %s\n", (long long)wb_stream_count(stream),
               wb_result_outcome(wb_stream_end(stream)));
    else
        show_error(s, wb_stream_end(stream));
    wb_stream_close(stream);
    return s == WB_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    natsConnection *nc = NULL;
    const char *url = getenv("NATS_URL");
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "usage: %s one|stream|pull SUBJECT TEXT [SERVICE LIMIT]\n", argv[0]);
        return 2;
    }
    natsStatus ns = natsConnection_ConnectTo(&nc, url != NULL ? url : "nats://127.0.0.1:4222");
    if (ns != NATS_OK) {
        fprintf(stderr, "%s\n", natsStatus_GetText(ns));
        return 1;
    }
    const char *service = argc == 6 ? argv[4] : NULL;
    long limit = argc == 6 ? strtol(argv[5], NULL, 10) : 0;
    int code = strcmp(argv[1], "one") == 0      ? one(nc, argv[2], argv[3])
               : strcmp(argv[1], "stream") == 0 ? stream(nc, argv[2], argv[3])
                                                : pull(nc, argv[2], argv[3], service, limit);
    natsConnection_Destroy(nc);
    nats_Close();
    return code;
}
