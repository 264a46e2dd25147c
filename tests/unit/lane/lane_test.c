/* A lane against real servers, started and killed here: what it promises on one connection and over
 * the loss of it. */
#include "lane/lane.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "lane/header.h"
#include "support/free_port.h"

#define WITHIN_MS 10000

/* --- vocabulary: a server, a lane, and what it has told --- */

struct server {
    pid_t pid;
    int port;
};

struct told {
    unsigned ups, downs, denials, drained, messages, flushes, failed_flushes;
    bool denied_publish;
    wb_status why;
    char subject[64], text[256], last[64];
    int last_status;
};

static struct loop *loop;
static struct lane *lane;
static struct told told;
static struct server server;
static char dir[] = "/tmp/lane-test-XXXXXX";
static char url[300];

static void start_server(struct server *s, const char *config)
{
    char path[64], port[8];

    if (!s->port)
        s->port = free_port();
    snprintf(path, sizeof(path), "%s/%d.conf", dir, s->port);
    snprintf(port, sizeof(port), "%d", s->port);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%s\n", config ? config : "max_payload: 1048576");
    fclose(file);
    s->pid = fork();
    if (s->pid == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, 2);
        dup2(null, 1);
        execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, "-c", path,
               (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(s->pid, 0);
}

/* Until it accepts connections; most tests need no such wait, since a lane waits by itself. */
static void await_server(const struct server *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    mono end = mono_add_ms(clock_mono(), WITHIN_MS);
    bool listens = false;

    while (!listens && mono_before(clock_mono(), end)) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        listens = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
        close(fd);
        loop_turn(loop, 5);
    }
    ck_assert(listens);
}

