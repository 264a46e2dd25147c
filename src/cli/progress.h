/* A bar on stderr while long work is done, where that is a terminal; nothing for the first moment,
 * so that short work shows none. One at a time. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

void progress_begin(int64_t total); /* 1 or fewer: no bar */
void progress_step(void);           /* one more is done */
/* Takes the bar away, since something is to be printed; the next step draws it again. */
void progress_clear(void);
void progress_end(void);

#endif
