/* The tool's NATS connection: settings from flags, environment and contexts, turned into nats.c's
 * options.
 *
 * TLS that was asked for (tls:// or a CA or a certificate) is demanded of the server: nats.c alone
 * would also go on in clear. A lone message is written at once (SendAsap), and a lost link is
 * retried for ever. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "wire/connection.h"
#include "wire/subject.h"

enum { PAUSE_MS = 500 }; /* between two tries to connect */

#define SERVERS_MAX 32
#define TEXT_MAX 4096

/* Copies the flag's text for the settings, which own theirs. */
static char *given(const char *flag)
{
    return flag != NULL ? strdup(flag) : NULL;
}

static natsStatus set_servers(natsOptions *o, const char *url, bool *tls)
{
    char copy[TEXT_MAX];
    const char *servers[SERVERS_MAX];
    int count = 0;
    char *save = NULL;
    if (strlen(url) >= sizeof(copy))
        return NATS_INVALID_ARG;
    memcpy(copy, url, strlen(url) + 1);
    for (char *s = strtok_r(copy, ", ", &save); s != NULL && count < SERVERS_MAX;
         s = strtok_r(NULL, ", ", &save)) {
        *tls = *tls || strncmp(s, "tls://", 6) == 0;
        servers[count++] = s;
    }
    return count > 0 ? natsOptions_SetServers(o, servers, count) : NATS_INVALID_ARG;
}

static natsStatus set_tls(natsOptions *o, const struct connection *c, bool wanted)
{
    natsStatus s = NATS_OK;
    if (!wanted && c->ca == NULL && c->cert == NULL)
        return NATS_OK;
    s = natsOptions_SetSecure(o, true);
    if (s == NATS_OK && c->ca != NULL)
        s = natsOptions_LoadCATrustedCertificates(o, c->ca);
    if (s == NATS_OK && c->cert != NULL)
        s = natsOptions_LoadCertificatesChain(o, c->cert, c->key);
    if (s == NATS_OK && c->tls_insecure)
        s = natsOptions_SkipServerVerification(o, true);
    return s;
}

static natsStatus set_user(natsOptions *o, const struct connection *c)
{
    if (c->creds != NULL)
        return natsOptions_SetUserCredentialsFromFiles(o, c->creds, NULL);
    if (c->token != NULL)
        return natsOptions_SetToken(o, c->token);
    if (c->user != NULL)
        return natsOptions_SetUserInfo(o, c->user, c->password != NULL ? c->password : "");
    return NATS_OK;
}

static atomic_bool hushed;

/* A refusal of the server ends nothing, but what was asked for will not come: said at once. */
static void on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *arg)
{
    const char *text = NULL;
    (void)sub;
    (void)arg;
    if (status != NATS_NOT_PERMITTED)
        fprintf(stderr, "waybill: %s\n", natsStatus_GetText(status));
    else if (!hushed && natsConnection_GetLastError(nc, &text) == status && text != NULL)
        fprintf(stderr, "waybill: the server says: %s\n", text);
}

void link_hush(void)
{
    hushed = true;
}

static natsStatus set_habits(natsOptions *o, const struct connection *c)
{
    natsStatus s = natsOptions_SetSendAsap(o, true);
    if (s == NATS_OK)
        s = natsOptions_SetName(o, "waybill");
    if (s == NATS_OK)
        s = natsOptions_SetMaxReconnect(o, -1);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectWait(o, 250);
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(o, 5000);
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(o, 5000);
    if (s == NATS_OK)
        s = natsOptions_SetErrorHandler(o, on_error, NULL);
    if (s == NATS_OK && c->inbox_prefix != NULL)
        s = natsOptions_SetCustomInboxPrefix(o, c->inbox_prefix);
    return s;
}

static natsStatus connect_with(const struct connection *c, natsConnection **nc)
{
    natsOptions *o = NULL;
    bool tls = false;
    natsStatus s = natsOptions_Create(&o);
    if (s == NATS_OK)
        s = set_habits(o, c);
    if (s == NATS_OK)
        s = set_servers(o, c->url != NULL ? c->url : "nats://127.0.0.1:4222", &tls);
    if (s == NATS_OK)
        s = set_tls(o, c, tls);
    if (s == NATS_OK)
        s = set_user(o, c);
    if (s == NATS_OK)
        s = natsConnection_Connect(nc, o);
    natsOptions_Destroy(o);
    return s;
}

