/* Bytes of an established connection: input cut into operations and handed out, output gathered and
 * sent.
 *
 * Output. Everything is appended to one buffer; the loop's hook sends it once before the loop
 * sleeps, and SEND_AT bytes send it at once. When the socket takes less than given, out_stuck holds
 * until the transport tells that it takes more. Marks:
 *
 *     0 ... max/4 ........ max ........ max + CONTROL_ROOM
 *           |              |            |
 *           drained told   publish is   control lines (PONG, PING, SUB, UNSUB) go on up to here, so
 * that after a full   refused      a full buffer never costs the connection
 *
 * One message alone may pass the mark when the buffer is empty, or a mark below the largest payload
 * would block it for ever.
 *
 * Input. At most READ_MAX bytes a turn. Spans of a message point into the buffer, and callbacks may
 * do anything to the lane, close and destroy included: so the buffer is neither moved nor freed
 * while a callback runs (traffic_reset only empties it), and after each operation the loop looks
 * whether the transport is still there.
 *
 * Errors of send are never told from inside a call of the owner: lane_break notes them, the loop
 * tells them. */
#include <stdlib.h>

#include "base/check.h"
#include "base/swar.h"
#include "lane/inner.h"
#include "lane/parser.h"

static char *put_text(char *at, struct span text)
{
    memcpy(at, text.ptr, text.len);
    return at + text.len;
}

