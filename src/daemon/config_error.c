#include "daemon/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void config_error(struct config_errors *errors, const char *path, const char *format, ...)
{
    struct config_error *e;
    va_list list;

    if (errors->count == CONFIG_ERRORS_MAX) {
        errors->more++;
        return;
    }
    e = &errors->items[errors->count];
    e->path = strdup(path);
    va_start(list, format);
    if (vasprintf(&e->text, format, list) < 0)
        e->text = NULL;
    va_end(list);
    if (!e->path || !e->text) {
        free(e->path);
        free(e->text);
        errors->no_memory = true;
        errors->more++;
        return;
    }
    errors->count++;
}

void config_errors_print(const struct config_errors *errors, const char *file, FILE *out)
{
    for (unsigned i = 0; i < errors->count; i++) {
        const struct config_error *e = &errors->items[i];

        fprintf(out, "waybilld: %s%s%s%s%s\n", file ? file : "", file ? ": " : "", e->path,
                *e->path ? ": " : "", e->text);
    }
    if (errors->more)
        fprintf(out, "waybilld: and %u more\n", errors->more);
    if (errors->no_memory)
        fputs("waybilld: no memory\n", out);
}

void config_errors_fini(struct config_errors *errors)
{
    for (unsigned i = 0; i < errors->count; i++) {
        free(errors->items[i].path);
        free(errors->items[i].text);
    }
    memset(errors, 0, sizeof *errors);
}
