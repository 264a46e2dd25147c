"""A raw NATS client on the standard library: what is sent is sent byte for byte, what comes is kept as it came.

One reader thread per client parses the protocol and puts each message on its subscription's list, or calls its
callback. The client does not reconnect and hides nothing: every -ERR is in `errors`."""
import itertools
import json
import secrets
import socket
import ssl
import threading

from .waiting import wait_for


class Message:
    __slots__ = ("subject", "reply", "raw_headers", "data", "status", "headers")

    def __init__(self, subject, reply, raw_headers, data):
        self.subject, self.reply, self.raw_headers, self.data = subject, reply, raw_headers, data
        self.status, self.headers = None, []
        if raw_headers:
            lines = raw_headers.decode("utf-8", "surrogateescape").split("\r\n")
            first = lines[0][len("NATS/1.0"):].split()
            if first and first[0].isdigit():
                self.status = int(first[0])
            for line in lines[1:]:
                if line:
                    name, _, value = line.partition(":")
                    self.headers.append((name, value.strip(" ")))

    def get(self, name, default=None):
        for key, value in self.headers:
            if key == name:
                return value
        return default

    def all(self, name):
        return [value for key, value in self.headers if key == name]

    def json(self):
        return json.loads(self.data)

    @property
    def error(self):
        return self.get("Waybill-Error")

    @property
    def code(self):
        code = self.get("Nats-Service-Error-Code")
        return int(code) if code else None

    def __repr__(self):
        return "<%s reply=%s status=%s headers=%r data=%r>" % (
            self.subject, self.reply, self.status, self.headers, self.data[:200])


def header_block(headers):
    """bytes as they are; else [(name, value)], each str or bytes, or a dict."""
    if headers is None or isinstance(headers, bytes):
        return headers
    if isinstance(headers, dict):
        headers = headers.items()
    block = b"NATS/1.0\r\n"
    for name, value in headers:
        block += b"%s: %s\r\n" % (_bytes(name), _bytes(value))
    return block + b"\r\n"


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


class Subscription:
    def __init__(self, client, sid, subject, queue, callback):
        self.client, self.sid, self.subject, self.queue, self.callback = client, sid, subject, queue, callback
        self.messages = []
        self._taken = 0

    def next(self, bound=5.0):
        """The next message not yet taken."""
        def there():
            if len(self.messages) > self._taken:
                return True
            if self.client.closed:
                raise ConnectionError("the connection closed; nothing on %s" % self.subject)
            return False
        wait_for(there, bound, lambda: "message on %s (got %d)" % (self.subject, len(self.messages)), self.client.arrived)
        self._taken += 1
        return self.messages[self._taken - 1]

    def wait_count(self, count, bound=10.0):
        wait_for(lambda: len(self.messages) >= count, bound,
                 lambda: "%d messages on %s (got %d)" % (count, self.subject, len(self.messages)),
                 self.client.arrived)
        return self.messages

    def unsubscribe(self):
        self.client.send(b"UNSUB %d\r\n" % self.sid)
        self.client.subscriptions.pop(self.sid, None)


