/** @example stream_worker.c
 * A worker that answers with a stream: a request for N gets the numbers 1 to N, one a message, made
 * in a thread of its own. It stops when the client has left, or when the time is over.
 *
 *     NATS_URL=nats://127.0.0.1:4222 stream_worker SERVICE ID [PAUSE_MS]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <waybill/worker.h>

static long pause_ms;

static void *count(void *arg)
{
    wb_task *task = arg;
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    char text[32] = "";
    size_t len;
    const char *data = wb_task_data(task, &len);
    memcpy(text, data, len < sizeof(text) ? len : sizeof(text) - 1);
    long n = strtol(text, NULL, 10);
    wb_status s = wb_task_progress(task); /* I have it; the first number may take a while */
    for (long i = 1; i <= n && s == WB_OK; i++) {
        if (wb_task_cancelled(task) || wb_task_left_ms(task) == 0)
            break;
        if (pause_ms > 0)
            nanosleep(&pause, NULL);
        int written = snprintf(text, sizeof(text), "%ld", i);
        s = wb_task_send(task, text, (size_t)written, NULL, 0);
    }
    if (wb_task_cancelled(task)) {
        printf("request %s was given up\n", wb_task_request_id(task));
        fflush(stdout);
        wb_task_drop(task);
        return NULL;
    }
    if (s == WB_OK)
        s = wb_task_end(task);
    else
        wb_task_drop(task); /* not sent: the client sees that the end is missing */
    if (s != WB_OK)
        fprintf(stderr, "not sent: %s\n", wb_status_text(s));
    return NULL;
}

/* Returns at once, so that the next request can come. */
static void on_task(void *arg, wb_task *task)
{
    pthread_t thread;
    (void)arg;
    if (pthread_create(&thread, NULL, count, task) == 0) {
        pthread_detach(thread);
        return;
    }
    wb_status s = wb_task_refuse(task, 503, 1000);
    if (s != WB_OK)
        fprintf(stderr, "not sent: %s\n", wb_status_text(s));
}

int main(int argc, char **argv)
{
    sigset_t stop;
    int which;
    natsConnection *nc = NULL;
    wb_worker *worker = NULL;
    const char *url = getenv("NATS_URL");
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s SERVICE ID [PAUSE_MS]\n", argv[0]);
        return 2;
    }
    pause_ms = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);

    natsStatus ns = natsConnection_ConnectTo(&nc, url != NULL ? url : "nats://127.0.0.1:4222");
    if (ns != NATS_OK) {
        fprintf(stderr, "%s\n", natsStatus_GetText(ns));
        return 1;
    }
    wb_worker_options options = {
        .service = argv[1], .id = argv[2], .capacity = 4, .on_task = on_task};
    wb_status s = wb_worker_create(nc, &options, &worker);
    if (s == WB_OK)
        s = wb_worker_start(worker);
    if (s == WB_OK) {
        sigwait(&stop, &which);
        s = wb_worker_drain(worker, 30000); /* waits for the threads' tasks */
    }
    wb_worker_destroy(worker);
    natsConnection_Destroy(nc);
    nats_Close();
    return s == WB_OK ? 0 : 1;
}
