"""Session affinity (spec section 8) with one router and with three, as clients, workers and the bucket see it."""
import json
import threading
import time
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, stays, wait_for
from support.cluster import PREFIX, SESSIONS
from support.hub import Hub

ONE = {"echo": ["echo.request.>"]}
THREE = {"echo": ["echo.r1.>", "echo.r2.>", "echo.r3.>"]}


def named(attempt):
    """Answers with the worker's name."""
    attempt.answer(attempt.worker.id.encode())


class Sessions(Case):
    session = {"ttl_s": 60}

    def begin(self, *handlers, session=None, heartbeat=None, router_limits=None, **service):
        keys = {"policy": "round_robin", "session": {**self.session, **(session or {})}, **service}
        self.ready(*(handlers or (named, named, named)), service=self.fabric.service(**keys), heartbeat=heartbeat,
                   router_options={"limits": router_limits} if router_limits else None)
        self.test = self.fabric.client("test")
        return self.workers

    def ask(self, session="s", subject="echo.request.x", bound=10 * SLOW, client=None, **headers):
        given = {"Waybill-Session": session, **{"Waybill-" + k.replace("_", "-"): v for k, v in headers.items()}}
        return (client or self.client).request(subject, b"q", given, bound)

    def ask_many(self, count, session="s", subjects=("echo.request.x",), **headers):
        """All sent at once; the answers in the order of their arrival."""
        clients, answers, lock = [self.fabric.client() for _ in range(min(count, 10))], [], threading.Lock()
        inboxes = []
        for n in range(count):
            client = clients[n % len(clients)]
            inbox = "_INBOX.many%d.%d" % (id(answers), n)

            def on_answer(message):
                with lock:
                    answers.append(message)
            client.subscribe(inbox, callback=on_answer)
            inboxes.append((client, inbox))
        for client in clients:
            client.flush()
        for n, (client, inbox) in enumerate(inboxes):
            client.publish(subjects[n % len(subjects)], b"q", inbox,
                           [("Waybill-Session", session)] + [("Waybill-" + k, v) for k, v in headers.items()])
        wait_for(lambda: len(answers) == count, 20 * SLOW, lambda: "%d answers, got %d" % (count, len(answers)))
        return answers

    def held(self, session="s", service="echo", client=None):
        """What the bucket holds: (value or None, revision). The bytes of what is not JSON."""
        key = "$KV.%s.%s.%s" % (SESSIONS, service, session)
        answer = (client or self.test).request("$JS.API.STREAM.MSG.GET.KV_" + SESSIONS, json.dumps({"last_by_subj": key}).encode()).json()
        if "message" not in answer:
            return None, 0
        import base64
        message = answer["message"]
        data = base64.b64decode(message.get("data", ""))
        try:
            return (json.loads(data) if data else None), message["seq"]
        except ValueError:
            return {"state": "unreadable", "bytes": data}, message["seq"]

    def wait_bound(self, worker=None, session="s"):
        def bound():
            value, _ = self.held(session)
            return value and value["state"] == "bound" and (worker is None or value["worker"] == worker)
        wait_for(bound, 10 * SLOW, lambda: "binding of %s, not %r" % (session, self.held(session)))
        return self.held(session)[0]

    def wait_unbound(self, session="s", bound=10):
        wait_for(lambda: self.held(session)[0] is None, bound * SLOW, lambda: "no binding, not %r" % (self.held(session),))

    def show(self, router=None, session=None):
        router = router or self.router
        if self.fabric.operator is None:
            self.fabric.operator = self.fabric.client("operator")
        body = {"service": "echo", **({"session": session} if session else {})}
        answer = self.fabric.operator.request("%s.admin.show.sessions.%s" % (PREFIX, router.config["router"]["id"]), json.dumps(body).encode())
        return answer.json()

    def wait_shared(self, *routers):
        for router in routers or (self.router,):
            wait_for(lambda: self.show(router)["shared"], 10 * SLOW, lambda: "shared sessions\n" + router.tail())

    def session_count(self, name, router=None):
        return int((router or self.router).metrics()["waybill_sessions_%s_total" % name])


