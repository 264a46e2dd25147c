"""The bucket: how and when records are written, and what never replaces what. Only NATS is asked."""
import json
import unittest

from case import BUCKET, SLOW, Case, Script, hold, refuse, serve, wait_for

EXPECTED = "Nats-Expected-Last-Subject-Sequence"


class Writes(Case):
    def test_router_made_ids_are_plain_puts_client_ids_compare_and_set(self):
        self.ready(serve)
        made = self.client.request("echo.request.x", b"q").get("Waybill-Request-Id")
        self.assertNotIn(EXPECTED, self.bucket.wait(made)[0].headers)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "given"})
        self.assertEqual("0", self.bucket.wait("given")[0].headers[EXPECTED])

    def test_client_headers_never_reach_the_bucket(self):
        self.ready(serve)
        self.client.request("echo.request.x", b"q", [
            ("Nats-Msg-Id", "m"), ("Nats-Rollup", "all"), ("Nats-TTL", "1s"), ("Nats-Expected-Last-Sequence", "9"),
            ("KV-Operation", "PURGE"), ("X", "y")])
        headers = self.bucket.wait("m")[0].headers
        self.assertLessEqual(set(headers), {EXPECTED}, headers)

    def test_streams_have_two_revisions_in_order(self):
        (worker,) = self.ready(hold, service=self.fabric.service(replies="stream"))
        sub = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "s"})
        attempt = worker.next()
        attempt.answer(b"1")
        first = self.bucket.wait("s")[0]
        self.assertEqual(("streaming", None, None), tuple(first.value[k] for k in ("outcome", "finished_at", "replies")))
        attempt.answer(b"2")
        attempt.answer(b"")
        sub.wait_count(3)
        end = self.bucket.wait("s", 2)[1]
        self.assertEqual(("done", 2), (end.value["outcome"], end.value["replies"]))
        self.assertIsNotNone(end.value["finished_at"])
        self.assertIn(EXPECTED, end.headers)
        self.assertNotEqual("0", end.headers[EXPECTED])
        self.assertEqual(first.value["rid"], end.value["rid"])
        wait_for(lambda: len(self.bucket.stored_for("s")) == 2, 5 * SLOW, "two stored revisions")

    def test_a_new_request_of_an_old_id_writes_over_it(self):
        self.ready(serve, serve)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "again", "Waybill-Target": "w1"})
        self.bucket.wait("again")
        wait_for(lambda: self.bucket.stored_for("again"), 5 * SLOW, "the first record")
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "again", "Waybill-Target": "w2"})
        wait_for(lambda: [json.loads(v)["worker"] for _, _, v, _ in self.bucket.stored_for("again")] == ["w1", "w2"], 5 * SLOW,
                 lambda: "w1 then w2 (%r)" % self.bucket.stored_for("again"))

    def test_a_failed_request_does_not_touch_an_older_record(self):
        script = Script(serve, refuse(503))
        self.ready(script, script)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "old"})
        self.bucket.wait("old")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "old"})
        self.assertEqual("overloaded", answer.error)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "old", "Waybill-Target": "w9"})
        self.assertEqual(1, len(self.bucket.of("old")))

    def test_an_old_write_never_replaces_a_newer_attribution(self):
        """Somebody else's newer record stands there when this router writes: superseded, not written over."""
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "newer"})
        attempt = worker.next()
        tester = self.fabric.client("test")
        record = {"worker": "w5", "rank": None, "attempt": 1, "service": "echo", "request_id": "newer", "tried": [], "selected": "w5",
                  "policy": "random", "reason": "policy", "session": None, "adapter": None, "subject": "echo.request.x", "router": "router-9",
                  "rid": "router-9.1.1", "worker_epoch": 1, "trace": None, "received_at": "2099-01-01T00:00:00.000000Z",
                  "first_reply_us": 1, "finished_at": None, "replies": None, "code": None, "v": 1, "outcome": "done"}
        ack = tester.request("$KV.%s.echo.newer" % BUCKET, json.dumps(record).encode())
        self.assertIn("seq", ack.json())
        attempt.answer(b"a")
        self.assertServed(pending.next(), "w1")
        wait_for(lambda: self.router.count("attribution_superseded") == 1, 10 * SLOW, "superseded")
        stored = self.bucket.stored_for("newer")
        self.assertEqual(["w5"], [json.loads(value)["worker"] for _, _, value, _ in stored])

    def test_over_a_delete_marker(self):
        self.ready(serve)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "del"})
        wait_for(lambda: self.bucket.stored_for("del"), 5 * SLOW, "the record")
        tester = self.fabric.client("test")
        tester.request("$KV.%s.echo.del" % BUCKET, b"", {"KV-Operation": "DEL"})
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "del"})
        wait_for(lambda: self.bucket.stored_for("del") and self.bucket.stored_for("del")[-1][2], 5 * SLOW, "the record over the marker")

    def test_off(self):
        self.ready(serve, router_options={"attribution": {"write": "off"}})
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "off"}))
        self.client.flush()
        self.assertEqual([], self.bucket.writes)

    def test_an_existing_buckets_settings_are_kept(self):
        tester = self.fabric.client("test")
        tester.request("$JS.API.STREAM.CREATE.KV_" + BUCKET, json.dumps({
            "name": "KV_" + BUCKET, "subjects": ["$KV.%s.>" % BUCKET], "max_msgs_per_subject": 7, "max_age": 60 * 10 ** 9, "storage": "memory",
            "discard": "new", "allow_rollup_hdrs": True, "deny_delete": True, "allow_direct": True, "num_replicas": 1, "max_msgs": -1, "max_bytes": -1}).encode())
        before = tester.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json()["config"]
        self.ready(serve)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "kept"})
        self.bucket.record("kept")
        self.assertEqual(before, tester.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json()["config"])

    def test_a_created_bucket_has_the_contracts_settings(self):
        self.ready(serve)
        tester = self.fabric.client("test")
        config = wait_for(lambda: tester.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json().get("config"), 5 * SLOW, "the bucket")
        self.assertEqual((3600 * 10 ** 9, 2, 1 << 30, 1, "file"), tuple(config[k] for k in (
            "max_age", "max_msgs_per_subject", "max_bytes", "num_replicas", "storage")))


