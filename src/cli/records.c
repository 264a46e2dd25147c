/* Questions go out with a reply subject that ends in their number, so several may be under way and
 * an answer that comes late is told from one to a later question.
 *
 * A batch asks for "the first from seq on", "from seq + 1 on" and so on, all at once. Where the
 * bucket is dense these are different revisions; where it is not, several get the same one, which
 * counts once. A question that found nothing ends the batch even if a later one found something:
 * what was written in between may lie before that. */
#include "cli/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waybill/client.h"
#include "wire/js.h"
#include "wire/json_read.h"

#define JS_NO_MESSAGE 10037
#define JS_NO_STREAM 10059
#define JS_NOT_ENABLED_FOR_ACCOUNT 10039
#define JS_NOT_ENABLED 10076
#define SLICE_MS 100 /* how often a silence is asked for its cause */

void revision_fini(struct revision *r)
{
    buf_fini(&r->text);
    cJSON_Delete(r->record);
    r->record = NULL;
}

bool revision_time(const char *at, wall *out)
{
    char text[WALL_TEXT_SIZE];
    size_t seconds = strlen("2026-01-01T00:00:00"), digits = 0;
    if (strlen(at) < seconds)
        return false;
    memcpy(text, at, seconds);
    snprintf(text + seconds, sizeof(text) - seconds, ".000000Z");
    at += seconds;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++)
            if (digits < 6)
                text[seconds + 1 + digits++] = *at;
    return strcmp(at, "Z") == 0 && wall_parse(text, out);
}

void revision_json(struct json *j, const struct revision *r)
{
    const char *dot = strchr(r->key, '.');
    size_t len = dot != NULL ? (size_t)(dot - r->key) : 0;
    json_text(j, "key", span_str(r->key));
    json_text(j, "service", span_of(r->key, len));
    json_text(j, "request_id", span_str(dot != NULL ? dot + 1 : r->key));
    json_int(j, "revision", (int64_t)r->seq);
    json_text(j, "written_at", span_str(r->at));
    json_text(j, "operation", span_str(r->marker ? "delete" : "put"));
    char *text = r->record != NULL ? cJSON_PrintUnformatted(r->record) : NULL;
    if (text != NULL)
        json_raw(j, "record", span_str(text));
    else
        json_null(j, "record");
    free(text);
}

enum found records_open(struct records *r, struct link *link, const char *bucket,
                        int64_t timeout_ms)
{
    char all[WB_SUBJECT_MAX + 3];
    link_hush(); /* records_complain tells */
    *r = (struct records){.link = link, .bucket = bucket, .timeout_ms = timeout_ms};
    snprintf(r->subject, sizeof(r->subject), "$JS.API.STREAM.MSG.GET.KV_%s", bucket);
    if (wb_reply_subject(link->inbox_prefix, r->inbox) != WB_OK)
        return FOUND_ERROR;
    snprintf(all, sizeof(all), "%s.*", r->inbox);
    return natsConnection_SubscribeSync(&r->sub, link->nc, all) == NATS_OK ? FOUND_ONE
                                                                           : FOUND_NO_LINK;
}

void records_close(struct records *r)
{
    natsSubscription_Destroy(r->sub);
    r->sub = NULL;
}

static natsStatus ask(struct records *r, const char *keys, uint64_t seq)
{
    char reply[WB_SUBJECT_MAX + 32], body[WB_SUBJECT_MAX + 64];
    snprintf(reply, sizeof(reply), "%s.%llu", r->inbox, (unsigned long long)r->asked++);
    if (seq > 0)
        snprintf(body, sizeof(body), "{\"seq\":%llu,\"next_by_subj\":\"$KV.%s.%s\"}",
                 (unsigned long long)seq, r->bucket, keys);
    else
        snprintf(body, sizeof(body), "{\"last_by_subj\":\"$KV.%s.%s\"}", r->bucket, keys);
    return natsConnection_PublishRequestString(r->link->nc, r->subject, reply, body);
}

/* Subject and time of the message; js_msg_get_parse has read the rest. */
static bool read_names(const struct records *r, struct span json, struct revision *out)
{
    cJSON *tree = json_read(json, NULL);
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(tree, "message");
    struct span subject = json_member_text(message, "subject"),
                at = json_member_text(message, "time");
    size_t skip = strlen("$KV.") + strlen(r->bucket) + 1;
    bool fine =
        subject.len > skip && subject.len - skip < sizeof(out->key) && at.len < sizeof(out->at);
    if (fine) {
        snprintf(out->key, sizeof(out->key), "%s", subject.ptr + skip);
        snprintf(out->at, sizeof(out->at), "%s", at.ptr);
    }
    cJSON_Delete(tree);
    return fine;
}

static enum found found_of(struct records *r, const struct js_message *m)
{
    r->err_code = m->err_code;
    switch (m->err_code) {
    case JS_NO_MESSAGE:
        return FOUND_NONE;
    case JS_NO_STREAM:
        return FOUND_NO_BUCKET;
    case JS_NOT_ENABLED:
    case JS_NOT_ENABLED_FOR_ACCOUNT:
        return FOUND_NO_JETSTREAM;
    default:
        return FOUND_ERROR;
    }
}