class Binding(Sessions):
    def test_all_requests_of_a_session_go_to_the_worker_that_answered_first(self):
        self.begin()
        first = self.ask()
        self.assertServed(first)
        for _ in range(20):
            self.assertServed(self.ask(), first.get("Waybill-Worker"))
        others = {self.ask("other-%d" % n).get("Waybill-Worker") for n in range(3)}
        self.assertEqual({"w1", "w2", "w3"}, others)
        self.assertEqual(20, self.session_count("hits"))

    def test_a_hundred_first_requests_at_once_end_on_one_worker(self):
        self.begin()
        answers = self.ask_many(100)
        self.assertEqual(1, len({a.get("Waybill-Worker") for a in answers}))
        self.assertEqual([], [a for a in answers if a.error])
        self.assertAtRest()

    def test_the_record_names_the_session_and_why(self):
        self.begin()
        self.wait_shared()
        self.ask("s-9", Request_Id="first")
        self.ask("s-9", Request_Id="second")
        self.assertEqual(("s-9", "policy"), tuple(self.bucket.record("first")[k] for k in ("session", "reason")))
        self.assertEqual(("s-9", "session"), tuple(self.bucket.record("second")[k] for k in ("session", "reason")))

    def test_the_claim_stands_in_the_bucket_before_the_choice_and_the_binding_after_the_answer(self):
        script = Script(hold)
        self.begin(script, script)
        self.wait_shared()
        self.client.publish("echo.request.x", b"q", "_INBOX.x", [("Waybill-Session", "s")])
        attempt = script.next()
        value, _ = self.held()
        self.assertEqual({"v": 1, "state": "init", "router": "router-1", "worker": None, "rank": None, "worker_epoch": None}, value)
        attempt.answer(b"yes")
        self.assertEqual(attempt.worker.id, self.wait_bound()["worker"])

    def test_an_error_that_is_no_refusal_is_an_answer_and_binds(self):
        self.begin(lambda a: a.error(500, "broken", b"x"), lambda a: a.error(500, "broken", b"x"))
        first = self.ask()
        self.assertEqual(first.get("Waybill-Worker"), self.ask().get("Waybill-Worker"))
        self.wait_bound(first.get("Waybill-Worker"))

    def test_names_of_any_form(self):
        self.begin()
        for name in ("a.b", "user@example.org/1", "*", ">", "=41", "x" * 256):
            first = self.ask(name).get("Waybill-Worker")
            self.assertIsNotNone(first)
            self.assertEqual({first}, {self.ask(name).get("Waybill-Worker") for _ in range(3)}, name)
        for name in ("a b", "", "x" * 257, "\u00e9"):
            self.assertError(self.ask(name), "bad_request")


class Owner(Sessions):
    def first_held(self, script):
        """A first request that its worker keeps; the worker's attempt."""
        self.first = self.client.subscribe("_INBOX.first")
        self.client.flush()
        self.client.publish("echo.request.x", b"q", "_INBOX.first", [("Waybill-Session", "s"), ("Waybill-Request-Id", "first")])
        return script.next()

    def second(self, **headers):
        done = []
        thread = threading.Thread(target=lambda: done.append(self.ask(client=self.fabric.client(), **headers)))
        thread.start()
        self.addCleanup(thread.join)
        return thread, done

    def test_a_waiter_goes_where_the_owner_was_answered(self):
        script = Script(hold, named)
        self.begin(script, script)
        attempt = self.first_held(script)
        thread, done = self.second()
        stays(lambda: len(script.attempts) == 1, 0.3)
        attempt.answer(b"x")
        thread.join()
        self.assertServed(done[0], attempt.worker.id)

    def test_the_owners_worker_is_killed_between_choice_and_answer(self):
        """The owner fails, a waiter owns the session then; nothing is bound to the worker that never answered."""
        script = Script(hold, named)
        self.begin(script, script, session={"wait_ms": 20000}, heartbeat={"interval_ms": 200})
        attempt = self.first_held(script)
        thread, done = self.second()
        attempt.worker.vanish()
        thread.join()
        other = "w2" if attempt.worker.id == "w1" else "w1"
        self.assertServed(done[0], other)
        self.assertError(self.first.next(), "worker_lost")
        self.wait_bound(other)
        self.assertNoRecord("first")

    def test_a_cancelled_owner_frees_the_slot(self):
        script = Script(hold, named)
        self.begin(script, script, session={"wait_ms": 20000})
        self.first_held(script)
        thread, done = self.second()
        self.client.request("%s.cancel.echo.first" % PREFIX, b"", {"Waybill-Reply": "_INBOX.first"})
        thread.join()
        self.assertServed(done[0])
        self.wait_bound(done[0].get("Waybill-Worker"))

    def test_an_owner_alone_that_fails_leaves_nothing(self):
        self.begin(refuse(429), refuse(429))
        self.wait_shared()
        self.assertEqual("overloaded", self.ask().get("Waybill-Error"))
        self.wait_unbound()

    def test_a_retry_within_the_router_keeps_the_session(self):
        script = Script(refuse(503), named)
        self.begin(script, script)
        answer = self.ask()
        self.assertServed(answer, script.workers[1], attempt=2)
        self.wait_bound(script.workers[1])
        self.assertEqual({script.workers[1]}, {self.ask().get("Waybill-Worker") for _ in range(5)})

    def test_a_waiter_whose_time_is_over_follows_the_owners_worker_and_does_not_bind(self):
        script = Script(hold, named)
        self.begin(script, script, session={"wait_ms": 200})
        attempt = self.first_held(script)
        self.assertServed(self.ask(), attempt.worker.id)
        self.assertEqual("init", self.held()[0]["state"])
        attempt.answer(b"x")
        self.wait_bound(attempt.worker.id)

    def test_a_waiter_whose_owners_worker_is_busy_goes_unpinned(self):
        script = Script(hold, named)
        self.begin(script, script, session={"wait_ms": 200}, heartbeat={"capacity": 1})
        attempt = self.first_held(script)
        other = "w2" if attempt.worker.id == "w1" else "w1"
        self.assertServed(self.ask(), other)
        attempt.answer(b"x")
        self.wait_bound(attempt.worker.id)
        self.assertServed(self.ask(), attempt.worker.id)


