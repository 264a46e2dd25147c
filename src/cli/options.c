#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"

#define HELP_INDENT 31

static const struct option *find(const struct option_table *tables, unsigned count,
                                 const char *name, size_t len, char letter)
{
    for (unsigned t = 0; t < count; t++) {
        for (unsigned i = 0; i < tables[t].count; i++) {
            const struct option *o = &tables[t].options[i];
            if (name != NULL ? strlen(o->name) == len && memcmp(o->name, name, len) == 0
                             : o->letter != '\0' && o->letter == letter)
                return o;
        }
    }
    return NULL;
}

static bool store_int(const struct option *o, const char *value, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || n < o->min || n > o->max) {
        fprintf(stderr, "waybill: --%s: expected a number from %lld to %lld, got \"%s\"\n", o->name,
                (long long)o->min, (long long)o->max, value);
        return false;
    }
    *out = n;
    return true;
}

static bool store_rate(const struct option *o, const char *value, double *out)
{
    char *end;
    double n = strtod(value, &end);
    if (end == value || *end != '\0' || !(n >= 0 && n <= 1)) {
        fprintf(stderr, "waybill: --%s: expected a rate from 0 to 1, got \"%s\"\n", o->name, value);
        return false;
    }
    *out = n;
    return true;
}

bool option_is_file(const struct option *o)
{
    return o->value != NULL && (strcmp(o->value, "FILE") == 0 || strcmp(o->value, "PATH") == 0 ||
                                strcmp(o->value, "DIR") == 0);
}

void option_each_choice(const struct option *o, void (*fn)(void *arg, struct span word), void *arg)
{
    const char *at = o->choices;
    while (at != NULL && *at != '\0' && *at != '@') {
        size_t len = strcspn(at, " ");
        fn(arg, span_of(at, len));
        at += len + (at[len] == ' ');
    }
}

struct search {
    const char *word;
    bool found;
};

static void compare(void *arg, struct span word)
{
    struct search *s = arg;
    s->found = s->found || span_eq_str(word, s->word);
}

static bool store_text(const struct option *o, const char *value, const char **out)
{
    struct search s = {value, o->choices == NULL || *o->choices == '@'};
    option_each_choice(o, compare, &s);
    if (!s.found)
        fprintf(stderr, "waybill: --%s: expected one of %s, got \"%s\"\n", o->name, o->choices,
                value);
    *out = value;
    return s.found;
}

static bool store(const struct option *o, const char *value, void *target)
{
    void *place = (char *)target + o->offset;
    struct option_list *list = place;
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)place = true;
        return true;
    case OPTION_TEXT:
        return store_text(o, value, place);
    case OPTION_INT:
        return store_int(o, value, place);
    case OPTION_RATE:
        return store_rate(o, value, place);
    case OPTION_LIST:
        if (list->count == OPTION_LIST_MAX) {
            fprintf(stderr, "waybill: --%s: given more than %d times\n", o->name, OPTION_LIST_MAX);
            return false;
        }
        list->items[list->count++] = value;
        return true;
    }
    return false;
}

/* One argument that begins with a dash, and its value. */
static bool read_one(const struct option_table *tables, unsigned table_count, int argc, char **argv,
                     int *at, void *target)
{
    const char *word = argv[*at], *value = NULL;
    const struct option *o;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        size_t len = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        o = find(tables, table_count, word + 2, len, '\0');
        value = equals != NULL ? equals + 1 : NULL;
    } else {
        o = find(tables, table_count, NULL, 0, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
    }
    if (o == NULL) {
        fprintf(stderr, "waybill: unknown option %s\n", word);
        return false;
    }
    if (o->kind == OPTION_FLAG && value != NULL) {
        fprintf(stderr, "waybill: --%s takes no value\n", o->name);
        return false;
    }
    if (o->kind != OPTION_FLAG && value == NULL) {
        if (*at + 1 >= argc) {
            fprintf(stderr, "waybill: --%s: a value is missing (%s)\n", o->name, o->value);
            return false;
        }
        value = argv[++*at];
    }
    return store(o, value, target);
}

bool options_read(const struct option_table *tables, unsigned table_count, int argc, char **argv,
                  void *target, struct words *rest)
{
    bool open = true;
    *rest = (struct words){argv, 0};
    for (int i = 0; i < argc; i++) {
        if (open && strcmp(argv[i], "--") == 0)
            open = false;
        else if (open && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!read_one(tables, table_count, argc, argv, &i, target))
                return false;
        } else
            argv[rest->count++] = argv[i];
    }
    return true;
}

void options_print(const struct option_table *table)
{
    for (unsigned i = 0; i < table->count; i++) {
        const struct option *o = &table->options[i];
        char left[64], right[512];
        char letter[8] = "    ";
        if (o->letter != '\0')
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value != NULL ? " " : "",
                 o->value != NULL ? o->value : "");
        snprintf(right, sizeof(right), "%s%s%s%s", o->help, o->env != NULL ? " (" : "",
                 o->env != NULL ? o->env : "", o->env != NULL ? ")" : "");
        screen_add(STYLE_PLAIN, "  %-28s ", left);
        screen_folded(HELP_INDENT, right);
        screen_end();
    }
}
