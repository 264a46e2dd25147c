"""Each policy's spread over real workers; targets, ranks, capacity, advise."""
import collections
import unittest

from case import SLOW, Case, hold, refuse, serve, wait_for


class Spread(Case):
    def spread(self, policy, weights=(100, 100, 100), requests=60, headers=None, service=None, **options):
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[service or self.fabric.service(policy=policy)])
        self.workers = [self.fabric.raw_worker("w%d" % n, serve, known_to=[self.router], weight=weight, **options)
                        for n, weight in enumerate(weights, 1)]
        self.client = self.fabric.client()
        seen = collections.Counter()
        for number in range(requests):
            answer = self.client.request("echo.request.x", b"%d" % number,
                                         headers(number) if callable(headers) else headers)
            self.assertServed(answer)
            seen[answer.get("Waybill-Worker")] += 1
        return seen

    def test_round_robin_is_even(self):
        self.assertEqual({"w1": 20, "w2": 20, "w3": 20}, self.spread("round_robin"))

    def test_round_robin_follows_weight_smoothly(self):
        self.assertEqual({"w1": 30, "w2": 15, "w3": 15}, self.spread("round_robin", (200, 100, 100)))
        order = []
        for number in range(8):
            order.append(self.client.request("echo.request.x", b"s").get("Waybill-Worker"))
        self.assertNotIn(["w1", "w1", "w1"], [order[n:n + 3] for n in range(6)], "smooth: never three in a row")

    def test_random_follows_weight(self):
        seen = self.spread("random", (300, 100, 100), 500)
        self.assertTrue(240 <= seen["w1"] <= 360, seen)
        self.assertTrue(60 <= seen["w2"] <= 145 and 60 <= seen["w3"] <= 145, seen)

    def test_power_of_two_reaches_all(self):
        seen = self.spread("power_of_two", requests=150)
        self.assertEqual({"w1", "w2", "w3"}, set(seen))
        self.assertTrue(all(count >= 20 for count in seen.values()), seen)

    def test_least_loaded_idle_ties_are_random(self):
        seen = self.spread("least_loaded", requests=150)
        self.assertTrue(all(seen[w] >= 20 for w in ("w1", "w2", "w3")), seen)

    def test_least_loaded_balances_what_is_in_flight(self):
        self.ready(hold, hold, hold, service=self.fabric.service(policy="least_loaded"))
        subs = [self.client.start("echo.request.x", b"%d" % n) for n in range(30)]
        wait_for(lambda: sum(len(w.attempts) for w in self.workers) == 30, 10 * SLOW, "30 attempts")
        self.assertEqual([10, 10, 10], [len(w.attempts) for w in self.workers])
        for worker in self.workers:
            for attempt in worker.attempts:
                attempt.answer(b"a")
        for sub in subs:
            self.assertServed(sub.next())
        self.assertAtRest()

    def test_least_loaded_divides_by_weight(self):
        self.bucket, self.router = self.fabric.watch(), self.fabric.router(services=[self.fabric.service(policy="least_loaded")])
        heavy = self.fabric.raw_worker("w1", hold, known_to=[self.router], weight=300)
        light = self.fabric.raw_worker("w2", hold, known_to=[self.router], weight=100)
        client = self.fabric.client()
        subs = [client.start("echo.request.x", b"%d" % n) for n in range(40)]
        wait_for(lambda: len(heavy.attempts) + len(light.attempts) == 40, 10 * SLOW, "40 attempts")
        self.assertTrue(29 <= len(heavy.attempts) <= 31, (len(heavy.attempts), len(light.attempts)))
        for attempt in heavy.attempts + light.attempts:
            attempt.answer(b"a")
        for sub in subs:
            sub.next()

    def test_device_weighted(self):
        """2 others and 1 cpu, ratio 2: a cpu worker only while cpu-in-flight < other-in-flight x 1 / (2 x 2)."""
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[self.fabric.service(policy="device_weighted", ratio=2)])
        gpus = [self.fabric.raw_worker("w%d" % n, hold, known_to=[self.router], **{"class": "gpu"}) for n in (1, 2)]
        cpu = self.fabric.raw_worker("w3", hold, known_to=[self.router], **{"class": "cpu"})
        client = self.fabric.client()
        for number in range(20):
            client.start("echo.request.x", b"%d" % number)
            wait_for(lambda: sum(len(w.attempts) for w in gpus + [cpu]) == number + 1, 10 * SLOW, "the attempt")
        # Walk the rule by hand: 4 others, then a cpu, 4 others, a cpu ...
        cpus = others = 0
        for number in range(20):
            if cpus < others * 1 // (2 * 2):
                cpus += 1
            else:
                others += 1
        self.assertEqual((cpus, others), (len(cpu.attempts), sum(len(g.attempts) for g in gpus)))
        self.assertTrue(abs(len(gpus[0].attempts) - len(gpus[1].attempts)) <= 1)
        for worker in gpus + [cpu]:
            for attempt in worker.attempts:
                attempt.answer(b"a")

    def test_hash_keeps_a_key_on_its_worker_and_every_router_agrees(self):
        seen = self.spread("hash", requests=1, headers={"Waybill-Hash-Key": "k"})
        owners = {}
        other = self.fabric.router("router-2", services=[self.fabric.service(policy="hash")])
        for worker in ("w1", "w2", "w3"):
            self.fabric.wait_known(other, worker)
        routers = set()
        for round_ in range(6):
            for key in range(20):
                answer = self.client.request("echo.request.x", b"q", {"Waybill-Hash-Key": "key-%d" % key})
                self.assertServed(answer)
                owners.setdefault(key, set()).add(answer.get("Waybill-Worker"))
        for worker in self.workers:
            routers |= {a.message.get("Waybill-Router") for a in worker.attempts}
        self.assertEqual({"router-1", "router-2"}, routers)
        self.assertTrue(all(len(who) == 1 for who in owners.values()), owners)
        self.assertEqual({"w1", "w2", "w3"}, {next(iter(who)) for who in owners.values()})
        self.assertEqual(1, len(seen))

    def test_hash_takes_the_session_as_key_and_needs_one(self):
        self.ready(serve, serve, serve, service=self.fabric.service(policy="hash"))
        by_key = self.client.request("echo.request.x", b"q", {"Waybill-Hash-Key": "abc"}).get("Waybill-Worker")
        by_session = self.client.request("echo.request.x", b"q", {"Waybill-Session": "abc"}).get("Waybill-Worker")
        self.assertEqual(by_key, by_session)
        self.assertError(self.client.request("echo.request.x", b"q"), "bad_request", delivered="no")

    def test_direct_needs_a_target(self):
        self.ready(serve, serve, service=self.fabric.service(policy="direct"))
        self.assertError(self.client.request("echo.request.x", b"q"), "bad_request", delivered="no")
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w2"}), "w2")