static void kill_server(struct server *s)
{
    if (s->pid <= 0)
        return;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static void on_up(void *arg, struct lane *l, unsigned reconnects)
{
    (void)arg, (void)l;
    ck_assert_uint_eq(reconnects, told.ups);
    told.ups++;
}

static void on_down(void *arg, struct lane *l, wb_status why, const char *text)
{
    (void)arg, (void)l;
    told.downs++;
    told.why = why;
    snprintf(told.text, sizeof(told.text), "%s", text);
}

static void on_denied(void *arg, struct lane *l, bool publish, struct span subject,
                      const char *text)
{
    (void)arg, (void)l, (void)text;
    told.denials++;
    told.denied_publish = publish;
    snprintf(told.subject, sizeof(told.subject), "%.*s", (int)subject.len, subject.ptr);
}

static void on_drained(void *arg, struct lane *l)
{
    (void)arg, (void)l;
    told.drained++;
}

static const struct lane_events events = {on_up, on_down, on_denied, on_drained};

static void on_message(void *arg, const struct lane_message *m)
{
    (void)arg;
    told.messages++;
    told.last_status = header_status(m->headers);
    snprintf(told.last, sizeof(told.last), "%.*s", (int)m->payload.len, m->payload.ptr);
}

static void on_flush(void *arg, bool ok)
{
    (void)arg;
    if (ok)
        told.flushes++;
    else
        told.failed_flushes++;
}

static bool until(const volatile unsigned *value, unsigned at_least)
{
    mono end = mono_add_ms(clock_mono(), WITHIN_MS);

    while (*value < at_least && mono_before(clock_mono(), end))
        loop_turn(loop, 20);
    return *value >= at_least;
}

static bool until_state(enum lane_state state)
{
    mono end = mono_add_ms(clock_mono(), WITHIN_MS);

    while (lane_state(lane) != state && mono_before(clock_mono(), end))
        loop_turn(loop, 20);
    return lane_state(lane) == state;
}

/* The lane's last error contains `text` within the time. */
static bool until_error(const char *text)
{
    mono end = mono_add_ms(clock_mono(), WITHIN_MS);

    while (!strstr(lane_last_error(lane), text) && mono_before(clock_mono(), end))
        loop_turn(loop, 20);
    return strstr(lane_last_error(lane), text) != NULL;
}

static void open_lane(struct lane_options options)
{
    if (!options.servers) {
        snprintf(url, sizeof(url), "nats://127.0.0.1:%d", server.port);
        options.servers = url;
    }
    options.seed = 1;
    if (!options.reconnect_min_ms)
        options.reconnect_min_ms = 10;
    if (!options.reconnect_max_ms)
        options.reconnect_max_ms = 100;
    lane = lane_create(loop, &options, &events, NULL);
    ck_assert_ptr_nonnull(lane);
    lane_start(lane);
}

static wb_status say(const char *subject, const char *reply, const char *payload)
{
    return lane_publish(lane, span_str(subject), span_str(reply), SPAN_EMPTY, span_str(payload));
}

static void set_up(void)
{
    memset(&told, 0, sizeof(told));
    memset(&server, 0, sizeof(server));
    snprintf(dir, sizeof(dir), "/tmp/lane-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    loop = loop_create();
    ck_assert_ptr_nonnull(loop);
}

static void tear_down(void)
{
    char command[128];

    lane_destroy(lane);
    lane = NULL;
    loop_destroy(loop);
    kill_server(&server);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* --- one connection --- */

START_TEST(round_trip)
{
    uint64_t sid;
    char big[300000];

    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "test"});
    ck_assert(say("a", "", "x") == WB_CLOSED);
    sid = lane_subscribe(lane, SPAN_LIT("greet.*"), SPAN_EMPTY, on_message, NULL);
    ck_assert_uint_ne(sid, 0);
    ck_assert(until(&told.ups, 1));
    ck_assert(say("greet.me", "", "hello") == WB_OK);
    ck_assert(until(&told.messages, 1));
    ck_assert_str_eq(told.last, "hello");
    ck_assert(lane_publish(lane, SPAN_LIT("greet.you"), SPAN_LIT("r"),
                           SPAN_LIT("NATS/1.0 200\r\nA: b\r\n\r\n"), SPAN_LIT("h")) == WB_OK);
    ck_assert(until(&told.messages, 2));
    ck_assert_int_eq(told.last_status, 200);
    memset(big, 'b', sizeof(big));
    for (int i = 0; i < 100; i++)
        ck_assert(lane_publish(lane, SPAN_LIT("greet.big"), SPAN_EMPTY, SPAN_EMPTY,
                               span_of(big, sizeof(big))) == WB_OK);
    ck_assert(until(&told.messages, 102));
    ck_assert_uint_eq(lane_output_len(lane), 0);
    ck_assert_uint_eq(lane_counts(lane)->in_bytes, 5 + 22 + 1 + 100 * sizeof(big));
    /* Unsubscribing is confirmed, after which nothing comes. */
    lane_unsubscribe(lane, sid);
    ck_assert(say("greet.me", "", "late") == WB_OK);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    ck_assert(until(&told.flushes, 1));
    ck_assert_uint_eq(told.messages, 102);
}
END_TEST

START_TEST(refusals_of_publish)
{
    char *big;

    start_server(&server, "max_payload: 1000");
    open_lane((struct lane_options){.name = "test"});
    ck_assert(until(&told.ups, 1));
    ck_assert_uint_eq(lane_max_payload(lane), 1000);
    ck_assert(say("", "", "x") == WB_INVALID);
    ck_assert(say("a b", "", "x") == WB_INVALID);
    ck_assert(say("aaaaaaaaaaaaaaaaaaaa\r\nPUB", "", "x") == WB_INVALID);
    ck_assert(say("abcdefg\x7f", "", "x") == WB_INVALID);
    ck_assert(say("a", "b\tc", "x") == WB_INVALID);
    ck_assert(say("caf\xc3\xa9.abcdefgh", "", "x") == WB_OK);
    big = calloc(1, 5000);
    memset(big, 'a', 4999);
    ck_assert(say(big, "", "x") == WB_INVALID);
    ck_assert(say("a", "", big) == WB_TOO_LARGE);
    free(big);
    ck_assert_uint_eq(lane_subscribe(lane, SPAN_LIT("a b"), SPAN_EMPTY, on_message, NULL), 0);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    ck_assert(until(&told.flushes, 1));
    ck_assert_uint_eq(told.downs, 0);
}
END_TEST

START_TEST(no_responders)
{
    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "test"});
    lane_subscribe(lane, SPAN_LIT("my.inbox"), SPAN_EMPTY, on_message, NULL);
    ck_assert(until(&told.ups, 1));
    ck_assert(say("nobody.home", "my.inbox", "x") == WB_OK);
    ck_assert(until(&told.messages, 1));
    ck_assert_int_eq(told.last_status, 503);
}
END_TEST

