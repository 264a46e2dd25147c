/* One connection to NATS that is kept for ever. States, with what the clock (one timer) means in
 * each:
 *
 *   IDLE ----> WAITING --> CONNECTING --> HANDSHAKE --> UP --> CLOSING --> CLOSED
 *   created    back-off    lookup, TCP    see step      ping    last PONG
 *                 ^____________|______________|_________|
 *
 * HANDSHAKE has steps: INFO awaited; TLS under way (before INFO with tls_first); PONG awaited,
 * after CONNECT and PING. PONG means the server has accepted us: then all SUBs are written, and
 * only then `up` is told. The connect timeout runs over CONNECTING and HANDSHAKE together.
 *
 * Invariants
 * - transport is NULL exactly in IDLE, WAITING and CLOSED. Every loss goes through lane_fail,
 * whatever its reason: it ends at WAITING, never at a final state; an error of authentication is a
 * reason like any other. (CLOSING ends at CLOSED.)
 * - Publishing is possible in UP only, and output is emptied when a connection ends: nothing is
 * ever sent late.
 * - PONGs answer PINGs in order, so a ring of what each one means (inner.h, pong_kind) gives
 * flushes, unsubscribes, probes and the last word of a close. Each accepted flush is answered once,
 * with false when the connection ended first.
 * - An unsubscribed sid is used again only after a PONG has proved that no message for it is under
 * way, or the connection has ended.
 * - Connecting begins from the clock only, so nothing here recurses through a failing connect.
 * - Callbacks of the owner come from the loop only (and flush answers from close and destroy), and
 * may call anything here. Memory is freed when the last of our calls on the stack returns (depth).
 *
 * Servers. The pool is walked round; while there is one that was not tried since the last pause, it
 * is tried at once; then comes a pause with full jitter under an exponential bound. A connection
 * that stood for a while forgives all earlier failures. Lame duck: with another server in the pool,
 * what was sent is confirmed by a PONG, then the walk goes on at once.
 *
 * What it does not do: keep messages while down, drain subscriptions, retry a publish, parse
 * subjects. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "lane/inner.h"
#include "lane/parser.h"

#define PINGS_UNANSWERED_MAX 2
#define STOOD_MS 1000 /* a connection that lived so long was a good one */
#define PAUSE_DOUBLINGS_MAX 16

static const struct {
    const char *name;
    unsigned next; /* bits of the states that may follow */
} states[] = {
    [LANE_IDLE] = {"idle", 1u << LANE_WAITING | 1u << LANE_CLOSED},
    [LANE_WAITING] = {"waiting", 1u << LANE_CONNECTING | 1u << LANE_CLOSED},
    [LANE_CONNECTING] = {"connecting",
                         1u << LANE_WAITING | 1u << LANE_HANDSHAKE | 1u << LANE_CLOSED},
    [LANE_HANDSHAKE] = {"handshake", 1u << LANE_WAITING | 1u << LANE_UP | 1u << LANE_CLOSED},
    [LANE_UP] = {"up", 1u << LANE_WAITING | 1u << LANE_CLOSING | 1u << LANE_CLOSED},
    [LANE_CLOSING] = {"closing", 1u << LANE_CLOSED},
    [LANE_CLOSED] = {"closed", 1u << LANE_CLOSED},
};

static void set_state(struct lane *lane, enum lane_state state)
{
    CHECK(states[lane->state].next & 1u << state);
    lane->state = state;
}

static void set_clock(struct lane *lane, int64_t ms)
{
    loop_timer_set(lane->clock, mono_add_ms(loop_now(lane->loop), ms));
}

static void lane_free(struct lane *lane);

static void lane_enter(struct lane *lane)
{
    MAGIC_CHECK(lane, LANE_MAGIC);
    lane->depth++;
}

static void lane_leave(struct lane *lane)
{
    if (--lane->depth == 0 && lane->destroyed)
        lane_free(lane);
}

void lane_soon(struct lane *lane, unsigned what)
{
    if (lane->soon == 0)
        loop_timer_set(lane->soon_timer, loop_now(lane->loop));
    lane->soon |= what;
}

void lane_break(struct lane *lane, wb_status why, const char *text)
{
    if (lane->broken != WB_OK || !lane->transport)
        return;
    lane->broken = why;
    snprintf(lane->broken_text, sizeof(lane->broken_text), "%s", text);
    lane_soon(lane, SOON_FAIL);
}

