/* /metrics in the Prometheus text format: the table of counts, then gauges and counts per service.
 */
#include "router/ledger.h"

#include <inttypes.h>

static wb_status write_services(struct router *r, struct buf *out)
{
    wb_status st = WB_OK;

    st = buf_printf(out, "# HELP waybill_service_requests_total client requests received\n# TYPE "
                         "waybill_service_requests_total counter\n");
    for (unsigned i = 0; st == WB_OK && i < r->service_count; i++)
        st = buf_printf(out, "waybill_service_requests_total{service=\"%s\"} %" PRIu64 "\n",
                        r->services[i].settings->name, r->services[i].requests);
    if (st == WB_OK)
        st = buf_printf(out, "# HELP waybill_errors_total requests ended with an error of the "
                             "router\n# TYPE waybill_errors_total counter\n");
    for (unsigned i = 0; st == WB_OK && i < r->service_count; i++)
        for (int e = WB_BAD_REQUEST; st == WB_OK && e < WB_STATUS_COUNT; e++)
            if (r->services[i].errors[e])
                st = buf_printf(out,
                                "waybill_errors_total{service=\"%s\",error=\"%s\"} %" PRIu64 "\n",
                                r->services[i].settings->name, wb_status_name((wb_status)e),
                                r->services[i].errors[e]);
    if (st == WB_OK)
        st = buf_printf(
            out, "# HELP waybill_workers workers by standing\n# TYPE waybill_workers gauge\n");
    for (unsigned i = 0; st == WB_OK && i < r->service_count; i++) {
        struct pool *p = r->services[i].pool;
        const char *name = r->services[i].settings->name;

        st = buf_printf(out,
                        "waybill_workers{service=\"%s\",standing=\"discovered\"} "
                        "%u\nwaybill_workers{service=\"%s\",standing=\"routable\"} %u\n"
                        "waybill_workers{service=\"%s\",standing=\"free\"} "
                        "%u\nwaybill_in_flight{service=\"%s\"} %" PRIu64
                        "\nwaybill_waiting{service=\"%s\"} %u\n",
                        name, pool_discovered(p), name, pool_routable(p), name, pool_free(p), name,
                        r->services[i].in_flight, name, pool_waiting(p));
    }
    return st;
}

static void sum_charges(void *arg, struct worker *w)
{
    *(uint64_t *)arg += w->occupancy;
}

wb_status metrics_write(struct router *r, struct buf *out)
{
    const struct lane_counts *f = lane_counts(r->front), *b = lane_counts(r->back);
    wb_status st = WB_OK;
    uint64_t charges = 0;

    for (unsigned i = 0; i < r->service_count; i++)
        pool_each(r->services[i].pool, sum_charges, &charges);
    for (unsigned i = 0; st == WB_OK && i < COUNT_COUNT; i++)
        st = buf_printf(
            out,
            "# HELP waybill_%s_total %s\n# TYPE waybill_%s_total counter\nwaybill_%s_total %" PRIu64
            "\n",
            count_table[i].name, count_table[i].help, count_table[i].name, count_table[i].name,
            r->counts[i]);
    if (st == WB_OK)
        st = buf_printf(out,
                        "# TYPE waybill_held_requests gauge\nwaybill_held_requests %u\n# TYPE "
                        "waybill_held_bytes gauge\nwaybill_held_bytes %" PRIu64 "\n"
                        "# TYPE waybill_charges gauge\nwaybill_charges %" PRIu64 "\n"
                        "# TYPE waybill_attribution_backlog gauge\nwaybill_attribution_backlog %u\n"
                        "# TYPE waybill_attribution_backlog_bytes "
                        "gauge\nwaybill_attribution_backlog_bytes %" PRIu64 "\n"
                        "# TYPE waybill_ready gauge\nwaybill_ready %d\n"
                        "# TYPE waybill_lane_up gauge\nwaybill_lane_up{lane=\"front\"} "
                        "%d\nwaybill_lane_up{lane=\"back\"} %d\n"
                        "# TYPE waybill_lane_in_bytes_total "
                        "counter\nwaybill_lane_in_bytes_total{lane=\"front\"} %" PRIu64
                        "\nwaybill_lane_in_bytes_total{lane=\"back\"} %" PRIu64 "\n"
                        "# TYPE waybill_lane_out_bytes_total "
                        "counter\nwaybill_lane_out_bytes_total{lane=\"front\"} %" PRIu64
                        "\nwaybill_lane_out_bytes_total{lane=\"back\"} %" PRIu64 "\n",
                        slab_used(r->transits), r->bytes_held, charges, ledger_backlog(r->ledger),
                        ledger_backlog_bytes(r->ledger), router_ready(r), lane_is_up(r->front),
                        lane_is_up(r->back), f->in_bytes, b->in_bytes, f->out_bytes, b->out_bytes);
    if (st == WB_OK)
        st = write_services(r, out);
    return st;
}
