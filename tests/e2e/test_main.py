"""The main job: a request goes to one worker, its answer comes back with who served it, and then, not before, the bucket says so."""
import unittest

from case import SLOW, Case, Script, hold, serve, stays, wait_for

MEMBERS = ["worker", "rank", "attempt", "service", "request_id", "tried", "selected", "policy", "reason", "session", "adapter",
           "subject", "router", "rid", "worker_epoch", "trace", "received_at", "first_reply_us", "finished_at", "replies", "code",
           "v", "outcome"]


class ThinPath(Case):
    def test_programs_from_request_to_record(self):
        bucket = self.fabric.watch()
        router = self.fabric.router()
        self.fabric.worker("w1", "--echo", known_to=[router])
        answer = self.fabric.client().request("echo.request.x", b"hello", {"Waybill-Request-Id": "r-1"})
        self.assertServed(answer, "w1", b"hello", attempt=1)
        self.assertEqual("r-1", answer.get("Waybill-Request-Id"))
        record = bucket.record("r-1")
        self.assertEqual(("w1", "echo", "r-1", 1, "done", "router-1", [], "echo.request.x"),
                         tuple(record[k] for k in ("worker", "service", "request_id", "attempt", "outcome", "router", "tried", "subject")))
        self.assertEqual(MEMBERS, list(record))
        self.assertEqual(1, len(bucket.of("r-1")))
        wait_for(lambda: bucket.stored_for("r-1"), 5 * SLOW, "the record in the stream")

    def test_record_comes_only_after_the_answer(self):
        (worker,) = self.ready(hold)
        pending = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "r-2"})
        attempt = worker.next()
        stays(lambda: not self.bucket.of("r-2"), 0.3, "an empty history while nobody has answered")
        attempt.answer(b"a")
        self.assertServed(pending.next(), "w1", b"a")
        self.assertEqual("done", self.bucket.record("r-2")["outcome"])
        self.assertAtRest()

    def test_bare_request(self):
        self.ready(serve)
        answer = self.client.request("echo.request.x", b"")
        self.assertServed(answer, "w1", b"")
        record = self.bucket.record(answer.get("Waybill-Request-Id"))
        self.assertEqual("w1", record["worker"])

    def test_headers_both_ways_byte_for_byte(self):
        block = (b"NATS/1.0\r\nZ: 1\r\na:  two  blanks\r\nEmpty:\r\nAfter-Empty: x\r\nA: other case\r\nZ: 2\r\n"
                 b"Waybill-Request-Id: h-1\r\nUtf: \xc3\xa9\r\n\r\n")
        answer_block = b"NATS/1.0\r\nY: 1\r\nEmpty: \r\nx:y:z\r\nWaybill-Worker: w9\r\nwaybill-anything: no\r\nY: 2\r\n\r\n"
        (worker,) = self.ready(lambda attempt: attempt.answer(b"a", answer_block))
        answer = self.client.request("echo.request.x", b"q", block)
        got = worker.next().message.raw_headers
        wanted = block[:-2]
        self.assertTrue(got.startswith(wanted), got)
        self.assertServed(answer, "w1", b"a")
        self.assertTrue(answer.raw_headers.startswith(b"NATS/1.0\r\nY: 1\r\nEmpty: \r\nx:y:z\r\nY: 2\r\n"), answer.raw_headers)
        self.assertEqual(["w1"], answer.all("Waybill-Worker"))
        self.assertNotIn(b"anything", answer.raw_headers)

    def test_what_the_router_adds_and_drops_towards_the_worker(self):
        (worker,) = self.ready(serve, service=self.fabric.service(timeouts={"total_ms": 5000}))
        self.client = self.fabric.client("test")  # newer servers want the right to publish to the trace's destination
        self.client.request("echo.request.a.b", b"q", [
            ("waybill-worker", "x"), ("Waybill-Attempt", "9"), ("Waybill-Hash-Key", "k"), ("Nats-Trace-Dest", "t"),
            ("Waybill-Unknown", "1"), ("Keep", "k"), ("Waybill-Hops", "2")])
        m = worker.next().message
        self.assertEqual(["1"], m.all("Waybill-Attempt"))
        self.assertEqual(["echo.request.a.b"], m.all("Waybill-Subject"))
        self.assertEqual(["router-1"], m.all("Waybill-Router"))
        self.assertEqual(["3"], m.all("Waybill-Hops"))
        self.assertEqual(["k"], m.all("Waybill-Hash-Key"))
        self.assertEqual(["k"], m.all("Keep"))
        self.assertEqual(1, len(m.all("Waybill-Request-Id")))
        self.assertTrue(0 < int(m.get("Waybill-Deadline-Ms")) <= 5000, m)
        for gone in ("waybill-worker", "Nats-Trace-Dest", "Waybill-Unknown"):
            self.assertEqual([], m.all(gone), gone)
        # Both at once would be a newer server's own order not to deliver the request.
        self.client.request("echo.request.a.b", b"q", {"Nats-Trace-Only": "true"})
        self.assertEqual([], worker.next(number=2).message.all("Nats-Trace-Only"))

    def test_no_deadline_header_without_a_limit_and_the_client_only_shortens(self):
        (worker,) = self.ready(serve)
        self.client.request("echo.request.x", b"1")
        self.assertIsNone(worker.next().message.get("Waybill-Deadline-Ms"))
        self.client.request("echo.request.x", b"2", {"Waybill-Timeout-Ms": "900"})
        self.assertTrue(0 < int(worker.next(number=2).message.get("Waybill-Deadline-Ms")) <= 900)

    def test_nats_msg_id_is_the_id_and_an_id_may_be_used_again(self):
        self.ready(serve)
        for round_ in (1, 2):
            answer = self.client.request("echo.request.x", b"q", {"Nats-Msg-Id": "m-1"})
            self.assertServed(answer, "w1")
            self.assertEqual("m-1", answer.get("Waybill-Request-Id"))
            self.bucket.wait("m-1", round_)
        answer = self.client.request("echo.request.x", b"q", {"Nats-Msg-Id": "not an id"})
        self.assertServed(answer, "w1")
        self.assertNotEqual("not an id", answer.get("Waybill-Request-Id"))

    def test_an_id_in_flight_is_a_duplicate(self):
        (worker,) = self.ready(hold)
        first = self.client.start("echo.request.x", b"1", {"Waybill-Request-Id": "dup"})
        attempt = worker.next()
        second = self.client.request("echo.request.x", b"2", {"Waybill-Request-Id": "dup"})
        self.assertError(second, "duplicate", delivered="no")
        self.assertNoRecord("dup")
        attempt.answer(b"a")
        self.assertServed(first.next(), "w1", b"a")
        self.bucket.record("dup")
        self.assertEqual(1, len(worker.attempts))

    def test_a_request_without_reply_is_routed_and_attributed(self):
        (worker,) = self.ready(serve)
        self.client.publish("echo.request.x", b"q", None, {"Waybill-Request-Id": "silent"})
        worker.next()
        self.assertEqual("w1", self.bucket.record("silent")["worker"])
        self.assertAtRest()

    def test_one_way_is_never_attributed(self):
        (worker,) = self.ready(serve)
        inbox = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "oneway", "Waybill-Replies": "none"})
        worker.next()
        wait_for(lambda: self.router.count("one_way") == 1, 5 * SLOW, "the end of the one-way request")
        self.assertEqual([], inbox.messages)
        self.assertNoRecord("oneway")
        self.assertAtRest()

    def test_trace_id_stands_in_the_record(self):
        self.ready(serve)
        self.client.request("echo.request.x", b"q", {
            "Waybill-Request-Id": "t-1",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        record = self.bucket.record("t-1")
        self.assertEqual("0af7651916cd43dd8448eb211c80319c", record["trace"])
        self.assertIsNone(record["adapter"])
        self.assertGreater(record["first_reply_us"], 0)

    def test_disclose_false_hides_workers(self):
        script = Script(lambda a: a.refuse(503, "busy", b"later"), serve)
        self.ready(script, script, service=self.fabric.service(disclose=False))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "hidden"})
        self.assertIsNone(answer.error)
        self.assertEqual("hidden", answer.get("Waybill-Request-Id"))
        self.assertIsNone(answer.get("Waybill-Worker"))
        self.assertEqual(script.workers[1], self.bucket.record("hidden")["worker"])
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true"}), "bad_request")

    def test_two_routers_share_the_work(self):
        self.ready(serve)
        other = self.fabric.router("router-2")
        self.fabric.wait_known(other, "w1")
        seen = {self.client.request("echo.request.x", b"%d" % n).get("Waybill-Worker") for n in range(40)}
        self.assertEqual({"w1"}, seen)
        routers = {a.message.get("Waybill-Router") for a in self.workers[0].attempts}
        self.assertEqual({"router-1", "router-2"}, routers)

    def test_many_at_once_keep_the_books(self):
        self.ready(serve, serve, serve)
        subs = [self.client.start("echo.request.x", b"%d" % n, {"Waybill-Request-Id": "many-%d" % n}) for n in range(500)]
        for number, sub in enumerate(subs):
            answer = sub.next(20 * SLOW)
            self.assertServed(answer, None, b"%d" % number)
        for number, sub in enumerate(subs):
            record = self.bucket.record("many-%d" % number, 20 * SLOW)
            self.assertEqual(sub.messages[0].get("Waybill-Worker"), record["worker"])
            self.assertEqual(1, len(sub.messages))
        self.assertAtRest()


