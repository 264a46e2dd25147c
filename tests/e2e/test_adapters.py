"""Adapters (spec section 9): who holds one serves it; loading on demand; slots; what is counted."""
import collections
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, wait_for

TEN = tuple("w%d" % n for n in range(1, 11))


class Adapters(Case):
    fabric_options = {"workers": TEN}

    def ten(self, handler=serve, holders=("w7",), **options):
        """Ten workers; those named hold `fr`."""
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[self.fabric.service(**options)])
        self.workers = {w: self.fabric.raw_worker(w, handler, known_to=[self.router], adapters=["fr"] if w in holders else [])
                        for w in TEN}
        self.client = self.fabric.client()

    def ask(self, adapter="fr", data=b"q", **headers):
        return self.client.request("echo.request.x", data, self.headers(adapter, **headers))

    @staticmethod
    def headers(adapter="fr", **headers):
        return {"Waybill-Adapter": adapter, **{"Waybill-" + name.replace("_", "-"): value for name, value in headers.items()}}

    def adapters(self, router=None):
        (service,) = self.fabric.show_workers(router or self.router)["services"]
        self.assertEqual(60, service["arrivals_window_s"])
        return {entry["adapter"]: entry for entry in service["adapters"]}

    def beat_until(self, worker, adapters, router=None):
        worker.beat(adapters=adapters)
        wait_for(lambda: self.fabric.known(router or self.router)[worker.id]["adapters"] == sorted(adapters), 5 * SLOW, "the adapters %r" % adapters)

    def test_one_of_ten_then_none_then_busy(self):
        self.ten()
        for n in range(12):
            self.assertServed(self.ask(Request_Id="a%d" % n), "w7")
        record = self.bucket.record("a3")
        self.assertEqual(("fr", "policy", "w7"), (record["adapter"], record["reason"], record["worker"]))
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "plain"}))
        self.assertIsNone(self.bucket.record("plain")["adapter"])
        self.assertEqual({"adapter": "fr", "holders": 1, "routable": 1, "free": 1, "in_flight": 0, "arrivals": 12, "requests": 12},
                         self.adapters()["fr"])

        self.assertError(self.ask("other", Request_Id="none"), "unknown_adapter", delivered="no", attempts=[])
        self.beat_until(self.workers["w7"], [])
        self.assertError(self.ask(Request_Id="gone"), "unknown_adapter", delivered="no", attempts=[])
        self.assertNoRecord("none", "gone")

        self.beat_until(self.workers["w7"], ["fr", "de"])
        self.workers["w7"].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w7"]["state"] == "busy", 5 * SLOW, "busy")
        busy = self.ask(Request_Id="busy")
        self.assertEqual("adapter", self.assertError(busy, "overloaded", delivered="no", attempts=[])["scope"])
        self.assertTrue(int(busy.get("Waybill-Retry-After-Ms")) > 0)
        self.assertEqual([], [w.id for w in self.workers.values() if w.id != "w7" and any(a.message.get("Waybill-Adapter") for a in w.attempts)])
        self.assertNoRecord("busy")
        self.assertNotIn("other", self.adapters(), "names that only clients say are not remembered")

    def test_draining_holder_is_no_worker(self):
        self.ten()
        self.workers["w7"].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w7"]["state"] == "draining", 5 * SLOW, "draining")
        self.assertError(self.ask(), "no_worker", delivered="no", attempts=[])

    def test_rotation_of_its_own(self):
        self.ten(holders=("w2", "w5", "w8"), policy="round_robin")
        seen = []
        for n in range(12):
            seen.append(self.ask().get("Waybill-Worker"))
            if n % 2:
                self.client.request("echo.request.x", b"q")  # does not disturb it
        self.assertEqual(seen[:3] * 4, seen)
        self.assertEqual({"w2", "w5", "w8"}, set(seen))

    def test_hash_among_the_holders(self):
        self.ten(holders=("w2", "w5", "w8"), policy="hash")
        owners = {}
        for key in range(20):
            for _ in range(2):
                owners.setdefault(key, set()).add(self.ask(Hash_Key="k%d" % key).get("Waybill-Worker"))
        self.assertTrue(all(len(who) == 1 for who in owners.values()), owners)
        self.assertEqual({"w2", "w5", "w8"}, set.union(*owners.values()))
        self.assertError(self.ask(), "bad_request")

    def test_a_retry_stays_among_the_holders(self):
        script = Script(refuse(503, data=b"1"), refuse(503, data=b"2"), serve)
        self.ten(script, holders=("w2", "w5"), retry={"max_attempts": 5, "budget_percent": 1000})
        answer = self.ask(Request_Id="all")
        self.assertEqual("overloaded", answer.error)
        self.assertEqual({"w2", "w5"}, set(script.workers))
        self.assertEqual(2, len(script.workers))
        self.assertNoRecord("all")
        wait_for(lambda: self.adapters()["fr"]["free"] == 2, 5 * SLOW, "the marks to end")
        self.workers["w2"].unsubscribe()
        self.workers["w5"].unsubscribe()
        self.assertError(self.ask(), "no_worker", delivered="no")
        self.assertEqual(2, len(script.workers))
        self.assertEqual(0, self.adapters()["fr"]["in_flight"])

    def test_target_and_adapter(self):
        self.ten()
        self.assertServed(self.ask(Target="w7", Request_Id="both"), "w7")
        self.assertEqual("target", self.bucket.record("both")["reason"])
        body = self.assertError(self.ask(Target="w1"), "unknown_adapter", delivered="no", attempts=[])
        self.assertIn("target", body["message"])
        wait_for(lambda: self.ask(Target="nobody").error == "unknown_worker", 5 * SLOW, "unknown_worker")

    def test_advise(self):
        self.ten(holders=("w2", "w5"), policy="round_robin")
        advice = self.ask(Advise="true").json()
        self.assertIn(advice["worker"], ("w2", "w5"))
        self.assertEqual(["w2", "w5"], sorted(c["worker"] for c in advice["candidates"]))
        self.assertEqual(advice["worker"], self.ask().get("Waybill-Worker"))
        self.assertError(self.ask("none", Advise="true"), "unknown_adapter")
        for worker in ("w2", "w5"):
            self.workers[worker].beat(state="busy")
            wait_for(lambda: self.fabric.known(self.router)[worker]["state"] == "busy", 5 * SLOW, "busy")
        self.assertEqual("adapter", self.assertError(self.ask(Advise="true"), "overloaded")["scope"])
        self.assertEqual(1, self.adapters()["fr"]["requests"])

    def test_in_flight_moves_and_ends_with_the_charge(self):
        self.ten(hold, holders=("w2", "w5"))
        subs = [self.client.start("echo.request.x", b"%d" % n, self.headers()) for n in range(6)]
        both = [self.workers["w2"], self.workers["w5"]]
        wait_for(lambda: sum(len(w.attempts) for w in both) == 6, 10 * SLOW, "6 attempts")
        self.assertEqual(6, self.adapters()["fr"]["in_flight"])
        self.assertEqual(6, self.router.metrics()['waybill_adapter_in_flight{service="echo",adapter="fr"}'])
        self.beat_until(both[0], [])  # it drops the adapter; what it has at work is still for it
        self.assertEqual((1, 6), tuple(self.adapters()["fr"][k] for k in ("holders", "in_flight")))
        both[1].unsubscribe()
        both[1].leave()  # non-idempotent: lost
        self.assertEqual({"worker_lost": 3, None: 3}, self.outcomes(both[0], subs))
        self.assertEqual((0, 0), tuple(self.adapters()["fr"][k] for k in ("holders", "in_flight")))
        self.assertAtRest()

    def outcomes(self, server, subs):
        for attempt in server.attempts:
            attempt.answer(b"a")
        return dict(collections.Counter(sub.next().error for sub in subs))

    def test_metrics_are_bounded(self):
        self.ten()
        self.workers["w1"].beat(adapters=["n%02d" % n for n in range(60)] + ['q"\\'])
        wait_for(lambda: len(self.fabric.known(self.router)["w1"]["adapters"]) == 61, 5 * SLOW, "61 adapters")
        for n in range(5):
            self.ask()
            self.ask("made-up-%d" % n)
        values = self.router.metrics()
        series = [key for key in values if key.startswith("waybill_adapter_requests_total{")]
        self.assertEqual(32, len(series))
        self.assertEqual(5, values['waybill_adapter_requests_total{service="echo",adapter="fr"}'])
        self.assertEqual(5, values['waybill_adapter_arrivals{service="echo",adapter="fr"}'])
        self.assertEqual(1, values['waybill_adapter_holders{service="echo",adapter="fr"}'])
        self.assertEqual(62, values["waybill_adapters_held"])
        self.assertEqual(0, values["waybill_adapters_left_out_total"])
        self.assertEqual(10, self.router.count("requests_with_adapter"))
        self.assertEqual(0, self.router.count("adapter_loads"))
        self.assertServed(self.ask('q"\\'), "w1")
        self.workers["w1"].beat(adapters=['q"\\'])
        wait_for(lambda: 'waybill_adapter_requests_total{service="echo",adapter="q\\"\\\\"}' in self.router.metrics(), 5 * SLOW, "an escaped label")

    def test_by_the_programs(self):
        self.bucket, self.router = self.fabric.watch(), self.fabric.router()
        self.fabric.worker("w1", "--echo", known_to=[self.router])
        self.fabric.worker("w2", "--echo", "--adapter", "fr", "--adapter", "org/de:v2", "--adapter-slots", "4", known_to=[self.router])
        for n in range(4):
            self.assertEqual("hello", self.fabric.tool("request", "echo.request.x", "hello", "--adapter", "org/de:v2", "--id", "p%d" % n).stdout.strip())
            self.assertEqual(("w2", "org/de:v2"), tuple(self.bucket.record("p%d" % n)[k] for k in ("worker", "adapter")))
        self.assertNotEqual(0, self.fabric.tool("request", "echo.request.x", "hello", "--adapter", "other", check=False).returncode)

    def test_hostile_names(self):
        self.ten()
        for name in (b"x" * 257, b"", b"a b", b"f\tr", b"\x00\x01\xff\xfe", b"f\xc3\xa9", b"\x7f"):
            with self.subTest(name=name[:20]):
                self.assertError(self.client.request("echo.request.x", b"q", [("Waybill-Adapter", name)]), "bad_request", delivered="no")
        self.assertError(self.client.request("echo.request.x", b"q", [("Waybill-Adapter", "fr"), ("Waybill-Adapter", "fr")]), "bad_request")
        block = b"NATS/1.0\r\nWaybill-Adapter: fr\r\n\r\nPUB x 0\r\n\r\n\r\n"
        sub = self.client.subscribe(self.client.new_inbox())
        self.client.send(b"HPUB echo.request.x %s %d %d\r\n%sq\r\n" % (sub.subject.encode(), len(block), len(block) + 1, block))
        self.assertError(sub.next(), "bad_request")
        self.assertServed(self.ask(), "w7")
        self.assertError(self.ask("x" * 256), "unknown_adapter")


