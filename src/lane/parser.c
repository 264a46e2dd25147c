/* The server's side of the protocol. One operation per call; nothing is remembered between calls,
 * so a cut anywhere in the stream means: try again from the start of the operation. That costs a
 * second look at one control line only. */
#include "lane/parser.h"

#define FIELDS_MAX 5

static struct parser_result result(enum parser_op op, size_t used)
{
    return (struct parser_result){.op = op, .used = used};
}

static struct parser_result more(size_t want)
{
    return (struct parser_result){.op = PARSER_MORE, .want = want};
}

static const struct {
    const char *word;
    unsigned len;
    enum parser_op op;
} words[] = {
    {"MSG ", 4, PARSER_MSG},  {"HMSG ", 5, PARSER_MSG},  {"PING", 4, PARSER_PING},
    {"PONG", 4, PARSER_PONG}, {"INFO ", 5, PARSER_INFO}, {"-ERR", 4, PARSER_ERR},
    {"+OK", 3, PARSER_OK},
};

/* The operation whose word the input begins with; PARSER_MORE while it may still become one. */
static enum parser_op word_of(struct span input, size_t *len)
{
    bool possible = false;

    if (input.len >= 5 && memcmp(input.ptr, "HMSG ", 5) == 0) { /* almost always */
        *len = 5;
        return PARSER_MSG;
    }
    if (input.len >= 4 && memcmp(input.ptr, "MSG ", 4) == 0) {
        *len = 4;
        return PARSER_MSG;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = input.len < words[i].len ? input.len : words[i].len;

        if (memcmp(input.ptr, words[i].word, n) != 0)
            continue;
        if (n == words[i].len) {
            *len = n;
            return words[i].op;
        }
        possible = true;
    }
    return possible ? PARSER_MORE : PARSER_BROKEN;
}

/* Splits at blanks, of which the server writes one at a time; more are tolerated. The number of
 * fields, or FIELDS_MAX + 1 for too many. memchr, because subjects are long and this is the hot
 * path's only look at each byte of them. */
static unsigned split(const char *at, const char *end, struct span fields[FIELDS_MAX])
{
    unsigned n = 0;

    while (at < end) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        const char *to = blank ? blank : end;

        if (to > at) {
            if (n == FIELDS_MAX)
                return FIELDS_MAX + 1;
            fields[n++] = span_of(at, (size_t)(to - at));
        }
        at = to + 1;
    }
    return n;
}

/* `line` is the whole control line with its CRLF; the message's bytes follow it in the input.
 * Written in place and field by field: the result is large, and clearing and copying it would cost
 * as much as the parsing. */
static void message(struct span input, size_t line, size_t max_message, struct parser_result *r)
{
    bool has_headers = input.ptr[0] == 'H';
    unsigned sizes = has_headers ? 2 : 1;
    struct span fields[FIELDS_MAX];
    unsigned n = split(input.ptr + (has_headers ? 5 : 4), input.ptr + line - 2, fields);
    unsigned long long sid, header_size = 0, total;
    const char *body = input.ptr + line;

    if ((n != 2 + sizes && n != 3 + sizes) || !span_to_u64(fields[1], &sid) ||
        !span_to_u64(fields[n - 1], &total) || total > max_message ||
        (has_headers && (!span_to_u64(fields[n - 2], &header_size) || header_size > total))) {
        *r = result(PARSER_BROKEN, 0);
        return;
    }
    if (input.len < line + total + 2) {
        *r = more(line + total + 2);
        return;
    }
    if (body[total] != '\r' || body[total + 1] != '\n') {
        *r = result(PARSER_BROKEN, 0);
        return;
    }
    r->op = PARSER_MSG;
    r->used = line + total + 2;
    r->want = 0;
    r->text = SPAN_EMPTY;
    r->message.sid = sid;
    r->message.subject = fields[0];
    r->message.reply = n == 3 + sizes ? fields[2] : SPAN_EMPTY;
    r->message.headers = span_of(body, header_size);
    r->message.payload = span_of(body + header_size, total - header_size);
}

static struct span strip(struct span text)
{
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t'))
        text.ptr++, text.len--;
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* All but messages. */
static struct parser_result line_only(enum parser_op op, struct span input, size_t word,
                                      size_t line)
{
    struct parser_result r = result(op, line);

    r.text = strip(span_of(input.ptr + word, line - word - 2));
    if (op == PARSER_ERR && r.text.len >= 2 && r.text.ptr[0] == '\'' &&
        r.text.ptr[r.text.len - 1] == '\'')
        r.text = span_of(r.text.ptr + 1, r.text.len - 2);
    if ((op == PARSER_PING || op == PARSER_PONG || op == PARSER_OK) && r.text.len > 0)
        return result(PARSER_BROKEN, 0);
    return r;
}

static void next(struct span input, size_t max_message, struct parser_result *r)
{
    size_t window = input.len < PARSER_LINE_MAX ? input.len : PARSER_LINE_MAX, word = 0, line;
    enum parser_op op = input.len > 0 ? word_of(input, &word) : PARSER_MORE;
    const char *lf;

    if (op == PARSER_BROKEN || op == PARSER_MORE) {
        *r = result(op, 0);
        return;
    }
    lf = memchr(input.ptr, '\n', window);
    if (!lf) {
        *r = result(window < PARSER_LINE_MAX ? PARSER_MORE : PARSER_BROKEN, 0);
        return;
    }
    line = (size_t)(lf + 1 - input.ptr);
    if (line < word + 2 || lf[-1] != '\r')
        *r = result(PARSER_BROKEN, 0);
    else if (op == PARSER_MSG)
        message(input, line, max_message, r);
    else
        *r = line_only(op, input, word, line);
}

struct parser_result parser_next(struct span input, size_t max_message)
{
    struct parser_result r;

    next(input, max_message, &r);
    return r;
}
