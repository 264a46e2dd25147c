"""The commands that an operator asks when something is wrong: who, trace, watch, explain, doctor; each with the rights of its role alone."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
import unittest

import jsonschema

from case import PREFIX, SLOW, Case, Script, hold, refuse, serve, wait_for
from support import cluster
from support.cluster import BUCKET, SESSIONS, Process, operator_permissions, program, router_permissions, user
from test_places import OnCluster

FINE, USAGE, NO_LINK, NOTHING, ERROR, UNHEALTHY = 0, 1, 2, 3, 4, 5
HOUR_S = 3600


def bundle():
    """All schemas as one, so that no validator, old or new, has to find one by its name: <schema> is its root, <schema>.<part> its parts."""
    parts = {}

    def moved(node, name):
        if isinstance(node, list):
            return [moved(one, name) for one in node]
        if not isinstance(node, dict):
            return node
        node = {key: moved(value, name) for key, value in node.items() if key not in ("$id", "$schema")}
        if isinstance(node.get("$ref"), str):
            where, _, part = node["$ref"].partition("#")
            where = where.rsplit(":", 1)[-1] or name
            node["$ref"] = "#/$defs/" + (where + "." + part[len("/$defs/"):] if part else where)
        return node
    folder = os.path.join(cluster.ROOT, "schemas")
    for file in os.listdir(folder):
        if file.endswith(".schema.json"):
            with open(os.path.join(folder, file)) as f:
                name, loaded = file[:-len(".schema.json")], json.load(f)
            for part, node in loaded.pop("$defs", {}).items():
                parts[name + "." + part] = moved(node, name)
            parts[name] = moved(loaded, name)
    return parts


def at(seconds_from_now):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() + seconds_from_now))


class Commands(Case):
    def valid(self, part, value):
        """By the part of the schema of what the tool prints."""
        check = jsonschema.Draft202012Validator({"$ref": "#/$defs/cli." + part, "$defs": bundle()})
        self.assertEqual([], [e.message for e in check.iter_errors(value)], value)
        return value

    def tool(self, *argv, code=FINE, user="operator", **options):
        done = self.fabric.tool(*argv, user=user, check=False, **options)
        if code is not None:
            self.assertEqual(code, done.returncode, (argv, done.stdout, done.stderr))
        return done

    def json(self, part, *argv, code=FINE, user="operator"):
        return self.valid(part, json.loads(self.tool(*argv, "--json", code=code, user=user).stdout))

    def served(self, *ids, outcome="done", **headers):
        """Requests one after the other, each in the bucket before the next."""
        for one in ids:
            self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": one, **headers})
            self.bucket.wait_outcome(one, outcome)
            wait_for(lambda: self.bucket.stored_for(one), 5 * SLOW, "the stored record of " + one)

    def streamed(self, request_id, parts=(b"1", b"2")):
        for worker in self.workers:
            worker.handler = lambda a: a.stream(parts)
        self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": request_id, "Waybill-Replies": "stream"})
        self.bucket.wait_outcome(request_id, "done")
        wait_for(lambda: len(self.bucket.stored_for(request_id)) == 2, 5 * SLOW, "both revisions of " + request_id)

    def forge(self, key="echo.forged", **members):
        """A record as no router writes it; gives it."""
        record = {"worker": "w1", "rank": None, "attempt": 1, "service": "echo", "request_id": key.split(".", 1)[1], "tried": [], "selected": "w1",
                  "policy": "least_loaded", "reason": "policy", "session": None, "adapter": None, "subject": "echo.request.x", "router": "router-1",
                  "rid": "router-1.1.1", "worker_epoch": 1, "trace": None, "received_at": at(0), "first_reply_us": 10, "finished_at": None,
                  "replies": 1, "code": None, "v": 1, "outcome": "done", **members}
        self.forger = getattr(self, "forger", None) or self.fabric.client("test")
        ack = self.forger.request("$KV.%s.%s" % (BUCKET, key), json.dumps(record).encode()).json()
        self.assertIn("seq", ack)
        return record


class Who(Commands):
    def test_history_tells_every_revision_oldest_first(self):
        self.ready(serve, heartbeat={"ranks": 2})
        self.streamed("h-1")
        lines = self.tool("who", "h-1", "--service", "echo", "--history").stdout.splitlines()
        self.assertEqual(["streaming", "done"], [line.split()[1] for line in lines if line.startswith("  outcome")])
        self.assertEqual(2, len([line for line in lines if line.startswith("revision ")]))
        shown = self.json("who_history", "who", "h-1", "--history")
        self.assertEqual(["streaming", "done"], [r["record"]["outcome"] for r in shown])
        self.assertEqual([seq for seq, _, _, _ in self.bucket.stored_for("h-1")], [r["revision"] for r in shown])
        self.assertEqual({("echo.h-1", "echo", "h-1", "put")}, {(r["key"], r["service"], r["request_id"], r["operation"]) for r in shown})

    def test_a_deleted_key_has_no_record_and_its_history_is_not_told(self):
        self.ready(serve)
        self.served("gone")
        self.fabric.client("test").request("$KV.%s.echo.gone" % BUCKET, b"", {"KV-Operation": "DEL"})
        self.assertIn("no record of gone in service echo", self.tool("who", "gone", "--service", "echo", code=NOTHING).stderr)
        self.assertIsNone(self.json("who", "who", "gone", code=NOTHING))
        self.assertEqual([], self.json("who_history", "who", "gone", "--history", code=NOTHING))

    def test_without_a_service_the_latest_of_any_is_told(self):
        self.ready(serve)
        self.served("twice")
        self.forge("other.twice", service="other", worker="w7")
        self.assertEqual("w7", self.json("who", "who", "twice")["worker"])
        self.assertEqual("w1", self.json("who", "who", "twice", "--service", "echo")["worker"])
        self.assertEqual(["other"], [r["service"] for r in self.json("who_history", "who", "twice", "--history")])

    def test_usage(self):
        for argv in (("who",), ("who", "a b"), ("who", "a..b"), ("who", "a", "--service", "a.b"), ("who", "a", "--bucket", "a b"),
                     ("trace", "*"), ("trace", "a", "--service", ">")):
            self.tool(*argv, code=USAGE)

    def test_what_is_missing_is_said(self):
        done = self.tool("who", "r", code=NOTHING)
        self.assertIn("there is no bucket " + BUCKET, done.stderr)
        done = self.tool("who", "r", code=NO_LINK, user="client", bound=10)
        self.assertIn("may not publish $JS.API.STREAM.MSG.GET.KV_" + BUCKET, done.stderr)


class NoJetStream(Commands):
    fabric_options = {"jetstream": False}

    def test_said_by_all_that_need_it(self):
        for argv in (("who", "r"), ("trace", "r"), ("watch",)):
            self.assertIn("no JetStream answers here", self.tool(*argv, code=NOTHING).stderr)
        found = self.json("doctor", "doctor", code=UNHEALTHY)
        self.assertIn("fail", [f["verdict"] for f in found["findings"] if f["check"] == "jetstream"])


class Trace(Commands):
    def test_who_was_named_was_not_chosen_by_the_policy(self):
        self.ready(serve)
        self.served("t-9", **{"Waybill-Target": "w1"})
        text = self.tool("trace", "t-9").stdout
        self.assertIn("chosen    w1 the request named it", text)
        self.assertNotIn("by least_loaded", text)

    def test_timeline_of_a_retried_request(self):
        script = Script(refuse(503), serve)
        self.ready(script, script)
        self.served("t-1", **{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        first, second = script.workers
        text = self.tool("trace", "t-1").stdout
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("request t-1 of echo: done, served by %s; received " % second), text)
        order = [text.index(word) for word in ("  received  ", "  chosen    " + first, "  tried     " + first, "  answered  " + second, "  finished  ", "  recorded  ")]
        self.assertEqual(sorted(order), order, text)
        self.assertIn("refused: it said no", text)
        self.assertIn("trace id 0af7651916cd43dd8448eb211c80319c", text)
        shown = self.json("trace", "trace", "t-1", "--service", "echo")
        events = {e["event"]: e for e in shown["events"]}
        self.assertEqual(["received", "chosen", "tried", "answered", "finished", "recorded"], [e["event"] for e in shown["events"]])
        self.assertEqual((first, "refused"), (events["tried"]["worker"], events["tried"]["cause"]))
        self.assertEqual((second, shown["record"]["first_reply_us"]), (events["answered"]["worker"], events["answered"]["offset_us"]))
        self.assertEqual(0, events["received"]["offset_us"])
        self.assertGreaterEqual(events["recorded"]["offset_us"], events["answered"]["offset_us"])

    def test_a_stream_is_open_until_its_end_is_recorded(self):
        self.ready(hold)
        self.client.start("echo.request.x", b"q", {"Waybill-Request-Id": "t-2", "Waybill-Replies": "stream"})
        wait_for(lambda: self.workers[0].attempts, 5 * SLOW, "the attempt")
        attempt = self.workers[0].attempts[0]
        attempt.answer(b"1", [("Waybill-Seq", 1)])
        self.bucket.wait_outcome("t-2", "streaming")
        wait_for(lambda: self.bucket.stored_for("t-2"), 5 * SLOW, "the record")
        self.assertEqual(["received", "chosen", "answered", "open", "recorded"], [e["event"] for e in self.json("trace", "trace", "t-2")["events"]])
        attempt.answer(b"", [("Waybill-Seq", 2)])
        wait_for(lambda: len(self.bucket.stored_for("t-2")) == 2, 5 * SLOW, "the end's record")
        shown = self.json("trace", "trace", "t-2")
        self.assertEqual(["received", "chosen", "answered", "finished", "recorded", "recorded"], [e["event"] for e in shown["events"]])

    def test_an_id_that_was_used_before_is_told_apart(self):
        self.ready(serve)
        self.served("again")
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "again"})
        wait_for(lambda: len(self.bucket.stored_for("again")) == 2, 5 * SLOW, "a second record")
        self.assertIn("1 older revision", self.tool("trace", "again").stdout)
        self.assertEqual(1, len([e for e in self.json("trace", "trace", "again")["events"] if e["event"] == "recorded"]))

    def test_nothing(self):
        self.ready(serve)
        self.served("some")
        self.assertIn("no record of none", self.tool("trace", "none", code=NOTHING).stderr)
        self.assertIsNone(self.json("trace", "trace", "none", code=NOTHING))


class Watch(Commands):
    def watch(self, *argv):
        process = Process(self.fabric, "watch", [program("waybill"), "watch", *argv], self.fabric.env("operator"))
        wait_for(lambda: "watching bucket" in process.output(), 10 * SLOW, lambda: "a watch\n" + process.tail())
        return process

    def shown(self, process):
        return [self.valid("watch", json.loads(line)) for line in process.output().splitlines() if line.startswith("{")]

    def test_records_as_they_are_written_and_no_older_ones(self):
        self.ready(serve)
        self.served("old")
        process = self.watch("--json")
        self.served("n-1", "n-2", "n-3")
        self.streamed("s-1")
        wait_for(lambda: len(self.shown(process)) == 5, 10 * SLOW, lambda: "five lines\n" + process.tail())
        self.assertEqual([("n-1", "done"), ("n-2", "done"), ("n-3", "done"), ("s-1", "streaming"), ("s-1", "done")],
                         [(r["request_id"], r["record"]["outcome"]) for r in self.shown(process)])
        process.signal(signal.SIGINT)
        self.assertEqual(0, process.ended())

    def test_all_of_many_are_replayed_in_order_and_each_once(self):
        self.ready(serve)
        for n in range(300):
            self.client.publish("echo.request.x", b"q", None, [("Waybill-Request-Id", "m-%d" % n)])
        wait_for(lambda: self.router.count("attribution_written") == 300, 20 * SLOW, "300 records")
        stored = [key for _, key, _, _ in self.bucket.stored()]
        lines = [self.valid("watch", json.loads(line)) for line in self.tool("watch", "--all", "--count", "300", "--json").stdout.splitlines()]
        self.assertEqual(stored, [r["key"] for r in lines])
        self.assertEqual(300, len({r["revision"] for r in lines}))

    def test_filters(self):
        self.ready(serve, serve)
        self.served("a", **{"Waybill-Target": "w1"})
        self.served("b", **{"Waybill-Target": "w2"})
        self.forge("other.c", service="other", worker="w1", router="router-9", session="s", outcome="error")
        for argv, expected in ((("--service", "echo"), ["a", "b"]), (("--service", "other"), ["c"]), (("--worker", "w1"), ["a", "c"]),
                               (("--worker", "w1", "--service", "echo"), ["a"]), (("--router", "router-9"), ["c"]), (("--session", "s"), ["c"]),
                               (("--outcome", "done"), ["a", "b"])):
            with self.subTest(argv=argv):
                lines = self.tool("watch", "--all", "--json", "--count", str(len(expected)), *argv).stdout.splitlines()
                self.assertEqual(expected, [json.loads(line)["request_id"] for line in lines])

    def test_of_a_sparse_service_each_record_is_shown_once(self):
        self.ready(serve)
        for n in range(24):
            self.forge("echo.e-%d" % n)
            for k in range(3):
                self.forge("other.o-%d-%d" % (n, k), service="other")
        lines = self.tool("watch", "--all", "--json", "--count", "24", "--service", "echo").stdout.splitlines()
        self.assertEqual(["e-%d" % n for n in range(24)], [json.loads(line)["request_id"] for line in lines])

    def test_lines_for_people(self):
        script = Script(refuse(503), serve)
        self.ready(script, script)
        self.served("p-1")
        line, = self.tool("watch", "--all", "--count", "1").stdout.splitlines()
        self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\S+Z  %s <- p-1 of echo  done  [\d.]+ ms  1 reply  attempt 2  retry  %s:refused$" % tuple(reversed(script.workers)))

    def test_a_deleted_key_and_what_is_no_json_are_shown_as_that(self):
        self.ready(serve)
        self.served("d")
        test = self.fabric.client("test")
        test.request("$KV.%s.echo.d" % BUCKET, b"", {"KV-Operation": "DEL"})
        test.request("$KV.%s.echo.x" % BUCKET, b"\x1b[31mnot JSON")
        lines = self.tool("watch", "--all", "--count", "3").stdout.splitlines()
        self.assertTrue(lines[1].endswith("  echo.d deleted"), lines)
        self.assertTrue(lines[2].endswith("  echo.x holds no JSON"), lines)
        shown = [self.valid("watch", json.loads(line)) for line in self.tool("watch", "--all", "--count", "3", "--json").stdout.splitlines()]
        self.assertEqual([("put", True), ("delete", False), ("put", False)], [(r["operation"], r["record"] is not None) for r in shown])

    def test_a_bucket_that_is_missing(self):
        done = self.tool("watch", code=NOTHING)
        self.assertIn("there is no bucket %s" % BUCKET, done.stderr)

    def remake(self, between=lambda: None):
        test = self.fabric.client("test")
        config = test.request("$JS.API.STREAM.INFO.KV_" + BUCKET).json()["config"]
        made = {key: config[key] for key in ("name", "subjects", "max_msgs_per_subject", "discard", "storage", "allow_rollup_hdrs", "allow_direct", "deny_delete")}
        self.assertTrue(test.request("$JS.API.STREAM.DELETE.KV_" + BUCKET).json()["success"])
        between()
        self.assertNotIn("error", test.request("$JS.API.STREAM.CREATE.KV_" + BUCKET, json.dumps(made).encode()).json())

    def test_a_bucket_that_goes_away_is_waited_for(self):
        self.ready(serve)
        self.served("one", "two")
        process = self.watch("--json")
        self.remake(lambda: wait_for(lambda: "waiting for it" in process.output(), 10 * SLOW, lambda: "the loss\n" + process.tail()))
        self.forge("echo.anew")
        wait_for(lambda: [r["request_id"] for r in self.shown(process)] == ["anew"], 15 * SLOW, lambda: "its record\n" + process.tail())
        process.signal(signal.SIGTERM)
        self.assertEqual(0, process.ended())

    def test_a_bucket_that_is_made_anew_unseen_is_watched_from_its_start(self):
        self.ready(serve)
        self.served("one", "two")
        process = self.watch("--json")
        process.freeze()
        self.remake()
        process.thaw()
        self.forge("echo.anew")
        wait_for(lambda: [r["request_id"] for r in self.shown(process)] == ["anew"], 15 * SLOW, lambda: "its record\n" + process.tail())
        self.assertIn("begins anew", process.output())
        process.signal(signal.SIGTERM)
        self.assertEqual(0, process.ended())

    def test_ends_at_once_while_the_server_is_away(self):
        self.ready(serve)
        self.served("one")
        process = self.watch()
        self.fabric.server.freeze()
        process.signal(signal.SIGINT)
        self.assertEqual(0, process.ended(5))
        self.fabric.server.thaw()

    def test_usage(self):
        for argv in (("--worker", "a b"), ("--service", "*"), ("--outcome", "fine"), ("--count", "-1"), ("--bucket", "a.b")):
            self.tool("watch", *argv, code=USAGE)


class Explain(Commands):
    def explain(self, *argv, code=FINE):
        return self.tool("explain", "echo.request.x", *argv, code=code, user="client").stdout

    def test_choice_and_why(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin", session={"ttl_s": 60}), heartbeat={"ranks": 2, "capacity": 4, "adapters": ["fr"]})
        text = self.explain()
        chosen = text.split(",")[0]
        self.assertIn(chosen, ("w1", "w2"))
        self.assertIn("for reason policy: the service's policy chose it", text)
        self.assertIn("service echo, policy round_robin: each in turn, by weight", text)
        self.assertIn("workers: 2 discovered, 2 routable, 2 free", text)
        self.assertEqual(["WORKER", "STATE", "FREE", "LOAD", "OCCUPANCY", "CAPACITY", "WEIGHT"], text.splitlines()[3].split())
        self.assertEqual([chosen], [line.split()[1] for line in text.splitlines() if line.startswith("  ->")])
        self.assertTrue(self.explain("--target", "w2/1").startswith("w2 rank 1, for reason target: "))
        self.assertIn("policy round_robin: it was not asked", self.explain("--target", "w2/1"))
        self.assertTrue(self.explain("-H", "Waybill-Target: w1").startswith("w1"), "a header")
        self.client.request("echo.request.x", b"q", {"Waybill-Session": "s", "Waybill-Target": "w2"})
        self.assertTrue(self.explain("--session", "s").startswith("w2"))
        self.assertIn("for reason session: its session is bound to it", self.explain("--session", "s"))
        self.assertIn(self.json("explain", "explain", "echo.request.x", "--adapter", "fr", user="client")["worker"], ("w1", "w2"))
        self.assertEqual([1], [len(w.attempts) for w in self.workers if w.id == "w2"])  # nothing was sent

    def test_nobody_and_why(self):
        self.ready(serve)
        self.assertIn("would get 404 unknown_worker", self.explain("--target", "w9", code=ERROR))
        self.assertIn("would get 404 unknown_adapter", self.explain("--adapter", "none", code=ERROR))
        self.assertEqual("unknown_worker", self.json("explain", "explain", "echo.request.x", "--target", "w9", code=ERROR, user="client")["error"])

    def test_what_is_missing_is_said(self):
        self.assertIn("no router serves echo.request.x", self.tool("explain", "echo.request.x", code=NOTHING, user="client").stderr)
        self.assertIn("may not publish secret.x", self.tool("explain", "secret.x", "--timeout", "100", code=NO_LINK, user="client").stderr)
        self.tool("explain", code=USAGE)
        self.tool("explain", "echo.request.x", "-H", "no colon", code=USAGE)

    def test_what_answers_without_being_a_router(self):
        test = self.fabric.client("test")
        test.subscribe("echo.request.x", callback=lambda m: test.publish(m.reply, b"hello"))
        test.flush()
        self.assertIn("is no router", self.tool("explain", "echo.request.x", code=ERROR, user="client").stderr)


HALF_PUBLISH, HALF_SUBSCRIBE = operator_permissions()
HALF = user("half", ([s for s in HALF_PUBLISH if s not in ("%s.admin.show.>" % PREFIX, "%s.admin.do.>" % PREFIX)] + ["$KV.%s.>" % BUCKET], ["_INBOX.>"]))
POOR = user("poor", router_permissions({"echo": ["echo.request.>"]}, "router-1", buckets=(BUCKET,)))
STATIC = user("legacy", cluster.static_permissions("echo", "old", "legacy.echo"))
DEAF = user("deaf", (HALF_PUBLISH, ["%s.event.>" % PREFIX]))


class Doctor(Commands):
    fabric_options = {"extra_users": (HALF, DEAF, POOR, STATIC)}

    def doctor(self, *argv, code=FINE, user="operator"):
        self.found = self.json("doctor", "doctor", *argv, code=code, user=user)
        counts = [len([f for f in self.found["findings"] if f["verdict"] == verdict]) for verdict in ("ok", "warn", "fail")]
        self.assertEqual([self.found[verdict] for verdict in ("ok", "warn", "fail")], counts)
        if code is not None:
            self.assertEqual(code == UNHEALTHY, self.found["fail"] > 0)
        for finding in self.found["findings"]:
            if finding["verdict"] != "ok":
                self.assertTrue(finding["advice"], finding)
        return self.found

    def said(self, check, verdict=None):
        return [f["text"] for f in self.found["findings"] if f["check"] == check and verdict in (None, f["verdict"])]

    def assertSaid(self, check, verdict, part):
        self.assertTrue([text for text in self.said(check, verdict) if part in text], (check, verdict, part, self.found["findings"]))

    def test_all_is_well(self):
        self.ready(serve, serve, service=self.fabric.service(session={"ttl_s": 60}))
        self.served("d-1", **{"Waybill-Session": "s"})
        self.doctor()
        self.assertEqual([], [f for f in self.found["findings"] if f["verdict"] != "ok"])
        self.assertSaid("server", "ok", "nats-server " + cluster.servers.version_of(self.fabric.binary))
        for check, part in (("jetstream", "enabled"), ("streams", "none captures waybill.worker.>"), ("bucket", BUCKET + " exists"), ("bucket", SESSIONS + " exists"),
                            ("bucket settings", "history 2, ttl 3600 s, file, replicas 1"), ("router", "router-1 answers"), ("service", "echo, by router-1: 2 workers"),
                            ("worker", "w1 of echo"), ("worker", "w2 of echo"), ("no_responders", "a 503 comes"), ("clock of a router", "router-1 agrees"),
                            ("right to publish", "$JS.API.STREAM.MSG.GET.KV_" + BUCKET), ("right to subscribe", "waybill.event.>"), ("right too many", "none of ")):
            self.assertSaid(check, "ok", part)
        text = self.tool("doctor").stdout
        self.assertRegex(text.splitlines()[-1], r"^\d+ ok, 0 to look at, 0 failed$")
        self.assertNotIn("\033", text)

    def test_nothing_is_there(self):
        self.doctor(code=UNHEALTHY)
        self.assertSaid("router", "fail", "none answers on waybill.admin.show.stats")
        self.assertSaid("bucket", "warn", BUCKET + " does not exist")
        lines = self.tool("doctor", code=UNHEALTHY).stdout.splitlines()
        place, = [n for n, line in enumerate(lines) if line.startswith("fail  router ")]
        self.assertIn("-> start waybilld", lines[place + 1])

    def test_no_server(self):
        nowhere = "nats://127.0.0.1:%d" % cluster.free_port()
        done = self.tool("doctor", "--server", nowhere, code=NO_LINK)
        self.assertIn("cannot connect to " + nowhere, done.stderr)
        self.assertIn("fail  connection", done.stdout)
        found = self.json("doctor", "doctor", "--server", nowhere, code=NO_LINK)
        self.assertEqual([("connection", "fail")], [(f["check"], f["verdict"]) for f in found["findings"]])

    def test_a_service_without_workers(self):
        self.fabric.router(services=[self.fabric.service()])
        self.doctor(code=UNHEALTHY)
        self.assertSaid("service", "fail", "echo, by router-1: 0 workers discovered")

    def test_an_ejected_worker(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin"))
        self.workers[0].subscription.unsubscribe()
        self.workers[0].client.flush()
        self.workers[0]._stop.set()
        self.client.request("echo.request.x", b"1"), self.client.request("echo.request.x", b"2")
        wait_for(lambda: self.fabric.known(self.router)["w1"]["standing"] == "ejected", 5 * SLOW, "ejection")
        self.doctor()
        self.assertSaid("worker", "warn", "w1 of echo, by router-1: ejected")
        self.assertSaid("worker", "ok", "w2 of echo")

    def test_rights_that_are_missing_or_too_many_are_named_one_by_one(self):
        self.ready(serve)
        self.served("d-1")
        self.doctor(code=UNHEALTHY, user="half")
        for subject in ("waybill.admin.show.workers", "waybill.admin.show.stats", "waybill.admin.show.sessions"):
            self.assertSaid("right to publish", "fail", subject + " is denied")
        self.assertSaid("right to publish", "warn", "waybill.admin.do.cancel is denied")
        self.assertSaid("right to subscribe", "fail", "waybill.event.> is denied")
        self.assertSaid("right to publish", "ok", "$JS.API.STREAM.NAMES")
        self.assertEqual(["may publish $KV.%s.waybill-doctor: could forge a record" % BUCKET], self.said("right too many"))
        self.doctor(code=UNHEALTHY, user="deaf")
        self.assertSaid("right to subscribe", "fail", "_INBOX.waybill-doctor is denied")
        self.doctor(user="test")
        self.assertSaid("right too many", "warn", "these credentials may do everything")

    def test_each_role_with_its_own_credentials(self):
        self.ready(serve)
        for argv, name in ((("--as", "client", "--service", "echo", "--subject", "echo.request.>"), "client"),
                           (("--as", "worker", "--service", "echo", "--worker", "w2"), "echo-w2"),
                           (("--as", "static", "--service", "echo", "--worker", "old", "--subject", "legacy.echo"), "legacy"),
                           (("--as", "router", "--router", "router-2", "--service", "echo", "--subject", "echo.request.>"), "router-2")):
            with self.subTest(role=argv[1]):
                self.doctor(*argv, user=name)
                self.assertEqual([], [f for f in self.found["findings"] if f["verdict"] != "ok"])
        self.doctor("--as", "worker", "--service", "echo", "--worker", "w1", user="echo-w2", code=UNHEALTHY)
        for subject in ("waybill.heartbeat.echo.w1", "waybill.reply.echo.w1.waybill-doctor.waybill-doctor"):
            self.assertSaid("right to publish", "fail", subject + " is denied")
        for subject in ("waybill.worker.echo.w1", "waybill.worker.echo.w1.cancel"):
            self.assertSaid("right to subscribe", "fail", subject + " is denied")

    def test_trying_a_right_to_publish_publishes_nothing(self):
        everything = []
        self.fabric.client("test").subscribe(">", callback=everything.append)
        self.doctor("--as", "worker", "--service", "echo", "--worker", "w2", user="echo-w2")
        self.doctor("--as", "client", "--service", "echo", "--subject", "echo.request.>", user="client")
        last = self.fabric.clients[-1]
        last.publish("the.end")
        wait_for(lambda: [m for m in everything if m.subject == "the.end"], 5 * SLOW, "the last message")
        self.assertEqual(["the.end"], [m.subject for m in everything])

    def test_a_listener_makes_503_blind(self):
        test = self.fabric.client("test")
        test.subscribe("waybill.>")
        test.flush()
        self.ready(serve)
        self.doctor(user="test")
        self.assertSaid("no_responders", "warn", "blind: no 503 comes")
        wait_for(lambda: self.router.count("no_responders_blind"), 15 * SLOW, "the router's check")
        self.doctor()
        self.assertSaid("no_responders", "warn", "blind, say the routers")

    def test_a_stream_that_captures_worker_subjects(self):
        test = self.fabric.client("test")
        made = test.request("$JS.API.STREAM.CREATE.GREEDY", json.dumps({"name": "GREEDY", "subjects": ["waybill.worker.echo.*"], "storage": "memory"}).encode()).json()
        self.assertNotIn("error", made)
        self.ready(serve)
        self.doctor()
        self.assertSaid("streams", "warn", "stream GREEDY captures waybill.worker.>")

    def make_bucket(self, **settings):
        config = {"name": "KV_" + BUCKET, "subjects": ["$KV.%s.>" % BUCKET], "max_msgs_per_subject": 2, "max_age": HOUR_S * 10 ** 9, "max_bytes": 1 << 30,
                  "storage": "file", "allow_direct": True, "discard": "new", **settings}
        made = self.fabric.client("test").request("$JS.API.STREAM.CREATE.KV_" + BUCKET, json.dumps(config).encode()).json()
        self.assertNotIn("error", made)

    def test_a_bucket_with_other_settings(self):
        self.make_bucket(max_msgs_per_subject=5, max_age=60 * 10 ** 9, storage="memory")
        self.ready(serve)
        self.doctor()
        for part in ("history is 5, wanted is 2", "ttl_s is 60, wanted is 3600", "storage is memory, wanted is file"):
            self.assertSaid("bucket settings", "warn", part)
        path = os.path.join(self.fabric.dir, "wanted.json")
        with open(path, "w") as f:
            f.write('{ // as it is\n "attribution": {"history": 5, "ttl_s": 60, "storage": "memory"},\n /* and */ "services": [{"name": "echo", "subjects": ["echo.request.>"]}]}')
        self.doctor("--config", path)
        self.assertEqual([], self.said("bucket settings", "warn"))
        self.assertSaid("bucket settings", "ok", "history 5, ttl 60 s, memory")
        self.doctor("--as", "client", "--config", path, user="client")
        self.assertSaid("right to publish", "ok", "echo.request.x")

    def test_a_full_bucket(self):
        self.make_bucket(max_bytes=65536)
        self.ready(serve)
        self.forge("echo.big", subject="echo.request." + "x" * 57000)
        self.doctor()
        self.assertSaid("bucket room", "warn", "% full")
        self.forge("echo.bigger", subject="echo.request." + "x" * 5000)
        self.doctor(code=UNHEALTHY)
        self.assertSaid("bucket room", "fail", "% full")

    def test_clocks_that_are_wrong(self):
        self.ready(serve)
        self.forge("echo.a", router="early", received_at=at(HOUR_S))
        self.forge("echo.b", router="late", received_at=at(-HOUR_S))
        self.forge("echo.c", router="right")
        self.forge("echo.d", router="right", received_at=at(-HOUR_S), finished_at=at(0))
        self.doctor(code=UNHEALTHY)
        self.assertSaid("clock of a router", "fail", "early is 35")
        self.assertSaid("clock of a router", "fail", "behind the server's")
        self.assertSaid("clock of a router", "ok", "right agrees")
        self.assertEqual(2, len(self.said("clock of a router", "fail")))

    def test_a_worker_from_the_future(self):
        self.ready(serve, heartbeat={"epoch": int((time.time() + HOUR_S) * 1000)})
        self.doctor()
        self.assertSaid("clock of a worker", "warn", "w1 of echo began ")

    def test_what_the_routers_count(self):
        self.ready(serve)
        self.workers[0].client.publish("waybill.heartbeat.echo.w1", b"nonsense")
        self.workers[0].client.flush()
        wait_for(lambda: self.router.count("heartbeats_malformed"), 5 * SLOW, "the count")
        self.doctor()
        self.assertSaid("router", "warn", "router-1: 1 heartbeats were malformed")

    def test_sessions_that_are_not_shared(self):
        self.fabric.router(services=[self.fabric.service(session={"ttl_s": 60})], env=self.fabric.env("poor"))
        self.fabric.raw_worker("w1", serve)
        self.doctor(code=None)
        self.assertSaid("router", "warn", "router-1 does not share its sessions")
        self.assertSaid("bucket", "warn", SESSIONS + " does not exist")

    def test_usage(self):
        for argv in (("--as", "king"), ("--as", "client"), ("--as", "worker", "--service", "echo"), ("--as", "router"), ("--as", "static", "--service", "echo", "--worker", "w"), ("--router", "a b"),
                     ("--config", "/nowhere"), ("extra",)):
            self.tool("doctor", *argv, code=USAGE)


class OnThreeServers(OnCluster, Commands):
    """The tool knows the first one, which stays."""

    def told(self, request_id):
        done = self.fabric.tool("who", request_id, "--json", user="operator", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["request_id"] == request_id

    def test_a_replica_that_is_away_and_a_watch_that_goes_on(self):
        config = os.path.join(self.fabric.dir, "wanted.json")
        with open(config, "w") as f:
            json.dump({"attribution": {"replicas": 3}}, f)
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "before"}, bound=20 * SLOW)
        wait_for(lambda: self.told("before"), 60 * SLOW, "the record")
        process = Process(self.fabric, "watch", [program("waybill"), "watch", "--json"], self.fabric.env("operator"))
        wait_for(lambda: "watching bucket" in process.output(), 20 * SLOW, lambda: "a watch\n" + process.tail())
        self.fabric.members[2].kill()

        def away():
            found = json.loads(self.fabric.tool("doctor", "--config", config, "--json", user="operator", check=False).stdout)["findings"]
            return [f for f in found if f["check"] == "bucket replicas" and f["verdict"] == "warn" and "member-2" in f["text"]]
        wait_for(away, 60 * SLOW, "the finding of a replica that is away")
        number = [0]

        def seen():
            number[0] += 1
            self.client.publish("echo.request.x", b"q", None, [("Waybill-Request-Id", "after-%d" % number[0])])
            return "echo.after-" in process.output()
        wait_for(seen, 60 * SLOW, lambda: "a record after the loss\n" + process.tail())
        process.signal(signal.SIGINT)
        self.assertEqual(0, process.ended())


class Refused(Commands):
    def test_what_the_server_refuses_is_said_at_once(self):
        for argv, what in ((("workers",), "waybill.admin.show.workers"), (("stats",), "waybill.admin.show.stats"),
                           (("request", "secret.x", "q", "--timeout", "100"), "secret.x")):
            done = self.tool(*argv, code=None, user="client")
            self.assertNotEqual(FINE, done.returncode)
            self.assertIn('the server says: Permissions Violation for Publish to "%s"' % what, done.stderr)


class Json(Commands):
    """Every command with --json, by the schema."""

    def test_those_of_clients_and_operators(self):
        self.ready(serve, service=self.fabric.service(session={"ttl_s": 60}))
        for argv in (("workers",), ("stats",), ("sessions",)):
            self.json("operators", *argv)
        for argv in (("hello",), ("hello", "--session", "s"), ("hello", "--target", "w9")):
            done = self.fabric.tool("request", "echo.request.x", *argv, "--json", check=False)
            self.valid("request", json.loads(done.stdout))
        self.workers[0].handler = lambda a: a.stream([b"1", b"2"])
        lines = self.fabric.tool("request", "echo.request.x", "q", "--stream", "-H", "Waybill-Replies: stream", "--json").stdout.splitlines()
        self.assertEqual([False, False, True], [self.valid("request", json.loads(line))["end"] for line in lines])
        self.assertFalse(self.json("cancel", "cancel", "none", "--service", "echo", "--timeout", "300", code=NOTHING)["cancelled"])

    def test_a_measurement(self):
        done = subprocess.run([program("waybill"), "bench", "--rounds", "1", "--run-ms", "10", "--json", "--nats-server", self.fabric.binary],
                              capture_output=True, text=True, timeout=100 * SLOW, env={**os.environ, "HOME": self.fabric.dir})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(1, self.valid("bench", json.loads(done.stdout))["rounds"])

    def test_a_worker(self):
        self.router = self.fabric.router(services=[self.fabric.service()])
        process = self.fabric.worker("w1", "--echo", "--json", known_to=[self.router])
        self.fabric.tool("request", "echo.request.x", "hello")
        self.assertEqual(0, process.terminate())
        lines = [self.valid("worker", json.loads(line)) for line in process.output().splitlines() if line.startswith("{")]
        self.assertEqual([("started", None), ("stopped", 1)], [(line["event"], line.get("served")) for line in lines])


class Screen(Commands):
    """What a terminal gets, and what a pipe."""

    def on_terminal(self, *argv, columns=80, user="operator", env=None, code=FINE):
        """What the tool writes to a terminal of so many columns: stdout and stderr together."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_") and k != "NO_COLOR"}
        environment.update(self.fabric.env(user), HOME=self.fabric.dir, TERM="xterm", **(env or {}))
        process = subprocess.Popen([program("waybill"), *argv], stdin=follower, stdout=follower, stderr=follower, env=environment)
        os.close(follower)
        text = b""
        try:
            while True:
                piece = os.read(leader, 65536)
                if not piece:
                    break
                text += piece
        except OSError:
            pass  # the end: nobody has the other side open
        os.close(leader)
        self.assertEqual(code, process.wait(20 * SLOW), text)
        return text.decode()

    def test_colour_on_a_terminal_only_and_not_with_no_color(self):
        self.ready(serve)
        self.served("c-1")
        for argv in (("doctor",), ("watch", "--all", "--count", "1"), ("trace", "c-1"), ("who", "c-1")):
            with self.subTest(argv=argv):
                self.assertIn("\033[", self.on_terminal(*argv))
                self.assertNotIn("\033[", self.on_terminal(*argv, env={"NO_COLOR": "1"}))
                self.assertNotIn("\033[", self.tool(*argv).stdout)

    def test_lines_fit_the_terminal(self):
        self.ready(serve)
        self.served("r" * 100)
        for argv in (("doctor",), ("watch", "--all", "--count", "1"), ("trace", "r" * 100), ("workers",), ("doctor", "--help"), ("help", "worker")):
            for columns in (60, 160):
                with self.subTest(argv=argv, columns=columns):
                    lines = self.on_terminal(*argv, columns=columns, env={"NO_COLOR": "1"}).replace("\r", "").splitlines()
                    self.assertEqual([], [line for line in lines if len(line) > columns])
                    if argv == ("workers",):
                        self.assertIn(["WORKER", "STATE", "STANDING"], [line.split()[:3] for line in lines])
                        self.assertEqual(columns < 160, any("not shown, for want of room: " in line for line in lines), lines)
        self.assertIn("r" * 100, self.tool("watch", "--all", "--count", "1").stdout)  # a pipe gets all of it

    def test_a_bar_while_many_requests_are_sent(self):
        self.ready(lambda a: threading.Timer(0.02, lambda: a.answer(b"x")).start())
        text = self.on_terminal("request", "echo.request.x", "q", "--count", "40", user="client")
        self.assertRegex(text, r"\r\[=* *\] \d+ of 40, \d+ s left")
        self.assertEqual(40, text.count("served by w1"))
        done = self.tool("request", "echo.request.x", "q", "--count", "40", user="client")
        self.assertNotIn(" of 40", done.stdout + done.stderr)


