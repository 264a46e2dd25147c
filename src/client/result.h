/* A result is a received message; the texts are read from it when asked for. Private to client. */
#ifndef CLIENT_RESULT_H
#define CLIENT_RESULT_H

#include "waybill/client.h"

struct wb_result {
    natsMsg *message;
};

/* Owns the message also if it fails (NULL). */
wb_result *result_create(natsMsg *message);
/* WB_OK, or the status of the router's error. */
wb_status result_status(const wb_result *result);

#endif
