#include "cli/headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "NAME: VALUE" to its parts, in memory that is freed with the name. */
static bool split(const char *text, wb_header *out)
{
    char *copy = strdup(text);
    char *colon = copy != NULL ? strchr(copy, ':') : NULL;
    if (colon == NULL) {
        fprintf(stderr, "waybill: --header: expected \"NAME: VALUE\", got \"%s\"\n", text);
        free(copy);
        return false;
    }
    *colon++ = '\0';
    while (*colon == ' ')
        colon++;
    *out = (wb_header){copy, colon};
    return true;
}

bool headers_split(const struct option_list *texts, wb_header out[OPTION_LIST_MAX])
{
    for (unsigned i = 0; i < texts->count; i++)
        out[i] = (wb_header){NULL, NULL};
    for (unsigned i = 0; i < texts->count; i++)
        if (!split(texts->items[i], &out[i]))
            return false;
    return true;
}

void headers_free(const struct option_list *texts, wb_header headers[OPTION_LIST_MAX])
{
    for (unsigned i = 0; i < texts->count; i++)
        free((void *)(uintptr_t)headers[i].name);
}
