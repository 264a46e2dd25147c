"""A wire between a router and its server, one for all of its connections. Which connection is which it reads from the name in CONNECT; so one
lane alone can be cut or frozen while the others stay. What a cut connection had in the wire is gone, as on a real one."""
import json
import socket
import threading


class Line:
    """One connection: two sockets, two threads that pump."""

    def __init__(self, proxy, near):
        self.proxy, self.near = proxy, near
        self.far = socket.create_connection(("127.0.0.1", proxy.far_port), 10)
        self.role = None
        for s in (self.near, self.far):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pump in (self._up, self._down):
            threading.Thread(target=pump, daemon=True).start()

    def _up(self):
        begin = b""
        try:
            while self.role is None:
                data = self.near.recv(1 << 16)
                if not data:
                    break
                begin += data
                at = begin.find(b"CONNECT ")
                if at >= 0 and b"\r\n" in begin[at:]:
                    name = json.loads(begin[at + 8:begin.index(b"\r\n", at)]).get("name", "")
                    self.role = self.proxy.role_of(name)
            if self.role is not None and self.proxy.admit(self):
                self.far.sendall(begin)
                self._pump(self.near, self.far)
        except OSError:
            pass
        self.close()

    def _down(self):
        try:
            self._pump(self.far, self.near)
        except OSError:
            pass
        self.close()

    def _pump(self, source, target):
        while True:
            data = source.recv(1 << 16)
            if not data:
                return
            self.proxy.pass_gate(self)
            target.sendall(data)

    def close(self):
        for s in (self.near, self.far):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


class Proxy:
    """Listens on `port` for a server on 127.0.0.1:far_port. Roles are the last words of connection names: front, back, store."""

    def __init__(self, far_port):
        self.far_port = far_port
        self.lock = threading.Condition()
        self.lines, self.cut_roles, self.frozen_roles = [], set(), set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                line = Line(self, near)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.lines.append(line)

    @staticmethod
    def role_of(name):
        return name.rsplit(" ", 1)[-1]

    def admit(self, line):
        with self.lock:
            return line.role not in self.cut_roles

    def pass_gate(self, line):
        """Waits while the line's role is frozen."""
        with self.lock:
            while line.role in self.frozen_roles:
                self.lock.wait()
            if line.role in self.cut_roles:
                raise ConnectionError("cut")

    def cut(self, role):
        """Ends the role's connections and lets none through until mend()."""
        with self.lock:
            self.cut_roles.add(role)
            victims = [line for line in self.lines if line.role == role]
            self.lines = [line for line in self.lines if line.role != role]
            self.lock.notify_all()
        for line in victims:
            line.close()

    def freeze(self, role):
        """Nothing passes any more, in neither direction; nobody is told."""
        with self.lock:
            self.frozen_roles.add(role)

    def mend(self, role):
        with self.lock:
            self.cut_roles.discard(role)
            self.frozen_roles.discard(role)
            self.lock.notify_all()

    def close(self):
        self.listener.close()
        with self.lock:
            lines, self.lines = self.lines, []
            self.frozen_roles.clear()
            self.lock.notify_all()
        for line in lines:
            line.close()
