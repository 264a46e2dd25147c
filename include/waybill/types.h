/** @file
 * Limits and small enums shared by the library, the router and the tools. Lengths exclude the NUL.
 */
#ifndef WAYBILL_TYPES_H
#define WAYBILL_TYPES_H

/** Length of service, worker and router ids. */
#define WB_NAME_MAX 64
/** Length of request ids. */
#define WB_REQUEST_ID_MAX 128
/** Length of adapter and session names. */
#define WB_LONG_NAME_MAX 256
/** Length of subjects. */
#define WB_SUBJECT_MAX 512
/** What Waybill's own subjects begin with, unless the router's config says otherwise. */
#define WB_DEFAULT_PREFIX "waybill"

/** How many answers a request has. */
typedef enum wb_replies {
    WB_REPLIES_ONE,    /**< exactly one */
    WB_REPLIES_STREAM, /**< any number, numbered, and an end */
    WB_REPLIES_NONE    /**< none */
} wb_replies;

/** A message header of the caller's own. Checked before it is sent: no CR or LF; no blank, control
 * character or colon in a name. */
typedef struct wb_header {
    const char *name;  /**< printable ASCII, case-sensitive */
    const char *value; /**< may be empty, not NULL */
} wb_header;

#endif
