/* --header "NAME: VALUE" of the commands that send requests. */
#ifndef CLI_HEADERS_H
#define CLI_HEADERS_H

#include "cli/options.h"
#include "waybill/types.h"

/* Splits each text. False: it has said on stderr which is none. headers_free in either case. */
bool headers_split(const struct option_list *texts, wb_header out[OPTION_LIST_MAX]);
void headers_free(const struct option_list *texts, wb_header headers[OPTION_LIST_MAX]);

#endif
