#!/usr/bin/python3
"""Builds the image of deploy/compose and runs both of its projects on the Docker engine of this machine, if there is one.

    run.py [--only PATTERN] [--summary FILE]

The books are the clients' own lines (deploy/compose/client) and the bucket. A request is lost if nobody answered it, not even with an error; that
may happen only to those that were open on what was killed or cut off, while nobody could know it yet. They are counted and printed.
All that is started is removed: it bears the project names waybill-test-*. Ends with `N passed, N failed, N skipped`."""
import argparse
import fnmatch
import json
import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import engine  # noqa: E402
from support.compose import NEVER_SERVED, Project, tally  # noqa: E402
from support.waiting import wait_for  # noqa: E402

IMAGE = engine.OWN + "waybill:latest"
BASE_ALLOWANCE = 45_000_000
PREPARE_BOUND_S, TESTS_BOUND_S = 600, 300
AWAY = re.compile(r"Failed to fetch|Could not resolve|Temporary failure resolving|Could not connect")  # apt, when the mirror does not answer
CLOSED_AT_ONCE_S = 2.0  # a process that ended: its servers see the connection close, the others hear of it
CUT_S = 10.0            # a server that was cut off: two pings of 2 s, and the same again for who stands behind it
UNWRITTEN_S = 2.0       # how long before a router's death an answer's record may still have been in its hands


def say(text):
    print("  " + text, flush=True)


class Books(unittest.TestCase):
    """One project for the class, brought up by its `try`; what is asserted about the clients' lines."""
    maxDiff = None
    folder = None

    @classmethod
    def setUpClass(cls):
        cls.project = Project(cls.folder, COMMAND, IMAGE)
        cls.project.remove()
        cls.addClassCleanup(cls.project.remove)
        cls.shown = cls.project.try_it(bound=170)

    def assertBooks(self, lines, faults=(), router_deaths=()):
        """faults: (what, when it began, for how long nobody could know). Every line is an answer, a named error, or open on a fault."""
        lost = [line for line in lines if line.kind == "lost"]
        excused = {what: [line for line in lost if line.began <= at + blind and line.ended >= at] for what, at, blind in faults}
        unexcused = [line for line in lost if not any(line in lines_of for lines_of in excused.values())]
        say("%d requests: %r" % (len(lines), tally(lines)))
        for what, lines_of in excused.items():
            say("%s: %d lost that were open there" % (what, len(lines_of)))
        self.assertEqual([], unexcused, "lost without a named error, open on nothing that was killed")
        self.assertEqual([], [line for line in lines if line.kind == "error" and line.what in ("", "unknown", "internal")])

        served = {line.id: line for line in lines if line.kind == "served"}
        unwritten = {one for one, line in served.items() if any(at - UNWRITTEN_S <= line.ended <= at + UNWRITTEN_S for at in router_deaths)}

        def written():
            self.records = self.project.records(served)
            return all(self.records[one] is not None for one in served if one not in unwritten)
        wait_for(written, 40, lambda: "the records of %r" % [served[one] for one in served if self.records[one] is None])
        missing = [one for one in served if self.records[one] is None]
        wrong = {one: (line.what, self.records[one]) for one, line in served.items()
                 if self.records[one] is not None and self.records[one]["worker"] != line.what}
        self.assertEqual({}, wrong, "the record names another worker than the answer did")
        say("%d records, each names the worker that answered; %d died with a router" % (len(served) - len(missing), len(missing)))
        never = [line.id for line in lines if line.kind == "error" and line.what in NEVER_SERVED]
        self.assertEqual({}, {one: record for one, record in self.project.records(never).items() if record is not None},
                         "a record of a request that nobody answered")


