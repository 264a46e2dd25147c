#include "cli/bench_fabric.h"

#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/bench_load.h"
#include "cli/bench_wire.h"

#define READY_MS 10000
#define POLL_MS 5
#define ENDING_MS 5000

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* Below the range that the kernel takes the ports of outgoing connections from. -1: none. */
static int free_port(void)
{
    for (int tries = 0; tries < 100; tries++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        uint16_t random;
        rng_secure(&random, sizeof(random));
        int port = 20000 + random % 12000, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        at.sin_port = htons((uint16_t)port);
        bool good = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
        if (fd >= 0)
            close(fd);
        if (good)
            return port;
    }
    return -1;
}

/* A child that dies with us; its output goes to DIR/NAME.log. argv NULL: returns 0 in the child. */
static pid_t start(const struct fabric *f, const char *name, char *const argv[])
{
    char path[128];
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid > 0 ? pid : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGPIPE, SIG_DFL);
    if (argv == NULL)
        return 0;
    snprintf(path, sizeof(path), "%s/%s.log", f->dir, name);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "%s: cannot be run\n", argv[0]);
    _exit(127);
}

/* Asks once: the reply's payload as text, false: none. */
static bool ask(int port, const char *subject, char *out, size_t size)
{
    struct wire w;
    struct wire_message m;
    bool fine = wire_open(&w, port, "bench") &&
                wire_print(&w, "SUB _INBOX.a%d 1\r\nPUB %s _INBOX.a%d 2\r\n{}\r\n", (int)getpid(),
                           subject, (int)getpid()) &&
                wire_flush(&w);
    int got = 0;
    while (fine && got == 0 && wire_read(&w, 1000) == 1)
        got = wire_next(&w, &m);
    fine = fine && got == 1 && m.payload.len < size;
    if (fine) {
        memcpy(out, m.payload.ptr, m.payload.len);
        out[m.payload.len] = '\0';
    }
    wire_close(&w);
    return fine;
}

static bool accepts(int port)
{
    struct wire w;
    bool fine = wire_open(&w, port, "bench");
    wire_close(&w);
    return fine;
}

/* Does a request come back through this way? */
static bool echoes(int port, const char *subject)
{
    const struct load one = {.subject = subject, .window = 1, .run_ms = 0};
    struct load_result r;
    return load_run(&one, port, &r) && r.replies == 1;
}

static bool workers_known(int port, const char *prefix)
{
    char subject[96], text[8192];
    snprintf(subject, sizeof(subject), "%s.admin.show.workers", prefix);
    if (!ask(port, subject, text, sizeof(text)))
        return false;
    cJSON *root = cJSON_Parse(text);
    const cJSON *service =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "services"), 0);
    const cJSON *routable = cJSON_GetObjectItemCaseSensitive(service, "routable");
    bool both = cJSON_IsNumber(routable) && routable->valueint == 2;
    cJSON_Delete(root);
    return both;
}

static bool is_running(pid_t pid)
{
    return pid > 0 && waitpid(pid, NULL, WNOHANG) == 0;
}

static bool show_log(const struct fabric *f, const char *name)
{
    char path[128], line[512];
    snprintf(path, sizeof(path), "%s/%s.log", f->dir, name);
    fprintf(stderr, "waybill: bench: %s is not ready\n", name);
    FILE *log = fopen(path, "r");
    for (int i = 0; log != NULL && i < 20 && fgets(line, sizeof(line), log) != NULL; i++)
        fputs(line, stderr);
    if (log != NULL)
        fclose(log);
    return false;
}

struct kind {
    const char *id, *prefix, *subject;
    const char *write; /* of records */
    const char *more;  /* of the service */
};
static const struct kind kind_off = {"router-off", BENCH_PREFIX_OFF, BENCH_OFF, "off", ""};
static const struct kind kind_on = {"router-recorded", BENCH_PREFIX_ON, BENCH_ON, "async", ""};
static const struct kind kind_sessions = {"router-sessions", BENCH_PREFIX_SESSIONS, BENCH_BOUND,
                                          "off", ",\"session\":{\"ttl_s\":3600}"};

static pid_t start_router(const struct fabric *f, const char *program, const struct kind *kind)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s.json", f->dir, kind->id);
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return -1;
    fprintf(
        out,
        "{\"router\":{\"id\":\"%s\",\"prefix\":\"%s\",\"start_wait_ms\":100},\n"
        " \"nats\":{\"url\":\"nats://127.0.0.1:%d\"},\n"
        " \"attribution\":{\"bucket\":\"waybill_attribution\",\"write\":\"%s\",\"ttl_s\":3600},\n"
        " \"services\":[{\"name\":\"bench\",\"subjects\":[\"%s\"],\"policy\":\"least_loaded\","
        "\"replies\":\"one\"%s}]}\n",
        kind->id, kind->prefix, f->port, kind->write, kind->subject, kind->more);
    fclose(out);
    char *argv[] = {(char *)(uintptr_t)program, (char[]){"-c"}, path, NULL};
    return start(f, kind->id, argv);
}

