"""The tool in an operator's hands: sessions and workers, with one router and with two."""
import base64
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import unittest

from case import SLOW, Case, hold, wait_for
from support.cluster import PREFIX, SESSIONS, program

FINE, USAGE, NO_LINK, NOTHING, ERROR = 0, 1, 2, 3, 4
HOSTILE = ('"', "\\", '\\"', '"}', "a'b", "$(id)", "`id`", "%s%n", "{}", "--json", "s.*.>", "*", ">", "..", "!~", "\\u0000", '","session":"other', "x" * 256, '"' * 256)


def named(attempt):
    attempt.answer(attempt.worker.id.encode())


class Operators(Case):
    """`ask` goes through all routers that there are: each has a subject of its own."""

    fabric_options = {"services": {"echo": ["echo.r1.>", "echo.r2.>"]}, "routers": ("router-1", "router-2")}

    def begin(self, *handlers, routers=1, session=None, heartbeat=None, **service):
        self.bucket = self.fabric.watch()
        keys = {"policy": "round_robin", "session": {"ttl_s": 60, **(session or {})}, **service}
        self.routers = [self.fabric.router("router-%d" % n, services=[{"name": "echo", "subjects": ["echo.r%d.>" % n], **keys}])
                        for n in range(1, routers + 1)]
        self.router = self.routers[0]
        self.workers = [self.fabric.raw_worker("w%d" % n, handler, known_to=self.routers, **(heartbeat or {}))
                        for n, handler in enumerate(handlers or (named, named, named), 1)]
        self.client, self.test = self.fabric.client(), self.fabric.client("test")
        for n in range(1, routers + 1):
            wait_for(lambda: self.shown("sessions", n)["shared"], 10 * SLOW, "shared sessions")

    def shown(self, what, router=1, **body):
        self.fabric.operator = self.fabric.operator or self.fabric.client("operator")
        return self.fabric.operator.request("%s.admin.show.%s.router-%d" % (PREFIX, what, router), json.dumps(body).encode()).json()

    def ask(self, session="s", router=1, **headers):
        return self.client.request("echo.r%d.x" % router, b"q", {"Waybill-Session": session, **headers}, 10 * SLOW)

    def key(self, session):
        return "$KV.%s.echo.%s" % (SESSIONS, "".join(c if c.isalnum() or c in "_-" else "=%02X" % ord(c) for c in session))

    def held(self, session="s"):
        """What the bucket holds under the session's key; None: nothing."""
        answer = self.test.request("$JS.API.STREAM.MSG.GET.KV_" + SESSIONS, json.dumps({"last_by_subj": self.key(session)}).encode()).json()
        data = base64.b64decode(answer.get("message", {}).get("data", ""))
        return json.loads(data) if data else None

    def bind(self, session="s", router=1, everywhere=True):
        """The worker that it is bound to, in the bucket and as all routers know it."""
        worker = self.ask(session, router).get("Waybill-Worker")
        wait_for(lambda: (self.held(session) or {}).get("worker") == worker, 10 * SLOW, lambda: "a binding, not %r" % self.held(session))
        for n in range(1, len(self.routers) + 1):
            wait_for(lambda: [s["worker"] for s in self.shown("sessions", n, service="echo", session=session)["sessions"]] == [worker],
                     10 * SLOW, "router-%d to know the binding" % n)
        return worker

    def tool(self, *argv, code=FINE, user="operator", env=None):
        done = self.fabric.tool(*argv, user=user, check=False, env=env)
        self.assertEqual(code, done.returncode, (argv, done.stdout, done.stderr))
        return done

    def sessions(self, *argv, code=FINE, **options):
        return self.tool("sessions", *argv, code=code, **options)

    def json(self, *argv, code=FINE):
        return json.loads(self.tool(*argv, "--json", code=code).stdout)