class Bound(Sessions):
    def bind(self, **options):
        self.begin(**options)
        self.worker = self.ask(Request_Id="bind").get("Waybill-Worker")
        self.bound = next(w for w in self.workers if w.id == self.worker)
        self.wait_bound(self.worker)
        return self.bound

    def rebinds(self, request_id="rebind"):
        answer = self.ask(Request_Id=request_id)
        self.assertServed(answer)
        self.assertNotEqual(self.worker, answer.get("Waybill-Worker"))
        self.wait_bound(answer.get("Waybill-Worker"))
        record = self.bucket.record(request_id)
        self.assertEqual("rebind", record["reason"], record)
        return answer.get("Waybill-Worker")

    def test_its_worker_is_killed(self):
        """It is found out by the 503 of the next request, which goes to another worker at once and binds there."""
        self.bind().unsubscribe()
        answer = self.ask(Request_Id="next")
        self.assertServed(answer, attempt=2)
        self.assertNotEqual(self.worker, answer.get("Waybill-Worker"))
        self.wait_bound(answer.get("Waybill-Worker"))
        self.assertEqual([{"worker": self.worker, "cause": "no_responders"}], self.bucket.record("next")["tried"])

    def test_its_worker_is_lost(self):
        self.bind(heartbeat={"interval_ms": 200}).vanish()
        self.fabric.wait_unknown(self.router, self.worker)
        self.rebinds()

    def test_its_worker_drains(self):
        self.bind().beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)[self.worker]["state"] == "draining", 5 * SLOW, "draining")
        self.rebinds()

    def test_its_worker_is_restarted_under_the_same_id(self):
        """The session is bound to the name: the new process serves it."""
        bound = self.bind()
        bound.beat(epoch=bound.fields["epoch"] + 1)
        wait_for(lambda: self.fabric.known(self.router)[self.worker]["epoch"] == bound.fields["epoch"], 5 * SLOW, "the new epoch")
        self.assertServed(self.ask(), self.worker)

    def test_many_find_it_broken_at_once_and_end_on_one_worker(self):
        self.bind().beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)[self.worker]["state"] == "draining", 5 * SLOW, "draining")
        answers = self.ask_many(50)
        workers = {a.get("Waybill-Worker") for a in answers}
        self.assertEqual(1, len(workers), workers)
        self.assertNotIn(self.worker, workers)

    def test_the_rank_that_answered_is_bound(self):
        self.begin(heartbeat={"ranks": 4})
        first = self.ask(Target="w2/3")
        self.assertServed(first, "w2")
        self.assertEqual("3", first.get("Waybill-Rank"))
        self.assertEqual(3, self.wait_bound("w2")["rank"])
        for _ in range(4):
            answer = self.ask()
            self.assertEqual(("w2", "3"), (answer.get("Waybill-Worker"), answer.get("Waybill-Rank")))

    def test_a_rank_that_is_gone_rebinds(self):
        self.begin(heartbeat={"ranks": 4})
        self.ask(Target="w2/3")
        self.workers[1].beat(ranks=2)
        wait_for(lambda: self.fabric.known(self.router)["w2"]["ranks"] == 2, 5 * SLOW, "fewer ranks")
        answer = self.ask(Request_Id="r")
        self.assertServed(answer)
        self.assertNotEqual("3", answer.get("Waybill-Rank"))
        self.assertEqual("rebind", self.bucket.record("r")["reason"])

    def test_avoid_naming_the_bound_worker_rebinds(self):
        self.bind()
        wait_for(lambda: self.bucket.stored_for("bind"), 10 * SLOW, "the record")
        answer = self.ask(Request_Id="bind", Retry="avoid")
        self.assertServed(answer)
        self.assertNotEqual(self.worker, answer.get("Waybill-Worker"))
        self.wait_bound(answer.get("Waybill-Worker"))
        self.assertServed(self.ask(), answer.get("Waybill-Worker"))

    def test_unbound_by_an_operator(self):
        self.bind()
        reply = self.fabric.client("operator").request("%s.admin.do.unbind" % PREFIX, b'{"service":"echo","session":"s"}').json()
        self.assertEqual({"router": "router-1", "unbound": True}, reply)
        self.wait_unbound()
        self.assertEqual([], self.show(session="s")["sessions"])
        self.assertServed(self.ask())