class Client:
    def __init__(self, port, user=None, password=None, host="127.0.0.1", tls=None, inbox="_INBOX",
                 receive_buffer=None, name="test", tls_first=False, sign_in=None):
        """sign_in(nonce) gives fields of CONNECT in place of user and password."""
        self.errors, self.subscriptions = [], {}
        self.arrived = threading.Condition()
        self.info, self.closed = None, False
        self._sids, self._send_lock = itertools.count(1), threading.Lock()
        self._pings = self._pongs = 0
        self._reading = threading.Event()
        self._reading.set()
        self.inbox_root = "%s.%s" % (inbox, secrets.token_hex(8))
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(10)
        self._socket.connect((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        if tls_first:
            self._socket, tls = tls.wrap_socket(self._socket, server_hostname="localhost"), None
        line = self._read_line()
        if not line.startswith(b"INFO "):
            raise ConnectionError("no INFO: %r" % line)
        self.info = json.loads(line[5:])
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "echo": True,
                   "protocol": 1, "lang": "test", "version": "1", "name": name}
        if sign_in is not None:
            options.update(sign_in(self.info.get("nonce", "")))
        elif user is not None:
            options.update(user=user, **{"pass": password})
        self.send(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        line = self._read_line()
        while not line.startswith(b"PONG"):
            if line.startswith(b"-ERR"):
                self._socket.close()
                raise ConnectionError(line.decode().strip())
            line = self._read_line()
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    # -- out ---------------------------------------------------------------------------------------------------

    def send(self, data):
        with self._send_lock:
            self._socket.sendall(data)

    def publish(self, subject, data=b"", reply=None, headers=None):
        self.send(self.frame(subject, data, reply, headers))

    @staticmethod
    def frame(subject, data=b"", reply=None, headers=None):
        """The bytes of one publish; several joined go out in one write."""
        data, block = _bytes(data), header_block(headers)
        words = _bytes(subject) + (b" " + _bytes(reply) if reply else b"")
        if block is None:
            return b"PUB %s %d\r\n%s\r\n" % (words, len(data), data)
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (words, len(block), len(block) + len(data), block, data)

    def subscribe(self, subject, queue=None, callback=None):
        sub = Subscription(self, next(self._sids), subject, queue, callback)
        self.subscriptions[sub.sid] = sub
        self.send(b"SUB %s %s%d\r\n" % (_bytes(subject), _bytes(queue) + b" " if queue else b"", sub.sid))
        return sub

    def flush(self, bound=10.0):
        """All that was sent before is processed by the server, all it had sent before has arrived."""
        with self.arrived:
            self._pings += 1
            mine = self._pings
        self.send(b"PING\r\n")
        wait_for(lambda: self._pongs >= mine or self.closed, bound, "PONG", self.arrived)
        if self._pongs < mine:
            raise ConnectionError("closed: %s" % self.errors)

    def new_inbox(self):
        return "%s.%s" % (self.inbox_root, secrets.token_hex(8))

    def start(self, subject, data=b"", headers=None):
        """A request whose messages gather on the returned subscription."""
        sub = self.subscribe(self.new_inbox())
        self.publish(subject, data, sub.subject, headers)
        return sub

    def request(self, subject, data=b"", headers=None, bound=10.0):
        sub = self.start(subject, data, headers)
        try:
            return sub.next(bound)
        finally:
            sub.unsubscribe()

    def request_stream(self, subject, data=b"", headers=None, bound=30.0):
        """All messages up to and with the empty end."""
        sub = self.start(subject, data, headers)
        return wait_stream(sub, bound)

    # -- in ----------------------------------------------------------------------------------------------------

    def pause(self):
        """Reads no more: the frozen client."""
        self._reading.clear()

    def resume(self):
        self._reading.set()

    def close(self):
        self.closed = True
        self._reading.set()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(5)
        self._socket.close()

    def _more(self):
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the server")
        self._buffer += data

    def _read_line(self):
        while b"\r\n" not in self._buffer:
            self._more()
        line, self._buffer = self._buffer.split(b"\r\n", 1)
        return line

    def _read(self):
        buffer, at = bytearray(self._buffer), 0
        try:
            while True:
                at = self._parse(buffer, at)
                if at:
                    del buffer[:at]
                    at = 0
                self._reading.wait()
                data = self._socket.recv(1 << 18)
                if not data:
                    break
                buffer += data
        except (OSError, ValueError):
            pass
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()

    def _parse(self, buffer, at):
        woke = False
        while True:
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            words = bytes(buffer[at:end]).split(b" ")
            verb = words[0]
            if verb in (b"MSG", b"HMSG"):
                with_headers = verb == b"HMSG"
                total = int(words[-1])
                head = int(words[-2]) if with_headers else 0
                if len(buffer) < end + 2 + total + 2:
                    break
                body = bytes(buffer[end + 2:end + 2 + total])
                reply_at = len(words) == (6 if with_headers else 5)
                message = Message(words[1].decode("utf-8", "surrogateescape"),
                                  words[3].decode("utf-8", "surrogateescape") if reply_at else None,
                                  body[:head], body[head:])
                self._deliver(int(words[2]), message)
                at = end + 2 + total + 2
                woke = True
                continue
            at = end + 2
            if verb == b"PING":
                self.send(b"PONG\r\n")
            elif verb == b"PONG":
                self._pongs += 1
                woke = True
            elif verb == b"-ERR":
                self.errors.append(b" ".join(words[1:]).decode())
                woke = True
            elif verb == b"INFO":
                self.info = json.loads(b" ".join(words[1:]))
        if woke:
            with self.arrived:
                self.arrived.notify_all()
        return at

    def _deliver(self, sid, message):
        sub = self.subscriptions.get(sid)
        if sub is None:
            return
        if sub.callback:
            sub.callback(message)
        else:
            sub.messages.append(message)


def wait_stream(sub, bound=30.0):
    def ended():
        return sub.messages and sub.messages[-1].get("Waybill-Outcome") is not None and not sub.messages[-1].data
    wait_for(ended, bound, lambda: "end of the stream on %s (%d messages, last %r)" % (
        sub.subject, len(sub.messages), sub.messages[-1] if sub.messages else None), sub.client.arrived)
    return list(sub.messages)


def tls_context(ca, cert=None, key=None):
    context = ssl.create_default_context(cafile=ca)
    if cert:
        context.load_cert_chain(cert, key)
    return context


