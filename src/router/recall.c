/* Recall: a client's retry (Waybill-Retry) is led by the record of its id, if there is one.
 *
 * The ledger is asked first: a record on its way to the bucket is known here, whatever becomes of
 * JetStream. Else the bucket's leader is asked over the back lane, and the request waits in
 * PLACE_RECORD_WAIT, READ_MS at most and never longer than its total time. What comes of it is one
 * of three, each counted:
 *
 *   found     core is told worker and rank, and how the client wants them
 *   none      no record or a delete marker: an ordinary request
 *   unknown   no answer in time, nobody there to answer, a record that can't be read, attribution
 *             off, too many reads at once: an ordinary request whose answer says
 *             Waybill-Retry-State: unknown
 *
 * Then it goes on as if it had just come in. Each request asks once, so its handle tells an answer
 * that is still awaited from a late one. Nothing is tried again: a retry that waits is worse than
 * one that does not know. A back lane that is lost meanwhile needs no care: the clock is short. */
#include "router/ledger.h"

#include "base/check.h"
#include "base/id.h"
#include "base/loop.h"
#include "wire/js.h"

#define READ_MS 250
#define READS_MAX 1024
#define ERR_NO_MESSAGE 10037 /* the other 404 is that of a stream that is not there */

static void go_on(struct transit *t, enum count what, mono now)
{
    router_count(t->router, what);
    t->retry_unknown = what == COUNT_RETRY_READS_UNKNOWN;
    transit_place(t, PLACE_RUNNING);
    intake_proceed(t, now);
}

static enum count take_record(struct transit *t, struct span value)
{
    struct record_brief brief;

    if (record_decode_brief(value, &brief) != WB_OK)
        return COUNT_RETRY_READS_UNKNOWN; /* of a newer version perhaps */
    t->recalled = strdup(brief.worker);
    if (!t->recalled)
        return COUNT_RETRY_READS_UNKNOWN;
    request_recall(&t->core, (enum recall)t->recall, span_str(t->recalled),
                   brief.rank > INT32_MAX ? -1 : (int32_t)brief.rank);
    return COUNT_RETRY_READS_FOUND;
}

/* False: that takes asking the bucket. */
static bool known_here(struct transit *t, struct span key, enum count *what)
{
    struct router *r = t->router;
    struct span value;

    if (r->settings->attribution.write == ATTRIBUTION_OFF)
        *what = COUNT_RETRY_READS_UNKNOWN;
    else if (t->made_id) /* an id that was not there before has no record */
        *what = COUNT_RETRY_READS_NONE;
    else if (ledger_newest(r->ledger, key, &value))
        *what = take_record(t, value);
    else
        return false;
    return true;
}

static bool ask_bucket(struct transit *t, struct span key)
{
    struct router *r = t->router;

    return r->places[PLACE_RECORD_WAIT].count < READS_MAX &&
           ledger_ask(r->ledger, key, 'k', t->handle) == WB_OK;
}

void recall_start(struct transit *t, enum recall how, mono now)
{
    char text[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2];
    struct span key = span_of(text, transit_key(t->service->name, t->id, text));
    enum count what = COUNT_RETRY_READS_UNKNOWN;

    t->recall = (uint8_t)how;
    if (known_here(t, key, &what) || !ask_bucket(t, key)) {
        go_on(t, what, now);
        return;
    }
    transit_place(t, PLACE_RECORD_WAIT);
    transit_arm(t, CLOCK_RECORD, mono_add_ms(now, READ_MS));
}

static enum count take_answer(struct transit *t, const struct lane_message *m)
{
    struct buf *data = &t->router->body_out;
    struct js_message found;

    buf_clear(data);
    if ((m->headers.len && header_status(m->headers)) ||
        js_msg_get_parse(m->payload, &found, data) != WB_OK)
        return COUNT_RETRY_READS_UNKNOWN;
    if (found.code == 404 && found.err_code == ERR_NO_MESSAGE)
        return COUNT_RETRY_READS_NONE;
    if (found.code)
        return COUNT_RETRY_READS_UNKNOWN;
    return found.marker ? COUNT_RETRY_READS_NONE : take_record(t, buf_span(data));
}

void recall_on_inbox(struct router *r, struct span token, const struct lane_message *m, mono now)
{
    struct transit *t = slab_get(r->transits, (uint64_t)id_decode(token.ptr + 1, TOKEN_HANDLE_LEN));

    if (t && t->place == PLACE_RECORD_WAIT)
        go_on(t, take_answer(t, m), now);
}

void recall_late(struct transit *t, mono now)
{
    go_on(t, COUNT_RETRY_READS_UNKNOWN, now);
}
