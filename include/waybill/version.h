/** @file
 * The version of the public API and of the programs built with it. */
#ifndef WAYBILL_VERSION_H
#define WAYBILL_VERSION_H

/** Changes when what compiled no longer does, and the library's SONAME with it. */
#define WB_VERSION_MAJOR 0
/** Changes when something is added; before 1.0 also as the major one. */
#define WB_VERSION_MINOR 1
/** Changes when something is mended. */
#define WB_VERSION_PATCH 0
/** All three, as text. */
#define WB_VERSION "0.1.0"

#endif
