/* Asking all routers at once: one request, replies of all that answer within a time. Private to the
 * commands of operators. */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include <cjson/cJSON.h>

#include "cli/command.h"

#define ADMIN_REPLIES_MAX 256

struct admin_replies {
    cJSON *items[ADMIN_REPLIES_MAX];
    unsigned count;
};

/* what: "show.workers", "do.cancel" ...; router NULL: all of them. Waits for `timeout_ms` (with one
 * router, or once `enough` have answered, no longer). EXIT_FINE with at least one reply, else the
 * exit code after a line on stderr. */
int admin_ask(struct link *link, const char *what, const char *router, const char *body,
              int64_t timeout_ms, unsigned enough, struct admin_replies *out);
/* The same for any subject. */
int admin_ask_subject(struct link *link, const char *subject, const char *body, int64_t timeout_ms,
                      unsigned enough, struct admin_replies *out);
void admin_fini(struct admin_replies *replies);
/* All replies as one JSON array to stdout. */
void admin_print(const struct admin_replies *replies);
/* Member's text, "-" if there is none; its number, 0 if none. */
const char *admin_text(const cJSON *object, const char *name);
double admin_number(const cJSON *object, const char *name);

#endif
