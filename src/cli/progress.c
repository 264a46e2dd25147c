#include "cli/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_US 300000 /* work that is done by then shows no bar */
#define EACH_US 100000
#define BAR_MAX 60
#define TEXT_ROOM 44 /* beside the bar */

static struct {
    int64_t total, done;
    mono began, next;
    bool is_on, is_drawn;
} bar;

void progress_begin(int64_t total)
{
    mono now = clock_mono();
    bar.total = total;
    bar.done = 0;
    bar.began = now;
    bar.next = mono_add_us(now, FIRST_US);
    bar.is_on = total > 1 && isatty(STDERR_FILENO);
    bar.is_drawn = false;
}

static void draw(mono now)
{
    char cells[BAR_MAX + 1];
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    int room = width - TEXT_ROOM < BAR_MAX ? width - TEXT_ROOM : BAR_MAX;
    double share = (double)bar.done / (double)bar.total,
           spent_s = (double)mono_diff_us(now, bar.began) / 1e6,
           left_s = share > 0 ? spent_s / share - spent_s : 0;
    room = room > 0 ? room : 0;
    memset(cells, ' ', (size_t)room);
    memset(cells, '=', (size_t)(share * room));
    cells[room] = '\0';
    fprintf(stderr, "\r[%s] %lld of %lld, %.0f s left\033[K", cells, (long long)bar.done,
            (long long)bar.total, left_s);
    fflush(stderr);
    bar.is_drawn = true;
    bar.next = mono_add_us(now, EACH_US);
}

void progress_step(void)
{
    bar.done++;
    mono now = clock_mono();
    if (bar.is_on && !mono_before(now, bar.next))
        draw(now);
}

void progress_clear(void)
{
    if (!bar.is_drawn)
        return;
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
    bar.is_drawn = false;
}

void progress_end(void)
{
    progress_clear();
    bar.is_on = false;
}
