"""One lane alone is down: the front one, where requests come in and answers go out, or the back one, where workers are. The other stays up."""
import unittest

from case import SLOW, Case, hold, serve, stays, wait_for
from support.proxy import Proxy


class Lanes(Case):
    def ready(self, *handlers, service=None, heartbeat=None):
        self.proxy = Proxy(self.fabric.port)
        self.addCleanup(self.proxy.close)
        url = "nats://127.0.0.1:%d" % self.proxy.port
        super().ready(*handlers, service=service, heartbeat=heartbeat, router_options={"env": {"NATS_URL": url}, "nats": {"url": url}})
        return self.workers

    def cut(self, role):
        self.proxy.cut(role)
        wait_for(lambda: "%s link down" % role in self.router.output(), 10 * SLOW, lambda: "%s link down\n%s" % (role, self.router.tail()))

    def mend(self, role):
        before = self.router.output().count("%s link up" % role)
        self.proxy.mend(role)
        wait_for(lambda: self.router.output().count("%s link up" % role) > before, 20 * SLOW, lambda: "%s link up\n%s" % (role, self.router.tail()))

    def start(self, request_id, headers=None):
        return self.client.start("echo.request.x", request_id.encode(), {"Waybill-Request-Id": request_id, **(headers or {})})

    def assertNobodyBlamed(self):
        shown = self.fabric.known(self.router)
        self.assertEqual({w.id for w in self.workers}, set(shown))
        for entry in shown.values():
            self.assertEqual(("ready", "free"), (entry["state"], entry["standing"]), entry)

    def whole_again(self, request_id="whole-again"):
        """Both lanes serve, every worker is known and free of charges, nothing came twice."""
        self.router.wait_healthy(20)
        for worker in self.workers:
            worker.handler = serve
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "%s-%s" % (request_id, worker.id), "Waybill-Target": worker.id,
                                                                     "Waybill-Replies": "one"}, bound=10 * SLOW)
            self.assertServed(answer, worker.id, b"q")
            self.bucket.record("%s-%s" % (request_id, worker.id), 20 * SLOW)
        self.assertAtRest()
        self.assertNobodyBlamed()


class Start(Lanes):
    def test_not_healthy_before_the_server_knows_the_subscriptions(self):
        """/healthz said 200 when they were written; who believed it got a 503."""
        proxy = Proxy(self.fabric.port)
        self.addCleanup(proxy.close)
        url = "nats://127.0.0.1:%d" % proxy.port
        router = self.fabric.router(wait=False, env={"NATS_URL": url}, nats={"url": url}, router={"start_wait_ms": 1500})
        wait_for(lambda: "front link up" in router.output() and "back link up" in router.output(), 10 * SLOW, router.tail)
        proxy.freeze("front")
        wait_for(lambda: "service echo: serving" in router.output(), 10 * SLOW, router.tail)
        stays(lambda: router.http("/healthz")[0] == 503, 0.5, "503 from /healthz")
        proxy.mend("front")
        router.wait_healthy()


