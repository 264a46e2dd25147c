/* A worker's program: one process per request. Its stdin and stdout are pipes that are served
 * together, so neither side can wait for the other for ever; a cancelled task's program gets
 * SIGTERM, then SIGKILL. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/work.h"

extern char **environ;

#define LOOK_MS 100 /* how often a cancel is looked for */
#define TERM_LOOKS 20
#define VARIABLES 5

struct program {
    pid_t pid;
    int in, out; /* our ends; -1: closed */
    const char *data;
    size_t left;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static char **environment(wb_task *task, char texts[VARIABLES][WB_SUBJECT_MAX + 64])
{
    size_t n = 0;
    while (environ[n] != NULL)
        n++;
    char **all = calloc(n + VARIABLES + 1, sizeof(*all));
    if (all == NULL)
        return NULL;
    size_t size = sizeof(texts[0]);
    snprintf(texts[0], size, "WAYBILL_REQUEST_ID=%s", wb_task_request_id(task));
    snprintf(texts[1], size, "WAYBILL_ATTEMPT=%lld", (long long)wb_task_attempt(task));
    snprintf(texts[2], size, "WAYBILL_SUBJECT=%s", wb_task_subject(task));
    snprintf(texts[3], size, "WAYBILL_RESUME_FROM=%lld", (long long)wb_task_resume_from(task));
    snprintf(texts[4], size, "WAYBILL_RANK=%lld", (long long)wb_task_rank(task));
    size_t used = 0;
    for (; used < VARIABLES; used++)
        all[used] = texts[used];
    memcpy(all + used, environ, n * sizeof(*all));
    return all;
}

static bool spawn(const char *command, wb_task *task, struct program *p)
{
    int in[2], out[2];
    char texts[VARIABLES][WB_SUBJECT_MAX + 64];
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, strdup(command), NULL};
    char **env = environment(task, texts);
    if (pipe2(in, O_CLOEXEC) != 0) {
        free(argv[2]);
        free(env);
        return false;
    }
    bool fine = pipe2(out, O_CLOEXEC) == 0;
    if (fine) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        fine = argv[2] != NULL && env != NULL &&
               posix_spawn(&p->pid, "/bin/sh", &actions, NULL, argv, env) == 0;
        posix_spawn_file_actions_destroy(&actions);
        close(out[1]);
        if (!fine)
            close(out[0]);
    }
    close(in[0]);
    if (!fine)
        close(in[1]);
    free(argv[2]);
    free(env);
    p->in = in[1];
    p->out = out[0];
    return fine;
}

static void feed(struct program *p)
{
    ssize_t n = p->left > 0 ? write(p->in, p->data, p->left) : 0;
    if (n > 0) {
        p->data += n;
        p->left -= (size_t)n;
    }
    if (p->left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_end(&p->in); /* EPIPE: it did not want it all */
}

/* False: too much output. */
static bool drink(struct program *p, struct buf *out)
{
    char *room = buf_reserve(out, 4096);
    if (room == NULL)
        return false;
    ssize_t n = read(p->out, room, 4096);
    if (n > 0)
        buf_grew(out, (size_t)n);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_end(&p->out);
    return true;
}

int program_run(const char *command, wb_task *task, struct buf *out)
{
    struct program p = {.pid = -1, .in = -1, .out = -1};
    p.data = wb_task_data(task, &p.left);
    if (!spawn(command, task, &p))
        return -1;
    fcntl(p.in, F_SETFL, O_NONBLOCK);
    fcntl(p.out, F_SETFL, O_NONBLOCK);
    unsigned looks = 0;
    bool fits = true;
    while (p.out >= 0 && fits) {
        struct pollfd fds[] = {{p.out, POLLIN, 0},
                               {p.in, POLLOUT, 0}}; /* poll skips a descriptor of -1 */
        if (poll(fds, 2, LOOK_MS) < 0 && errno != EINTR)
            break;
        if (wb_task_cancelled(task))
            kill(p.pid, ++looks > TERM_LOOKS ? SIGKILL : SIGTERM);
        if (fds[1].revents != 0)
            feed(&p);
        if (fds[0].revents != 0)
            fits = drink(&p, out);
    }
    close_end(&p.in);
    close_end(&p.out);
    if (!fits)
        kill(p.pid, SIGKILL);
    int status;
    while (waitpid(p.pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (!fits)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