class Monitor(Case):
    def test_health_and_metrics(self):
        self.ready(serve)
        self.client.request("echo.request.x", b"q")
        self.assertEqual(1, self.router.count("requests"))
        self.assertEqual(1, self.router.count("attempts"))
        self.assertEqual(200, self.router.http("/healthz")[0])
        self.assertEqual(404, self.router.http("/nothing")[0])
        for name in ("retries", "late", "forged", "heartbeats", "heartbeats_malformed", "no_responders", "refusals", "timeouts",
                     "attribution_written", "attribution_retried", "attribution_failed", "attribution_dropped",
                     "attribution_superseded", "reply_subject_refused", "duplicate_worker"):
            self.router.count(name)

    def test_not_healthy_without_nats(self):
        router = self.fabric.router()
        self.fabric.stop_server()
        wait_for(lambda: router.http("/healthz")[0] not in (200, None), 10 * SLOW, "an unhealthy /healthz")
        self.fabric.start_server()
        router.wait_healthy(20)

    def test_admin_show_answers_each_router_and_one(self):
        self.ready(serve)
        other = self.fabric.router("router-2")
        operator = self.fabric.client("operator")
        both = operator.start("waybill.admin.show.stats", b"{}")
        both.wait_count(2)
        one = operator.request("waybill.admin.show.stats.router-2", b"{}")
        self.assertEqual("router-2", one.json()["router"])
        self.assertEqual({"router-1", "router-2"}, {m.json()["router"] for m in both.messages})
        self.assertIn("w1", self.fabric.known(other))


