/* Text for manual pages. Writes to a stream of the caller's, whose errors are the caller's to see.
 */
#ifndef BASE_ROFF_H
#define BASE_ROFF_H

#include <stdio.h>

/* No line begins with a control character, dashes are those of a keyboard. */
void roff_text(FILE *out, const char *text);
/* One option's entry: its forms and its help. letter 0, value NULL: none; a value in brackets
 * follows the name at once. The line of the help is left open, for more to be said. */
void roff_option(FILE *out, char letter, const char *name, const char *value, const char *help);

#endif
