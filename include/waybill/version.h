/* The version of the public API and of the programs built with it. */
#ifndef WAYBILL_VERSION_H
#define WAYBILL_VERSION_H

#define WB_VERSION_MAJOR 0
#define WB_VERSION_MINOR 1
#define WB_VERSION_PATCH 0
#define WB_VERSION "0.1.0"

#endif
