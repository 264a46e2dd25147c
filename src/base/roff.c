#include "base/roff.h"

#include <stdbool.h>

void roff_text(FILE *out, const char *text)
{
    bool begins = true;

    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\'')
            fputs("\\(aq", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
}

void roff_option(FILE *out, char letter, const char *name, const char *value, const char *help)
{
    fputs(".TP\n", out);
    if (letter)
        fprintf(out, "\\fB\\-%c\\fR, ", letter);
    fputs("\\fB\\-\\-", out);
    roff_text(out, name);
    fputs("\\fR", out);
    if (value) {
        fputs(*value == '[' ? "\\fI" : " \\fI", out);
        roff_text(out, value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    roff_text(out, help);
}
