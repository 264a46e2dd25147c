#include "wire/subject.h"

#include "base/check.h"
#include "wire/name.h"

static bool well_formed(struct span subject, bool wildcards)
{
    size_t start = 0;

    if (subject.len == 0 || subject.len > WB_SUBJECT_MAX)
        return false;
    for (size_t i = 0; i <= subject.len; i++) {
        unsigned char c = i < subject.len ? (unsigned char)subject.ptr[i] : '.';

        if (c <= ' ' || c == 0x7f)
            return false;
        if (c != '.')
            continue;
        if (i == start)
            return false;
        if (i == start + 1 && (subject.ptr[start] == '*' || subject.ptr[start] == '>')) {
            if (!wildcards || (subject.ptr[start] == '>' && i != subject.len))
                return false;
        }
        start = i + 1;
    }
    return true;
}

bool subject_is_literal(struct span subject)
{
    return well_formed(subject, false);
}

bool subject_is_pattern(struct span subject)
{
    return well_formed(subject, true);
}

/* Takes the next token off `rest`; false when there is none. */
static bool next_token(struct span *rest, struct span *token)
{
    const char *dot;

    if (!rest->ptr)
        return false;
    dot = rest->len ? memchr(rest->ptr, '.', rest->len) : NULL;
    token->ptr = rest->ptr;
    if (!dot) {
        token->len = rest->len;
        *rest = (struct span){NULL, 0};
        return true;
    }
    token->len = (size_t)(dot - rest->ptr);
    *rest = span_of(dot + 1, rest->len - token->len - 1);
    return true;
}

static bool is_wild(struct span token, char wildcard)
{
    return token.len == 1 && token.ptr[0] == wildcard;
}

bool subject_overlaps(struct span a, struct span b)
{
    for (;;) {
        struct span ta = SPAN_EMPTY, tb = SPAN_EMPTY;
        bool more_a = next_token(&a, &ta), more_b = next_token(&b, &tb);

        if (!more_a || !more_b)
            return more_a == more_b;
        if (is_wild(ta, '>') || is_wild(tb, '>'))
            return true;
        if (!is_wild(ta, '*') && !is_wild(tb, '*') && !span_eq(ta, tb))
            return false;
    }
}

bool subject_matches(struct span pattern, struct span literal)
{
    for (;;) {
        struct span tp = SPAN_EMPTY, tl = SPAN_EMPTY;
        bool more_p = next_token(&pattern, &tp), more_l = next_token(&literal, &tl);

        if (!more_p || !more_l)
            return more_p == more_l;
        if (is_wild(tp, '>'))
            return true;
        if (!is_wild(tp, '*') && !span_eq(tp, tl))
            return false;
    }
}

struct span subject_token(struct span subject, unsigned n)
{
    struct span token = SPAN_EMPTY;

    for (; next_token(&subject, &token); n--)
        if (n == 0)
            return token;
    return SPAN_EMPTY;
}

unsigned subject_token_count(struct span subject)
{
    struct span token = SPAN_EMPTY;
    unsigned n = 0;

    if (subject.len == 0)
        return 0;
    while (next_token(&subject, &token))
        n++;
    return n;
}

/* Appends text; the parts are bounded by their own checks, so running over is a bug of ours. */
static size_t put(char *out, size_t at, struct span part)
{
    CHECK(part.len <= WB_SUBJECT_MAX - at);
    memcpy(out + at, part.ptr, part.len);
    out[at + part.len] = '\0';
    return at + part.len;
}

static size_t put_id(char *out, size_t at, struct span id)
{
    CHECK(name_is_id(id));
    return put(out, put(out, at, SPAN_LIT(".")), id);
}

size_t subject_worker(char *out, struct span prefix, struct span service, struct span worker)
{
    size_t at = put(out, put(out, 0, prefix), SPAN_LIT(".worker"));

    return put_id(out, put_id(out, at, service), worker);
}

size_t subject_worker_cancel(char *out, struct span prefix, struct span service, struct span worker)
{
    return put(out, subject_worker(out, prefix, service, worker), SPAN_LIT(".cancel"));
}

size_t subject_reply(char *out, struct span prefix, struct span service, struct span worker,
                     struct span router, struct span token)
{
    size_t at = put(out, put(out, 0, prefix), SPAN_LIT(".reply"));

    at = put_id(out, put_id(out, at, service), worker);
    return put_id(out, put_id(out, at, router), token);
}

static size_t put_id_or_star(char *out, size_t at, struct span part)
{
    if (is_wild(part, '*'))
        return put(out, at, SPAN_LIT(".*"));
    return put_id(out, at, part);
}

size_t subject_heartbeat(char *out, struct span prefix, struct span service, struct span worker)
{
    size_t at = put(out, put(out, 0, prefix), SPAN_LIT(".heartbeat"));

    return put_id_or_star(out, put_id_or_star(out, at, service), worker);
}

size_t subject_cancel(char *out, struct span prefix, struct span service, struct span request_id)
{
    size_t at = put(out, put(out, 0, prefix), SPAN_LIT(".cancel"));

    CHECK(name_is_request_id(request_id));
    at = put(out, put_id(out, at, service), SPAN_LIT("."));
    return put(out, at, request_id);
}

size_t subject_join(char *out, struct span prefix, const char *rest)
{
    return put(out, put(out, put(out, 0, prefix), SPAN_LIT(".")), span_str(rest));
}

/* What follows "<prefix><kind>" (kind with both its dots), or false. */
static bool after(struct span subject, struct span prefix, struct span kind, struct span *rest)
{
    size_t skip = prefix.len + kind.len;

    if (!span_starts(subject, prefix) || subject.len <= skip ||
        memcmp(subject.ptr + prefix.len, kind.ptr, kind.len) != 0)
        return false;
    *rest = span_of(subject.ptr + skip, subject.len - skip);
    return true;
}

static bool take_id(struct span *rest, struct span *id)
{
    return next_token(rest, id) && name_is_id(*id);
}

bool subject_parse_heartbeat(struct span subject, struct span prefix, struct span *service,
                             struct span *worker)
{
    struct span rest;

    return after(subject, prefix, SPAN_LIT(".heartbeat."), &rest) && take_id(&rest, service) &&
           take_id(&rest, worker) && !rest.ptr;
}

bool subject_parse_reply(struct span subject, struct span prefix, struct span *service,
                         struct span *worker, struct span *router, struct span *token)
{
    struct span rest;

    return after(subject, prefix, SPAN_LIT(".reply."), &rest) && take_id(&rest, service) &&
           take_id(&rest, worker) && take_id(&rest, router) && take_id(&rest, token) && !rest.ptr;
}

bool subject_parse_cancel(struct span subject, struct span prefix, struct span *service,
                          struct span *request_id)
{
    struct span rest;

    if (!after(subject, prefix, SPAN_LIT(".cancel."), &rest) || !take_id(&rest, service) ||
        !rest.ptr)
        return false;
    *request_id = rest; /* request ids may hold dots: all the rest is one */
    return name_is_request_id(rest);
}
