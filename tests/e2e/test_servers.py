"""The server restarts, withdraws passwords, speaks TLS, freezes; the router is told to stop."""
import json
import re
import signal
import shutil
import tempfile
import time
import unittest
import urllib.request

from case import SLOW, Case, hold, serve, stays, wait_for
from support import certificates, cluster, servers
from support.bucket import Bucket
from support.cluster import Fabric, free_port
from support.hub import Hub
from support.nats import tls_context


class Restart(Case):
    def test_mid_load(self):
        router = self.router = self.fabric.router()
        for worker in ("w1", "w2"):
            self.fabric.worker(worker, "--echo", known_to=[router])
        for round_ in range(2):
            load = cluster.Load(self.fabric.client(), "echo.request.x")
            load.start()
            wait_for(lambda: len(load.replies) >= 50, 20 * SLOW, "50 replies")
            self.fabric.restart_server(crash=round_ == 0)
            replies, _ = load.stop()
            self.assertTrue(all(m.error is None or m.error in ("link_lost", "no_worker", "worker_lost", "timeout") for m in replies), replies[-3:])
            router.wait_healthy(30)
            client, self.bucket = self.fabric.client(), self.fabric.watch()
            # By name: an attempt whose answer went down with the link is its worker's load until its time is out.
            for worker in ("w1", "w2"):
                wait_for(lambda: client.request("echo.request.x", b"q", {"Waybill-Target": worker}, bound=20 * SLOW).error is None,
                         30 * SLOW, "%s serving again" % worker)
            client.request("echo.request.x", b"q", {"Waybill-Request-Id": "round-%d" % round_}, bound=20 * SLOW)
            self.bucket.record("round-%d" % round_, 20 * SLOW)
        self.assertEqual(0, router.terminate())

    def test_nothing_is_sent_late(self):
        """What was waiting while the link was down and has failed since is not sent when the link is back."""
        self.router = self.fabric.router(services=[self.fabric.service(timeouts={"first_reply_ms": 30000})])
        self.fabric.raw_worker("w1", hold, known_to=[self.router])
        client = self.fabric.client()
        for n in range(20):
            client.start("echo.request.x", b"%d" % n, {"Waybill-Request-Id": "old-%d" % n})
        wait_for(lambda: self.router.count("attempts") == 20, 10 * SLOW, "20 attempts")
        self.fabric.restart_server()
        self.router.wait_healthy(30)
        self.bucket = self.fabric.watch()
        again = self.fabric.raw_worker("w1", serve, known_to=[self.router], epoch=2 * 10 ** 12)
        client = self.fabric.client()
        self.assertServed(client.request("echo.request.x", b"new", {"Waybill-Request-Id": "new"}, bound=20 * SLOW), "w1", b"new")
        self.assertEqual(["new"], [a.id for a in again.attempts])
        self.assertNoRecord(*("old-%d" % n for n in range(20)))


class Passwords(Case):
    def test_changed_and_restored(self):
        self.ready(serve)
        self.fabric.passwords["router-1"] = "another"
        self.fabric.server.reload(self.fabric.server_config())
        wait_for(lambda: self.router.http("/healthz")[0] not in (200, None), 15 * SLOW, "an unready router")
        # Several refusals in a row: a library that gives up after two must not take the router with it.
        wait_for(lambda: self.fabric.server.output().count("authentication error") >= 6, 60 * SLOW,
                 lambda: "six refused logins (%d)" % self.fabric.server.output().count("authentication error"))
        self.assertTrue(self.router.running)
        del self.fabric.passwords["router-1"]
        self.fabric.server.reload(self.fabric.server_config())
        self.router.wait_healthy(60)
        client = self.fabric.client()
        answer = client.request("echo.request.x", b"q", {"Waybill-Request-Id": "pw"}, bound=20 * SLOW)
        self.assertServed(answer, "w1")
        self.bucket.record("pw", 30 * SLOW)


class Rights(Case):
    def test_a_right_to_subscribe_that_is_withdrawn(self):
        """The connection stays up and the router is deaf: an -ERR is the only word. It must not pass for healthy."""
        self.ready(serve)
        config = self.fabric.server_config()
        entry = next(u for u in config["accounts"]["APP"]["users"] if u["user"] == "router-1")
        entry["permissions"]["subscribe"].remove("echo.request.>")
        self.fabric.server.reload(config)
        wait_for(lambda: self.router.http("/healthz")[0] not in (200, None), 15 * SLOW, lambda: "an unready router\n" + self.router.tail())
        self.assertRegex(self.router.output(), "(?i)permission|denied|right")
        self.fabric.server.reload(self.fabric.server_config())
        self.router.wait_healthy(60)
        client = self.fabric.client()
        wait_for(lambda: client.request("echo.request.x", b"q", bound=10 * SLOW).error is None, 20 * SLOW, "an answer again")


