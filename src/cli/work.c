/* The work of `waybill worker`: answers as its options say, at once or in steps.
 *
 * A task without delay or program is answered in the handler. Else it becomes a job in a queue;
 * every job waits the same delay before each step, so the queue is ordered by time and a step goes
 * to its end again. Steps: first --progress messages, then --stream messages and the end, or the
 * one answer. Threads take jobs when they are due: one for delays, as many as the capacity (or 4)
 * for programs.
 *
 * The journal gets a line before the first answer of an attempt is sent: who is in the books of the
 * bucket is in the journal, also if we are killed in between. One write(2) per line, so several
 * workers may share a file.
 *
 * --die-after N kills this process with SIGKILL once N messages (answers, stream messages) are sent
 * and flushed; 0: at the first request. A cancelled task is dropped at its next step. */
#include "cli/work.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX (64u * 1024 * 1024)
#define PROGRAM_THREADS 4
#define FLUSH_MS 2000
#define MESSAGE_MAX (64u * 1024 * 1024)

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void journal(struct work *work, const wb_task *task)
{
    char line[WB_REQUEST_ID_MAX + 64];
    if (work->journal < 0)
        return;
    int n = snprintf(line, sizeof(line), "%.128s %lld\n", wb_task_request_id(task),
                     (long long)wb_task_attempt(task));
    if (write(work->journal, line, (size_t)n) != n)
        fprintf(stderr, "waybill: the journal cannot be written\n");
}

/* One message has been sent. */
static void sent(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    bool end = ++work->sent == work->args->die_after;
    pthread_mutex_unlock(&work->lock);
    if (end) {
        struct timespec moment = {0, 50000000}; /* what was published is with the kernel by then */
        nanosleep(&moment, NULL);
        die();
    }
}

/* The task is finished with this result. */
static void served(struct work *work, wb_status status)
{
    if (status != WB_OK)
        fprintf(stderr, "waybill: an answer could not be sent: %s\n", wb_status_text(status));
    pthread_mutex_lock(&work->lock);
    bool all = ++work->served == work->args->count;
    pthread_mutex_unlock(&work->lock);
    if (all)
        work->done(work->done_arg);
}

static double chance(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    double x = (double)(rng_next(&work->rng) >> 11) / 9007199254740992.0;
    pthread_mutex_unlock(&work->lock);
    return x;
}

/* --refuse-rate and --fail-rate. True: the task is finished. */
static bool misbehave(struct work *work, wb_task *task)
{
    const struct worker_args *args = work->args;
    if (args->refuse_rate > 0 && chance(work) < args->refuse_rate) {
        wb_status s = wb_task_refuse(task, (int)args->refuse_code, args->retry_after_ms);
        (void)s; /* unheard: the router's clock decides */
        return true;
    }
    if (args->fail_rate > 0 && chance(work) < args->fail_rate) {
        journal(work, task);
        wb_status s = wb_task_error(task, (int)args->fail_code, "failed on purpose", NULL, 0);
        sent(work);
        served(work, s);
        return true;
    }
    return false;
}

static void answer_program(struct work *work, wb_task *task)
{
    struct buf out;
    buf_init(&out, ANSWER_MAX);
    int code = program_run(work->args->exec, task, &out);
    struct span data = buf_span(&out);
    if (wb_task_cancelled(task)) {
        wb_task_drop(task);
        buf_fini(&out);
        return;
    }
    char text[64];
    snprintf(text, sizeof(text),
             code < 0 ? "the program could not be run" : "the program ended with code %d", code);
    journal(work, task);
    wb_status s = code == 0 ? wb_task_answer(task, data.ptr, data.len, NULL, 0)
                            : wb_task_error(task, 500, text, data.ptr, data.len);
    buf_fini(&out);
    sent(work);
    served(work, s);
}

static void answer_echo(struct work *work, wb_task *task)
{
    size_t len;
    const void *data = wb_task_data(task, &len);
    journal(work, task);
    wb_status s = wb_task_answer(task, data, len, NULL, 0);
    sent(work);
    served(work, s);
}

/* Message `number` (from 1) of the stream: the payload, a blank, the number. */
static wb_status send_number(wb_task *task, int64_t number)
{
    size_t len;
    struct buf text;
    const void *data = wb_task_data(task, &len);
    buf_init(&text, MESSAGE_MAX);
    wb_status s = len > 0 ? buf_append(&text, data, len) : WB_OK;
    if (s == WB_OK)
        s = buf_printf(&text, len > 0 ? " %lld" : "%lld", (long long)number);
    if (s == WB_OK)
        s = wb_task_send(task, buf_span(&text).ptr, buf_len(&text), NULL, 0);
    buf_fini(&text);
    return s;
}

