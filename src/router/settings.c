/* Settings own heap strings and lists only; this is their one way out. */
#include "router/settings.h"

#include <stdlib.h>
#include <string.h>

static void free_texts(char **texts, unsigned count)
{
    for (unsigned i = 0; texts && i < count; i++)
        free(texts[i]);
    free(texts);
}

static void static_fini(struct static_settings *w)
{
    free(w->id);
    free(w->subject);
    free(w->cancel_subject);
    free(w->class_name);
    free_texts(w->adapters, w->adapter_count);
}

static void service_fini(struct service_settings *s)
{
    free(s->name);
    free_texts(s->subjects, s->subject_count);
    free(s->queue_group);
    for (unsigned i = 0; s->workers && i < s->worker_count; i++)
        static_fini(&s->workers[i]);
    free(s->workers);
}

void settings_fini(struct router_settings *s)
{
    if (!s)
        return;
    free(s->id);
    free(s->prefix);
    free_texts(s->reply_allow, s->reply_allow_count);
    free(s->attribution.bucket);
    free(s->sessions.bucket);
    free(s->nats.url);
    free(s->nats.user);
    free(s->nats.password);
    free(s->nats.token);
    free(s->nats.nkey);
    free(s->nats.creds);
    free(s->nats.cert);
    free(s->nats.key);
    free(s->nats.ca);
    free(s->monitor_listen);
    for (unsigned i = 0; s->services && i < s->service_count; i++)
        service_fini(&s->services[i]);
    free(s->services);
    memset(s, 0, sizeof *s);
}