class AdapterLoading(Case):
    def load(self, handlers, slots, routers=("router-1",), **options):
        service = self.fabric.service(adapters={"load": True}, **options)
        self.bucket = self.fabric.watch()
        self.routers = [self.fabric.router(name, services=[service]) for name in routers]
        self.router = self.routers[0]
        self.workers = {}
        for n, handler in enumerate(handlers, 1):
            order = self.routers if n % 2 else self.routers[::-1]
            self.workers["w%d" % n] = self.fabric.raw_worker("w%d" % n, handler, known_to=order, adapters=[], adapter_slots=slots[n - 1])
        self.client = self.fabric.client()

    def ask(self, adapter, **headers):
        return self.client.request("echo.request.x", b"q", Adapters.headers(adapter, **headers))

    def test_every_router_picks_the_same(self):
        self.load([serve] * 4, [3, 3, 3, 0], ("router-1", "router-2"))
        chosen, routers = {}, set()
        for n in range(60):
            adapter = "m%d" % (n % 6)
            chosen.setdefault(adapter, set()).add(self.ask(adapter, Request_Id="l%d" % n).get("Waybill-Worker"))
        for worker in self.workers.values():
            routers |= {a.message.get("Waybill-Router") for a in worker.attempts}
        self.assertEqual({"router-1", "router-2"}, routers)
        self.assertTrue(all(len(who) == 1 for who in chosen.values()), chosen)
        self.assertLess(1, len(set.union(*chosen.values())))
        self.assertEqual([], self.workers["w4"].attempts, "it has no slots")
        record = self.bucket.record("l0")
        self.assertEqual(("adapter_load", "m0"), (record["reason"], record["adapter"]))
        self.assertEqual(60, sum(router.count("adapter_loads") for router in self.routers))
        for router in self.routers:
            self.assertAtRest(router)

    def test_once_held_it_is_no_load_any_more(self):
        self.load([serve] * 3, [1, 1, 1])
        first = self.ask("m").get("Waybill-Worker")
        self.workers[first].beat(adapters=["m"])
        wait_for(lambda: self.fabric.known(self.router)[first]["adapters"] == ["m"], 5 * SLOW, "the adapter")
        self.assertServed(self.ask("m", Request_Id="held"), first)
        self.assertEqual("policy", self.bucket.record("held")["reason"])
        self.workers[first].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)[first]["state"] == "busy", 5 * SLOW, "busy")
        self.assertEqual("adapter", self.assertError(self.ask("m"), "overloaded", delivered="no")["scope"], "load makes no second copy")

    def test_slots_used_up(self):
        self.load([hold, hold], [1, 2])
        subs = []
        for n in range(3):
            subs.append(self.client.start("echo.request.x", b"q", Adapters.headers("m%d" % n)))
            wait_for(lambda: sum(len(w.attempts) for w in self.workers.values()) == n + 1, 10 * SLOW, "attempt %d" % n)
        self.assertEqual([1, 2], [len(w.attempts) for w in self.workers.values()])
        body = self.assertError(self.ask("m9"), "unknown_adapter", delivered="no", attempts=[])
        self.assertIn("slot", body["message"])
        again = self.client.start("echo.request.x", b"q", Adapters.headers("m0"))  # it is being loaded already
        wait_for(lambda: sum(len(w.attempts) for w in self.workers.values()) == 4, 10 * SLOW, "the same worker")
        where = {a.message.get("Waybill-Adapter"): w.id for w in self.workers.values() for a in w.attempts}
        self.assertEqual(3, len(where))
        for worker in self.workers.values():
            for attempt in worker.attempts:
                attempt.answer(b"a")
        for sub in subs + [again]:
            self.assertServed(sub.next())
        self.assertServedBy("m9")

    def assertServedBy(self, adapter):
        """The slots are free again: the workers did not say that they hold anything."""
        sub = self.client.start("echo.request.x", b"q", Adapters.headers(adapter))
        wait_for(lambda: any(a.message.get("Waybill-Adapter") == adapter for w in self.workers.values() for a in w.attempts), 5 * SLOW, adapter)
        for worker in self.workers.values():
            for attempt in worker.attempts:
                attempt.answer(b"a")
        self.assertServed(sub.next())
        self.assertAtRest()

    def test_next_best_after_a_refusal(self):
        script = Script(refuse(503), serve)
        self.load([script] * 3, [1, 1, 1])
        self.assertServed(self.ask("m", Request_Id="second"), attempt=2)
        record = self.bucket.record("second")
        self.assertEqual("adapter_load", record["reason"])
        self.assertEqual(2, len(set(script.workers)))

    def test_target_loads_where_it_says(self):
        self.load([serve] * 3, [1, 0, 1])
        self.assertServed(self.ask("m", Target="w1", Request_Id="there"), "w1")
        self.assertEqual("adapter_load", self.bucket.record("there")["reason"])
        body = self.assertError(self.ask("m", Target="w2"), "unknown_adapter", delivered="no")
        self.assertIn("target", body["message"])
        advice = self.ask("m", Advise="true").json()
        self.assertEqual("adapter_load", advice["reason"])
        self.assertEqual(["w1", "w3"], sorted(c["worker"] for c in advice["candidates"]))

    def test_the_only_holder_drains(self):
        self.load([serve, serve], [1, 1])
        self.workers["w1"].beat(adapters=["m"])
        wait_for(lambda: self.fabric.known(self.router)["w1"]["adapters"] == ["m"], 5 * SLOW, "the adapter")
        self.assertServed(self.ask("m"), "w1")
        self.workers["w1"].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "draining")
        self.assertServed(self.ask("m"), "w2")


