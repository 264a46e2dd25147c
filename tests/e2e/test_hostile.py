"""Clients, workers and servers that mean harm or stand in the way."""
import json
import unittest

from case import BUCKET, SLOW, Case, Script, hold, serve, wait_for

HOSTILE = [b"a b", b"*", b">", b"", b"x" * 5000, b"\x00\x01\xff\xfe", b".a", b"a.", b"a..b", b"a/b", b"a\tb", "\u00e9".encode()]


class ReplySubjects(Case):
    fabric_options = {"statics": {("echo", "legacy"): "legacy.subject"}}

    def test_attacks(self):
        service = self.fabric.service(workers=[{"id": "legacy", "subject": "legacy.subject"}])
        (worker,) = self.ready(serve, service=service)
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "before"}))
        self.bucket.record("before")
        attacks = ["$JS.API.STREAM.DELETE.KV_" + BUCKET, "$JS.API.STREAM.PURGE.KV_" + BUCKET, "$KV.%s.echo.forged" % BUCKET,
                   "$SYS.REQ.SERVER.PING", "$x", "waybill.admin.do.cancel", "waybill.heartbeat.echo.w9", "waybill.reply.echo.w1.router-1.x",
                   "waybill.event.forged", "waybill.announce", "waybill.x", "foo.*", "foo.>", ">", "*", "_INBOX." + "x" * 600,
                   "echo.request.again", "legacy.subject"]
        spy = self.fabric.client("test")
        heard = [spy.subscribe(s) for s in ("$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "waybill.admin.>",
                                            "waybill.heartbeat.echo.w9", "waybill.event.forged", "$KV.%s.echo.forged" % BUCKET, "legacy.subject")]
        spy.flush()
        served = len(worker.attempts)
        for n, reply in enumerate(attacks):
            self.client.publish("echo.request.x", b"q", reply, {"Waybill-Target": "w1", "Waybill-Request-Id": "attack-%d" % n})
        wait_for(lambda: self.router.count("reply_subject_refused") == len(attacks), 10 * SLOW,
                 lambda: "%d refusals (%d)" % (len(attacks), self.router.count("reply_subject_refused")))
        self.assertEqual(served, len(worker.attempts))
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "after"}))
        self.bucket.record("after")
        self.assertEqual([], [m for sub in heard for m in sub.messages])
        self.assertNoRecord(*("attack-%d" % n for n in range(len(attacks))))
        self.assertTrue(self.bucket.stored_for("before"), "the bucket is still there")

    def test_admin_and_cancel_too(self):
        self.ready(serve)
        operator = self.fabric.client("operator")
        sent = 0
        for subject in ("waybill.admin.show.workers", "waybill.admin.show.stats", "waybill.admin.do.cancel"):
            operator.publish(subject, b"{}", "$KV.%s.echo.forged" % BUCKET)
            sent += 1
        self.client.publish("waybill.cancel.echo.x", b"", "$KV.%s.echo.forged" % BUCKET, {"Waybill-Reply": "_INBOX.x"})
        sent += 1
        wait_for(lambda: self.router.count("reply_subject_refused") == sent, 10 * SLOW,
                 lambda: "%d refusals (%d)" % (sent, self.router.count("reply_subject_refused")))
        self.assertEqual([], self.bucket.of("forged"))

    def test_reply_allow_narrows(self):
        self.ready(serve, router_options={"router": {"reply_allow": ["_INBOX.>"]}})
        self.assertServed(self.client.request("echo.request.x", b"q"))
        self.client.publish("echo.request.x", b"q", "elsewhere.inbox")
        wait_for(lambda: self.router.count("reply_subject_refused") == 1, 5 * SLOW, "the refusal")