static bool take_prefix(const struct common *common, struct link *link)
{
    link->prefix = common->prefix != NULL ? common->prefix : WB_DEFAULT_PREFIX;
    struct span prefix = span_str(link->prefix);
    if (subject_is_literal(prefix) && prefix.len <= WB_NAME_MAX)
        return true;
    fprintf(stderr, "waybill: --prefix: not a subject\n");
    return false;
}

/* s: what nats.c says; NATS_OK too where it was not asked, which then has been said. */
static int open_once(const struct common *common, struct link *link, natsStatus *s, char url[512])
{
    char why[256] = "";
    *link = (struct link){0};
    *s = NATS_OK;
    if (!take_prefix(common, link))
        return EXIT_USAGE;
    struct connection c = {.url = given(common->server),
                           .user = given(common->user),
                           .password = given(common->password),
                           .token = given(common->token),
                           .nkey = given(common->nkey),
                           .creds = given(common->creds),
                           .cert = given(common->cert),
                           .key = given(common->key),
                           .ca = given(common->ca)};
    int code = EXIT_NO_LINK;
    if (connection_resolve(&c, common->context, true, why) != WB_OK)
        fprintf(stderr, "waybill: %s\n", why);
    else if (c.nkey != NULL || c.tls_first)
        fprintf(stderr, "waybill: %s is not supported by this tool\n",
                c.nkey != NULL ? "an nkey" : "TLS first");
    else {
        snprintf(url, 512, "%s", c.url != NULL ? c.url : "nats://127.0.0.1:4222");
        *s = connect_with(&c, &link->nc);
        if (*s == NATS_OK) {
            link->inbox_prefix = c.inbox_prefix;
            c.inbox_prefix = NULL;
            code = EXIT_FINE;
        }
    }
    connection_fini(&c);
    return code;
}

int link_open(const struct common *common, struct link *link)
{
    char url[512];
    natsStatus s;
    int code = open_once(common, link, &s, url);
    if (s != NATS_OK)
        fprintf(stderr, "waybill: cannot connect to %s: %s\n", url, natsStatus_GetText(s));
    return code;
}

/* What may be well in a moment: the server is not there yet. */
static bool is_early(natsStatus s)
{
    return s == NATS_NO_SERVER || s == NATS_TIMEOUT || s == NATS_IO_ERROR ||
           s == NATS_CONNECTION_CLOSED;
}

int link_open_patiently(const struct common *common, struct link *link, int stop_fd)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    char url[512];
    for (bool said = false;; said = true) {
        natsStatus s;
        int code = open_once(common, link, &s, url);
        if (s == NATS_OK)
            return code;
        if (!is_early(s)) {
            fprintf(stderr, "waybill: cannot connect to %s: %s\n", url, natsStatus_GetText(s));
            return code;
        }
        if (!said)
            fprintf(stderr, "waybill: waiting for %s: %s\n", url, natsStatus_GetText(s));
        if (poll(&stop, 1, PAUSE_MS) > 0)
            return EXIT_FINE;
    }
}

void link_close(struct link *link)
{
    natsConnection_Destroy(link->nc);
    free(link->inbox_prefix);
    *link = (struct link){0};
    nats_CloseAndWait(1000); /* nats.c's own threads */
}

bool link_denied(const struct link *link, const char *subject)
{
    const char *text = NULL;
    char quoted[WB_SUBJECT_MAX + 3];
    snprintf(quoted, sizeof(quoted), "\"%s\"", subject);
    return natsConnection_GetLastError(link->nc, &text) == NATS_NOT_PERMITTED && text != NULL &&
           strstr(text, quoted) != NULL;
}

int exit_of(wb_status status, const char *what)
{
    if (status == WB_OK)
        return EXIT_FINE;
    fprintf(stderr, "waybill: %s: %s\n", what, wb_status_text(status));
    switch (status) {
    case WB_INVALID:
    case WB_TOO_LARGE:
        return EXIT_USAGE;
    case WB_CLOSED:
    case WB_DENIED:
        return EXIT_NO_LINK;
    case WB_NOT_FOUND:
    case WB_TIMED_OUT:
        return EXIT_NOTHING;
    default:
        return EXIT_ERROR_ANSWER;
    }
}

void print_json(struct buf *text)
{
    struct span all = buf_span(text);
    fwrite(all.ptr, 1, all.len, stdout);
    putchar('\n');
    fflush(stdout);
    buf_fini(text);
}

void print_whole_json(const struct json *j, struct buf *text)
{
    if (json_status(j) == WB_OK)
        print_json(text);
    else
        buf_fini(text);
}
