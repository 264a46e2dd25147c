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

/* Splits at blanks. The number of fields, or FIELDS_MAX + 1 for too many. */
static unsigned split(const char *at, const char *end, struct span fields[FIELDS_MAX])
{
    unsigned n = 0;

    for (;;) {
        const char *from;

        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if (at == end)
            return n;
        if (n == FIELDS_MAX)
            return FIELDS_MAX + 1;
        from = at;
        while (at < end && *at != ' ' && *at != '\t')
            at++;
        fields[n++] = span_of(from, (size_t)(at - from));
    }
}

/* `line` is the whole control line with its CRLF; the message's bytes follow it in the input. */
static struct parser_result message(struct span input, size_t line, size_t max_message)
{
    bool has_headers = input.ptr[0] == 'H';
    unsigned sizes = has_headers ? 2 : 1;
    struct span fields[FIELDS_MAX];
    unsigned n = split(input.ptr + (has_headers ? 5 : 4), input.ptr + line - 2, fields);
    unsigned long long sid, header_size = 0, total;
    struct parser_result r = result(PARSER_MSG, 0);
    const char *body = input.ptr + line;

    if ((n != 2 + sizes && n != 3 + sizes) || !span_to_u64(fields[1], &sid) ||
        !span_to_u64(fields[n - 1], &total) || total > max_message ||
        (has_headers && (!span_to_u64(fields[n - 2], &header_size) || header_size > total)))
        return result(PARSER_BROKEN, 0);
    r.used = line + total + 2;
    if (input.len < r.used)
        return more(r.used);
    if (body[total] != '\r' || body[total + 1] != '\n')
        return result(PARSER_BROKEN, 0);
    r.message.sid = sid;
    r.message.subject = fields[0];
    r.message.reply = n == 3 + sizes ? fields[2] : SPAN_EMPTY;
    r.message.headers = span_of(body, header_size);
    r.message.payload = span_of(body + header_size, total - header_size);
    return r;
}

static struct span strip(struct span text)
{
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t'))
        text.ptr++, text.len--;
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

struct parser_result parser_next(struct span input, size_t max_message)
{
    size_t window = input.len < PARSER_LINE_MAX ? input.len : PARSER_LINE_MAX, word = 0, line;
    struct parser_result r;
    enum parser_op op;
    const char *lf;

    if (input.len == 0)
        return more(0);
    op = word_of(input, &word);
    if (op == PARSER_BROKEN || op == PARSER_MORE)
        return op == PARSER_MORE ? more(0) : result(PARSER_BROKEN, 0);
    lf = memchr(input.ptr, '\n', window);
    if (!lf)
        return window < PARSER_LINE_MAX ? more(0) : result(PARSER_BROKEN, 0);
    line = (size_t)(lf + 1 - input.ptr);
    if (line < word + 2 || lf[-1] != '\r')
        return result(PARSER_BROKEN, 0);
    if (op == PARSER_MSG)
        return message(input, line, max_message);
    r = result(op, line);
    r.text = strip(span_of(input.ptr + word, line - word - 2));
    if (op == PARSER_ERR && r.text.len >= 2 && r.text.ptr[0] == '\'' &&
        r.text.ptr[r.text.len - 1] == '\'')
        r.text = span_of(r.text.ptr + 1, r.text.len - 2);
    if ((op == PARSER_PING || op == PARSER_PONG || op == PARSER_OK) && r.text.len > 0)
        return result(PARSER_BROKEN, 0);
    return r;
}
