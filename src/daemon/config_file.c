/* From a file to a tree. Comments become spaces in place, so that the line and column of a mistake
 * are those of the file. */
#include "daemon/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/utf8.h"

#define FILE_MAX (4u << 20)

/* Passes a string that begins at text[i]; returns the offset behind its closing quote, or len. A
 * NUL by escape would cut the string short without a word, so it is an error. */
static size_t pass_string(const char *text, size_t len, size_t i, const char **wrong)
{
    for (i++; i < len && text[i] != '"'; i++) {
        if (text[i] != '\\')
            continue;
        if (len - i > 5 && memcmp(text + i, "\\u0000", 6) == 0) {
            *wrong = "a string holds a NUL character";
            return i;
        }
        i++;
    }
    return i < len ? i + 1 : len;
}

const char *config_strip_comments(char *text, size_t len, size_t *where)
{
    const char *wrong = NULL;
    size_t i = 0;

    while (i < len) {
        size_t begin = i;

        *where = i;
        if (text[i] == 0)
            return "a NUL byte";
        if (text[i] == '"') {
            i = pass_string(text, len, i, &wrong);
            if (wrong)
                return wrong;
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '/') {
            while (i < len && text[i] != '\n')
                text[i++] = ' ';
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '*') {
            for (i += 2; i + 1 < len && !(text[i] == '*' && text[i + 1] == '/'); i++)
                ;
            if (i + 1 >= len)
                return "a comment /* is not closed";
            i += 2;
            for (size_t k = begin; k < i; k++)
                if (text[k] != '\n')
                    text[k] = ' ';
        } else {
            i++;
        }
    }
    return NULL;
}

static void error_at(struct config_errors *errors, const char *text, size_t offset,
                     const char *what)
{
    unsigned line = 1, column = 1;

    for (size_t i = 0; i < offset; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    config_error(errors, "", "line %u, column %u: %s", line, column, what);
}

/* cJSON stops at the closing bracket then, or behind it, and says no more than that it stopped. */
static bool is_comma_at_the_end(const char *text, size_t *where)
{
    for (size_t back = 0; back < 2 && back <= *where; back++) {
        size_t at = *where - back;

        if (text[at] != '}' && text[at] != ']')
            continue;
        while (at > 0 && strchr(" \t\r\n", text[at - 1]))
            at--;
        if (at > 0 && text[at - 1] == ',') {
            *where = at - 1;
            return true;
        }
    }
    return false;
}

cJSON *config_text_parse(char *text, size_t len, struct config_errors *errors)
{
    size_t where = 0;
    const char *end = NULL, *wrong = config_strip_comments(text, len, &where);
    cJSON *root;

    if (!wrong && (where = utf8_bad_at(span_of(text, len))) < len)
        wrong = "a byte that is not UTF-8";
    if (wrong) {
        error_at(errors, text, where, wrong);
        return NULL;
    }
    root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (!root) {
        where = end ? (size_t)(end - text) : 0;
        where = where < len ? where : len;
        wrong = is_comma_at_the_end(text, &where) ? "a comma with nothing behind it"
                                                  : "expected JSON; this is not";
        error_at(errors, text, where, wrong);
        return NULL;
    }
    where = (size_t)(end - text);
    where += strspn(end, " \t\r\n");
    if (where < len) {
        error_at(errors, text, where, "unexpected text behind the configuration's closing brace");
        cJSON_Delete(root);
        return NULL;
    }
    if (!cJSON_IsObject(root)) {
        config_error(errors, "", "expected an object {...}");
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

cJSON *config_file_read(const char *file, struct config_errors *errors)
{
    FILE *in = fopen(file, "re");
    char *text = malloc(FILE_MAX + 2);
    cJSON *root = NULL;
    size_t len;

    if (!in) {
        config_error(errors, "", "cannot open: %s", strerror(errno));
    } else if (!text) {
        errors->no_memory = true;
    } else {
        errno = 0;
        len = fread(text, 1, FILE_MAX + 1, in);
        text[len] = 0;
        if (ferror(in))
            config_error(errors, "", "cannot read: %s", strerror(errno));
        else if (len > FILE_MAX)
            config_error(errors, "", "the file is larger than 4 MiB");
        else
            root = config_text_parse(text, len, errors);
    }
    if (in)
        fclose(in);
    free(text);
    return root;
}