START_TEST(denied_subjects_leave_the_connection_up)
{
    start_server(&server, "authorization { users = [ {user: u, password: p, permissions: {publish: "
                          "\"ok.>\", subscribe: \"ok.>\"}} ] }");
    open_lane((struct lane_options){.user = "u", .password = "p"});
    ck_assert(until(&told.ups, 1));
    ck_assert(say("secret.x", "", "x") == WB_OK);
    ck_assert(until(&told.denials, 1));
    ck_assert(told.denied_publish);
    ck_assert_str_eq(told.subject, "secret.x");
    lane_subscribe(lane, SPAN_LIT("secret.y"), SPAN_LIT("q"), on_message, NULL);
    ck_assert(until(&told.denials, 2));
    ck_assert(!told.denied_publish);
    ck_assert_str_eq(told.subject, "secret.y");
    ck_assert_uint_eq(told.downs, 0);
}
END_TEST

/* A frozen server: the socket fills, then the buffer up to its mark; control lines still fit; it
 * thaws and all is well. */
START_TEST(full_buffer_and_drained)
{
    char payload[10000];
    wb_status status = WB_OK;
    int sent = 0;

    memset(payload, 'x', sizeof(payload));
    start_server(&server, NULL);
    open_lane((struct lane_options){.output_max = 1 << 20});
    ck_assert(until(&told.ups, 1));
    kill(server.pid, SIGSTOP);
    for (int i = 0; i < 100000 && status == WB_OK; i++) {
        status = lane_publish(lane, SPAN_LIT("x"), SPAN_EMPTY, SPAN_EMPTY,
                              span_of(payload, sizeof(payload)));
        sent += status == WB_OK;
        if (i % 50 == 0)
            loop_turn(loop, 0);
    }
    ck_assert(status == WB_FULL);
    ck_assert_uint_le(lane_output_len(lane), 1 << 20);
    ck_assert_uint_ne(lane_subscribe(lane, SPAN_LIT("y"), SPAN_EMPTY, on_message, NULL), 0);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    kill(server.pid, SIGCONT);
    ck_assert(until(&told.drained, 1));
    ck_assert(until(&told.flushes, 1));
    ck_assert(say("y", "", "thawed") == WB_OK);
    ck_assert(until(&told.messages, 1));
    ck_assert_uint_eq(told.downs, 0);
    ck_assert_uint_eq(lane_counts(lane)->out_msgs, (unsigned)sent + 1);
}
END_TEST

START_TEST(frozen_server_is_dead_after_two_pings)
{
    start_server(&server, NULL);
    open_lane((struct lane_options){.ping_interval_ms = 50});
    ck_assert(until(&told.ups, 1));
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    ck_assert(until(&told.flushes, 1));
    kill(server.pid, SIGSTOP);
    ck_assert(until(&told.downs, 1));
    ck_assert_int_eq(told.why, WB_TIMED_OUT);
    kill(server.pid, SIGCONT);
    ck_assert(until(&told.ups, 2));
}
END_TEST

/* --- loss and return --- */

START_TEST(restart_keeps_subscriptions_and_sends_nothing_late)
{
    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "test"});
    lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, on_message, NULL);
    lane_subscribe(lane, SPAN_LIT("q"), SPAN_LIT("group"), on_message, NULL);
    ck_assert(until(&told.ups, 1));
    kill(server.pid, SIGSTOP);
    ck_assert(say("s", "", "into the void") == WB_OK);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    kill_server(&server);
    ck_assert(until(&told.downs, 1));
    ck_assert_uint_eq(told.failed_flushes, 1);
    ck_assert_uint_eq(lane_output_len(lane), 0);
    ck_assert(say("s", "", "while down") == WB_CLOSED);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_CLOSED);
    lane_subscribe(lane, SPAN_LIT("new"), SPAN_EMPTY, on_message, NULL);
    start_server(&server, NULL);
    ck_assert(until(&told.ups, 2));
    ck_assert(say("q", "", "one") == WB_OK);
    ck_assert(say("new", "", "two") == WB_OK);
    ck_assert(say("s", "", "three") == WB_OK);
    ck_assert(until(&told.messages, 3));
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    ck_assert(until(&told.flushes, 1));
    ck_assert_uint_eq(told.messages, 3);
    ck_assert_str_eq(told.last, "three");
}
END_TEST

