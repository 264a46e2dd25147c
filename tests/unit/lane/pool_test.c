/* Addresses of servers in all their spellings, and the walk over them. */
#include "lane/pool.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct pool_server parsed(const char *url)
{
    struct pool_server s;

    ck_assert_msg(pool_parse(span_str(url), &s) == WB_OK, "%s", url);
    return s;
}

START_TEST(spellings)
{
    static const struct {
        const char *url, *host, *user, *password, *token;
        int port;
        bool tls;
    } good[] = {
        {"nats://h:1", "h", "", "", "", 1, false},
        {"tls://h.example", "h.example", "", "", "", 4222, true},
        {"h", "h", "", "", "", 4222, false},
        {"h:65535/", "h", "", "", "", 65535, false},
        {"127.0.0.1:4223", "127.0.0.1", "", "", "", 4223, false},
        {"[::1]:4223", "::1", "", "", "", 4223, false},
        {"nats://[fe80::1]", "fe80::1", "", "", "", 4222, false},
        {"::1", "::1", "", "", "", 4222, false},
        {"nats://u:p%40x%3a@h:1", "h", "u", "p@x:", "", 1, false},
        {"nats://u:p@q@h", "h", "u", "p@q", "", 4222, false},
        {"nats://tok@h", "h", "", "", "tok", 4222, false},
        {" nats://h ", "h", "", "", "", 4222, false},
    };
    static const char *const bad[] = {"",
                                      "nats://",
                                      "http://h",
                                      "h:0",
                                      "h:65536",
                                      "h:",
                                      "h:x",
                                      "[::1",
                                      "[::1]x",
                                      "a:b:c",
                                      "nats://u:p%4@h",
                                      "nats://u:%00@h",
                                      "h h",
                                      "[]:1",
                                      "nats://@",
                                      "h/path",
                                      "h?x"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct pool_server s = parsed(good[i].url);

        ck_assert_str_eq(s.host, good[i].host);
        ck_assert_str_eq(s.user, good[i].user);
        ck_assert_str_eq(s.password, good[i].password);
        ck_assert_str_eq(s.token, good[i].token);
        ck_assert_int_eq(s.port, good[i].port);
        ck_assert(s.tls == good[i].tls);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pool_server s;

        ck_assert_msg(pool_parse(span_str(bad[i]), &s) != WB_OK, "%s", bad[i]);
    }
}
END_TEST

START_TEST(walk_goes_round)
{
    struct pool pool;
    struct rng rng;
    char why[128];
    int ports[6];

    rng_seed(&rng, 7);
    pool_init(&pool);
    ck_assert(pool_add_list(&pool, SPAN_LIT("a:1, b:2,c:3,a:1"), &rng, why) == WB_OK);
    ck_assert_uint_eq(pool.count, 3);
    for (int i = 0; i < 6; i++)
        ports[i] = pool_next(&pool)->port;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ports[i], ports[i + 3]);
    ck_assert_int_eq(ports[0] + ports[1] + ports[2], 6);
    pool_fini(&pool);
    ck_assert(pool_add_list(&pool, SPAN_EMPTY, &rng, why) == WB_OK);
    ck_assert_str_eq(pool_next(&pool)->host, "127.0.0.1");
    pool_fini(&pool);
    ck_assert(pool_add_list(&pool, SPAN_LIT("a,nats://u:secret@b:x"), &rng, why) != WB_OK);
    ck_assert_ptr_null(strstr(why, "secret"));
    pool_fini(&pool);
}
END_TEST

START_TEST(learned_servers_come_and_go)
{
    struct pool pool;
    struct rng rng;
    char why[128];
    struct pool_server *from, *learned = NULL;

    rng_seed(&rng, 7);
    pool_init(&pool);
    ck_assert(pool_add_list(&pool, SPAN_LIT("nats://u:p@seed.example:1"), &rng, why) == WB_OK);
    from = pool_next(&pool);
    pool_learn_begin(&pool);
    pool_learn(&pool, SPAN_LIT("10.0.0.1:2"), from);
    pool_learn(&pool, SPAN_LIT("10.0.0.2:2"), from);
    pool_learn(&pool, SPAN_LIT("seed.example:1"), from);
    pool_learn(&pool, SPAN_LIT("junk:x"), from);
    pool_learn_end(&pool, from);
    ck_assert_uint_eq(pool.count, 3);
    for (unsigned i = 0; i < pool.count; i++) {
        if (strcmp(pool.servers[i]->host, "10.0.0.1") == 0)
            learned = pool.servers[i];
    }
    ck_assert_ptr_nonnull(learned);
    ck_assert_str_eq(learned->user, "u");
    ck_assert_str_eq(learned->tls_name, "seed.example");
    pool_learn_begin(&pool);
    pool_learn(&pool, SPAN_LIT("10.0.0.2:2"), from);
    pool_learn_end(&pool, learned); /* we are on it: it stays */
    ck_assert_uint_eq(pool.count, 3);
    pool_learn_end(&pool, from);
    ck_assert_uint_eq(pool.count, 2);
    for (int i = 0; i < 300; i++) {
        char url[32];

        snprintf(url, sizeof(url), "10.1.0.%d:1", i);
        pool_learn(&pool, span_str(url), from);
    }
    ck_assert_uint_eq(pool.count, POOL_MAX);
    pool_fini(&pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tests = tcase_create("pool");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, spellings);
    tcase_add_test(tests, walk_goes_round);
    tcase_add_test(tests, learned_servers_come_and_go);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
