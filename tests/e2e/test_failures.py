"""Workers that fail: what the client gets, who is tried next, and that the bucket never names one that did not serve."""
import json
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, stays, wait_for


class Killed(Case):
    def test_killed_worker_requests_go_on(self):
        """SIGKILL: its subscription is gone, its heartbeats are remembered; the first no_responders leads to the other at once."""
        self.bucket = self.fabric.watch()
        router = self.fabric.router(services=[self.fabric.service(policy="round_robin")])
        victim = self.fabric.worker("w1", "--echo", known_to=[router])
        self.fabric.worker("w2", "--echo", known_to=[router])
        client = self.fabric.client()
        self.assertEqual({"w1", "w2"}, {client.request("echo.request.x", b"q").get("Waybill-Worker") for _ in range(4)})
        victim.kill()
        tried = 0
        for n in range(10):
            answer = client.request("echo.request.x", b"q", {"Waybill-Request-Id": "after-%d" % n})
            self.assertServed(answer, "w2", b"q")
            record = self.bucket.record("after-%d" % n)
            self.assertEqual("w2", record["worker"])
            self.assertEqual(1, len(self.bucket.of("after-%d" % n)))
            if record["tried"]:
                tried += 1
                self.assertEqual([{"worker": "w1", "cause": "no_responders"}], record["tried"])
                self.assertEqual(("w1", "retry", 2), (record["selected"], record["reason"], record["attempt"]))
        self.assertGreaterEqual(tried, 1)
        self.assertGreaterEqual(router.count("no_responders"), 1)

    def test_killed_before_its_first_answer(self):
        """It has the request and dies: lost when its heartbeats are missed, worker_lost, nothing recorded."""
        (worker,) = self.ready(hold, heartbeat={"interval_ms": 200})
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "dead"})
        worker.next()
        worker.vanish()
        self.assertError(pending.next(10 * SLOW), "worker_lost", delivered="maybe", attempts=[("w1", "lost")])
        self.assertNoRecord("dead")
        self.fabric.wait_unknown(self.router, "w1")

    def test_killed_before_its_first_answer_idempotent(self):
        self.ready(hold, hold, heartbeat={"interval_ms": 200})
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "again", "Waybill-Idempotent": "true"})
        wait_for(lambda: any(w.attempts for w in self.workers), 5 * SLOW, "the attempt")
        victim = next(w for w in self.workers if w.attempts)
        other = next(w for w in self.workers if w is not victim)
        other.handler = serve
        victim.vanish()
        self.assertServed(pending.next(10 * SLOW), other.id, b"q", attempt=2)
        record = self.bucket.record("again")
        self.assertEqual([{"worker": victim.id, "cause": "lost"}], record["tried"])
        self.assertEqual(other.id, record["worker"])

    def test_killed_after_its_first_answer(self):
        """A stream that has begun runs on under the inactivity clock."""
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream", timeouts={"inactivity_ms": 1500}))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "cut"})
        worker.next().stream([b"1", b"2"], end=False)
        pending.wait_count(2)
        worker.vanish()
        pending.wait_count(4, 15 * SLOW)
        data1, data2, error, end = pending.messages
        self.assertEqual([b"1", b"2"], [data1.data, data2.data])
        self.assertEqual(("timeout", "yes"), (error.error, error.get("Waybill-Delivered")))
        self.assertEqual(("timeout", "2", b""), (end.get("Waybill-Outcome"), end.get("Waybill-Count"), end.data))
        self.assertEqual(["1", "2", "3", "4"], [m.get("Waybill-Seq") for m in pending.messages])
        self.bucket.wait_outcome("cut", "timeout")
        self.assertEqual(["streaming", "timeout"], [w.value["outcome"] for w in self.bucket.of("cut")])

    def test_unsubscribed_but_beating(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin"))
        self.workers[0].unsubscribe()
        for n in range(8):
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "u%d" % n}), "w2")
            self.assertEqual("w2", self.bucket.record("u%d" % n)["worker"])
        self.assertEqual([], self.workers[0].attempts)

    def test_the_only_one_unsubscribed(self):
        (worker,) = self.ready(serve)
        worker.unsubscribe()
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "gone"})
        self.assertError(answer, "no_worker", delivered="no", attempts=[("w1", "no_responders")])
        self.assertNoRecord("gone")
        self.assertAtRest()

    def test_leaving_loses_what_is_open(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "left"})
        worker.next()
        worker.leave()
        self.assertError(pending.next(5 * SLOW), "worker_lost", delivered="maybe", attempts=[("w1", "lost")])
        self.assertNoRecord("left")

    def test_leaving_after_progress_is_surely_delivered(self):
        (worker,) = self.ready(lambda a: a.answer(b"", {"Waybill-Progress": "true"}))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "left2"})
        worker.next()
        wait_for(lambda: self.router.count("progress") == 1, 5 * SLOW, "progress")
        worker.leave()
        self.assertError(pending.next(5 * SLOW), "worker_lost", delivered="yes")
        self.assertNoRecord("left2")

    def test_draining_finishes_what_it_has(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "drained"})
        worker.next()
        worker.beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "draining")
        worker.attempts[0].answer(b"a")
        self.assertServed(pending.next(), "w1", b"a")
        self.bucket.record("drained")

    def test_cli_worker_says_leaving_on_sigterm(self):
        router = self.fabric.router()
        worker = self.fabric.worker("w1", "--echo", known_to=[router])
        self.assertEqual(0, worker.terminate())
        self.fabric.wait_unknown(router, "w1", bound=3)