class Front(Lanes):
    def test_answers_are_kept_and_sent_once(self):
        """The worker answers while no answer can go out: attributed at once, delivered once when the link is back within the request's time."""
        (worker,) = self.ready(hold)
        pending = self.start("kept")
        attempt = worker.next()
        self.cut("front")
        attempt.answer(b"a")
        record = self.bucket.record("kept")
        self.assertEqual(("w1", "done"), (record["worker"], record["outcome"]))
        self.assertEqual([], pending.messages)
        self.mend("front")
        self.assertServed(pending.next(10 * SLOW), "w1", b"a")
        self.whole_again()
        self.assertEqual(1, len(pending.messages))
        self.assertEqual(1, len(self.bucket.of("kept")))

    def test_the_charge_is_released_while_the_front_is_away(self):
        (worker,) = self.ready(hold)
        self.start("charged")
        attempt = worker.next()
        self.cut("front")
        self.assertEqual(1, self.router.metrics().get("waybill_charges"))
        attempt.answer(b"a")
        wait_for(lambda: self.router.metrics().get("waybill_charges") == 0, 5 * SLOW, lambda: "no attempt: %r" % self.router.metrics())
        self.mend("front")
        self.whole_again()

    def test_an_answer_whose_request_has_no_time_left_is_not_sent(self):
        (worker,) = self.ready(hold)
        pending = self.start("stale", {"Waybill-Timeout-Ms": "1500"})
        attempt = worker.next()
        self.cut("front")
        attempt.answer(b"a")
        self.assertEqual("done", self.bucket.record("stale")["outcome"])
        wait_for(lambda: self.router.count("answers_dropped") == 1, 10 * SLOW, "the count of an answer given up")
        self.mend("front")
        self.whole_again()
        self.assertEqual([], pending.messages)

    def test_a_request_that_fails_meanwhile_fails_once(self):
        """Errors are answers too: kept, sent once."""
        (worker,) = self.ready(hold, service=self.fabric.service(timeouts={"first_reply_ms": 8000}))
        pending = self.start("failing")
        worker.next()
        self.cut("front")
        worker.beat(state="leaving")
        worker.silence()
        wait_for(lambda: self.router.count("lost") == 1, 10 * SLOW, "the loss")
        self.mend("front")
        self.assertError(pending.next(10 * SLOW), "worker_lost", delivered="maybe", attempts=[("w1", "lost")])
        self.assertNoRecord("failing")
        self.client.flush()
        self.assertEqual(1, len(pending.messages))

    def test_a_stream_that_may_have_lost_messages_is_interrupted(self):
        """Its worker is told to stop; the record says how it ended; error and end come once the client can be reached, numbered on."""
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        pending = self.start("torn")
        attempt = worker.next()
        attempt.stream([b"1", b"2"], end=False)
        pending.wait_count(2)
        self.cut("front")
        wait_for(lambda: worker.cancels, 10 * SLOW, "the worker's cancel")
        self.assertEqual("torn", worker.cancels[0].get("Waybill-Request-Id"))
        self.bucket.wait_outcome("torn", "interrupted")
        late = self.router.count("late")
        attempt.answer(b"3", {"Waybill-Seq": 3})
        wait_for(lambda: self.router.count("late") == late + 1, 5 * SLOW, "the late message's count")
        self.mend("front")
        pending.wait_count(4, 10 * SLOW)
        data1, data2, error, end = pending.messages
        self.assertEqual([b"1", b"2"], [data1.data, data2.data])
        self.assertEqual(("interrupted", "yes"), (error.error, error.get("Waybill-Delivered")))
        self.assertEqual(("interrupted", "2", b""), (end.get("Waybill-Outcome"), end.get("Waybill-Count"), end.data))
        self.assertEqual(["1", "2", "3", "4"], [m.get("Waybill-Seq") for m in pending.messages])
        self.whole_again()
        self.assertEqual(4, len(pending.messages))
        self.assertEqual(["streaming", "interrupted"], [w.value["outcome"] for w in self.bucket.of("torn")])

    def test_a_stream_that_begins_meanwhile_is_whole(self):
        """Nothing of it was lost: all of it waits, and goes out in its order."""
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        pending = self.start("begun")
        attempt = worker.next()
        self.cut("front")
        attempt.stream([b"1", b"2", b"3"])
        self.bucket.wait_outcome("begun", "done")
        self.mend("front")
        pending.wait_count(4, 10 * SLOW)
        self.assertEqual([b"1", b"2", b"3", b""], [m.data for m in pending.messages])
        self.assertEqual(["1", "2", "3", "4"], [m.get("Waybill-Seq") for m in pending.messages])
        self.assertEqual(("done", "3"), (pending.messages[3].get("Waybill-Outcome"), pending.messages[3].get("Waybill-Count")))
        self.whole_again()

    def test_a_frozen_front_is_given_up_and_replaced(self):
        """No word ends the connection: unanswered pings do. Workers are not blamed, and are told to the new connection as before."""
        (worker,) = self.ready(hold)
        pending = self.start("ice")
        attempt = worker.next()
        self.proxy.freeze("front")
        wait_for(lambda: "front link down" in self.router.output(), 30 * SLOW, lambda: "the loss\n" + self.router.tail())
        attempt.answer(b"a")
        self.bucket.record("ice")
        self.proxy.cut("front")  # what hangs in the old connection is lost with it
        self.mend("front")
        self.assertServed(pending.next(10 * SLOW), "w1", b"a")
        self.whole_again()
        self.assertEqual(1, len(pending.messages))


