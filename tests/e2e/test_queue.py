"""The waiting queue: order, room, time, what ends a wait, and who is on record for what waited."""
import signal
import threading
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, stays, wait_for


class Queue(Case):
    def one(self, handler=hold, limit=20, wait_ms=20000, capacity=1, service=None, interval_ms=1000, **options):
        """A worker with a capacity, and a service whose requests may wait."""
        service = self.fabric.service(queue={"limit": limit, "wait_ms": wait_ms}, **(service or {}))
        (worker,) = self.ready(handler, service=service, heartbeat={"capacity": capacity, "interval_ms": interval_ms},
                               **options)
        return worker

    def start(self, name, **headers):
        return self.client.start("echo.request.x", name.encode(), [("Waybill-Request-Id", name)] +
                                 [("Waybill-" + key.replace("_", "-"), value) for key, value in headers.items()])

    def waiting(self, count):
        wait_for(lambda: self.router.metrics().get("waybill_waiting") == count, 5 * SLOW,
                 lambda: "%d waiting\n%r" % (count, self.router.metrics()))

    def busy(self, worker, name="first"):
        """One request that occupies the worker until the test answers it."""
        sub = self.start(name)
        worker.next()
        return sub

    def assertQuiet(self):
        self.assertAtRest()
        self.waiting(0)

    # -- order

    def test_twenty_in_order(self):
        worker = self.one()
        subs = [self.busy(worker, "r0")]
        for n in range(1, 21):
            subs.append(self.start("r%d" % n))
            self.waiting(n)
        self.assertEqual(1, len(worker.attempts))
        for n in range(21):
            attempt = worker.next(number=n + 1)
            self.assertEqual("r%d" % n, attempt.id)
            self.assertEqual("1", attempt.message.get("Waybill-Attempt"), "waiting is no attempt")
            attempt.answer(b"done")
            self.assertServed(subs[n].next(), "w1", b"done", attempt=1)
        self.assertQuiet()
        self.assertEqual(20, self.router.count("queued"))
        for n in range(21):
            record = self.bucket.record("r%d" % n)
            self.assertEqual(("w1", 1, "policy", []), (record["worker"], record["attempt"], record["reason"], record["tried"]))
            self.assertEqual(1, len(self.bucket.of("r%d" % n)))

    def test_many_at_once_are_all_served_within_the_capacity(self):
        """A worker that answers on its own: never more than its capacity, nobody lost."""
        most, now, lock = [0], [0], threading.Lock()

        def slow(attempt):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])

            def answer():
                with lock:
                    now[0] -= 1
                attempt.answer(attempt.data)
            threading.Timer(0.005, answer).start()
        self.one(slow, limit=500, capacity=4)
        subs = [self.start("m%d" % n) for n in range(300)]
        for n, sub in enumerate(subs):
            self.assertServed(sub.next(30 * SLOW), "w1", b"m%d" % n)
        self.assertLessEqual(most[0], 4)
        self.assertQuiet()

    def test_priorities_and_no_starvation(self):
        worker = self.one(limit=40)
        self.busy(worker)
        for n in range(3):
            self.start("low%d" % n, Priority="low")
        for n in range(3):
            self.start("normal%d" % n)
        for n in range(16):
            self.start("high%d" % n, Priority="high")
        self.waiting(22)
        order = []
        for n in range(23):
            attempt = worker.next(number=n + 1)
            order.append(attempt.id)
            attempt.answer(b"done")
        kinds = [name.rstrip("0123456789") for name in order[1:]]
        self.assertEqual(["high"] * 7, kinds[:7])
        self.assertEqual({"normal", "low"}, set(kinds[7:9]))
        for kind in ("low", "normal", "high"):
            mine = [name for name in order if name.startswith(kind)]
            self.assertEqual(["%s%d" % (kind, n) for n in range(len(mine))], mine, "by arrival within a priority")
        self.assertLess(kinds.index("low"), 9)
        self.assertQuiet()

    def test_the_lowest_is_served_under_a_stream_of_higher_ones(self):
        worker = self.one(limit=40)
        self.busy(worker)
        low = self.start("low", Priority="low")
        for n in range(10):
            self.start("high%d" % n, Priority="high")
        self.waiting(11)
        for n in range(9):
            attempt = worker.next(number=n + 1)
            if attempt.id == "low":
                break
            attempt.answer(b"done")
            self.start("more%d" % n, Priority="high")
        attempt.answer(b"at last")
        self.assertServed(low.next(), "w1", b"at last")
        for n in range(len(worker.attempts), 21):
            worker.next(number=n).answer(b"done")
        wait_for(lambda: len(worker.attempts) >= 20, 5 * SLOW, "the others")

    def test_a_newcomer_does_not_overtake(self):
        """Answer and newcomer reach the router in one read: who waited is first."""
        worker = self.one()
        self.busy(worker)
        self.start("waits")
        self.waiting(1)
        for n in range(2, 12):
            self.start("later%d" % n)
            worker.attempts[-1].answer(b"done")
            worker.next(number=n)
        self.assertEqual(["first", "waits"] + ["later%d" % n for n in range(2, 11)], [a.id for a in worker.attempts])

    # -- room and time

    def test_full_is_overloaded_at_once(self):
        worker = self.one(limit=2, wait_ms=60000)
        first = self.busy(worker)
        kept = [self.start("k1"), self.start("k2")]
        self.waiting(2)
        answer = self.start("over").next(2 * SLOW)
        body = self.assertError(answer, "overloaded", delivered="no", attempts=[])
        self.assertEqual("service", body["scope"])
        self.assertTrue(1 <= int(answer.get("Waybill-Retry-After-Ms")) <= 60000, answer)
        self.assertEqual(1, self.router.count("queue_full"))
        for number, sub in enumerate([first] + kept, 1):
            worker.next(number=number).answer(b"done")
            self.assertServed(sub.next(), "w1")
        self.assertNoRecord("over")

    def test_without_a_queue_it_is_overloaded_at_once(self):
        worker = self.one(limit=0)
        self.busy(worker)
        self.assertError(self.start("over").next(), "overloaded", delivered="no")
        self.assertEqual((0, 0), (self.router.count("queued"), self.router.count("queue_full")))

    def test_waited_long_enough(self):
        worker = self.one(wait_ms=300)
        first = self.busy(worker)
        answer = self.start("late").next(5 * SLOW)
        body = self.assertError(answer, "overloaded", delivered="no", attempts=[])
        self.assertEqual("service", body["scope"])
        self.assertTrue(1 <= int(answer.get("Waybill-Retry-After-Ms")) <= 60000, answer)
        self.assertEqual(1, self.router.count("queue_timeouts"))
        worker.attempts[0].answer(b"done")
        self.assertServed(first.next(), "w1")
        self.assertNoRecord("late")
        self.assertQuiet()

    def test_the_total_time_counts_in_the_queue(self):
        worker = self.one()
        self.busy(worker)
        answer = self.start("late", Timeout_Ms=300).next(5 * SLOW)
        self.assertError(answer, "timeout", delivered="no")
        self.assertEqual(0, self.router.count("queue_timeouts"))
        self.waiting(0)

    def test_first_reply_does_not_run_in_the_queue(self):
        worker = self.one(service={"timeouts": {"first_reply_ms": 1000}})
        self.busy(worker)
        sub = self.start("patient")
        self.waiting(1)
        wait_for(lambda: self.router.count("timeouts") == 1, 5 * SLOW, "first's timeout")
        worker.next(number=2).answer(b"done")
        self.assertServed(sub.next(), "w1", b"done", attempt=1)

    # -- what ends a wait

    def test_cancel_while_waiting(self):
        worker = self.one()
        first = self.busy(worker)
        sub = self.start("unwanted")
        other = self.start("wanted")
        self.waiting(2)
        self.client.publish("waybill.cancel.echo.unwanted", b"", None, {"Waybill-Reply": sub.subject})
        self.assertError(sub.next(), "cancelled", delivered="no", attempts=[])
        self.waiting(1)
        worker.attempts[0].answer(b"done")
        worker.next(number=2).answer(b"done")
        self.assertServed(first.next(), "w1")
        self.assertServed(other.next(), "w1")
        self.assertEqual([], worker.cancels)
        self.assertNoRecord("unwanted")
        self.assertQuiet()

    def test_all_workers_gone_is_no_worker_at_once(self):
        worker = self.one(wait_ms=60000)
        first = self.busy(worker)
        subs = [self.start("g%d" % n) for n in range(3)]
        self.waiting(3)
        worker.leave()
        self.assertError(first.next(3 * SLOW), "worker_lost")
        for sub in subs:
            self.assertError(sub.next(3 * SLOW), "no_worker", delivered="no", attempts=[])
        self.assertNoRecord("first", "g0", "g1", "g2")
        self.waiting(0)

    def test_a_worker_killed_while_others_wait(self):
        """Those that wait go to the other, and are on its record alone."""
        self.one(wait_ms=60000, service={"retry": {"idempotent": False}})
        dying = self.workers[0]
        first = self.busy(dying)
        other = self.fabric.raw_worker("w2", hold, known_to=[self.router], capacity=1)
        second = self.start("second")
        other.next()
        subs = [self.start("k%d" % n) for n in range(4)]
        self.waiting(4)
        dying.beat(state="leaving")
        dying.vanish()
        self.assertError(first.next(3 * SLOW), "worker_lost")
        other.handler = serve
        other.attempts[0].answer(b"done")
        self.assertServed(second.next(), "w2")
        for n, sub in enumerate(subs):
            self.assertServed(sub.next(5 * SLOW), "w2", b"k%d" % n)
            self.assertEqual("w2", self.bucket.record("k%d" % n)["worker"])
        self.assertNoRecord("first")
        self.assertQuiet()

    def test_waiting_for_the_target(self):
        """Only its own worker serves it, while others are free."""
        worker = self.one()
        self.busy(worker)
        other = self.fabric.raw_worker("w2", serve, known_to=[self.router])
        sub = self.start("mine", Target="w1")
        self.waiting(1)
        self.assertServed(self.start("any").next(), "w2")
        worker.attempts[0].answer(b"done")
        worker.next(number=2).answer(b"mine")
        self.assertServed(sub.next(), "w1", b"mine")
        self.assertEqual(1, len(other.attempts))
        lost = self.start("kept", Target="w1")
        worker.next(number=3)
        waits = self.start("lost", Target="w1")
        self.waiting(1)
        worker.leave()
        self.assertError(waits.next(3 * SLOW), "unknown_worker", delivered="no")
        self.assertError(lost.next(3 * SLOW), "worker_lost")
        self.assertNoRecord("lost", "kept")

    def test_drain_serves_those_that_wait(self):
        worker = self.one()
        first, sub = self.busy(worker), self.start("waits")
        self.waiting(1)
        self.router.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in self.router.output(), 5 * SLOW, "the drain")
        worker.attempts[0].answer(b"done")
        worker.next(number=2).answer(b"done")
        self.assertServed(first.next(), "w1")
        self.assertServed(sub.next(), "w1", b"done")
        self.assertEqual(0, self.router.ended())

    def test_drain_ends_what_still_waits(self):
        worker = self.one(router_options={"router": {"drain_ms": 300}})
        first, sub = self.busy(worker), self.start("waits")
        self.waiting(1)
        self.router.signal(signal.SIGTERM)
        self.assertError(sub.next(5 * SLOW), "draining", delivered="no")
        self.assertError(first.next(5 * SLOW), "draining", delivered="maybe")
        self.assertEqual(0, self.router.ended())
        self.assertNoRecord("waits", "first")

    def test_the_link_is_lost_while_waiting(self):
        """The server comes back within the time: it goes on waiting, and is served."""
        self.bucket = None
        self.router = self.fabric.router(services=[self.fabric.service(queue={"limit": 5, "wait_ms": 60000},
                                                                       timeouts={"first_reply_ms": 500, "total_ms": 60000})])
        busy = self.fabric.raw_worker("w1", hold, known_to=[self.router], capacity=1, interval_ms=5000)
        client = self.fabric.client()
        client.start("echo.request.x", b"q")
        busy.next()
        client.publish("echo.request.x", b"waits", None, {"Waybill-Request-Id": "waits"})
        self.waiting(1)
        self.fabric.stop_server()
        wait_for(lambda: self.router.metrics()['waybill_lane_up{lane="back"}'] == 0, 5 * SLOW, "the link to fall")
        stays(lambda: self.router.metrics()["waybill_waiting"] == 1, 0.7, "the waiting")
        self.fabric.start_server()
        again = self.fabric.raw_worker("w1", hold, capacity=1, interval_ms=5000)
        self.assertEqual(b"waits", again.next(15 * SLOW).data)

    # -- refusals

    def test_refused_and_served_by_the_same_worker_when_its_mark_ran_out(self):
        script = Script(refuse(503, 1500), serve)
        self.one(script, capacity=0, interval_ms=60000)  # nothing else wakes the router
        self.assertServed(self.start("again").next(8 * SLOW), "w1", b"again", attempt=2)
        record = self.bucket.record("again")
        self.assertEqual(("w1", 2, "retry"), (record["worker"], record["attempt"], record["reason"]))
        self.assertEqual([{"worker": "w1", "cause": "refused"}], record["tried"])
        self.assertEqual(1, self.router.count("queued"))
        self.assertQuiet()

    def test_refused_until_attempts_run_out(self):
        script = Script(refuse(503, 50, b"no"))
        self.one(script, capacity=0)
        answer = self.start("never").next(10 * SLOW)
        self.assertEqual(("overloaded", 503, b"no"), (answer.error, answer.code, answer.data))
        self.assertEqual(3, len(script.attempts))
        self.assertNoRecord("never")
        self.assertQuiet()

    def test_refused_and_its_mark_outlasts_the_wait(self):
        script = Script(refuse(503, 30000, b"later"))
        self.one(script, capacity=0, wait_ms=300)
        answer = self.start("never").next(5 * SLOW)
        self.assertEqual(("overloaded", 503, b"later"), (answer.error, answer.code, answer.data))
        self.assertTrue(25000 <= int(answer.get("Waybill-Retry-After-Ms")) <= 30000, answer)
        self.assertEqual(1, len(script.attempts))
        self.assertNoRecord("never")

    def test_refused_without_a_queue_is_forwarded(self):
        script = Script(refuse(503, 50, b"no"), serve)
        self.one(script, capacity=0, limit=0)
        answer = self.start("never").next()
        self.assertEqual(("overloaded", 503, b"no"), (answer.error, answer.code, answer.data))
        self.assertEqual(1, len(script.attempts))

    # -- what operators see

    def test_operators_see_who_waits(self):
        worker = self.one()
        self.busy(worker)
        for n in range(3):
            self.start("s%d" % n)
        self.waiting(3)
        (service,) = self.fabric.show_workers(self.router)["services"]
        self.assertEqual(3, service["waiting"])
        stats = self.fabric.operator.request("waybill.admin.show.stats.router-1", b"{}").json()
        self.assertEqual((3, 3), (stats["counts"]["waiting"], stats["counts"]["queued"]))


if __name__ == "__main__":
    unittest.main()
