/* Lines for people: colour on a terminal only and never with NO_COLOR, cut or folded to the
 * terminal's width; a pipe gets every line whole and plain. Control characters become '?', since
 * what is shown was written by others. Private to the commands. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARN, STYLE_BAD };

/* Columns of the terminal; 0: stdout is none. */
int screen_width(void);
/* One line on stdout, piece by piece; screen_end ends it and flushes. */
void screen_add(enum style style, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_end(void);
/* A text that begins where the line stands and is folded between words, further lines indented. */
void screen_folded(int indent, const char *text);
/* How an outcome of a record is shown. */
enum style screen_style_of(const char *outcome);

#endif