class BeforeReply(Case):
    def test_the_record_is_acknowledged_before_the_answer_goes_out(self):
        self.ready(serve, router_options={"attribution": {"write": "before_reply"}})
        for n in range(20):
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "b%d" % n})
            self.assertServed(answer, "w1")
            self.assertIsNone(answer.get("Waybill-Attribution"))
            self.assertEqual(1, len(self.bucket.stored_for("b%d" % n)), "stored when the answer is here")

    def test_streams_keep_their_order_behind_the_record(self):
        parts = [b"%d" % n for n in range(200)]
        self.ready(lambda a: a.stream(parts), service=self.fabric.service(replies="stream"),
                   router_options={"attribution": {"write": "before_reply"}})
        messages = self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "bs"})
        self.assertEqual(parts + [b""], [m.data for m in messages])
        self.assertEqual([str(n) for n in range(1, 202)], [m.get("Waybill-Seq") for m in messages])


class BeforeReplyWithoutJetStream(Case):
    fabric_options = {"jetstream": False}

    def test_unconfirmed_after_the_write_timeout(self):
        self.router = self.fabric.router(attribution={"write": "before_reply", "write_timeout_ms": 300})
        self.fabric.raw_worker("w1", lambda a: a.answer(b"a", {"X": "y"}), known_to=[self.router])
        answer = self.fabric.client().request("echo.request.x", b"q", bound=10 * SLOW)
        self.assertServed(answer, "w1", b"a")
        self.assertEqual(("unconfirmed", "y"), (answer.get("Waybill-Attribution"), answer.get("X")))


class WithoutJetStream(Case):
    fabric_options = {"jetstream": False}

    def test_requests_do_not_care_and_the_bucket_comes_back(self):
        self.router = self.fabric.router()
        self.fabric.worker("w1", "--echo", known_to=[self.router])
        client = self.fabric.client()
        for n in range(50):
            self.assertServed(client.request("echo.request.x", b"q"), "w1")
        self.fabric.stop_server()
        self.fabric.jetstream = True
        self.fabric.start_server()
        self.router.wait_healthy(20)
        client, bucket = self.fabric.client(), self.fabric.watch()
        number = [0]

        def recorded():
            number[0] += 1
            answer = client.request("echo.request.x", b"q", {"Waybill-Request-Id": "back-%d" % number[0]}, bound=20 * SLOW)
            return answer.error is None and any(w.value["worker"] == "w1" for w in bucket.writes) and bucket.stored()
        wait_for(recorded, 30 * SLOW, lambda: "a record after JetStream came\n" + self.router.tail())


class FullBucket(Case):
    def test_full(self):
        """Max. 64 KiB: soon nothing more fits. Requests go on, memory does not grow, and room brings records back."""
        self.ready(serve, router_options={"attribution": {"max_bytes": 65536}})
        payload = {"Waybill-Session": "s" * 200}
        for n in range(400):
            self.assertServed(self.client.request("echo.request.x", b"q", {**payload, "Waybill-Request-Id": "f%d" % n}), "w1")
        wait_for(lambda: self.router.count("attribution_failed") + self.router.count("attribution_retried") > 0, 20 * SLOW, "a failed write")
        self.assertLess(len(self.bucket.stored()), 400)
        tester = self.fabric.client("test")
        config = tester.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json()["config"]
        config["max_bytes"] = 16 << 20
        self.assertNotIn("error", tester.request("$JS.API.STREAM.UPDATE.KV_" + BUCKET, json.dumps(config).encode()).json())
        # The backlog is written in its order, and fills the bucket again.
        wait_for(self.bucket.stored, 30 * SLOW, "records again")


class MissingBucket(Case):
    def deleted(self, number):
        def stored():
            number[0] += 1
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "anew-%d" % number[0]}, bound=10 * SLOW))
            info = self.tester.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json()
            return info.get("state", {}).get("messages", 0) > 0
        self.tester = self.fabric.client("test")
        wait_for(stored, 10 * SLOW, "the first record")
        self.assertTrue(self.tester.request("$JS.API.STREAM.DELETE.KV_" + BUCKET).json()["success"])
        wait_for(stored, 30 * SLOW, lambda: "a bucket created again\n" + self.router.tail())

    def test_deleted_under_the_router(self):
        """The server answers the next write with a 503."""
        self.router = self.fabric.router()
        self.fabric.raw_worker("w1", serve, known_to=[self.router])
        self.client = self.fabric.client()
        self.deleted([0])

    def test_deleted_while_somebody_listens_to_the_buckets_subjects(self):
        """A listener hides the 503: the router gets no word at all."""
        self.ready(serve)
        self.deleted([0])


if __name__ == "__main__":
    unittest.main()
