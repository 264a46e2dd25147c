/* Connection settings as the `nats` CLI takes them: flag, environment, file, context, default (spec
 * section 12). Reads environment and context files
 * ($XDG_CONFIG_HOME/nats/context/NAME.json, context.txt for the selected one); no sockets. */
#ifndef WIRE_CONNECTION_H
#define WIRE_CONNECTION_H

#include <stdbool.h>

#include "waybill/status.h"

struct connection {
    char *url, *user, *password, *token, *nkey, *creds, *cert, *key, *ca; /* heap or NULL */
    char *inbox_prefix;
    bool tls_first, tls_insecure;
    const char *origin_url; /* where the url came from: "flag", "environment", "file", "context",
                               "default" */
};

/* Fills what is still NULL: environment first; then NATS_CONTEXT's (or `context`'s, or with
 * use_selected the selected) context file. why[] says what is wrong. WB_NOT_FOUND: the named
 * context is missing; WB_INVALID: not JSON. url is never defaulted here. */
WB_MUST_USE wb_status connection_resolve(struct connection *c, const char *context,
                                         bool use_selected, char why[256]);
void connection_fini(struct connection *c);

#endif