class NeverStarted(Case):
    fabric_options = {"statics": {("echo", "ghost"): "legacy.ghost"}}

    def test_static_worker_nobody_runs(self):
        service = self.fabric.service(policy="round_robin", workers=[{"id": "ghost", "subject": "legacy.ghost"}])
        self.ready(serve, service=service)
        tried = 0
        for n in range(6):
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "g%d" % n}), "w1")
            record = self.bucket.record("g%d" % n)
            self.assertEqual("w1", record["worker"])
            tried += record["tried"] == [{"worker": "ghost", "cause": "no_responders"}]
        self.assertGreaterEqual(tried, 1)

    def test_nothing_but_the_ghost(self):
        service = self.fabric.service(workers=[{"id": "ghost", "subject": "legacy.ghost"}])
        self.ready(service=service)
        for n in range(3):
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "g%d" % n})
            self.assertError(answer, "no_worker", delivered="no", attempts=[("ghost", "no_responders")])
        self.assertNoRecord("g0", "g1", "g2")

    def test_a_static_responder_serves_without_knowing_waybill(self):
        service = self.fabric.service(workers=[{"id": "ghost", "subject": "legacy.ghost"}])
        self.ready(service=service)
        legacy = self.fabric.client("echo-ghost")
        legacy.subscribe("legacy.ghost", callback=lambda m: legacy.publish(m.reply, b"old " + m.data))
        legacy.flush()
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "old"}), "ghost", b"old q")
        self.assertEqual("ghost", self.bucket.record("old")["worker"])

    def test_heartbeats_under_a_static_id_are_ignored(self):
        service = self.fabric.service(workers=[{"id": "ghost", "subject": "legacy.ghost"}])
        self.ready(service=service)
        before = self.router.count("heartbeats_ignored")
        tester = self.fabric.client("test")
        tester.publish("waybill.heartbeat.echo.ghost", json.dumps({"v": 1, "epoch": 9, "state": "draining"}).encode())
        wait_for(lambda: self.router.count("heartbeats_ignored") > before, 5 * SLOW, "the ignored heartbeat")
        self.assertEqual("ready", self.fabric.known(self.router)["ghost"]["state"])


