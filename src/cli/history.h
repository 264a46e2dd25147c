/* A request's revisions in the attribution bucket. Private to `who` and `trace`. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "cli/records.h"

#define HISTORY_MAX 64 /* a bucket keeps no more revisions of a key */

struct history {
    struct revision items[HISTORY_MAX]; /* oldest first */
    unsigned count;
};

/* The key of a request, "*" where its service is not told. False: it has said on stderr what is
 * wrong with the id, the service or the bucket's name. */
bool history_key(const char *service, const char *id, const char *bucket,
                 char key[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2]);
/* The last revision that is no delete marker; then all of that key's. FOUND_NONE: there is none. */
enum found history_last(struct records *r, const char *key, struct revision *out);
enum found history_read(struct records *r, const char *key, struct history *out);
void history_fini(struct history *h);
/* Says on stderr why there is nothing; the exit code for it. */
int history_complain(const struct records *r, enum found found, const char *service,
                     const char *id);

#endif
