/* A small array walked round. Learned servers inherit the credentials of the one that told of them,
 * and, when told as bare addresses, the name that its certificate showed: cluster certificates name
 * hosts, and servers tell addresses. */
#include "lane/pool.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#define PORT_DEFAULT 4222

void pool_init(struct pool *pool)
{
    memset(pool, 0, sizeof(*pool));
}

void pool_fini(struct pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        free(pool->servers[i]);
    pool_init(pool);
}

bool pool_is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoded into out; false: too long, a bad escape or a NUL. */
static bool decode(struct span text, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '%') {
            int high = i + 2 < text.len ? hex_value(text.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text.ptr[i + 2]) : -1;

            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool take_userinfo(struct span info, struct pool_server *server)
{
    const char *colon = memchr(info.ptr, ':', info.len);
    size_t n = colon ? (size_t)(colon - info.ptr) : 0;

    if (!colon)
        return decode(info, server->token, sizeof(server->token));
    return decode(span_of(info.ptr, n), server->user, sizeof(server->user)) &&
           decode(span_of(colon + 1, info.len - n - 1), server->password, sizeof(server->password));
}

static bool take_host(struct span host, struct pool_server *server)
{
    if (host.len == 0 || host.len >= sizeof(server->host))
        return false;
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] <= ' ' || host.ptr[i] == 127 || strchr("/?#\"'\\@[]", host.ptr[i]))
            return false;
    }
    memcpy(server->host, host.ptr, host.len);
    server->host[host.len] = '\0';
    return true;
}

static bool take_port(struct span port, struct pool_server *server)
{
    unsigned long long n;

    if (!span_to_u64(port, &n) || n == 0 || n > 65535)
        return false;
    server->port = (int)n;
    return true;
}

/* host, host:port, [v6], [v6]:port; a bare v6 address has no port. */
static bool take_place(struct span place, struct pool_server *server)
{
    const char *end = place.ptr + place.len, *colon, *close;

    server->port = PORT_DEFAULT;
    if (place.len > 0 && place.ptr[0] == '[') {
        close = memchr(place.ptr, ']', place.len);
        if (!close || !take_host(span_of(place.ptr + 1, (size_t)(close - place.ptr - 1)), server))
            return false;
        if (close + 1 == end)
            return true;
        return close[1] == ':' && take_port(span_of(close + 2, (size_t)(end - close - 2)), server);
    }
    colon = memchr(place.ptr, ':', place.len);
    if (!colon || memchr(colon + 1, ':', (size_t)(end - colon - 1)))
        return take_host(place, server) && (!colon || pool_is_address(server->host));
    return take_host(span_of(place.ptr, (size_t)(colon - place.ptr)), server) &&
           take_port(span_of(colon + 1, (size_t)(end - colon - 1)), server);
}

static struct span trim(struct span text)
{
    while (text.len > 0 && strchr(" \t\r\n", *text.ptr))
        text.ptr++, text.len--;
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    return text;
}

wb_status pool_parse(struct span url, struct pool_server *server)
{
    const char *scheme, *at;

    memset(server, 0, sizeof(*server));
    url = trim(url);
    if (url.len == 0)
        return WB_INVALID;
    scheme = memmem(url.ptr, url.len, "://", 3);
    if (scheme) {
        struct span name = span_of(url.ptr, (size_t)(scheme - url.ptr));

        server->tls = span_eq_str(name, "tls");
        if (!server->tls && !span_eq_str(name, "nats"))
            return WB_UNSUPPORTED;
        url = span_of(scheme + 3, url.len - name.len - 3);
    }
    at = memrchr(url.ptr, '@', url.len);
    if (at) {
        if (!take_userinfo(span_of(url.ptr, (size_t)(at - url.ptr)), server))
            return WB_INVALID;
        url = span_of(at + 1, url.len - (size_t)(at - url.ptr) - 1);
    }
    if (url.len > 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    return take_place(url, server) ? WB_OK : WB_INVALID;
}

static struct pool_server *find(struct pool *pool, const struct pool_server *server)
{
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->servers[i]->port == server->port &&
            strcmp(pool->servers[i]->host, server->host) == 0)
            return pool->servers[i];
    }
    return NULL;
}

