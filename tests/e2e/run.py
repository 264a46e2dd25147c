#!/usr/bin/python3
"""Runs the end-to-end tests: every module of this folder, on every nats-server found, twice as many classes at a time as there are cores.

    run.py [--server PATH]... [--bin DIR] [--jobs N] [--slow] [--only PATTERN] [--summary FILE] [--list]

Each class runs in a process of its own, in its own session, with a bound on its time: whatever a broken test leaves behind is ended with it.
Ends with `N passed, N failed, N skipped`; a failure is printed in full, a skip with its reason."""
import argparse
import concurrent.futures
import fnmatch
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.dirname(HERE))

from support import servers  # noqa: E402

CLASS_BOUND_S = 240


def classes():
    for name in sorted(os.listdir(HERE)):
        if name.startswith("test_") and name.endswith(".py"):
            module = importlib.import_module(name[:-3])
            for attribute in sorted(vars(module)):
                value = getattr(module, attribute)
                if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
                    tests = unittest.defaultTestLoader.getTestCaseNames(value)
                    if tests:
                        yield module.__name__, attribute, tests


def selected(module, name, tests, only):
    if not only:
        return tests
    return [t for t in tests if fnmatch.fnmatch("%s.%s.%s" % (module, name, t), "*%s*" % only)]


class Collector(unittest.TextTestResult):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test.id())


def run_child(module, name, tests, out):
    """In the child: runs these tests of one class and leaves the counts in a file."""
    suite = unittest.TestSuite(getattr(importlib.import_module(module), name)(t) for t in tests)
    result = unittest.TextTestRunner(resultclass=Collector, verbosity=2, stream=sys.stderr).run(suite)
    bad = {str(t): text for t, text in result.failures + result.errors}
    counts = {"passed": len([p for p in result.passed]), "failed": sorted(bad),
              "skipped": [(str(t), why) for t, why in result.skipped],
              "ran": result.testsRun, "unexpected": [str(t) for t in result.unexpectedSuccesses]}
    with open(out, "w") as f:
        json.dump(counts, f)


def run_class(job):
    server, module, name, tests, environment, bound = job
    out = "/tmp/waybill-e2e-%d-%s-%s.json" % (os.getpid(), module, name)
    if server:
        out = out[:-5] + "-" + os.path.basename(os.path.dirname(server)) + ".json"
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", module, name, ",".join(tests), out],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    try:
        text, _ = child.communicate(timeout=bound)
        late = False
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if late:
        text, _ = child.communicate()
    text = text.decode("utf-8", "replace")
    if late or not os.path.exists(out):
        reason = "did not end within %d s" % bound if late else "ended without a result"
        counts = {"passed": 0, "failed": ["%s.%s %s" % (module, name, reason)], "skipped": [], "unexpected": []}
    else:
        with open(out) as f:
            counts = json.load(f)
        os.unlink(out)
    return counts, text, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", help="a nats-server program; default: all that are found")
    parser.add_argument("--first-server", action="store_true", help="only the oldest server found")
    parser.add_argument("--bin", help="where waybilld and waybill are; default build/release/bin")
    parser.add_argument("--jobs", type=int, default=min(8, 2 * (os.cpu_count() or 1)), help="classes at a time; most of their time is waiting")
    parser.add_argument("--slow", action="store_true", help="the programs carry sanitizers: longer bounds")
    parser.add_argument("--only", help="tests whose module.class.name holds this (wildcards allowed)")
    parser.add_argument("--summary", help="write passed, failed and skipped into this file as JSON")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        module, name, tests, out = options.child
        return run_child(module, name, tests.split(","), out)

    plan = [(m, n, selected(m, n, t, options.only)) for m, n, t in classes()]
    plan = [entry for entry in plan if entry[2]]
    if options.list:
        for module, name, tests in plan:
            for test in tests:
                print("%s.%s.%s" % (module, name, test))
        return 0
    found = [(servers.version_of(path), path) for path in options.server] if options.server else servers.find(build=True)
    if not found:
        print("e2e: no nats-server found\n0 passed, 1 failed, 0 skipped")
        return 1
    if options.first_server:
        found = found[:1]
    passed, failed, skipped = 0, [], []
    for version, path in found:
        environment = dict(os.environ, WAYBILL_NATS_SERVER=path, PYTHONDONTWRITEBYTECODE="1")
        if options.bin:
            environment["WAYBILL_BIN"] = os.path.abspath(options.bin)
        if options.slow:
            environment["WAYBILL_SLOW"] = "1"
        bound = CLASS_BOUND_S * (3 if options.slow else 1)
        jobs = [(path, m, n, t, environment, bound) for m, n, t in plan]
        print("e2e: nats-server %s (%s), %d classes" % (version, path, len(jobs)), flush=True)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for job, (counts, text, seconds) in zip(jobs, pool.map(run_class, jobs)):
                passed += counts["passed"]
                bad = counts["failed"] + counts["unexpected"]
                failed += ["%s on %s" % (one, version) for one in bad]
                skipped += [(test, why, version) for test, why in counts["skipped"]]
                print("  %-44s %3d passed %3d failed %3d skipped %6.1f s" % (
                    job[1] + "." + job[2], counts["passed"], len(bad), len(counts["skipped"]), seconds), flush=True)
                if bad:
                    print(text, flush=True)
    for test, why, version in skipped:
        print("skipped on %s: %s: %s" % (version, test, why))
    for one in failed:
        print("failed: " + one)
    if options.summary:
        with open(options.summary, "w") as f:
            json.dump({"passed": passed, "failed": len(failed), "skipped": len(skipped)}, f)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), len(skipped)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