class Busy(Sessions):
    def occupied(self, **options):
        """w1 bound and full by a held request of another session's."""
        self.held_attempts = []

        def handler(attempt):
            if attempt.data == b"hold":
                self.held_attempts.append(attempt)
            else:
                named(attempt)
        self.begin(handler, handler, heartbeat={"capacity": 1}, **options)
        self.assertServed(self.ask(Target="w1"), "w1")
        self.wait_bound("w1")
        self.client.publish("echo.request.x", b"hold", "_INBOX.held", [("Waybill-Target", "w1")])
        wait_for(lambda: self.held_attempts, 5 * SLOW, "the held request")

    def test_wait(self):
        self.occupied()
        done = []
        threads = [threading.Thread(target=lambda: done.append(self.ask(client=self.fabric.client()))) for _ in range(5)]
        for thread in threads:
            thread.start()
        stays(lambda: not done, 0.3)
        self.held_attempts[0].answer(b"x")
        for thread in threads:
            thread.join()
        self.assertEqual({"w1"}, {a.get("Waybill-Worker") for a in done})

    def test_wait_no_longer_than_the_queue_says(self):
        self.occupied(queue={"wait_ms": 200})
        body = self.assertError(self.ask(), "overloaded", delivered="no")
        self.assertEqual("worker", body["scope"])
        self.assertEqual("w1", self.held()[0]["worker"])

    def test_who_waits_goes_elsewhere_when_the_worker_is_lost(self):
        self.occupied(queue={"wait_ms": 60000}, session={"wait_ms": 60000})
        done = []
        thread = threading.Thread(target=lambda: done.append(self.ask(client=self.fabric.client(), bound=30 * SLOW)))
        thread.start()
        wait_for(lambda: self.router.metrics().get("waybill_waiting", 0) == 1, 5 * SLOW, "the waiting request")
        self.workers[0].leave()
        thread.join()
        self.assertServed(done[0], "w2")
        self.wait_bound("w2")

    def test_who_waits_goes_elsewhere_when_the_worker_drains(self):
        self.occupied(queue={"wait_ms": 60000}, session={"wait_ms": 60000})
        done = []
        thread = threading.Thread(target=lambda: done.append(self.ask(client=self.fabric.client(), bound=30 * SLOW)))
        thread.start()
        wait_for(lambda: self.router.metrics().get("waybill_waiting", 0) == 1, 5 * SLOW, "the waiting request")
        self.workers[0].beat(state="draining")
        thread.join()
        self.assertServed(done[0], "w2")
        self.held_attempts[0].answer(b"x")

    def test_spill_does_not_rebind(self):
        self.occupied(session={"on_busy": "spill"})
        self.assertServed(self.ask(Request_Id="spilled"), "w2")
        self.assertEqual("spill", self.bucket.record("spilled")["reason"])
        self.held_attempts[0].answer(b"x")
        self.assertAtRest()
        self.assertServed(self.ask(), "w1")
        self.assertEqual("w1", self.held()[0]["worker"])

    def test_fail(self):
        self.occupied(session={"on_busy": "fail"})
        body = self.assertError(self.ask(), "overloaded", delivered="no")
        self.assertEqual("worker", body["scope"])
        self.held_attempts[0].answer(b"x")
        self.assertAtRest()
        self.assertServed(self.ask(), "w1")

    def test_a_refusal_waits_for_the_mark_to_run_out(self):
        script = Script(named, refuse(503, 300), named)
        self.begin(script, script)
        first = self.ask()
        answer = self.ask(bound=10 * SLOW)
        self.assertServed(answer, first.get("Waybill-Worker"), attempt=2)

    def test_soft_goes_elsewhere_and_rebinds(self):
        self.occupied(session={"mode": "soft"})
        self.assertServed(self.ask(Request_Id="soft"), "w2")
        self.assertEqual("policy", self.bucket.record("soft")["reason"])
        self.wait_bound("w2")
        self.held_attempts[0].answer(b"x")
        self.assertAtRest()
        self.assertServed(self.ask(), "w2")


