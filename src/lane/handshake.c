/* INFO is read by a reader of one flat object that skips what it does not know, with a bound on
 * depth; CONNECT is written by hand. Both are small because the two messages are: a JSON library
 * has no place on this floor. */
#include "lane/handshake.h"

#include <strings.h>

#include "waybill/version.h"

#define DEPTH_MAX 32

struct reader {
    const char *at, *end;
};

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n'))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static char peek(struct reader *r)
{
    skip_blanks(r);
    return r->at < r->end ? *r->at : '\0';
}

/* The raw inside of a string, escapes still in it. */
static bool take_string(struct reader *r, struct span *raw)
{
    const char *from;

    if (!take(r, '"'))
        return false;
    from = r->at;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\' && ++r->at == r->end)
            return false;
        r->at++;
    }
    if (r->at == r->end)
        return false;
    *raw = span_of(from, (size_t)(r->at++ - from));
    return true;
}

/* A number, true, false or null, as its text. */
static bool take_word(struct reader *r, struct span *word)
{
    const char *from;

    skip_blanks(r);
    from = r->at;
    while (r->at < r->end && !strchr(",]} \t\r\n", *r->at))
        r->at++;
    *word = span_of(from, (size_t)(r->at - from));
    return word->len > 0;
}

/* Any value. Brackets are counted, not matched by kind: what is skipped needs no proof. */
static bool skip_value(struct reader *r)
{
    struct span ignored;
    unsigned depth = 0;

    do {
        char c = peek(r);

        if (c == '{' || c == '[') {
            r->at++;
            if (++depth > DEPTH_MAX)
                return false;
        } else if (c == '}' || c == ']') {
            r->at++;
            if (depth-- == 0)
                return false;
        } else if ((c == ',' || c == ':') && depth > 0) {
            r->at++;
        } else if (!(c == '"' ? take_string(r, &ignored) : take_word(r, &ignored))) {
            return false;
        }
    } while (depth > 0);
    return true;
}

/* Server names, ids and nonces are plain ASCII; an escape other than of a plain character makes the
 * value unusable: empty. */