/* Ends the connection, silently. */
static void drop(struct lane *lane)
{
    transport_close(lane->transport);
    lane->transport = NULL;
    lane->soon = 0;
    lane->broken = WB_OK;
    lane->leaving = false;
    loop_timer_set(lane->soon_timer, MONO_NEVER);
    loop_timer_set(lane->clock, MONO_NEVER);
    traffic_reset(lane);
    buf_fini(&lane->first_info);
    buf_init(&lane->first_info, PARSER_LINE_MAX);
    subs_left(&lane->subs, UINT64_MAX);
}

/* The flushes that were under way. New ones are refused by then, so this ends. */
static void answer_flushes(struct lane *lane)
{
    struct pong pong;

    while (traffic_next_pong(lane, &pong)) {
        if (pong.kind == PONG_FLUSH)
            pong.fn(pong.arg, false);
    }
}

static void end(struct lane *lane)
{
    drop(lane);
    set_state(lane, LANE_CLOSED);
    answer_flushes(lane);
}

/* Milliseconds until the next connect; 0 while a server is untried since the last pause. */
static int64_t next_pause(struct lane *lane)
{
    int64_t min = lane->options.reconnect_min_ms, max = lane->options.reconnect_max_ms;
    int64_t bound;

    if (lane->tried < lane->pool.count)
        return 0;
    lane->tried = 0;
    bound = min << (lane->pauses + 1);
    if (bound > max || bound < min)
        bound = max;
    if (lane->pauses < PAUSE_DOUBLINGS_MAX)
        lane->pauses++;
    return min + (int64_t)rng_below(&lane->rng, (uint64_t)(bound - min) + 1);
}

void lane_fail(struct lane *lane, wb_status why, const char *text)
{
    bool was_up = lane->state == LANE_UP;
    bool good = was_up && (lane->leaving ||
                           mono_diff_us(loop_now(lane->loop), lane->up_since) >= STOOD_MS * 1000);
    char copy[LANE_TEXT_MAX], shown[LOG_QUOTE_SIZE];
    int64_t pause;

    snprintf(copy, sizeof(copy), "%s", text); /* it may belong to what is dropped now */
    snprintf(lane->last_error, sizeof(lane->last_error), "%s", text);
    if (lane->state == LANE_CLOSING) {
        end(lane);
        return;
    }
    drop(lane);
    if (good) {
        lane->pauses = 0;
        lane->tried = 1;
    }
    pause = next_pause(lane);
    set_state(lane, LANE_WAITING);
    set_clock(lane, pause);
    log_limited(&lane->log_limit, loop_now(lane->loop), LOG_WARN,
                "nats %s: %s %s: %s; next in %lld ms", lane->options.name ? lane->options.name : "",
                lane->server_name, was_up ? "lost" : "not reached",
                log_quote(span_str(copy), shown), (long long)pause);
    if (was_up)
        lane->counts.disconnects++;
    answer_flushes(lane);
    if (was_up && lane->events.down && !lane->destroyed)
        lane->events.down(lane->arg, lane, why, copy);
}

static void learn(void *arg, struct span url)
{
    struct lane *lane = arg;

    pool_learn(&lane->pool, url, lane->server);
}

/* The cluster's members as the server tells them now. */
static void learn_servers(struct lane *lane, struct span json)
{
    struct handshake_info info;

    pool_learn_begin(&lane->pool);
    if (handshake_read_info(json, &info, learn, lane) == WB_OK && info.has_urls)
        pool_learn_end(&lane->pool, lane->server);
}

static void send_connect(struct lane *lane)
{
    const struct pool_server *s = lane->server;
    struct credentials who;
    char why[CREDENTIALS_TEXT_MAX];
    wb_status status = credentials_gather(&who, &lane->options, s->user, s->password, s->token,
                                          lane->info.nonce, why);

    if (status != WB_OK) {
        lane_fail(lane, status, why);
        return;
    }
    status = handshake_write_connect(&lane->out, &who, lane->options.name,
                                     transport_is_secure(lane->transport));
    credentials_fini(&who);
    if (status != WB_OK) {
        lane_fail(lane, status, "no memory for CONNECT");
        return;
    }
    traffic_control(lane, SPAN_LIT("PING\r\n"));
    lane->step = STEP_PONG;
    traffic_send(lane);
}