START_TEST(goes_to_another_server_at_once)
{
    struct server second = {0};
    struct server *present;
    char servers[128];

    start_server(&server, NULL);
    start_server(&second, NULL);
    await_server(&server);
    await_server(&second);
    snprintf(servers, sizeof(servers), "127.0.0.1:%d,127.0.0.1:%d", server.port, second.port);
    open_lane((struct lane_options){.servers = servers,
                                    .reconnect_min_ms = 60000, /* a pause would be seen */
                                    .reconnect_max_ms = 60000});
    ck_assert(until(&told.ups, 1));
    present = atoi(strrchr(lane_server(lane), ':') + 1) == server.port ? &server : &second;
    kill_server(present);
    ck_assert(until(&told.ups, 2));
    ck_assert_int_eq(atoi(strrchr(lane_server(lane), ':') + 1),
                     present == &server ? second.port : server.port);
    kill_server(&second);
}
END_TEST

/* In lame-duck mode a server tells its clients to leave; the flush asked for just before is still
 * answered. */
START_TEST(leaves_a_lame_duck)
{
    struct server second = {0};
    char servers[128];

    start_server(&server, "lame_duck_duration: 30s, lame_duck_grace_period: 10s");
    start_server(&second, NULL);
    await_server(&server);
    await_server(&second);
    snprintf(servers, sizeof(servers), "127.0.0.1:%d,127.0.0.1:%d", server.port, second.port);
    open_lane((struct lane_options){.servers = servers});
    lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, on_message, NULL);
    ck_assert(until(&told.ups, 1));
    kill(atoi(strrchr(lane_server(lane), ':') + 1) == server.port ? server.pid : second.pid,
         SIGUSR2);
    ck_assert(until(&told.ups, 2));
    ck_assert_uint_eq(told.downs, 1);
    ck_assert_ptr_nonnull(strstr(told.text, "lame duck"));
    ck_assert(say("s", "", "there") == WB_OK);
    ck_assert(until(&told.messages, 1));
    kill_server(&second);
}
END_TEST

/* --- who we are --- */

#define USERS "authorization {user: u, password: right}"

START_TEST(wrong_password_is_retried_for_ever)
{
    start_server(&server, USERS);
    open_lane((struct lane_options){.user = "u", .password = "wrong"});
    ck_assert(until_error("Authorization Violation"));
    mono end = mono_add_ms(clock_mono(), WITHIN_MS);
    while (lane_counts(lane)->errors < 4 && mono_before(clock_mono(), end))
        loop_turn(loop, 20);
    ck_assert_uint_ge(lane_counts(lane)->errors, 4);
    ck_assert_uint_eq(told.ups + told.downs, 0);
    /* The server learns our password, and the lane comes up by itself. */
    kill_server(&server);
    start_server(&server, "authorization {user: u, password: wrong}");
    ck_assert(until(&told.ups, 1));
}
END_TEST

START_TEST(right_password_in_options_or_url)
{
    char with_secret[128];

    start_server(&server, USERS);
    open_lane((struct lane_options){.user = "u", .password = "right"});
    ck_assert(until(&told.ups, 1));
    lane_destroy(lane);
    memset(&told, 0, sizeof(told));
    snprintf(with_secret, sizeof(with_secret), "nats://u:r%%69ght@127.0.0.1:%d", server.port);
    open_lane((struct lane_options){.servers = with_secret});
    ck_assert(until(&told.ups, 1));
    ck_assert_ptr_null(strstr(lane_server(lane), "right"));
}
END_TEST

#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define PUBLIC "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(nkey_file_is_read_anew)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/user.nk", dir);
    start_server(&server, "authorization { users = [ {nkey: " PUBLIC "} ] }");
    open_lane((struct lane_options){.nkey_file = path});
    ck_assert(until_error("No such file"));
    write_file(path, SEED "\n");
    ck_assert(until(&told.ups, 1));
    lane_destroy(lane);
    memset(&told, 0, sizeof(told));
    open_lane((struct lane_options){.nkey_seed = SEED});
    ck_assert(until(&told.ups, 1));
}
END_TEST

/* --- TLS --- */