class Conflicts(Sessions):
    def test_another_target(self):
        self.begin()
        self.assertServed(self.ask(Target="w1"), "w1")
        self.assertServed(self.ask(Target="w1"), "w1")
        self.assertServed(self.ask(), "w1")
        self.assertError(self.ask(Target="w2", Request_Id="no"), "session_conflict", delivered="no")
        self.assertNoRecord("no")
        self.wait_bound("w1")

    def test_another_rank(self):
        self.begin(heartbeat={"ranks": 4})
        self.ask(Target="w1/2")
        self.assertError(self.ask(Target="w1/3"), "session_conflict")
        self.assertServed(self.ask(Target="w1/2"), "w1")
        self.assertEqual("2", self.ask(Target="w1").get("Waybill-Rank"))

    def test_a_named_rank_is_for_its_request_only(self):
        """A soft session bound without a rank was bound to the rank of whoever named one, and the next to name another failed."""
        self.begin(session={"mode": "soft"})
        self.assertServed(self.ask(Target="w1"), "w1")
        self.workers[0].beat(ranks=4)
        wait_for(lambda: self.fabric.known(self.router)["w1"].get("ranks") == 4, 5 * SLOW, "four ranks")
        for rank in (1, 2, 3):
            answer = self.ask(Target="w1/%d" % rank)
            self.assertServed(answer, "w1")
            self.assertEqual(str(rank), answer.get("Waybill-Rank"))

    def test_a_target_that_waits_for_the_owner_is_compared_then(self):
        script = Script(hold, named)
        self.begin(script, script)
        self.client.publish("echo.request.x", b"q", "_INBOX.x", [("Waybill-Session", "s"), ("Waybill-Target", "w1")])
        attempt = script.next()
        done = []
        thread = threading.Thread(target=lambda: done.append(self.ask(Target="w2", client=self.fabric.client())))
        thread.start()
        stays(lambda: not done, 0.2)
        attempt.answer(b"x")
        thread.join()
        self.assertError(done[0], "session_conflict")

    def test_a_target_where_the_binding_is_broken_binds_anew(self):
        self.begin()
        self.ask(Target="w1")
        self.workers[0].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "draining")
        self.assertServed(self.ask(Target="w2"), "w2")
        self.wait_bound("w2")

    def bound_without_the_adapter(self, mode):
        self.begin(named, named, session={"mode": mode})
        self.workers[1].beat(adapters=["lora-1"])
        wait_for(lambda: self.fabric.known(self.router)["w2"]["adapters"] == ["lora-1"], 5 * SLOW, "the adapter")
        self.assertServed(self.ask(Target="w1"), "w1")

    def test_an_adapter_that_the_bound_worker_lacks(self):
        self.bound_without_the_adapter("hard")
        self.assertError(self.ask(Adapter="lora-1"), "session_conflict")
        self.wait_bound("w1")
        self.assertServed(self.ask(), "w1")

    def test_an_adapter_that_the_softly_bound_worker_lacks(self):
        self.bound_without_the_adapter("soft")
        self.assertServed(self.ask(Adapter="lora-1"), "w2")
        self.wait_bound("w2")

    def test_advice_names_the_bound_worker(self):
        self.begin()
        self.ask(Target="w2")
        advice = self.ask(Advise="true").json()
        self.assertEqual(("w2", "session"), (advice["worker"], advice["reason"]))
        self.assertError(self.ask(Advise="true", Target="w1"), "session_conflict")


class Time(Sessions):
    session = {"ttl_s": 1}

    def test_idle_past_its_time(self):
        self.begin()
        worker = self.ask().get("Waybill-Worker")
        self.wait_bound(worker)
        self.wait_unbound(bound=6)
        self.assertEqual([], self.show()["sessions"])
        self.assertEqual(1, self.session_count("expired"))
        self.assertServed(self.ask())

    def test_in_use_past_its_time(self):
        """A stream of three times the time keeps it; the binding is written anew meanwhile."""
        script = Script(hold, named)
        self.begin(script, script, replies="stream")
        self.client.publish("echo.request.x", b"q", "_INBOX.x", [("Waybill-Session", "s")])
        attempt = script.next()
        attempt.answer(b"1", [("Waybill-Seq", 1)])
        self.wait_bound(attempt.worker.id)
        revision = self.held()[1]
        until = time.monotonic() + 3
        wait_for(lambda: time.monotonic() > until, 10, "three times the time")
        self.assertEqual(attempt.worker.id, self.held()[0]["worker"])
        self.assertGreater(self.held()[1], revision)
        attempt.answer(b"", [("Waybill-Seq", 2)])
        self.wait_unbound(bound=6)


