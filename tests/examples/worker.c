/** @example worker.c
 * A worker that answers once: the text in capitals. It refuses what it cannot take now, answers an
 * error to what makes no sense, and leaves in good order on SIGTERM.
 *
 *     NATS_URL=nats://127.0.0.1:4222 worker SERVICE ID
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <waybill/worker.h>

static void on_task(void *arg, wb_task *task)
{
    char answer[256];
    size_t len;
    const char *data = wb_task_data(task, &len);
    wb_status s;
    (void)arg;
    if (len == 4 && memcmp(data, "busy", 4) == 0) {
        s = wb_task_refuse(task, 429, 500); /* another worker, and me not for half a second */
    } else if (len > sizeof(answer)) {
        s = wb_task_error(task, 413, "256 bytes at most", NULL, 0);
    } else {
        for (size_t i = 0; i < len; i++)
            answer[i] = (char)toupper((unsigned char)data[i]);
        const wb_header header = {"Content-Type", "text/plain"};
        s = wb_task_answer(task, answer, len, &header, 1);
    }
    if (s != WB_OK) /* the task is gone all the same; the router finds another worker */
        fprintf(stderr, "not sent: %s\n", wb_status_text(s));
}

static natsConnection *connect_to(const char *url)
{
    natsConnection *nc = NULL;
    natsOptions *options = NULL;
    natsStatus s = natsOptions_Create(&options);
    if (s == NATS_OK)
        s = natsOptions_SetURL(options, url);
    if (s == NATS_OK)
        s = natsOptions_SetSendAsap(options, true);
    if (s == NATS_OK)
        s = natsOptions_SetMaxReconnect(options, -1);
    if (s == NATS_OK)
        s = natsConnection_Connect(&nc, options);
    natsOptions_Destroy(options);
    if (s != NATS_OK)
        fprintf(stderr, "%s: %s\n", url, natsStatus_GetText(s));
    return nc;
}

int main(int argc, char **argv)
{
    sigset_t stop;
    int which;
    wb_worker *worker = NULL;
    const char *url = getenv("NATS_URL");
    if (argc != 3) {
        fprintf(stderr, "usage: %s SERVICE ID\n", argv[0]);
        return 2;
    }
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL); /* before nats.c starts its threads */

    natsConnection *nc = connect_to(url != NULL ? url : "nats://127.0.0.1:4222");
    wb_worker_options options = {
        .service = argv[1], .id = argv[2], .capacity = 8, .on_task = on_task};
    wb_status s = wb_worker_create(nc, &options, &worker);
    if (s == WB_OK)
        s = wb_worker_start(worker);
    if (s == WB_OK) {
        sigwait(&stop, &which);
        s = wb_worker_drain(worker, 30000);
    }
    if (s != WB_OK)
        fprintf(stderr, "%s\n", wb_status_text(s));
    wb_worker_destroy(worker);
    natsConnection_Destroy(nc);
    nats_Close();
    return s == WB_OK ? 0 : 1;
}
