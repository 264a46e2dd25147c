/* The server itself, JetStream, and what makes a 503 blind.
 *
 * nats.c does not tell the server's version, so its INFO line is read from a connection of our own:
 * it is the first thing that a server says, before any TLS or credentials. */
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "cli/doctor.h"
#include "wire/json_read.h"
#include "wire/subject.h"

#define INFO_MAX 65536
#define OLDEST_MAJOR 2
#define OLDEST_MINOR 9
#define JS_NOT_ENABLED 10076
#define JS_NOT_ENABLED_FOR_ACCOUNT 10039

/* "nats://user:password@[::1]:4222" to its host and port. */
static bool split_url(const char *url, char host[256], char port[16])
{
    const char *at = strstr(url, "://");
    at = at != NULL ? at + 3 : url;
    const char *user = strrchr(at, '@');
    at = user != NULL ? user + 1 : at;
    const char *colon = strrchr(at, ':'), *end = colon != NULL ? colon : at + strlen(at);
    if (*at == '[') {
        at++;
        end = strchr(at, ']');
    }
    if (colon == NULL || end == NULL || end - at > 255)
        return false;
    snprintf(host, 256, "%.*s", (int)(end - at), at);
    snprintf(port, 16, "%s", colon + 1);
    return true;
}

static int dial(const char *host, const char *port, int timeout_ms)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    struct timeval bound = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return -1;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)); /* connect's bound too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* The server's INFO, NULL: it cannot be had. */
static cJSON *read_info(struct doctor *d)
{
    char url[512], host[256], port[16];
    if (natsConnection_GetConnectedUrl(d->link.nc, url, sizeof(url)) != NATS_OK ||
        !split_url(url, host, port))
        return NULL;
    int fd = dial(host, port, (int)d->args->timeout_ms);
    char *line = fd >= 0 ? calloc(1, INFO_MAX) : NULL;
    size_t used = 0;
    while (line != NULL && used < INFO_MAX - 1 && memchr(line, '\n', used) == NULL) {
        ssize_t n = recv(fd, line + used, INFO_MAX - 1 - used, 0);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    cJSON *info = NULL;
    if (line != NULL && strncmp(line, "INFO ", 5) == 0 && strchr(line, '\r') != NULL)
        info = json_read(span_of(line + 5, strcspn(line, "\r") - 5), NULL);
    free(line);
    return info;
}

static bool is_old(const char *version)
{
    char *end = NULL;
    long major = strtol(version, &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR);
}

void doctor_server(struct doctor *d)
{
    int64_t rtt_ns = 0;
    natsStatus s = natsConnection_GetRTT(d->link.nc, &rtt_ns);
    cJSON *info = read_info(d);
    if (info == NULL)
        doctor_find(d, VERDICT_WARN, "server",
                    "its first line could not be read (TLS first, or a proxy?): ask it for its "
                    "version; 2.9 is the oldest that serves",
                    "connected, version unknown");
    else {
        const char *version = admin_text(info, "version");
        bool headers = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(info, "headers"));
        doctor_find(d, is_old(version) || !headers ? VERDICT_FAIL : VERDICT_OK, "server",
                    is_old(version) ? "2.9 is the oldest that serves: upgrade it"
                    : !headers      ? "switch headers on: no_headers is set"
                                    : NULL,
                    "nats-server %s, name %s, max_payload %.0f%s%s", version,
                    admin_text(info, "server_name"), admin_number(info, "max_payload"),
                    cJSON_IsString(cJSON_GetObjectItemCaseSensitive(info, "cluster")) ? ", cluster "
                                                                                      : "",
                    cJSON_IsString(cJSON_GetObjectItemCaseSensitive(info, "cluster"))
                        ? admin_text(info, "cluster")
                        : "");
    }
    cJSON_Delete(info);
    doctor_find(d, s == NATS_OK && rtt_ns < 100000000 ? VERDICT_OK : VERDICT_WARN, "round trip",
                s == NATS_OK && rtt_ns < 100000000
                    ? NULL
                    : "each request crosses the link to the server four times: move closer",
                "%.3f ms to the server and back", (double)rtt_ns / 1e6);
}