class Refusals(Case):
    def test_refusal_then_success(self):
        script = Script(refuse(503), serve)
        self.ready(script, script)
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "ref"})
        first, second = script.workers
        self.assertNotEqual(first, second)
        self.assertServed(answer, second, b"q", attempt=2)
        record = self.bucket.record("ref")
        self.assertEqual([{"worker": first, "cause": "refused"}], record["tried"])
        self.assertEqual((second, first, "retry", 2), tuple(record[k] for k in ("worker", "selected", "reason", "attempt")))
        self.assertEqual(1, len(self.bucket.of("ref")))
        self.assertEqual(["1", "2"], [a.message.get("Waybill-Attempt") for a in script.attempts])
        self.assertAtRest()

    def test_refusal_after_progress(self):
        def progress_then_refuse(attempt):
            attempt.answer(b"", {"Waybill-Progress": "true"})
            attempt.refuse(429, "full")
        script = Script(progress_then_refuse, serve)
        self.ready(script, script)
        self.assertServed(self.client.request("echo.request.x", b"q"), None, b"q", attempt=2)

    def test_all_refuse(self):
        script = Script(lambda a: a.refuse(503, "no room", b"body of " + a.worker.id.encode(), [("X-Why", "full")]))
        self.ready(script, script)
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "all"})
        self.assertEqual(2, len(script.attempts))
        self.assertEqual({"w1", "w2"}, set(script.workers))
        self.assertEqual(("overloaded", 503, "no room", "full"),
                         (answer.error, answer.code, answer.get("Nats-Service-Error"), answer.get("X-Why")))
        self.assertEqual(b"body of " + script.workers[1].encode(), answer.data)
        self.assertEqual("no", answer.get("Waybill-Delivered"))
        self.assertIsNone(answer.get("Waybill-Worker"))
        self.assertTrue(answer.get("Waybill-Retry-After-Ms"))
        self.assertNoRecord("all")
        self.assertAtRest()

    def test_max_attempts(self):
        script = Script(refuse(503))
        self.ready(script, script, script, service=self.fabric.service(retry={"max_attempts": 2}))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "max"})
        self.assertEqual("overloaded", answer.error)
        self.assertEqual(2, len(script.attempts))
        self.assertNoRecord("max")

    def test_a_refusing_worker_is_marked_overloaded(self):
        script = Script(refuse(503, retry_after_ms=60000), serve)
        self.ready(script, script)
        self.client.request("echo.request.x", b"q")
        refused = script.workers[0]
        for n in range(10):
            answer = self.client.request("echo.request.x", b"q")
            self.assertServed(answer, attempt=1)
            self.assertNotEqual(refused, answer.get("Waybill-Worker"))
        next(w for w in self.workers if w.id == refused).beat(epoch=self.workers[0].fields["epoch"] + 10 ** 6)
        wait_for(lambda: self.client.request("echo.request.x", b"q").get("Waybill-Worker") == refused, 5 * SLOW, "the mark's end by a new epoch")

    def test_other_codes_are_answers(self):
        self.ready(lambda a: a.error(500, "broken", b"detail"), serve, service=self.fabric.service(policy="round_robin"))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "e500", "Waybill-Target": "w1"})
        self.assertEqual((500, "broken", b"detail", "w1"),
                         (answer.code, answer.get("Nats-Service-Error"), answer.data, answer.get("Waybill-Worker")))
        self.assertIsNone(answer.error)
        record = self.bucket.record("e500")
        self.assertEqual(("error", 500, "w1"), (record["outcome"], record["code"], record["worker"]))
        self.assertEqual([], self.workers[1].attempts)

    def test_no_codes_no_refusals(self):
        self.ready(refuse(503), refuse(503), service=self.fabric.service(retry={"on_codes": []}))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "plain"})
        self.assertEqual(1, sum(len(w.attempts) for w in self.workers))
        self.assertEqual(503, answer.code)
        self.assertEqual("error", self.bucket.record("plain")["outcome"])