static wb_status add(struct pool *pool, const struct pool_server *server)
{
    struct pool_server *copy;

    if (pool->count == POOL_MAX)
        return WB_FULL;
    copy = malloc(sizeof(*copy));
    if (!copy)
        return WB_NO_MEMORY;
    *copy = *server;
    pool->servers[pool->count++] = copy;
    return WB_OK;
}

static wb_status add_url(struct pool *pool, struct span url, char why[128])
{
    const char *at = memrchr(url.ptr, '@', url.len);
    struct span shown =
        at ? span_of(at + 1, url.len - (size_t)(at - url.ptr) - 1) : url; /* without secrets */
    int n = shown.len < 80 ? (int)shown.len : 80;
    struct pool_server server;
    wb_status status = pool_parse(url, &server);

    if (status != WB_OK) {
        snprintf(why, 128, "not a server address: '%.*s'", n, shown.ptr);
        return status;
    }
    if (find(pool, &server))
        return WB_OK;
    status = add(pool, &server);
    if (status != WB_OK)
        snprintf(why, 128, "more than %d servers, or no memory", POOL_MAX);
    return status;
}

wb_status pool_add_list(struct pool *pool, struct span list, struct rng *rng, char why[128])
{
    list = trim(list);
    if (list.len == 0)
        list = SPAN_LIT("nats://127.0.0.1:4222");
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        struct span url = span_of(list.ptr, comma ? (size_t)(comma - list.ptr) : list.len);
        wb_status status = add_url(pool, trim(url), why);

        if (status != WB_OK)
            return status;
        list = comma ? trim(span_of(comma + 1, list.len - url.len - 1)) : SPAN_EMPTY;
    }
    pool->rng = rng;
    for (unsigned i = pool->count; i > 1; i--) {
        unsigned j = (unsigned)rng_below(rng, i);
        struct pool_server *swap = pool->servers[i - 1];

        pool->servers[i - 1] = pool->servers[j];
        pool->servers[j] = swap;
    }
    return WB_OK;
}

struct pool_server *pool_next(struct pool *pool)
{
    CHECK(pool->count > 0);
    if (pool->next >= pool->count)
        pool->next = 0;
    return pool->servers[pool->next++];
}

void pool_learn_begin(struct pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        pool->servers[i]->told = false;
}

/* The last one changes places with one whose turn is still to come: or all clients of a lost server
 * would meet at the same next. */
static void place_at_random(struct pool *pool)
{
    unsigned last = pool->count - 1, i = pool->next;
    struct pool_server *server = pool->servers[last];

    if (i >= last || !pool->rng)
        return;
    i += (unsigned)rng_below(pool->rng, last - i + 1);
    pool->servers[last] = pool->servers[i];
    pool->servers[i] = server;
}

void pool_learn(struct pool *pool, struct span url, const struct pool_server *from)
{
    struct pool_server server, *known;

    if (pool_parse(url, &server) != WB_OK)
        return;
    known = find(pool, &server);
    if (known) {
        known->told = true;
        return;
    }
    server.learned = server.told = true;
    if (from) {
        memcpy(server.user, from->user, sizeof(server.user));
        memcpy(server.password, from->password, sizeof(server.password));
        memcpy(server.token, from->token, sizeof(server.token));
        if (pool_is_address(server.host))
            memcpy(server.tls_name, from->tls_name[0] ? from->tls_name : from->host,
                   sizeof(server.tls_name));
        if (pool_is_address(server.tls_name))
            server.tls_name[0] = '\0';
    }
    if (add(pool, &server) == WB_OK) /* else full: there are enough to choose from */
        place_at_random(pool);
}

void pool_learn_end(struct pool *pool, const struct pool_server *from)
{
    unsigned kept = 0, next = pool->next;

    for (unsigned i = 0; i < pool->count; i++) {
        struct pool_server *server = pool->servers[i];

        if (server->learned && !server->told && server != from) {
            free(server);
            if (i < pool->next)
                next--;
        } else {
            pool->servers[kept++] = server;
        }
    }
    pool->count = kept;
    pool->next = next;
}

bool pool_wants_tls(const struct pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++) {
        if (pool->servers[i]->tls)
            return true;
    }
    return false;
}