class Ids(Case):
    def test_hostile_request_ids(self):
        (worker,) = self.ready(serve)
        for value in HOSTILE + [b"a" * 129]:
            answer = self.client.request("echo.request.x", b"q", [("Waybill-Request-Id", value)])
            body = self.assertError(answer, "bad_request", delivered="no")
            self.assertNotIn(value.decode("latin-1") if value else "\0", (body["request_id"],))
        self.assertEqual([], worker.attempts)
        self.client.flush()
        self.assertEqual([], self.bucket.writes)

    def test_an_id_with_dots_is_fine(self):
        self.ready(serve)
        for value in ("a.b", "a=b_c-d.e", "x" * 128):
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": value}))
            self.assertEqual(value, self.bucket.record(value)["request_id"])

    def test_protocol_in_a_header(self):
        """The line break ends the header line: what follows is a line that is no header. Nothing of it reaches the protocol."""
        (worker,) = self.ready(serve)
        for block in (b"NATS/1.0\r\nWaybill-Request-Id: a\r\nPUB x 0\r\n\r\n", b"NATS/1.0\r\nX: a\rb\r\n\r\n",
                      b"NATS/1.0\r\nX: a\nb\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n", b"NATS/1.0\r\n: empty name\r\n\r\n"):
            answer = self.client.request("echo.request.x", b"q", block)
            self.assertTrue(answer.error in (None, "bad_request"), answer)
            if answer.error is None:  # passed through byte for byte
                self.assertTrue(worker.attempts[-1].message.raw_headers.startswith(block[:-2]), worker.attempts[-1].message.raw_headers)
        answer = self.client.request("echo.request.x", b"q", b"NATS/1.0\r\nWaybill-Request-Id: a\r\nPUB x 0\r\n\r\n")
        self.assertError(answer, "bad_request")
        self.assertServed(self.client.request("echo.request.x", b"q"))

    def test_hostile_targets_and_keys(self):
        (worker,) = self.ready(serve)
        for name in ("Waybill-Target", "Waybill-Session", "Waybill-Hash-Key"):
            for value in (b"a b", b"x" * 5000, b"\x00\x01\xff\xfe", b""):
                if name == "Waybill-Hash-Key" and value in (b"a b", b"x" * 5000):
                    continue  # a hash key's form is nowhere narrowed
                answer = self.client.request("echo.request.x", b"q", [(name, value)])
                if name != "Waybill-Hash-Key":
                    self.assertError(answer, "bad_request", delivered="no")
        self.assertServed(self.client.request("echo.request.x", b"q"))

    def test_malformed_values(self):
        (worker,) = self.ready(serve)
        for name, values in (("Waybill-Timeout-Ms", ("abc", "0", "-1", "86400001", "", "1e3", " ")),
                             ("Waybill-Replies", ("two", "", "ONE")), ("Waybill-Idempotent", ("yes", "", "TRUE")),
                             ("Waybill-Priority", ("urgent", "")), ("Waybill-Advise", ("yes",)),
                             ("Waybill-Adapter", ("", "a b", "x" * 257, "\x7f")), ("Waybill-Retry", ("", "x", "AVOID", "avoid,prefer"))):
            for value in values:
                with self.subTest(name=name, value=value):
                    self.assertError(self.client.request("echo.request.x", b"q", {name: value}), "bad_request", delivered="no")
        for name in ("Waybill-Request-Id", "Waybill-Target", "Waybill-Timeout-Ms", "Waybill-Replies"):
            value = {"Waybill-Request-Id": "id", "Waybill-Target": "w1", "Waybill-Timeout-Ms": "100", "Waybill-Replies": "one"}[name]
            self.assertError(self.client.request("echo.request.x", b"q", [(name, value), (name, value)]), "bad_request", delivered="no")
        self.assertEqual([], worker.attempts)
        self.client.flush()
        self.assertEqual([], self.bucket.writes)


class Heartbeats(Case):
    def test_malformed_heartbeats_change_nothing(self):
        (worker,) = self.ready(serve)
        bad = [b"", b"{", b"[]", b"nonsense", b"\x81", b"\xc1", b"\x81\xa1v", b"\x00\x01\x02", b"\xdf\xff\xff\xff\xff", b'{"v":"x"}',
               b'{"epoch":"x"}', b'{"epoch":-1}', b'{"epoch":1.5}', b'{"state":"dead"}', b'{"state":7}', b'{"interval_ms":99}', b'{"interval_ms":60001}',
               b'{"capacity":-1}', b'{"weight":0}', b'{"weight":1001}', b'{"weight":"heavy"}', b'{"inflight":-1}', b'{"inflight_by":[]}',
               b'{"inflight_by":{"a b":1}}', b'{"adapters":"x"}', b'{"adapters":["a b"]}', b'{"meta":7}', b'{"class":7}', b'{"ranks":"x"}',
               b'{"v":1} trailing', b'{"meta":"' + b"x" * 70000 + b'"}', b"[" * 60000]
        good = self.router.count("heartbeats_malformed")
        for payload in bad:
            worker.client.publish("waybill.heartbeat.echo.w1", payload)
        wait_for(lambda: self.router.count("heartbeats_malformed") - good >= len(bad), 10 * SLOW,
                 lambda: "%d bad heartbeats counted (%d)" % (len(bad), self.router.count("heartbeats_malformed") - good))
        self.assertEqual(len(bad), self.router.count("heartbeats_malformed") - good)
        self.assertEqual("ready", self.fabric.known(self.router)["w1"]["state"])
        self.assertServed(self.client.request("echo.request.x", b"q"), "w1")

    def test_unknown_fields_are_ignored(self):
        (worker,) = self.ready(serve)
        worker.beat(novel={"deep": [1, {"x": None}]}, weight=200)
        wait_for(lambda: self.fabric.known(self.router)["w1"]["weight"] == 200, 5 * SLOW, "the new weight")

    def test_hostile_worker_ids(self):
        self.ready(serve)
        tester = self.fabric.client("test")
        beat = json.dumps({"v": 1, "epoch": 5, "interval_ms": 60000}).encode()
        for worker in (b"a=b", b"*", b">", b"x" * 65, b"\xff\xfe", b"a$", "\u00e9".encode()):
            tester.publish(b"waybill.heartbeat.echo." + worker, beat)
        tester.publish("waybill.heartbeat.nobody.w1", beat)
        tester.publish("waybill.heartbeat.echo.w7", beat)
        self.fabric.wait_known(self.router, "w7")
        self.assertEqual({"w1", "w7"}, set(self.fabric.known(self.router)))

    def test_payload_does_not_name_the_worker(self):
        (worker,) = self.ready(serve)
        worker.beat(id="w5", worker="w5", service="other")
        worker.beat()
        worker.client.flush()
        wait_for(lambda: self.router.count("heartbeats") >= 3, 5 * SLOW, "the heartbeats")
        self.assertEqual({"w1"}, set(self.fabric.known(self.router)))

    def test_worker_limit(self):
        self.ready(serve, router_options={"limits": {"workers": 3}})
        tester = self.fabric.client("test")
        for n in range(20):
            tester.publish("waybill.heartbeat.echo.x%d" % n, json.dumps({"v": 1, "epoch": 5, "interval_ms": 60000}).encode())
        wait_for(lambda: len(self.fabric.known(self.router)) == 3, 5 * SLOW, "three workers")
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"}), "w1")


