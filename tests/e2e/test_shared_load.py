"""Routers that share workers: each counts what the others have in flight there, never its own twice, and not for ever."""
import time
import unittest

from case import SLOW, Case, hold, serve, wait_for


class Others(Case):
    def others(self, worker="w1", router=None):
        return self.fabric.known(router or self.router)[worker]["others"]

    def test_the_own_id_is_never_counted_nor_that_of_an_earlier_life(self):
        self.ready(hold, hold)
        one, two = self.workers
        one.beat(inflight=9, inflight_by={"router-1": 7, "router-2": 2})
        two.beat(inflight=3, inflight_by={"router-2": 3})
        wait_for(lambda: (self.others("w1"), self.others("w2")) == (2, 3), 5 * SLOW, "the others' attempts")
        self.client.start("echo.request.x", b"q")
        one.next()
        self.assertEqual([], two.attempts)
        for attempt in one.attempts:
            attempt.answer(b"a")
        self.router.terminate()
        again = self.fabric.router()
        self.fabric.wait_known(again, "w1")
        wait_for(lambda: self.others("w1", again) == 2, 5 * SLOW, lambda: "2 after a restart: %r" % self.others("w1", again))

    def test_stale_is_unknown_while_answers_still_come(self):
        self.ready(serve, hold)
        one = self.workers[0]
        one.beat(inflight_by={"router-2": 5})
        wait_for(lambda: self.others() == 5, 5 * SLOW, "5 of others")
        one.silence()
        one.beat()
        last, seen = time.monotonic(), []

        def stale():
            self.assertServed(self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1"}), "w1")
            seen.append((time.monotonic() - last, self.others()))
            return seen[-1][1] is None
        wait_for(stale, 10 * SLOW, lambda: "null: %r" % seen[-3:])
        self.assertGreaterEqual(seen[-1][0], 2 * one.fields["interval_ms"] / 1000 - 0.1, "not before two intervals")
        self.assertEqual({5}, {others for _, others in seen[:-1]})
        line = next(line for line in self.fabric.tool("workers", user="operator").stdout.splitlines() if line.startswith("  w1 "))
        self.assertIn("0+? ", line)
        one.beat()
        wait_for(lambda: self.others() == 5, 5 * SLOW, "5 again")


if __name__ == "__main__":
    unittest.main()
