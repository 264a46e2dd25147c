/* What one choice costs (choose, charge, release) with 10 and with 10,000 workers, for each policy;
 * and a whole request. Fails where 10,000 workers cost more than 1.5 times the cost of 10 and more
 * than 200 ns.
 *
 * The least of many short rounds counts, and where it is above the bar more are run, for seconds: a
 * busy machine leaves one of them alone sooner or later, and a choice that is too slow is so in all
 * of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/request.h"

#define FEW 10
#define MANY 10000
#define RATIO_MAX 1.5
#define ENOUGH_NS 200
#define ROUNDS 200
#define ROUNDS_MAX 20000
#define TIMES 2000
#define IN_FLIGHT 64 /* charges held at any time, as in real use */

static struct registry *make(enum policy_kind policy, unsigned workers, struct pool **pool)
{
    struct registry_options options = {.max_workers = 16384, .seed = 1};
    struct pool_options pool_options = {.name = "bench",
                                        .policy = policy,
                                        .ratio = 8,
                                        .heartbeats = true,
                                        .eject_enabled = true,
                                        .max_attempts = 3,
                                        .budget_percent = 20};
    struct registry *registry = registry_create(&options);

    CHECK(registry != NULL);
    *pool = registry_add_pool(registry, &pool_options);
    CHECK(*pool != NULL);
    for (unsigned i = 0; i < workers; i++) {
        char id[16];
        struct worker_report report = {
            .subject = SPAN_LIT("s"), .epoch = 1, .interval_ms = 5000, .weight = 100};

        snprintf(id, sizeof(id), "w%u", i);
        report.id = span_str(id);
        report.class_name = i % 4 == 0 ? SPAN_LIT("cpu") : SPAN_LIT("gpu");
        CHECK(pool_report(*pool, &report, (mono){1}) == REPORT_NEW);
    }
    return registry;
}

static void choose_once(struct pool *pool, uint64_t n)
{
    static struct charge charges[IN_FLIGHT];
    struct charge *charge = &charges[n % IN_FLIGHT];
    struct choice choice = {.key = span_of(&n, sizeof(n))};
    struct worker *w;

    (void)charge_release(charge, (mono){2});
    if (pool == NULL)
        return;
    w = pool_choose(pool, &choice, false, (mono){2});
    if (w != NULL)
        charge_take(charge, w, (mono){2});
}

static void request_once(struct pool *pool, uint64_t n)
{
    static struct request requests[IN_FLIGHT];
    struct request *rq = &requests[n % IN_FLIGHT];
    struct request_params params = {.target_rank = -1, .key = span_of(&n, sizeof(n))};

    if (rq->state == REQUEST_OUT)
        request_answered(rq, (mono){3});
    request_end(rq, (mono){3});
    if (pool == NULL)
        return;
    request_init(rq, pool, &params, (mono){2});
    (void)request_choose(rq, NULL, (mono){0}, (mono){2});
    (void)request_resolve(rq, (mono){2});
    request_sent(rq, 128, (mono){2});
}

/* once: ends what the slot of n has in flight, and begins anew unless pool is NULL. */
static double least_ns(void (*once)(struct pool *pool, uint64_t n), struct pool *pool, double bar)
{
    double best = 1e9;
    uint64_t n = 0;

    for (int round = 0; round < ROUNDS || (best > bar && round < ROUNDS_MAX); round++) {
        mono begin = clock_mono();
        double ns;

        for (int i = 0; i < TIMES; i++)
            once(pool, n++);
        ns = (double)mono_diff_us(clock_mono(), begin) * 1000 / TIMES;
        if (ns < best)
            best = ns;
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        once(NULL, n++);
    return best;
}

static bool measure(enum policy_kind kind)
{
    double choose[2], whole[2] = {0, 0}, bar = 1e9;
    bool bad;

    for (int i = 0; i < 2; i++) {
        struct pool *pool;
        struct registry *registry = make(kind, i ? MANY : FEW, &pool);

        choose[i] = least_ns(choose_once, pool, bar);
        bar = RATIO_MAX * choose[0] > ENOUGH_NS ? RATIO_MAX * choose[0] : ENOUGH_NS;
        if (kind != POLICY_DIRECT)
            whole[i] = least_ns(request_once, pool, 1e9);
        registry_destroy(registry);
    }
    bad = choose[1] > bar;
    printf("%-16s %6.0fns %6.0fns %6.2f   %.0f / %.0f ns%s\n", policy_name(kind), choose[0],
           choose[1], choose[1] / choose[0], whole[0], whole[1], bad ? "  TOO SLOW" : "");
    return !bad;
}

int main(int argc, char **argv)
{
    bool good = true;

    printf("%-16s %8d %8d %6s   whole request, %d / %d\n", "policy", FEW, MANY, "ratio", FEW, MANY);
    for (int kind = 0; kind < POLICY_COUNT; kind++)
        if (argc < 2 || span_eq_str(span_str(argv[1]), policy_name((enum policy_kind)kind)))
            good = measure((enum policy_kind)kind) && good;
    return good ? 0 : 1;
}