class Tls(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="waybill-tls.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.fabric = None

    def start(self, host="localhost", verify=False, first=None, **options):
        self.files = certificates.make(self.dir, host)
        tls = {"cert_file": self.files["cert"], "key_file": self.files["key"], "ca_file": self.files["ca"], "timeout": 5}
        if verify:
            tls["verify"] = True
        if first:
            if servers.numbers_of(cluster.server_binary()) < (2, 10):
                self.skipTest("nats-server before 2.10 has no TLS first")
            tls["handshake_first"] = first
        self.fabric = Fabric(tls=tls, **options)
        self.addCleanup(lambda: self.assertEqual([], self.fabric.close()))

    def tls(self, client_cert=False):
        return tls_context(self.files["ca"], *((self.files["client_cert"], self.files["client_key"]) if client_cert else ()))

    def round_trip(self, environment, client_cert=False):
        url = {"NATS_URL": "tls://localhost:%d" % self.fabric.port, **environment}
        router = self.fabric.router(env=url, nats={"url": url["NATS_URL"]})
        self.fabric.worker("w1", "--echo", env=url)
        client = self.fabric.client(tls=self.tls(client_cert))
        bucket_client = self.fabric.client("test", tls=self.tls(client_cert))
        bucket = Bucket(bucket_client)
        number = [0]

        def served():
            number[0] += 1
            answer = client.request("echo.request.x", b"q", {"Waybill-Request-Id": "tls-%d" % number[0]}, bound=10 * SLOW)
            return answer.error is None and answer.get("Waybill-Worker") == "w1"
        wait_for(served, 20 * SLOW, lambda: "an answer over TLS\n" + self.fabric.tails())
        self.assertEqual("w1", bucket.record("tls-%d" % number[0], 20 * SLOW)["worker"])
        self.assertTrue(router.healthy)

    def test_ca(self):
        self.start()
        self.round_trip({"NATS_CA": self.files["ca"]})

    def test_client_certificate(self):
        self.start(verify=True)
        self.round_trip({"NATS_CA": self.files["ca"], "NATS_CERT": self.files["client_cert"], "NATS_KEY": self.files["client_key"]}, True)

    def never_up(self, environment, url, pattern):
        router = self.fabric.router(wait=False, env={**environment, "NATS_URL": url}, nats={"url": url})
        wait_for(lambda: pattern(router), 20 * SLOW, lambda: "the refusal\n" + router.tail())
        stays(lambda: router.http("/healthz")[0] != 200, 0.5, "unready")
        self.assertTrue(router.running)
        return router

    def test_host_name_is_checked(self):
        self.start(host="elsewhere.example")
        self.never_up({"NATS_CA": self.files["ca"]}, "tls://localhost:%d" % self.fabric.port,
                      lambda router: "certificate" in router.output().lower() or "host" in router.output().lower())

    def test_an_unknown_authority_is_refused(self):
        self.start()
        other = tempfile.mkdtemp(dir=self.dir)
        ca = certificates.make(other)["ca"]
        self.never_up({"NATS_CA": ca}, "tls://localhost:%d" % self.fabric.port, lambda router: "certificate" in router.output().lower())

    def test_tls_that_was_asked_for_is_never_given_up(self):
        """A server without TLS gets no password in the clear."""
        self.files = certificates.make(self.dir)
        self.fabric = Fabric()
        self.addCleanup(lambda: self.assertEqual([], self.fabric.close()))
        for environment, scheme in (({"NATS_CA": self.files["ca"]}, "nats"), ({}, "tls")):
            with self.subTest(scheme=scheme):
                self.never_up(environment, "%s://localhost:%d" % (scheme, self.fabric.port), lambda router: "tls" in router.output().lower())


    def test_tls_first(self):
        """Not a byte in clear, not even INFO: both lanes serve. Records need a nats.c that can do it too; one that can't is named in the log."""
        self.start(first=True)
        url = "tls://localhost:%d" % self.fabric.port
        self.fabric.client_options = {"tls": self.tls(), "tls_first": True}
        router = self.fabric.router(env={"NATS_URL": url, "NATS_CA": self.files["ca"]}, nats={"url": url, "tls_first": True})
        bucket = self.fabric.watch()
        self.fabric.raw_worker("w1", serve, known_to=[router])
        answer = self.fabric.client().request("echo.request.x", b"q", {"Waybill-Request-Id": "first"}, bound=10 * SLOW)
        self.assertEqual((None, "w1"), (answer.error, answer.get("Waybill-Worker")))
        wait_for(lambda: "bucket %s" % bucket.name in router.output(), 20 * SLOW, lambda: "a word on the bucket\n" + router.tail())
        if "bucket %s created" % bucket.name in router.output():
            self.assertEqual("w1", bucket.record("first", 20 * SLOW)["worker"])
        else:
            wait_for(lambda: "TLS first needs nats.c 3.9" in router.output(), 20 * SLOW, lambda: "the reason\n" + router.tail())

    def test_tls_first_where_the_server_takes_both(self):
        """`auto`: who begins with TLS is answered at once, who waits for INFO gets it. Records are written whatever nats.c there is."""
        self.start(first="auto")
        url = "tls://localhost:%d" % self.fabric.port
        router = self.fabric.router(env={"NATS_URL": url, "NATS_CA": self.files["ca"]}, nats={"url": url, "tls_first": True})
        self.fabric.client_options = {"tls": self.tls(), "tls_first": True}
        bucket = self.fabric.watch()
        self.fabric.worker("w1", "--echo", env={"NATS_URL": url, "NATS_CA": self.files["ca"]}, known_to=[router])
        answer = self.fabric.client().request("echo.request.x", b"q", {"Waybill-Request-Id": "both"}, bound=10 * SLOW)
        self.assertEqual((None, "w1"), (answer.error, answer.get("Waybill-Worker")))
        self.assertEqual("w1", bucket.record("both", 20 * SLOW)["worker"])

    def test_tls_first_is_never_given_up(self):
        """Neither lanes nor the records' connection come in clear to a server without TLS, whatever the URL says."""
        monitor = free_port()
        self.fabric = Fabric(server_extra={"http": "127.0.0.1:%d" % monitor})
        self.addCleanup(lambda: self.assertEqual([], self.fabric.close()))
        url = "nats://localhost:%d" % self.fabric.port
        router = self.fabric.router(wait=False, env={"NATS_URL": url}, nats={"url": url, "tls_first": True})
        for who in ("front", "back"):
            wait_for(lambda: re.search("nats waybilld router-1 %s: .* not reached: .*(TLS|SSL|tls)" % who, router.output()), 20 * SLOW,
                     lambda: "the refusal\n" + router.tail())
        wait_for(lambda: re.search("bucket .* is away: .*(TLS|SSL|secure)", router.output()), 20 * SLOW, lambda: "the store's refusal\n" + router.tail())
        with urllib.request.urlopen("http://127.0.0.1:%d/connz?state=all" % monitor, timeout=5) as answer:
            names = [entry.get("name", "") for entry in json.load(answer)["connections"]]
        self.assertEqual([], [name for name in names if name.startswith("waybilld")])
        self.assertFalse(router.healthy)


class FrozenJetStream(unittest.TestCase):
    """JetStream lives on a second server, reached through a bridge, and that one is frozen."""

    def setUp(self):
        self.fabric = Fabric(jetstream=False)
        self.hub = Hub(self.fabric)
        self.addCleanup(self.hub.close)
        self.addCleanup(lambda: self.assertEqual([], self.fabric.close()))
        self.addCleanup(self.hub.thaw)
        self.bucket = self.hub.bucket

    def test_frozen_and_thawed(self):
        router = self.fabric.router()
        self.fabric.raw_worker("w1", serve, known_to=[router])
        client = self.fabric.client()
        wait_for(lambda: client.request("echo.request.x", b"q").error is None and self.bucket.stored(), 30 * SLOW,
                 lambda: "a record\n" + router.tail())
        self.hub.freeze()
        worst, before = 0, router.rss_bytes()
        for n in range(1000):
            began = time.monotonic()
            answer = client.request("echo.request.x", b"q", {"Waybill-Request-Id": "ice-%d" % n}, bound=5 * SLOW)
            worst = max(worst, time.monotonic() - began)
            self.assertIsNone(answer.error, answer)
            self.assertEqual("w1", answer.get("Waybill-Worker"))
        self.assertLess(worst, 1.0 * SLOW)
        self.assertEqual(200, router.http("/healthz")[0])
        self.assertLess(router.rss_bytes() - before, 16 << 20)
        self.hub.thaw()
        number = [0]

        def recorded():
            number[0] += 1
            client.request("echo.request.x", b"q", {"Waybill-Request-Id": "thaw-%d" % number[0]}, bound=10 * SLOW)
            return any(w.key.startswith("echo.thaw-") for w in self.bucket.writes)
        wait_for(recorded, 60 * SLOW, lambda: "records after the thaw\n" + router.tail())

        def settled():
            return len({w.key for w in self.bucket.writes if ".ice-" in w.key}) + router.count("attribution_failed") + \
                router.count("attribution_dropped") >= 1000
        wait_for(settled, 60 * SLOW, "every record written, or counted as failed or dropped")


class Stopping(Case):
    def in_flight(self, count, **options):
        self.ready(hold, router_options=options)
        subs = [self.client.start("echo.request.x", b"%d" % n, {"Waybill-Request-Id": "t%d" % n}) for n in range(count)]
        self.workers[0].next(20 * SLOW, number=count)
        return subs

    def test_sigterm_with_a_hundred_in_flight(self):
        subs = self.in_flight(100)
        self.router.signal(signal.SIGTERM)
        wait_for(lambda: self.router.http("/healthz")[0] != 200, 10 * SLOW, "the router leaving its queue groups")
        for attempt in list(self.workers[0].attempts):
            attempt.answer(b"a" + attempt.data)
        for n, sub in enumerate(subs):
            self.assertServed(sub.next(20 * SLOW), "w1", b"a%d" % n)
        self.assertEqual(0, self.router.ended(20))
        for n in range(100):
            self.assertEqual("w1", self.bucket.record("t%d" % n)["worker"])
        self.assertEqual(100, len(self.bucket.stored()))

    def test_what_is_unfinished_gets_draining(self):
        subs = self.in_flight(10, router={"drain_ms": 500})
        self.router.signal(signal.SIGINT)
        for sub in subs:
            self.assertError(sub.next(20 * SLOW), "draining", delivered="maybe")
        self.assertEqual(0, self.router.ended(20))
        wait_for(lambda: len(self.workers[0].cancels) == 10, 10 * SLOW, "ten cancels")
        self.assertNoRecord(*("t%d" % n for n in range(10)))

    def test_an_unfinished_stream_is_interrupted(self):
        self.ready(hold, service=self.fabric.service(replies="stream"), router_options={"router": {"drain_ms": 500}})
        sub = self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "ts"})
        self.workers[0].next().stream([b"1"], end=False)
        sub.wait_count(1)
        self.router.signal(signal.SIGTERM)
        sub.wait_count(3, 20 * SLOW)
        self.assertEqual("interrupted", sub.messages[-1].get("Waybill-Outcome"))
        self.assertEqual(0, self.router.ended(20))
        self.bucket.wait_outcome("ts", "interrupted")

    def test_idle(self):
        self.ready(serve)
        self.router.signal(signal.SIGTERM)
        self.assertEqual(0, self.router.ended(5))

    def test_without_a_server(self):
        router = self.fabric.router()
        self.fabric.stop_server()
        wait_for(lambda: router.http("/healthz")[0] != 200, 10 * SLOW, "unready")
        router.signal(signal.SIGTERM)
        self.assertEqual(0, router.ended(15))
        self.fabric.start_server()

    def test_another_router_takes_over(self):
        self.ready(serve)
        other = self.fabric.router("router-2")
        self.fabric.wait_known(other, "w1")
        load = cluster.Load(self.fabric.client(), "echo.request.x")
        load.start()
        wait_for(lambda: len(load.replies) >= 20, 20 * SLOW, "20 replies")
        self.router.signal(signal.SIGTERM)
        self.assertEqual(0, self.router.ended(15))
        before = len(load.replies)
        wait_for(lambda: len(load.replies) >= before + 20, 20 * SLOW, "20 more replies")
        replies, failures = load.stop()
        self.assertEqual([], failures)
        self.assertEqual([], [m for m in replies if m.error], "not one request is lost or refused")


