#include "cli/history.h"

#include <stdio.h>
#include <string.h>

#include "wire/name.h"

bool history_key(const char *service, const char *id, const char *bucket,
                 char key[WB_NAME_MAX + WB_REQUEST_ID_MAX + 2])
{
    const char *wrong = !name_is_request_id(span_str(id)) ? "not a request id"
                        : service != NULL && !name_is_id(span_str(service))
                            ? "--service: not a service's name"
                        : !name_is_id(span_str(bucket)) ? "--bucket: not a bucket's name"
                                                        : NULL;
    if (wrong != NULL)
        fprintf(stderr, "waybill: %s\n", wrong);
    else
        snprintf(key, WB_NAME_MAX + WB_REQUEST_ID_MAX + 2, "%s.%s", service != NULL ? service : "*",
                 id);
    return wrong == NULL;
}

enum found history_last(struct records *r, const char *key, struct revision *out)
{
    enum found found = records_last(r, key, out);
    if (found != FOUND_ONE || !out->marker)
        return found;
    revision_fini(out);
    return FOUND_NONE;
}

enum found history_read(struct records *r, const char *key, struct history *out)
{
    struct revision last;
    out->count = 0;
    enum found found = history_last(r, key, &last); /* of several services the latest */
    if (found != FOUND_ONE)
        return found;
    uint64_t seq = 1;
    while (found == FOUND_ONE && out->count < HISTORY_MAX) {
        struct revision *next = &out->items[out->count];
        found = records_next(r, last.key, seq, next);
        if (found == FOUND_ONE) {
            seq = next->seq + 1;
            out->count++;
        }
    }
    revision_fini(&last);
    if (found == FOUND_NONE && out->count > 0)
        return FOUND_ONE;
    if (found != FOUND_ONE)
        history_fini(out);
    return found;
}

void history_fini(struct history *h)
{
    for (unsigned i = 0; i < h->count; i++)
        revision_fini(&h->items[i]);
    h->count = 0;
}

int history_complain(const struct records *r, enum found found, const char *service, const char *id)
{
    if (found == FOUND_NONE)
        fprintf(stderr,
                "waybill: no record of %s in %s%s: nobody has answered it, or its record has "
                "expired\n",
                id, service != NULL ? "service " : "any service", service != NULL ? service : "");
    return records_complain(r, found);
}