static void start_tls(struct lane *lane)
{
    const struct pool_server *s = lane->server;
    struct tls_settings settings = {
        .ca = lane->options.tls_ca,
        .cert = lane->options.tls_cert,
        .key = lane->options.tls_key,
        .name = s->tls_name[0] ? s->tls_name : s->host,
        .insecure = lane->options.tls_insecure,
    };

    lane->step = STEP_TLS;
    transport_secure(lane->transport, &settings);
}

/* The first INFO: decides on TLS. What was asked for is never given up, whatever the server says.
 */
static void on_first_info(struct lane *lane, struct span json)
{
    bool wanted = lane->tls_required || lane->info.tls_required;

    if (buf_append(&lane->first_info, json.ptr, json.len) != WB_OK) {
        lane_fail(lane, WB_NO_MEMORY, "no memory for INFO");
        return;
    }
    if (transport_is_secure(lane->transport) || !wanted) {
        send_connect(lane);
    } else if (lane->tls_required && !lane->info.tls_required && !lane->info.tls_available) {
        lane_fail(lane, WB_DENIED, "TLS was asked for and the server offers none");
    } else {
        start_tls(lane);
    }
}

static void take_max_payload(struct lane *lane, const struct handshake_info *info)
{
    if (info->max_payload > 0)
        lane->max_payload = info->max_payload < MESSAGE_MAX ? info->max_payload : MESSAGE_MAX;
}

void lane_on_info(struct lane *lane, struct span json)
{
    struct handshake_info info;

    if (handshake_read_info(json, &info, NULL, NULL) != WB_OK) {
        lane_fail(lane, WB_INVALID, "malformed INFO");
        return;
    }
    if (lane->state == LANE_HANDSHAKE && lane->step == STEP_INFO) {
        lane->info = info;
        take_max_payload(lane, &info);
        on_first_info(lane, json);
        return;
    }
    take_max_payload(lane, &info);
    if (lane->state != LANE_UP)
        return;
    learn_servers(lane, json);
    if (info.ldm && !lane->leaving && lane->pool.count > 1) {
        lane->leaving = true;
        traffic_ping(lane, (struct pong){.kind = PONG_LEAVE});
    }
}

static void send_sub(struct lane *lane, uint64_t sid)
{
    struct subscription *sub = subs_get(&lane->subs, sid);

    if (sub)
        traffic_sub(lane, sub);
}

static void come_up(struct lane *lane)
{
    set_state(lane, LANE_UP);
    lane->up_since = loop_now(lane->loop);
    lane->counts.connects++;
    set_clock(lane, lane->options.ping_interval_ms);
    learn_servers(lane, buf_span(&lane->first_info));
    buf_fini(&lane->first_info);
    buf_init(&lane->first_info, PARSER_LINE_MAX);
    for (uint32_t sid = 1; sid < lane->subs.used; sid++)
        send_sub(lane, sid);
    log_write(LOG_INFO, "nats %s: connected to %s", lane->options.name ? lane->options.name : "",
              lane->server_name);
    if (lane->events.up)
        lane->events.up(lane->arg, lane, lane->ups++);
}

void lane_on_pong(struct lane *lane)
{
    struct pong pong;

    if (lane->state == LANE_HANDSHAKE) {
        if (lane->step == STEP_PONG)
            come_up(lane);
        return;
    }
    lane->pings_out = 0;
    if (!traffic_next_pong(lane, &pong))
        return; /* not asked for: harmless */
    switch (pong.kind) {
    case PONG_PROBE:
        return;
    case PONG_FLUSH:
        pong.fn(pong.arg, true);
        return;
    case PONG_UNSUB:
        subs_left(&lane->subs, pong.mark);
        return;
    case PONG_LEAVE:
        if (lane->state == LANE_UP)
            lane_fail(lane, WB_CLOSED, "the server is about to stop (lame duck)");
        return;
    case PONG_CLOSE:
        end(lane);
        return;
    }
}

