"""The programs as a user meets them: options, exit codes, JSON; the configuration and its errors."""
import json
import os
import re
import subprocess
import threading
import unittest

from case import SLOW, Case, refuse, serve, wait_for
from support import cluster
from support.cluster import Process, free_port, program

FINE, USAGE, NO_LINK = 0, 1, 2


class Tool(Case):
    def test_request(self):
        self.ready(serve)
        done = self.fabric.tool("request", "echo.request.x", "hello", "--json", "--header", "Waybill-Request-Id: cli-1")
        shown = json.loads(done.stdout)
        self.assertEqual(("w1", "cli-1", "hello", 1), (shown["worker"], shown["request_id"], shown["data"], shown["attempt"]))
        self.assertEqual("w1", self.bucket.record("cli-1")["worker"])

    def test_request_from_stdin_and_plain_output(self):
        self.ready(serve)
        done = self.fabric.tool("request", "echo.request.x", stdin="from stdin")
        self.assertEqual("from stdin\n", done.stdout)
        self.assertIn("served by w1", done.stderr)

    def test_request_target_and_count(self):
        self.ready(serve, serve)
        done = self.fabric.tool("request", "echo.request.x", "q", "--target", "w2", "--count", "5", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(["w2"] * 5, [line["worker"] for line in lines])

    def test_request_stream(self):
        self.ready(lambda a: a.stream([b"1", b"2", b"3"]), service=self.fabric.service(replies="stream"))
        done = self.fabric.tool("request", "echo.request.x", "q", "--stream")
        self.assertEqual("1\n2\n3\n", done.stdout)
        done = self.fabric.tool("request", "echo.request.x", "q", "--stream", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(["1", "2", "3"], [line["data"] for line in lines if line["data"]])
        self.assertEqual("done", lines[-1]["outcome"])

    def test_request_stream_with_a_hole_fails(self):
        def hole(attempt):
            attempt.answer(b"1", {"Waybill-Seq": 1})
            attempt.answer(b"3", {"Waybill-Seq": 3})
        self.ready(hole, service=self.fabric.service(replies="stream"))
        self.assertNotEqual(0, self.fabric.tool("request", "echo.request.x", "q", "--stream", check=False).returncode)

    def test_errors_have_exit_codes_and_say_why(self):
        self.ready(refuse(503))
        done = self.fabric.tool("request", "echo.request.x", "q", check=False)
        self.assertNotIn(done.returncode, (FINE, USAGE, NO_LINK))
        self.assertIn("overloaded", done.stderr)
        done = self.fabric.tool("request", "nobody.serves.this", "q", user="test", check=False)
        self.assertNotIn(done.returncode, (FINE, USAGE))
        done = self.fabric.tool("request", "echo.request.x", "q", check=False, env={"NATS_URL": "nats://127.0.0.1:%d" % free_port()})
        self.assertEqual(NO_LINK, done.returncode, done.stderr)
        done = self.fabric.tool("request", "echo.request.x", "q", check=False, env={"NATS_PASSWORD": "wrong"})
        self.assertEqual(NO_LINK, done.returncode, done.stderr)
        for argv in ((), ("nonsense",), ("request",), ("request", "--nonsense"), ("worker",), ("who",), ("worker", "--service", "a b", "--id", "w1", "--echo")):
            done = self.fabric.tool(*argv, check=False)
            self.assertEqual(USAGE, done.returncode, (argv, done.stdout, done.stderr))
            self.assertTrue(done.stderr, argv)

    def test_help(self):
        text = self.fabric.tool("--help").stdout
        for word in ("request", "worker", "who", "workers", "bench"):
            self.assertIn(word, text)
            said = self.fabric.tool(word, "--help").stdout
            self.assertIn("--", said)
        self.assertRegex(self.fabric.tool("--version").stdout, r"\d+\.\d+")

    def test_who(self):
        self.ready(serve)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "who-1"})
        wait_for(lambda: self.bucket.stored_for("who-1"), 5 * SLOW, "the record")
        plain = self.fabric.tool("who", "who-1", "--service", "echo", user="operator")
        self.assertIn("w1", plain.stdout)
        shown = json.loads(self.fabric.tool("who", "who-1", "--service", "echo", "--json", user="operator").stdout)
        self.assertEqual("w1", shown["worker"])
        none = self.fabric.tool("who", "who-2", "--service", "echo", user="operator", check=False)
        self.assertNotEqual(0, none.returncode)
        self.assertTrue(re.search(r"no (record|attribution)", none.stdout + none.stderr), none)

    def test_workers(self):
        self.ready(serve, serve)
        plain = self.fabric.tool("workers", user="operator").stdout
        self.assertIn("w1", plain)
        self.assertIn("w2", plain)
        shown = self.fabric.tool("workers", "--json", user="operator").stdout
        self.assertIn("w2", json.dumps([json.loads(line) for line in shown.splitlines()] if shown.count("\n") > 1 else json.loads(shown)))

    def test_workers_without_a_router(self):
        done = self.fabric.tool("workers", user="operator", check=False)
        self.assertNotIn(done.returncode, (FINE, USAGE))
        self.assertTrue(done.stderr)


