"""Waybill-Retry: a client that sends an id again is led by the record of it. The records are read from NATS or put there by the test."""
import json
import time
import unittest

from case import BUCKET, SLOW, Case, Script, hold, refuse, serve, wait_for
from support.hub import Hub

READ_S = 0.25


def record_of(request_id, worker, **changes):
    """A record as another router may have left it."""
    return {"worker": worker, "rank": None, "attempt": 1, "service": "echo", "request_id": request_id, "tried": [], "selected": worker,
            "policy": "random", "reason": "policy", "session": None, "adapter": None, "subject": "echo.request.x", "router": "router-9",
            "rid": "router-9.1.1", "worker_epoch": 1, "trace": None, "received_at": "2020-01-01T00:00:00.000000Z", "first_reply_us": 1,
            "finished_at": None, "replies": 1, "code": None, "v": 1, "outcome": "done", **changes}


class Retries(Case):
    def ask(self, request_id, retry=None, subject="echo.request.x", bound=10 * SLOW, **headers):
        return self.client.request(subject, b"q", self.headers(request_id, retry, **headers), bound)

    @staticmethod
    def headers(request_id, retry=None, **headers):
        given = {"Waybill-Request-Id": request_id, **{"Waybill-" + name.replace("_", "-"): value for name, value in headers.items()}}
        return {**given, "Waybill-Retry": retry} if retry else given

    def counts(self, router=None):
        return tuple((router or self.router).count("retry_reads_" + what) for what in ("found", "none", "unknown"))

    def bucket_there(self):
        """A record of another id is stored, so the bucket is there."""
        def stored():
            self.client.request("echo.request.x", b"q")
            return self.bucket.stored()
        wait_for(stored, 20 * SLOW, "the bucket")

    def put(self, request_id, value, headers=None):
        self.bucket_there()
        tester = self.fabric.client("test")
        ack = tester.request("$KV.%s.echo.%s" % (BUCKET, request_id), value if isinstance(value, bytes) else json.dumps(value).encode(), headers)
        self.assertIn("seq", ack.json())

    def stored(self, request_id, count=1):
        wait_for(lambda: len(self.bucket.stored_for(request_id)) >= count, 10 * SLOW, lambda: "stored record of " + request_id)

    def assertUnknown(self, answer):
        self.assertEqual("unknown", answer.get("Waybill-Retry-State"), answer)

    def assertKnown(self, answer):
        self.assertIsNone(answer.get("Waybill-Retry-State"), answer)


