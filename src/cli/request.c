/* waybill request: sends requests, shows the answers and who gave them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/headers.h"
#include "cli/progress.h"
#include "waybill/client.h"
#include "wire/json.h"

#define PAYLOAD_MAX (64u * 1024 * 1024)
#define TEXT_MAX 1024

struct request_args {
    struct common common;
    const char *target, *id, *adapter, *session, *hash_key, *priority, *retry, *older_reply, *reply;
    struct option_list headers;
    int64_t count, timeout_ms;
    bool stream, idempotent, not_idempotent, advise;
};
static const struct request_args defaults = {.count = 1};

#define ARG(field) offsetof(struct request_args, field)
static const struct option options[] = {
    {"target", 0, OPTION_TEXT, ARG(target), "WORKER[/RANK]", "this worker exactly", 0, 0,
     OPTION_WORKERS},
    {"header", 'H', OPTION_LIST, ARG(headers), "\"NAME: VALUE\"", "a header; may be repeated", 0,
     0},
    {"stream", 0, OPTION_FLAG, ARG(stream), NULL,
     "the answer is a stream; its numbering is checked", 0, 0},
    {"count", 'n', OPTION_INT, ARG(count), "N", "send it N times, one after the other (1)", 1,
     1000000000},
    {"timeout", 't', OPTION_INT, ARG(timeout_ms), "MS", "total time of a request, sent with it", 1,
     86400000},
    {"id", 0, OPTION_TEXT, ARG(id), "ID", "request id; with --count, -1, -2 ... are appended", 0,
     0},
    {"idempotent", 0, OPTION_FLAG, ARG(idempotent), NULL, "may be served twice", 0, 0},
    {"not-idempotent", 0, OPTION_FLAG, ARG(not_idempotent), NULL, "may not, not even to resume", 0,
     0},
    {"adapter", 0, OPTION_TEXT, ARG(adapter), "NAME", "only workers that hold it", 0, 0},
    {"session", 0, OPTION_TEXT, ARG(session), "NAME", "session affinity key", 0, 0},
    {"hash-key", 0, OPTION_TEXT, ARG(hash_key), "TEXT", "key of policy hash", 0, 0},
    {"priority", 0, OPTION_TEXT, ARG(priority), "WORD", "low, normal or high", 0, 0,
     "low normal high"},
    {"retry", 0, OPTION_TEXT, ARG(retry), "WORD", "avoid or prefer the worker that served this id",
     0, 0, "avoid prefer"},
    {"older-reply", 0, OPTION_TEXT, ARG(older_reply), "SUBJECT",
     "with --retry: reply subject of the older request", 0, 0},
    {"reply", 0, OPTION_TEXT, ARG(reply), "SUBJECT", "reply subject, to cancel by", 0, 0},
    {"advise", 0, OPTION_FLAG, ARG(advise), NULL, "ask whom the router would choose; send nothing",
     0, 0},
};

static bool read_all(FILE *in, struct buf *out)
{
    for (;;) {
        char *room = buf_reserve(out, 65536);
        if (room == NULL)
            return false;
        size_t n = fread(room, 1, 65536, in);
        buf_grew(out, n);
        if (n == 0)
            return !ferror(in);
    }
}

static void json_header(void *arg, const char *name, const char *value)
{
    json_text(arg, name, span_str(value));
}

static void json_int_or_null(struct json *j, const char *key, int64_t value)
{
    if (value >= 0)
        json_int(j, key, value);
    else
        json_null(j, key);
}

static void show_json(const wb_result *r, wb_status status, bool is_end)
{
    struct buf text;
    struct json j;
    size_t len = 0;
    buf_init(&text, OUTPUT_MAX);
    json_begin(&j, &text);
    json_object(&j, NULL);
    json_text(&j, "status", span_str(wb_status_name(status)));
    if (r != NULL) {
        const void *data = wb_result_data(r, &len);
        json_text_or_null(&j, "worker", span_str(wb_result_worker(r)));
        json_int_or_null(&j, "rank", wb_result_rank(r));
        json_int_or_null(&j, "attempt", wb_result_attempt(r));
        json_text_or_null(&j, "request_id", span_str(wb_result_request_id(r)));
        json_int(&j, "code", wb_result_code(r));
        json_text_or_null(&j, "error", span_str(wb_result_error_text(r)));
        json_text_or_null(&j, "outcome", span_str(wb_result_outcome(r)));
        json_bool(&j, "end", is_end);
        json_object(&j, "headers");
        wb_result_each_header(r, json_header, &j);
        json_end_object(&j);
        json_int(&j, "size", (int64_t)len);
        json_text(&j, "data", span_of(data, len));
    }
    json_end_object(&j);
    print_whole_json(&j, &text);
}

static void show_error(const wb_result *r, wb_status status)
{
    const char *text = wb_result_error_text(r), *delivered = wb_result_delivered(r),
               *worker = wb_result_worker(r);
    int64_t after = wb_result_retry_after_ms(r);
    fprintf(stderr, "waybill: error %d %s: %s", wb_result_code(r),
            status == WB_OK ? "of the worker" : wb_status_name(status), text != NULL ? text : "");
    if (worker != NULL)
        fprintf(stderr, " (worker %s)", worker);
    if (delivered != NULL)
        fprintf(stderr, " (delivered: %s)", delivered);
    if (after >= 0)
        fprintf(stderr, " (retry after %lld ms)", (long long)after);
    fprintf(stderr, "\n");
}

/* Payload to stdout, everything about it to stderr. */
static void show_text(const wb_result *r, wb_status status)
{
    size_t len;
    const void *data = wb_result_data(r, &len);
    if (len > 0) {
        fwrite(data, 1, len, stdout);
        putchar('\n');
        fflush(stdout);
    }
    if (wb_result_code(r) != 0 || status != WB_OK) {
        show_error(r, status);
        return;
    }
    if (wb_result_worker(r) == NULL)
        return;
    fprintf(stderr, "served by %s", wb_result_worker(r));
    if (wb_result_rank(r) >= 0)
        fprintf(stderr, " rank %lld", (long long)wb_result_rank(r));
    fprintf(stderr, ", attempt %lld, request %s", (long long)wb_result_attempt(r),
            wb_result_request_id(r) != NULL ? wb_result_request_id(r) : "?");
    if (wb_result_outcome(r) != NULL)
        fprintf(stderr, ", %s after %s messages", wb_result_outcome(r),
                wb_result_header(r, "Waybill-Count"));
    fprintf(stderr, "\n");
}

