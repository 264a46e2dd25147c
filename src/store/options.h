/* Connection settings to nats.c's options. Private to store. */
#ifndef STORE_OPTIONS_H
#define STORE_OPTIONS_H

#include <nats/nats.h>

#include "store/store.h"

#define STORE_CALL_MS                                                                              \
    800 /* the longest that one call on the server may take: store_destroy waits for it */

/* What this nats.c can't do of it, in brackets behind a reason; "" if all. */
const char *store_options_lack(const struct store_connection *c);
/* Owned by the caller (natsOptions_Destroy). Reads the nkey file; may not block otherwise. */
natsStatus store_options(const struct store_connection *c, natsOptions **out);

#endif
