/* Monotonic and wall time are different types, so that one is never compared with the other. Units
 * are microseconds inside; durations are int64_t with their unit in the name. Only the loop and the
 * programs read a clock; all else is told `now`. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mono {
    int64_t us;
} mono;

typedef struct wall { /* since the Unix epoch */
    int64_t us;
} wall;

#define MONO_NEVER ((mono){INT64_MAX})
#define WALL_TEXT_SIZE 28 /* "2026-01-01T00:00:00.000000Z" and NUL */

mono clock_mono(void);
/* The same clock, up to 4 ms behind it, for a third of the price. */
mono clock_mono_coarse(void);
wall clock_wall(void);
/* Writes RFC 3339 UTC with microseconds, WALL_TEXT_SIZE - 1 characters and NUL. */
void wall_format(wall when, char out[WALL_TEXT_SIZE]);
/* Reads what wall_format writes. */
bool wall_parse(const char *text, wall *out);

static inline mono mono_add_us(mono t, int64_t us) /* saturates at MONO_NEVER */
{
    return us > 0 && t.us > INT64_MAX - us ? MONO_NEVER : (mono){t.us + us};
}

static inline mono mono_add_ms(mono t, int64_t ms)
{
    return ms > INT64_MAX / 1000 ? MONO_NEVER : mono_add_us(t, ms * 1000);
}

static inline bool mono_before(mono a, mono b)
{
    return a.us < b.us;
}

static inline mono mono_min(mono a, mono b)
{
    return a.us < b.us ? a : b;
}

static inline bool mono_is_never(mono t)
{
    return t.us == INT64_MAX;
}

static inline int64_t mono_diff_us(mono later, mono earlier)
{
    return later.us - earlier.us;
}

#endif