class Worker(Case):
    def start(self, *options, **keys):
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[self.fabric.service(**keys)])
        self.worker = self.fabric.worker("w1", *options, known_to=[self.router])
        self.client = self.fabric.client()

    def test_exec_around_any_program(self):
        self.start("--exec", "tr a-z A-Z")
        self.assertServed(self.client.request("echo.request.x", b"shout"), "w1", b"SHOUT")

    def test_waits_for_its_server(self):
        """Pasted together with the line that starts the server, it was gone before that listened."""
        router = self.router = self.fabric.router()
        self.fabric.stop_server()
        worker = self.fabric.worker("w1", "--echo")
        wait_for(lambda: "waiting for nats://" in worker.output(), 5 * SLOW, worker.output)
        done = self.fabric.tool("worker", "--service", "echo", "--id", "w1", "--no-wait", user="echo-w1", check=False)
        self.assertEqual((2, True), (done.returncode, "cannot connect to nats://" in done.stderr), done)
        self.fabric.start_server()
        router.wait_healthy(20)
        self.fabric.wait_known(router, "w1")
        self.assertServed(self.fabric.client().request("echo.request.x", b"q"), "w1")
        self.assertEqual(1, worker.output().count("waiting for"))

    def test_one_that_waits_for_its_server_can_be_stopped(self):
        self.fabric.stop_server()
        worker = self.fabric.worker("w1", "--echo")
        wait_for(lambda: "waiting for nats://" in worker.output(), 5 * SLOW, worker.output)
        self.assertEqual(0, worker.terminate())

    def test_exec_that_fails_is_an_error(self):
        self.start("--exec", "exit 3")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "exit"})
        self.assertEqual("w1", answer.get("Waybill-Worker"))
        self.assertTrue(answer.code >= 500, answer)
        self.assertEqual("error", self.bucket.record("exit")["outcome"])

    def test_capacity(self):
        self.start("--echo", "--capacity", "1", "--delay-ms", "500")
        self.assertEqual(1, self.fabric.known(self.router)["w1"]["capacity"])
        first = self.client.start("echo.request.x", b"1")
        wait_for(lambda: self.router.count("attempts") == 1, 5 * SLOW, "the attempt")
        self.assertError(self.client.request("echo.request.x", b"2"), "overloaded")
        self.assertServed(first.next(), "w1", b"1")

    def test_fail_and_refuse_rates(self):
        self.start("--echo", "--refuse-rate", "1")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "rr"})
        self.assertEqual("overloaded", answer.error)
        self.assertNoRecord("rr")

    def test_fail_rate(self):
        self.start("--echo", "--fail-rate", "1")
        answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "fr"})
        self.assertIsNone(answer.error)
        self.assertTrue(answer.code >= 400)
        self.assertEqual("error", self.bucket.record("fr")["outcome"])

    def test_streams_are_numbered(self):
        listener = self.fabric.client("test")
        seen = listener.subscribe("waybill.reply.>")
        listener.flush()
        self.start("--stream", "5", replies="stream")
        messages = self.client.request_stream("echo.request.x", b"q")
        self.assertEqual(6, len(messages))
        seen.wait_count(6)
        self.assertEqual([str(n) for n in range(1, 7)], [m.get("Waybill-Seq") for m in seen.messages])

    def test_ends_soon_when_nats_is_away(self):
        self.start("--echo")
        self.fabric.stop_server()
        wait_for(lambda: self.router.http("/healthz")[0] != 200, 10 * SLOW, "unready")
        self.worker.terminate(5)
        self.fabric.start_server()

    def test_concurrent_requests(self):
        self.start("--echo", "--delay-ms", "300", "--capacity", "50")
        subs = [self.client.start("echo.request.x", b"%d" % n) for n in range(50)]
        for n, sub in enumerate(subs):
            self.assertServed(sub.next(10 * SLOW), "w1", b"%d" % n)


