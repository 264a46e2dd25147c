/* Seeds never outlive the call that reads them: the file's text and the decoded key are wiped
 * before return. */
#include "lane/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RAW_SIZE 36 /* two prefix bytes, 32 of seed, two of check */
#define SEED_LEN 58 /* RAW_SIZE in base32 */
#define PREFIX_SEED (18 << 3)
#define PREFIX_USER (20 << 3)

static bool next_line(struct span *rest, struct span *line)
{
    const char *lf;

    if (rest->len == 0)
        return false;
    lf = memchr(rest->ptr, '\n', rest->len);
    *line = span_of(rest->ptr, lf ? (size_t)(lf - rest->ptr) : rest->len);
    rest->ptr += line->len + (lf ? 1 : 0);
    rest->len -= line->len + (lf ? 1 : 0);
    while (line->len > 0 && strchr(" \t\r", line->ptr[line->len - 1]))
        line->len--;
    while (line->len > 0 && (*line->ptr == ' ' || *line->ptr == '\t'))
        line->ptr++, line->len--;
    return true;
}

bool credentials_find_jwt(struct span file, struct span *jwt)
{
    struct span line;

    while (next_line(&file, &line)) {
        if (span_starts(line, SPAN_LIT("eyJ"))) {
            *jwt = line;
            return true;
        }
    }
    return false;
}

bool credentials_find_seed(struct span file, struct span *seed)
{
    struct span line;

    while (next_line(&file, &line)) {
        if (line.len == SEED_LEN && span_starts(line, SPAN_LIT("SU"))) {
            *seed = line;
            return true;
        }
    }
    return false;
}

static wb_status read_file(const char *path, char text[CREDENTIALS_FILE_MAX], size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = 0;

    if (fd < 0)
        return WB_IO;
    while (n < CREDENTIALS_FILE_MAX && (got = read(fd, text + n, CREDENTIALS_FILE_MAX - n)) > 0)
        n += (size_t)got;
    close(fd);
    *len = n;
    return got < 0 ? WB_IO : n == CREDENTIALS_FILE_MAX ? WB_TOO_LARGE : WB_OK;
}

static uint16_t check_of(const unsigned char *bytes, size_t n)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < n; i++) {
        crc = (uint16_t)(crc ^ (bytes[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc;
}

static bool base32_read(const char *text, unsigned char *out, size_t n)
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t done = 0;

    for (; *text && done < n; text++) {
        int value = *text >= 'A' && *text <= 'Z'   ? *text - 'A'
                    : *text >= '2' && *text <= '7' ? *text - '2' + 26
                                                   : -1;

        if (value < 0)
            return false;
        bits = bits << 5 | (uint32_t)value;
        have += 5;
        if (have >= 8) {
            have -= 8;
            out[done++] = (unsigned char)(bits >> have);
        }
    }
    return done == n;
}

/* `width` bits a digit, most significant first, the last filled up with zeros; no padding. */
static void write_digits(const unsigned char *bytes, size_t n, unsigned width, const char *alphabet,
                         char *out)
{
    uint32_t bits = 0;
    unsigned have = 0, mask = (1u << width) - 1;

    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | bytes[i];
        have += 8;
        for (; have >= width; have -= width)
            *out++ = alphabet[bits >> (have - width) & mask];
    }
    if (have > 0)
        *out++ = alphabet[bits << (width - have) & mask];
    *out = '\0';
}

static void base32_write(const unsigned char *bytes, size_t n, char *out)
{
    write_digits(bytes, n, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out);
}

/* The private half of a user's seed, checked. The kind of key is spread over both prefix bytes. */
static EVP_PKEY *key_of(const char *seed)
{
    unsigned char raw[RAW_SIZE];
    EVP_PKEY *key = NULL;
    uint16_t check;

    if (strlen(seed) != SEED_LEN || !base32_read(seed, raw, RAW_SIZE))
        return NULL;
    check = check_of(raw, RAW_SIZE - 2);
    if ((raw[0] & 0xf8) == PREFIX_SEED &&
        ((raw[0] & 7) << 5 | (raw[1] & 0xf8) >> 3) == PREFIX_USER &&
        raw[RAW_SIZE - 2] == (check & 0xff) && raw[RAW_SIZE - 1] == check >> 8)
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw + 2, 32);
    OPENSSL_cleanse(raw, sizeof(raw));
    return key;
}