/* The next message of the stream or its end. True: the task is finished. */
static bool step_stream(struct work *work, wb_task *task, int64_t step)
{
    int64_t from = wb_task_resume_from(task), number = from + step + 1;
    if (step == 0)
        journal(work, task);
    if (number > work->args->stream) {
        served(work, wb_task_end(task));
        return true;
    }
    if (work->args->hole && step == 1)
        wb_task_skip(task);
    wb_status s = send_number(task, number);
    if (s == WB_OK) {
        sent(work);
        return false;
    }
    served(work, s);
    wb_task_drop(task);
    return true;
}

/* True: the task is finished. */
static bool step(struct work *work, struct job *job)
{
    const struct worker_args *args = work->args;
    int64_t at = job->step++;
    if (wb_task_cancelled(job->task)) {
        wb_task_drop(job->task);
        return true;
    }
    if (at < args->progress) {
        wb_status s = wb_task_progress(job->task);
        (void)s;
        return false;
    }
    if (at == args->progress && misbehave(work, job->task))
        return true;
    if (args->exec != NULL)
        answer_program(work, job->task);
    else if (args->stream >= 0)
        return step_stream(work, job->task, at - args->progress);
    else
        answer_echo(work, job->task);
    return true;
}

static void push(struct work *work, struct job *job)
{
    job->due = mono_add_ms(clock_mono(), work->args->delay_ms);
    job->next = NULL;
    pthread_mutex_lock(&work->lock);
    if (work->last != NULL)
        work->last->next = job;
    else
        work->first = job;
    work->last = job;
    pthread_cond_signal(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

/* The first job, once it is due; NULL: stopping. */
static struct job *pop(struct work *work)
{
    struct job *job = NULL;
    pthread_mutex_lock(&work->lock);
    while (!work->stopping) {
        job = work->first;
        if (job == NULL) {
            pthread_cond_wait(&work->changed, &work->lock);
            continue;
        }
        if (!mono_before(clock_mono(), job->due))
            break;
        struct timespec at = {job->due.us / 1000000, (job->due.us % 1000000) * 1000};
        pthread_cond_timedwait(&work->changed, &work->lock, &at);
        job = NULL;
    }
    if (work->stopping)
        job = NULL;
    if (job != NULL) {
        work->first = job->next;
        if (work->first == NULL)
            work->last = NULL;
    }
    pthread_mutex_unlock(&work->lock);
    return job;
}

static void *serve(void *arg)
{
    struct work *work = arg;
    struct job *job;
    while ((job = pop(work)) != NULL) {
        if (step(work, job))
            free(job);
        else
            push(work, job);
    }
    return NULL;
}

void work_take(struct work *work, wb_task *task)
{
    if (work->args->die_after == 0)
        die();
    struct job now = {.task = task};
    if (work->thread_count == 0) {
        while (!step(work, &now)) {
        }
        return;
    }
    struct job *job = malloc(sizeof(*job));
    if (job == NULL) {
        wb_status s = wb_task_refuse(task, 503, 100);
        (void)s;
        return;
    }
    *job = now;
    push(work, job);
}

bool work_init(struct work *work, const struct worker_args *args, void (*done)(void *arg),
               void *done_arg)
{
    *work = (struct work){.args = args, .journal = -1, .done = done, .done_arg = done_arg};
    uint64_t seed;
    rng_secure(&seed, sizeof(seed));
    rng_seed(&work->rng, seed);
    pthread_mutex_init(&work->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&work->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (args->journal != NULL) {
        work->journal = open(args->journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (work->journal < 0) {
            fprintf(stderr, "waybill: --journal: %s cannot be written\n", args->journal);
            return false;
        }
    }
    unsigned threads = args->delay_ms > 0 ? 1 : 0;
    if (args->exec != NULL)
        threads = args->capacity > 0 ? (unsigned)(args->capacity < 64 ? args->capacity : 64)
                                     : PROGRAM_THREADS;
    for (; work->thread_count < threads; work->thread_count++) {
        if (pthread_create(&work->threads[work->thread_count], NULL, serve, work) != 0) {
            fprintf(stderr, "waybill: no thread\n");
            return false;
        }
    }
    return true;
}

void work_fini(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->stopping = true;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
    for (unsigned i = 0; i < work->thread_count; i++)
        pthread_join(work->threads[i], NULL);
    for (struct job *job = work->first, *next; job != NULL; job = next) {
        next = job->next;
        wb_task_drop(job->task);
        free(job);
    }
    pthread_cond_destroy(&work->changed);
    pthread_mutex_destroy(&work->lock);
    if (work->journal >= 0)
        close(work->journal);
}
