#include "wire/js.h"

#include "wire/json.h"
#include "wire/json_read.h"

#define ACK_MAX 4096

/* The server writes {"stream":"NAME", "seq":N}, with "domain" or "duplicate" where they apply. This
 * reads just that, in one pass over the bytes; whatever looks different goes the long way. */
struct cursor {
    const char *at, *end;
};

static void skip_blank(struct cursor *c)
{
    while (c->at < c->end && *c->at == ' ')
        c->at++;
}

static inline bool eat(struct cursor *c, struct span text)
{
    if ((size_t)(c->end - c->at) < text.len || memcmp(c->at, text.ptr, text.len) != 0)
        return false;
    c->at += text.len;
    skip_blank(c);
    return true;
}

/* A text without escapes, behind its opening quote. */
static bool eat_text(struct cursor *c, struct span *out)
{
    const char *start = c->at, *quote = memchr(start, '"', (size_t)(c->end - start));

    if (!quote || quote == start || memchr(start, '\\', (size_t)(quote - start)))
        return false;
    *out = span_of(start, (size_t)(quote - start));
    c->at = quote + 1;
    skip_blank(c);
    return true;
}

static bool eat_number(struct cursor *c, uint64_t *out)
{
    const char *start = c->at;
    uint64_t n = 0;

    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && c->at - start < 18)
        n = n * 10 + (uint64_t)(*c->at++ - '0');
    *out = n;
    if (c->at == start)
        return false;
    skip_blank(c);
    return true;
}

static bool ack_fast(struct span json, struct js_ack *out)
{
    struct cursor c = {json.ptr, json.ptr + json.len};
    struct span domain;

    if (!eat(&c, SPAN_LIT("{\"stream\":\"")) || !eat_text(&c, &out->stream) ||
        !eat(&c, SPAN_LIT(",")))
        return false;
    if (eat(&c, SPAN_LIT("\"domain\":")) &&
        (!eat(&c, SPAN_LIT("\"")) || !eat_text(&c, &domain) || !eat(&c, SPAN_LIT(","))))
        return false;
    if (!eat(&c, SPAN_LIT("\"seq\":")) || !eat_number(&c, &out->seq) || out->seq == 0)
        return false;
    if (eat(&c, SPAN_LIT(","))) {
        if (!eat(&c, SPAN_LIT("\"duplicate\":")) || !eat(&c, SPAN_LIT("true")))
            return false;
        out->duplicate = true;
    }
    return eat(&c, SPAN_LIT("}")) && c.at == c.end;
}

/* The API's error object to its two codes; false if there is none. */
static bool error_of(const cJSON *tree, int *code, int *err_code)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(tree, "error");
    int64_t n;

    if (!cJSON_IsObject(error))
        return false;
    if (json_integer(cJSON_GetObjectItemCaseSensitive(error, "code"), &n) && n > 0 && n < 100000)
        *code = (int)n;
    else
        *code = 500;
    if (json_integer(cJSON_GetObjectItemCaseSensitive(error, "err_code"), &n) && n > 0 &&
        n < 1000000)
        *err_code = (int)n;
    return true;
}

static wb_status ack_slow(struct span json, const cJSON *tree, struct js_ack *out)
{
    struct span stream = json_member_text(tree, "stream");
    const char *found = NULL;
    int64_t seq = 0;

    /* the result points into the input; a stream's name has no escapes, so it stands there as it is
     */
    if (stream.len)
        found = memmem(json.ptr, json.len, stream.ptr, stream.len);
    if (found)
        out->stream = span_of(found, stream.len);
    if (error_of(tree, &out->code, &out->err_code))
        return WB_OK;
    if (!found || !json_integer(cJSON_GetObjectItemCaseSensitive(tree, "seq"), &seq) || seq <= 0)
        return WB_INVALID;
    out->seq = (uint64_t)seq;
    out->duplicate = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "duplicate"));
    return WB_OK;
}