static void run(const char *format, ...)
{
    char command[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void make_certificates(const char *names)
{
    run("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
        "ca.key "
        "-out ca.pem -days 2 -subj /CN=ca 2>/dev/null && openssl req -newkey ec -pkeyopt "
        "ec_paramgen_curve:P-256 -nodes -keyout key.pem -out s.csr -subj /CN=server 2>/dev/null && "
        "printf 'subjectAltName=%s' > ext && openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key "
        "-CAcreateserial -days 2 -extfile ext -out cert.pem 2>/dev/null",
        dir, names);
}

static void start_tls_server(const char *more)
{
    char config[512];

    snprintf(config, sizeof(config),
             "tls { cert_file: \"%s/cert.pem\", key_file: \"%s/key.pem\" %s }", dir, dir, more);
    start_server(&server, config);
}

START_TEST(tls_round_trip)
{
    char ca[64], cert[64], key[64], more[128], *big = calloc(1, 900000);

    make_certificates("IP:127.0.0.1,DNS:localhost");
    snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
    snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    snprintf(more, sizeof(more), ", verify: true, ca_file: \"%s\"", ca);
    start_tls_server(more);
    open_lane((struct lane_options){.tls_ca = ca, .tls_cert = cert, .tls_key = key});
    lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, on_message, NULL);
    ck_assert(until(&told.ups, 1));
    ck_assert(say("s", "", "sealed") == WB_OK);
    ck_assert(until(&told.messages, 1));
    ck_assert_str_eq(told.last, "sealed");
    for (int i = 0; i < 40; i++)
        ck_assert(lane_publish(lane, SPAN_LIT("s"), SPAN_EMPTY, SPAN_EMPTY, span_of(big, 900000)) ==
                  WB_OK);
    ck_assert(until(&told.messages, 41));
    free(big);
    kill_server(&server);
    ck_assert(until(&told.downs, 1));
    start_tls_server(more);
    ck_assert(until(&told.ups, 2));
    lane_close(lane, 2000);
    ck_assert(until_state(LANE_CLOSED));
}
END_TEST

START_TEST(tls_by_host_name)
{
    char ca[64], name[64];

    make_certificates("DNS:localhost");
    snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
    start_tls_server("");
    snprintf(name, sizeof(name), "tls://localhost:%d", server.port);
    open_lane((struct lane_options){.servers = name, .tls_ca = ca});
    ck_assert(until(&told.ups, 1));
}
END_TEST

START_TEST(tls_of_the_wrong_host_is_refused)
{
    char ca[64];

    make_certificates("DNS:elsewhere.example");
    snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
    start_tls_server("");
    open_lane((struct lane_options){.tls_ca = ca});
    ck_assert(until_error("certificate refused"));
    lane_destroy(lane);
    open_lane((struct lane_options){.tls_required = true}); /* not signed by the system's store */
    ck_assert(until_error("certificate refused"));
    ck_assert_uint_eq(told.ups, 0);
    lane_destroy(lane);
    open_lane((struct lane_options){.tls_required = true, .tls_insecure = true});
    ck_assert(until(&told.ups, 1));
}
END_TEST

START_TEST(clear_is_refused_when_tls_was_asked)
{
    char tls_url[64];

    start_server(&server, NULL);
    open_lane((struct lane_options){.tls_required = true});
    ck_assert(until_error("offers none"));
    lane_destroy(lane);
    snprintf(tls_url, sizeof(tls_url), "tls://127.0.0.1:%d", server.port);
    open_lane((struct lane_options){.servers = tls_url});
    ck_assert(until_error("offers none"));
    lane_destroy(lane);
    open_lane((struct lane_options){.tls_first = true, .tls_insecure = true});
    ck_assert(until_error("TLS"));
    ck_assert_uint_eq(told.ups, 0);
}
END_TEST

/* --- ends, and calls from inside calls --- */

START_TEST(close_sends_what_is_buffered)
{
    struct lane *receiver;
    struct lane_events none = {0};

    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "receiver"});
    lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, on_message, NULL);
    ck_assert(until(&told.ups, 1));
    receiver = lane;
    lane = lane_create(loop, &(struct lane_options){.servers = url}, &none, NULL);
    lane_start(lane);
    ck_assert(until_state(LANE_UP));
    for (int i = 0; i < 1000; i++)
        ck_assert(say("s", "", "last words") == WB_OK);
    lane_close(lane, 5000);
    ck_assert(say("s", "", "too late") == WB_CLOSED);
    ck_assert(until_state(LANE_CLOSED));
    ck_assert(until(&told.messages, 1000));
    lane_close(lane, 0);
    lane_destroy(lane);
    lane = receiver;
    lane_close(lane, 0);
    ck_assert_int_eq(lane_state(lane), LANE_CLOSED);
    ck_assert_uint_eq(told.downs, 0);
}
END_TEST