class OtherTime(Sessions):
    def test_a_router_that_starts_later_finds_every_binding(self):
        self.begin()
        workers = {name: self.ask(name).get("Waybill-Worker") for name in ("s%d" % n for n in range(50))}
        for name in workers:
            self.wait_bound(workers[name], name)
        self.router.terminate()
        self.router = self.fabric.router(services=[self.fabric.service(policy="round_robin", session={"ttl_s": 60})])
        for name, worker in workers.items():
            self.assertServed(self.ask(name), worker)

    def test_a_killed_routers_bindings_too(self):
        self.begin()
        worker = self.ask().get("Waybill-Worker")
        self.wait_bound(worker)
        self.router.kill()
        self.router = self.fabric.router(services=[self.fabric.service(policy="round_robin", session={"ttl_s": 60})])
        self.assertServed(self.ask(), worker)

    def test_bucket_deleted_under_load(self):
        """Affinity stays here; the new bucket hears of the bindings."""
        self.begin()
        self.wait_shared()
        workers = {name: self.ask(name).get("Waybill-Worker") for name in ("s%d" % n for n in range(10))}
        for name in workers:
            self.wait_bound(workers[name], name)
        stop, wrong = threading.Event(), []

        def load():
            client = self.fabric.client()
            while not stop.is_set():
                for name, worker in workers.items():
                    answer = self.ask(name, client=client)
                    if answer.error or answer.get("Waybill-Worker") != worker:
                        wrong.append((name, answer))
        thread = threading.Thread(target=load)
        thread.start()
        try:
            created = "bucket %s created" % SESSIONS
            before = self.router.output().count(created)
            self.test.request("$JS.API.STREAM.DELETE.KV_" + SESSIONS, b"")
            # nats-server 2.9.10 crashes on a STREAM.MSG.GET while the stream is being made.
            wait_for(lambda: self.router.output().count(created) > before, 30 * SLOW, lambda: "another bucket\n" + self.router.tail())
            for name, worker in workers.items():
                wait_for(lambda: (self.held(name)[0] or {}).get("worker") == worker, 30 * SLOW, lambda: "binding of " + name)
        finally:
            stop.set()
            thread.join()
        self.assertEqual([], wrong)
        self.wait_shared()


class WithoutJetStream(Sessions):
    fabric_options = {"jetstream": False}

    def test_affinity_is_local_and_says_so(self):
        self.begin()
        answers = self.ask_many(50)
        self.assertEqual(1, len({a.get("Waybill-Worker") for a in answers}))
        self.assertFalse(self.show()["shared"])
        self.assertEqual(0, self.router.metrics()["waybill_sessions_shared"])
        self.assertIn("bound by this router alone", self.router.output())


class SilentJetStream(Sessions):
    """The link to NATS is well, and JetStream behind it says nothing."""
    fabric_options = {"jetstream": False}

    def setUp(self):
        super().setUp()
        self.hub = Hub(self.fabric)
        self.addCleanup(self.hub.close)
        self.addCleanup(self.hub.thaw)

    def test_no_session_waits_for_it_again_and_again(self):
        """Each request waited a whole wait_ms for a word of the bucket, and sessions were said to be shared."""
        self.begin(session={"wait_ms": 1500})
        self.wait_shared()
        workers = {name: self.ask(name).get("Waybill-Worker") for name in ("a", "b")}
        self.hub.freeze()
        self.ask("new")
        wait_for(lambda: not self.show()["shared"], 10 * SLOW, lambda: "local sessions\n" + self.router.tail())
        begun = time.monotonic()
        for n in range(10):
            for name, worker in workers.items():
                self.assertServed(self.ask(name), worker)
            self.assertServed(self.ask("new-%d" % n))
        self.assertLess(time.monotonic() - begun, 1.5)
        self.assertIn("bound by this router alone", self.router.output())
        self.hub.thaw()
        self.wait_shared()
        for name, worker in workers.items():
            self.assertServed(self.ask(name), worker)


class Unwatched(Sessions):
    """The server gives no consumer on the bucket, as with a limit on consumers, or without the right to make one."""
    fabric_options = {"services": THREE, "routers": ("router-1", "router-2")}

    def test_routers_agree_all_the_same_and_say_what_is_missing(self):
        """A router went by what it had read once and never heard of the other's rebinding; nothing told why."""
        test = self.fabric.client("test")
        config = {"name": "KV_" + SESSIONS, "subjects": ["$KV.%s.>" % SESSIONS], "max_msgs_per_subject": 1, "max_consumers": 1,
                  "allow_rollup_hdrs": True, "allow_direct": True}
        self.assertNotIn("error", test.request("$JS.API.STREAM.CREATE.KV_" + SESSIONS, json.dumps(config).encode()).json())
        taken = {"stream_name": "KV_" + SESSIONS, "config": {"durable_name": "taken", "ack_policy": "explicit"}}
        self.assertNotIn("error", test.request("$JS.API.CONSUMER.DURABLE.CREATE.KV_%s.taken" % SESSIONS, json.dumps(taken).encode()).json())
        routers = [self.fabric.router("router-%d" % n, services=[{"name": "echo", "subjects": ["echo.r%d.>" % n], "policy": "round_robin",
                                                                  "session": {"ttl_s": 600}}]) for n in (1, 2)]
        workers = {"w%d" % n: self.fabric.raw_worker("w%d" % n, named, known_to=routers) for n in (1, 2, 3)}
        self.client = self.fabric.client()

        def via(number):
            return self.ask(subject="echo.r%d.x" % number).get("Waybill-Worker")

        def beat(worker, state):
            workers[worker].beat(state=state)
            for router in routers:
                wait_for(lambda: self.fabric.known(router)[worker]["state"] == state, 5 * SLOW, state)
        first = via(1)
        self.assertEqual(first, via(2))
        beat(first, "draining")
        second = via(2)
        self.assertNotEqual(first, second)
        beat(first, "ready")
        wait_for(lambda: via(1) == second, 5 * SLOW, "the other router's binding")
        for router in routers:
            wait_for(lambda: "can't be watched" in router.output(), 10 * SLOW, router.tail)