class Limits(Case):
    def test_hops(self):
        self.ready(serve)
        self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Hops": "3"}))
        for hops in ("4", "5", "x", "-1", ""):
            self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Hops": hops, "Waybill-Request-Id": "hop"}),
                             "bad_request", delivered="no")
        self.assertNoRecord("hop")

    def test_a_request_too_large_with_the_routers_headers(self):
        (worker,) = self.ready(serve)
        limit = self.client.info["max_payload"]
        answer = self.client.request("echo.request.x", b"x" * (limit - 10))
        self.assertError(answer, "payload_too_large", delivered="no")
        self.assertEqual([], worker.attempts)
        self.assertNoRecord(answer.get("Waybill-Request-Id"))
        self.assertServed(self.client.request("echo.request.x", b"x" * (limit - 2000)))

    def test_an_answer_too_large_with_the_disclosure_goes_without(self):
        (worker,) = self.ready(lambda a: a.answer(b"y" * (self.client.info["max_payload"] - 5)))
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "big"})
        self.assertEqual(self.client.info["max_payload"] - 5, len(answer.data))
        self.assertIsNone(answer.get("Waybill-Worker"))
        self.assertEqual("done", self.bucket.record("big")["outcome"])

    def test_limits_in_flight(self):
        (worker,) = self.ready(hold, router_options={"limits": {"in_flight": 2}})
        first = [self.client.start("echo.request.x", b"%d" % n) for n in range(2)]
        worker.next(number=2)
        body = self.assertError(self.client.request("echo.request.x", b"3"), "overloaded", delivered="no")
        self.assertEqual("service", body["scope"])
        for attempt, sub in zip(list(worker.attempts), first):
            attempt.answer(b"a")
        for sub in first:
            self.assertServed(sub.next())


if __name__ == "__main__":
    unittest.main()
