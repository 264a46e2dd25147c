"""The NATS micro protocol (ADR-32): routers are seen by whoever asks, and by the `nats` CLI where it is there."""
import json
import re
import unittest

from case import SLOW, Case, NatsTool, serve, wait_for

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


class Tool(NatsTool):
    """What `nats micro` shows of two routers, one of which has served."""
    fabric_options = {"services": {"echo": ["echo.request.>", "echo.other"]}}

    def setUp(self):
        super().setUp()
        self.ready(serve, service=self.fabric.service("echo"))
        for _ in range(3):
            self.assertServed(self.client.request("echo.request.x", b"q"))
        self.assertError(self.client.request("echo.other", b"q", {"Waybill-Replies": "x"}), "bad_request")
        self.other = self.fabric.router("router-2", services=[self.fabric.service("echo")])

    def micro(self, *argv):
        return self.fabric.nats("micro", *argv, user="operator").stdout

    def json(self, *argv):
        return json.loads(self.micro(*argv, "--json"))

    def test_ls(self):
        shown = self.micro("ls")
        self.assertEqual(["router-1", "router-2"], sorted(re.findall(r"│ (router-\d)\s*│", shown)), shown)
        listed = {entry["id"]: entry for entry in self.json("ls", "waybill")}
        self.assertEqual({"router-1", "router-2"}, set(listed))
        for entry in listed.values():
            self.assertEqual(("waybill", "io.nats.micro.v1.info_response"), (entry["name"], entry["type"]))
            self.assertRegex(entry["version"], VERSION)
            self.assertTrue(entry["description"])

    def test_info(self):
        shown = self.micro("info", "waybill", "router-1")
        for pattern in (r"Service: waybill \(router-1\)", r"Subject: echo\.request\.>", r"Subject: echo\.other", r"Queue Group: waybill",
                        r"Requests: 4 in group \"waybill\"", r"Errors: 1", r"Last Error: bad_request"):
            self.assertRegex(shown, pattern)
        whole = self.json("info", "waybill", "router-1")
        self.assertEqual([("echo", "echo.request.>", "waybill"), ("echo-2", "echo.other", "waybill")],
                         [(e["name"], e["subject"], e["queue_group"]) for e in whole["info"]["endpoints"]])
        self.assertEqual("router-1", whole["stats"]["id"])
        self.assertEqual(0, self.json("info", "waybill", "router-2")["stats"]["endpoints"][0]["num_requests"])

    def test_stats(self):
        shown = self.micro("stats", "waybill")
        self.assertRegex(shown, r"router-1\s*│ echo\s*│ 4\s*│ waybill\s*│ 1 ")
        self.assertRegex(shown, r"router-2\s*│ echo\s*│ 0\s*│ waybill\s*│ 0 ")
        numbers = {entry["id"]: entry["endpoints"][0] for entry in self.json("stats", "waybill")}
        self.assertEqual((4, 1), (numbers["router-1"]["num_requests"], numbers["router-1"]["num_errors"]))
        self.assertGreater(numbers["router-1"]["processing_time"], 0)
        self.assertEqual((0, 0), (numbers["router-2"]["num_requests"], numbers["router-2"]["num_errors"]))

    def test_ping(self):
        for argv in (("ping",), ("ping", "waybill")):
            answers = re.findall(r"^waybill (router-\d)\s+rtt=", self.micro(*argv), re.M)
            self.assertEqual(["router-1", "router-2"], sorted(answers))
        self.assertEqual(0, self.other.terminate())
        self.assertEqual(["router-1"], re.findall(r"^waybill (\S+)", self.micro("ping"), re.M))


if __name__ == "__main__":
    unittest.main()