class Timeouts(Case):
    def service(self, **timeouts):
        return self.fabric.service(timeouts={"first_reply_ms": 400, "inactivity_ms": 400, **timeouts})

    def test_not_idempotent(self):
        script = Script(hold, serve)
        self.ready(script, script, service=self.service())
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "late"})
        self.assertError(answer, "timeout", delivered="maybe", attempts=[(script.workers[0], "timeout")])
        self.assertEqual(1, len(script.attempts))
        holder = script.attempts[0].worker
        wait_for(lambda: holder.cancels, 5 * SLOW, "the cancel")
        cancel = holder.cancels[0]
        self.assertEqual(("late", "1"), (cancel.get("Waybill-Request-Id"), cancel.get("Waybill-Attempt")))
        script.attempts[0].answer(b"too late")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late answer's count")
        self.assertNoRecord("late")
        self.assertAtRest()

    def test_idempotent_by_header(self):
        script = Script(hold, serve)
        self.ready(script, script, service=self.service())
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "idem", "Waybill-Idempotent": "true"})
        self.assertServed(answer, script.workers[1], b"q", attempt=2)
        script.attempts[0].answer(b"too late")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late answer's count")
        record = self.bucket.record("idem")
        self.assertEqual(script.workers[1], record["worker"])
        self.assertEqual([{"worker": script.workers[0], "cause": "timeout"}], record["tried"])
        self.assertEqual(1, len(self.bucket.of("idem")))

    def test_idempotent_by_service_and_denied_by_header(self):
        script = Script(hold, serve)
        self.ready(script, script, service={**self.service(), "retry": {"idempotent": True}})
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "no", "Waybill-Idempotent": "false"}), "timeout")
        self.assertNoRecord("no")
        script.attempts.clear()
        self.assertServed(self.client.request("echo.request.x", b"q"), attempt=2)

    def test_all_time_out(self):
        script = Script(hold)
        self.ready(script, script, service=self.service())
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "never", "Waybill-Idempotent": "true"})
        self.assertError(answer, "timeout", delivered="maybe", attempts=[(w, "timeout") for w in script.workers])
        self.assertEqual({"w1", "w2"}, set(script.workers))
        self.assertNoRecord("never")

    def test_progress_rearms_then_inactivity_ends(self):
        (worker,) = self.ready(hold, service=self.service(first_reply_ms=600, inactivity_ms=600))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "slow"})
        attempt = worker.next()
        for n in range(4):
            stays(lambda: not pending.messages, 0.3, "no answer yet")
            attempt.answer(b"", {"Waybill-Progress": "true"})
        answer = pending.next(5 * SLOW)
        self.assertError(answer, "timeout", delivered="yes", attempts=[("w1", "timeout")])
        self.assertIn("inactivity", answer.json()["message"])
        self.assertNoRecord("slow")

    def test_total_time_of_the_client(self):
        script = Script(hold)
        self.ready(script, script)
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "total", "Waybill-Timeout-Ms": "300", "Waybill-Idempotent": "true"})
        self.assertError(answer, "timeout", delivered="maybe")
        self.assertIn("total", answer.json()["message"])
        self.assertEqual(1, len(script.attempts))
        wait_for(lambda: script.attempts[0].worker.cancels, 5 * SLOW, "the cancel")
        self.assertNoRecord("total")


