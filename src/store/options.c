#include "store/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(NATS_VERSION_NUMBER) && NATS_VERSION_NUMBER >= 0x030900
#define HAS_TLS_FIRST 1
#endif

enum { SERVERS_MAX = 64, SEED_TEXT = 58 };

static natsStatus set_servers(natsOptions *o, const char *urls, bool *tls)
{
    char *copy = strdup(urls), *rest = copy;
    const char *all[SERVERS_MAX];
    int n = 0;
    natsStatus s;

    if (!copy)
        return NATS_NO_MEMORY;
    for (char *one; n < SERVERS_MAX && (one = strsep(&rest, ", ")) != NULL;) {
        if (!*one)
            continue;
        if (strncmp(one, "tls://", 6) == 0)
            *tls = true;
        all[n++] = one;
    }
    s = n ? natsOptions_SetServers(o, all, n) : NATS_INVALID_ARG;
    free(copy);
    return s;
}

/* The 58 characters of a seed out of an nkey file; cleared by the caller. */
static bool read_seed(const char *path, char seed[SEED_TEXT + 1])
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        const char *at = line + strspn(line, " \t");

        if (at[0] == 'S' && strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == SEED_TEXT) {
            memcpy(seed, at, SEED_TEXT);
            seed[SEED_TEXT] = '\0';
            found = true;
        }
    }
    explicit_bzero(line, sizeof(line));
    fclose(file);
    return found;
}

/* nats.c signs with a seed, but wants to be told whose it is. */
static natsStatus set_nkey(natsOptions *o, const struct store_connection *c)
{
    char seed[SEED_TEXT + 1], public_key[STORE_NKEY_PUBLIC_SIZE];
    bool good = c->nkey_public && read_seed(c->nkey_file, seed) &&
                c->nkey_public(seed, public_key) == WB_OK;

    explicit_bzero(seed, sizeof(seed));
    return good ? natsOptions_SetNKeyFromSeed(o, public_key, c->nkey_file) : NATS_INVALID_ARG;
}

static natsStatus set_credentials(natsOptions *o, const struct store_connection *c)
{
    if (c->creds)
        return natsOptions_SetUserCredentialsFromFiles(o, c->creds, NULL);
    if (c->nkey_file)
        return set_nkey(o, c);
    if (c->token)
        return natsOptions_SetToken(o, c->token);
    if (c->user)
        return natsOptions_SetUserInfo(o, c->user, c->password ? c->password : "");
    return NATS_OK;
}

static natsStatus set_tls(natsOptions *o, const struct store_connection *c, bool tls)
{
    natsStatus s = NATS_OK;

    /* without this, nats.c goes on in clear where the server offers no TLS */
    if (tls || c->tls || c->tls_first || c->ca || c->cert)
        s = natsOptions_SetSecure(o, true);
    if (s == NATS_OK && c->ca)
        s = natsOptions_LoadCATrustedCertificates(o, c->ca);
    if (s == NATS_OK && c->cert)
        s = natsOptions_LoadCertificatesChain(o, c->cert, c->key ? c->key : c->cert);
    if (s == NATS_OK && c->tls_insecure)
        s = natsOptions_SkipServerVerification(o, true);
#ifdef HAS_TLS_FIRST
    if (s == NATS_OK && c->tls_first)
        s = natsOptions_TLSHandshakeFirst(o);
#endif
    return s;
}

static natsStatus set_patience(natsOptions *o)
{
    natsStatus s = natsOptions_SetTimeout(o, STORE_CALL_MS);

#define NEXT(call)                                                                                 \
    if (s == NATS_OK)                                                                              \
    s = (call)
    NEXT(natsOptions_SetAllowReconnect(o, true));
    NEXT(natsOptions_SetMaxReconnect(o, -1));
    NEXT(natsOptions_SetReconnectWait(o, 250));
    NEXT(natsOptions_SetReconnectJitter(o, 250, 500));
    NEXT(natsOptions_SetReconnectBufSize(o, 0)); /* none: nothing is to be sent late */
    NEXT(natsOptions_SetSendAsap(o, true));      /* else a lone write waits for 1 ms */
    NEXT(natsOptions_SetPingInterval(o, 5000));
    NEXT(natsOptions_SetMaxPingsOut(o, 2));
    NEXT(natsOptions_SetWriteDeadline(o, STORE_CALL_MS));
#undef NEXT
    return s;
}

const char *store_options_lack(const struct store_connection *c)
{
#ifndef HAS_TLS_FIRST
    if (c->tls_first)
        return " (TLS first needs nats.c 3.9, this is " NATS_VERSION_STRING ")";
#endif
    (void)c;
    return "";
}

natsStatus store_options(const struct store_connection *c, natsOptions **out)
{
    natsOptions *o = NULL;
    bool tls = false;
    natsStatus s = natsOptions_Create(&o);

    if (s == NATS_OK)
        s = set_servers(o, c->url ? c->url : NATS_DEFAULT_URL, &tls);
    if (s == NATS_OK)
        s = set_patience(o);
    if (s == NATS_OK)
        s = set_credentials(o, c);
    if (s == NATS_OK)
        s = set_tls(o, c, tls);
    if (s == NATS_OK && c->name)
        s = natsOptions_SetName(o, c->name);
    if (s == NATS_OK && c->inbox_prefix)
        s = natsOptions_SetCustomInboxPrefix(o, c->inbox_prefix);
    if (s != NATS_OK) {
        natsOptions_Destroy(o);
        o = NULL;
    }
    *out = o;
    return s;
}
