#include "cli/words.h"

#include <stddef.h>
#include <string.h>

struct word {
    const char *word, *meaning;
};

static const struct word reasons[] = {
    {"policy", "the service's policy chose it"},
    {"target", "the request named it"},
    {"session", "its session is bound to it"},
    {"rebind", "its session lost its worker and is bound anew"},
    {"spill", "its session's worker is busy, and the service lets it go elsewhere this once"},
    {"prefer", "it served this id before, and the retry prefers that"},
    {"avoid", "another one served this id before, and the retry avoids that"},
    {"fallback", "the first choice vanished before it was sent"},
    {"retry", "an earlier attempt failed"},
    {"resume", "it took over a stream that was interrupted"},
    {"adapter_load", "nobody holds the adapter; this one is to load it"},
};

static const struct word causes[] = {
    {"no_responders", "nobody listened there: it certainly did not get it"},
    {"gone", "it vanished between choice and send: it did not get it"},
    {"refused", "it said no: it did not take the work"},
    {"lost", "it left, restarted or missed its heartbeats: it may have got it"},
    {"timeout", "it did not answer in time: it may have got it"},
    {"cancelled", "the request was cancelled"},
    {"deadline", "the request's own time ran out"},
    {"link", "the router's link to NATS was down"},
    {"interrupted", "it failed after its first answer"},
};

static const struct word policies[] = {
    {"round_robin", "each in turn, by weight"},
    {"random", "at random, by weight"},
    {"power_of_two", "two at random, the less loaded one"},
    {"least_loaded", "the lowest load"},
    {"device_weighted", "cpu workers only once the others are well used"},
    {"hash", "the same key goes to the same worker"},
    {"direct", "only whom the request names"},
};

#define MEANING(table, word) meaning(table, sizeof(table) / sizeof((table)[0]), word)

static const char *meaning(const struct word *table, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].word, word) == 0)
            return table[i].meaning;
    return "";
}

const char *word_of_reason(const char *reason)
{
    return MEANING(reasons, reason);
}

const char *word_of_cause(const char *cause)
{
    return MEANING(causes, cause);
}

const char *word_of_policy(const char *policy)
{
    return MEANING(policies, policy);
}
