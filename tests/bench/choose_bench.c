/* What one choice costs (choose, charge, release) with 10 and with 10,000 workers, for each policy;
 * and a whole request. Fails where 10,000 workers cost more than 1.5 times the cost of 10 and more
 * than 200 ns. The least of several rounds counts, so that a busy machine disturbs less. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/request.h"

#define ROUNDS 200
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

static double choose_ns(struct pool *pool)
{
    static struct charge charges[IN_FLIGHT];
    double best = 1e9;
    uint64_t n = 0;

    for (int round = 0; round < ROUNDS; round++) {
        mono begin = clock_mono();
        double ns;

        for (int i = 0; i < TIMES; i++) {
            struct choice choice;
            struct charge *charge = &charges[i % IN_FLIGHT];
            struct worker *w;

            n++;
            choice = (struct choice){.key = span_of(&n, sizeof(n))};
            (void)charge_release(charge, (mono){2});
            w = pool_choose(pool, &choice, false, (mono){2});
            if (w != NULL)
                charge_take(charge, w, (mono){2});
        }
        ns = (double)mono_diff_us(clock_mono(), begin) * 1000 / TIMES;
        if (ns < best)
            best = ns;
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        (void)charge_release(&charges[i], (mono){2});
    return best;
}

static double request_ns(struct pool *pool)
{
    static struct request requests[IN_FLIGHT];
    struct request_params params = {.target_rank = -1};
    double best = 1e9;

    for (int i = 0; i < IN_FLIGHT; i++)
        requests[i].state = REQUEST_ENDED;
    for (int round = 0; round < ROUNDS; round++) {
        mono begin = clock_mono();
        double ns;

        for (int i = 0; i < TIMES; i++) {
            struct request *rq = &requests[i % IN_FLIGHT];

            if (rq->state == REQUEST_OUT)
                request_answered(rq, (mono){3});
            request_end(rq, (mono){3});
            request_init(rq, pool, &params, (mono){2});
            (void)request_choose(rq, (mono){0}, (mono){2});
            (void)request_resolve(rq, (mono){2});
            request_sent(rq, 128, (mono){2});
        }
        ns = (double)mono_diff_us(clock_mono(), begin) * 1000 / TIMES;
        if (ns < best)
            best = ns;
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        request_end(&requests[i], (mono){3});
    return best;
}

int main(int argc, char **argv)
{
    int failed = 0;

    printf("%-16s %8s %8s %6s   %s\n", "policy", "10", "10000", "ratio",
           "whole request, 10 / 10000");
    for (int kind = 0; kind < POLICY_COUNT; kind++) {
        double choose[2], whole[2] = {0, 0};
        bool bad;

        if (argc > 1 && !span_eq_str(span_str(argv[1]), policy_name((enum policy_kind)kind)))
            continue;
        for (int i = 0; i < 2; i++) {
            struct pool *pool;
            struct registry *registry = make((enum policy_kind)kind, i ? 10000 : 10, &pool);

            choose[i] = choose_ns(pool);
            if (kind != POLICY_HASH && kind != POLICY_DIRECT)
                whole[i] = request_ns(pool);
            registry_destroy(registry);
        }
        bad = choose[1] > 1.5 * choose[0] && choose[1] > 200;
        failed |= bad;
        printf("%-16s %6.0fns %6.0fns %6.2f   %.0f / %.0f ns%s\n",
               policy_name((enum policy_kind)kind), choose[0], choose[1], choose[1] / choose[0],
               whole[0], whole[1], bad ? "  TOO SLOW" : "");
    }
    return failed;
}
