/* Limits and small enums shared by the library, the router and the tools (spec sections 2 and 11).
 * Lengths exclude the NUL. */
#ifndef WAYBILL_TYPES_H
#define WAYBILL_TYPES_H

#define WB_NAME_MAX 64 /* service, worker, router ids */
#define WB_REQUEST_ID_MAX 128
#define WB_LONG_NAME_MAX 256 /* adapter and session names */
#define WB_SUBJECT_MAX 512
#define WB_DEFAULT_PREFIX "waybill"

typedef enum wb_replies { WB_REPLIES_ONE, WB_REPLIES_STREAM, WB_REPLIES_NONE } wb_replies;

/* A message header of the caller's own. Names and values are checked before they are sent: no CR,
 * LF, and no colon or blank in a name. */
typedef struct wb_header {
    const char *name, *value;
} wb_header;

#endif
