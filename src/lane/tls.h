/* TLS over a non-blocking socket, by OpenSSL. One object per connection; certificate files are read
 * at each creation. */
#ifndef LANE_TLS_H
#define LANE_TLS_H

#include <sys/types.h>

#include "base/span.h"

struct tls;

#define TLS_TEXT_MAX 256

struct tls_settings {
    const char *ca, *cert, *key; /* files; NULL or "": system store, no certificate */
    const char *name;            /* host name or IP address that the peer must prove */
    bool insecure;               /* proves nothing */
};

enum tls_result { TLS_OK, TLS_WANT_READ, TLS_WANT_WRITE, TLS_ENDED, TLS_FAILED };

/* NULL: `why` says what. fd is not owned. */
struct tls *tls_create(int fd, const struct tls_settings *settings, char why[TLS_TEXT_MAX]);
void tls_destroy(struct tls *tls); /* takes NULL; sends close-notify if that does not block */
enum tls_result tls_handshake(struct tls *tls, char why[TLS_TEXT_MAX]);
/* *done is set with TLS_OK only. */
enum tls_result tls_read(struct tls *tls, char *out, size_t n, size_t *done,
                         char why[TLS_TEXT_MAX]);
enum tls_result tls_write(struct tls *tls, const char *bytes, size_t n, size_t *done,
                          char why[TLS_TEXT_MAX]);

#endif