class RetryByRecord(Retries):
    def test_avoid_leads_away_each_time(self):
        """Each retry avoids who served last, whether that record is still on its way or in the bucket."""
        self.ready(serve, serve)
        last = self.ask("a").get("Waybill-Worker")
        for n in range(30):
            if n == 20:
                self.stored("a")
            answer = self.ask("a", "avoid")
            self.assertServed(answer, "w1" if last == "w2" else "w2")
            self.assertKnown(answer)
            last = answer.get("Waybill-Worker")
        wait_for(lambda: self.bucket.stored_for("a") and json.loads(self.bucket.stored_for("a")[-1][2])["worker"] == last, 10 * SLOW, "the last record")
        self.assertEqual({"avoid"}, {w.value["reason"] for w in self.bucket.of("a")[1:]})
        self.assertEqual((30, 0, 0), self.counts())

    def test_prefer_leads_back(self):
        self.ready(serve, serve, serve)
        self.assertServed(self.ask("p", Target="w2"), "w2")
        self.stored("p")
        for _ in range(10):
            self.assertServed(self.ask("p", "prefer"), "w2")
        wait_for(lambda: any(w.value["reason"] == "prefer" for w in self.bucket.of("p")), 5 * SLOW, "the reason")
        self.assertEqual(10, self.counts()[0])

    def test_a_retrys_record_writes_over_the_older_one(self):
        self.ready(serve, serve)
        self.ask("over", Target="w1")
        self.stored("over")
        self.assertServed(self.ask("over", "avoid"), "w2")
        wait_for(lambda: [json.loads(v)["worker"] for _, _, v, _ in self.bucket.stored_for("over")] == ["w1", "w2"], 10 * SLOW,
                 lambda: "w1, then w2 (%r)" % self.bucket.stored_for("over"))

    def test_without_a_record_it_is_an_ordinary_request(self):
        self.ready(serve, serve)
        self.bucket_there()
        for retry in ("avoid", "prefer"):
            answer = self.ask("new-" + retry, retry)
            self.assertServed(answer)
            self.assertKnown(answer)
            self.assertEqual("policy", self.bucket.record("new-" + retry)["reason"])
        self.assertKnown(self.client.request("echo.request.x", b"q", {"Waybill-Retry": "avoid"}))  # an id of the router's own making
        self.assertEqual((0, 3, 0), self.counts())

    def test_a_delete_marker_is_no_record(self):
        self.ready(serve, serve)
        for operation in ("DEL", "PURGE"):
            self.put(operation, record_of(operation, "w1"))
            self.put(operation, b"", {"KV-Operation": operation})
            answer = self.ask(operation, "avoid")
            self.assertServed(answer)
            self.assertKnown(answer)
            self.assertEqual("policy", self.bucket.wait(operation, 3)[2].value["reason"])
        self.assertEqual((0, 2, 0), self.counts())

    def test_the_recorded_worker_is_gone(self):
        self.ready(serve)
        for retry in ("avoid", "prefer"):
            self.put(retry, record_of(retry, "w9", rank=3))
            answer = self.ask(retry, retry)
            self.assertServed(answer, "w1")
            self.assertKnown(answer)
            self.assertIsNone(answer.get("Waybill-Rank"))
            self.assertEqual("policy", self.bucket.wait(retry, 2)[1].value["reason"])

    def test_prefer_takes_the_recorded_rank_while_there_is_one(self):
        self.ready(serve, serve, heartbeat={"ranks": 2})
        for rank, expected in ((1, 1), (2, None), (None, None)):
            with self.subTest(rank=rank):
                request_id = "rank-%s" % rank
                self.put(request_id, record_of(request_id, "w2", rank=rank))
                answer = self.ask(request_id, "prefer")
                self.assertServed(answer, "w2")
                self.assertEqual(None if expected is None else str(expected), answer.get("Waybill-Rank"))
                self.assertEqual(expected, self.bucket.wait(request_id, 2)[1].value["rank"])
                self.assertEqual(answer.get("Waybill-Rank"), self.workers[1].attempts[-1].message.get("Waybill-Rank"))

    def test_a_record_that_cannot_be_read(self):
        self.ready(serve, serve)
        values = {"newer": record_of("newer", "w1", v=2), "text": b"not a record", "empty": b"{}", "list": b"[]",
                  "name": record_of("name", "w 1"), "rank": record_of("rank", "w1", rank="x")}
        for request_id, value in values.items():
            with self.subTest(request_id):
                self.put(request_id, value)
                answer = self.ask(request_id, "avoid")
                self.assertServed(answer)
                self.assertUnknown(answer)
        self.assertEqual((0, 0, len(values)), self.counts())

    def test_a_failed_attempt_is_never_what_it_leads_to(self):
        """w1 refuses and w2 serves: prefer leads to w2, avoid away from it. Of a request that nobody answered nothing is known."""
        self.ready(refuse(503, 1), serve, service=self.fabric.service(policy="round_robin", retry={"budget_percent": 1000}))
        for n in range(4):
            request_id = "f%d" % n
            self.assertServed(self.ask(request_id), "w2")
            self.assertServed(self.ask(request_id, "prefer"), "w2")
        self.workers[1].handler = refuse(503, 1)
        wait_for(lambda: all(w["standing"] == "free" for w in self.fabric.known(self.router).values()), 5 * SLOW, "free workers")
        self.assertEqual("overloaded", self.ask("nobody").error)
        none = self.counts()[1]
        answer = self.ask("nobody", "prefer")
        self.assertEqual("overloaded", answer.error)
        self.assertKnown(answer)
        self.assertEqual(none + 1, self.counts()[1])
        self.assertNoRecord("nobody")

    def test_by_the_tool(self):
        self.ready(serve, serve)
        self.ask("tool", Target="w1")
        for retry, worker in (("prefer", "w1"), ("avoid", "w2")):
            done = self.fabric.tool("request", "echo.request.x", "q", "--id", "tool", "--retry", retry, "--json")
            self.assertIn('"%s"' % worker, done.stdout)


