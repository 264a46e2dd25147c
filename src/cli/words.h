/* What the words of records and advice mean, in a sentence for people. "" for a word of a newer
 * router. Private to the commands. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

const char *word_of_reason(const char *reason); /* why this worker */
const char *word_of_cause(const char *cause);   /* why an attempt failed */
const char *word_of_policy(const char *policy); /* how one is chosen */

#endif