static pid_t start_peer(const struct fabric *f, const char *command)
{
    char url[64], run[PATH_MAX];
    snprintf(url, sizeof(url), "nats://127.0.0.1:%d", f->port);
    snprintf(run, sizeof(run), "exec %s", command);
    setenv("NATS_URL", url, 1);
    setenv("REQUEST_SUBJECT", BENCH_PEER, 1);
    setenv("WORKER_SUBJECTS", BENCH_PEER_WORKER "1," BENCH_PEER_WORKER "2", 1);
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, run, NULL};
    pid_t pid = start(f, "peer", argv);
    unsetenv("NATS_URL");
    return pid;
}

static bool start_server(struct fabric *f, const char *program)
{
    char port[16], store[96];
    snprintf(f->dir, sizeof(f->dir), "/tmp/waybill-bench.XXXXXX");
    if (mkdtemp(f->dir) == NULL) {
        fprintf(stderr, "waybill: bench: no temporary directory\n");
        return false;
    }
    f->port = free_port();
    snprintf(port, sizeof(port), "%d", f->port);
    snprintf(store, sizeof(store), "%s/js", f->dir);
    char *argv[] = {(char *)(uintptr_t)program,
                    (char[]){"-js"},
                    (char[]){"-sd"},
                    store,
                    (char[]){"-a"},
                    (char[]){"127.0.0.1"},
                    (char[]){"-p"},
                    port,
                    NULL};
    f->server = start(f, "nats-server", argv);
    int64_t until = now_ms() + READY_MS;
    while (!accepts(f->port)) {
        if (!is_running(f->server) || now_ms() > until)
            return show_log(f, "nats-server");
        pause_ms(POLL_MS);
    }
    return true;
}

static bool find_router(const struct fabric_options *o, char path[PATH_MAX])
{
    if (o->router != NULL)
        return snprintf(path, PATH_MAX, "%s", o->router) < PATH_MAX;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 16);
    if (n <= 0)
        return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    memcpy(slash, "/waybilld", sizeof("/waybilld"));
    return true;
}

/* Each session is claimed in the bucket and bound by its first answer. */
static bool bind_sessions(const struct fabric *f)
{
    const struct load each = {.subject = BENCH_BOUND,
                              .headers = true,
                              .sessions = BENCH_SESSIONS,
                              .window = 64,
                              .least = BENCH_SESSIONS};
    struct load_result r;
    if (load_run(&each, f->port, &r) && r.replies >= BENCH_SESSIONS &&
        r.errors + r.wrong + r.missing == 0)
        return true;
    fprintf(stderr, "waybill: bench: sessions were not bound: %s\n", r.first_error);
    return false;
}

static bool await_way(const struct fabric *f, const char *name, pid_t pid, const char *subject,
                      const char *prefix)
{
    int64_t until = now_ms() + READY_MS;
    while (!((prefix == NULL || workers_known(f->port, prefix)) && echoes(f->port, subject))) {
        if (!is_running(pid) || now_ms() > until)
            return show_log(f, name);
        pause_ms(POLL_MS);
    }
    return true;
}

static bool await_router(const struct fabric *f, pid_t pid, const struct kind *kind)
{
    return await_way(f, kind->id, pid, kind->subject, kind->prefix);
}

bool fabric_open(struct fabric *f, const struct fabric_options *o)
{
    char program[PATH_MAX];
    *f = (struct fabric){.port = -1};
    if (!find_router(o, program) || !start_server(f, o->nats_server))
        return false;
    for (int i = 0; i < 2; i++) {
        f->workers[i] = start(f, "worker", NULL);
        if (f->workers[i] == 0) {
            load_serve(f->port, i + 1);
            _exit(0);
        }
    }
    f->router_off = start_router(f, program, &kind_off);
    f->router_on = start_router(f, program, &kind_on);
    f->router_sessions = start_router(f, program, &kind_sessions);
    if (o->peer != NULL)
        f->peer = start_peer(f, o->peer);
    return await_way(f, "worker", f->workers[0], BENCH_DIRECT, NULL) &&
           await_router(f, f->router_off, &kind_off) && await_router(f, f->router_on, &kind_on) &&
           await_router(f, f->router_sessions, &kind_sessions) && bind_sessions(f) &&
           (o->peer == NULL || await_way(f, "peer", f->peer, BENCH_PEER, NULL));
}