class RetryChoices(Retries):
    def test_avoid_uses_the_only_permitted_one(self):
        self.ready(serve)
        self.ask("only")
        answer = self.ask("only", "avoid")
        self.assertServed(answer, "w1")
        self.assertKnown(answer)
        self.assertEqual("policy", self.bucket.wait("only", 2)[1].value["reason"])

    def test_avoid_does_not_fall_back_on_the_avoided_one_while_others_are_busy(self):
        self.ready(serve, serve)
        self.ask("busy", Target="w1")
        self.workers[1].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w2"]["state"] == "busy", 5 * SLOW, "a busy w2")
        served = len(self.workers[0].attempts)
        body = self.assertError(self.ask("busy", "avoid"), "overloaded", delivered="no", attempts=[])
        self.assertEqual("service", body["scope"])
        self.assertEqual(served, len(self.workers[0].attempts))
        self.workers[1].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w2"]["state"] == "draining", 5 * SLOW, "a draining w2")
        self.assertServed(self.ask("busy", "avoid"), "w1")  # nobody else is permitted now

    def test_prefer_does_not_wait_for_a_busy_one(self):
        self.ready(serve, serve)
        self.ask("busy", Target="w1")
        self.workers[0].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "busy", 5 * SLOW, "a busy w1")
        self.assertServed(self.ask("busy", "prefer"), "w2")
        self.assertEqual("policy", self.bucket.wait("busy", 2)[-1].value["reason"])

    def test_a_target_wins(self):
        self.ready(serve, serve)
        self.ask("target", Target="w1")
        self.assertServed(self.ask("target", "avoid", Target="w1"), "w1")
        self.assertServed(self.ask("target", "prefer", Target="w2"), "w2")
        self.assertEqual((0, 0, 0), self.counts())

    def test_the_avoided_one_is_the_last_resort_of_the_requests_own_retries(self):
        self.ready(serve, serve, serve)
        self.ask("last", Target="w2")
        self.workers[0].unsubscribe()
        self.workers[2].unsubscribe()
        answer = self.ask("last", "avoid")
        self.assertServed(answer, "w2", attempt=3)
        record = self.bucket.wait("last", 2)[-1].value
        self.assertEqual(["w1", "w3"], sorted(t["worker"] for t in record["tried"]))
        self.assertEqual("retry", record["reason"])
        self.assertAtRest()

    def test_advice_is_led_by_the_record_too(self):
        self.ready(serve, serve)
        self.ask("adv", Target="w1")
        self.stored("adv")
        for _ in range(3):
            for retry, worker in (("avoid", "w2"), ("prefer", "w1")):
                told = self.ask("adv", retry, Advise="true").json()
                self.assertEqual((worker, retry, "adv"), (told["worker"], told["reason"], told["request_id"]))
        self.workers[1].beat(state="busy")
        wait_for(lambda: self.fabric.known(self.router)["w2"]["state"] == "busy", 5 * SLOW, "a busy w2")
        self.assertError(self.ask("adv", "avoid", Advise="true"), "overloaded")
        self.assertEqual(1, len(self.bucket.stored_for("adv")))
        self.assertEqual(1, len(self.workers[0].attempts) + len(self.workers[1].attempts))
        self.assertAtRest()

    def test_malformed_and_not_accepted(self):
        (worker,) = self.ready(serve, service=self.fabric.service(accept=["target"]))
        for headers in ({"Waybill-Retry": "avoid"}, {"Waybill-Reply": "_INBOX.x"}, {"Waybill-Retry": "x"}):
            self.assertError(self.client.request("echo.request.x", b"q", headers), "bad_request", delivered="no")
        self.assertEqual([], worker.attempts)


class RetryAcrossRouters(Retries):
    def start(self, name, place):
        service = self.fabric.service(subjects=["echo.request.%s.>" % place])
        return self.fabric.router(name, services=[service])

    def both(self):
        self.bucket, self.client = self.fabric.watch(), self.fabric.client()
        self.router, self.second = self.start("router-1", "one"), self.start("router-2", "two")
        self.workers = [self.fabric.raw_worker("w%d" % n, serve, known_to=[self.router, self.second]) for n in (1, 2, 3)]

    def test_the_other_routers_record(self):
        self.both()
        self.assertServed(self.ask("x", subject="echo.request.one.x", Target="w2"), "w2")
        self.stored("x")
        for place in ("two", "one", "two"):
            answer = self.ask("x", "prefer", subject="echo.request.%s.x" % place)
            self.assertServed(answer, "w2")
            self.assertKnown(answer)
        self.assertNotEqual("w2", self.ask("x", "avoid", subject="echo.request.two.x").get("Waybill-Worker"))
        self.assertEqual(3, self.counts(self.second)[0])
        self.assertEqual(1, self.counts(self.router)[0])

    def test_after_a_restart(self):
        self.both()
        for n in range(5):
            self.assertServed(self.ask("r%d" % n, subject="echo.request.one.x", Target="w3"), "w3")
        self.assertEqual(0, self.router.terminate())
        again = self.start("router-1", "one")
        for n in (1, 2, 3):
            self.fabric.wait_known(again, "w%d" % n)
        for n in range(5):
            answer = self.ask("r%d" % n, "prefer", subject="echo.request.one.x")
            self.assertServed(answer, "w3")
            self.assertKnown(answer)