static bool take_text(struct reader *r, char *out, size_t size)
{
    struct span raw;
    size_t n = 0;

    if (!take_string(r, &raw))
        return false;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];

        if (c == '\\') {
            c = raw.ptr[++i];
            if (c != '"' && c != '\\' && c != '/')
                n = size;
        }
        if (n + 1 >= size) {
            n = 0;
            break;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool take_bool(struct reader *r, bool *out)
{
    struct span word;

    if (!take_word(r, &word))
        return false;
    *out = span_eq_str(word, "true");
    return *out || span_eq_str(word, "false") || span_eq_str(word, "null");
}

static bool take_urls(struct reader *r, void (*on_url)(void *arg, struct span url), void *arg)
{
    struct span url;

    if (peek(r) != '[')
        return skip_value(r);
    r->at++;
    if (take(r, ']'))
        return true;
    do {
        if (!take_string(r, &url))
            return false;
        if (on_url && !memchr(url.ptr, '\\', url.len))
            on_url(arg, url);
    } while (take(r, ','));
    return take(r, ']');
}

static bool take_field(struct reader *r, struct span key, struct handshake_info *info,
                       void (*on_url)(void *arg, struct span url), void *arg)
{
    struct span word;
    unsigned long long n;

    if (span_eq_str(key, "server_id"))
        return take_text(r, info->server_id, sizeof(info->server_id));
    if (span_eq_str(key, "version"))
        return take_text(r, info->version, sizeof(info->version));
    if (span_eq_str(key, "nonce"))
        return take_text(r, info->nonce, sizeof(info->nonce));
    if (span_eq_str(key, "headers"))
        return take_bool(r, &info->headers);
    if (span_eq_str(key, "tls_required"))
        return take_bool(r, &info->tls_required);
    if (span_eq_str(key, "tls_available"))
        return take_bool(r, &info->tls_available);
    if (span_eq_str(key, "ldm"))
        return take_bool(r, &info->ldm);
    if (span_eq_str(key, "max_payload")) {
        if (!take_word(r, &word))
            return false;
        if (span_to_u64(word, &n))
            info->max_payload = n;
        return true;
    }
    if (span_eq_str(key, "connect_urls")) {
        info->has_urls = true;
        return take_urls(r, on_url, arg);
    }
    return skip_value(r);
}

wb_status handshake_read_info(struct span json, struct handshake_info *info,
                              void (*on_url)(void *arg, struct span url), void *arg)
{
    struct reader r = {json.ptr, json.ptr + json.len};
    struct span key;

    memset(info, 0, sizeof(*info));
    if (!take(&r, '{'))
        return WB_INVALID;
    if (!take(&r, '}')) {
        do {
            if (!take_string(&r, &key) || !take(&r, ':') || !take_field(&r, key, info, on_url, arg))
                return WB_INVALID;
        } while (take(&r, ','));
        if (!take(&r, '}'))
            return WB_INVALID;
    }
    skip_blanks(&r);
    return r.at == r.end ? WB_OK : WB_INVALID;
}

static wb_status put(struct buf *out, const char *text)
{
    return buf_append(out, text, strlen(text));
}

static wb_status put_escaped(struct buf *out, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    wb_status status = WB_OK;

    for (; *text && status == WB_OK; text++) {
        unsigned char c = (unsigned char)*text;
        char code[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        char pair[] = {'\\', *text};

        if (c < ' ')
            status = buf_append(out, code, sizeof(code));
        else if (c == '"' || c == '\\')
            status = buf_append(out, pair, 2);
        else
            status = buf_append(out, text, 1);
    }
    return status;
}

/* `,"key":"value"`, or nothing when the value is not set. */
static wb_status put_field(struct buf *out, const char *key, const char *value)
{
    wb_status status;

    if (!value || !*value)
        return WB_OK;
    status = put(out, ",\"");
    if (status == WB_OK)
        status = put(out, key);
    if (status == WB_OK)
        status = put(out, "\":\"");
    if (status == WB_OK)
        status = put_escaped(out, value);
    return status == WB_OK ? put(out, "\"") : status;
}

wb_status handshake_write_connect(struct buf *out, const struct credentials *who, const char *name,
                                  bool tls)
{
    const struct {
        const char *key, *value;
    } fields[] = {
        {"name", name},          {"user", who->user},
        {"pass", who->password}, {"auth_token", who->token},
        {"nkey", who->public},   {"jwt", who->jwt},
        {"sig", who->signature},
    };
    wb_status status =
        put(out, tls ? "CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":true"
                     : "CONNECT {\"verbose\":false,\"pedantic\":false,\"tls_required\":false");

    if (status == WB_OK)
        status = put(out, ",\"headers\":true,\"no_responders\":true,\"echo\":true,\"protocol\":1,"
                          "\"lang\":\"c-waybill\",\"version\":\"" WB_VERSION "\"");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && status == WB_OK; i++)
        status = put_field(out, fields[i].key, fields[i].value);
    return status == WB_OK ? put(out, "}\r\n") : status;
}

static bool starts(struct span text, const char *prefix)
{
    size_t n = strlen(prefix);

    return text.len >= n && strncasecmp(text.ptr, prefix, n) == 0;
}

/* What stands between the first pair of double quotes. */
static struct span quoted(struct span text)
{
    const char *from = memchr(text.ptr, '"', text.len), *to;

    if (!from)
        return SPAN_EMPTY;
    from++;
    to = memchr(from, '"', (size_t)(text.ptr + text.len - from));
    return to ? span_of(from, (size_t)(to - from)) : SPAN_EMPTY;
}

enum handshake_verdict handshake_read_error(struct span text, struct span *subject)
{
    static const struct {
        const char *prefix;
        enum handshake_verdict verdict;
    } kinds[] = {
        {"Permissions Violation for Publish", HANDSHAKE_DENIED_PUBLISH},
        {"Permissions Violation for Subscription", HANDSHAKE_DENIED_SUBSCRIBE},
        {"Permissions Violation", HANDSHAKE_LIVES},
        {"Authorization Violation", HANDSHAKE_REFUSED},
        {"Authorization Timeout", HANDSHAKE_REFUSED},
        {"Authentication Timeout", HANDSHAKE_REFUSED},
        {"Authentication Expired", HANDSHAKE_REFUSED},
        {"Authentication Revoked", HANDSHAKE_REFUSED},
        {"User Authentication", HANDSHAKE_REFUSED},
        {"Account Authentication", HANDSHAKE_REFUSED},
        {"Stale Connection", HANDSHAKE_OVER},
        {"Maximum Connections Exceeded", HANDSHAKE_OVER},
        {"Maximum Account Active Connections", HANDSHAKE_OVER},
        {"Maximum Payload Violation", HANDSHAKE_OVER},
        {"Maximum Control Line Exceeded", HANDSHAKE_OVER},
        {"Slow Consumer", HANDSHAKE_OVER},
        {"Unknown Protocol Operation", HANDSHAKE_OVER},
        {"Parser Error", HANDSHAKE_OVER},
        {"Secure Connection", HANDSHAKE_OVER},
        {"Attempted To Connect To Route Port", HANDSHAKE_OVER},
        {"Connection Closed", HANDSHAKE_OVER},
        {"Server Shutdown", HANDSHAKE_OVER},
    };

    *subject = SPAN_EMPTY;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!starts(text, kinds[i].prefix))
            continue;
        if (kinds[i].verdict <= HANDSHAKE_DENIED_SUBSCRIBE)
            *subject = quoted(text);
        return kinds[i].verdict;
    }
    return HANDSHAKE_LIVES;
}