class FullBucket(Sessions):
    def test_thousands_of_sessions_are_bound_here_and_the_bucket_is_left_in_peace(self):
        """Each of them was read and written again every second, and refused again."""
        test = self.fabric.client("test")
        config = {"name": "KV_" + SESSIONS, "subjects": ["$KV.%s.>" % SESSIONS], "max_msgs_per_subject": 1, "max_bytes": 16384,
                  "discard": "new", "allow_rollup_hdrs": True, "allow_direct": True}
        self.assertNotIn("error", test.request("$JS.API.STREAM.CREATE.KV_" + SESSIONS, json.dumps(config).encode()).json())
        self.begin()
        self.wait_shared()
        names = ["s%d" % n for n in range(1000)]
        workers = {name: self.ask(name).get("Waybill-Worker") for name in names}
        writes = self.test.subscribe("$KV.%s.>" % SESSIONS)
        self.test.flush()
        for name in names:
            self.assertServed(self.ask(name), workers[name])
        until = time.monotonic() + 3
        wait_for(lambda: time.monotonic() > until, 10, "three seconds")
        self.assertLess(len(writes.messages), 100)
        self.assertIn("bucket %s: " % SESSIONS, self.router.output())


class ManyRouters(Sessions):
    fabric_options = {"services": THREE, "routers": ("router-1", "router-2", "router-3")}

    def begin_three(self, *handlers, session=None, heartbeat=None):
        self.bucket = self.fabric.watch()
        self.test = self.fabric.client("test")
        self.routers = [self.start(n, session) for n in (1, 2, 3)]
        self.router = self.routers[0]
        self.workers = [self.fabric.raw_worker("w%d" % n, handler, known_to=self.routers, **(heartbeat or {}))
                        for n, handler in enumerate(handlers or (named, named, named), 1)]
        self.client = self.fabric.client()
        self.wait_shared(*self.routers)

    def start(self, number, session=None):
        service = {"name": "echo", "subjects": ["echo.r%d.>" % number], "policy": "round_robin", "session": {**self.session, **(session or {})}}
        return self.fabric.router("router-%d" % number, services=[service])

    def via(self, number, session="s", **headers):
        return self.ask(session, "echo.r%d.x" % number, **headers)

    def test_a_hundred_first_requests_through_three_routers_end_on_one_worker(self):
        self.begin_three(session={"wait_ms": 10000})
        for name in ("a", "b", "c"):
            answers = self.ask_many(100, name, ["echo.r%d.x" % n for n in (1, 2, 3)])
            self.assertEqual([], [a for a in answers if a.error])
            self.assertEqual(1, len({a.get("Waybill-Worker") for a in answers}), [a.get("Waybill-Worker") for a in answers])

    def test_each_router_uses_the_binding_of_another(self):
        self.begin_three()
        worker = self.via(1).get("Waybill-Worker")
        self.assertEqual({worker}, {self.via(n).get("Waybill-Worker") for n in (2, 3, 1, 2, 3)})

    def test_a_router_killed_while_it_owned_is_taken_over(self):
        script = Script(hold, named)
        self.begin_three(script, script, session={"wait_ms": 500})
        self.client.publish("echo.r1.x", b"q", "_INBOX.x", [("Waybill-Session", "s")])
        script.next()
        self.assertEqual("router-1", self.held()[0]["router"])
        self.routers[0].kill()
        begun = time.monotonic()
        answer = self.via(2)
        self.assertServed(answer)
        self.assertLess(time.monotonic() - begun, 3 * SLOW)
        self.wait_bound(answer.get("Waybill-Worker"))
        self.assertServed(self.via(3), answer.get("Waybill-Worker"))
        self.assertEqual(1, self.session_count("taken_over", self.routers[1]))

    def test_a_late_owner_adopts_the_winners_binding(self):
        script = Script(hold, named)
        self.begin_three(script, script, session={"wait_ms": 300})
        inbox = self.client.subscribe("_INBOX.late")
        self.client.flush()
        self.client.publish("echo.r1.x", b"q", "_INBOX.late", [("Waybill-Session", "s")])
        attempt = script.next()
        winner = self.via(2).get("Waybill-Worker")
        self.wait_bound(winner)
        attempt.answer(b"late")
        self.assertEqual(b"late", inbox.next().data)  # its client is served all the same
        self.assertEqual(winner, self.held()[0]["worker"])
        self.assertEqual({winner}, {self.via(n).get("Waybill-Worker") for n in (1, 2, 3)})

    def test_a_rebinding_is_heard_of_everywhere(self):
        self.begin_three()
        worker = self.via(1).get("Waybill-Worker")
        for n in (2, 3):
            self.assertServed(self.via(n), worker)
        bound = next(w for w in self.workers if w.id == worker)
        bound.beat(state="draining")
        for router in self.routers:
            wait_for(lambda: self.fabric.known(router)[worker]["state"] == "draining", 5 * SLOW, "draining")
        answers = self.ask_many(60, "s", ["echo.r%d.x" % n for n in (1, 2, 3)])
        self.assertEqual(1, len({a.get("Waybill-Worker") for a in answers}))
        self.assertNotIn(worker, {a.get("Waybill-Worker") for a in answers})

    def test_unbound_through_one_router_is_unbound_on_all(self):
        self.begin_three()
        self.via(1)
        for n in (2, 3):
            self.via(n)
        self.fabric.client("operator").request("%s.admin.do.unbind.router-2" % PREFIX, b'{"service":"echo","session":"s"}')
        self.wait_unbound()
        for router in self.routers:
            wait_for(lambda: self.show(router, "s")["sessions"] == [], 5 * SLOW, lambda: "unbound: %r" % self.show(router, "s"))

    def test_in_use_on_one_router_it_does_not_expire_on_the_others(self):
        script = Script(named, hold, named)
        self.begin_three(script, script, session={"ttl_s": 1})
        worker = self.via(1).get("Waybill-Worker")
        self.client.publish("echo.r1.x", b"q", "_INBOX.x", [("Waybill-Session", "s")])
        script.next(2)
        until = time.monotonic() + 3
        wait_for(lambda: time.monotonic() > until, 10, "three times the time")
        self.assertEqual({worker}, {self.via(n).get("Waybill-Worker") for n in (2, 3)})

    def test_an_unreadable_value_is_waited_for_and_then_replaced(self):
        self.begin_three(session={"wait_ms": 300})
        for name, value in (("junk", b"{"), ("newer", b'{"v":2,"state":"bound"}')):
            began = time.monotonic()
            self.test.request("$KV.%s.echo.%s" % (SESSIONS, name), value)
            answers = []

            def replaced():
                """The first may have waited its time before the claim's is over: then the next one replaces it."""
                answers.append(self.via(1, name))
                self.assertServed(answers[-1])
                return (self.held(name)[0] or {}).get("worker") == answers[-1].get("Waybill-Worker")
            wait_for(replaced, 10 * SLOW, lambda: "a binding of %s: %r" % (name, self.held(name)))
            self.assertGreaterEqual(time.monotonic() - began, 0.25)
            self.wait_bound(self.via(1, name).get("Waybill-Worker"), name)