class RetryOfOneInFlight(Retries):
    def begin(self, request_id="live", **options):
        self.script = Script(hold, serve)
        self.ready(self.script, self.script, **options)
        self.older = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": request_id})
        self.attempt = self.script.next()
        return self.attempt

    def cancelled(self, request_id="live"):
        cancels = self.attempt.worker.cancels
        wait_for(lambda: cancels, 5 * SLOW, "the worker's cancel")
        self.assertEqual((request_id, "1"), (cancels[0].get("Waybill-Request-Id"), cancels[0].get("Waybill-Attempt")))

    def test_the_older_one_is_cancelled_first(self):
        self.begin()
        answer = self.ask("live", "avoid", Reply=self.older.subject)
        self.assertServed(answer)
        self.assertError(self.older.next(), "cancelled", delivered="maybe")
        self.cancelled()
        self.attempt.answer(b"too late")
        wait_for(lambda: self.router.count("late") == 1, 5 * SLOW, "the late answer")
        self.assertEqual(1, len(self.older.messages))
        self.assertEqual(1, len(self.bucket.wait("live")))
        self.assertEqual(answer.get("Waybill-Worker"), self.bucket.record("live")["worker"])
        self.assertAtRest()

    def test_otherwise_it_is_a_duplicate(self):
        self.begin()
        for headers in ({}, {"Waybill-Retry": "avoid"}, {"Waybill-Retry": "prefer", "Waybill-Reply": "_INBOX.other"},
                        {"Waybill-Retry": "prefer", "Waybill-Reply": ""}, {"Waybill-Reply": self.older.subject}):
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "live", **headers})
            self.assertError(answer, "duplicate", delivered="no")
        self.assertEqual(1, len(self.script.attempts))
        self.attempt.answer(b"served all the same")
        self.assertServed(self.older.next(), data=b"served all the same")

    def test_one_without_a_reply_subject_cannot_be_named(self):
        self.script = Script(hold, serve)
        self.ready(self.script)
        self.client.publish("echo.request.x", b"q", None, {"Waybill-Request-Id": "live"})
        self.script.next().worker
        for reply in ("", "_INBOX.x"):
            self.assertError(self.ask("live", "avoid", Reply=reply), "duplicate")

    def test_a_stream_ends_cancelled_and_its_worker_is_avoided(self):
        """Its first answer made a record: the retry leads away from that worker, and the new record stands last."""
        attempt = self.begin(service=self.fabric.service(replies="stream"))
        attempt.stream([b"1"], end=False)
        self.older.wait_count(1)
        answer = self.ask("live", "avoid", Reply=self.older.subject, Replies="one")
        other = "w1" if attempt.worker.id == "w2" else "w2"
        self.assertServed(answer, other)
        self.older.wait_count(3)
        self.assertEqual("cancelled", self.older.messages[-1].get("Waybill-Outcome"))
        self.cancelled()
        wait_for(lambda: self.bucket.stored_for("live") and json.loads(self.bucket.stored_for("live")[-1][2])["worker"] == other,
                 10 * SLOW, "the retry's record")
        wait_for(lambda: self.router.metrics()["waybill_attribution_backlog"] == 0, 10 * SLOW, "an empty backlog")
        self.assertEqual((other, "done", "avoid"), tuple(json.loads(self.bucket.stored_for("live")[-1][2])[k] for k in ("worker", "outcome", "reason")))
        self.assertAtRest()

    def test_an_id_of_the_routers_own_making(self):
        self.script = Script(hold, serve)
        self.ready(self.script)
        older = self.client.start("echo.request.x", b"q")
        made = self.script.next().id
        self.assertError(self.ask(made, "prefer", Reply="_INBOX.x"), "duplicate")
        self.assertServed(self.ask(made, "prefer", Reply=older.subject), "w1")
        self.assertError(older.next(), "cancelled")
        self.assertAtRest()


