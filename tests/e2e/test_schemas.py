"""Everything JSON that leaves or enters, as the programs really write it, against the schemas, by a standard validator."""
import json
import os
import re
import unittest

import jsonschema

from case import SLOW, Case, Script, hold, refuse, serve, wait_for
from support import cluster, msgpack


def schema(name):
    with open(os.path.join(cluster.ROOT, "schemas", name + ".schema.json")) as f:
        loaded = json.load(f)
    kind = jsonschema.validators.validator_for(loaded)
    kind.check_schema(loaded)
    return kind(loaded)


class Samples(Case):
    def valid(self, name, value):
        errors = [e.message for e in schema(name).iter_errors(value)]
        self.assertEqual([], errors, value)

    def test_every_schema_is_a_schema(self):
        names = [n for n in os.listdir(os.path.join(cluster.ROOT, "schemas")) if n.endswith(".schema.json")]
        self.assertLessEqual({"config.schema.json", "heartbeat.schema.json", "attribution.schema.json", "error.schema.json",
                              "advise.schema.json", "session.schema.json", "admin.schema.json", "cli.schema.json"}, set(names))
        for name in names:
            schema(name[:-len(".schema.json")])

    def test_records(self):
        script = Script(refuse(503), serve)
        self.ready(script, script, service=self.fabric.service(), heartbeat={"ranks": 2, "adapters": ["fr"]})
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "s1", "Waybill-Adapter": "fr",
                                                    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        for worker in self.workers:
            worker.handler = lambda a: a.stream([b"1", b"2"])
        self.client.request_stream("echo.request.x", b"q", {"Waybill-Request-Id": "s2", "Waybill-Replies": "stream", "Waybill-Target": script.workers[1] + "/1"})
        for worker in self.workers:
            worker.handler = lambda a: a.error(500, "no")
        self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "s3", "Waybill-Target": script.workers[1]})
        self.bucket.wait_outcome("s1", "done")
        self.bucket.wait_outcome("s2", "done")
        self.bucket.wait_outcome("s3", "error")
        for write in self.bucket.writes:
            self.valid("attribution", write.value)
        self.assertGreaterEqual(len(self.bucket.writes), 4)

    def test_error_bodies(self):
        script = Script(hold)
        self.ready(script, script, service=self.fabric.service(timeouts={"first_reply_ms": 300}), heartbeat={"capacity": 1, "adapters": ["fr"]})
        answers = [
            self.client.request("echo.request.x", b"q", {"Waybill-Timeout-Ms": "x"}),
            self.client.request("echo.request.x", b"q", {"Waybill-Request-Id": "a b"}),
            self.client.request("echo.request.x", b"q", {"Waybill-Target": "w9"}),
            self.client.request("echo.request.x", b"q", {"Waybill-Idempotent": "true"}),
            self.client.request("echo.request.x", b"x" * (self.client.info["max_payload"] - 5)),
        ]
        self.assertEqual(["bad_request", "bad_request", "unknown_worker", "timeout", "payload_too_large"], [a.error for a in answers])
        first, second = self.client.start("echo.request.x", b"1"), self.client.start("echo.request.x", b"2")
        answers.append(self.client.request("echo.request.x", b"3"))
        self.assertEqual("overloaded", answers[-1].error)
        answers.append(self.client.request("echo.request.x", b"3", {"Waybill-Adapter": "fr"}))
        self.assertEqual("adapter", answers[-1].json()["scope"])
        answers.append(self.client.request("echo.request.x", b"3", {"Waybill-Adapter": "de"}))
        self.assertEqual("unknown_adapter", answers[-1].error)
        first.next(), second.next()
        for worker in self.workers:
            worker.unsubscribe()
        answers.append(self.client.request("echo.request.x", b"4"))
        self.assertEqual("no_worker", answers[-1].error)
        for answer in answers:
            self.valid("error", answer.json())

    def test_advice(self):
        self.ready(serve, serve, service=self.fabric.service(policy="round_robin", adapters={"load": True}), heartbeat={"adapters": ["fr"], "adapter_slots": 2})
        for adapter in ({}, {"Waybill-Adapter": "fr"}, {"Waybill-Adapter": "de"}):
            self.valid("advise", self.client.request("echo.request.x", b"q", {"Waybill-Advise": "true", **adapter}).json())

    def reply(self, what, body=b"{}"):
        """What the one router answers on admin.<what>, held against the schema's part for it and for no other."""
        operator = self.fabric.operator or self.fabric.client("operator")
        self.fabric.operator = operator
        value = operator.request("waybill.admin." + what, body if isinstance(body, bytes) else json.dumps(body).encode()).json()
        whole = schema("admin").schema
        kinds = [option["$ref"].rsplit("/", 1)[1] for option in whole["anyOf"]]
        fit = [kind for kind in kinds if jsonschema.Draft202012Validator({"$ref": "#/$defs/" + kind, "$defs": whole["$defs"]}).is_valid(value)]
        self.valid("admin", value)
        self.assertEqual(["error"] if "error" in value else [what.replace(".", "_")], fit, value)
        return value

    def test_replies_to_operators(self):
        services = [self.fabric.service(subjects=["echo.request.x"], policy="hash", session={"ttl_s": 60, "wait_ms": 60000}, queue={"limit": 5}, adapters={"load": True}),
                    {"name": "old", "subjects": ["echo.request.old"], "workers": [{"id": "legacy", "subject": "legacy"}]}]
        self.router = self.fabric.router(services=services)
        self.workers = [self.fabric.raw_worker("w1", serve, known_to=[self.router], ranks=4, adapters=["x/y:1", '"\\'], adapter_slots=3, **{"class": "gpu"}),
                        self.fabric.raw_worker("w2", serve, known_to=[self.router], state="busy", inflight=3)]
        self.client = self.fabric.client()
        for session in ("s", '"\\', "a.b"):
            self.client.request("echo.request.x", b"q", {"Waybill-Session": session, "Waybill-Adapter": "x/y:1", "Waybill-Hash-Key": "k"})
        self.workers[0].handler = hold
        for n in range(2):  # one owns a session, one waits for it
            self.client.start("echo.request.x", b"q", {"Waybill-Session": "held", "Waybill-Request-Id": "r%d" % n, "Waybill-Adapter": "x/y:1"})
        wait_for(lambda: any(s["waiters"] for s in self.reply("show.sessions")["sessions"]), 10 * SLOW, "a session with a waiter")
        shown = self.reply("show.sessions")["sessions"]
        self.assertEqual({"s", '"\\', "a.b", "held"}, {s["session"] for s in shown})
        self.assertEqual(1, len(self.reply("show.sessions", {"service": "echo", "session": "s"})["sessions"]))
        workers = self.reply("show.workers")["services"]
        self.assertEqual(["echo", "old"], [s["service"] for s in workers])
        self.assertEqual(2, len(workers[0]["adapters"]))
        self.assertEqual([], self.reply("show.workers", {"service": "none"})["services"])
        self.assertIn("sessions", self.reply("show.stats"))
        for session, unbound in (("s", True), ("s", False), ("never", False)):
            self.assertEqual(unbound, self.reply("do.unbind", {"service": "echo", "session": session})["unbound"])
        self.reply("do.cancel", {"service": "echo", "request_id": "r0"})
        for what, body in (("do.unbind", {}), ("do.unbind", {"service": "a b", "session": "s"}), ("do.unbind", {"service": "echo", "session": "a b"}),
                           ("show.workers", b"["), ("show.sessions", {"session": 1}), ("show.nothing", {}), ("do.nothing", {})):
            self.assertIn("error", self.reply(what, body), (what, body))

    def test_stats_of_a_router_without_sessions(self):
        self.ready(serve)
        self.assertNotIn("sessions", self.reply("show.stats"))
        self.assertEqual([], self.reply("show.sessions")["sessions"])
        self.assertFalse(self.reply("do.unbind", {"service": "echo", "session": "s"})["unbound"])

    def test_sessions_in_their_bucket(self):
        self.ready(serve, hold, service=self.fabric.service(session={"ttl_s": 60}), heartbeat={"ranks": 2})
        test = self.fabric.client("test")
        seen = test.subscribe("$KV.waybill_sessions.echo.>")
        test.flush()
        wait_for(lambda: self.reply("show.sessions")["shared"], 10 * SLOW, "shared sessions")
        self.client.request("echo.request.x", b"q", {"Waybill-Session": "s", "Waybill-Target": "w1/1"})
        wait_for(lambda: len(seen.messages) == 2, 10 * SLOW, "claim and binding")
        for message in seen.messages:
            self.valid("session", message.json())
        self.assertEqual(["init", "bound"], [message.json()["state"] for message in seen.messages])

    def test_heartbeats_of_the_worker_program(self):
        listener = self.fabric.client("test")
        seen = listener.subscribe("waybill.heartbeat.echo.w1")
        listener.flush()
        worker = self.fabric.worker("w1", "--echo", "--capacity", "3")
        first = seen.next(10 * SLOW).data
        value = json.loads(first) if first[:1] == b"{" else msgpack.loads(first)
        self.valid("heartbeat", value)
        self.assertEqual((1, 3), (value["v"], value["capacity"]))
        worker.terminate()
        wait_for(lambda: any(self.decoded(m.data).get("state") == "leaving" for m in seen.messages), 10 * SLOW, "leaving")
        for message in seen.messages:
            self.valid("heartbeat", self.decoded(message.data))

    @staticmethod
    def decoded(data):
        return json.loads(data) if data[:1] == b"{" else msgpack.loads(data)

    def test_heartbeats_in_msgpack_are_understood(self):
        self.ready(serve)
        tester = self.fabric.client("test")
        tester.publish("waybill.heartbeat.echo.w5", msgpack.dumps({
            "v": 1, "epoch": 7, "interval_ms": 60000, "weight": 250, "capacity": 4, "class": "gpu", "ranks": 2, "adapters": ["a", "b"],
            "inflight": 3, "inflight_by": {"router-9": 2}, "meta": {"k": "v"}, "unknown": [1, None, True]}))
        self.fabric.wait_known(self.router, "w5")
        shown = self.fabric.known(self.router)["w5"]
        self.assertEqual((250, 4, "gpu", 2, ["a", "b"], 2), tuple(shown[k] for k in ("weight", "capacity", "class", "ranks", "adapters", "others")))

    def test_configs(self):
        check = schema("config")
        good = self.fabric.router_config()
        self.assertEqual([], [e.message for e in check.iter_errors(good)])
        for bad in ({}, {"services": []}, {**good, "nonsense": 1}, {**good, "router": {"id": "a b"}}, {**good, "router": {"drain_ms": "1"}},
                    {**good, "services": [{"name": "x", "subjects": ["a"], "policy": "best"}]}):
            self.assertTrue(list(check.iter_errors(bad)), bad)

    def test_schema_and_check_agree(self):
        """What --check refuses for its form the schema refuses too, and the other way round."""
        from test_programs import daemon
        check = schema("config")
        base = {"services": [{"name": "x", "subjects": ["a.>"]}]}

        def changed(**keys):
            return {"services": [{**base["services"][0], **keys}]}
        for config in (base, changed(policy="hash"), changed(policy="best"), changed(replies="stream"), changed(replies=1), changed(disclose="yes"),
                       changed(retry={"max_attempts": 0}), changed(retry={"max_attempts": 3}), changed(retry={"on_codes": [200]}),
                       changed(timeouts={"first_reply_ms": -1}), changed(timeouts={"total_ms": 0}), changed(accept=["target", "x"]),
                       changed(accept=[]), changed(workers=[{"id": "a"}]), changed(workers=[{"id": "a", "subject": "s"}]),
                       changed(ratio=0), changed(eject={"enabled": False}), {**base, "router": {"id": "x" * 65}},
                       {**base, "attribution": {"write": "sometimes"}}, {**base, "attribution": {"history": 65}}, {**base, "limits": {"in_flight": 0}}):
            with self.subTest(config=config):
                self.assertEqual(not list(check.iter_errors(config)), daemon("--check", config=config).returncode == 0)

    # What each kind of value may be, and what it may just not be.
    TEXTS = ("", "a", "A-Z_9", "x" * 64, "x" * 65, "a b", "a.b", "a..b", ".a", "a.", "*", "a.*", "a.*.b", "a.>", ">", "a.>.b", "a*", "*a", "a>b.c",
             "a\tb", "a\nb", "a\x7f", "\u00e9", "a\u00a0b", "a\u2028b", "$a", "$SYS.x", "_INBOX", "_INBOX.x", "_INBOXES", "x" * 128, "x" * 129,
             "x" * 256, "x" * 257, "x" * 512, "x" * 513, "!", "~", "a/b:c")  # none ends in a line feed: Python takes `$` for the place before it, unlike JSON Schema
    OTHERS = (None, True, 1, -1, 1.5, 1e300, [], {}, "1", [1], ["a"], ["a", "a"], [[]], [None], [99], [100], [999], [1000], [100.5], list(range(100, 132)),
              list(range(100, 133)))

    @staticmethod
    def leaves(tree, node, at=()):
        """(path, schema) of every value; "[]" stands for an element of services or workers."""
        while "$ref" in node:
            node = {**tree["$defs"][node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
        if "properties" in node:
            for name, below in node["properties"].items():
                yield from Samples.leaves(tree, below, at + (name,))
        elif node.get("type") == "array" and at[-1] in ("services", "workers"):
            yield from Samples.leaves(tree, node["items"], at + ("[]",))
        else:
            yield at, node

    @staticmethod
    def samples(node):
        if node.get("type") == "array":
            lists = tuple([text] for text in Samples.TEXTS)
            return Samples.OTHERS + lists + tuple(["t%d" % n for n in range(node["maxItems"] + more)] for more in (0, 1) if "maxItems" in node)
        if node.get("type") == "integer":
            bounds = (node[name] + more for name in ("minimum", "maximum") for more in (-1, 0, 1))
            return Samples.OTHERS + tuple(n for n in bounds if abs(n) < 2 ** 53)
        return Samples.OTHERS + Samples.TEXTS + tuple(node.get("enum", ()))

    def test_every_bound_of_the_schema_is_that_of_check(self):
        """Each value of each key at its bounds, just over them, and of other types: the schema and --check say the same of its form. One file holds
        one value for every key, since --check tells all errors at once; what only several keys together show (overlaps, contradictions) it says in
        other words. Left out are the texts of which a pattern can't say all: addresses."""
        from test_programs import daemon
        check = schema("config")
        keys = [(path, self.samples(node)) for path, node in self.leaves(check.schema, check.schema)
                if path not in (("nats", "url"), ("monitor", "listen"))]
        wrong, seen = [], 0
        for n in range(max(len(values) for _, values in keys)):
            config, given = {"services": [{"workers": [{}]}]}, {}
            for path, values in keys:
                node = config
                for step in path[:-1]:
                    node = node[0] if step == "[]" else node.setdefault(step, {})
                node[path[-1]] = given[path] = values[n % len(values)]
            refused = {tuple("[]" if type(step) is int else step for step in error.absolute_path) for error in check.iter_errors(config)}
            said = daemon("--check", config=config).stderr
            for path, value in given.items():
                shown = re.escape(".".join(path).replace(".[]", "[0]"))
                lines = re.findall(r"^.*: %s(?:\[\d+\])*: (?:expected|stands in the list twice).*$" % shown, said, re.M)
                bad = any(one[:len(path)] == path for one in refused)
                seen += 1
                if bad != bool(lines):
                    wrong.append("%s = %.80r: the schema %s, --check says %.200r" % (
                        path, value, "refuses" if bad else "accepts", lines or "nothing"))
        self.assertEqual([], wrong, "\n".join(wrong))
        self.assertGreater(seen, 2000)


if __name__ == "__main__":
    unittest.main()
