/* The servers we may connect to: those of the options, in shuffled order, and those that servers
 * told us of. Bounded; the walk over it goes round. */
#ifndef LANE_POOL_H
#define LANE_POOL_H

#include "base/rng.h"
#include "base/span.h"
#include "waybill/status.h"

#define POOL_MAX 64
#define POOL_HOST_SIZE 256
#define POOL_SECRET_SIZE 256

struct pool_server {
    char host[POOL_HOST_SIZE];
    char tls_name[POOL_HOST_SIZE]; /* the name its certificate must show; "" = host */
    char user[POOL_SECRET_SIZE], password[POOL_SECRET_SIZE], token[POOL_SECRET_SIZE];
    int port;
    bool tls;     /* tls:// */
    bool learned; /* from a server's INFO; forgotten when no longer told */
    bool told;    /* during pool_learn_*: still there */
};

struct pool {
    struct pool_server *servers[POOL_MAX];
    unsigned count;
    struct rng *rng; /* of pool_add_list */
    unsigned next;   /* index of the one that pool_next gives */
};

void pool_init(struct pool *pool);
void pool_fini(struct pool *pool);
/* Comma-separated list, shuffled. Empty: nats://127.0.0.1:4222. On failure `why` holds what is
 * wrong, without secrets. */
WB_MUST_USE wb_status pool_add_list(struct pool *pool, struct span list, struct rng *rng,
                                    char why[128]);
/* One URL into *server. */
WB_MUST_USE wb_status pool_parse(struct span url, struct pool_server *server);
/* The next server to try, going round. Pointers live until pool_learn_end. */
struct pool_server *pool_next(struct pool *pool);
/* What a server told us, between begin and end: new ones are added (with the credentials of
 * `from`), learned ones that are no longer told are removed, but never `from` itself. */
void pool_learn_begin(struct pool *pool);
void pool_learn(struct pool *pool, struct span url, const struct pool_server *from);
void pool_learn_end(struct pool *pool, const struct pool_server *from);
bool pool_wants_tls(const struct pool *pool); /* any tls:// */
bool pool_is_address(const char *host);       /* an IP address, not a name */

#endif