/* The router's own error that a message of a stream carries; WB_OK: the worker's. */
static wb_status router_error(const wb_result *message)
{
    const char *name = wb_result_header(message, "Waybill-Error");
    return name != NULL ? wb_status_from_name(name) : WB_OK;
}

static bool on_message(void *arg, const wb_result *message)
{
    const struct request_args *args = arg;
    size_t len;
    const void *data = wb_result_data(message, &len);
    progress_clear();
    if (args->common.json)
        show_json(message, WB_OK, false);
    else if (wb_result_code(message) != 0)
        show_error(message, router_error(message));
    else {
        fwrite(data, 1, len, stdout);
        putchar('\n');
        fflush(stdout);
    }
    return true;
}

static int send_one(const struct request_args *args, struct link *link, const char *subject,
                    struct span payload, const wb_request_options *o)
{
    wb_result *r = NULL;
    wb_status s = args->stream ? wb_request_stream(link->nc, subject, payload.ptr, payload.len, o,
                                                   on_message, (void *)(uintptr_t)args, &r)
                               : wb_request(link->nc, subject, payload.ptr, payload.len, o, &r);
    int code = EXIT_FINE;
    progress_clear();
    if (args->common.json)
        show_json(r, s, args->stream);
    else if (r != NULL && (!args->stream || wb_result_code(r) == 0))
        show_text(r, s);
    if (r == NULL)
        code = s == WB_NOT_FOUND
                   ? (fprintf(stderr, "waybill: no router serves %s\n", subject), EXIT_NOTHING)
                   : exit_of(s, subject);
    else if (s != WB_OK || wb_result_code(r) != 0)
        code = EXIT_ERROR_ANSWER;
    if (s == WB_HOLE)
        code = EXIT_ERROR_ANSWER;
    wb_result_destroy(r);
    return code;
}

static void fill(const struct request_args *args, const struct link *link, wb_request_options *o)
{
    *o = (wb_request_options){.target = args->target,
                              .adapter = args->adapter,
                              .session = args->session,
                              .hash_key = args->hash_key,
                              .priority = args->priority,
                              .retry = args->retry,
                              .older_reply = args->older_reply,
                              .advise = args->advise,
                              .timeout_ms = args->timeout_ms,
                              .inbox_prefix = link->inbox_prefix,
                              .reply_subject = args->reply};
    if (args->idempotent)
        o->idempotent = WB_CHOICE_YES;
    if (args->not_idempotent)
        o->idempotent = WB_CHOICE_NO;
}

static int send_all(const struct request_args *args, const char *subject, struct span payload,
                    const wb_header *headers)
{
    struct link link;
    wb_request_options o;
    int code = link_open(&args->common, &link), worst = EXIT_FINE;
    if (code != EXIT_FINE)
        return code;
    fill(args, &link, &o);
    o.headers = headers;
    o.header_count = args->headers.count;
    progress_begin(args->count);
    for (int64_t i = 1; i <= args->count; i++) {
        char id[TEXT_MAX];
        if (args->id != NULL) {
            if (args->count == 1)
                snprintf(id, sizeof(id), "%s", args->id);
            else
                snprintf(id, sizeof(id), "%s-%lld", args->id, (long long)i);
            o.id = id;
        }
        code = send_one(args, &link, subject, payload, &o);
        progress_step();
        worst = code > worst ? code : worst;
        if (code == EXIT_USAGE || code == EXIT_NO_LINK)
            break;
    }
    progress_end();
    link_close(&link);
    return worst;
}

static int run(const void *args_given, const struct words *rest)
{
    const struct request_args *args = args_given;
    wb_header headers[OPTION_LIST_MAX] = {{NULL, NULL}};
    struct buf input;
    int code = EXIT_USAGE;
    bool fine = headers_split(&args->headers, headers);
    buf_init(&input, PAYLOAD_MAX);
    if (fine && rest->count == 1 && !isatty(STDIN_FILENO) && !read_all(stdin, &input)) {
        fprintf(stderr, "waybill: cannot read the payload from stdin\n");
        fine = false;
    }
    if (fine)
        code = send_all(args, rest->items[0],
                        rest->count == 2 ? span_str(rest->items[1]) : buf_span(&input), headers);
    headers_free(&args->headers, headers);
    buf_fini(&input);
    return code;
}

const struct command command_request = {
    "request",
    "SUBJECT [PAYLOAD | <stdin] [options]",
    "send a request; show the answer and who served it",
    options,
    sizeof(options) / sizeof(options[0]),
    sizeof(struct request_args),
    &defaults,
    1,
    2,
    run,
    .about =
        "The payload is the second word, or stdin where that is no terminal. What was answered "
        "goes to stdout, who answered to stderr; with --json both are one line of JSON a message.",
    .examples =
        "send a request and see who served it\twaybill request chat.request.eu hello\nretry it "
        "with another worker\twaybill request chat.request.eu hello --id r-1 --retry avoid\nread a "
        "stream\twaybill request chat.request.eu hello --stream --json\n"};