wb_status js_ack_parse(struct span json, struct js_ack *out)
{
    wb_status status;
    cJSON *tree;

    *out = (struct js_ack){.stream = SPAN_EMPTY};
    if (json.len == 0 || json.ptr[0] != '{' || json.len > ACK_MAX)
        return WB_INVALID;
    if (ack_fast(json, out))
        return WB_OK;
    *out = (struct js_ack){.stream = SPAN_EMPTY};
    tree = json_read(json, NULL);
    if (!tree)
        return WB_INVALID;
    status = ack_slow(json, tree, out);
    cJSON_Delete(tree);
    return status;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static wb_status base64_decode(struct span text, struct buf *out)
{
    unsigned bits = 0, held = 0;
    char *at;
    size_t n = 0;

    while (text.len && text.ptr[text.len - 1] == '=')
        text.len--;
    if (text.len % 4 == 1)
        return WB_INVALID;
    at = buf_reserve(out, text.len * 3 / 4 + 1);
    if (!at)
        return WB_FULL;
    for (size_t i = 0; i < text.len; i++) {
        int value = base64_value(text.ptr[i]);

        if (value < 0)
            return WB_INVALID;
        bits = (bits << 6 | (unsigned)value) & 0xffffff;
        held += 6;
        if (held >= 8) {
            held -= 8;
            at[n++] = (char)(bits >> held & 0xff);
        }
    }
    buf_grew(out, n);
    return WB_OK;
}

static bool contains(struct span text, struct span what)
{
    return text.len && memmem(text.ptr, text.len, what.ptr, what.len) != NULL;
}

/* Deletes and purges leave a message whose headers say so; the server's own expiry leaves one with
 * a reason. */
static wb_status marker_of(struct span hdrs, bool *marker)
{
    struct buf text;
    wb_status status;

    *marker = false;
    if (hdrs.len == 0)
        return WB_OK;
    buf_init(&text, 65536);
    status = base64_decode(hdrs, &text);
    if (status == WB_OK) {
        struct span block = buf_span(&text);

        *marker = contains(block, SPAN_LIT("\r\nKV-Operation: DEL\r\n")) ||
                  contains(block, SPAN_LIT("\r\nKV-Operation: PURGE\r\n")) ||
                  contains(block, SPAN_LIT("\r\nKV-Operation:DEL\r\n")) ||
                  contains(block, SPAN_LIT("\r\nKV-Operation:PURGE\r\n")) ||
                  contains(block, SPAN_LIT("\r\nNats-Marker-Reason:"));
    }
    buf_fini(&text);
    return status;
}

static wb_status msg_get(const cJSON *tree, struct js_message *out, struct buf *data)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(tree, "message");
    int64_t seq;
    wb_status status;

    if (error_of(tree, &out->code, &out->err_code))
        return WB_OK;
    if (!cJSON_IsObject(message) ||
        !json_integer(cJSON_GetObjectItemCaseSensitive(message, "seq"), &seq) || seq <= 0)
        return WB_INVALID;
    out->seq = (uint64_t)seq;
    status = marker_of(json_member_text(message, "hdrs"), &out->marker);
    return status == WB_OK ? base64_decode(json_member_text(message, "data"), data) : status;
}

wb_status js_msg_get_parse(struct span json, struct js_message *out, struct buf *data)
{
    cJSON *tree = json_read(json, NULL);
    wb_status status;

    *out = (struct js_message){0};
    status = tree ? msg_get(tree, out, data) : WB_INVALID;
    cJSON_Delete(tree);
    return status;
}

static wb_status request(struct buf *out, const char *key, struct span subject)
{
    struct json j;

    json_begin(&j, out);
    json_object(&j, NULL);
    json_text(&j, key, subject);
    json_end_object(&j);
    return json_status(&j);
}

wb_status js_msg_get_request(struct buf *out, struct span subject)
{
    return request(out, "last_by_subj", subject);
}

wb_status js_names_request(struct buf *out, struct span subject)
{
    return request(out, "subject", subject);
}

wb_status js_names_parse(struct span json, void (*fn)(void *arg, struct span name), void *arg)
{
    cJSON *tree = json_read(json, NULL);
    const cJSON *streams, *one;
    wb_status status = WB_OK;
    int code = 0, err_code = 0;

    if (!tree)
        return WB_INVALID;
    streams = cJSON_GetObjectItemCaseSensitive(tree, "streams");
    if (error_of(tree, &code, &err_code))
        status = WB_UNSUPPORTED;
    else if (!cJSON_IsObject(tree) || (!cJSON_IsArray(streams) && !cJSON_IsNull(streams)))
        status = WB_INVALID;
    else
        cJSON_ArrayForEach(one, streams) if (cJSON_IsString(one))
            fn(arg, span_str(one->valuestring));
    cJSON_Delete(tree);
    return status;
}