class Targets(Case):
    def test_exact(self):
        self.ready(serve, serve, serve)
        for n in range(6):
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w2", "Waybill-Request-Id": "t%d" % n}), "w2")
        self.assertEqual("target", self.bucket.record("t0")["reason"])

    def test_unknown(self):
        self.ready(serve)
        wait_for(lambda: self.client.request("echo.request.x", b"q", {"Waybill-Target": "nobody"}).error == "unknown_worker",
                 5 * SLOW, "unknown_worker")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Target": "nobody", "Waybill-Request-Id": "t404"})
        self.assertError(answer, "unknown_worker", delivered="no")
        self.assertNoRecord("t404")

    def test_ranks(self):
        (worker,) = self.ready(serve, heartbeat={"ranks": 4})
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1/2", "Waybill-Request-Id": "rank"})
        self.assertServed(answer, "w1")
        self.assertEqual("2", answer.get("Waybill-Rank"))
        self.assertEqual("2", worker.next().message.get("Waybill-Rank"))
        self.assertEqual(2, self.bucket.record("rank")["rank"])
        for target in ("w1/4", "w1/-1", "w1/x", "w1/", "/1", "w1/1/1", ""):
            self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Target": target}), "bad_request", delivered="no")
        rotation = [self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"}).get("Waybill-Rank") for _ in range(8)]
        self.assertEqual({"0", "1", "2", "3"}, set(rotation[:4]))
        self.assertEqual(rotation[:4], rotation[4:])
        self.assertIsNone(self.client.request("echo.request.x", b"q").get("Waybill-Rank"))

    def test_rank_of_a_worker_without_ranks(self):
        self.ready(serve)
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1/0"}), "bad_request")

    def test_draining_is_no_worker_and_never_served_elsewhere(self):
        self.ready(serve, serve)
        self.workers[0].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "draining")
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"}), "no_worker", delivered="no")
        for n in range(10):
            self.assertServed(self.client.request("echo.request.x", b"q"), "w2")

    def test_busy_is_overloaded(self):
        self.ready(serve, serve)
        self.workers[0].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "busy", 5 * SLOW, "busy")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"})
        self.assertEqual("worker", self.assertError(answer, "overloaded", delivered="no")["scope"])
        self.assertTrue(int(answer.get("Waybill-Retry-After-Ms")) > 0)
        for n in range(10):
            self.assertServed(self.client.request("echo.request.x", b"q"), "w2")

    def test_a_target_is_not_left_after_a_failure(self):
        self.ready(refuse(503), serve)
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "stay"})
        self.assertEqual("overloaded", answer.error)
        self.assertEqual([], self.workers[1].attempts)
        self.assertNoRecord("stay")


