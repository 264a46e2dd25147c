"""Where the servers are: a cluster of which the router knows one member only, and IPv6."""
import os
import re
import signal
import socket
import unittest

from case import SLOW, Case, Fabric, serve, wait_for
from support import cluster
from support.bucket import Bucket
from support.cluster import Server, free_port
from support.waiting import TooLate


class ClusterFabric(Fabric):
    """Three servers. The fabric's own is the only one that the router is told of; clients and workers live on the second."""

    SIZE = 3

    def prepare(self):
        self.ports = [self.port] + [free_port() for _ in range(self.SIZE - 1)]
        self.routes = [free_port() for _ in range(self.SIZE)]

    def server_config(self, n=0):
        config = super().server_config()
        config.update({"listen": "127.0.0.1:%d" % self.ports[n], "server_name": "member-%d" % n,
                       "cluster": {"name": "waybill-test", "listen": "127.0.0.1:%d" % self.routes[n],
                                   "routes": ["nats-route://127.0.0.1:%d" % port for port in self.routes]},
                       "lame_duck_grace_period": "1s", "lame_duck_duration": "30s"})
        config["jetstream"] = {"store_dir": os.path.join(self.dir, "js-%d" % n)}
        return config

    def start_others(self):
        self.members = [self.server] + [Server(self, self.binary, self.ports[n], self.server_config(n), "nats-server-%d" % n)
                                        for n in range(1, self.SIZE)]
        probe = self.client("test")
        wait_for(lambda: len(probe.info.get("connect_urls", ())) == self.SIZE, 20 * SLOW, lambda: "all members told: %r" % probe.info)

        def leader():
            try:
                return probe.request("$JS.API.INFO", b"", bound=1).status is None
            except TooLate:  # without a leader nobody answers
                return False
        wait_for(leader, 60 * SLOW, "JetStream with a leader")

    def client(self, name="client", **options):
        """On the second member once there is one, the fabric's own server is about to stop."""
        port, self.port = self.port, self.ports[1 if hasattr(self, "members") else 0]
        try:
            return super().client(name, **options)
        finally:
            self.port = port


class OnCluster:
    """For a Case: the fabric, a router told of the first server alone, and its bucket there with three replicas."""

    def setUp(self):
        self.fabric = ClusterFabric()
        self.addCleanup(self._close)
        self.fabric.start_others()
        self.bucket = Bucket(self.fabric.client("test"))
        self.router = self.fabric.router(attribution={"replicas": 3})
        self.fabric.raw_worker("w1", serve, known_to=[self.router])
        self.client = self.fabric.client()
        wait_for(lambda: re.search("bucket %s (created|bound)" % self.bucket.name, self.router.output()), 60 * SLOW,
                 lambda: "the bucket\n" + self.router.tail())


class Learned(OnCluster, Case):
    def setUp(self):
        super().setUp()
        self.served("before")

    def served(self, request_id):
        """Until it is: the cluster may still be telling its members who listens where."""
        number = [0]

        def answered():
            number[0] += 1
            answer = self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "%s-%d" % (request_id, number[0])}, bound=10 * SLOW)
            return answer.error is None and answer.status is None and answer.get("Waybill-Worker") == "w1"
        wait_for(answered, 30 * SLOW, lambda: "an answer\n" + self.router.tail())
        self.assertEqual("w1", self.bucket.record("%s-%d" % (request_id, number[0]), 30 * SLOW)["worker"])

        def stored():
            try:
                return self.bucket.stored_for("%s-%d" % (request_id, number[0]))
            except TooLate:  # the stream has no leader yet
                return False
        wait_for(stored, 60 * SLOW, "the stored record")

    def lanes_elsewhere(self):
        """Both lanes' last server is one that nobody told the router but the first."""
        ups = {lane: [line.rsplit(":", 1)[1] for line in self.router.output().splitlines() if "%s link up: " % lane in line] for lane in ("front", "back")}
        return all(len(ports) > 1 and int(ports[-1]) in self.fabric.ports[1:] for ports in ups.values())

    def test_goes_on_at_a_learned_server(self):
        self.fabric.members[0].kill()
        wait_for(self.lanes_elsewhere, 30 * SLOW, lambda: "both lanes at another member\n" + self.router.tail())
        self.router.wait_healthy(20)
        self.served("after")
        self.assertEqual(0, self.router.terminate())

    def test_lame_duck_is_left_before_it_stops(self):
        load = cluster.Load(self.fabric.client(), "echo.request.x")
        load.start()
        self.fabric.members[0].signal(signal.SIGUSR2)
        wait_for(self.lanes_elsewhere, 20 * SLOW, lambda: "both lanes at another member\n" + self.router.tail())
        self.router.wait_healthy(20)
        self.assertTrue(self.fabric.members[0].running, "left at leisure, not when it stopped")
        before = len(load.replies)
        wait_for(lambda: len(load.replies) >= before + 20, 30 * SLOW, "20 replies since")
        load.stop()
        self.assertEqual([], [m for m in load.replies[-10:] if m.error or m.status])
        self.served("after")


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


@unittest.skipUnless(has_ipv6(), "this machine has no ::1")
class Ipv6(Case):
    fabric_options = {"host": "::1"}

    def round_trip(self, url):
        self.bucket = self.fabric.watch()
        self.router = self.fabric.router(env={"NATS_URL": url}, nats={"url": url})
        self.fabric.raw_worker("w1", serve, known_to=[self.router])
        answer = self.fabric.client().request("echo.request.x", b"q", {"Waybill-Request-Id": "six"})
        self.assertServed(answer, "w1", b"q")
        self.assertEqual("w1", self.bucket.record("six", 20 * SLOW)["worker"])

    def test_by_address(self):
        self.round_trip("nats://[::1]:%d" % self.fabric.port)
        self.assertIn("front link up: [::1]:%d" % self.fabric.port, self.router.output())
        self.fabric.restart_server()
        self.router.wait_healthy(30)

    def test_by_a_name_with_several_addresses(self):
        """localhost is 127.0.0.1, too, where nobody listens."""
        found = {entry[4][0] for entry in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
        if "::1" not in found:
            self.skipTest("localhost is not ::1 here")
        self.round_trip("nats://localhost:%d" % self.fabric.port)


if __name__ == "__main__":
    unittest.main()