wb_status credentials_public_of(const char *seed, char out[64])
{
    unsigned char public[35] = {PREFIX_USER};
    EVP_PKEY *key = key_of(seed);
    size_t n = 32;
    bool ok = key && EVP_PKEY_get_raw_public_key(key, public + 1, &n) == 1 && n == 32;
    uint16_t check = check_of(public, 33);

    EVP_PKEY_free(key);
    if (!ok)
        return WB_INVALID;
    public[33] = (unsigned char)(check & 0xff);
    public[34] = (unsigned char)(check >> 8);
    base32_write(public, sizeof(public), out);
    return WB_OK;
}

static void base64url_write(const unsigned char *bytes, size_t n, char *out)
{
    write_digits(bytes, n, 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
                 out);
}

/* By OpenSSL: nats_Sign would need nats.c opened first, with its threads. */
static wb_status sign(struct credentials *who, const char *seed, const char *nonce,
                      char why[CREDENTIALS_TEXT_MAX])
{
    unsigned char signature[64];
    size_t n = sizeof(signature);
    EVP_PKEY *key;
    EVP_MD_CTX *context;
    bool ok;

    if (!*nonce)
        return WB_OK;
    key = key_of(seed);
    context = EVP_MD_CTX_new();
    ok = key && context && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
         EVP_DigestSign(context, signature, &n, (const unsigned char *)nonce, strlen(nonce)) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    if (!ok) {
        snprintf(why, CREDENTIALS_TEXT_MAX, "the nkey seed does not sign");
        return WB_INVALID;
    }
    base64url_write(signature, n, who->signature);
    return WB_OK;
}

static bool is_set(const char *text)
{
    return text && *text;
}

/* JWT and seed of a creds file, or the seed of an nkey file. */
static wb_status from_file(struct credentials *who, const char *path, bool wants_jwt,
                           const char *nonce, char why[CREDENTIALS_TEXT_MAX])
{
    char text[CREDENTIALS_FILE_MAX], seed[CREDENTIALS_SEED_MAX] = "";
    size_t len = 0;
    struct span jwt = SPAN_EMPTY, found;
    wb_status status = read_file(path, text, &len);

    if (status != WB_OK) {
        snprintf(why, CREDENTIALS_TEXT_MAX, "%.160s: %s", path,
                 status == WB_IO ? strerror(errno) : "too large");
    } else if (!credentials_find_seed(span_of(text, len), &found) ||
               (wants_jwt && !credentials_find_jwt(span_of(text, len), &jwt))) {
        snprintf(why, CREDENTIALS_TEXT_MAX, "%.160s: holds no %s", path,
                 wants_jwt ? "user JWT and seed" : "user seed");
        status = WB_INVALID;
    } else {
        memcpy(seed, found.ptr, found.len);
        seed[found.len] = '\0';
        if (wants_jwt && !(who->jwt = strndup(jwt.ptr, jwt.len)))
            status = WB_NO_MEMORY;
        if (status == WB_OK && !wants_jwt) {
            status = credentials_public_of(seed, who->public);
            if (status != WB_OK)
                snprintf(why, CREDENTIALS_TEXT_MAX, "%.160s: not a user's seed", path);
        }
        if (status == WB_OK)
            status = sign(who, seed, nonce, why);
    }
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(seed, sizeof(seed));
    return status;
}

wb_status credentials_gather(struct credentials *who, const struct lane_options *options,
                             const char *url_user, const char *url_password, const char *url_token,
                             const char *nonce, char why[CREDENTIALS_TEXT_MAX])
{
    wb_status status = WB_OK;

    memset(who, 0, sizeof(*who));
    snprintf(why, CREDENTIALS_TEXT_MAX, "no memory");
    if (is_set(url_user) || is_set(url_token)) {
        who->user = url_user;
        who->password = url_password;
        who->token = url_token;
    } else {
        who->user = options->user;
        who->password = options->password;
        who->token = options->token;
    }
    if (is_set(options->creds_file)) {
        status = from_file(who, options->creds_file, true, nonce, why);
    } else if (is_set(options->nkey_file)) {
        status = from_file(who, options->nkey_file, false, nonce, why);
    } else if (is_set(options->nkey_seed)) {
        status = credentials_public_of(options->nkey_seed, who->public);
        if (status == WB_OK)
            status = sign(who, options->nkey_seed, nonce, why);
        else
            snprintf(why, CREDENTIALS_TEXT_MAX, "nkey_seed: not a user's seed");
    }
    if (status != WB_OK)
        credentials_fini(who);
    return status;
}

void credentials_fini(struct credentials *who)
{
    if (who->jwt)
        OPENSSL_cleanse(who->jwt, strlen(who->jwt));
    free(who->jwt);
    OPENSSL_cleanse(who, sizeof(*who));
}