class Capacity(Case):
    def test_full_workers_are_not_chosen(self):
        self.ready(hold, hold, heartbeat={"capacity": 2})
        subs = [self.client.start("echo.request.x", b"%d" % n, {"Waybill-Request-Id": "c%d" % n}) for n in range(4)]
        wait_for(lambda: [len(w.attempts) for w in self.workers] == [2, 2], 10 * SLOW, "two attempts each")
        body = self.assertError(self.client.request("echo.request.x", b"x", {"Waybill-Request-Id": "c-over"}), "overloaded", delivered="no")
        self.assertEqual("service", body["scope"])
        self.assertNoRecord("c-over")
        self.workers[0].attempts[0].answer(b"a")
        wait_for(lambda: any(sub.messages for sub in subs), 5 * SLOW, "the answer")
        last = self.client.start("echo.request.x", b"again")
        self.workers[0].next(number=3)
        for worker in self.workers:
            for attempt in worker.attempts:
                attempt.answer(b"a")
        self.assertServed(last.next(), "w1")
        self.assertAtRest()

    def test_all_draining_is_no_worker(self):
        self.ready(serve)
        self.workers[0].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "draining")
        self.assertError(self.client.request("echo.request.x", b"q"), "no_worker", delivered="no")

    def test_no_worker_at_all(self):
        bucket = self.fabric.watch()
        self.fabric.router()
        answer = self.fabric.client().request("echo.request.x", b"q", {"Waybill-Request-Id": "nobody"})
        self.assertError(answer, "no_worker", delivered="no", attempts=[])
        self.assertEqual([], bucket.of("nobody"))


class Advise(Case):
    def test_names_the_choice_and_sends_nothing(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin"))
        first = self.client.request("echo.request.x", b"q").get("Waybill-Worker")
        advice = [self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true", "Waybill-Request-Id": "adv"}) for _ in range(3)]
        self.assertEqual(1, len({a.json()["worker"] for a in advice}), "no cursor moves: %r" % advice)
        second = self.client.request("echo.request.x", b"q").get("Waybill-Worker")
        self.assertEqual(second, advice[0].json()["worker"])
        self.assertNotEqual(first, second)
        self.assertEqual(2, sum(len(w.attempts) for w in self.workers))
        self.assertNoRecord("adv")

    def test_says_what_keeps_a_worker_out(self):
        self.ready(hold, serve)
        self.workers[0].beat(capacity=1)
        wait_for(lambda: self.fabric.known(self.router)["w1"]["capacity"] == 1, 5 * SLOW, "capacity 1")
        self.client.start("echo.request.x", b"q", {"Waybill-Target": "w1"})
        self.workers[0].next()
        advice = self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true"}).json()
        states = {c["worker"]: (c["state"], c["free"]) for c in advice["candidates"]}
        self.assertEqual({"w1": ("full", False), "w2": ("ready", True)}, states)
        self.assertEqual("w2", advice["worker"])

    def test_fails_as_the_request_would(self):
        self.ready(serve)
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true", "Waybill-Target": "w1/7"}), "bad_request")
        self.workers[0].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "busy", 5 * SLOW, "busy")
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true"}), "overloaded")


class Accept(Case):
    def test_what_is_not_accepted_is_bad_request(self):
        self.ready(serve, service=self.fabric.service(accept=["target"]))
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"}))
        for name, value in (("Waybill-Priority", "high"), ("Waybill-Idempotent", "true"), ("Waybill-Advise", "true"),
                            ("Waybill-Timeout-Ms", "1000")):
            self.assertError(self.client.request("echo.request.x", b"q", {name: value}), "bad_request", delivered="no")


if __name__ == "__main__":
    unittest.main()