class Blind(Case):
    def test_a_listener_on_everything(self):
        """No 503 comes any more. The router says so; the clock decides, and nothing is recorded for the deaf worker."""
        listener = self.fabric.client("test")
        listener.subscribe(">", callback=lambda m: None)
        listener.flush()
        script = Script(serve)
        self.ready(script, script, service=self.fabric.service(policy="round_robin", timeouts={"first_reply_ms": 400}))
        wait_for(lambda: self.router.count("no_responders_blind") >= 1, 10 * SLOW, "the warning's count")
        self.assertIn("no_responders blind", self.router.output())
        self.workers[0].unsubscribe()
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "deaf"})
        self.assertError(answer, "timeout", delivered="maybe", attempts=[("w1", "timeout")])
        self.assertNoRecord("deaf")
        for n in range(6):
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Idempotent": "true", "Waybill-Request-Id": "ok%d" % n})
            self.assertServed(answer, "w2")
            self.assertEqual("w2", self.bucket.record("ok%d" % n)["worker"])

    def capture(self):
        tester = self.fabric.client("test")
        made = tester.request("$JS.API.STREAM.CREATE.CAPTURE", json.dumps(
            {"name": "CAPTURE", "subjects": ["waybill.worker.>"], "storage": "memory"}).encode())
        self.assertNotIn("error", made.json(), made)

    def test_a_stream_that_captures_worker_subjects(self):
        self.capture()
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "cap"})
        attempt = worker.next()
        wait_for(lambda: self.router.count("stream_acks") >= 1, 5 * SLOW, "the dropped acknowledgement's count")
        self.client.flush()
        self.assertEqual([], pending.messages)
        self.assertEqual([], self.bucket.of("cap"))
        attempt.answer(b"true")
        self.assertServed(pending.next(), "w1", b"true")
        self.assertEqual("w1", self.bucket.record("cap")["worker"])

    def test_a_stream_that_comes_later(self):
        """An acknowledgement that names a stream not yet known is looked into before it can become an answer."""
        (worker,) = self.ready(hold)
        wait_for(lambda: self.router.healthy, 5 * SLOW, "health")
        self.capture()
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "cap2"})
        attempt = worker.next()
        wait_for(lambda: self.router.count("stream_acks") >= 1, 5 * SLOW, "the dropped acknowledgement's count")
        self.assertEqual([], pending.messages)
        attempt.answer(b"true")
        self.assertServed(pending.next(), "w1", b"true")

    def test_only_the_stream_and_no_worker(self):
        """Nobody serves: the stream's acknowledgement must not become the answer nor the record."""
        self.capture()
        (worker,) = self.ready(serve, service=self.fabric.service(timeouts={"first_reply_ms": 600}))
        worker.unsubscribe()
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "cap3"})
        self.assertError(answer, "timeout", delivered="maybe")
        self.assertNoRecord("cap3")


if __name__ == "__main__":
    unittest.main()