static enum found read_answer(struct records *r, natsMsg *m, struct revision *out)
{
    struct span json = span_of(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m));
    struct js_message got = {0};
    *out = (struct revision){0};
    buf_init(&out->text, OUTPUT_MAX);
    enum found found = FOUND_ERROR;
    if (js_msg_get_parse(json, &got, &out->text) == WB_OK) {
        if (got.code != 0)
            found = found_of(r, &got);
        else if (read_names(r, json, out))
            found = FOUND_ONE;
    }
    out->seq = got.seq;
    out->marker = got.marker;
    if (found == FOUND_ONE && !got.marker)
        out->record = json_read(buf_span(&out->text), NULL);
    if (found != FOUND_ONE)
        revision_fini(out);
    return found;
}

/* FOUND_ONE: *m is the next answer. FOUND_SILENCE: the time is up, or the server has said no. */
static enum found hear(struct records *r, mono until, natsMsg **m)
{
    for (;;) {
        int64_t left_ms = mono_diff_us(until, clock_mono()) / 1000;
        if (left_ms < 1 || (r->stop != NULL && *r->stop))
            return FOUND_SILENCE;
        switch (natsSubscription_NextMsg(m, r->sub, left_ms < SLICE_MS ? left_ms : SLICE_MS)) {
        case NATS_OK:
            return FOUND_ONE;
        case NATS_NO_RESPONDERS:
            return FOUND_NO_JETSTREAM;
        case NATS_TIMEOUT:
            if (link_denied(r->link, r->subject))
                return FOUND_SILENCE;
            break;
        default:
            return FOUND_SILENCE;
        }
    }
}

static enum found why_silent(const struct records *r)
{
    if (link_denied(r->link, r->subject))
        return FOUND_DENIED;
    return natsConnection_Status(r->link->nc) == NATS_CONN_STATUS_CONNECTED ? FOUND_SILENCE
                                                                            : FOUND_NO_LINK;
}

/* Keeps what comes in its order; frees the rest. */
static enum found sort_out(enum found found[], struct revision got[], unsigned count,
                           struct revision out[], unsigned *used)
{
    enum found end = FOUND_ONE;
    uint64_t last = 0;
    for (unsigned i = 0; i < count; i++) {
        if (end == FOUND_ONE)
            end = found[i];
        if (end == FOUND_ONE && got[i].seq > last) {
            last = got[i].seq;
            out[(*used)++] = got[i];
        } else if (found[i] == FOUND_ONE)
            revision_fini(&got[i]);
    }
    return end;
}

enum found records_batch(struct records *r, const char *keys, uint64_t seq, unsigned count,
                         struct revision out[RECORDS_BATCH_MAX], unsigned *used)
{
    enum found found[RECORDS_BATCH_MAX];
    struct revision got[RECORDS_BATCH_MAX];
    uint64_t first = r->asked;
    size_t skip = strlen(r->inbox) + 1;
    unsigned heard = 0;
    *used = 0;
    for (unsigned i = 0; i < count; i++) {
        found[i] = FOUND_SILENCE;
        if (ask(r, keys, seq > 0 ? seq + i : 0) != NATS_OK)
            return FOUND_NO_LINK;
    }
    mono until = mono_add_ms(clock_mono(), r->timeout_ms);
    while (heard < count) {
        natsMsg *m = NULL;
        unsigned long long n = 0;
        enum found answer = hear(r, until, &m);
        if (answer == FOUND_NO_JETSTREAM)
            found[0] = answer; /* so it is for all of them */
        if (answer != FOUND_ONE)
            break;
        bool mine = strlen(natsMsg_GetSubject(m)) > skip &&
                    span_to_u64(span_str(natsMsg_GetSubject(m) + skip), &n) && n >= first &&
                    n - first < count;
        if (mine && found[n - first] == FOUND_SILENCE) {
            found[n - first] = read_answer(r, m, &got[n - first]);
            heard++;
        }
        natsMsg_Destroy(m);
    }
    enum found end = sort_out(found, got, count, out, used);
    return end == FOUND_SILENCE ? why_silent(r) : end;
}

enum found records_last(struct records *r, const char *keys, struct revision *out)
{
    return records_next(r, keys, 0, out);
}

enum found records_next(struct records *r, const char *keys, uint64_t seq, struct revision *out)
{
    struct revision got[RECORDS_BATCH_MAX];
    unsigned used;
    enum found found = records_batch(r, keys, seq, 1, got, &used);
    if (used == 1)
        *out = got[0];
    return found;
}

int records_complain(const struct records *r, enum found found)
{
    switch (found) {
    case FOUND_ONE:
        return EXIT_FINE;
    case FOUND_NONE:
        return EXIT_NOTHING;
    case FOUND_NO_BUCKET:
        fprintf(stderr,
                "waybill: there is no bucket %s: no router has attributed anything here yet, or it "
                "has another name (--bucket)\n",
                r->bucket);
        return EXIT_NOTHING;
    case FOUND_NO_JETSTREAM:
        fprintf(stderr, "waybill: bucket %s: no JetStream answers here\n", r->bucket);
        return EXIT_NOTHING;
    case FOUND_DENIED:
        fprintf(stderr, "waybill: bucket %s: these credentials may not publish %s\n", r->bucket,
                r->subject);
        return EXIT_NO_LINK;
    case FOUND_SILENCE:
        fprintf(stderr, "waybill: bucket %s: no answer within %lld ms\n", r->bucket,
                (long long)r->timeout_ms);
        return EXIT_NOTHING;
    case FOUND_NO_LINK:
        fprintf(stderr, "waybill: bucket %s: the link to NATS is down\n", r->bucket);
        return EXIT_NO_LINK;
    case FOUND_ERROR:
        break;
    }
    fprintf(stderr, "waybill: bucket %s: error %d\n", r->bucket, r->err_code);
    return EXIT_NOTHING;
}