class StartBeforeTheServer(Case):
    def test_waits_for_ever(self):
        self.fabric.stop_server()
        router = self.fabric.router(wait=False)
        wait_for(lambda: router.http("/healthz")[0] not in (None, 200), 10 * SLOW, "an unready router")
        self.fabric.start_server()
        router.wait_healthy(30)


class Permissions(Case):
    def test_the_contracts_permissions_are_enough(self):
        """All parts of a router's life without one Permissions Violation in the server's log."""
        self.ready(serve, hold)
        self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "p1"})
        self.client.request("echo.request.x", b"q", {"Waybill-Target": "w1", "Waybill-Request-Id": "p1"})
        self.bucket.wait("p1", 2)
        self.client.request("echo.request.x", b"q", {"Waybill-Target": "w2", "Waybill-Timeout-Ms": "200"})
        wait_for(lambda: self.workers[1].cancels, 5 * SLOW, "the cancel")
        self.fabric.worker("w3", "--echo", known_to=[self.router])
        self.fabric.tool("who", "p1", "--service", "echo", user="operator")
        self.fabric.tool("workers", user="operator")
        violations = [line for line in self.fabric.server.output().splitlines() if "Violation" in line]
        self.assertEqual([], violations)


if __name__ == "__main__":
    unittest.main()
