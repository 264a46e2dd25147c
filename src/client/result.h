/* A result is a received message; the texts are read from it when asked for, an error's body when
 * it comes. Private to client. */
#ifndef CLIENT_RESULT_H
#define CLIENT_RESULT_H

#include "waybill/client.h"
#include "wire/error_body.h"

struct wb_result {
    natsMsg *message;
    struct error_brief *trouble; /* NULL: no router's error, or one without a body of its own */
};

/* Owns the message also if it fails (NULL). */
wb_result *result_create(natsMsg *message);
#endif
