/* waybilld: configure, start, run, drain, stop.
 *
 * One signal begins the drain (the router finishes what is in flight within drain_ms), a second one
 * ends it at once. A NATS server that is away is no reason to stop: the router retries for ever.
 * Exit codes: 0 fine, 1 bad configuration or usage, 2 could not start. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "daemon/args.h"
#include "daemon/config.h"
#include "router/router.h"
#include "store/store.h"
#include "waybill/version.h"

enum exit_code { EXIT_FINE, EXIT_CONFIG, EXIT_START };

enum phase { PHASE_RUN, PHASE_DRAIN, PHASE_DONE };

struct daemon {
    struct args args;
    struct config config;
    struct loop *loop;
    struct loop_signal *signals[3];
    struct router *router;
    enum phase phase;
};

static void warn_inert(const char *path)
{
    log_write(LOG_WARN, "config: %s is accepted, but nothing follows it in this version", path);
}

/* What needs no configuration. False: nothing of it was asked for. */
static bool tell(const struct args *args)
{
    if (args->value[OPTION_HELP])
        args_help(stdout);
    else if (args->value[OPTION_HELP_CONFIG])
        config_reference(stdout);
    else if (args->value[OPTION_VERSION])
        puts("waybilld " WB_VERSION);
    else
        return false;
    return true;
}

/* True: go on. False: *code is how the process ends. */
static bool configure(struct daemon *d, int argc, char **argv, int *code)
{
    static struct config_errors errors;
    char why[256] = "";
    bool fine;

    *code = EXIT_CONFIG;
    if (!args_parse(&d->args, argc, argv, why)) {
        fprintf(stderr, "waybilld: %s\nwaybilld --help tells more\n", why);
        return false;
    }
    log_set_level(d->args.log_level);
    if (d->args.value[OPTION_GENERATE]) {
        if (args_generate(d->args.value[OPTION_GENERATE], stdout))
            *code = EXIT_FINE;
        else
            fputs("waybilld: --generate: expected man, bash, zsh or fish\n", stderr);
        return false;
    }
    if (tell(&d->args)) {
        *code = EXIT_FINE;
        return false;
    }
    fine = config_load(&d->config, &d->args, &errors);
    if (fine && !d->args.value[OPTION_CHECK] && !d->args.value[OPTION_SHOW]) {
        config_check_built(&d->config, &errors, warn_inert);
        fine = errors.count == 0;
        if (fine)
            return true;
    }
    config_errors_print(&errors, d->args.value[OPTION_CONFIG], stderr);
    config_errors_fini(&errors);
    if (fine && d->args.value[OPTION_SHOW])
        config_show(&d->config, d->args.show_json, stdout);
    else if (fine)
        puts("the configuration is fine");
    if (fine)
        *code = EXIT_FINE;
    return false;
}

static void on_drained(void *arg)
{
    struct daemon *d = arg;

    d->phase = PHASE_DONE;
    loop_stop(d->loop);
}

static void on_signal(void *arg, int signum)
{
    struct daemon *d = arg;

    if (signum == SIGHUP) {
        log_write(LOG_WARN, "SIGHUP: reload is not built yet; the configuration stays as it is");
    } else if (d->phase == PHASE_RUN) {
        log_write(LOG_INFO, "%s: draining for at most %lld ms", strsignal(signum),
                  (long long)d->config.settings.drain_ms);
        d->phase = PHASE_DRAIN;
        router_drain(d->router, on_drained, d);
    } else if (d->phase == PHASE_DRAIN) {
        log_write(LOG_WARN, "%s again: stopping at once", strsignal(signum));
        router_drain(d->router, on_drained, d);
        loop_stop(d->loop);
    }
}

static bool start(struct daemon *d)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGHUP};
    char why[256] = "";
    wb_status status;

    log_write(LOG_INFO, "waybilld " WB_VERSION ": router %s, prefix %s, %u service(s)",
              d->config.settings.id, d->config.settings.prefix, d->config.settings.service_count);
    signal(SIGPIPE, SIG_IGN);
    d->loop = loop_create();
    if (!d->loop) {
        fputs("waybilld: could not start: no event loop (memory or file descriptors)\n", stderr);
        return false;
    }
    for (size_t i = 0; i < sizeof signums / sizeof signums[0]; i++) {
        d->signals[i] = loop_signal_open(d->loop, signums[i], on_signal, d);
        if (!d->signals[i]) {
            fputs("waybilld: could not start: cannot watch signals\n", stderr);
            return false;
        }
    }
    d->router = router_create(d->loop, &d->config.settings, why);
    if (!d->router) {
        fprintf(stderr, "waybilld: could not start: %s\n", *why ? why : "no memory");
        return false;
    }
    status = router_start(d->router);
    if (status != WB_OK) {
        fprintf(stderr, "waybilld: could not start: %s%s%s\n", wb_status_text(status),
                d->config.settings.monitor_listen ? "; monitor.listen is " : "",
                d->config.settings.monitor_listen ? d->config.settings.monitor_listen : "");
        return false;
    }
    return true;
}

/* Returns when the drain, which a signal begins, has ended. */
static void run(struct daemon *d)
{
    loop_run(d->loop);
}

static void stop(struct daemon *d)
{
    router_destroy(d->router);
    if (d->router)
        store_library_end();
    for (size_t i = 0; i < sizeof d->signals / sizeof d->signals[0]; i++)
        if (d->signals[i])
            loop_signal_close(d->signals[i]);
    loop_destroy(d->loop);
    config_fini(&d->config);
}

int main(int argc, char **argv)
{
    static struct daemon daemon;
    int code;

    if (configure(&daemon, argc, argv, &code)) {
        code = EXIT_START;
        if (start(&daemon)) {
            run(&daemon);
            code = EXIT_FINE;
            log_write(LOG_INFO, "stopped");
        }
    }
    stop(&daemon);
    return code;
}