class AdapterStart(Case):
    fabric_options = {"statics": {("echo", "legacy"): "legacy.echo"}, "workers": ("w1",)}

    def test_a_holder_not_yet_heard_of_is_waited_for(self):
        self.router = self.fabric.router(services=[self.fabric.service()], router={"start_wait_ms": 60000}, wait=False)
        early = self.fabric.raw_worker("w1", serve, adapters=[])
        client = self.fabric.client()
        self.router.wait_healthy()
        sub = client.start("echo.request.x", b"q", Adapters.headers())
        self.assertServed(client.request("echo.request.x", b"q"))
        self.assertEqual([], sub.messages, "it waits")
        early.beat(adapters=["fr"])
        self.assertServed(sub.next(), "w1")

    def test_static_workers_hold_what_the_config_says(self):
        static = self.fabric.client("echo-legacy")
        static.subscribe("legacy.echo", callback=lambda m: static.publish(m.reply, b"s"))
        static.flush()
        self.router = self.fabric.router(services=[self.fabric.service(workers=[
            {"id": "legacy", "subject": "legacy.echo", "adapters": ["fr", "de"]}])])
        self.fabric.raw_worker("w1", serve, known_to=[self.router])
        client = self.fabric.client()
        for _ in range(5):
            self.assertServed(client.request("echo.request.x", b"q", Adapters.headers("de")), "legacy", b"s")


if __name__ == "__main__":
    unittest.main()