void lane_on_error(struct lane *lane, struct span text)
{
    struct span subject;
    enum handshake_verdict verdict = handshake_read_error(text, &subject);
    int n = text.len < LANE_TEXT_MAX ? (int)text.len : LANE_TEXT_MAX - 1;
    char shown[LOG_QUOTE_SIZE];

    snprintf(lane->said, sizeof(lane->said), "%.*s", n, text.ptr);
    memcpy(lane->last_error, lane->said, sizeof(lane->last_error));
    lane->counts.errors++;
    if (verdict >= HANDSHAKE_REFUSED || lane->state == LANE_HANDSHAKE) {
        lane_fail(lane, verdict == HANDSHAKE_OVER ? WB_CLOSED : WB_DENIED, lane->said);
        return;
    }
    log_limited(&lane->log_limit, loop_now(lane->loop), LOG_WARN, "nats %s: %s says: %s",
                lane->options.name ? lane->options.name : "", lane->server_name,
                log_quote(text, shown));
    if (verdict != HANDSHAKE_LIVES && lane->state == LANE_UP && lane->events.denied)
        lane->events.denied(lane->arg, lane, verdict == HANDSHAKE_DENIED_PUBLISH, subject,
                            lane->said);
}

static void on_connected(void *arg)
{
    struct lane *lane = arg;

    lane_enter(lane);
    set_state(lane, LANE_HANDSHAKE);
    lane->step = STEP_INFO;
    if (lane->options.tls_first)
        start_tls(lane);
    lane_leave(lane);
}

static void on_secured(void *arg)
{
    struct lane *lane = arg;

    lane_enter(lane);
    if (lane->options.tls_first)
        lane->step = STEP_INFO;
    else
        send_connect(lane);
    lane_leave(lane);
}

static void on_failed(void *arg, wb_status why, const char *text)
{
    struct lane *lane = arg;

    lane_enter(lane);
    lane_fail(lane, why, text);
    lane_leave(lane);
}

static void on_ready(void *arg, bool readable, bool writable)
{
    struct lane *lane = arg;

    lane_enter(lane);
    if (writable)
        lane->out_stuck = false; /* the hook sends, unless there is much */
    if (readable)
        traffic_read(lane);
    if (lane->transport && buf_len(&lane->out) >= SEND_AT)
        traffic_send(lane);
    lane_leave(lane);
}

static const struct transport_events transport_events = {
    .connected = on_connected,
    .secured = on_secured,
    .ready = on_ready,
    .failed = on_failed,
};

static void begin_connect(struct lane *lane)
{
    bool v6;

    lane->server = pool_next(&lane->pool);
    lane->tried++;
    lane->said[0] = '\0';
    memset(&lane->info, 0, sizeof(lane->info));
    v6 = strchr(lane->server->host, ':') != NULL;
    snprintf(lane->server_name, sizeof(lane->server_name), v6 ? "[%s]:%d" : "%s:%d",
             lane->server->host, lane->server->port);
    set_state(lane, LANE_CONNECTING);
    set_clock(lane, lane->options.connect_timeout_ms);
    lane->transport = transport_open(lane->loop, lane->server->host, lane->server->port,
                                     lane->options.connect_timeout_ms, &transport_events, lane);
    if (!lane->transport)
        lane_fail(lane, WB_NO_MEMORY, "no memory to connect");
}

static void probe(struct lane *lane)
{
    if (lane->pings_out >= PINGS_UNANSWERED_MAX) {
        lane_fail(lane, WB_TIMED_OUT, "the server does not answer pings");
        return;
    }
    lane->pings_out++;
    traffic_be_small(lane);
    traffic_ping(lane, (struct pong){.kind = PONG_PROBE});
    set_clock(lane, lane->options.ping_interval_ms);
}

static void on_clock(void *arg)
{
    struct lane *lane = arg;

    lane_enter(lane);
    switch (lane->state) {
    case LANE_WAITING:
        begin_connect(lane);
        break;
    case LANE_CONNECTING:
    case LANE_HANDSHAKE:
        lane_fail(lane, WB_TIMED_OUT,
                  lane->said[0] ? lane->said : "no connection within the connect timeout");
        break;
    case LANE_UP:
        probe(lane);
        break;
    case LANE_CLOSING:
        end(lane);
        break;
    default:
        break;
    }
    lane_leave(lane);
}

