/* Who we are, for one connect: gathered from the server's URL, the options and files, and the nonce
 * signed. Files are read here and nowhere else, so that each connect takes up what has changed. */
#ifndef LANE_CREDENTIALS_H
#define LANE_CREDENTIALS_H

#include "lane/lane.h"

#define CREDENTIALS_FILE_MAX 16384
#define CREDENTIALS_SEED_MAX 64
#define CREDENTIALS_TEXT_MAX 256

struct credentials {
    const char *user, *password, *token; /* borrowed from the options or the server; NULL: none */
    char *jwt;                           /* owned; NULL: none */
    char public[64];                     /* nkey as text, "" none */
    char signature[128];                 /* base64url without padding, "" none */
};

/* url_* come from the server's URL and go before the options; NULL: none. nonce "": the server asks
 * for no signature. On failure `why` says which file or value, and there is nothing to free. */
WB_MUST_USE wb_status credentials_gather(struct credentials *who,
                                         const struct lane_options *options, const char *url_user,
                                         const char *url_password, const char *url_token,
                                         const char *nonce, char why[CREDENTIALS_TEXT_MAX]);
void credentials_fini(struct credentials *who); /* wipes */

/* The parts of a creds file, in its text. False: not there. Exposed for tests. */
bool credentials_find_jwt(struct span file, struct span *jwt);
bool credentials_find_seed(struct span file, struct span *seed);
/* The public nkey of a user's seed. */
WB_MUST_USE wb_status credentials_public_of(const char *seed, char out[64]);

#endif
