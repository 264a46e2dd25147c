"""Streams: order, numbering, exactly one end, holes."""
import time
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, wait_for


class StreamCase(Case):
    def ready_stream(self, *handlers, **keys):
        return self.ready(*handlers, service=self.fabric.service(replies="stream", **keys))

    def assertShape(self, messages, outcome, data, error=None):
        """Data, at most one error, one empty end; all numbered. Gives error message (or None) and end."""
        self.assertEqual([str(n) for n in range(1, len(messages) + 1)], [m.get("Waybill-Seq") for m in messages])
        end, rest = messages[-1], messages[:-1]
        self.assertEqual((b"", outcome, str(len(data))), (end.data, end.get("Waybill-Outcome"), end.get("Waybill-Count")), end)
        problem = None
        if error is not None:
            problem = rest.pop()
            self.assertEqual(error, problem.error, problem)
            self.assertTrue(problem.data)
            self.assertEqual(error, end.error)
            self.assertEqual(problem.code, end.code)
        self.assertEqual(data, [m.data for m in rest])
        return problem, end


class Streams(StreamCase):
    def test_ten_thousand_in_order(self):
        parts = [b"part %d" % n for n in range(10000)]
        self.ready_stream(lambda a: a.stream(parts))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "long"}, 60 * SLOW)
        _, end = self.assertShape(messages, "done", parts)
        self.assertEqual("w1", messages[0].get("Waybill-Worker"))
        self.assertIsNone(messages[1].get("Waybill-Worker"))
        self.assertEqual("w1", end.get("Waybill-Worker"))
        record = self.bucket.wait_outcome("long", "done")
        self.assertEqual((10000, "w1"), (record["replies"], record["worker"]))
        self.assertEqual(["streaming", "done"], [w.value["outcome"] for w in self.bucket.of("long")])
        self.assertAtRest()

    def test_ten_thousand_by_the_programs(self):
        bucket = self.fabric.watch()
        router = self.fabric.router(services=[self.fabric.service(replies="stream")])
        self.fabric.worker("w1", "--stream", "10000", known_to=[router])
        messages = self.fabric.client().request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "prog"}, 60 * SLOW)
        self.assertEqual(("done", "10000"), (messages[-1].get("Waybill-Outcome"), messages[-1].get("Waybill-Count")))
        self.assertEqual([str(n) for n in range(1, 10002)], [m.get("Waybill-Seq") for m in messages])
        self.assertEqual(10000, bucket.wait_outcome("prog", "done")["replies"])

    def test_unnumbered(self):
        self.ready_stream(lambda a: a.stream([b"a", b"b"], numbered=False))
        self.assertShape(self.client.request_stream("echo.request.x", b"q"), "done", [b"a", b"b"])

    def test_end_with_payload(self):
        def last(attempt):
            attempt.answer(b"a", {"Waybill-Seq": 1})
            attempt.answer(b"b", {"Waybill-Seq": 2, "Waybill-End": "true"})
        self.ready_stream(last)
        messages = self.client.request_stream("echo.request.x", b"q")
        self.assertShape(messages, "done", [b"a", b"b"])
        self.assertIsNone(messages[1].get("Waybill-End"))

    def test_empty_stream_is_attributed(self):
        self.ready_stream(lambda a: a.answer(b""))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "empty"})
        self.assertShape(messages, "done", [])
        self.assertEqual("w1", messages[0].get("Waybill-Worker"))
        self.assertEqual(0, self.bucket.wait_outcome("empty", "done")["replies"])

    def test_worker_error_in_a_stream(self):
        def broken(attempt):
            attempt.answer(b"a", {"Waybill-Seq": 1})
            attempt.answer(b"", [("Nats-Service-Error", "bang"), ("Nats-Service-Error-Code", 503), ("Waybill-Seq", 2)])
        self.ready_stream(broken, serve)
        self.workers[1].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w2"]["state"] == "draining", 5 * SLOW, "draining")
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "bang"})
        self.assertEqual(3, len(messages), messages)
        data, error, end = messages
        self.assertEqual(("bang", 503), (error.get("Nats-Service-Error"), error.code))
        self.assertTrue(error.data, "an empty error gets a body")
        self.assertEqual(("error", "1", "bang", 503), (end.get("Waybill-Outcome"), end.get("Waybill-Count"), end.get("Nats-Service-Error"), end.code))
        record = self.bucket.wait_outcome("bang", "error")
        self.assertEqual(503, record["code"])

    def test_error_as_first_message(self):
        self.ready_stream(lambda a: a.error(500, "no", b"why"))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "first"})
        self.assertEqual([b"why", b""], [m.data for m in messages])
        self.assertEqual("error", messages[-1].get("Waybill-Outcome"))
        self.bucket.wait_outcome("first", "error")

    def test_errors_of_the_router_end_the_stream_too(self):
        self.ready_stream(refuse(503))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "none"})
        self.assertEqual(2, len(messages), messages)
        self.assertEqual(("overloaded", "overloaded", "error", "0"),
                         (messages[0].error, messages[1].error, messages[1].get("Waybill-Outcome"), messages[1].get("Waybill-Count")))
        self.assertNoRecord("none")

    def test_bad_request_in_a_stream(self):
        self.ready_stream(serve)
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Timeout-Ms": "no"})
        self.assertShape(messages, "error", [], "bad_request")

    def test_nothing_follows_the_end(self):
        def chatty(attempt):
            attempt.stream([b"a"])
            attempt.answer(b"more")
        self.ready_stream(chatty)
        sub = self.client.start("echo.request.x", b"q")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late message's count")
        self.client.flush()
        self.assertShape(list(sub.messages), "done", [b"a"])

    def test_a_retry_before_the_first_answer(self):
        script = Script(refuse(503), lambda a: a.stream([b"a", b"b"]))
        self.ready_stream(script, script)
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "second"})
        self.assertShape(messages, "done", [b"a", b"b"])
        self.assertEqual(script.workers[1], messages[0].get("Waybill-Worker"))
        self.assertEqual("2", messages[0].get("Waybill-Attempt"))
        self.assertEqual(1, len(self.bucket.wait_outcome("second", "done")["tried"]))

    def test_inactivity(self):
        (worker,) = self.ready_stream(hold, timeouts={"inactivity_ms": 400})
        sub = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "idle"})
        worker.next().stream([b"a"], end=False)
        sub.wait_count(3)
        self.assertShape(sub.messages, "timeout", [b"a"], "timeout")
        self.bucket.wait_outcome("idle", "timeout")
        wait_for(lambda: worker.cancels, 5 * SLOW, "the cancel")
        self.assertAtRest()


