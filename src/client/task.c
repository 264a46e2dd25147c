/* A task: one attempt of one request in the hands of the worker's owner.
 *
 * It is on its worker's list from receipt until its one finishing call, which takes it off, counts
 * it down and gives back the owner's reference; a cancel that is being told holds another, so the
 * memory outlives the telling. Numbers: each message of a stream, its end and an error included,
 * carries Waybill-Seq, so that the router can see a hole. An answer is marked Waybill-End: whether
 * the service is one of single replies or of streams is the router's affair, and it strips the
 * mark.
 *
 * The request's headers are parsed when somebody asks for one: nats.c makes a table of them then,
 * which costs as much as all the rest. A task's memory is kept for the next one.
 *
 * It does not order calls from several threads on one task: the header forbids them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "client/message.h"
#include "client/worker_state.h"
#include "wire/headers.h"

#define ERROR_TEXT_MAX 512
#define SPARES_MAX 1024

/* Under the lock. Its message and its hold on the worker are gone already. */
static void keep_spare(struct wb_worker *w, struct wb_task *task)
{
    task->magic = 0;
    if (w->spare_count == SPARES_MAX) {
        free(task);
        return;
    }
    task->next = w->spares;
    w->spares = task;
    w->spare_count++;
}

void task_free_spares(struct wb_worker *w)
{
    for (struct wb_task *next; w->spares != NULL; w->spares = next) {
        next = w->spares->next;
        free(w->spares);
    }
}

struct wb_task *task_create(struct wb_worker *w, natsMsg *message)
{
    struct wb_task *task = w->spares;
    if (task != NULL) {
        w->spares = task->next;
        w->spare_count--;
    } else {
        task = malloc(sizeof(*task));
    }
    if (task == NULL)
        return NULL;
    memset(task, 0, sizeof(*task));
    MAGIC_SET(task, TASK_MAGIC);
    task->worker = w;
    task->message = message;
    task->reply = natsMsg_GetReply(message);
    task->router = -1;
    task->received = clock_mono_coarse();
    atomic_init(&task->refs, 1);
    atomic_fetch_add(&w->refs, 1);
    return task;
}

void task_release(struct wb_task *task)
{
    if (atomic_fetch_sub(&task->refs, 1) != 1)
        return;
    struct wb_worker *w = task->worker;
    natsMsg_Destroy(task->message);
    pthread_mutex_lock(&w->lock);
    keep_spare(w, task);
    pthread_mutex_unlock(&w->lock);
    worker_release(w);
}

const char *task_header(const struct wb_task *task, struct span name)
{
    if (atomic_load(&task->parsed))
        return message_get(task->message, name);
    struct wb_task *t = (struct wb_task *)(uintptr_t)task; /* what it holds does not change */
    pthread_mutex_lock(&t->worker->parsing);
    const char *value = message_get(t->message, name);
    atomic_store(&t->parsed, true);
    pthread_mutex_unlock(&t->worker->parsing);
    return value;
}

static int64_t task_number(const struct wb_task *task, struct span name, int64_t absent)
{
    return message_number(task_header(task, name), absent);
}

static void finish(struct wb_task *task)
{
    struct wb_worker *w = task->worker;
    natsMsg *message = task->message;
    pthread_mutex_lock(&w->lock);
    worker_unlist(w, task);
    bool alone = atomic_load(&task->refs) == 1; /* off the list no cancel finds it any more */
    if (alone)
        keep_spare(w, task);
    pthread_mutex_unlock(&w->lock);
    if (alone) {
        natsMsg_Destroy(message);
        worker_release(w);
    } else {
        task_release(task);
    }
}

/* *out NULL with WB_OK: nobody waits for the answer. */
static wb_status begin(wb_task *task, const void *data, size_t len, natsMsg **out)
{
    MAGIC_CHECK(task, TASK_MAGIC);
    *out = NULL;
    if (atomic_load(&task->worker->stopped))
        return WB_CLOSED;
    if (len > INT32_MAX)
        return WB_TOO_LARGE;
    if (task->reply == NULL)
        return WB_OK;
    return message_status(natsMsg_Create(out, task->reply, NULL, data, (int)len));
}

static wb_status publish(wb_task *task, natsMsg *message)
{
    wb_status s = message_status(natsConnection_PublishMsg(task->worker->nc, message));
    natsMsg_Destroy(message);
    return s;
}

