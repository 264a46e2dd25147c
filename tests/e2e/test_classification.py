"""One test for each line of spec section 4's classification of what comes on a reply subject, and forged messages."""
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, wait_for

PROGRESS = {"Waybill-Progress": "true"}


class Classification(Case):
    def counted(self, name, value=1):
        wait_for(lambda: self.router.count(name) >= value, 5 * SLOW, lambda: "%s = %d (%d)" % (name, value, self.router.count(name)))
        self.assertEqual(value, self.router.count(name))

    def test_line_1_late_in_one_everything_after_the_answer(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "l1"})
        attempt = worker.next()
        for data in (b"first", b"second", b""):
            attempt.answer(data)
        self.counted("late", 2)
        self.client.flush()
        self.assertEqual([b"first"], [m.data for m in pending.messages])
        self.bucket.record("l1")
        self.assertEqual(1, len(self.bucket.of("l1")))

    def test_line_1_late_tokens_nobody_knows(self):
        (worker,) = self.ready(serve)
        self.assertServed(self.client.request("echo.request.x", b"q"))
        reply = worker.attempts[0].reply
        stem, token = reply.rsplit(".", 1)
        self.assertGreaterEqual(len(token), 16, "96 random bits need 16 characters of base64")
        for forged in (token[::-1], "x", "x" * 200, token[:-1] + ("A" if token[-1] != "A" else "B"), token + "x", "\xff\xfe"):
            worker.client.publish(stem + "." + forged, b"forged")
        self.counted("late", 6)
        self.assertServed(self.client.request("echo.request.x", b"q"))

    def test_tokens_do_not_repeat(self):
        (worker,) = self.ready(serve)
        for n in range(200):
            self.client.start("echo.request.x", b"q")
        worker.next(number=200)
        tokens = [a.reply.rsplit(".", 1)[1] for a in worker.attempts]
        self.assertEqual(200, len(set(tokens)))
        for at in range(len(tokens[0]) - 16, len(tokens[0])):
            self.assertGreater(len({t[at] for t in tokens}), 8, "position %d of the token is not random" % at)
        self.assertTrue(all(a.reply.startswith("waybill.reply.echo.w1.router-1.") for a in worker.attempts))

    def test_line_2_a_503_is_no_responders(self):
        script = Script(lambda a: a.answer(b"", b"NATS/1.0 503\r\n\r\n"), serve)
        self.ready(script, script)
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "l2"}), script.workers[1])
        self.assertEqual("no_responders", self.bucket.record("l2")["tried"][0]["cause"])
        self.counted("no_responders")

    def test_line_2_forged_status_lines(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "l2f"})
        attempt = worker.next()
        attempt.answer(b"", b"NATS/1.0 404 No Messages\r\n\r\n")
        attempt.answer(b"", b"NATS/1.0 100 FlowControl Request\r\n\r\n")
        attempt.answer(b"payload", b"NATS/1.0 503\r\n\r\n")
        self.counted("forged", 3)
        self.assertEqual([], pending.messages)
        attempt.answer(b"", PROGRESS)
        attempt.answer(b"", b"NATS/1.0 503\r\n\r\n")
        self.counted("forged", 4)
        attempt.answer(b"true")
        self.assertServed(pending.next(), "w1", b"true", attempt=1)
        self.assertEqual([], self.bucket.record("l2f")["tried"])

    def test_line_2_a_503_in_a_stream_that_has_begun_is_forged(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Replies": "stream"})
        attempt = worker.next()
        attempt.answer(b"a")
        attempt.answer(b"", b"NATS/1.0 503\r\n\r\n")
        self.counted("forged")
        attempt.answer(b"")
        pending.wait_count(2)
        self.assertEqual("done", pending.messages[-1].get("Waybill-Outcome"))

    def test_line_3_what_only_looks_like_an_acknowledgement_is_an_answer(self):
        """No stream of that name captures worker subjects: after a look (250 ms at most) it is an answer."""
        ack = b'{"stream":"ORDERS","seq":7}'
        self.ready(lambda a: a.answer(ack))
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "l3"}), "w1", ack)
        self.assertEqual("w1", self.bucket.record("l3")["worker"])

    def test_line_3_with_headers_it_is_an_answer(self):
        ack = b'{"stream":"ORDERS","seq":7}'
        self.ready(lambda a: a.answer(ack, {"X": "y"}))
        self.assertServed(self.client.request("echo.request.x", b"q"), "w1", ack)

    def test_line_4_progress_is_no_answer(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "l4"})
        attempt = worker.next()
        attempt.answer(b"half way", PROGRESS)
        self.counted("progress")
        self.client.flush()
        self.assertEqual([], pending.messages)
        self.assertEqual([], self.bucket.of("l4"))
        attempt.answer(b"done")
        self.assertServed(pending.next(), "w1", b"done")
        self.bucket.record("l4")
        self.assertEqual(1, len(pending.messages))

    def test_line_4_progress_in_a_stream_is_not_numbered(self):
        def work(attempt):
            attempt.answer(b"a", {"Waybill-Seq": 1})
            attempt.answer(b"", PROGRESS)
            attempt.answer(b"b", {"Waybill-Seq": 2})
            attempt.answer(b"", {"Waybill-Seq": 3})
        self.ready(work, service=self.fabric.service(replies="stream"))
        messages = self.client.request_stream("echo.request.x", b"q")
        self.assertEqual([b"a", b"b", b""], [m.data for m in messages])
        self.assertEqual("done", messages[-1].get("Waybill-Outcome"))

    def test_line_5_refusal(self):
        script = Script(refuse(429), serve)
        self.ready(script, script)
        self.assertServed(self.client.request("echo.request.x", b"q"), script.workers[1])
        self.counted("refusals")

    def test_line_5_error_answer(self):
        self.ready(lambda a: a.error(404, "not here", b"nothing"))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "l5"})
        self.assertEqual((404, "w1", b"nothing"), (answer.code, answer.get("Waybill-Worker"), answer.data))
        record = self.bucket.record("l5")
        self.assertEqual(("error", 404), (record["outcome"], record["code"]))

    def test_line_5_no_number_is_500(self):
        for n, headers in enumerate(([("Nats-Service-Error", "x")], [("Nats-Service-Error-Code", "abc")])):
            with self.subTest(headers=headers):
                if n:
                    self._close()
                    self.fabric = self.fabric.__class__()
                self.ready(lambda a: a.answer(b"e", headers))
                self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "l5n"})
                self.assertEqual(("error", 500), tuple(self.bucket.record("l5n")[k] for k in ("outcome", "code")))

    def test_line_5_after_the_first_answer_no_code_is_a_refusal(self):
        def work(attempt):
            attempt.answer(b"a", {"Waybill-Seq": 1})
            attempt.answer(b"later", [("Nats-Service-Error", "busy"), ("Nats-Service-Error-Code", 503), ("Waybill-Seq", 2)])
        script = Script(work)
        self.ready(script, script, service=self.fabric.service(replies="stream"))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "l5s"})
        self.assertEqual(1, len(script.attempts))
        self.assertEqual("error", messages[-1].get("Waybill-Outcome"))
        self.assertEqual("error", self.bucket.wait_outcome("l5s", "error")["outcome"])
        self.assertEqual(0, self.router.count("refusals"))

    def test_line_6_end(self):
        self.ready(lambda a: (a.answer(b"a"), a.answer(b"")), service=self.fabric.service(replies="stream"))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "l6"})
        self.assertEqual([b"a", b""], [m.data for m in messages])
        self.assertEqual(1, self.bucket.wait_outcome("l6", "done")["replies"])

    def test_line_6_end_as_first_message_with_payload(self):
        self.ready(lambda a: a.answer(b"all", {"Waybill-End": "true"}), service=self.fabric.service(replies="stream"))
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "l6p"})
        self.assertEqual([b"all", b""], [m.data for m in messages])
        self.assertEqual(1, self.bucket.wait_outcome("l6p", "done")["replies"])

    def test_line_7_answer(self):
        self.ready(lambda a: a.answer(b""))
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "l7"}), "w1", b"")
        self.assertEqual("done", self.bucket.record("l7")["outcome"])

    def test_two_attempts_have_different_reply_subjects(self):
        """A failed attempt's answer that comes during the next attempt is late, not the next one's answer."""
        script = Script(hold, hold)
        self.ready(script, script, service=self.fabric.service(timeouts={"first_reply_ms": 400}))
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "l8", "Waybill-Idempotent": "true"})
        second = script.next(2)
        script.attempts[0].answer(b"from the first")
        self.counted("late")
        second.answer(b"from the second")
        self.assertServed(pending.next(), second.worker.id, b"from the second", attempt=2)
        self.assertEqual(second.worker.id, self.bucket.record("l8")["worker"])

    def test_a_worker_cannot_answer_for_another(self):
        self.ready(hold, hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Target": "w1"})
        attempt = self.workers[0].next()
        self.workers[1].client.publish(attempt.reply, b"forged")
        self.workers[1].client.flush()
        self.assertTrue(any("Permissions Violation" in e for e in self.workers[1].client.errors))
        self.client.publish(attempt.reply, b"forged")
        self.client.flush()
        self.assertTrue(any("Permissions Violation" in e for e in self.client.errors))
        attempt.answer(b"true")
        self.assertServed(pending.next(), "w1", b"true")


if __name__ == "__main__":
    unittest.main()