static void on_soon(void *arg)
{
    struct lane *lane = arg;
    unsigned soon = lane->soon;

    lane_enter(lane);
    lane->soon = 0;
    /* A broken send may mean that the server said why and closed: read that first. */
    if (soon & (SOON_READ | SOON_FAIL))
        traffic_read(lane);
    if (soon & SOON_FAIL && lane->transport)
        lane_fail(lane, lane->broken, lane->said[0] ? lane->said : lane->broken_text);
    if (soon & SOON_DRAINED && lane->state == LANE_UP && lane->out_refused) {
        lane->out_refused = false;
        if (lane->events.drained)
            lane->events.drained(lane->arg, lane);
    }
    lane_leave(lane);
}

/* No callback of the owner may come from here: another lane's hook may have run already, and what
 * the owner publishes there would wait for the next turn. */
static void on_turn_end(void *arg)
{
    struct lane *lane = arg;

    MAGIC_CHECK(lane, LANE_MAGIC);
    if (lane->unsub_ping) {
        lane->unsub_ping = false;
        traffic_ping(lane, (struct pong){.kind = PONG_UNSUB, .mark = lane->subs.mark});
    }
    traffic_send(lane);
}

static const size_t option_texts[] = {
    offsetof(struct lane_options, servers),   offsetof(struct lane_options, user),
    offsetof(struct lane_options, password),  offsetof(struct lane_options, token),
    offsetof(struct lane_options, nkey_file), offsetof(struct lane_options, creds_file),
    offsetof(struct lane_options, nkey_seed), offsetof(struct lane_options, tls_ca),
    offsetof(struct lane_options, tls_cert),  offsetof(struct lane_options, tls_key),
    offsetof(struct lane_options, name),
};
#define OPTION_TEXTS (sizeof(option_texts) / sizeof(option_texts[0]))

static const char **option_text(struct lane_options *options, size_t i)
{
    return (const char **)(void *)((char *)options + option_texts[i]);
}

/* Copies the texts; "" becomes NULL. */
static bool copy_options(struct lane *lane, const struct lane_options *options)
{
    struct lane_options *own = &lane->options;
    bool ok = true;

    *own = *options;
    for (size_t i = 0; i < OPTION_TEXTS; i++) {
        const char **text = option_text(own, i);

        if (*text && **text) {
            *text = strdup(*text);
            ok = ok && *text;
        } else {
            *text = NULL;
        }
    }
    own->ping_interval_ms = own->ping_interval_ms > 0 ? own->ping_interval_ms : 5000;
    own->connect_timeout_ms = own->connect_timeout_ms > 0 ? own->connect_timeout_ms : 5000;
    own->reconnect_min_ms = own->reconnect_min_ms > 0 ? own->reconnect_min_ms : 100;
    own->reconnect_max_ms = own->reconnect_max_ms > 0 ? own->reconnect_max_ms : 5000;
    if (own->reconnect_max_ms < own->reconnect_min_ms)
        own->reconnect_max_ms = own->reconnect_min_ms;
    own->output_max = own->output_max > 0 ? own->output_max : 64u << 20;
    return ok;
}

static bool prepare(struct lane *lane, const struct lane_options *options)
{
    uint64_t seed = options->seed;
    char why[128];

    if (!copy_options(lane, options))
        return false;
    if (seed == 0)
        rng_secure(&seed, sizeof(seed));
    rng_seed(&lane->rng, seed);
    if (pool_add_list(&lane->pool, span_str(lane->options.servers), &lane->rng, why) != WB_OK) {
        log_write(LOG_ERROR, "nats: %s", why);
        return false;
    }
    lane->tls_required = lane->options.tls_required || lane->options.tls_first ||
                         lane->options.tls_ca || pool_wants_tls(&lane->pool);
    lane->clock = loop_timer_create(lane->loop, on_clock, lane);
    lane->soon_timer = loop_timer_create(lane->loop, on_soon, lane);
    lane->hook = loop_hook_create(lane->loop, on_turn_end, lane);
    return lane->clock && lane->soon_timer && lane->hook;
}

struct lane *lane_create(struct loop *loop, const struct lane_options *options,
                         const struct lane_events *events, void *arg)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    if (!lane)
        return NULL;
    MAGIC_SET(lane, LANE_MAGIC);
    lane->loop = loop;
    lane->events = *events;
    lane->arg = arg;
    lane->max_payload = 1u << 20;
    lane->read_size = READ_MIN;
    pool_init(&lane->pool);
    subs_init(&lane->subs);
    if (!prepare(lane, options)) {
        lane_free(lane);
        return NULL;
    }
    buf_init(&lane->in, MESSAGE_MAX + READ_MAX + CONTROL_ROOM);
    buf_init(&lane->out, lane->options.output_max + CONTROL_ROOM);
    buf_init(&lane->first_info, PARSER_LINE_MAX);
    return lane;
}