class Holes(StreamCase):
    """Each kind of hole: what lies behind is not forwarded, the end is `interrupted`, never `done`."""

    def hole(self, name, sequence, forwarded):
        def numbered(attempt):
            frames = []
            for number, data in sequence:
                frames.append(attempt.worker.client.frame(attempt.reply, data, None, {"Waybill-Seq": number} if number is not None else None))
            attempt.worker.client.send(b"".join(frames))
        self.ready_stream(numbered)
        sub = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": name})
        sub.wait_count(len(forwarded) + 2)
        self.assertShape(sub.messages, "interrupted", forwarded, "interrupted")
        record = self.bucket.wait_outcome(name, "interrupted")
        self.assertEqual(("w1", len(forwarded)), (record["worker"], record["replies"]))
        self.assertNotIn("done", [w.value["outcome"] for w in self.bucket.of(name)])
        self.assertAtRest()

    def test_gap(self):
        self.hole("gap", [(1, b"a"), (2, b"b"), (4, b"d"), (5, b"")], [b"a", b"b"])

    def test_step_back(self):
        self.hole("back", [(1, b"a"), (2, b"b"), (2, b"b"), (3, b"c"), (4, b"")], [b"a", b"b"])

    def test_first_over_one(self):
        self.hole("start", [(2, b"b"), (3, b"")], [])

    def test_end_without_a_number(self):
        self.hole("nonum", [(1, b"a"), (None, b"")], [b"a"])

    def test_end_with_a_gap(self):
        self.hole("endgap", [(1, b"a"), (3, b"")], [b"a"])

    def test_not_a_number(self):
        self.hole("nan", [(1, b"a"), ("x", b"b"), (3, b"")], [b"a"])


class FrozenClient(Case):
    def test_a_frozen_client_does_not_delay_another_workers_receipt(self):
        parts = [b"x" * 8192] * 8000  # 64 MB towards somebody who does not read
        self.ready(lambda a: a.stream(parts, numbered=False), serve)
        frozen = self.fabric.client(receive_buffer=4096)
        frozen.start("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Replies": "stream"})
        frozen.pause()
        wait_for(lambda: self.router.count("stream_messages") > 500, 20 * SLOW, "the stream to be under way")
        worst = 0
        for n in range(50):
            began = time.monotonic()
            sub = self.client.start("echo.request.x", b"%d" % n, {"Waybill-Target": "w2"})
            self.workers[1].next(20 * SLOW, number=n + 1)
            worst = max(worst, time.monotonic() - began)
            if n == 49:
                self.assertServed(sub.next(60 * SLOW), "w2")
        self.assertLess(worst, 2.0 * SLOW)
        if SLOW == 1:  # a sanitizer's memory is its own
            self.assertLess(self.router.rss_bytes(), 128 << 20)
        frozen.resume()


if __name__ == "__main__":
    unittest.main()
