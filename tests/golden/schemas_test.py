#!/usr/bin/python3
"""The schemas are schemas, and agree with the golden vectors that the code is held to."""
import glob
import json
import os
import sys

import jsonschema

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMAS = os.path.join(HERE, "..", "..", "schemas")
# A good configuration: the contract's example, and every other key once.
CONFIG = {
    "router": {"id": "router-1", "prefix": "waybill", "drain_ms": 30000, "start_wait_ms": 2000, "reply_allow": []},
    "nats": {"url": "nats://127.0.0.1:4222"},
    "attribution": {"bucket": "waybill_attribution", "write": "async", "ttl_s": 3600, "history": 2, "replicas": 1, "storage": "file"},
    "limits": {"in_flight": 65536},
    "services": [{
        "name": "chat", "subjects": ["chat.request.>"], "policy": "least_loaded", "replies": "stream", "disclose": True,
        "retry": {"max_attempts": 3, "budget_percent": 20, "on_codes": [429, 503], "idempotent": False},
        "timeouts": {"first_reply_ms": 30000, "inactivity_ms": 30000, "total_ms": 0},
        "queue": {"limit": 0, "wait_ms": 5000},
        "session": {"ttl_s": 3600, "mode": "hard", "wait_ms": 1000, "on_busy": "wait"},
        "workers": [{"id": "legacy", "subject": "chat.legacy", "cancel_subject": "chat.legacy.cancel", "heartbeat": True}],
        "on_interrupt": "resume", "heartbeats": False, "slow_start_ms": 0, "ratio": 8, "queue_group": "mine",
        "accept": ["target", "retry"], "adapters": {"load": True},
        "eject": {"enabled": True, "min_ms": 1000, "max_ms": 60000, "timeouts": 5, "errors": 0, "max_percent": 50}}],
    "monitor": {"listen": "127.0.0.1:8090"}}
# What each of these puts in place of a good value is refused.
BAD_CONFIG = [
    (("services",), []), (("services", 0, "name"), "a b"), (("services", 0, "name"), "a.b"), (("services", 0, "name"), ""),
    (("services", 0, "name"), "a" * 65), (("services", 0, "name"), "a\r\nPUB x 0\r\n"), (("services", 0, "subjects"), ["a..b"]),
    (("services", 0, "subjects"), ["a b"]), (("services", 0, "subjects"), ["a\r\nPUB x 0\r\n"]), (("services", 0, "subjects"), ["a.>.b"]), (("services", 0, "subjects"), []),
    (("services", 0, "workers", 0, "subject"), "a.*"), (("services", 0, "workers", 0, "subject"), ">"),
    (("services", 0, "policy"), "best"), (("services", 0, "retry", "max_attempts"), 0), (("services", 0, "surprise"), 1),
    (("router", "prefix"), "$SYS"), (("router", "prefix"), "a.*"), (("router", "prefix"), "_INBOX.x"), (("router", "drain_ms"), "30s"), (("attribution", "write"), True), (("limits", "in_flight"), 0)]
ADVICE = {"request_id": "r-1", "service": "chat", "worker": "w1", "rank": None, "policy": "least_loaded", "reason": "policy",
          "candidates": [{"worker": "w1", "load": 0.01, "occupancy": 1, "capacity": 8, "weight": 100, "state": "ready", "free": True}],
          "discovered": 1, "routable": 1, "free": 1, "error": None}
SESSIONS = [({"v": 1, "state": "init", "router": "r", "worker": None, "rank": None}, True),
            ({"v": 1, "state": "bound", "router": "r", "worker": "w1", "rank": 0, "worker_epoch": 5}, True),
            ({"v": 1, "state": "bound", "router": "r", "worker": None, "rank": None}, False),
            ({"v": 1, "state": "init", "router": "r", "worker": "w1", "rank": None}, False)]

wrong = []


def validator(name):
    with open(os.path.join(SCHEMAS, name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def expect(check, instance, good, about):
    errors = [error.message for error in check.iter_errors(instance)]
    if good and errors:
        wrong.append("%s: refused: %s" % (about, errors[0]))
    if not good and not errors:
        wrong.append("%s: accepted" % about)


def load(path):
    with open(os.path.join(HERE, path), encoding="utf-8") as file:
        return json.load(file)


def heartbeats():
    check = validator("heartbeat")
    for vector in load("heartbeats.json"):
        if "json" not in vector or vector.get("refused", "").startswith("heartbeat:"):
            continue  # not JSON at all
        instance = json.loads(vector["json"])
        beyond = isinstance(instance.get("meta"), dict) or instance.get("ranks") in ([1], [0, 0])  # what a schema can't say
        expect(check, instance, "refused" not in vector or (beyond and instance.get("ranks") != [0, 0]), vector["name"])
        if "canonical" in vector:
            expect(check, json.loads(vector["canonical"]), True, vector["name"] + " (canonical)")


def written(kind, schema):
    check = validator(schema)
    for path in sorted(glob.glob(os.path.join(HERE, kind + "-*.json"))):
        instance = load(path)
        expect(check, instance, True, os.path.basename(path))
        expect(check, dict(instance, surprise=1), False, os.path.basename(path) + " with an unknown member")
        for name in instance:
            if name != "scope" or schema == "error":
                expect(check, {k: v for k, v in instance.items() if k != name}, False, "%s without %s" % (path, name))


def config():
    check = validator("config")
    expect(check, CONFIG, True, "config")
    for subjects in (["*"], [">"], ["a.*.b"], ["a.>"], ["a*.>b"]):
        expect(check, {"services": [{"name": "s", "subjects": subjects}]}, True, "subjects %s" % subjects)
    for path, value in BAD_CONFIG:
        bad = json.loads(json.dumps(CONFIG))
        place = bad
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        expect(check, bad, False, "config %s = %r" % (path, value))


heartbeats()
written("record", "attribution")
written("error", "error")
config()
expect(validator("advise"), ADVICE, True, "advice")
for binding, fine in SESSIONS:
    expect(validator("session"), binding, fine, "session %s" % binding)
print("\n".join(wrong) or "schemas: fine")
sys.exit(1 if wrong else 0)