class RetryWithFrozenJetStream(Retries):
    fabric_options = {"jetstream": False}

    def setUp(self):
        self.hub = None
        self.addCleanup(lambda: self.hub and self.hub.close())
        super().setUp()

    def begin(self, *handlers, **router):
        self.hub = Hub(self.fabric)
        self.addCleanup(self.hub.thaw)
        self.bucket = self.hub.bucket
        self.router = self.fabric.router(**router)
        self.workers = [self.fabric.raw_worker("w%d" % n, handler, known_to=[self.router]) for n, handler in enumerate(handlers, 1)]
        self.client = self.fabric.client()
        self.bucket_there()

    def test_the_own_backlog_does_not_wait_for_the_bucket(self):
        self.begin(serve, serve, serve)
        self.hub.freeze()
        self.assertServed(self.ask("ice", Target="w1"), "w1")
        self.assertServed(self.ask("ice", Target="w2"), "w2")  # the newest counts
        reads = self.counts()
        for n in range(6):
            began = time.monotonic()
            answer = self.ask("ice", "prefer")
            self.assertServed(answer, "w2")
            self.assertKnown(answer)
            self.assertLess(time.monotonic() - began, READ_S if SLOW == 1 else 2)
        last = "w2"
        for n in range(30):
            last, before = self.ask("ice", "avoid").get("Waybill-Worker"), last
            self.assertNotEqual(before, last)
        self.assertEqual((reads[0] + 36, reads[1], reads[2]), self.counts())
        self.hub.thaw()
        wait_for(lambda: self.router.metrics()["waybill_attribution_backlog"] == 0, 30 * SLOW, "an empty backlog")
        self.assertEqual(last, json.loads(self.bucket.stored_for("ice")[-1][2])["worker"])
        self.assertNotEqual(last, self.ask("ice", "avoid").get("Waybill-Worker"))

    def test_a_read_that_takes_too_long(self):
        self.begin(serve, serve)
        self.ask("slow", Target="w1")
        self.stored("slow")
        wait_for(lambda: self.router.metrics()["waybill_attribution_backlog"] == 0, 10 * SLOW, "an empty backlog")
        self.hub.freeze()
        began = time.monotonic()
        answer = self.ask("slow", "avoid")
        waited = time.monotonic() - began
        self.assertServed(answer)
        self.assertUnknown(answer)
        self.assertGreater(waited, READ_S - 0.02)
        self.assertLess(waited, READ_S + 0.5 * SLOW)
        self.assertEqual((0, 0, 1), self.counts())
        self.hub.thaw()
        wait_for(lambda: self.router.metrics()["waybill_attribution_backlog"] == 0, 30 * SLOW, "an empty backlog")
        self.assertKnown(self.ask("slow", "avoid"))

    def test_a_stream_says_it_on_its_first_message(self):
        self.begin(lambda a: a.stream([b"1", b"2"]))
        self.hub.freeze()
        messages = self.client.request_stream("echo.request.x", b"q", self.headers("st", "avoid", Replies="stream"))
        self.assertEqual([b"1", b"2", b""], [m.data for m in messages])
        self.assertEqual(["unknown", None], [m.get("Waybill-Retry-State") for m in messages[:2]])

    def test_an_error_says_it(self):
        self.begin(serve, refuse(503))
        self.hub.freeze()
        self.workers[0].beat(state="draining")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["state"] == "draining", 5 * SLOW, "a draining w1")
        answer = self.ask("err", "prefer")
        self.assertEqual("overloaded", answer.error)
        self.assertUnknown(answer)
        self.assertUnknown(self.ask("err", "avoid", Advise="true"))

    def test_the_total_time_goes_on(self):
        self.begin(serve)
        self.hub.freeze()
        began = time.monotonic()
        self.assertError(self.ask("total", "avoid", Timeout_Ms="60"), "timeout", delivered="no", attempts=[])
        self.assertLess(time.monotonic() - began, READ_S * SLOW)
        self.assertServed(self.ask("total", "avoid", Timeout_Ms="20000"), "w1")

    def test_cancelled_while_it_reads(self):
        self.begin(serve)
        served = len(self.workers[0].attempts)
        self.hub.freeze()
        pending = self.client.start("echo.request.x", b"q", self.headers("gone", "avoid"))
        said = self.client.request("waybill.cancel.echo.gone", b"", {"Waybill-Reply": pending.subject})
        self.assertEqual({"cancelled": True}, said.json())
        self.assertError(pending.next(), "cancelled", delivered="no")
        # Also by a retry of the retry.
        pending = self.client.start("echo.request.x", b"q", self.headers("gone", "avoid"))
        self.assertServed(self.ask("gone", "avoid", Reply=pending.subject), "w1")
        self.assertError(pending.next(), "cancelled", delivered="no")
        self.assertEqual(served + 1, len(self.workers[0].attempts))
        self.assertAtRest()

    def test_told_to_stop_while_it_reads(self):
        self.begin(serve)
        self.hub.freeze()
        pending = self.client.start("echo.request.x", b"q", self.headers("stop", "avoid"))
        wait_for(lambda: self.router.count("requests") > 1, 5 * SLOW, "the request")
        self.router.signal(15)
        self.assertServed(pending.next(10 * SLOW), "w1")
        self.hub.thaw()
        self.assertEqual(0, self.router.ended())

    def test_the_link_breaks_while_it_reads(self):
        """The read is given up, not the request: it waits for the link like any other."""
        self.begin(serve)
        self.hub.freeze()
        before = self.router.count("requests")
        self.client.start("echo.request.x", b"q", self.headers("cut", "avoid"))
        wait_for(lambda: self.router.count("requests") > before, 5 * SLOW, "the request")
        self.fabric.stop_server()
        wait_for(lambda: self.counts()[2] == 1, 5 * SLOW, "the end of the read")
        self.fabric.start_server()
        self.router.wait_healthy(30)
        wait_for(lambda: self.router.metrics()["waybill_held_requests"] == 0, 30 * SLOW, "rest")

    def test_many_at_once(self):
        self.begin(serve)
        self.hub.freeze()
        sub = self.client.subscribe("_INBOX.many.*")
        for n in range(3000):
            self.client.publish("echo.request.x", b"q", "_INBOX.many.%d" % n, self.headers("m%d" % n, "avoid"))
        sub.wait_count(3000, 30 * SLOW)
        self.assertTrue(all(m.get("Waybill-Retry-State") == "unknown" and m.get("Waybill-Worker") == "w1" for m in sub.messages))
        self.assertEqual((0, 0, 3000), self.counts())
        self.assertAtRest()

    def test_an_answer_that_waits_for_its_record_wins_over_the_retry(self):
        """before_reply: the older one's answer is in. It goes out all the same, and the retry is not a duplicate."""
        self.begin(serve, serve, attribution={"write": "before_reply", "write_timeout_ms": 1000})
        self.hub.freeze()
        served = self.router.count("answered")
        older = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "held", "Waybill-Target": "w1"})
        wait_for(lambda: self.router.count("answered") > served, 5 * SLOW, "the worker's answer")
        self.assertServed(self.ask("held", "avoid", Reply=older.subject), "w2")
        self.assertServed(older.next(), "w1")
        self.assertError(self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "held", "Waybill-Timeout-Ms": "x"}), "bad_request")
        self.assertAtRest()


