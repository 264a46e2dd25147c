/* Header blocks as bytes: checked, walked and written without building a table of them. */
#include "lane/header.h"

#include "base/check.h"
#include "base/swar.h"

#define VERSION_LINE "NATS/1.0"
#define VERSION_LEN (sizeof(VERSION_LINE) - 1)

/* The line at `at` with its CRLF; length 0: there is none. */
static struct span line_at(const char *at, const char *end)
{
    const char *lf = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

    if (!lf || lf == at || lf[-1] != '\r')
        return SPAN_EMPTY;
    return span_of(at, (size_t)(lf + 1 - at));
}

static struct span trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return span_of(from, (size_t)(to - from));
}

static bool is_version_line(struct span line)
{
    return line.len >= VERSION_LEN + 2 && memcmp(line.ptr, VERSION_LINE, VERSION_LEN) == 0 &&
           (line.ptr[VERSION_LEN] == ' ' || line.ptr[VERSION_LEN] == '\r');
}

/* A line ends at the first LF, so only a CR can still be bare in it. */
static bool has_bare_cr(struct span line)
{
    return memchr(line.ptr, '\r', line.len - 2) != NULL;
}

static bool is_name_byte(char c)
{
    return c > ' ' && c < 127;
}

enum header_step header_walk(struct header_iter *iter, struct header_field *field)
{
    const char *at = iter->at, *end = iter->end, *colon = at, *cr;

    if (end - at < 2 || iter->malformed)
        return HEADER_MALFORMED;
    if (at[0] == '\r')
        return at[1] == '\n' && at + 2 == end ? HEADER_END : HEADER_MALFORMED;
    while (colon < end && *colon != ':' && is_name_byte(*colon))
        colon++;
    if (colon == at || colon == end || *colon != ':')
        return HEADER_MALFORMED;
    cr = memchr(colon, '\r', (size_t)(end - colon));
    if (!cr || cr + 1 == end || cr[1] != '\n' || memchr(colon, '\n', (size_t)(cr - colon)))
        return HEADER_MALFORMED;
    field->line = span_of(at, (size_t)(cr + 2 - at));
    field->name = span_of(at, (size_t)(colon - at));
    field->value = trim(colon + 1, cr);
    iter->at = cr + 2;
    return HEADER_FIELD;
}

wb_status header_check(struct span block)
{
    struct header_iter iter;
    struct header_field field;
    enum header_step step;

    if (block.len == 0)
        return WB_OK;
    header_begin(&iter, block);
    do
        step = header_walk(&iter, &field);
    while (step == HEADER_FIELD);
    return step == HEADER_END ? WB_OK : WB_INVALID;
}

int header_status(struct span block)
{
    const char *digits = block.ptr + VERSION_LEN + 1;
    int status = 0;

    if (block.len < VERSION_LEN + 6 || memcmp(block.ptr, VERSION_LINE " ", VERSION_LEN + 1) != 0)
        return 0;
    for (int i = 0; i < 3; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
        status = status * 10 + (digits[i] - '0');
    }
    return digits[3] == ' ' || digits[3] == '\r' ? status : 0;
}

void header_begin(struct header_iter *iter, struct span block)
{
    struct span line = line_at(block.ptr, block.ptr + block.len);

    iter->end = block.ptr + block.len;
    iter->at = is_version_line(line) ? block.ptr + line.len : iter->end;
    iter->malformed = iter->at == iter->end || has_bare_cr(line);
}

bool header_next(struct header_iter *iter, struct header_field *field)
{
    struct span line = line_at(iter->at, iter->end);
    const char *colon = line.len > 2 ? memchr(line.ptr, ':', line.len) : NULL;

    if (!colon) {
        iter->at = iter->end;
        return false;
    }
    field->line = line;
    field->name = span_of(line.ptr, (size_t)(colon - line.ptr));
    field->value = trim(colon + 1, line.ptr + line.len - 2);
    iter->at += line.len;
    return true;
}

bool header_find(struct span block, struct span name, struct span *value)
{
    struct header_iter iter;
    struct header_field field;

    header_begin(&iter, block);
    while (header_next(&iter, &field)) {
        if (span_eq(field.name, name)) {
            *value = field.value;
            return true;
        }
    }
    return false;
}

static void put(struct header_writer *w, const void *bytes, size_t n)
{
    if (w->status == WB_OK && n > 0)
        w->status = buf_append(w->out, bytes, n);
}

void header_open(struct header_writer *w, struct buf *out)
{
    w->out = out;
    w->status = WB_OK;
    put(w, VERSION_LINE "\r\n", VERSION_LEN + 2);
}

void header_copy_whole(struct header_writer *w, struct span block)
{
    struct header_iter iter;

    header_begin(&iter, block);
    if (iter.end - iter.at > 2)
        put(w, iter.at, (size_t)(iter.end - 2 - iter.at));
}

/* Neighbours that stay are copied as one piece: mostly that is the whole block. */
void header_copy(struct header_writer *w, struct span block,
                 bool (*drop)(void *arg, const struct header_field *f), void *arg)
{
    struct header_iter iter;
    struct header_field field;
    const char *from;

    header_begin(&iter, block);
    from = iter.at;
    for (;;) {
        const char *before = iter.at;

        if (!header_next(&iter, &field)) {
            put(w, from, (size_t)(before - from));
            return;
        }
        if (drop && drop(arg, &field)) {
            put(w, from, (size_t)(before - from));
            from = iter.at;
        }
    }
}

static void add(struct header_writer *w, struct span name, struct span value)
{
    size_t n = name.len + value.len + 4;
    char *at;

    if (w->status != WB_OK)
        return;
    at = buf_reserve(w->out, n);
    if (!at) {
        w->status = buf_len(w->out) + n > w->out->max ? WB_FULL : WB_NO_MEMORY;
        return;
    }
    memcpy(at, name.ptr, name.len);
    at += name.len;
    *at++ = ':';
    *at++ = ' ';
    if (value.len > 0)
        memcpy(at, value.ptr, value.len);
    at += value.len;
    *at++ = '\r';
    *at = '\n';
    buf_grew(w->out, n);
}

static bool has_line_end(struct span value)
{
    uint64_t found = 0;
    size_t i = 0;

    for (; i + 8 <= value.len; i += 8) {
        uint64_t word = swar_load(value.ptr + i);

        found |= swar_has(word, '\r') | swar_has(word, '\n');
    }
    for (; i < value.len; i++)
        found |= value.ptr[i] == '\r' || value.ptr[i] == '\n';
    return found != 0;
}

/* Names are constants of ours; a value may stem from outside, and one line end in it would be an
 * injection. */
void header_add(struct header_writer *w, struct span name, struct span value)
{
    CHECK(name.len > 0 && name.ptr[0] > ' ');
    CHECK(!has_line_end(value));
    add(w, name, value);
}

void header_lines(struct header_writer *w, struct span lines)
{
    put(w, lines.ptr, lines.len);
}

void header_add_u64(struct header_writer *w, struct span name, unsigned long long value)
{
    char digits[20];
    char *at = digits + sizeof(digits);

    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    add(w, name, span_of(at, (size_t)(digits + sizeof(digits) - at)));
}

wb_status header_close(struct header_writer *w)
{
    put(w, "\r\n", 2);
    return w->status;
}
