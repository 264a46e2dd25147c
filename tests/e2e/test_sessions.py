"""Session affinity (spec section 8) with one router and with three, as clients, workers and the bucket see it."""
import json
import threading
import time
import unittest

from case import SLOW, Case, Script, hold, refuse, serve, stays, wait_for
from support.cluster import PREFIX, SESSIONS

ONE = {"echo": ["echo.request.>"]}
THREE = {"echo": ["echo.r1.>", "echo.r2.>", "echo.r3.>"]}


def named(attempt):
    """Answers with the worker's name."""
    attempt.answer(attempt.worker.id.encode())


class Sessions(Case):
    session = {"ttl_s": 60}

    def begin(self, *handlers, session=None, heartbeat=None, **service):
        keys = {"policy": "round_robin", "session": {**self.session, **(session or {})}, **service}
        self.ready(*(handlers or (named, named, named)), service=self.fabric.service(**keys), heartbeat=heartbeat)
        self.test = self.fabric.client("test")
        return self.workers

    def ask(self, session="s", subject="echo.request.x", bound=10 * SLOW, client=None, **headers):
        given = {"Waybill-Session": session, **{"Waybill-" + k.replace("_", "-"): v for k, v in headers.items()}}
        return (client or self.client).request(subject, b"q", given, bound)

    def ask_many(self, count, session="s", subjects=("echo.request.x",), **headers):
        """All sent at once; the answers in the order of their arrival."""
        clients, answers, lock = [self.fabric.client() for _ in range(min(count, 10))], [], threading.Lock()
        inboxes = []
        for n in range(count):
            client = clients[n % len(clients)]
            inbox = "_INBOX.many%d.%d" % (id(answers), n)

            def on_answer(message):
                with lock:
                    answers.append(message)
            client.subscribe(inbox, callback=on_answer)
            inboxes.append((client, inbox))
        for client in clients:
            client.flush()
        for n, (client, inbox) in enumerate(inboxes):
            client.publish(subjects[n % len(subjects)], b"q", inbox,
                           [("Waybill-Session", session)] + [("Waybill-" + k, v) for k, v in headers.items()])
        wait_for(lambda: len(answers) == count, 20 * SLOW, lambda: "%d answers, got %d" % (count, len(answers)))
        return answers

    def held(self, session="s", service="echo", client=None):
        """What the bucket holds: (value or None, revision)."""
        key = "$KV.%s.%s.%s" % (SESSIONS, service, session)
        answer = (client or self.test).request("$JS.API.STREAM.MSG.GET.KV_" + SESSIONS, json.dumps({"last_by_subj": key}).encode()).json()
        if "message" not in answer:
            return None, 0
        import base64
        message = answer["message"]
        data = base64.b64decode(message.get("data", ""))
        return (json.loads(data) if data else None), message["seq"]

    def wait_bound(self, worker=None, session="s"):
        def bound():
            value, _ = self.held(session)
            return value and value["state"] == "bound" and (worker is None or value["worker"] == worker)
        wait_for(bound, 10 * SLOW, lambda: "binding of %s, not %r" % (session, self.held(session)))
        return self.held(session)[0]

    def wait_unbound(self, session="s", bound=10):
        wait_for(lambda: self.held(session)[0] is None, bound * SLOW, lambda: "no binding, not %r" % (self.held(session),))

    def show(self, router=None, session=None):
        router = router or self.router
        if self.fabric.operator is None:
            self.fabric.operator = self.fabric.client("operator")
        body = {"service": "echo", **({"session": session} if session else {})}
        answer = self.fabric.operator.request("%s.admin.show.sessions.%s" % (PREFIX, router.config["router"]["id"]), json.dumps(body).encode())
        return answer.json()

    def wait_shared(self, *routers):
        for router in routers or (self.router,):
            wait_for(lambda: self.show(router)["shared"], 10 * SLOW, lambda: "shared sessions\n" + router.tail())

    def session_count(self, name, router=None):
        return int((router or self.router).metrics()["waybill_sessions_%s_total" % name])


class Binding(Sessions):
    def test_all_requests_of_a_session_go_to_the_worker_that_answered_first(self):
        self.begin()
        first = self.ask()
        self.assertServed(first)
        for _ in range(20):
            self.assertServed(self.ask(), first.get("Waybill-Worker"))
        others = {self.ask("other-%d" % n).get("Waybill-Worker") for n in range(3)}
        self.assertEqual({"w1", "w2", "w3"}, others)
        self.assertEqual(20, self.session_count("hits"))

    def test_a_hundred_first_requests_at_once_end_on_one_worker(self):
        self.begin()
        answers = self.ask_many(100)
        self.assertEqual(1, len({a.get("Waybill-Worker") for a in answers}))
        self.assertEqual([], [a for a in answers if a.error])
        self.assertAtRest()

    def test_the_record_names_the_session_and_why(self):
        self.begin()
        self.wait_shared()
        self.ask("s-9", Request_Id="first")
        self.ask("s-9", Request_Id="second")
        self.assertEqual(("s-9", "policy"), tuple(self.bucket.record("first")[k] for k in ("session", "reason")))
        self.assertEqual(("s-9", "session"), tuple(self.bucket.record("second")[k] for k in ("session", "reason")))

    def test_the_claim_stands_in_the_bucket_before_the_choice_and_the_binding_after_the_answer(self):
        script = Script(hold)
        self.begin(script, script)
        self.wait_shared()
        self.client.publish("echo.request.x", b"q", "_INBOX.x", [("Waybill-Session", "s")])
        attempt = script.next()
        value, _ = self.held()
        self.assertEqual({"v": 1, "state": "init", "router": "router-1", "worker": None, "rank": None, "worker_epoch": None}, value)
        attempt.answer(b"yes")
        self.assertEqual(attempt.worker.id, self.wait_bound()["worker"])

    def test_an_error_that_is_no_refusal_is_an_answer_and_binds(self):
        self.begin(lambda a: a.error(500, "broken", b"x"), lambda a: a.error(500, "broken", b"x"))
        first = self.ask()
        self.assertEqual(first.get("Waybill-Worker"), self.ask().get("Waybill-Worker"))
        self.wait_bound(first.get("Waybill-Worker"))

    def test_names_of_any_form(self):
        self.begin()
        for name in ("a.b", "user@example.org/1", "*", ">", "=41", "x" * 256):
            first = self.ask(name).get("Waybill-Worker")
            self.assertIsNotNone(first)
            self.assertEqual({first}, {self.ask(name).get("Waybill-Worker") for _ in range(3)}, name)
        for name in ("a b", "", "x" * 257, "\u00e9"):
            self.assertError(self.ask(name), "bad_request")


if __name__ == "__main__":
    unittest.main()
