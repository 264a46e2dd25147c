/** @example small_worker.c
 * The least a worker is in C: every request gets its own payload back.
 *
 *     NATS_URL=nats://127.0.0.1:4222 small_worker SERVICE ID
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <waybill/worker.h>

static void on_task(void *arg, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    (void)arg;
    wb_status s = wb_task_answer(task, data, len, NULL, 0);
    if (s != WB_OK)
        fprintf(stderr, "not sent: %s\n", wb_status_text(s));
}

int main(int argc, char **argv)
{
    int which;
    sigset_t stop;
    natsConnection *nc;
    wb_worker *worker;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    if (argc != 3 || natsConnection_ConnectTo(&nc, getenv("NATS_URL")) != NATS_OK)
        return 1;
    wb_worker_options options = {.service = argv[1], .id = argv[2], .on_task = on_task};
    if (wb_worker_create(nc, &options, &worker) != WB_OK || wb_worker_start(worker) != WB_OK)
        return 1;
    sigwait(&stop, &which);
    return wb_worker_drain(worker, 30000) == WB_OK ? 0 : 1;
}
