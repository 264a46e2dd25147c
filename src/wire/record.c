#include "wire/record.h"

#include "base/check.h"
#include "wire/json_read.h"
#include "wire/json_text.h"
#include "wire/name.h"

/* Encoding is on the path of every attributed request: room is reserved once, then filled piece by
 * piece. Measuring the texts would cost as much as writing them, so the room is first asked for as
 * if every byte needed an escape, and measured only where that is too much. */

#define PUT(at, text) (memcpy((at), (text), sizeof(text) - 1), (at) + sizeof(text) - 1)
#define FIXED_MAX                                                                                  \
    640 /* the names, punctuation, numbers, times, and quotes of all but the texts of `tried` */
#define TRIED_MAX 32 /* punctuation of one entry */
#define ESCAPE_MAX 6 /* bytes that one may become */

static size_t length_of(struct span text)
{
    return text.len;
}

/* Sum over the record's texts. */
static inline size_t sum_of(const struct record *r, size_t (*size)(struct span text))
{
    size_t n = size(r->worker) + size(r->service) + size(r->request_id) + size(r->selected) +
               size(r->policy) + size(r->reason) + size(r->session) + size(r->adapter) +
               size(r->subject) + size(r->router) + size(r->rid) + size(r->trace) +
               size(r->outcome);

    for (unsigned i = 0; i < r->tried_count; i++)
        n += size(r->tried[i].worker) + size(r->tried[i].cause);
    return n;
}

static char *reserve(const struct record *r, struct buf *out)
{
    size_t fixed = FIXED_MAX + r->tried_count * TRIED_MAX;
    char *at = buf_reserve(out, fixed + sum_of(r, length_of) * ESCAPE_MAX);

    return at ? at : buf_reserve(out, fixed + sum_of(r, json_text_size));
}

static char *put_text(char *at, struct span value)
{
    return value.len ? json_text_put(at, value) : PUT(at, "null");
}

static char *put_int(char *at, int64_t value)
{
    return value < 0 ? PUT(at, "null") : json_int_put(at, value);
}

static char *put_wall(char *at, wall when)
{
    if (when.us < 0)
        return PUT(at, "null");
    *at++ = '"';
    wall_format(when, at);
    at[WALL_TEXT_SIZE - 1] = '"';
    return at + WALL_TEXT_SIZE;
}

static char *put_tried(char *at, const struct record *r)
{
    at = PUT(at, ",\"tried\":[");
    for (unsigned i = 0; i < r->tried_count; i++) {
        if (i)
            *at++ = ',';
        at = put_text(PUT(at, "{\"worker\":"), r->tried[i].worker);
        at = put_text(PUT(at, ",\"cause\":"), r->tried[i].cause);
        *at++ = '}';
    }
    *at++ = ']';
    return at;
}

wb_status record_encode(const struct record *r, struct buf *out)
{
    char *at, *start;

    CHECK(r->tried_count <= RECORD_TRIED_MAX);
    start = at = reserve(r, out);
    if (!at)
        return WB_FULL;
    at = put_text(PUT(at, "{\"worker\":"), r->worker);
    at = put_int(PUT(at, ",\"rank\":"), r->rank);
    at = put_int(PUT(at, ",\"attempt\":"), r->attempt);
    at = put_text(PUT(at, ",\"service\":"), r->service);
    at = put_text(PUT(at, ",\"request_id\":"), r->request_id);
    at = put_tried(at, r);
    at = put_text(PUT(at, ",\"selected\":"), r->selected);
    at = put_text(PUT(at, ",\"policy\":"), r->policy);
    at = put_text(PUT(at, ",\"reason\":"), r->reason);
    at = put_text(PUT(at, ",\"session\":"), r->session);
    at = put_text(PUT(at, ",\"adapter\":"), r->adapter);
    at = put_text(PUT(at, ",\"subject\":"), r->subject);
    at = put_text(PUT(at, ",\"router\":"), r->router);
    at = put_text(PUT(at, ",\"rid\":"), r->rid);
    at = put_int(PUT(at, ",\"worker_epoch\":"), r->worker_epoch);
    at = put_text(PUT(at, ",\"trace\":"), r->trace);
    at = put_wall(PUT(at, ",\"received_at\":"), r->received_at);
    at = put_int(PUT(at, ",\"first_reply_us\":"), r->first_reply_us);
    at = put_wall(PUT(at, ",\"finished_at\":"), r->finished_at);
    at = put_int(PUT(at, ",\"replies\":"), r->replies);
    at = put_int(PUT(at, ",\"code\":"), r->code);
    at = put_text(PUT(at, ",\"v\":1,\"outcome\":"), r->outcome);
    *at++ = '}';
    if (at - start > RECORD_SIZE_MAX)
        return WB_TOO_LARGE;
    buf_grew(out, (size_t)(at - start));
    return WB_OK;
}

/* Copies a text member that must be there and fit. */
static bool take(const cJSON *tree, const char *name, char *out, size_t size)
{
    struct span text = json_member_text(tree, name);

    if (text.len == 0 || text.len >= size)
        return false;
    memcpy(out, text.ptr, text.len + 1);
    return true;
}

static wb_status decode(const cJSON *tree, struct record_brief *out)
{
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(tree, "rank");
    char when[WALL_TEXT_SIZE];
    int64_t v;

    if (!cJSON_IsObject(tree) || !json_integer(cJSON_GetObjectItemCaseSensitive(tree, "v"), &v) ||
        v < 1)
        return WB_INVALID;
    if (v > 1)
        return WB_UNSUPPORTED;
    out->v = 1;
    out->rank = -1;
    if (rank && !cJSON_IsNull(rank) && (!json_integer(rank, &out->rank) || out->rank < 0))
        return WB_INVALID;
    if (!take(tree, "worker", out->worker, sizeof(out->worker)) ||
        !name_is_id(span_str(out->worker)) || !take(tree, "rid", out->rid, sizeof(out->rid)) ||
        !take(tree, "outcome", out->outcome, sizeof(out->outcome)) ||
        !take(tree, "received_at", when, sizeof(when)) || !wall_parse(when, &out->received_at))
        return WB_INVALID;
    return WB_OK;
}

wb_status record_decode_brief(struct span json, struct record_brief *out)
{
    cJSON *tree = json.len <= 65536 ? json_read(json, NULL) : NULL;
    wb_status status;

    memset(out, 0, sizeof(*out));
    status = tree ? decode(tree, out) : WB_INVALID;
    cJSON_Delete(tree);
    return status;
}

struct span record_trace_of(struct span traceparent)
{
    enum { VERSION = 3, ID = 32, SHORTEST = 55 };
    bool zero = true;

    /* version-trace_id-parent_id-flags; later versions may append after another dash */
    if (traceparent.len < SHORTEST || traceparent.ptr[2] != '-' || traceparent.ptr[35] != '-' ||
        traceparent.ptr[52] != '-' || (traceparent.len > SHORTEST && traceparent.ptr[55] != '-'))
        return SPAN_EMPTY;
    if (span_starts(traceparent, SPAN_LIT("ff")) ||
        (traceparent.len > SHORTEST && span_starts(traceparent, SPAN_LIT("00"))))
        return SPAN_EMPTY;
    for (int i = 0; i < SHORTEST; i++) {
        char c = traceparent.ptr[i];

        if (i == 2 || i == 35 || i == 52)
            continue;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return SPAN_EMPTY;
        if (i >= VERSION && i < VERSION + ID && c != '0')
            zero = false;
    }
    return zero ? SPAN_EMPTY : span_of(traceparent.ptr + VERSION, ID);
}