class Back(Lanes):
    def other_router(self):
        return self.fabric.router("router-2")

    def test_leaves_its_queue_groups(self):
        """Whoever can't reach a worker must not be chosen: the other router gets everything; alone, the client is told at once."""
        self.ready(serve)
        self.cut("back")
        wait_for(lambda: self.router.http("/healthz")[0] not in (200, None), 5 * SLOW, "an unready router")
        wait_for(lambda: self.client.request("echo.request.x", b"q", bound=5 * SLOW).status == 503, 5 * SLOW, "no responders")
        other = self.other_router()
        self.fabric.wait_known(other, "w1")
        for n in range(20):
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "other-%d" % n}), "w1")
            self.assertEqual("router-2", self.bucket.record("other-%d" % n)["router"])
        self.mend("back")
        self.whole_again()

    def test_attempts_wait_on_and_end_as_link_lost(self):
        """The answer was sent while nobody could hear it: the attempt's own time ends it. Nobody is blamed, nothing tried again, nothing recorded."""
        (worker, _) = self.ready(hold, hold, service=self.fabric.service(timeouts={"first_reply_ms": 2500}, policy="round_robin", retry={"idempotent": True}))
        pending = self.start("mute", {"Waybill-Target": "w1"})
        attempt = worker.next()
        self.cut("back")
        attempt.answer(b"unheard")
        worker.client.flush()
        self.mend("back")
        self.assertEqual([], pending.messages)
        self.assertError(pending.next(10 * SLOW), "link_lost", delivered="maybe")
        self.assertNobodyBlamed()
        self.assertNoRecord("mute")
        self.whole_again()
        self.assertEqual(1, len(pending.messages))
        self.assertEqual(0, self.router.count("timeouts"))

    def test_link_lost_while_the_link_is_still_down(self):
        (worker,) = self.ready(hold, service=self.fabric.service(timeouts={"first_reply_ms": 1500}))
        pending = self.start("down")
        worker.next()
        self.cut("back")
        self.assertError(pending.next(10 * SLOW), "link_lost", delivered="maybe")
        self.mend("back")
        self.whole_again()
        self.assertEqual(["down"], [a.id for a in worker.attempts if a.id == "down"])
        self.assertEqual(0, self.router.count("timeouts"))
        self.assertNoRecord("down")

    def test_an_answer_after_the_reconnect_is_an_answer(self):
        """The worker never noticed: what it says once the link is back counts, within the attempt's time."""
        (worker,) = self.ready(hold)
        pending = self.start("patient")
        attempt = worker.next()
        self.cut("back")
        self.mend("back")
        self.router.wait_healthy(20)  # the server knows its subscriptions
        attempt.answer(b"a")
        self.assertServed(pending.next(10 * SLOW), "w1", b"a", attempt=1)
        self.assertEqual(("w1", 1, []), tuple(self.bucket.record("patient", 20 * SLOW)[k] for k in ("worker", "attempt", "tried")))
        self.whole_again()

    def test_heartbeats_unheard_while_down_lose_nobody(self):
        """Down for longer than three intervals, and a full period begins afterwards."""
        (worker,) = self.ready(hold, heartbeat={"interval_ms": 200})
        pending = self.start("unheard")
        attempt = worker.next()
        self.cut("back")
        stays(lambda: not pending.messages, 1.5, "the attempt")
        self.mend("back")
        self.router.wait_healthy(20)
        attempt.answer(b"a")
        self.assertServed(pending.next(10 * SLOW), "w1", b"a")
        self.assertEqual(0, self.router.count("lost"))
        self.whole_again()

    def test_requests_that_have_arrived_wait(self):
        """In the router already, not yet at a worker: sent when the link is back, within their time; else link_lost, undelivered."""
        service = self.fabric.service(timeouts={"first_reply_ms": 3000})
        (worker,) = self.ready(lambda a: None, service=service)
        self.proxy.freeze("front")
        waiting, dying = self.start("waiting"), self.start("dying", {"Waybill-Timeout-Ms": "700"})
        self.client.flush()
        self.cut("back")
        self.proxy.mend("front")  # what had been sent arrives now, before the leave is known to the server
        worker.handler = serve
        self.assertIn(dying.next(10 * SLOW).error, ("link_lost", "timeout"))
        self.mend("back")
        self.assertServed(waiting.next(10 * SLOW), "w1", b"waiting")
        self.assertEqual(["waiting"], [a.id for a in worker.attempts])
        self.assertEqual("w1", self.bucket.record("waiting", 20 * SLOW)["worker"])
        self.assertNoRecord("dying")
        self.whole_again()

    def test_nothing_is_sent_late(self):
        """What failed while the link was down does not reach a worker when it is back: neither request nor cancel."""
        (worker,) = self.ready(hold, service=self.fabric.service(timeouts={"first_reply_ms": 1000}))
        self.proxy.freeze("front")
        pending = [self.start("late-%d" % n) for n in range(20)]
        self.client.flush()
        self.cut("back")
        self.proxy.mend("front")
        for sub in pending:
            self.assertError(sub.next(10 * SLOW), "link_lost", delivered="no")
        self.mend("back")
        self.whole_again()
        self.assertEqual(["whole-again-w1"], [a.id for a in worker.attempts])
        self.assertEqual([], worker.cancels)
        self.assertNoRecord(*("late-%d" % n for n in range(20)))

    def test_a_stream_that_does_not_number_is_interrupted(self):
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        pending = self.start("plain")
        worker.next().stream([b"1"], numbered=False, end=False)
        pending.wait_count(1)
        self.bucket.wait_outcome("plain", "streaming")
        self.cut("back")
        pending.wait_count(3, 10 * SLOW)
        self.assertEqual(["interrupted", "interrupted"], [pending.messages[1].error, pending.messages[2].get("Waybill-Outcome")])
        self.mend("back")
        self.bucket.wait_outcome("plain", "interrupted", 20 * SLOW)
        self.whole_again()
        self.assertEqual(3, len(pending.messages))

    def test_a_numbered_stream_shows_whether_it_is_whole(self):
        """One that lost nothing goes on to its end; one with a hole ends as interrupted."""
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        whole, torn = self.start("whole"), self.start("torn")
        worker.next(number=2)
        attempts = {a.id: a for a in worker.attempts}
        for attempt in attempts.values():
            attempt.stream([b"1"], end=False)
        whole.wait_count(1), torn.wait_count(1)
        self.cut("back")
        attempts["torn"].answer(b"2", {"Waybill-Seq": 2})
        worker.client.flush()
        self.mend("back")
        self.router.wait_healthy(20)
        for attempt, number in ((attempts["whole"], 2), (attempts["torn"], 3)):
            attempt.answer(b"%d" % number, {"Waybill-Seq": number})
            attempt.answer(b"", {"Waybill-Seq": number + 1})
        whole.wait_count(3, 10 * SLOW), torn.wait_count(3, 10 * SLOW)
        self.assertEqual([b"1", b"2", b""], [m.data for m in whole.messages])
        self.assertEqual("done", whole.messages[-1].get("Waybill-Outcome"))
        self.assertEqual([b"1", "interrupted", "interrupted"],
                         [torn.messages[0].data, torn.messages[1].error, torn.messages[2].get("Waybill-Outcome")])
        self.bucket.wait_outcome("whole", "done", 20 * SLOW)
        self.bucket.wait_outcome("torn", "interrupted", 20 * SLOW)
        self.whole_again()

    def test_who_waited_for_its_session_waits_for_the_link(self):
        """Its waiting over while the link was down, it was sent into nothing: an internal error."""
        service = self.fabric.service(session={"ttl_s": 60, "wait_ms": 1000})
        (worker,) = self.ready(hold, service=service)
        owner = self.start("owner", {"Waybill-Session": "s"})
        worker.next()
        waiter = self.start("waiter", {"Waybill-Session": "s"})
        wait_for(lambda: int(self.router.metrics()["waybill_held_requests"]) == 2, 5 * SLOW, "two requests held")
        self.cut("back")
        wait_for(lambda: self.router.metrics().get("waybill_sessions_waits_over_total") == 1, 10 * SLOW, "the end of its waiting")
        self.assertEqual([], waiter.messages)
        worker.handler = serve
        self.mend("back")
        self.assertServed(waiter.next(10 * SLOW), "w1")
        self.assertEqual([], owner.messages)

    def test_a_frozen_back_blames_nobody(self):
        """Nothing comes and nobody says so: heartbeats stop, but that is the link's silence and no worker's. What was out ends as link_lost."""
        (worker,) = self.ready(serve, service=self.fabric.service(timeouts={"first_reply_ms": 20000}), heartbeat={"interval_ms": 300})
        self.proxy.freeze("back")
        pending = self.start("frozen")
        wait_for(lambda: "back link down" in self.router.output(), 30 * SLOW, lambda: "the loss\n" + self.router.tail())
        self.assertEqual((0, 0, 0), tuple(self.router.count(name) for name in ("workers_lost", "lost", "timeouts")))
        self.assertEqual(["w1"], list(self.fabric.known(self.router)))
        self.assertEqual([], pending.messages)
        self.proxy.cut("back")
        self.mend("back")
        self.assertError(pending.next(20 * SLOW), "link_lost", delivered="maybe", attempts=[("w1", "link")])
        self.assertNoRecord("frozen")
        self.whole_again()
        self.assertEqual(["whole-again-w1"], [a.id for a in worker.attempts])
        self.assertEqual((0, 0, 0), tuple(self.router.count(name) for name in ("workers_lost", "lost", "timeouts")))

    def test_a_worker_that_dies_is_lost_as_ever(self):
        """On a link that lives: the proof costs no more than a round trip."""
        (worker,) = self.ready(hold, heartbeat={"interval_ms": 300})
        pending = self.start("dead")
        worker.next()
        worker.vanish()
        self.assertError(pending.next(4 * SLOW), "worker_lost", delivered="maybe", attempts=[("w1", "lost")])


if __name__ == "__main__":
    unittest.main()