def daemon(*argv, config=None, folder="/tmp", env=None):
    if config is not None:
        path = os.path.join(folder, "checked-%d-%d.json" % (os.getpid(), threading.get_ident()))
        with open(path, "w") as f:
            f.write(config if isinstance(config, str) else json.dumps(config))
        argv = [*argv, "-c", path]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_")}
    environment.update({"HOME": folder, "XDG_CONFIG_HOME": folder}, **(env or {}))
    done = subprocess.run([program("waybilld"), *argv], capture_output=True, text=True, timeout=20 * SLOW, env=environment, stdin=subprocess.DEVNULL)
    if config is not None:
        os.unlink(path)
    return done


class Config(unittest.TestCase):
    GOOD = {"services": [{"name": "chat", "subjects": ["chat.request.>"]}]}

    def bad(self, config, *words):
        done = daemon("--check", config=config)
        self.assertEqual(1, done.returncode, (config, done.stdout, done.stderr))
        text = done.stdout + done.stderr
        for word in words:
            self.assertIn(word, text)
        return text

    def test_the_contracts_example_with_comments(self):
        text = """{"router":{"id":"router-1","prefix":"waybill","drain_ms":30000,"start_wait_ms":2000,"reply_allow":[]}, // a comment
            /* and another */ "nats":{"url":"nats://127.0.0.1:4222"},
            "attribution":{"bucket":"waybill_attribution","write":"async","ttl_s":3600,"history":2,"replicas":1,"storage":"file"},
            "limits":{"in_flight":65536},
            "services":[{"name":"chat","subjects":["chat.request.>"],"policy":"least_loaded","replies":"stream","disclose":true,
              "retry":{"max_attempts":3,"budget_percent":20,"on_codes":[429,503],"idempotent":false},
              "timeouts":{"first_reply_ms":30000,"inactivity_ms":30000,"total_ms":0},
              "queue":{"limit":0,"wait_ms":5000},
              "workers":[{"id":"legacy","subject":"chat.legacy"}]}],
            "monitor":{"listen":"127.0.0.1:8090"}}"""
        done = daemon("--check", config=text)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_all_errors_at_once_with_their_paths(self):
        text = self.bad({"router": {"id": "a b", "drain_ms": "x", "nonsense": 1},
                         "services": [{"name": "a.b", "subjects": [], "policy": "best"},
                                      {"name": "ok", "subjects": ["x.>"], "timeouts": {"first_reply_ms": 0}}]},
                        "router.id", "router.drain_ms", "router.nonsense", "policy", "first_reply_ms")
        self.assertGreaterEqual(len([line for line in text.splitlines() if "services[" in line or "router." in line]), 6, text)

    def test_overlaps(self):
        def two(a, b):
            return {"services": [{"name": "one", "subjects": a}, {"name": "two", "subjects": b}]}
        for config in (two(["x.>"], ["x.y"]), two(["x.*"], ["*.y"]), two(["a"], ["a"]),
                       {"services": [{"name": "a", "subjects": ["waybill.worker.x"]}]}, {"services": [{"name": "a", "subjects": [">"]}]},
                       {"services": [{"name": "a", "subjects": ["*.request"]}]}, {"services": [{"name": "a", "subjects": ["$JS.API.>"]}]},
                       {"services": [{"name": "a", "subjects": ["_INBOX.x"]}]},
                       {"services": [{"name": "chat", "subjects": ["chat.>"], "workers": [{"id": "legacy", "subject": "chat.legacy"}]}]}):
            self.bad(config)
        self.assertEqual(0, daemon("--check", config=two(["x.a.>"], ["x.b.>"])).returncode)

    def test_broken_files(self):
        for text in ("", "{", "[]", "null", '{"services":}', '{"services":[]}', "{}", "\x00\x01", '{"services":[{"name":"a"}]}'):
            self.bad(text)
        self.assertEqual(1, daemon("--check", "-c", "/nowhere/file.json").returncode)

    def test_what_is_not_built_is_refused_at_the_start(self):
        for extra in ({"on_interrupt": "resume"}, {"slow_start_ms": 10}, {"eject": {"errors": 3}}):
            config = {"services": [{**self.GOOD["services"][0], **extra}], "nats": {"url": "nats://127.0.0.1:%d" % free_port()}}
            self.assertEqual(0, daemon("--check", config=config).returncode, extra)
            done = daemon(config=config)
            self.assertEqual(1, done.returncode, (extra, done.stdout, done.stderr))
            self.assertIn(next(iter(extra)), done.stderr)

    def test_usage(self):
        for argv in (("--nonsense",), ("-c",), (), ("--service", "a")):
            done = daemon(*argv)
            self.assertEqual(1, done.returncode, (argv, done.stderr))
            self.assertTrue(done.stderr)
        self.assertEqual(0, daemon("--help").returncode)
        self.assertEqual(0, daemon("--version").returncode)

    def test_show_config_tells_where_values_come_from(self):
        config = {**self.GOOD, "router": {"id": "from-file"}, "nats": {"url": "nats://file:4222"}}
        done = daemon("--show-config", config=config, env={"NATS_URL": "nats://env:4222", "NATS_PASSWORD": "hush"})
        self.assertEqual(0, done.returncode, done.stderr)
        lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        text = done.stdout
        self.assertIn("from-file", text)
        self.assertIn("nats://env:4222", text)
        self.assertNotIn("nats://file:4222", text)
        self.assertNotIn("hush", text)
        for word in ("file", "environment", "default"):
            self.assertIn(word, text, lines)

    def test_show_config_tells_each_services_sessions(self):
        config = {"sessions": {"bucket": "mine"}, "services": [
            {"name": "a", "subjects": ["a.>"], "session": {"ttl_s": 60, "mode": "soft"}},
            {"name": "b", "subjects": ["b.>"], "session": {"ttl_s": 31536000, "on_busy": "fail"}},
            {"name": "c", "subjects": ["c.>"]}]}
        done = daemon("--show-config", config=config)
        self.assertEqual(0, done.returncode, done.stderr)
        for line in ('sessions.bucket = "mine"  (file)', "services[0].session.ttl_s = 60  (file)", 'services[0].session.mode = "soft"  (file)',
                     'services[0].session.on_busy = "wait"  (default)', "services[1].session.ttl_s = 31536000  (file)",
                     'services[1].session.mode = "hard"  (default)', 'services[1].session.on_busy = "fail"  (file)', "limits.sessions = 65536  (default)"):
            self.assertIn(line, done.stdout.splitlines())

    def test_one_bucket_cannot_hold_records_and_sessions(self):
        for config in ({**self.GOOD, "sessions": {"bucket": "waybill_attribution"}}, {**self.GOOD, "attribution": {"bucket": "waybill_sessions"}},
                       {**self.GOOD, "attribution": {"bucket": "b"}, "sessions": {"bucket": "b"}}):
            done = daemon("--check", config=config)
            self.assertEqual(1, done.returncode, config)
            self.assertRegex(done.stderr, r"sessions\.bucket: is attribution\.bucket \(\w+\) too, expected another bucket")

    def test_precedence_of_flags(self):
        config = {**self.GOOD, "nats": {"url": "nats://file:4222"}}
        done = daemon("--show-config", "-s", "nats://flag:4222", config=config, env={"NATS_URL": "nats://env:4222"})
        self.assertIn("nats://flag:4222", done.stdout)

    def test_nats_contexts(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "nats", "context"))
            with open(os.path.join(folder, "nats", "context", "mine.json"), "w") as f:
                json.dump({"url": "nats://context:4222", "user": "ctx", "password": "pw"}, f)
            done = daemon("--show-config", config=self.GOOD, folder=folder, env={"NATS_CONTEXT": "mine"})
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("nats://context:4222", done.stdout)
            self.assertNotIn('"pw"', done.stdout)

    def test_monitor_address_taken(self):
        import socket
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            config = {**self.GOOD, "monitor": {"listen": "127.0.0.1:%d" % s.getsockname()[1]}}
            done = daemon(config=config)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertTrue(done.stderr)


