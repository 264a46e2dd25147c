"""What every end-to-end test stands on: a Fabric per class, ended in tearDownClass with a look at how the programs ended."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import cluster, servers  # noqa: E402
from support.bucket import Bucket  # noqa: E402,F401
from support.cluster import BUCKET, PREFIX, SLOW, Fabric  # noqa: E402,F401
from support.waiting import stays, wait_for  # noqa: E402,F401


def serve(attempt):
    """Echoes."""
    attempt.answer(attempt.data)


def hold(attempt):
    """Keeps the request; the test answers it, or nobody does."""


def refuse(code=503, retry_after_ms=None, data=b"later"):
    extra = [("Waybill-Retry-After-Ms", retry_after_ms)] if retry_after_ms is not None else []
    return lambda attempt: attempt.refuse(code, "not now", data, extra)


class Script:
    """A handler shared by several workers: the n-th attempt that any of them gets is handled by steps[n], later ones by the last."""

    def __init__(self, *steps):
        self.steps, self.attempts, self.lock = steps, [], threading.Lock()

    def __call__(self, attempt):
        with self.lock:
            self.attempts.append(attempt)
            step = self.steps[min(len(self.attempts), len(self.steps)) - 1]
        step(attempt)

    def next(self, number=1, bound=10.0):
        wait_for(lambda: len(self.attempts) >= number, bound * SLOW, lambda: "attempt %d (got %d)" % (number, len(self.attempts)))
        return self.attempts[number - 1]

    @property
    def workers(self):
        return [attempt.worker.id for attempt in self.attempts]


class Case(unittest.TestCase):
    """A fresh fabric for each test; `fabric_options` go to Fabric. What the programs did wrong at their end fails the test."""

    maxDiff = None
    fabric_options = {}

    def setUp(self):
        self.fabric = Fabric(**self.fabric_options)
        self.addCleanup(self._close)

    def _close(self):
        failed = not self._outcome.success
        tails = self.fabric.tails() if failed else ""
        wrong = self.fabric.close()
        if tails:
            print("\n=== %s\n%s" % (self.id(), tails), file=sys.stderr)
        self.assertEqual([], wrong, "\n".join(wrong))

    # -- vocabulary

    def ready(self, *handlers, service=None, router_options=None, heartbeat=None):
        """A router and one raw worker per handler (w1, w2, ...), all known; a client and a bucket watch. Sets self.*"""
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(services=[service or self.fabric.service()], **(router_options or {}))
        self.workers = [self.fabric.raw_worker("w%d" % n, handler, known_to=[self.router], **(heartbeat or {}))
                        for n, handler in enumerate(handlers, 1)]
        self.client = self.fabric.client()
        return self.workers

    def assertServed(self, answer, worker=None, data=None, attempt=None):
        self.assertIsNone(answer.error, answer)
        self.assertIsNone(answer.status, answer)
        self.assertIsNotNone(answer.get("Waybill-Worker"), answer)
        self.assertIsNotNone(answer.get("Waybill-Request-Id"), answer)
        if worker is not None:
            self.assertEqual(worker, answer.get("Waybill-Worker"), answer)
        if data is not None:
            self.assertEqual(data, answer.data)
        if attempt is not None:
            self.assertEqual(str(attempt), answer.get("Waybill-Attempt"), answer)

    def assertError(self, answer, name, delivered=None, attempts=None):
        """An error of the router: headers and body as spec section 5 has them. Gives the body."""
        codes = {"bad_request": 400, "unknown_worker": 404, "unknown_adapter": 404, "session_conflict": 409,
                 "duplicate": 409, "payload_too_large": 413, "overloaded": 429, "cancelled": 499, "internal": 500,
                 "worker_lost": 502, "link_lost": 502, "interrupted": 502, "no_worker": 503, "draining": 503,
                 "timeout": 504}
        self.assertEqual(name, answer.error, answer)
        self.assertEqual(codes[name], answer.code, answer)
        self.assertTrue(answer.get("Nats-Service-Error"), answer)
        body = answer.json()
        self.assertEqual(name, body["error"], answer)
        self.assertTrue(body["message"], answer)
        self.assertEqual(answer.get("Waybill-Request-Id"), body["request_id"], answer)
        self.assertIn(answer.get("Waybill-Delivered"), ("no", "maybe", "yes"), answer)
        if delivered is not None:
            self.assertEqual(delivered, answer.get("Waybill-Delivered"), answer)
        if attempts is not None:
            self.assertEqual(attempts, [(a["worker"], a["cause"]) for a in body["attempts"]], answer)
        if name in ("no_worker", "overloaded", "timeout", "worker_lost", "cancelled", "bad_request"):
            self.assertIsNone(answer.get("Waybill-Worker"), answer)
        return body

    def assertNoRecord(self, *request_ids):
        """Nothing was ever written for these. A served request is awaited first, so that a late write would be seen."""
        for request_id in request_ids:
            self.assertEqual([], self.bucket.of(request_id), request_id)
        self.assertEqual([], self.bucket.unreadable)

    def assertAtRest(self, router=None):
        """No attempt in flight, no charge on any worker."""
        router = router or self.router

        def rest():
            entries = self.fabric.known(router, next(iter(self.fabric.services))).values()
            return all(entry["occupancy"] == 0 for entry in entries)
        wait_for(rest, 5 * SLOW, lambda: "rest: %r" % self.fabric.show_workers(router))


class NatsTool(Case):
    """With the `nats` tool, which must be there or be built; the output that a test reads is the tool's of version 0.5."""

    @classmethod
    def setUpClass(cls):
        if servers.find_tool() is None:
            raise unittest.SkipTest("there is no nats tool and no Go to build it")
