/* A private nats-server and a connection to it, for the tests of libwaybill. */
#ifndef TESTS_CLIENT_FIXTURE_H
#define TESTS_CLIENT_FIXTURE_H

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <nats/nats.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/span.h"
#include "support/free_port.h"

#define BOUND_MS 10000

static pid_t server;
static natsConnection *nc; /* shared by both sides of a test */

static void fixture_setup(void)
{
    char port[16], url[64];
    snprintf(port, sizeof(port), "%d", free_port());
    snprintf(url, sizeof(url), "nats://127.0.0.1:%s", port);
    server = fork();
    ck_assert(server >= 0);
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, (char *)NULL);
        execl("/usr/sbin/nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, (char *)NULL);
        _exit(127);
    }
    natsOptions *o = NULL;
    ck_assert_int_eq(natsOptions_Create(&o), NATS_OK);
    natsOptions_SetURL(o, url);
    natsOptions_SetSendAsap(o, true);
    natsOptions_SetMaxReconnect(o, 200);
    natsOptions_SetReconnectWait(o, 20);
    natsOptions_SetReconnectJitter(o, 1, 1);
    natsOptions_SetRetryOnFailedConnect(o, true, NULL, NULL);
    natsStatus s = natsConnection_Connect(&nc, o);
    ck_assert_msg(s == NATS_OK, "connect: %s", natsStatus_GetText(s));
    natsOptions_Destroy(o);
}

static void fixture_teardown(void)
{
    natsConnection_Destroy(nc);
    nc = NULL;
    nats_CloseAndWait(2000);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

/* The next message within the bound; the caller destroys it. */
static natsMsg *next_message(natsSubscription *sub)
{
    natsMsg *m = NULL;
    natsStatus s = natsSubscription_NextMsg(&m, sub, BOUND_MS);
    ck_assert_msg(s == NATS_OK, "no message: %s", natsStatus_GetText(s));
    return m;
}

/* NULL: not there. */
static const char *header(natsMsg *m, const char *name)
{
    const char *value = NULL;
    return natsMsgHeader_Get(m, name, &value) == NATS_OK ? value : NULL;
}

static int run_suite(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, fixture_setup, fixture_teardown);
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