static char *put_number(char *at, uint64_t value)
{
    char digits[20];
    unsigned n = 0;

    if (value < 1000) { /* almost always: sizes of messages */
        unsigned small = (unsigned)value;

        if (small >= 100)
            *at++ = (char)('0' + small / 100);
        if (small >= 10)
            *at++ = (char)('0' + small / 10 % 10);
        *at++ = (char)('0' + small % 10);
        return at;
    }
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

/* No blank, control or DEL anywhere. */
static bool is_clean(struct span text)
{
    uint64_t bad = 0;
    size_t i = 0;

    for (; i + 8 <= text.len; i += 8) {
        uint64_t word = swar_load(text.ptr + i);

        bad |= swar_below(word, 0x21) | swar_has(word, 0x7f);
    }
    for (; i < text.len; i++)
        bad |= (unsigned char)text.ptr[i] < 0x21 || text.ptr[i] == 0x7f;
    return bad == 0;
}

static wb_status refuse(struct lane *lane)
{
    lane->out_refused = true;
    lane->counts.refused_full++;
    return WB_FULL;
}

wb_status lane_publish_known(struct lane *lane, struct span subject, struct span reply,
                             struct span headers, struct span payload)
{
    size_t size = headers.len + payload.len, held = buf_len(&lane->out);
    size_t most =
        subject.len + reply.len + size + 64; /* 64: word, blanks, two numbers, line ends */
    char *at, *from;

    if (lane->state != LANE_UP)
        return WB_CLOSED;
    if (size > lane->max_payload)
        return WB_TOO_LARGE;
    if (subject.len == 0 || subject.len + reply.len > CONTROL_LINE_MAX)
        return WB_INVALID;
    if (headers.len > 0 && !lane->info.headers)
        return WB_UNSUPPORTED;
    if (held > 0 && held + most > lane->options.output_max)
        return refuse(lane);
    from = at = buf_reserve(&lane->out, most);
    if (!at)
        return held + most > lane->out.max ? refuse(lane) : WB_NO_MEMORY;
    at = headers.len > 0 ? put_text(at, SPAN_LIT("HPUB ")) : put_text(at, SPAN_LIT("PUB "));
    at = put_text(at, subject);
    *at++ = ' ';
    if (reply.len > 0) {
        at = put_text(at, reply);
        *at++ = ' ';
    }
    if (headers.len > 0) {
        at = put_number(at, headers.len);
        *at++ = ' ';
    }
    at = put_number(at, size);
    *at++ = '\r';
    *at++ = '\n';
    if (headers.len > 0)
        at = put_text(at, headers);
    if (payload.len > 0)
        at = put_text(at, payload);
    *at++ = '\r';
    *at++ = '\n';
    buf_grew(&lane->out, (size_t)(at - from));
    lane->counts.out_msgs++;
    lane->counts.out_bytes += size;
    if (held + (size_t)(at - from) >= SEND_AT && !lane->out_stuck)
        traffic_send(lane);
    return WB_OK;
}

wb_status lane_publish(struct lane *lane, struct span subject, struct span reply,
                       struct span headers, struct span payload)
{
    if (!is_clean(subject) || !is_clean(reply))
        return WB_INVALID;
    return lane_publish_known(lane, subject, reply, headers, payload);
}

void traffic_send(struct lane *lane)
{
    size_t n = buf_len(&lane->out);
    int64_t sent;

    if (n == 0 || lane->out_stuck || !lane->transport || lane->broken != WB_OK)
        return;
    sent = transport_write(lane->transport, lane->out.data + lane->out.head, n);
    if (sent < 0) {
        lane_break(lane, WB_CLOSED, transport_text(lane->transport));
        return;
    }
    buf_consume(&lane->out, (size_t)sent);
    lane->out_stuck = (size_t)sent < n;
    if (lane->out_refused && n - (size_t)sent < lane->options.output_max / 4)
        lane_soon(lane, SOON_DRAINED);
}

void traffic_control(struct lane *lane, struct span text)
{
    if (lane->transport && buf_append(&lane->out, text.ptr, text.len) != WB_OK)
        lane_break(lane, WB_NO_MEMORY, "no room for a control line");
}

void traffic_sub(struct lane *lane, const struct subscription *sub)
{
    char line[CONTROL_LINE_MAX + 64], *at = line;

    at = put_text(at, SPAN_LIT("SUB "));
    at = put_text(at, sub->subject);
    *at++ = ' ';
    if (sub->queue.len > 0) {
        at = put_text(at, sub->queue);
        *at++ = ' ';
    }
    at = put_number(at, sub->sid);
    at = put_text(at, SPAN_LIT("\r\n"));
    traffic_control(lane, span_of(line, (size_t)(at - line)));
}

void traffic_unsub(struct lane *lane, const struct subscription *sub)
{
    char line[32], *at = put_text(line, SPAN_LIT("UNSUB "));

    at = put_number(at, sub->sid);
    at = put_text(at, SPAN_LIT("\r\n"));
    traffic_control(lane, span_of(line, (size_t)(at - line)));
}

static bool grow_pongs(struct lane *lane)
{
    unsigned size = lane->pong_size ? lane->pong_size * 2 : 16;
    struct pong *pongs = size <= PONGS_MAX ? calloc(size, sizeof(*pongs)) : NULL;

    if (!pongs)
        return false;
    for (unsigned i = 0; i < lane->pong_count; i++)
        pongs[i] = lane->pongs[(lane->pong_first + i) % lane->pong_size];
    free(lane->pongs);
    lane->pongs = pongs;
    lane->pong_size = size;
    lane->pong_first = 0;
    return true;
}

void traffic_ping(struct lane *lane, struct pong pong)
{
    if (lane->pong_count == lane->pong_size && !grow_pongs(lane)) {
        lane_break(lane, WB_NO_MEMORY, "too many unanswered pings");
        return;
    }
    lane->pongs[(lane->pong_first + lane->pong_count) % lane->pong_size] = pong;
    lane->pong_count++;
    traffic_control(lane, SPAN_LIT("PING\r\n"));
}

bool traffic_next_pong(struct lane *lane, struct pong *pong)
{
    if (lane->pong_count == 0)
        return false;
    *pong = lane->pongs[lane->pong_first];
    lane->pong_first = (lane->pong_first + 1) % lane->pong_size;
    lane->pong_count--;
    return true;
}

wb_status lane_flush(struct lane *lane, void (*fn)(void *arg, bool ok), void *arg)
{
    MAGIC_CHECK(lane, LANE_MAGIC);
    if (lane->state != LANE_UP)
        return WB_CLOSED;
    if (lane->pong_count >= PONGS_MAX / 2) /* the other half is for our own */
        return WB_FULL;
    if (lane->pong_count == lane->pong_size && !grow_pongs(lane))
        return WB_NO_MEMORY;
    traffic_ping(lane, (struct pong){.kind = PONG_FLUSH, .fn = fn, .arg = arg});
    return WB_OK;
}

/* After lane_close nothing is handed out any more: what comes then is read only to find the last
 * PONG. */
static void deliver(struct lane *lane, const struct parser_message *in)
{
    struct subscription *sub = subs_get(&lane->subs, in->sid);
    struct lane_message message = {in->subject, in->reply, in->headers, in->payload, in->sid};

    lane->counts.in_msgs++;
    lane->counts.in_bytes += in->headers.len + in->payload.len;
    if (sub && lane->state == LANE_UP)
        sub->on_message(sub->arg, &message);
}

static void handle(struct lane *lane, const struct parser_result *r)
{
    switch (r->op) {
    case PARSER_MSG:
        deliver(lane, &r->message);
        return;
    case PARSER_PING:
        traffic_control(lane, SPAN_LIT("PONG\r\n"));
        return;
    case PARSER_PONG:
        lane_on_pong(lane);
        return;
    case PARSER_INFO:
        lane_on_info(lane, r->text);
        return;
    case PARSER_ERR:
        lane_on_error(lane, r->text);
        return;
    default:
        return;
    }
}

/* Every whole operation at the front of the buffer. */
static void parse(struct lane *lane)
{
    struct span rest = buf_span(&lane->in);
    size_t before = rest.len;

    lane->in_want = 0;
    while (rest.len > 0) {
        struct parser_result r = parser_next(rest, MESSAGE_MAX);

        if (r.op == PARSER_MORE) {
            lane->in_want = r.want;
            break;
        }
        if (r.op == PARSER_BROKEN) {
            lane_fail(lane, WB_INVALID, "the server's bytes are not the NATS protocol");
            return;
        }
        rest.ptr += r.used;
        rest.len -= r.used;
        handle(lane, &r);
        if (!lane->transport)
            return;
        if (lane->state == LANE_HANDSHAKE && lane->step == STEP_TLS && rest.len > 0) {
            /* Bytes in clear before the TLS handshake could be anybody's. */
            lane_fail(lane, WB_INVALID, "the server spoke before the TLS handshake");
            return;
        }
    }
    buf_consume(&lane->in, before - rest.len);
}

void traffic_read(struct lane *lane)
{
    size_t held = buf_len(&lane->in), room = lane->read_size;
    bool more = false;
    int64_t got;
    char *at;

    if (lane->in_want > held + room)
        room = lane->in_want - held;
    at = buf_reserve(&lane->in, room);
    if (!at) {
        lane_fail(lane, WB_NO_MEMORY, "no memory for input");
        return;
    }
    if (room > READ_MAX)
        room = READ_MAX;
    got = transport_read(lane->transport, at, room, &more);
    if (got < 0) {
        lane_fail(lane, WB_CLOSED, lane->said[0] ? lane->said : transport_text(lane->transport));
        return;
    }
    buf_grew(&lane->in, (size_t)got);
    if ((size_t)got == room && lane->read_size < READ_MAX)
        lane->read_size *= 2;
    if (more)
        lane_soon(lane, SOON_READ);
    if (got > 0)
        parse(lane);
}

void traffic_reset(struct lane *lane)
{
    buf_clear(&lane->in);
    buf_clear(&lane->out);
    lane->in_want = 0;
    lane->out_stuck = false;
    lane->out_refused = false;
    lane->unsub_ping = false;
    lane->pings_out = 0;
    lane->quiet_mark = 0;
}

void traffic_be_small(struct lane *lane)
{
    uint64_t mark = lane->counts.in_bytes + lane->counts.out_bytes;

    if (mark - lane->quiet_mark < READ_MIN) {
        lane->read_size = READ_MIN;
        if (buf_len(&lane->in) == 0)
            buf_shrink(&lane->in);
        if (buf_len(&lane->out) == 0)
            buf_shrink(&lane->out);
    }
    lane->quiet_mark = mark;
}