class RetryWithoutJetStream(Retries):
    fabric_options = {"jetstream": False}

    def test_unknown_and_at_once(self):
        self.router = self.fabric.router()
        self.fabric.raw_worker("w1", serve, known_to=[self.router])
        self.client = self.fabric.client()
        for retry in ("avoid", "prefer"):
            answer = self.ask("none-" + retry, retry)
            self.assertServed(answer, "w1")
            self.assertUnknown(answer)
        self.assertEqual(2, self.counts()[2])


class RetryWithoutABucket(Retries):
    def test_unknown(self):
        """The stream is not there, which is another 404 than a key that is not there."""
        self.ready(serve)
        self.bucket_there()
        tester = self.fabric.client("test")
        tester.request("$JS.API.STREAM.DELETE.KV_" + BUCKET, b"")
        self.assertUnknown(self.ask("away", "avoid"))


class RetryWithAttributionOff(Retries):
    def test_unknown_and_at_once(self):
        """Whatever the bucket holds from other times: this router does not look."""
        tester = self.fabric.client("test")
        tester.request("$JS.API.STREAM.CREATE.KV_" + BUCKET, json.dumps({"name": "KV_" + BUCKET, "subjects": ["$KV.%s.>" % BUCKET]}).encode())
        self.assertIn("seq", tester.request("$KV.%s.echo.off" % BUCKET, json.dumps(record_of("off", "w1")).encode()).json())
        self.ready(serve, router_options={"attribution": {"write": "off"}})
        answer = self.ask("off", "avoid")
        self.assertServed(answer, "w1")
        self.assertUnknown(answer)
        self.assertEqual((0, 0, 1), self.counts())


if __name__ == "__main__":
    unittest.main()
