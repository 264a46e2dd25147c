"""Routers that share workers: each counts what the others have in flight there, never its own twice, and not for ever."""
import statistics
import threading
import time
import unittest

from case import PREFIX, SLOW, Case, hold, serve, wait_for


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
        lines = self.fabric.tool("workers", user="operator").stdout.splitlines()
        heads = next(line.split() for line in lines if "OTHERS" in line)
        shown = next(line.split() for line in lines if line.startswith("  w1 "))
        self.assertEqual("?", shown[heads.index("OTHERS")])
        one.beat()
        wait_for(lambda: self.others() == 5, 5 * SLOW, "5 again")


class Gauge:
    """What each worker has in flight, from the wire: requests to it, less answers from it. Gives means over the time between
    start() and stop(): of the highest (relative to the mean over workers: 1 is a perfect balance) and of the deviation."""

    def __init__(self, client, workers):
        self.in_flight, self.lock, self.began = dict.fromkeys(workers, 0), threading.Lock(), None
        client.subscribe("%s.worker.echo.*" % PREFIX, callback=lambda m: self._step(m.subject, 1))
        client.subscribe("%s.reply.echo.>" % PREFIX, callback=lambda m: self._step(m.subject, -1))
        client.flush()

    def _step(self, subject, by):
        worker = subject.split(".")[3]
        if worker in self.in_flight:  # not one that probes whether a 503 comes
            with self.lock:
                self._account()
                self.in_flight[worker] += by

    def _account(self):
        if self.began is None:
            return
        now = time.monotonic()
        values = list(self.in_flight.values())
        for key, value in (("mean", statistics.fmean(values)), ("highest", max(values)), ("deviation", statistics.pstdev(values))):
            self.sums[key] += value * (now - self.last)
        self.peak, self.last = max(self.peak, *values), now

    def start(self):
        with self.lock:
            self.sums, self.peak = dict.fromkeys(("mean", "highest", "deviation"), 0.0), 0
            self.began = self.last = time.monotonic()

    def stop(self):
        with self.lock:
            self._account()
            self.began, mean = None, self.sums["mean"]
            return {"spread": self.sums["highest"] / mean, "deviation": self.sums["deviation"] / mean, "peak": self.peak}


class Steady:
    """So many requests in flight, always: each answer is followed by the next request."""

    def __init__(self, client, in_flight):
        self.client, self.stopping, self.open, self.number = client, False, {}, 0
        self.latencies, self.errors, self.inbox = [], [], client.new_inbox()
        client.subscribe(self.inbox + ".>", callback=self._answered)
        for _ in range(in_flight):
            self._next()

    def _next(self):
        self.number += 1
        key = str(self.number)
        self.open[key] = time.monotonic()
        self.client.publish("echo.request.x", b"q", self.inbox + "." + key)

    def _answered(self, message):
        began = self.open.pop(message.subject.rsplit(".", 1)[1])
        self.latencies.append(time.monotonic() - began)
        if message.error is not None:
            self.errors.append(message)
        if not self.stopping:
            self._next()

    def stop(self):
        self.stopping = True
        wait_for(lambda: not self.open, 10 * SLOW, lambda: "answers: %d open" % len(self.open))


class Spread(Case):
    fabric_options = {"workers": tuple("w%d" % n for n in range(1, 11)), "routers": ("router-1", "router-2", "router-3")}
    DELAYS_MS = (10, 30, 50, 75, 100, 120, 140, 160, 180, 200)
    IN_FLIGHT = 60
    RUN_S = 3.0

    def measure(self, gauge):
        steady = Steady(self.fabric.client(), self.IN_FLIGHT)
        wait_for(lambda: len(steady.latencies) > 5 * self.IN_FLIGHT, 20 * SLOW, "a steady load")
        before = len(steady.latencies)
        gauge.start()
        threading.Event().wait(self.RUN_S)
        seen = gauge.stop()
        took = sorted(steady.latencies[before:])
        steady.stop()
        self.assertEqual([], steady.errors)
        return {**seen, "p99_ms": took[len(took) * 99 // 100] * 1000, "per_s": len(took) / self.RUN_S}

    def test_three_routers_balance_nearly_as_one_does(self):
        """In each of up to three tries one router, then three, over the same ten workers, from 10 to 200 ms a request."""
        service = self.fabric.service(policy="least_loaded")
        ids = self.fabric.router_ids
        routers = [self.fabric.router(ids[0], services=[service])]
        for worker, delay in zip(self.fabric.worker_ids, self.DELAYS_MS):
            self.fabric.worker(worker, "--delay-ms", str(delay))
        for worker in self.fabric.worker_ids:
            self.fabric.wait_known(routers[0], worker)
        gauge = Gauge(self.fabric.client("test"), self.fabric.worker_ids)
        one, tries = self.measure(gauge), []
        for name in ids[1:]:
            routers.append(self.fabric.router(name, services=[service]))
            for worker in self.fabric.worker_ids:
                self.fabric.wait_known(routers[-1], worker)
        for _ in range(3):
            tries.append(self.measure(gauge))
            if tries[-1]["spread"] <= 1.5 * one["spread"]:
                break
        told = "one router %s, three %s" % tuple(
            "; ".join(" ".join("%s %.2f" % item for item in run.items()) for run in runs) for runs in ([one], tries))
        print(told)
        self.assertLessEqual(tries[-1]["spread"], 1.5 * one["spread"], told)
        served = [sum(entry["served"] for entry in self.fabric.known(router).values()) for router in routers]
        self.assertTrue(all(count > 100 for count in served[1:]), served)


if __name__ == "__main__":
    unittest.main()
