/* OpenSSL's own socket BIO writes with write(2), which raises SIGPIPE; so the bytes go through a
 * small BIO of ours that uses send(2). A key file with a pass phrase is refused rather than asked
 * for: the loop must not wait at a terminal. */
#include "lane/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lane/pool.h"

struct tls {
    SSL_CTX *context;
    SSL *ssl;
    bool open; /* handshake done, no fatal error since */
};

static int socket_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int n)
{
    ssize_t sent = send(socket_of(bio), bytes, (size_t)n, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *out, int n)
{
    ssize_t got = recv(socket_of(bio), out, (size_t)n, 0);

    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (got == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

/* Made once per process and never freed: a description, like a vtable. Loop thread only. */
static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lane socket");
        if (method) {
            BIO_meth_set_write(method, bio_write);
            BIO_meth_set_read(method, bio_read);
            BIO_meth_set_ctrl(method, bio_ctrl);
        }
    }
    return method;
}

static void explain(char why[TLS_TEXT_MAX], const char *what, const char *detail)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    if (!reason || !*reason)
        reason = errno ? strerror(errno) : "unknown";
    snprintf(why, TLS_TEXT_MAX, "TLS: %s%s%.150s: %.60s", what, *detail ? " " : "", detail, reason);
    ERR_clear_error();
}

static int no_pass_phrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer, (void)size, (void)writing, (void)arg;
    return 0;
}

static bool is_set(const char *text)
{
    return text && *text;
}

static bool load_files(SSL_CTX *context, const struct tls_settings *s, char why[TLS_TEXT_MAX])
{
    if (is_set(s->ca) ? SSL_CTX_load_verify_locations(context, s->ca, NULL) != 1
                      : SSL_CTX_set_default_verify_paths(context) != 1) {
        explain(why, "CA", is_set(s->ca) ? s->ca : "store of the system");
        return false;
    }
    if (is_set(s->cert) && SSL_CTX_use_certificate_chain_file(context, s->cert) != 1) {
        explain(why, "certificate", s->cert);
        return false;
    }
    if (is_set(s->key) && SSL_CTX_use_PrivateKey_file(context, s->key, SSL_FILETYPE_PEM) != 1) {
        explain(why, "key", s->key);
        return false;
    }
    if (is_set(s->cert) && is_set(s->key) && SSL_CTX_check_private_key(context) != 1) {
        explain(why, "key", s->key);
        return false;
    }
    return true;
}

static bool expect_name(SSL *ssl, const struct tls_settings *s)
{
    bool address = pool_is_address(s->name);

    if (!address && SSL_set_tlsext_host_name(ssl, s->name) != 1)
        return false;
    if (s->insecure)
        return true;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), s->name) == 1;
    return SSL_set1_host(ssl, s->name) == 1;
}

static bool attach(struct tls *tls, int fd, const struct tls_settings *settings)
{
    BIO *bio;

    tls->ssl = SSL_new(tls->context);
    if (!tls->ssl || !expect_name(tls->ssl, settings) || !bio_method())
        return false;
    bio = BIO_new(bio_method());
    if (!bio)
        return false;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_connect_state(tls->ssl);
    return true;
}

struct tls *tls_create(int fd, const struct tls_settings *settings, char why[TLS_TEXT_MAX])
{
    struct tls *tls = calloc(1, sizeof(*tls));

    snprintf(why, TLS_TEXT_MAX, "no memory");
    if (!tls)
        return NULL;
    ERR_clear_error();
    errno = 0;
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->context) {
        tls_destroy(tls);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_default_passwd_cb(tls->context, no_pass_phrase);
    SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(tls->context, settings->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!load_files(tls->context, settings, why)) {
        tls_destroy(tls);
        return NULL;
    }
    if (!attach(tls, fd, settings)) {
        explain(why, "set-up for", settings->name);
        tls_destroy(tls);
        return NULL;
    }
    return tls;
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    if (tls->ssl && tls->open)
        SSL_shutdown(tls->ssl);
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    ERR_clear_error();
    free(tls);
}

/* `code` is what the SSL call returned; errno still that of the call. */
static enum tls_result outcome(struct tls *tls, int code, char why[TLS_TEXT_MAX], const char *what)
{
    switch (SSL_get_error(tls->ssl, code)) {
    case SSL_ERROR_NONE:
        return TLS_OK;
    case SSL_ERROR_WANT_READ:
        return TLS_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        snprintf(why, TLS_TEXT_MAX, "closed by the server");
        return TLS_ENDED;
    default:
        tls->open = false;
        explain(why, what, "");
        return TLS_FAILED;
    }
}

enum tls_result tls_handshake(struct tls *tls, char why[TLS_TEXT_MAX])
{
    enum tls_result result;
    long verdict;
    int code;

    ERR_clear_error();
    errno = 0;
    code = SSL_do_handshake(tls->ssl);
    result = outcome(tls, code, why, "handshake");
    tls->open = result == TLS_OK;
    verdict = SSL_get_verify_result(tls->ssl);
    if (result == TLS_FAILED && verdict != X509_V_OK)
        snprintf(why, TLS_TEXT_MAX, "TLS: certificate refused: %.150s",
                 X509_verify_cert_error_string(verdict));
    return result;
}

enum tls_result tls_read(struct tls *tls, char *out, size_t n, size_t *done, char why[TLS_TEXT_MAX])
{
    ERR_clear_error();
    errno = 0;
    return outcome(tls, SSL_read_ex(tls->ssl, out, n, done), why, "read");
}

enum tls_result tls_write(struct tls *tls, const char *bytes, size_t n, size_t *done,
                          char why[TLS_TEXT_MAX])
{
    ERR_clear_error();
    errno = 0;
    return outcome(tls, SSL_write_ex(tls->ssl, bytes, n, done), why, "write");
}