class Epochs(Case):
    def test_a_new_epoch_ends_the_old_ones_attempts(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "old-epoch"})
        worker.next()
        worker.beat(epoch=worker.fields["epoch"] + 1)
        self.assertError(pending.next(5 * SLOW), "worker_lost", delivered="maybe", attempts=[("w1", "lost")])
        worker.attempts[0].answer(b"from the past")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late answer's count")
        self.assertNoRecord("old-epoch")
        worker.handler = serve
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "new-epoch"}), "w1")
        self.assertEqual(worker.fields["epoch"], self.bucket.record("new-epoch")["worker_epoch"])
        self.assertAtRest()

    def test_a_new_epoch_interrupts_streams(self):
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "es"})
        worker.next().stream([b"1"], end=False)
        pending.wait_count(1)
        worker.beat(epoch=worker.fields["epoch"] + 1)
        pending.wait_count(3)
        self.assertEqual("interrupted", pending.messages[1].error)
        self.assertEqual("interrupted", pending.messages[2].get("Waybill-Outcome"))
        self.bucket.wait_outcome("es", "interrupted")

    def test_two_processes_with_one_id(self):
        """Both hear each request and both answer: the client gets one answer, the other is late; the older epoch is reported."""
        self.bucket = self.fabric.watch()
        events = self.fabric.client("operator")
        seen = events.subscribe("waybill.event.duplicate_worker")
        events.flush()
        router = self.router = self.fabric.router()
        old = self.fabric.raw_worker("w1", serve, known_to=[router], epoch=1000)
        new = self.fabric.raw_worker("w1", serve, epoch=2000)
        wait_for(lambda: self.fabric.known(router)["w1"]["epoch"] == 2000, 5 * SLOW, "the higher epoch")
        old.beat()
        wait_for(lambda: router.count("duplicate_worker") >= 1, 5 * SLOW, "the duplicate's count")
        seen.next()
        self.assertEqual(2000, self.fabric.known(router)["w1"]["epoch"])
        client = self.client = self.fabric.client()
        for n in range(10):
            sub = client.start("echo.request.x", b"q", {"Waybill-Request-Id": "two-%d" % n})
            self.assertServed(sub.next(), "w1")
            wait_for(lambda: router.count("late") == n + 1, 5 * SLOW, "the other's late answer")
            self.assertEqual(1, len(sub.messages))
            self.assertEqual(1, len(self.bucket.wait("two-%d" % n)))
        self.assertEqual(10, len(new.attempts))
        self.assertAtRest()


class Ejection(Case):
    def test_a_worker_that_subscribed_again_comes_back(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin"))
        worker = self.workers[0]
        worker.unsubscribe()
        for n in range(4):
            self.assertServed(self.client.request("echo.request.x", b"q"), "w2")
        worker.subscription = worker.client.subscribe(worker.subject, callback=worker._on_request)
        worker.client.flush()
        wait_for(lambda: self.client.request("echo.request.x", b"q").get("Waybill-Worker") == "w1", 10 * SLOW, "w1 serving again")


class Cancel(Case):
    def test_by_the_client_that_asked(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "c1"})
        worker.next()
        stranger = self.fabric.client()
        stranger.publish("waybill.cancel.echo.c1", b"", None, {"Waybill-Reply": "_INBOX.other"})
        stranger.publish("waybill.cancel.echo.c1", b"")
        stranger.flush()
        said = self.client.request("waybill.cancel.echo.c1", b"", {"Waybill-Reply": pending.subject})
        self.assertEqual({"cancelled": True}, said.json())
        self.assertError(pending.next(), "cancelled", delivered="maybe", attempts=[("w1", "cancelled")])
        wait_for(lambda: worker.cancels, 5 * SLOW, "the worker's cancel")
        worker.attempts[0].answer(b"x")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late answer's count")
        self.assertEqual(1, len(pending.messages))
        self.assertNoRecord("c1")
        self.assertAtRest()

    def test_a_stream_under_way(self):
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "c2"})
        worker.next().stream([b"1"], end=False)
        pending.wait_count(1)
        self.client.publish("waybill.cancel.echo.c2", b"", None, {"Waybill-Reply": pending.subject})
        pending.wait_count(3)
        self.assertEqual(["cancelled", "cancelled"], [pending.messages[1].error, pending.messages[2].get("Waybill-Outcome")])
        self.bucket.wait_outcome("c2", "cancelled")

    def test_by_the_operator(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "c3"})
        worker.next()
        operator = self.fabric.client("operator")
        operator.request("waybill.admin.do.cancel", json.dumps({"service": "echo", "request_id": "c3"}).encode())
        self.assertError(pending.next(), "cancelled")
        self.assertNoRecord("c3")


if __name__ == "__main__":
    unittest.main()
