/* Reading the attribution bucket: from the stream's leader, since a replica's direct read may be
 * older than the answer that the caller has in hand, and by STREAM.MSG.GET alone, the one right
 * that an operator needs for it. A consumer would need CONSUMER.CREATE, which lets its holder have
 * records pushed into any subject. One thread. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include <cjson/cJSON.h>
#include <signal.h>

#include "base/clock.h"
#include "cli/command.h"
#include "waybill/types.h"
#include "wire/json.h"

#define RECORDS_BATCH_MAX 64
#define RECORDS_AT_SIZE 40
#define RECORDS_BUCKET "waybill_attribution"

enum found {
    FOUND_ONE,
    FOUND_NONE,
    FOUND_NO_BUCKET,
    FOUND_NO_JETSTREAM,
    FOUND_DENIED,
    FOUND_SILENCE, /* no answer in time */
    FOUND_NO_LINK,
    FOUND_ERROR /* of JetStream, or an answer that cannot be read */
};

/* One revision of one record. revision_fini frees what it holds. */
struct revision {
    uint64_t seq;
    char key[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2]; /* <service>.<request id> */
    char at[RECORDS_AT_SIZE];                      /* by the server's clock, RFC 3339 */
    bool marker;                                   /* the key was deleted or purged */
    struct buf text;
    cJSON *record; /* NULL: a marker, or not JSON */
};
void revision_fini(struct revision *r);
/* Member by member into an open object: key, service, request id, revision, time, record. */
void revision_json(struct json *j, const struct revision *r);
/* RFC 3339 in UTC with any number of digits behind the second. */
bool revision_time(const char *at, wall *out);

struct records {
    struct link *link;
    const char *bucket;
    int64_t timeout_ms;
    natsSubscription *sub;
    char inbox[WB_SUBJECT_MAX + 1], subject[WB_SUBJECT_MAX + 1];
    uint64_t asked;                    /* numbers the questions, so that a late answer is known */
    int err_code;                      /* JetStream's, with FOUND_ERROR */
    const volatile sig_atomic_t *stop; /* not NULL and set: nothing is waited for any more */
};

/* The bucket's name must be an id, and outlive it. FOUND_ONE: it is open. Asks nothing yet. */
enum found records_open(struct records *r, struct link *link, const char *bucket,
                        int64_t timeout_ms);
void records_close(struct records *r);
/* The last revision of a key, "*" allowed for the service; the first from `seq` on. */
enum found records_last(struct records *r, const char *keys, struct revision *out);
enum found records_next(struct records *r, const char *keys, uint64_t seq, struct revision *out);
/* Up to `count` revisions from `seq` on, in their order, asked for at once; *used says how many
 * there are. What ended them if they are fewer, else FOUND_ONE; FOUND_ONE with fewer: ask again
 * behind the last. */
enum found records_batch(struct records *r, const char *keys, uint64_t seq, unsigned count,
                         struct revision out[RECORDS_BATCH_MAX], unsigned *used);
/* Says on stderr why nothing was found, and what to do; the exit code for it. */
int records_complain(const struct records *r, enum found found);

#endif
