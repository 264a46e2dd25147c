/* Any bytes, cut anywhere: the parser reads only what it was given, gets on or stops, and says the
 * same for the whole input as for its pieces. INFO and -ERR go on to what reads them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lane/handshake.h"
#include "lane/parser.h"

#define MESSAGE_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct span part, struct span whole)
{
    CHECK(part.len == 0 || (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len));
}

static void look(const struct parser_result *r, struct span rest)
{
    struct handshake_info info;
    struct span subject;

    CHECK(r->used <= rest.len);
    if (r->op == PARSER_MORE || r->op == PARSER_BROKEN)
        return;
    CHECK(r->used > 0);
    inside(r->text, rest);
    inside(r->message.subject, rest);
    inside(r->message.reply, rest);
    inside(r->message.headers, rest);
    inside(r->message.payload, rest);
    CHECK(r->message.headers.len + r->message.payload.len <= MESSAGE_MAX);
    if (r->op == PARSER_INFO && handshake_read_info(r->text, &info, NULL, NULL) == WB_OK)
        CHECK(memchr(info.nonce, '\0', sizeof(info.nonce)) != NULL);
    if (r->op == PARSER_ERR) {
        handshake_read_error(r->text, &subject);
        inside(subject, rest);
    }
}

/* The operation at the front must not depend on what follows it. */
static void same_without_tail(struct span rest, const struct parser_result *r)
{
    char *copy = malloc(r->used);
    struct parser_result again;

    if (!copy)
        return;
    memcpy(copy, rest.ptr, r->used);
    again = parser_next(span_of(copy, r->used), MESSAGE_MAX);
    CHECK(again.op == r->op && again.used == r->used);
    again = parser_next(span_of(copy, r->used - 1), MESSAGE_MAX);
    CHECK(again.op == PARSER_MORE);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = span_of(data, size);

    for (;;) {
        struct parser_result r = parser_next(rest, MESSAGE_MAX);

        look(&r, rest);
        if (r.op == PARSER_MORE || r.op == PARSER_BROKEN)
            return 0;
        same_without_tail(rest, &r);
        rest.ptr += r.used;
        rest.len -= r.used;
    }
}
