"""The NATS micro protocol (ADR-32): routers are seen by whoever asks, and by the `nats` CLI where it is there."""
import json
import os
import re
import shutil
import subprocess
import unittest

from case import SLOW, Case, serve, wait_for

NAME = re.compile(r"^[A-Za-z0-9_-]+$")
VERSION = re.compile(r"^\d+\.\d+\.\d+$")


class Micro(Case):
    fabric_options = {"services": {"echo": ["echo.request.>", "echo.other"]}}

    def begin(self, *handlers):
        self.ready(*handlers, service=self.fabric.service("echo"))
        self.operator = self.fabric.client("operator")

    def ask(self, verb, rest="", bound=5):
        return self.operator.request("$SRV.%s%s" % (verb, rest), b"", None, bound * SLOW).json()

    def assertIdentity(self, answer, kind):
        self.assertEqual("io.nats.micro.v1.%s_response" % kind, answer["type"])
        self.assertEqual("waybill", answer["name"])
        self.assertEqual("router-1", answer["id"])
        self.assertRegex(answer["version"], VERSION)
        self.assertIsInstance(answer["metadata"], dict)

    def test_all_three_verbs_at_all_three_subjects(self):
        self.begin(serve)
        for verb in ("PING", "INFO", "STATS"):
            for rest in ("", ".waybill", ".waybill.router-1"):
                with self.subTest(verb=verb, rest=rest):
                    self.assertIdentity(self.ask(verb, rest), verb.lower())

    def test_another_service_or_router_is_not_ours(self):
        self.begin(serve)
        for rest in (".other", ".waybill.router-9"):
            self.assertEqual("503", str(self.operator.request("$SRV.PING" + rest, b"").status))

    def test_endpoints_are_the_services_subjects(self):
        self.begin(serve)
        endpoints = self.ask("INFO", ".waybill.router-1")["endpoints"]
        self.assertEqual([("echo", "echo.request.>", "waybill"), ("echo-2", "echo.other", "waybill")],
                         [(e["name"], e["subject"], e["queue_group"]) for e in endpoints])
        for e in endpoints:
            self.assertRegex(e["name"], NAME)

    def test_numbers(self):
        self.begin(serve)
        for _ in range(5):
            self.assertServed(self.client.request("echo.request.x", b"q"))
        self.assertError(self.client.request("echo.other", b"q", {"Waybill-Replies": "x"}), "bad_request")
        first, second = self.ask("STATS")["endpoints"]
        self.assertEqual((6, 1, "bad_request"), (first["num_requests"], first["num_errors"], first["last_error"]))
        self.assertGreater(first["processing_time"], 0)
        self.assertEqual(first["processing_time"] // 6, first["average_processing_time"])
        self.assertEqual(0, second["num_requests"])

    def test_a_hostile_reply_subject_gets_nothing(self):
        self.begin(serve)
        before = self.router.count("reply_subject_refused")
        self.fabric.client("test").publish("$SRV.PING", b"", "$JS.API.STREAM.DELETE.KV_waybill_attribution")
        wait_for(lambda: self.router.count("reply_subject_refused") == before + 1, 5 * SLOW, "the refusal")

    @unittest.skipUnless(shutil.which("nats"), "the nats CLI is not on the PATH")
    def test_the_nats_cli(self):
        self.begin(serve)
        self.assertServed(self.client.request("echo.request.x", b"q"))

        def nats(*argv):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_")}
            environment.update(self.fabric.env("operator"), HOME=self.fabric.dir, XDG_CONFIG_HOME=self.fabric.dir)
            done = subprocess.run(["nats", *argv], capture_output=True, text=True,
                                  timeout=30 * SLOW, env=environment, stdin=subprocess.DEVNULL)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            return done.stdout
        self.assertIn("waybill", nats("micro", "ls"))
        self.assertIn("router-1", nats("micro", "info", "waybill", "router-1"))
        self.assertIn("echo.request.>", nats("micro", "info", "waybill", "router-1"))
        self.assertIn("waybill", nats("micro", "stats", "waybill"))
        self.assertIn("router-1", nats("micro", "ping"))
        listed = json.loads(nats("micro", "ls", "--json"))
        self.assertEqual("router-1", listed[0]["id"])


if __name__ == "__main__":
    unittest.main()