class WithoutFile(Case):
    def test_service_and_subject_on_the_command_line(self):
        monitor = free_port()
        process = Process(self.fabric, "router-1", [program("waybilld"), "--service", "echo", "--subject", "echo.request.>", "--id", "router-1",
                                                    "--monitor", "127.0.0.1:%d" % monitor], self.fabric.env("router-1"))
        self.fabric.raw_worker("w1", serve)
        client = self.fabric.client()

        def served():
            self.assertTrue(process.running, process.tail())
            return client.request("echo.request.x", b"q", bound=5 * SLOW).get("Waybill-Worker") == "w1"
        wait_for(served, 10 * SLOW, "an answer")

    def test_default_router_id(self):
        process = Process(self.fabric, "router", [program("waybilld"), "--service", "echo", "--subject", "echo.request.>"], self.fabric.env("test"))
        operator = self.fabric.client("operator")
        ids = []

        def named():
            self.assertTrue(process.running, process.tail())
            answer = operator.request("waybill.admin.show.stats", b"{}")
            if answer.status == 503:
                return False
            ids.append(answer.json()["router"])
            return True
        wait_for(named, 10 * SLOW, "the router's name")
        self.assertRegex(ids[0], r"^[A-Za-z0-9_-]{1,59}-[A-Za-z0-9_-]{4}$")


class Demo(unittest.TestCase):
    def test_demo(self):
        """The demo, as shipped, with the programs and the server under test."""
        environment = dict(os.environ, WAYBILL_BIN=os.path.abspath(cluster.bin_dir()))
        environment["PATH"] = os.path.dirname(cluster.server_binary()) + ":" + environment["PATH"]
        done = subprocess.run([os.path.join(cluster.ROOT, "deploy", "demo.sh")], capture_output=True, text=True, timeout=60 * SLOW,
                              stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        served = re.findall(r"served by: (.*)", done.stdout)
        self.assertEqual(2, len(served), done.stdout)
        self.assertEqual({"w1", "w2", "w3"}, set(served[0].split()))
        self.assertEqual({"w1", "w3"}, set(served[1].split()))
        self.assertEqual((20, 10), (len(served[0].split()), len(served[1].split())))


if __name__ == "__main__":
    unittest.main()