class Table(Sessions):
    def test_a_hundred_thousand_sessions_through_a_table_of_65536(self):
        """Each is served; the oldest idle ones are forgotten here and found again in the bucket."""
        total = 20000 if SLOW > 1 else 100000
        held = total * 65536 // 100000
        self.begin(router_limits={"sessions": held})
        self.wait_shared()
        answers, lock = {}, threading.Lock()

        def on_answer(message):
            with lock:
                answers[message.subject] = message.get("Waybill-Worker")
        client = self.fabric.client()
        client.subscribe("_INBOX.t.*", callback=on_answer)
        client.flush()
        for start in range(0, total, 500):
            client.send(b"".join(client.frame("echo.request.x", b"q", "_INBOX.t.%d" % n, [("Waybill-Session", "t%d" % n)])
                                 for n in range(start, start + 500)))
            wait_for(lambda: len(answers) >= start + 500, 30 * SLOW, lambda: "answers, %d of %d" % (len(answers), start + 500))
        self.assertEqual(total, len([w for w in answers.values() if w]))
        self.assertGreaterEqual(self.session_count("forgotten"), total - held)
        self.assertLessEqual(self.show()["held"], held)
        wait_for(lambda: self.held("t%d" % (total - 1))[0]["state"] == "bound", 30 * SLOW, "the last binding")
        for n in (0, 1, 2, total // 3):
            self.assertServed(self.ask("t%d" % n), answers["_INBOX.t.%d" % n])


if __name__ == "__main__":
    unittest.main()
