/* Completions to stdout, one for each shell. Private to `completion`. */
#ifndef CLI_SHELLS_H
#define CLI_SHELLS_H

void shells_bash(void);
void shells_zsh(void);
void shells_fish(void);

#endif