static void lane_free(struct lane *lane)
{
    loop_hook_destroy(lane->hook);
    loop_timer_destroy(lane->clock);
    loop_timer_destroy(lane->soon_timer);
    for (size_t i = 0; i < OPTION_TEXTS; i++)
        free((void *)(uintptr_t)*option_text(&lane->options, i));
    buf_fini(&lane->in);
    buf_fini(&lane->out);
    buf_fini(&lane->first_info);
    pool_fini(&lane->pool);
    subs_fini(&lane->subs);
    free(lane->pongs);
    MAGIC_SET(lane, 0);
    free(lane);
}

void lane_start(struct lane *lane)
{
    MAGIC_CHECK(lane, LANE_MAGIC);
    set_state(lane, LANE_WAITING);
    set_clock(lane, 0);
}

void lane_close(struct lane *lane, int64_t within_ms)
{
    lane_enter(lane);
    if (lane->state == LANE_UP && lane->broken == WB_OK) {
        set_state(lane, LANE_CLOSING);
        /* The last PONG proves that the server has read everything: closing earlier, with input
         * unread, would be a reset that may overtake our last bytes. */
        traffic_ping(lane, (struct pong){.kind = PONG_CLOSE});
        traffic_send(lane);
        set_clock(lane, within_ms > 0 ? within_ms : 0);
        if (within_ms <= 0)
            end(lane);
    } else if (lane->state != LANE_CLOSING && lane->state != LANE_CLOSED) {
        end(lane);
    }
    lane_leave(lane);
}

void lane_destroy(struct lane *lane)
{
    if (!lane)
        return;
    lane_enter(lane);
    CHECK(!lane->destroyed);
    lane->destroyed = true;
    if (lane->state != LANE_CLOSED)
        end(lane);
    lane_leave(lane);
}

enum lane_state lane_state(const struct lane *lane)
{
    return lane->state;
}

bool lane_is_up(const struct lane *lane)
{
    return lane->state == LANE_UP;
}

static bool is_plain(struct span text, bool may_be_empty)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 127)
            return false;
    }
    return text.len > 0 || may_be_empty;
}

uint64_t lane_subscribe(struct lane *lane, struct span subject, struct span queue,
                        void (*on_message)(void *arg, const struct lane_message *m), void *arg)
{
    struct subscription *sub;

    MAGIC_CHECK(lane, LANE_MAGIC);
    if (!is_plain(subject, false) || !is_plain(queue, true) ||
        subject.len + queue.len > CONTROL_LINE_MAX)
        return 0;
    sub = subs_add(&lane->subs, subject, queue, on_message, arg);
    if (!sub)
        return 0;
    if (lane->state == LANE_UP)
        traffic_sub(lane, sub);
    return sub->sid;
}

void lane_unsubscribe(struct lane *lane, uint64_t sid)
{
    struct subscription *sub = subs_get(&lane->subs, sid);

    MAGIC_CHECK(lane, LANE_MAGIC);
    if (!sub || sub->leaving)
        return;
    if (lane->state != LANE_UP) {
        subs_remove(&lane->subs, sub);
        return;
    }
    traffic_unsub(lane, sub);
    subs_leave(&lane->subs, sub);
    lane->unsub_ping = true;
}

void lane_resubscribe(struct lane *lane, uint64_t sid)
{
    struct subscription *sub = subs_get(&lane->subs, sid);

    MAGIC_CHECK(lane, LANE_MAGIC);
    if (sub && !sub->leaving && lane->state == LANE_UP)
        traffic_sub(lane, sub);
}

size_t lane_output_len(const struct lane *lane)
{
    return buf_len(&lane->out);
}

size_t lane_max_payload(const struct lane *lane)
{
    return lane->max_payload;
}

const char *lane_server(const struct lane *lane)
{
    return lane->server_name;
}

const char *lane_last_error(const struct lane *lane)
{
    return lane->last_error;
}

const struct lane_counts *lane_counts(const struct lane *lane)
{
    return &lane->counts;
}