static pid_t start_candidates_router(const struct fabric *f, const char *program)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/candidates.json", f->dir);
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return -1;
    fprintf(out,
            "{\"router\":{\"id\":\"router-candidates\",\"start_wait_ms\":100},\n"
            " \"nats\":{\"url\":\"nats://127.0.0.1:%d\"},\n"
            " \"attribution\":{\"write\":\"off\"},\n"
            " \"services\":[\n",
            f->port);
    for (unsigned i = 0; i < FABRIC_CANDIDATES; i++) {
        fprintf(out, "  {\"name\":\"bench%u\",\"subjects\":[\"" FABRIC_CANDIDATE_REQUESTS "%u\"]",
                i, i);
        if (i > 0)
            fprintf(out,
                    ",\"workers\":[{\"id\":\"w\",\"subject\":\"" FABRIC_CANDIDATE_SUBJECT "%u\"}]",
                    i);
        fprintf(out, "}%s\n", i + 1 < FABRIC_CANDIDATES ? "," : "]}");
    }
    fclose(out);
    char *argv[] = {(char *)(uintptr_t)program, (char[]){"-c"}, path, NULL};
    return start(f, "router-candidates", argv);
}

static void end(pid_t *pid, int signum)
{
    if (*pid <= 0)
        return;
    kill(*pid, signum);
    int64_t until = now_ms() + ENDING_MS;
    while (is_running(*pid)) {
        if (now_ms() > until)
            kill(*pid, SIGKILL);
        pause_ms(POLL_MS);
    }
    *pid = 0;
}

bool fabric_open_candidates(struct fabric *f, const struct fabric_options *o)
{
    char program[PATH_MAX];
    *f = (struct fabric){.port = -1};
    if (!find_router(o, program) || !start_server(f, o->nats_server))
        return false;
    f->router_off = start_candidates_router(f, program);
    return true;
}

bool fabric_start_candidates(struct fabric *f, void (*serve)(int port, unsigned number))
{
    char subject[64];
    for (unsigned i = 0; i < FABRIC_CANDIDATES; i++) {
        end(&f->candidates[i], SIGKILL);
        f->candidates[i] = start(f, "worker", NULL);
        if (f->candidates[i] == 0) {
            serve(f->port, i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < FABRIC_CANDIDATES; i++) {
        snprintf(subject, sizeof(subject), FABRIC_CANDIDATE_REQUESTS "%u", i);
        if (!await_way(f, "router-candidates", f->router_off, subject, NULL))
            return false;
    }
    return true;
}

/* Removes a directory of ours, `depth` levels deep at most. */
static void remove_tree(const char *path, int depth)
{
    DIR *dir = depth > 0 ? opendir(path) : NULL;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char inner[PATH_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name) < PATH_MAX &&
            unlink(inner) != 0)
            remove_tree(inner, depth - 1);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

void fabric_close(struct fabric *f)
{
    end(&f->router_off, SIGTERM);
    end(&f->router_on, SIGTERM);
    end(&f->router_sessions, SIGTERM);
    end(&f->peer, SIGTERM);
    end(&f->workers[0], SIGKILL);
    end(&f->workers[1], SIGKILL);
    for (unsigned i = 0; i < FABRIC_CANDIDATES; i++)
        end(&f->candidates[i], SIGKILL);
    end(&f->server, SIGKILL);
    if (f->dir[0] != '\0')
        remove_tree(f->dir, 10);
    f->dir[0] = '\0';
}

static cJSON *stats_of(const struct fabric *f, const char *prefix)
{
    char subject[96], text[16384];
    snprintf(subject, sizeof(subject), "%s.admin.show.stats", prefix);
    return ask(f->port, subject, text, sizeof(text)) ? cJSON_Parse(text) : NULL;
}

static double number_of(const cJSON *stats, const char *part, const char *name)
{
    const cJSON *n =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(stats, part), name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

int64_t fabric_hits(const struct fabric *f)
{
    cJSON *stats = stats_of(f, BENCH_PREFIX_SESSIONS);
    int64_t hits = stats != NULL ? (int64_t)number_of(stats, "sessions", "hits") : -1;
    cJSON_Delete(stats);
    return hits;
}

bool fabric_settle(const struct fabric *f, int64_t timeout_ms)
{
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        cJSON *stats = stats_of(f, BENCH_PREFIX_ON);
        if (stats != NULL) {
            double backlog = number_of(stats, "counts", "attribution_backlog");
            double lost = number_of(stats, "counts", "attribution_dropped") +
                          number_of(stats, "counts", "attribution_failed");
            cJSON_Delete(stats);
            if (backlog == 0 || lost > 0)
                return lost == 0;
        }
        if (now_ms() > until)
            return false;
        pause_ms(POLL_MS);
    }
}

int64_t process_cpu_ns(pid_t pid)
{
    char path[320];
    int64_t sum = 0;
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks != NULL && (e = readdir(tasks)) != NULL;) {
        long long ns = 0;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
        FILE *in = fopen(path, "r");
        if (in == NULL)
            continue;
        if (fscanf(in, "%lld", &ns) == 1)
            sum += ns;
        fclose(in);
    }
    if (tasks != NULL)
        closedir(tasks);
    return sum;
}

int64_t process_rss(pid_t pid)
{
    char path[64];
    long long pages = 0;
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return 0;
    if (fscanf(in, "%*s %lld", &pages) != 1)
        pages = 0;
    fclose(in);
    return pages * sysconf(_SC_PAGESIZE);
}
