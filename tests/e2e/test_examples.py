"""The examples of libwaybill's documentation do what they say, through a router."""
import os
import subprocess

from case import SLOW, Case, wait_for
from support.cluster import PASSWORD, Process, program


class Examples(Case):
    fabric_options = {"services": {"echo": ["echo.request.>"], "count": ["count.request.>"]}, "workers": ("w1", "w2")}

    def url(self, user):
        return {"NATS_URL": "nats://%s:%s@%s" % (user, PASSWORD, self.fabric.address)}

    def start(self, example, service, worker, *more):
        process = Process(self.fabric, "%s-%s" % (example, worker), [program("example_" + example), service, worker, *more],
                          self.url("%s-%s" % (service, worker)))
        self.fabric.wait_known(self.router, worker, service, process)
        return process

    def client(self, *argv, code=1):
        done = subprocess.run([program("example_client"), *argv], capture_output=True, text=True, timeout=30 * SLOW,
                              env={**os.environ, **self.url("client")}, stdin=subprocess.DEVNULL)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        for mark in ("Sanitizer", "runtime error:"):
            self.assertNotIn(mark, done.stderr)
        return done

    def ask(self, *argv, code=0):
        done = self.client(*argv, code=code)
        return done.stdout.splitlines() if code == 0 else done.stderr.splitlines()

    def setUp(self):
        super().setUp()
        self.router = self.fabric.router(services=[self.fabric.service("echo"), self.fabric.service("count", replies="stream")])

    def test_one_answer_an_error_a_refusal_and_nobody(self):
        worker = self.start("worker", "echo", "w1")
        said = self.ask("one", "echo.request.x", "hello")
        self.assertEqual("HELLO", said[0])
        self.assertIn("served by w1, rank -1, request ", said[1])
        self.assertEqual(["w1 answers 413: 256 bytes at most"], self.ask("one", "echo.request.x", "x" * 300, code=1))
        refused = self.ask("one", "echo.request.x", "busy", code=1)
        self.assertIn("overloaded:", refused[0])
        self.assertIn("try again in 500 ms", refused)
        self.assertEqual(0, worker.terminate())
        self.fabric.wait_unknown(self.router, "w1")
        self.assertIn("no_worker:", self.ask("one", "echo.request.x", "hello", code=1)[0])

    def test_a_stream_of_ten_by_callback_and_by_pull(self):
        worker = self.start("stream_worker", "count", "w2")
        ten = [str(n) for n in range(1, 11)]
        self.assertEqual(ten + ["done, served by w2"], self.ask("stream", "count.request.x", "10"))
        self.assertEqual(ten + ["10 messages, done"], self.ask("pull", "count.request.x", "10"))
        self.assertEqual(["0 messages, done"], self.ask("pull", "count.request.x", "0"))
        self.assertEqual(0, worker.terminate())

    def test_a_stream_that_its_client_cancels_is_given_up_by_the_worker(self):
        worker = self.start("stream_worker", "count", "w2", "20")
        done = self.client("pull", "count.request.x", "100000", "count", "3")
        self.assertEqual(["1", "2", "3", "cancel: ok"], done.stdout.splitlines()[:4])
        self.assertIn("cancelled: ", done.stderr)
        wait_for(lambda: "was given up" in worker.output(), 20 * SLOW, "the cancel")
        self.assertEqual(0, worker.terminate())