class Image(unittest.TestCase):
    def test_is_small(self):
        size, base = (engine.inspect(name)["Size"] for name in (IMAGE, engine.DEBIAN))
        say("the image has %.1f MB, %.1f MB above its base" % (size / 1e6, (size - base) / 1e6))
        self.assertLessEqual(size - base, BASE_ALLOWANCE)

    def test_runs_as_nobody_special_and_ends_by_sigterm(self):
        config = engine.inspect(IMAGE)["Config"]
        self.assertEqual("waybill", config["User"])
        self.assertEqual("SIGTERM", config["StopSignal"])
        self.assertIn("waybill-health", config["Healthcheck"]["Test"])
        shown = engine.docker("run", "--rm", "--network", "none", IMAGE, "bash", "-c", "id -u; waybilld --version; waybill --version").stdout
        self.assertEqual("10001", shown.split()[0])
        self.assertEqual(2, shown.count("waybill"), shown)

    def test_health_is_that_of_the_router(self):
        """Without a server the router waits: alive, but not healthy."""
        done = engine.docker("run", "--rm", "--network", "none", IMAGE, "bash", "-c",
                             "waybilld --service a --subject a.b --monitor 127.0.0.1:8090 2>/dev/null & "
                             "for i in $(seq 100); do said=$(waybill-health 8090 2>/dev/null); code=$?; [ -n \"$said\" ] && break; sleep 0.1; done; "
                             "echo \"$said exit $code\"")
        self.assertEqual("healthz 503 exit 1", done.stdout.strip())


class Single(Books):
    folder = "single"

    def test_a_try_shows_what_matters(self):
        for part in ("served by w1", "served by w2", "served by legacy", '{"worker":"', "No request was lost, none failed."):
            self.assertIn(part, self.shown)

    def test_b_a_thousand_requests_while_workers_are_killed(self):
        self.project.clients(4)
        began, kills = time.time(), 0
        lines = []
        while len(lines) < 1000 or kills < 6:
            for victim in ("w1", "legacy", "w2"):
                self.project.kill(victim)
                kills += 1
                self.project.wait_served(20, since=time.time(), bound=30)
                self.project.start(victim)
                self.project.wait_served(20, since=time.time(), bound=30)
            lines = [line for line in self.project.lines() if line.began > began]
        say("%d kills of workers" % kills)
        self.assertBooks(lines)
        self.assertGreaterEqual(sum(line.kind == "served" for line in lines), 1000 - kills)
        self.assertEqual({"w1", "w2", "legacy"}, {line.what for line in lines if line.kind == "served"})

    def test_c_nobody_oversteps_the_permissions(self):
        for user, subjects in (("client", ["$KV.waybill_attribution.chat.forged", "waybill.reply.chat.w1.router-1.x", "waybill.admin.do.cancel"]),
                               ("w1", ["waybill.heartbeat.chat.w2", "waybill.reply.chat.w2.router-1.x", "chat.request.x"]),
                               ("legacy", ["waybill.heartbeat.chat.legacy", "waybill.reply.chat.w1.router-1.x"]),
                               ("operator", ["$KV.waybill_attribution.chat.forged", "$JS.API.STREAM.DELETE.KV_waybill_attribution"])):
            client = self.project.connect(user)
            for subject in subjects:
                client.publish(subject, b"x")
            client.flush()
            self.assertEqual(len(subjects), sum("Permissions Violation for Publish" in error for error in client.errors), client.errors)
            client.close()

    def test_d_stops_in_order(self):
        self.project("stop")
        self.assertEqual({}, {name: codes for name in ("router", "w1", "w2", "client") for codes in [self.project.exit_codes(name)] if set(codes) != {0}})


