"""A worker by hand: JSON heartbeats, answers by whatever the test wants, under the worker's own permissions."""
import json
import threading
import time

from .cluster import PREFIX


class Attempt:
    """One request as the worker got it."""

    def __init__(self, worker, message):
        self.worker, self.message = worker, message
        self.data, self.headers, self.reply = message.data, message.headers, message.reply
        self.id = message.get("Waybill-Request-Id")

    def answer(self, data=b"", headers=None):
        self.worker.client.publish(self.reply, data, None, headers)

    def refuse(self, code=503, text="busy", data=b"", headers=()):
        self.answer(data, [("Nats-Service-Error", text), ("Nats-Service-Error-Code", code), *headers])

    error = refuse

    def stream(self, parts, numbered=True, end=True):
        """All parts in one write; then the empty end, numbered too."""
        frames = []
        for number, part in enumerate(parts, 1):
            frames.append(self.worker.client.frame(self.reply, part, None,
                                                   [("Waybill-Seq", number)] if numbered else None))
        if end:
            frames.append(self.worker.client.frame(
                self.reply, b"", None, [("Waybill-Seq", len(frames) + 1)] if numbered else None))
        self.worker.client.send(b"".join(frames))


class RawWorker:
    """handler(attempt) runs on the client's reader thread; None: attempts only gather."""

    def __init__(self, fabric, service, worker, handler=None, heartbeat=None, user=None):
        self.fabric, self.service, self.id, self.handler = fabric, service, worker, handler
        self.client = fabric.client(user or "%s-%s" % (service, worker))
        self.fields = {"v": 1, "epoch": int(time.time() * 1000), "state": "ready", "interval_ms": 1000,
                       **(heartbeat or {})}
        self.attempts, self.cancels = [], []
        self.subject = "%s.worker.%s.%s" % (PREFIX, service, worker)
        self.subscription = self.client.subscribe(self.subject, callback=self._on_request)
        self.client.subscribe(self.subject + ".cancel", callback=self.cancels.append)
        self.client.subscribe(PREFIX + ".announce", callback=lambda m: self.beat())
        self._stop = threading.Event()
        self.beat()
        self.client.flush()
        self._thread = threading.Thread(target=self._beats, daemon=True)
        self._thread.start()

    def _on_request(self, message):
        attempt = Attempt(self, message)
        self.attempts.append(attempt)
        if self.handler:
            self.handler(attempt)

    def _beats(self):
        while not self._stop.wait(self.fields["interval_ms"] / 1000):
            try:
                self.beat()
            except OSError:
                return

    def beat(self, **changes):
        """A heartbeat now; changes stay."""
        self.fields.update(changes)
        self.beat_raw(json.dumps(self.fields).encode())

    def beat_raw(self, payload):
        self.client.publish("%s.heartbeat.%s.%s" % (PREFIX, self.service, self.id), payload)

    def unsubscribe(self):
        """Deaf to requests, still beating."""
        self.subscription.unsubscribe()
        self.client.flush()

    def silence(self):
        """No more heartbeats, still serving."""
        self._stop.set()

    def next(self, bound=10.0, number=1):
        """The number-th attempt ever received."""
        from .waiting import wait_for
        wait_for(lambda: len(self.attempts) >= number, bound,
                 lambda: "attempt %d at %s (got %d)" % (number, self.id, len(self.attempts)), self.client.arrived)
        return self.attempts[number - 1]

    def leave(self):
        self.beat(state="leaving")
        self.vanish()

    def vanish(self):
        """Gone without a word."""
        self._stop.set()
        self.client.close()
