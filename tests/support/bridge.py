"""JetStream on another server: what is published to $JS.API.> and $KV.> on the clients' server is asked of the other, and its answers go
back, and what it pushes to consumers. So the other can be frozen, and JetStream with it, while NATS itself runs on."""
import itertools
import json
import threading

from .nats import Client


class Bridge:
    def __init__(self, near, far_port, user, password):
        self.near, self.far = near, Client(far_port, user, password)
        self.lock, self.replies, self.tokens = threading.Lock(), {}, itertools.count(1)
        self.root = self.far.new_inbox()
        self.far.subscribe(self.root + ".*", callback=self._back)
        self.far.flush()
        for subject in ("$JS.API.>", "$JS.FC.>", "$KV.>"):
            near.subscribe(subject, callback=self._there)
        near.flush()

    def _there(self, message):
        reply = None
        if ".CONSUMER.CREATE." in message.subject:
            self.far.subscribe(json.loads(message.data)["config"]["deliver_subject"], callback=self._pushed)
        if message.reply:
            token = str(next(self.tokens))
            with self.lock:
                self.replies[token] = message.reply
            reply = self.root + "." + token
        self.far.publish(message.subject, message.data, reply, message.raw_headers or None)

    def _back(self, message):
        with self.lock:
            reply = self.replies.pop(message.subject.rsplit(".", 1)[1], None)
        if reply:
            self.near.publish(reply, message.data, None, message.raw_headers or None)

    def _pushed(self, message):
        self.near.publish(message.subject, message.data, message.reply, message.raw_headers or None)

    def close(self):
        self.far.close()