def commands():
    text = subprocess.run([program("waybill"), "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z]+) ", text, re.M)


def options_of(*argv):
    """{--option} of a program's help."""
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (?:-\w, |    )(--[\w-]+)", text, re.M))


class Completion(Commands):
    def bash(self, *line, env=None, name="waybill"):
        """What bash offers for the last word, the script sourced from the program as a user does it."""
        generate = "completion bash" if name == "waybill" else "--generate bash"
        script = 'source <("$0" %s); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _%s; printf "%%s\\n" "${COMPREPLY[@]}"' % (generate, name)
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("NATS_")}, **(env or {})}
        done = subprocess.run(["bash", "--norc", "-c", script, program(name), program(name), *line], capture_output=True, text=True, cwd=self.fabric.dir,
                              env=environment, timeout=20 * SLOW)
        self.assertEqual("", done.stderr)
        return [word for word in done.stdout.splitlines() if word]

    def test_bash_knows_every_command_and_every_option_of_each(self):
        self.assertGreaterEqual(len(commands()), 14)
        self.assertEqual(set(commands()) | {"help", "--help", "--version"}, set(self.bash("")))
        self.assertEqual(["doctor"], self.bash("do"))
        for command in commands():
            with self.subTest(command=command):
                self.assertEqual(options_of(program("waybill"), command, "--help"), set(self.bash(command, "--")))
        self.assertEqual(options_of(program("waybilld"), "--help"), set(self.bash("--", name="waybilld")))

    def test_bash_knows_what_a_value_may_be(self):
        self.assertEqual(["operator", "client", "worker", "static", "router"], self.bash("doctor", "--as", ""))
        self.assertEqual(["worker"], self.bash("doctor", "--as", "=", "w"))
        self.assertEqual(["client"], self.bash("doctor", "--service", "x", "--as", "cl"))
        self.assertEqual(["low", "normal", "high"], self.bash("request", "x.y", "--priority", ""))
        self.assertEqual(["bash", "zsh", "fish"], self.bash("completion", ""))
        self.assertEqual(["unbind"], self.bash("sessions", "u"))
        self.assertEqual([], self.bash("request", "--id", ""))
        self.assertEqual(["hash"], self.bash("--policy", "h", name="waybilld"))
        with open(os.path.join(self.fabric.dir, "some.creds"), "w"):
            pass
        self.assertEqual(["some.creds"], self.bash("who", "--creds", "some"))
        self.assertEqual(["some.creds"], self.bash("-c", "some.c", name="waybilld"))

    def test_bash_asks_the_routers_for_names(self):
        self.ready(serve, serve)
        env = self.fabric.env("operator")
        self.assertEqual(["echo"], self.bash("who", "r", "--service", "", env=env))
        self.assertEqual(["w1", "w2"], sorted(self.bash("watch", "--worker", "", env=env)))
        self.assertEqual(["router-1"], self.bash("stats", "--router", "r", env=env))
        self.assertEqual([], self.bash("stats", "--router", "", env={"NATS_URL": "nats://127.0.0.1:1"}))

    def test_zsh_and_fish(self):
        for shell, check in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            for name, argv in (("waybill", ["completion", shell]), ("waybilld", ["--generate", shell])):
                text = subprocess.run([program(name), *argv], capture_output=True, text=True, check=True).stdout
                options = options_of(program("waybill"), "doctor", "--help") if name == "waybill" else options_of(program("waybilld"), "--help")
                for option in options:
                    self.assertIn(option if shell == "zsh" else "-l %s " % option[2:], text + " ")
                if shutil.which(shell):
                    path = os.path.join(self.fabric.dir, "made." + shell)
                    with open(path, "w") as f:
                        f.write(text)
                    done = subprocess.run([shell, *check, path], capture_output=True, text=True)
                    self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_usage(self):
        self.tool("completion", code=USAGE)
        self.tool("completion", "csh", code=USAGE)
        self.tool("request", "a.b", "--priority", "highest", code=USAGE)
        self.tool("doctor", "--as", "king", code=USAGE)
        self.assertIn("expected one of low normal high", self.tool("request", "a.b", "--priority", "highest", code=USAGE).stderr)


