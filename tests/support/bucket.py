"""Sees the attribution bucket only through NATS: every write on the bucket's subjects as it is published, and the
stream's own content. The router's counters are not asked."""
import base64
import json
import threading

from .waiting import wait_for

NAME = "waybill_attribution"


class Write:
    def __init__(self, message):
        self.key = message.subject.split(".", 2)[2]
        self.headers = dict(message.headers)
        self.operation = self.headers.get("KV-Operation", "PUT")
        self.value = json.loads(message.data) if message.data else None
        self.raw = message.data

    def __repr__(self):
        return "<%s %s %s %r>" % (self.operation, self.key, self.headers, self.raw)


class Bucket:
    def __init__(self, client, name=NAME):
        self.client, self.name = client, name
        self.lock, self.writes = threading.Lock(), []
        self.unreadable = []
        client.subscribe("$KV.%s.>" % name, callback=self._on)
        client.flush()

    def _on(self, message):
        try:
            write = Write(message)
        except ValueError:
            self.unreadable.append(message)
            return
        with self.lock:
            self.writes.append(write)

    def of(self, request_id, service=None):
        """The history of published writes for a request id."""
        with self.lock:
            return [w for w in self.writes if w.key.split(".", 1)[1] == request_id
                    and (service is None or w.key.split(".", 1)[0] == service)]

    def wait(self, request_id, count=1, bound=10.0):
        wait_for(lambda: len(self.of(request_id)) >= count, bound,
                 lambda: "%d writes for %s (there are %r)" % (count, request_id, self.of(request_id)), self.client.arrived)
        return self.of(request_id)

    def record(self, request_id, bound=10.0):
        """The last record written for the id, one at least."""
        return self.wait(request_id, 1, bound)[-1].value

    def wait_outcome(self, request_id, outcome, bound=10.0):
        wait_for(lambda: any(w.value and w.value["outcome"] == outcome for w in self.of(request_id)), bound,
                 lambda: "record of %s with outcome %s (there are %r)" % (request_id, outcome, self.of(request_id)),
                 self.client.arrived)
        return self.of(request_id)[-1].value

    def stored(self):
        """What the stream really holds: [(sequence, key, value bytes, headers bytes)]."""
        info = self.client.request("$JS.API.STREAM.INFO.KV_" + self.name, b"").json()
        if "error" in info:
            return []
        found = []
        state = info["state"]
        for sequence in range(state["first_seq"] or 1, state["last_seq"] + 1):
            answer = self.client.request("$JS.API.STREAM.MSG.GET.KV_" + self.name,
                                         json.dumps({"seq": sequence}).encode()).json()
            if "message" in answer:
                m = answer["message"]
                found.append((sequence, m["subject"].split(".", 2)[2], base64.b64decode(m.get("data", "")),
                              base64.b64decode(m.get("hdrs", ""))))
        return found

    def stored_for(self, request_id):
        return [entry for entry in self.stored() if entry[1].split(".", 1)[1] == request_id]
