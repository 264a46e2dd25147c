/* A worker outside Waybill's tree: echoes until its standard input ends. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <waybill/version.h>
#include <waybill/worker.h>

static void on_task(void *arg, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    const wb_header header = {"X-Served-By", arg};
    wb_status s = wb_task_answer(task, data, len, &header, 1);
    if (s != WB_OK)
        fprintf(stderr, "not answered: %s\n", wb_status_text(s));
}

int main(int argc, char **argv)
{
    natsConnection *nc = NULL;
    wb_worker *worker = NULL;
    if (argc != 3)
        return 2;
    wb_worker_options options = {
        .service = argv[1], .id = argv[2], .capacity = 4, .on_task = on_task, .arg = argv[2]};
    if (natsConnection_ConnectTo(&nc, getenv("NATS_URL")) != NATS_OK)
        return 1;
    wb_status s = wb_worker_create(nc, &options, &worker);
    if (s == WB_OK)
        s = wb_worker_start(worker);
    printf("%s %s\n", WB_VERSION, wb_status_name(s));
    fflush(stdout);
    char byte;
    while (s == WB_OK && read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    if (s == WB_OK)
        s = wb_worker_drain(worker, 5000);
    wb_worker_destroy(worker);
    natsConnection_Destroy(nc);
    nats_Close();
    return s == WB_OK ? 0 : 1;
}