class OneRouter(Operators):
    def test_list(self):
        self.begin()
        bound = {session: self.bind(session) for session in ("alpha", "beta", "gamma-with-a-longer-name")}
        for argv in (("list",), (), ("list", "--service", "echo"), ("list", "--router", "router-1")):
            lines = self.sessions(*argv).stdout.splitlines()
            self.assertEqual("router router-1: holds 3 sessions, shared with other routers", lines[0])
            self.assertEqual(["SESSION", "SERVICE", "STATE", "WORKER", "RANK", "USERS", "WAITING", "IDLE"], lines[1].split())
            self.assertEqual({(s, "echo", "bound", w, "-", "0", "0") for s, w in bound.items()}, {tuple(line.split()[:7]) for line in lines[2:]})
            self.assertEqual([], [line for line in lines if line != line.rstrip()])
            self.assertEqual(1, len({len(line) for line in lines[1:]}))
        reply, = self.json("sessions", "list")
        self.assertEqual(bound, {s["session"]: s["worker"] for s in reply["sessions"]})
        self.assertEqual([], self.json("sessions", "list", "--service", "other")[0]["sessions"])

    def test_show(self):
        self.begin(heartbeat={"ranks": 3})
        self.bind("s-0")
        self.assertEqual("w2", self.ask("s-1", **{"Waybill-Target": "w2/1"}).get("Waybill-Worker"))
        lines = self.sessions("show", "s-1", "--service", "echo").stdout.splitlines()
        self.assertEqual("session s-1 of echo", lines[0])
        self.assertEqual(["ROUTER", "STATE", "WORKER", "RANK", "USERS", "WAITING", "IDLE", "REVISION"], lines[1].split())
        self.assertEqual(["router-1", "bound", "w2", "1", "0", "0"], lines[2].split()[:6])
        self.assertEqual(3, len(lines))
        found, = self.json("sessions", "show", "s-1", "--service", "echo")[0]["sessions"]
        self.assertEqual(("s-1", "w2", 1), tuple(found[k] for k in ("session", "worker", "rank")))

    def test_who_uses_a_session_and_who_waits_for_it(self):
        self.begin(hold, hold, session={"wait_ms": 60000})
        for n in range(3):
            self.client.publish("echo.r1.x", b"q", "_INBOX.a%d" % n, [("Waybill-Session", "s")])
        wait_for(lambda: sum(s["waiters"] for s in self.shown("sessions")["sessions"]) == 2, 10 * SLOW, "two waiters")
        line = self.sessions("show", "s", "--service", "echo").stdout.splitlines()[2]
        self.assertEqual(["router-1", "owned", "-", "-", "0", "2", "-"], line.split()[:7])

    def test_unbind_takes_the_key_out_of_the_bucket_and_the_next_request_is_free_to_go_elsewhere(self):
        self.begin()
        first = self.bind("s")
        done = self.sessions("unbind", "s", "--service", "echo")
        self.assertEqual("router router-1: unbound\n", done.stdout)
        wait_for(lambda: self.held("s") is None, 10 * SLOW, lambda: "no binding, not %r" % self.held("s"))
        self.assertNotEqual(first, self.bind("s"))  # by round robin
        self.assertEqual([{"router": "router-1", "unbound": True}], self.json("sessions", "unbind", "s", "--service", "echo"))

    def test_unbind_leaves_requests_under_way_alone(self):
        self.begin(hold, hold)
        sub = self.client.start("echo.r1.x", b"1", {"Waybill-Session": "s"})
        wait_for(lambda: sum(len(w.attempts) for w in self.workers) == 1, 10 * SLOW, "the attempt")
        self.sessions("unbind", "s", "--service", "echo", code=NOTHING)  # not bound yet
        attempt = [a for w in self.workers for a in w.attempts][0]
        attempt.answer(b"yes")
        self.assertServed(sub.next(10 * SLOW), attempt.worker.id, b"yes")

    def test_no_such_session(self):
        self.begin()
        self.bind("s")
        done = self.sessions("show", "t", "--service", "echo", code=NOTHING)
        self.assertIn("no router has a session t of echo", done.stderr)
        self.assertEqual("", done.stdout)
        self.assertEqual([], self.json("sessions", "show", "t", "--service", "echo", code=NOTHING)[0]["sessions"])
        done = self.sessions("unbind", "t", "--service", "echo", code=NOTHING)
        self.assertIn("no router knew a binding of t", done.stderr)
        self.assertEqual("router router-1: was not bound, as far as it knew\n", done.stdout)
        self.sessions("unbind", "s", "--service", "other", code=NOTHING)
        self.assertIsNotNone(self.held("s"))

    def test_hostile_names_are_found_and_unbound_as_they_are(self):
        self.begin()
        bound = {name: self.bind(name) for name in HOSTILE}
        listed, = self.json("sessions", "list")
        self.assertEqual(bound, {s["session"]: s["worker"] for s in listed["sessions"]})
        plain = self.sessions("list").stdout
        for name, worker in bound.items():
            self.assertIn("  %s " % name, plain)
            found, = json.loads(self.sessions("--service", "echo", "--router", "router-1", "--json", "--", "show", name).stdout)[0]["sessions"]
            self.assertEqual((name, worker), (found["session"], found["worker"]))
        for name in HOSTILE:
            self.sessions("--service", "echo", "--router", "router-1", "--", "unbind", name)
            wait_for(lambda: self.held(name) is None, 10 * SLOW, "no binding of " + name)
            left = self.json("sessions", "list", "--router", "router-1")[0]["sessions"]
            del bound[name]
            self.assertEqual(bound, {s["session"]: s["worker"] for s in left})

    def test_usage(self):
        self.begin()
        for argv in (("show",), ("show", "s"), ("unbind", "s"), ("list", "s"), ("nonsense",), ("show", "s", "t", "--service", "echo"),
                     ("show", "a b", "--service", "echo"), ("show", "", "--service", "echo"), ("show", "\u00e9", "--service", "echo"),
                     ("unbind", "x" * 257, "--service", "echo"), ("show", "s", "--service", "a.b"), ("list", "--service", ">"),
                     ("list", "--router", "a.*"), ("list", "--timeout", "0")):
            done = self.sessions(*argv, code=USAGE)
            self.assertTrue(done.stderr, argv)
            self.assertEqual("", done.stdout, argv)
        said = self.sessions("--help").stdout
        for word in ("list", "show", "unbind", "--service", "--router", "--json"):
            self.assertIn(word, said)

    def test_without_the_right_to_steer_nothing_is_unbound(self):
        self.begin()
        self.bind("s")
        self.sessions("unbind", "s", "--service", "echo", code=NOTHING, user="client")
        self.assertIsNotNone(self.held("s"))

    def test_a_service_without_sessions_has_none(self):
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[{"name": "echo", "subjects": ["echo.r1.>"]}])
        self.assertEqual("router router-1: holds 0 sessions, shared with nobody\n", self.sessions().stdout)
        self.sessions("show", "s", "--service", "echo", code=NOTHING)
        self.sessions("unbind", "s", "--service", "echo", code=NOTHING)

    def test_on_a_terminal_a_line_fits_and_in_a_pipe_nothing_is_cut(self):
        self.begin()
        self.bind("n" * 256)
        self.assertIn(" %s " % ("n" * 256), self.sessions().stdout)
        lines = self.on_terminal(80, "sessions").splitlines()
        self.assertLessEqual(max(len(line) for line in lines), 80)
        self.assertIn("nnn...  echo", lines[2])
        self.assertEqual(1, len({len(line) for line in lines[1:]}))

    def on_terminal(self, columns, *argv):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("NATS_")}, **self.fabric.env("operator"), "HOME": self.fabric.dir, "NO_COLOR": "1"}
        with open(master, "rb", buffering=0) as out:
            process = subprocess.Popen([program("waybill"), *argv], stdout=slave, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
            os.close(slave)
            text = b""
            try:
                while piece := out.read(4096):
                    text += piece
            except OSError:
                pass  # the other end is closed
        self.assertEqual((b"", FINE), (process.communicate(timeout=20 * SLOW)[1], process.returncode))
        return text.decode().replace("\r\n", "\n")


class NoRouter(Operators):
    def test_no_router(self):
        for argv in (("list",), ("show", "s", "--service", "echo"), ("unbind", "s", "--service", "echo"), ("list", "--router", "router-2")):
            done = self.sessions(*argv, code=NOTHING)
            self.assertIn("no router answered", done.stderr)
            self.assertEqual("", done.stdout)
            self.assertEqual([], self.json("sessions", *argv, code=NOTHING))

    def test_no_server(self):
        self.fabric.stop_server()
        self.assertIn("cannot connect", self.sessions("list", code=NO_LINK).stderr)
        self.fabric.start_server()


class TwoRouters(Operators):
    def test_each_says_what_it_knows(self):
        self.begin(routers=2)
        bound = {session: self.bind(session, router) for session, router in (("a", 1), ("b", 2))}
        said = self.sessions("list").stdout
        for router in ("router-1", "router-2"):
            self.assertIn("router %s: holds 2 sessions, shared with other routers" % router, said)
        replies = {reply["router"]: reply for reply in self.json("sessions", "list")}
        for router in ("router-1", "router-2"):
            self.assertEqual(bound, {s["session"]: s["worker"] for s in replies[router]["sessions"]})
        lines = self.sessions("show", "b", "--service", "echo").stdout.splitlines()
        self.assertEqual({("router-1", "bound", bound["b"]), ("router-2", "bound", bound["b"])}, {tuple(line.split()[:3]) for line in lines[2:]})
        lines = self.sessions("show", "b", "--service", "echo", "--router", "router-2").stdout.splitlines()
        self.assertEqual(["router-2"], [line.split()[0] for line in lines[2:]])

    def test_unbind_is_heard_by_both(self):
        self.begin(routers=2)
        first = self.bind("s")
        replies = {reply["router"]: reply["unbound"] for reply in self.json("sessions", "unbind", "s", "--service", "echo")}
        self.assertEqual({"router-1", "router-2"}, set(replies))
        self.assertIn(True, replies.values())
        for n in (1, 2):
            wait_for(lambda: self.shown("sessions", n)["sessions"] == [], 10 * SLOW, "no session on router-%d" % n)
        self.assertIsNone(self.held("s"))
        self.ask("other", router=2)
        self.assertNotEqual(first, self.ask("s", router=2).get("Waybill-Worker"))

    def test_unbind_through_one_reaches_the_other(self):
        self.begin(routers=2)
        self.bind("s")
        done = self.sessions("unbind", "s", "--service", "echo", "--router", "router-2")
        self.assertEqual("router router-2: unbound\n", done.stdout)
        for n in (1, 2):
            wait_for(lambda: self.shown("sessions", n)["sessions"] == [], 10 * SLOW, "no session on router-%d" % n)
        self.assertIsNone(self.held("s"))

    def test_one_that_did_not_know_it_is_no_error_if_another_did(self):
        self.begin()
        self.fabric.router("router-2", services=[{"name": "echo", "subjects": ["echo.r2.>"]}])  # without sessions
        self.bind("s")
        done = self.sessions("unbind", "s", "--service", "echo")
        self.assertEqual({"router router-1: unbound", "router router-2: was not bound, as far as it knew"}, set(done.stdout.splitlines()))
        self.assertEqual("", done.stderr)


class Workers(Operators):
    COLUMNS = ["WORKER", "STATE", "STANDING", "LOAD", "OTHERS", "CAPACITY", "WEIGHT", "CLASS", "RANKS", "BINDINGS", "SERVED", "REFUSED", "FAILED",
               "HEARD", "AGO", "ADAPTERS"]

    def row(self, worker, *options):
        lines = self.tool("workers", *options).stdout.splitlines()
        self.assertIn(self.COLUMNS, [line.split() for line in lines])
        row, = (line.split() for line in lines if line.split()[0] == worker)
        return dict(zip(self.COLUMNS[:13], row)), row[-1]

    def test_ranks_bindings_and_adapters(self):
        self.begin(named, heartbeat={"ranks": 2, "adapters": ["fr", "de"], "class": "gpu", "capacity": 4})
        for n in range(3):
            self.bind("s%d" % n)
        shown, adapters = self.row("w1")
        self.assertEqual(("2", "3", "gpu", "4", "3"), tuple(shown[k] for k in ("RANKS", "BINDINGS", "CLASS", "CAPACITY", "SERVED")))
        self.assertEqual("de,fr", adapters)
        self.assertEqual(3, self.shown("workers")["services"][0]["workers"][0]["bindings"])
        self.sessions("unbind", "s0", "--service", "echo")
        self.assertEqual("2", self.row("w1")[0]["BINDINGS"])

    def test_bindings_follow_their_sessions(self):
        self.begin(routers=2)
        bound = [self.bind("s%d" % n, 1 + n % 2) for n in range(12)]
        for n in (1, 2):
            counted = {w["id"]: w["bindings"] for w in self.shown("workers", n)["services"][0]["workers"]}
            self.assertEqual({w: bound.count(w) for w in ("w1", "w2", "w3")}, counted)

    def test_many_adapters_are_counted_rather_than_shown(self):
        self.begin(named, heartbeat={"adapters": ["a-%d" % n for n in range(100)]})
        self.assertEqual("a-0,a-1,a-10,a-11,a-12,a-13,a-14,a-15,+92", self.row("w1")[1])
        self.assertEqual(100, len(self.json("workers")[0]["services"][0]["workers"][0]["adapters"]))

    def test_a_long_adapter_is_cut(self):
        self.begin(named, heartbeat={"adapters": ["l" * 256, "m"]})
        self.assertEqual("l" * 36 + "...,+1", self.row("w1")[1])

    def test_each_adapters_numbers(self):
        self.begin(named, named, heartbeat={"adapters": ["fr"]})
        self.client.request("echo.r1.x", b"q", {"Waybill-Adapter": "fr"})
        self.assertNotIn("ADAPTER ", self.tool("workers").stdout)
        lines = [line.split() for line in self.tool("workers", "--adapters").stdout.splitlines()]
        self.assertIn(["ADAPTER", "HOLDERS", "ROUTABLE", "FREE", "IN", "FLIGHT", "ARRIVALS", "REQUESTS"], lines)
        self.assertIn(["fr", "2", "2", "2", "0", "1", "1"], lines)

    def test_a_worker_without_any_of_it(self):
        self.begin(named)
        shown, adapters = self.row("w1")
        self.assertEqual(("0", "0", "-"), (shown["RANKS"], shown["BINDINGS"], adapters))


if __name__ == "__main__":
    unittest.main()