/* The next message of the stream, with its number; `mark` as the last. */
static wb_status send_numbered(wb_task *task, const void *data, size_t len,
                               const wb_header *headers, unsigned count, bool mark)
{
    natsMsg *message;
    wb_status s = begin(task, data, len, &message);
    if (s != WB_OK || message == NULL)
        return s;
    s = message_add_all(message, headers, count);
    if (s == WB_OK)
        s = message_set_int(message, H_SEQ, task->sent + 1);
    if (s == WB_OK && mark)
        s = message_set_literal(message, H_END, "true");
    if (s != WB_OK) {
        natsMsg_Destroy(message);
        return s;
    }
    s = publish(task, message);
    if (s == WB_OK)
        task->sent++;
    return s;
}

wb_status wb_task_progress(wb_task *task)
{
    natsMsg *message;
    wb_status s = begin(task, NULL, 0, &message);
    if (s != WB_OK || message == NULL)
        return s;
    s = message_set_literal(message, H_PROGRESS, "true");
    if (s == WB_OK)
        return publish(task, message);
    natsMsg_Destroy(message);
    return s;
}

wb_status wb_task_send(wb_task *task, const void *data, size_t len, const wb_header *headers,
                       unsigned count)
{
    if (len == 0)
        return WB_INVALID;
    return send_numbered(task, data, len, headers, count, false);
}

wb_status wb_task_answer(wb_task *task, const void *data, size_t len, const wb_header *headers,
                         unsigned count)
{
    wb_status s = send_numbered(task, data, len, headers, count, true);
    finish(task);
    return s;
}

wb_status wb_task_end(wb_task *task)
{
    wb_status s = send_numbered(task, NULL, 0, NULL, 0, true);
    finish(task);
    return s;
}

static wb_status send_error(wb_task *task, int code, const char *text, int64_t retry_after_ms,
                            const void *data, size_t len)
{
    char safe[ERROR_TEXT_MAX], number[16], after[24];
    snprintf(safe, sizeof(safe), "%s", text != NULL && *text != '\0' ? text : "error");
    for (char *p = safe; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
    snprintf(number, sizeof(number), "%d", code);
    snprintf(after, sizeof(after), "%lld", (long long)retry_after_ms);
    const wb_header headers[] = {{H_SERVICE_ERROR.ptr, safe},
                                 {H_SERVICE_ERROR_CODE.ptr, number},
                                 {H_RETRY_AFTER_MS.ptr, after}};
    return send_numbered(task, data, len, headers, retry_after_ms >= 0 ? 3 : 2, false);
}

wb_status wb_task_refuse(wb_task *task, int code, int64_t retry_after_ms)
{
    wb_status s =
        task->sent > 0 ? WB_INVALID : send_error(task, code, "refused", retry_after_ms, NULL, 0);
    finish(task);
    return s;
}

wb_status wb_task_error(wb_task *task, int code, const char *text, const void *data, size_t len)
{
    wb_status s = send_error(task, code, text, -1, data, len);
    finish(task);
    return s;
}

void wb_task_drop(wb_task *task)
{
    MAGIC_CHECK(task, TASK_MAGIC);
    finish(task);
}

void wb_task_skip(wb_task *task)
{
    task->sent++;
}

const char *wb_task_request_id(const wb_task *task)
{
    const char *id = task_header(task, H_REQUEST_ID);
    return id != NULL ? id : "";
}

const char *wb_task_subject(const wb_task *task)
{
    const char *subject = task_header(task, H_SUBJECT);
    return subject != NULL ? subject : natsMsg_GetSubject(task->message);
}

const void *wb_task_data(const wb_task *task, size_t *len)
{
    *len = (size_t)natsMsg_GetDataLength(task->message);
    return natsMsg_GetData(task->message);
}

int64_t wb_task_attempt(const wb_task *task)
{
    return task_number(task, H_ATTEMPT, 1);
}

int64_t wb_task_rank(const wb_task *task)
{
    return task_number(task, H_RANK, -1);
}

int64_t wb_task_resume_from(const wb_task *task)
{
    return task_number(task, H_RESUME_FROM, 0);
}

int64_t wb_task_deadline_ms(const wb_task *task)
{
    return task_number(task, H_DEADLINE_MS, -1);
}

int64_t wb_task_left_ms(const wb_task *task)
{
    int64_t then = wb_task_deadline_ms(task);
    int64_t left = then - mono_diff_us(clock_mono(), task->received) / 1000;
    return then < 0 ? -1 : left > 0 ? left : 0;
}

const char *wb_task_header(const wb_task *task, const char *name)
{
    return task_header(task, span_str(name));
}

bool wb_task_cancelled(const wb_task *task)
{
    return atomic_load(&task->cancelled);
}

void wb_task_set_user(wb_task *task, void *user)
{
    task->user = user;
}

void *wb_task_user(const wb_task *task)
{
    return task->user;
}
