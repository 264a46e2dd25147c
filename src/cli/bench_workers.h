/* waybill bench --workers: what libwaybill costs a worker over nats.c alone. */
#ifndef CLI_BENCH_WORKERS_H
#define CLI_BENCH_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_fabric.h"

struct workers_bench {
    struct fabric_options fabric;
    int64_t rounds, run_ms;
    bool check, json;
};

/* The exit code of the command. */
int bench_workers(const struct workers_bench *options);

#endif