class Clustered(Books):
    folder = "clustered"

    def test_a_try_shows_what_matters(self):
        for part in ("served by w1", "served by w2", "served by w3", "served by w4", '{"worker":"'):
            self.assertIn(part, self.shown)

    def test_b_faults_under_load(self):
        project = self.project
        project("start")  # what `try` has killed
        for router in ("router-1", "router-2"):
            project.wait_healthy(router)
        project.clients(6)
        info = project.bucket()
        self.assertEqual(3, info["config"]["num_replicas"])
        leader = info["cluster"]["leader"]
        began = time.time()
        project.wait_served(60, since=began)

        stopped = time.time()
        project.stop(leader)
        project.wait_served(60, since=time.time())
        project.start(leader)
        project.wait_served(60, since=time.time())

        other = next(name for name in ("nats-2", "nats-3") if name != leader)
        cut = time.time()
        engine.docker("network", "disconnect", project.network("routes"), project.container(other))
        project.wait_served(60, since=cut + CUT_S)
        engine.docker("network", "connect", "--alias", "route-" + other[-1], project.network("routes"), project.container(other))
        project.wait_served(60, since=time.time())

        killed = time.time()
        project.kill("router-2")
        project.wait_served(60, since=time.time())
        project.start("router-2")
        project.wait_healthy("router-2")
        project.wait_served(60, since=time.time())

        self.assertBooks([line for line in project.lines() if line.began > began],
                         [("%s, the bucket's leader, stopped" % leader, stopped, CLOSED_AT_ONCE_S), ("%s cut off" % other, cut, CUT_S),
                          ("router-2 killed", killed, CLOSED_AT_ONCE_S)], [killed])


class Collector(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def bounded(seconds, what):
    def late(number, frame):
        raise TimeoutError("%s took more than %d s" % (what, seconds))
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)


def build_image():
    """As a user builds it. The toolchain's layer is kept under a name, what else the build leaves is removed."""
    project, before, began = Project("single", COMMAND, IMAGE), engine.dangling(), time.monotonic()
    env = dict(os.environ, DOCKER_BUILDKIT="0")
    try:
        engine.docker("build", "--target", "toolchain", "-t", engine.OWN + "toolchain", "-f", "deploy/compose/Dockerfile", ".",
                      bound=PREPARE_BOUND_S, env=env, cwd=engine.servers.ROOT)
        project("build", "router", bound=PREPARE_BOUND_S)
    except AssertionError as e:
        away = AWAY.search(str(e))
        if not away:
            raise
        raise engine.Unavailable("Debian's mirror is away: %s" % away.group(0))
    say("built in %.0f s" % (time.monotonic() - began))
    return before


def run_tests(only):
    loader, suite = unittest.defaultTestLoader, unittest.TestSuite()
    for cls in (Image, Single, Clustered):
        for name in loader.getTestCaseNames(cls):
            if not only or fnmatch.fnmatch("containers.%s.%s" % (cls.__name__, name), "*%s*" % only):
                suite.addTest(cls(name))
    result = None
    if suite.countTestCases():
        with engine.images(say):
            before = set()
            try:
                bounded(PREPARE_BOUND_S, "building")
                before = build_image()
                bounded(TESTS_BOUND_S, "testing")
                began = time.monotonic()
                result = unittest.TextTestRunner(resultclass=Collector, verbosity=2, stream=sys.stdout).run(suite)
                say("ran for %.0f s" % (time.monotonic() - began))
            finally:
                signal.alarm(0)
                engine.docker("rmi", IMAGE, check=False)
                engine.docker("rmi", *(engine.dangling() - before or ["none"]), check=False)
    return result


def main():
    global COMMAND
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="tests whose containers.class.name holds this (wildcards allowed)")
    parser.add_argument("--summary", help="write passed, failed and skipped into this file as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that what runs is removed
    passed, failed, skipped = 0, [], 0
    try:
        COMMAND = engine.compose_command()
        result = run_tests(options.only)
        if result is not None:
            passed, failed = result.passed, [str(test) for test, _ in result.failures + result.errors]
    except engine.Unavailable as why:
        skipped = 1
        print("skipped: containers: %s" % why)
    except (AssertionError, TimeoutError) as e:
        failed = ["containers: %s" % e]
    for one in failed:
        print("failed: " + one)
    if options.summary:
        with open(options.summary, "w") as f:
            json.dump({"passed": passed, "failed": len(failed), "skipped": skipped}, f)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), skipped))
    return 1 if failed else 0


COMMAND = None

if __name__ == "__main__":
    sys.exit(main())
