"""The `nats` tool of the NATS project as client, worker and reader of records, each under its own narrow permissions."""
import json
import re
import unittest

from case import BUCKET, SLOW, NatsTool, refuse, serve, wait_for
from support.cluster import reader_permissions, user


def headers(done):
    """The headers that `nats request` logged, by message."""
    messages = []
    for line in done.stderr.splitlines():
        line = line.split(" ", 1)[1] if " " in line else ""
        if line.startswith("Received with rtt"):
            messages.append({})
        elif messages and ": " in line:
            name, value = line.split(": ", 1)
            messages[-1][name] = value
    return messages


class Tool(NatsTool):
    fabric_options = {"services": {"chat": ["chat.request.>"], "echo": ["echo.request.>"], "count": ["count.request.>"]},
                      "statics": {("chat", "legacy"): "chat.legacy"}, "extra_users": [user("reader", reader_permissions())]}

    def setUp(self):
        super().setUp()
        chat = self.fabric.service("chat", workers=[{"id": "legacy", "subject": "chat.legacy"}])
        self.router = self.fabric.router(services=[chat, self.fabric.service("echo"), self.fabric.service("count", replies="stream")])
        self.bucket = self.fabric.watch()

    def worker(self, handler, name="w1", service="echo"):
        return self.fabric.raw_worker(name, handler, service=service, known_to=[self.router])

    def responder(self, *argv):
        process = self.fabric.nats_process("reply", "reply", "chat.legacy", *argv, user="chat-legacy")
        wait_for(lambda: 'Listening on "chat.legacy"' in process.output(), 10 * SLOW, lambda: "nats reply\n" + process.tail())
        return process

    def request(self, subject, text="hello", *argv, id=None):
        return self.fabric.nats("request", subject, text, *argv, *(["-H", "Waybill-Request-Id:" + id] if id else []))

    def kv(self, *argv, user="operator", check=True):
        return self.fabric.nats("kv", *argv, user=user, check=check)

    # -- nats request

    def test_request(self):
        self.worker(serve)
        done = self.request("echo.request.x", "hello", "-H", "X-Mine:1", id="r-1")
        self.assertEqual("hello", done.stdout.strip())
        self.assertEqual([{"Waybill-Request-Id": "r-1", "Waybill-Worker": "w1", "Waybill-Attempt": "1"}], headers(done))

    def test_request_with_nothing_of_ours(self):
        worker = self.worker(serve)
        done = self.fabric.nats("request", "echo.request.x", "hello", "--raw")
        self.assertEqual("hello", done.stdout.strip())
        self.assertEqual(worker.attempts[0].id, self.bucket.record(worker.attempts[0].id)["request_id"])

    def test_many_requests(self):
        self.worker(serve)
        self.worker(serve, "w2")
        done = self.fabric.nats("request", "echo.request.x", "n {{Count}}", "--count", "50", "--raw")
        self.assertEqual(["n %d" % n for n in range(1, 51)], [line for line in done.stdout.splitlines() if line])

    def test_request_that_nobody_serves(self):
        self.worker(refuse(429, 60000))
        done = self.request("echo.request.x", id="r-2")
        shown, = headers(done)
        self.assertEqual(("overloaded", "429", "no"), (shown["Waybill-Error"], shown["Nats-Service-Error-Code"], shown["Waybill-Delivered"]))
        self.assertNotIn("Waybill-Worker", shown)
        done = self.request("chat.request.x", id="r-3")
        shown, = headers(done)
        self.assertEqual(("no_worker", "503"), (shown["Waybill-Error"], shown["Nats-Service-Error-Code"]))
        self.assertEqual("no_worker", json.loads(done.stdout)["error"])
        self.assertNoRecord("r-2", "r-3")
        failed = self.kv("get", BUCKET, "echo.r-2", "--raw", check=False)
        self.assertNotEqual(0, failed.returncode)
        self.assertIn("key not found", failed.stderr)

    # -- nats reply

    def test_reply_as_a_static_worker(self):
        responder = self.responder("--echo")
        done = self.request("chat.request.x", "hello", "-H", "X-Mine:1", id="r-4")
        self.assertEqual("hello", done.stdout.strip())
        shown, = headers(done)
        self.assertEqual({"Waybill-Request-Id": "r-4", "Waybill-Worker": "legacy", "Waybill-Attempt": "1", "X-Mine": "1"},
                         {name: value for name, value in shown.items() if name != "NATS-Reply-Counter"})
        for line in ("Waybill-Request-Id: r-4", "Waybill-Subject: chat.request.x", "Waybill-Router: router-1", "Waybill-Attempt: 1", "X-Mine: 1"):
            self.assertIn(line, responder.output())
        self.assertEqual("legacy", self.bucket.record("r-4")["worker"])

    def test_reply_with_a_command(self):
        self.responder("--command", "echo served {{.Request}}")
        self.assertIn("served it", self.request("chat.request.x", "it", "--raw").stdout)

    def test_reply_that_leaves_and_comes_back(self):
        responder = self.responder("--echo")
        self.assertEqual("one", self.request("chat.request.x", "one", "--raw").stdout.strip())
        responder.kill()
        wait_for(lambda: headers(self.request("chat.request.x"))[0].get("Waybill-Error") == "no_worker", 10 * SLOW, "no_worker")
        self.responder("--echo")
        wait_for(lambda: headers(self.request("chat.request.x"))[0].get("Waybill-Worker") == "legacy", 10 * SLOW, "the static worker again")

    def test_reply_that_refuses(self):
        self.responder("later", "-H", "Nats-Service-Error-Code:429", "-H", "Nats-Service-Error:full")
        shown, = headers(self.request("chat.request.x", id="r-5"))
        self.assertEqual(("overloaded", "429", "full"), (shown["Waybill-Error"], shown["Nats-Service-Error-Code"], shown["Nats-Service-Error"]))
        self.assertNoRecord("r-5")

    # -- nats req --wait-for-empty

    def stream(self, id, data="3"):
        return self.fabric.nats("req", "count.request.x", data, "--wait-for-empty", "--reply-timeout=30s", "-H", "Waybill-Request-Id:" + id)

    def test_wait_for_empty(self):
        self.worker(lambda attempt: attempt.stream([b"part %d" % n for n in range(1, int(attempt.data) + 1)]), service="count")
        for n in (3, 300):
            done = self.stream("s-%d" % n, str(n))
            self.assertEqual(["part %d" % m for m in range(1, n + 1)], re.findall(r"part \d+", done.stdout))
            shown = headers(done)
            self.assertEqual([str(m) for m in range(1, n + 2)], [one["Waybill-Seq"] for one in shown])
            self.assertEqual(("w1", None), (shown[0]["Waybill-Worker"], shown[1].get("Waybill-Worker")))
            self.assertEqual(("done", str(n), "w1"), tuple(shown[-1]["Waybill-" + name] for name in ("Outcome", "Count", "Worker")))

    def test_wait_for_empty_on_a_stream_that_breaks(self):
        self.worker(lambda attempt: [attempt.answer(b"a", {"Waybill-Seq": 1}), attempt.answer(b"c", {"Waybill-Seq": 3})], service="count")
        shown = headers(self.stream("s-1"))
        self.assertEqual(["1", "2", "3"], [one["Waybill-Seq"] for one in shown])
        self.assertEqual([None, "interrupted", "interrupted"], [one.get("Waybill-Error") for one in shown])
        self.assertEqual("interrupted", shown[-1]["Waybill-Outcome"])
        self.assertEqual("interrupted", self.bucket.wait_outcome("s-1", "interrupted")["outcome"])

    def test_wait_for_empty_where_nobody_answers(self):
        self.worker(refuse(429, 60000), service="count")
        shown = headers(self.stream("s-2"))
        self.assertEqual(["overloaded", "overloaded"], [one.get("Waybill-Error") for one in shown])
        self.assertEqual(("error", "0"), (shown[-1]["Waybill-Outcome"], shown[-1]["Waybill-Count"]))

    # -- nats kv

    def record(self, *argv):
        return json.loads(self.kv("get", BUCKET, *argv, "--raw").stdout)

    def test_kv_get(self):
        self.worker(serve)
        self.request("echo.request.x", id="r-6")
        written = self.bucket.record("r-6")
        self.assertEqual(written, self.record("echo.r-6"))
        first = self.kv("get", BUCKET, "echo.r-6").stdout
        self.assertRegex(first, r"waybill_attribution > echo\.r-6 revision: \d+")
        self.assertIn('{"worker":"w1",', first)  # the tool cuts long values: who served stands first

    def test_kv_history_of_a_stream(self):
        self.worker(lambda attempt: attempt.stream([b"x"]), service="count")
        self.stream("s-3")
        self.bucket.wait_outcome("s-3", "done")
        shown = self.kv("history", BUCKET, "count.s-3", user="reader").stdout
        rows = re.findall(r"│ count\.s-3\s*│\s*(\d+) │ (\w+)\s*│.*│ (\S+)\s*│", shown)
        self.assertEqual(["PUT", "PUT"], [op for _, op, _ in rows], shown)
        self.assertLess(int(rows[0][0]), int(rows[1][0]))
        self.assertTrue(rows[0][2].startswith('{"worker":"w1"') and rows[0][2].endswith('"streaming"}'), rows)
        self.assertTrue(rows[1][2].startswith('{"worker":"w1"') and rows[1][2].endswith('"done"}'), rows)
        for (revision, _, _), outcome in zip(rows, ("streaming", "done")):
            self.assertEqual(outcome, self.record("count.s-3", "--revision", revision)["outcome"])

    def test_kv_watch(self):
        watch = self.fabric.nats_process("watch", "kv", "watch", BUCKET, "count.>", user="reader")
        self.worker(lambda attempt: attempt.stream([b"x"]), service="count")
        self.worker(serve)
        self.request("echo.request.x", id="r-7")  # of another service: not shown
        for n in range(5):
            self.stream("s-w%d" % n)

        def seen():
            return [(key, json.loads(value)) for key, value in re.findall(r"PUT waybill_attribution > (\S+): (\{.*\})", watch.output())]
        wait_for(lambda: sum(value["outcome"] == "done" for _, value in seen()) == 5, 20 * SLOW, lambda: "5 records\n" + watch.tail())
        self.assertEqual({"count.s-w%d" % n for n in range(5)}, {key for key, _ in seen()})
        self.assertEqual({"w1"}, {value["worker"] for _, value in seen()})
        for n in range(5):  # in order; the first revision may have been overtaken before the watch began
            self.assertIn([value["outcome"] for key, value in seen() if key == "count.s-w%d" % n], (["streaming", "done"], ["done"]))

    def test_an_operator_reads_but_watches_nothing(self):
        self.worker(serve)
        self.request("echo.request.x", id="r-8")
        self.bucket.record("r-8")
        failed = self.fabric.nats("--timeout", "1s", "kv", "history", BUCKET, "echo.r-8", user="operator", check=False)
        self.assertNotEqual(0, failed.returncode)
        self.assertIn("Permissions Violation", failed.stderr)


if __name__ == "__main__":
    unittest.main()