static void destroy_inside(void *arg, const struct lane_message *m)
{
    (void)arg;
    ck_assert(lane_publish(lane, SPAN_LIT("s"), SPAN_EMPTY, SPAN_EMPTY, m->payload) == WB_OK);
    ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
    lane_unsubscribe(lane, m->sid);
    lane_subscribe(lane, SPAN_LIT("other"), SPAN_EMPTY, on_message, NULL);
    lane_destroy(lane);
    lane = NULL;
    ck_assert(span_eq_str(m->payload, "die")); /* still readable */
    told.messages++;
}

START_TEST(destroy_from_inside_a_message)
{
    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "test"});
    lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, destroy_inside, NULL);
    ck_assert(until(&told.ups, 1));
    for (int i = 0; i < 10; i++)
        ck_assert(say("s", "", "die") == WB_OK);
    ck_assert(until(&told.messages, 1));
    ck_assert_uint_eq(told.messages, 1);
    ck_assert_uint_eq(told.failed_flushes, 1);
}
END_TEST

static void unsubscribe_inside(void *arg, const struct lane_message *m)
{
    (void)arg;
    told.messages++;
    lane_unsubscribe(lane, m->sid);
}

START_TEST(sids_are_used_again_only_when_safe)
{
    uint64_t first, second, third;

    start_server(&server, NULL);
    open_lane((struct lane_options){.name = "test"});
    first = lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, unsubscribe_inside, NULL);
    ck_assert(until(&told.ups, 1));
    ck_assert(say("s", "", "1") == WB_OK);
    ck_assert(until(&told.messages, 1));
    second = lane_subscribe(lane, SPAN_LIT("t"), SPAN_EMPTY, on_message, NULL);
    ck_assert_uint_ne(second, first);
    for (int i = 0; i < 2; i++) { /* the second flush is after the PING of the unsubscribe */
        ck_assert(lane_flush(lane, on_flush, NULL) == WB_OK);
        ck_assert(until(&told.flushes, (unsigned)i + 1));
    }
    third = lane_subscribe(lane, SPAN_LIT("u"), SPAN_EMPTY, on_message, NULL);
    ck_assert_uint_eq(third, first);
    lane_unsubscribe(lane, third);
    lane_unsubscribe(lane, third);
    lane_unsubscribe(lane, 99999);
}
END_TEST

START_TEST(half_built_and_never_started)
{
    struct lane_options bad = {.servers = "http://h"};

    ck_assert_ptr_null(lane_create(loop, &bad, &events, NULL));
    lane_destroy(NULL);
    lane = lane_create(loop, &(struct lane_options){.servers = "h"}, &events, NULL);
    ck_assert_ptr_nonnull(lane);
    ck_assert_uint_ne(lane_subscribe(lane, SPAN_LIT("s"), SPAN_EMPTY, on_message, NULL), 0);
}
END_TEST

static void add_all(TCase *tests)
{
    const TTest *const all[] = {
        round_trip,
        refusals_of_publish,
        no_responders,
        denied_subjects_leave_the_connection_up,
        full_buffer_and_drained,
        frozen_server_is_dead_after_two_pings,
        restart_keeps_subscriptions_and_sends_nothing_late,
        goes_to_another_server_at_once,
        leaves_a_lame_duck,
        wrong_password_is_retried_for_ever,
        right_password_in_options_or_url,
        nkey_file_is_read_anew,
        tls_round_trip,
        tls_by_host_name,
        tls_of_the_wrong_host_is_refused,
        clear_is_refused_when_tls_was_asked,
        close_sends_what_is_buffered,
        destroy_from_inside_a_message,
        sids_are_used_again_only_when_safe,
        half_built_and_never_started,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tcase_add_test(tests, all[i]);
}

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *tests = tcase_create("lane");
    SRunner *runner = srunner_create(suite);
    int failed;

    log_set_level(LOG_OFF);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    add_all(tests);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