static void find_captures(struct doctor *d, const cJSON *names)
{
    const cJSON *name;
    if (cJSON_GetArraySize(names) == 0)
        doctor_find(d, VERDICT_OK, "streams", NULL, "none captures %s.worker.>", d->link.prefix);
    cJSON_ArrayForEach(name, names)
    {
        const char *text = cJSON_GetStringValue(name);
        doctor_find(d, VERDICT_WARN, "streams",
                    "its acknowledgement hides that a worker is gone, and it stores every request: "
                    "take Waybill's subjects out of the stream",
                    "stream %s captures %s.worker.>", text != NULL ? text : "?", d->link.prefix);
    }
}

void doctor_streams(struct doctor *d)
{
    char body[WB_SUBJECT_MAX + 64];
    cJSON *answer;
    snprintf(body, sizeof(body), "{\"subject\":\"%s.worker.>\"}", d->link.prefix);
    enum answer got = doctor_ask(d, "$JS.API.STREAM.NAMES", body, &answer);
    int error = doctor_js_error(answer);
    d->has_jetstream = got == ANSWER_GOOD && error == 0;
    if (got == ANSWER_NOBODY || error == JS_NOT_ENABLED || error == JS_NOT_ENABLED_FOR_ACCOUNT)
        doctor_find(
            d, VERDICT_FAIL, "jetstream",
            "switch it on for the server and this account: without it nothing is attributed "
            "and sessions are each router's own",
            "not enabled here");
    else if (got == ANSWER_DENIED)
        doctor_find(d, VERDICT_WARN, "jetstream",
                    "give these credentials the right to publish $JS.API.STREAM.NAMES",
                    "cannot be looked at: no right to publish $JS.API.STREAM.NAMES");
    else if (got != ANSWER_GOOD || error != 0)
        doctor_find(d, VERDICT_FAIL, "jetstream",
                    "look at the server's log: in a cluster it may have no leader",
                    "no good answer in time (error %d)", error);
    else {
        doctor_find(d, VERDICT_OK, "jetstream", NULL, "enabled");
        find_captures(d, cJSON_GetObjectItemCaseSensitive(answer, "streams"));
    }
    d->has_jetstream = d->has_jetstream || got == ANSWER_DENIED;
    cJSON_Delete(answer);
}

/* What the routers found: each looks once a minute. */
static void ask_routers(struct doctor *d)
{
    double blind = 0;
    for (unsigned i = 0; i < d->stats.count; i++)
        blind += admin_number(cJSON_GetObjectItemCaseSensitive(d->stats.items[i], "counts"),
                              "no_responders_blind");
    if (d->stats.count == 0)
        return;
    doctor_find(d, blind > 0 ? VERDICT_WARN : VERDICT_OK, "no_responders",
                blind > 0 ? "somebody subscribes > or a wildcard over worker subjects (nats server "
                            "report connections --subscriptions tells who): until that ends only "
                            "clocks find a dead worker"
                          : NULL,
                blind > 0 ? "blind, say the routers: %.0f of their checks since their start"
                          : "a 503 comes, say the routers (%.0f checks found it blind)",
                blind);
}

void doctor_blindness(struct doctor *d)
{
    char nobody[32] = "doctor-", subject[WB_SUBJECT_MAX + 1];
    const char *service = d->wanted.service[0] != '\0' ? d->wanted.service : "doctor";
    bool sure;
    id_random(nobody + 7, 16);
    nobody[23] = '\0';
    subject_worker(subject, span_str(d->link.prefix), span_str(service), span_str(nobody));
    if (!doctor_may_publish(d, subject, &sure) || !sure) {
        ask_routers(d);
        return;
    }
    cJSON *answer;
    enum answer got = doctor_ask(d, subject, "", &answer);
    cJSON_Delete(answer);
    doctor_find(d, got == ANSWER_NOBODY ? VERDICT_OK : VERDICT_WARN, "no_responders",
                got == ANSWER_NOBODY
                    ? NULL
                    : "somebody subscribes > or a wildcard over it, or a stream captures it: until "
                      "that ends only clocks find a dead worker",
                got == ANSWER_NOBODY
                    ? "a 503 comes from a worker subject without a worker"
                    : "blind: no 503 comes from a worker subject without a worker");
}