class Manual(Commands):
    def pages(self):
        """{name: roff}"""
        made = {"waybill": subprocess.run([program("waybill"), "man"], capture_output=True, text=True, check=True).stdout,
                "waybilld": subprocess.run([program("waybilld"), "--generate", "man"], capture_output=True, text=True, check=True).stdout}
        for command in commands():
            made["waybill-" + command] = self.tool("man", command).stdout
        return made

    def read(self, roff):
        """As man shows it, without a word of warning."""
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-c", "-P-b", "-P-u", "-rLL=200n"], input=roff, capture_output=True, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout.replace("\u2010", "-").replace("\u2212", "-")

    def test_every_page_is_sound_and_tells_every_option_and_exit_code(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for name, roff in self.pages().items():
            with self.subTest(page=name):
                text = self.read(roff)
                for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
                    self.assertRegex(text, "(?m)^(COMMON )?%s$" % section)
                argv = [program("waybilld"), "--help"] if name == "waybilld" else [program("waybill"), *(["help", name[8:]] if "-" in name else ["stats", "--help"])]
                options = options_of(*argv) - ({"--router", "--all", "--timeout"} if name == "waybill" else set())
                self.assertEqual(set(), {option for option in options if not re.search(r"(?m)^ +(-\w, )?%s\b" % option, text)})
                for code in range(3 if name == "waybilld" else 6):
                    self.assertRegex(text, r"(?m)^ +%d  +\S" % code)
        self.assertIn("attribution.ttl_s", self.read(self.pages()["waybilld"]))

    def test_help_tells_exit_codes(self):
        for argv in (("--help",), ("help",), ("doctor", "--help"), ("help", "doctor")):
            text = self.tool(*argv).stdout
            for code in range(6):
                self.assertRegex(text, r"\b%d +\w" % code)
        self.assertEqual(self.tool("doctor", "--help").stdout, self.tool("help", "doctor").stdout)
        self.tool("help", "nonsense", code=USAGE)
        self.tool("man", "nonsense", code=NOTHING)

    def test_installed_where_man_and_bash_look(self):
        build = os.path.dirname(cluster.bin_dir())
        if not os.path.exists(os.path.join(build, "cmake_install.cmake")) or not shutil.which("man"):
            self.skipTest("no build tree, or no man")
        where = os.path.join(self.fabric.dir, "installed")
        subprocess.run(["cmake", "--install", build, "--prefix", where], check=True, capture_output=True)
        share = os.path.join(where, "share")
        for name in ["waybill", "waybilld"] + ["waybill-" + command for command in commands()]:
            found = subprocess.run(["man", "-M", os.path.join(share, "man"), "-w", name], capture_output=True, text=True)
            self.assertEqual(0, found.returncode, found.stderr)
        for path in ("bash-completion/completions/waybill", "bash-completion/completions/waybilld", "zsh/site-functions/_waybill", "zsh/site-functions/_waybilld",
                     "fish/vendor_completions.d/waybill.fish", "fish/vendor_completions.d/waybilld.fish"):
            with open(os.path.join(share, path)) as f:
                self.assertIn("complet" if "zsh" not in path else "#compdef", f.read())


if __name__ == "__main__":
    unittest.main()
