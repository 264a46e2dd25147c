#include "store/reply.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACK_TOKENS_MAX = 12 };

/* JetStream's error numbers to ours. Those left out have nothing for a caller to act on. */
static const struct {
    int err_code;
    wb_status status;
} errors[] = {
    {10071, WB_EXISTS},    /* wrong last sequence */
    {10164, WB_EXISTS},    /* the same, of a newer server that does not say which it has */
    {10037, WB_NOT_FOUND}, /* no message */
    {10077, WB_FULL},      /* the stream's own limits (or what stands behind them) */
    {10047, WB_FULL},      /* storage */
    {10028, WB_FULL},      /* memory */
    {10023, WB_FULL},      /* insufficient resources */
    {10002, WB_FULL},      /* the account's resources */
    {10167, WB_FULL},      /* too many requests at once */
    {10054, WB_TOO_LARGE}, /* over the stream's message size */
    {10059, WB_CLOSED},    /* no such stream */
    {10008, WB_CLOSED},    /* not available now */
    {10009, WB_CLOSED},    /* no leader */
    {10039, WB_CLOSED},    /* not enabled for the account */
    {10076, WB_CLOSED},    /* not enabled */
};

static wb_status error_of(const cJSON *tree)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(tree, "error");
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(error, "err_code");

    if (!error)
        return WB_OK;
    for (size_t i = 0; cJSON_IsNumber(number) && i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].err_code == number->valueint)
            return errors[i].status;
    return WB_IO;
}

static uint64_t sequence_of(const cJSON *tree)
{
    const cJSON *seq = cJSON_GetObjectItemCaseSensitive(tree, "seq");

    return cJSON_IsNumber(seq) && seq->valuedouble >= 1 &&
                   seq->valuedouble < 9e15 /* exact in a double */
               ? (uint64_t)seq->valuedouble
               : 0;
}

wb_status reply_read_ack(struct span json, uint64_t *revision)
{
    cJSON *tree = cJSON_ParseWithLength(json.ptr, json.len);
    wb_status status = tree ? error_of(tree) : WB_IO;

    *revision = sequence_of(tree);
    if (status == WB_OK && *revision == 0)
        status = WB_IO;
    cJSON_Delete(tree);
    return status;
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* NUL-terminated besides its length. NULL: no memory, or no base64. */
static char *from_base64(const char *text, size_t *length)
{
    size_t n = strlen(text), out = 0;
    char *bytes = malloc(n / 4 * 3 + 4);
    unsigned held = 0, bits = 0;

    while (n > 0 && text[n - 1] == '=')
        n--;
    for (size_t i = 0; bytes && i < n; i++) {
        int digit = digit_of(text[i]);

        if (digit < 0) {
            free(bytes);
            return NULL;
        }
        held = (held << 6 | (unsigned)digit) & 0xffffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[out++] = (char)(held >> bits & 0xff);
        }
    }
    if (bytes)
        bytes[out] = '\0';
    *length = out;
    return bytes;
}

/* The server trims the zeros that end a fraction; wall_parse wants six digits. */
static wall time_of(const char *text)
{
    char fixed[WALL_TEXT_SIZE] = "1970-01-01T00:00:00.000000Z";
    size_t whole = sizeof("1970-01-01T00:00:00") - 1;
    wall when = {0};

    if (!text || strlen(text) <= whole)
        return when;
    memcpy(fixed, text, whole);
    text += whole;
    for (size_t i = 0; *text == '.' && i < 6 && text[1 + i] >= '0' && text[1 + i] <= '9'; i++)
        fixed[whole + 1 + i] = text[1 + i];
    return wall_parse(fixed, &when) ? when : (wall){0};
}

bool reply_is_marker(const char *operation, const char *reason)
{
    return (operation && (strcmp(operation, "DEL") == 0 || strcmp(operation, "PURGE") == 0)) ||
           (reason && *reason);
}

static bool headers_mark(const char *base64)
{
    size_t length;
    char *block = from_base64(base64, &length);
    bool marks = block && (strstr(block, "\r\nKV-Operation: DEL\r\n") ||
                           strstr(block, "\r\nKV-Operation: PURGE\r\n") ||
                           strstr(block, "\r\nNats-Marker-Reason:"));

    free(block);
    return marks;
}

static const char *text_in(const cJSON *tree, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tree, name));
}

wb_status reply_read_message(struct span json, struct reply_message *out)
{
    cJSON *tree = cJSON_ParseWithLength(json.ptr, json.len);
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(tree, "message");
    const char *headers = text_in(message, "hdrs"), *data = text_in(message, "data");
    wb_status status = tree ? error_of(tree) : WB_IO;

    *out = (struct reply_message){.revision = sequence_of(message),
                                  .created = time_of(text_in(message, "time")),
                                  .deleted = headers && headers_mark(headers)};
    if (status == WB_OK && out->revision == 0)
        status = WB_IO;
    if (status == WB_OK && data && *data && !out->deleted) {
        out->value = from_base64(data, &out->value_len);
        if (!out->value)
            status = WB_IO;
    }
    cJSON_Delete(tree);
    return status;
}

/* $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<ns>.<pending>, or with a
 * domain and an account's hash before the stream and, it may be, a token at the end. */
bool reply_read_place(const char *subject, struct reply_place *out)
{
    struct span tokens[ACK_TOKENS_MAX];
    unsigned long long seq = 0, consumer_seq = 0, ns = 0, pending = 0;
    unsigned n = 0, at;

    for (const char *start = subject; subject && n < ACK_TOKENS_MAX;) {
        const char *dot = strchr(start, '.');

        tokens[n++] = span_of(start, dot ? (size_t)(dot - start) : strlen(start));
        if (!dot)
            break;
        start = dot + 1;
    }
    if (n < 9 || n == 10 || !span_eq_str(tokens[0], "$JS") || !span_eq_str(tokens[1], "ACK"))
        return false;
    at = n == 9 ? 5 : 7;
    /* nanoseconds have 19 digits: without the last three they are microseconds */
    if (tokens[at + 2].len < 4)
        return false;
    tokens[at + 2].len -= 3;
    if (!span_to_u64(tokens[at], &seq) || !span_to_u64(tokens[at + 1], &consumer_seq) ||
        !span_to_u64(tokens[at + 2], &ns) || !span_to_u64(tokens[at + 3], &pending))
        return false;
    *out = (struct reply_place){seq, consumer_seq, pending, {(int64_t)ns}};
    return true;
}
