"""Real processes for a test: a nats-server with the permissions of the contract (spec section 2), routers, workers.

Everything started is ended by its pid in Fabric.close(); a router or worker must then end by SIGTERM with exit
code 0 and without a word of a sanitizer, or the test fails."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

from . import servers
from .nats import Client
from .ports import free_port
from .waiting import wait_for

ROOT = servers.ROOT
PREFIX = "waybill"
BUCKET = "waybill_attribution"
SESSIONS = "waybill_sessions"
PASSWORD = "secret"
SLOW = 4 if os.environ.get("WAYBILL_SLOW") else 1  # sanitizers: bounds, not expectations, are this much longer


def bin_dir():
    return os.environ.get("WAYBILL_BIN", os.path.join(ROOT, "build", "release", "bin"))


def program(name):
    return os.path.join(bin_dir(), name)


def server_binary():
    given = os.environ.get("WAYBILL_NATS_SERVER")
    return given or servers.find()[0][1]


# -- permissions -----------------------------------------------------------------------------------------------------

def client_permissions(services, prefix=PREFIX):
    subjects = [s for patterns in services.values() for s in patterns]
    return subjects + ["%s.cancel.%s.>" % (prefix, name) for name in services], ["_INBOX.>"]


def worker_permissions(service, worker, prefix=PREFIX):
    return (["%s.heartbeat.%s.%s" % (prefix, service, worker), "%s.reply.%s.%s.>" % (prefix, service, worker)],
            ["%s.worker.%s.%s" % (prefix, service, worker), "%s.worker.%s.%s.cancel" % (prefix, service, worker),
             "%s.announce" % prefix])


def static_permissions(service, worker, subject, prefix=PREFIX):
    return ["%s.reply.%s.%s.>" % (prefix, service, worker)], [subject]


def router_permissions(services, router, statics=(), buckets=(BUCKET, SESSIONS), prefix=PREFIX):
    publish = ["%s.worker.>" % prefix, "%s.announce" % prefix, "%s.event.>" % prefix, "_INBOX.>",
               "$JS.API.STREAM.NAMES"] + list(statics)
    for b in buckets:
        publish += ["$KV.%s.>" % b, "$JS.FC.KV_%s.>" % b, "$JS.API.DIRECT.GET.KV_%s" % b,
                    "$JS.API.DIRECT.GET.KV_%s.>" % b]
        publish += ["$JS.API.STREAM.%s.KV_%s" % (what, b) for what in ("INFO", "CREATE", "MSG.GET")]
        publish += ["$JS.API.CONSUMER.%s.KV_%s%s" % (what, b, rest)
                    for what in ("CREATE", "DELETE") for rest in ("", ".>")]
    subscribe = [s for patterns in services.values() for s in patterns]
    subscribe += ["%s.reply.*.*.%s.*" % (prefix, router), "%s.heartbeat.*.*" % prefix, "%s.cancel.>" % prefix,
                  "%s.gone.%s.*" % (prefix, router), "%s.inbox.%s.>" % (prefix, router), "%s.admin.show.>" % prefix,
                  "%s.admin.do.>" % prefix]
    for verb in ("PING", "INFO", "STATS"):
        subscribe += ["$SRV." + verb, "$SRV.%s.waybill" % verb, "$SRV.%s.waybill.%s" % (verb, router)]
    return publish, subscribe


def operator_permissions(prefix=PREFIX, buckets=(BUCKET, SESSIONS)):
    publish = ["%s.admin.show.>" % prefix, "%s.admin.do.>" % prefix, "$SRV.>", "$JS.API.STREAM.NAMES"]
    for b in buckets:
        publish += ["$JS.API.STREAM.INFO.KV_%s" % b, "$JS.API.STREAM.MSG.GET.KV_%s" % b,
                    "$JS.API.DIRECT.GET.KV_%s" % b, "$JS.API.DIRECT.GET.KV_%s.>" % b]
    return publish, ["%s.event.>" % prefix, "_INBOX.>"]


def reader_permissions(buckets=(BUCKET,)):
    """Who watches records (`nats kv watch` and `history`): an operator's reading, and consumers of his own."""
    publish = [subject for b in buckets for subject in (
        "$JS.API.STREAM.INFO.KV_%s" % b, "$JS.API.DIRECT.GET.KV_%s.>" % b, "$JS.API.CONSUMER.CREATE.KV_%s.>" % b,
        "$JS.API.CONSUMER.DELETE.KV_%s.>" % b, "$JS.FC.KV_%s.>" % b)]
    return publish, ["_INBOX.>"]


def user(name, permissions=None, password=PASSWORD):
    entry = {"user": name, "password": password}
    if permissions:
        publish, subscribe = permissions
        entry["permissions"] = {"publish": publish, "subscribe": subscribe}
    return entry


# -- processes -------------------------------------------------------------------------------------------------------

class Process:
    """One program with its output in a file."""

    def __init__(self, fabric, name, argv, env=None, ordinary_end=True):
        self.fabric, self.name, self.argv, self.ordinary_end = fabric, name, argv, ordinary_end
        self.log = os.path.join(fabric.dir, "%s.%d.log" % (name, len(fabric.processes)))
        self.env = dict(os.environ)
        for key in list(self.env):
            if key.startswith("NATS_"):
                del self.env[key]
        self.env.update(HOME=fabric.dir, XDG_CONFIG_HOME=os.path.join(fabric.dir, "xdg"),
                        ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:exitcode=99",
                        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:exitcode=99",
                        TSAN_OPTIONS="exitcode=99:halt_on_error=0:second_deadlock_stack=1")
        self.env.update(env or {})
        self.killed = False
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                          cwd=fabric.dir)
        fabric.processes.append(self)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def running(self):
        return self.popen.poll() is None

    def output(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def tail(self, lines=40):
        return "--- %s (%s)\n%s" % (self.name, " ".join(self.argv), "\n".join(self.output().splitlines()[-lines:]))

    def signal(self, number):
        os.kill(self.pid, number)

    def freeze(self):
        """Every thread of it stands still when this returns."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: self.thread_states() == {"T"}, 10 * SLOW, "a frozen " + self.name)

    def thread_states(self):
        states, tasks = set(), "/proc/%d/task" % self.pid
        for task in os.listdir(tasks):
            with open(os.path.join(tasks, task, "stat")) as f:
                states.add(f.read().rsplit(")", 1)[1].split()[0])
        return states

    def thaw(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: the crash."""
        self.killed = True
        if self.running:
            self.popen.kill()
        self.popen.wait(10)

    def terminate(self, bound=15.0):
        """SIGTERM and the exit code; its output is searched for what a sanitizer says."""
        if self.running:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.terminate()
        return self.ended(bound)

    def ended(self, bound=15.0):
        try:
            return self.popen.wait(bound * SLOW)
        except subprocess.TimeoutExpired:
            tail = self.tail()
            self.kill()
            raise AssertionError("%s does not end within %.0f s\n%s" % (self.name, bound * SLOW, tail))

    def complaint(self):
        text = self.output()
        for mark in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:"):
            if mark in text:
                return "%s: %s\n%s" % (self.name, mark, text[text.index(mark):][:6000])
        return None


class Server(Process):
    def __init__(self, fabric, binary, port, config, name="nats-server", host="127.0.0.1"):
        self.binary, self.port, self.host = binary, port, host
        self.silent = config.get("tls", {}).get("handshake_first") is True  # says nothing before the client's TLS
        self.config_path = os.path.join(fabric.dir, name + ".json")
        self.write(config)
        super().__init__(fabric, name, [binary, "-c", self.config_path], ordinary_end=False)
        self.wait_up()

    def write(self, config):
        self.config = config
        with open(self.config_path, "w") as f:
            json.dump(config, f, indent=1)

    def wait_up(self, bound=15.0):
        def up():
            if not self.running:
                raise AssertionError("nats-server ended\n" + self.tail())
            if self.silent:
                return "Server is ready" in self.output()
            try:
                with socket.create_connection((self.host, self.port), 1) as s:
                    return s.recv(4) == b"INFO"
            except OSError:
                return False
        wait_for(up, bound * SLOW, "nats-server on port %d" % self.port)
        if "jetstream" in self.config:
            wait_for(lambda: "Server is ready" in self.output(), bound * SLOW, "readiness of nats-server")

    def reload(self, config):
        self.write(config)
        before = self.output().count("Reloaded server configuration")
        self.signal(signal.SIGHUP)
        wait_for(lambda: self.output().count("Reloaded server configuration") > before, 10 * SLOW,
                 lambda: "reload\n" + self.tail())


class Router(Process):
    def __init__(self, fabric, config, env, name):
        self.monitor_port = int(config["monitor"]["listen"].rsplit(":", 1)[1])
        self.config = config
        path = os.path.join(fabric.dir, "%s.%d.json" % (name, len(fabric.processes)))
        with open(path, "w") as f:
            json.dump(config, f, indent=1)
        super().__init__(fabric, name, [program("waybilld"), "-c", path], env)

    def http(self, path):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.monitor_port, path), timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError:
            return None, ""

    @property
    def healthy(self):
        if not self.running:
            raise AssertionError("waybilld ended with %s\n%s" % (self.popen.returncode, self.tail()))
        return self.http("/healthz")[0] == 200

    def wait_healthy(self, bound=10.0):
        wait_for(lambda: self.healthy, bound * SLOW, lambda: "200 from /healthz\n" + self.tail())
        return self

    def metrics(self):
        """{name or name{labels}: value}; 'name' alone is the sum over its labels."""
        values = {}
        for line in self.http("/metrics")[1].splitlines():
            match = re.match(r"^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)", line)
            if match:
                name, labels, value = match.groups()
                values[name] = values.get(name, 0) + float(value)
                if labels:
                    values[name + labels] = float(value)
        return values

    def count(self, name):
        """The counter waybill_<name>_total."""
        values = self.metrics()
        key = "waybill_%s_total" % name
        if key not in values:
            raise KeyError("no %s in /metrics; it has %s" % (key, sorted(values)))
        return int(values[key])

    def rss_bytes(self):
        with open("/proc/%d/status" % self.pid) as f:
            for line in f:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon")


class Fabric:
    """A server and all that a test runs on it."""

    def __init__(self, services=None, workers=("w1", "w2", "w3", "w4", "w5", "w6"), routers=("router-1", "router-2"),
                 statics=None, jetstream=True, server_extra=None, tls=None, binary=None, extra_users=(), host="127.0.0.1"):
        self.services = services or {"echo": ["echo.request.>"]}
        self.worker_ids, self.router_ids = workers, routers
        self.statics = statics or {}  # (service, id) -> subject
        self.jetstream, self.server_extra, self.tls = jetstream, dict(server_extra or {}), tls
        self.extra_users = list(extra_users)
        self.host = host
        self.client_options = {}  # of every client from now on
        self.dir = tempfile.mkdtemp(prefix="waybill-e2e.")
        self.processes, self.clients = [], []
        self.operator = None
        self.binary = binary or server_binary()
        self.port = free_port()
        self.passwords = {}
        self.prepare()
        self.server = Server(self, self.binary, self.port, self.server_config(), host=self.host)

    def prepare(self):
        """What a kind of fabric makes before its server starts."""

    @property
    def address(self):
        return ("[%s]:%d" if ":" in self.host else "%s:%d") % (self.host, self.port)

    # -- the server

    def server_config(self):
        def make(name, permissions=None):
            return user(name, permissions, self.passwords.get(name, PASSWORD))
        users = [make("test"), make("client", client_permissions(self.services)),
                 make("operator", operator_permissions())]
        for router in self.router_ids:
            users.append(make(router, router_permissions(self.services, router, list(self.statics.values()))))
        for service in self.services:
            for worker in self.worker_ids:
                users.append(make("%s-%s" % (service, worker), worker_permissions(service, worker)))
        for (service, worker), subject in self.statics.items():
            users.append(make("%s-%s" % (service, worker), static_permissions(service, worker, subject)))
        users += self.extra_users
        account = {"users": users}
        config = {"listen": self.address, "server_name": "test",
                  "accounts": {"APP": account, "SYS": {"users": [make("system")]}}, "system_account": "SYS"}
        if self.jetstream:
            account["jetstream"] = "enabled" if self.jetstream is True else self.jetstream
            config["jetstream"] = {"store_dir": os.path.join(self.dir, "js")}
        if self.tls:
            config["tls"] = self.tls
        config.update(self.server_extra)
        return config

    def restart_server(self, crash=True):
        self.stop_server(crash)
        self.start_server()

    def stop_server(self, crash=True):
        self.server.kill() if crash else self.server.terminate()

    def start_server(self, config=None):
        self.server = Server(self, self.binary, self.port, config or self.server_config(), host=self.host)

    # -- parties

    def client(self, name="client", **options):
        client = Client(self.port, name, self.passwords.get(name, PASSWORD), name=name, **{"host": self.host, **self.client_options, **options})
        self.clients.append(client)
        return client

    def watch(self):
        from .bucket import Bucket
        return Bucket(self.client("test"))

    def env(self, name):
        return {"NATS_URL": "nats://" + self.address, "NATS_USER": name,
                "NATS_PASSWORD": self.passwords.get(name, PASSWORD)}

    def router_config(self, name="router-1", services=None, **sections):
        if services is None:
            services = [{"name": service, "subjects": subjects} for service, subjects in self.services.items()]
        config = {"router": {"id": name, "start_wait_ms": 200, "drain_ms": 5000},
                  "nats": {"url": "nats://" + self.address},
                  "services": services, "monitor": {"listen": "127.0.0.1:%d" % free_port()}}
        for key, section in sections.items():
            config[key] = {**config.get(key, {}), **section} if isinstance(section, dict) else section
        return config

    def router(self, name="router-1", services=None, wait=True, env=None, **sections):
        """waybilld, up and subscribed (unless wait is false); sections are merged into its config."""
        config = self.router_config(name, services, **sections)
        process = Router(self, config, {**self.env(name), **(env or {})}, name)
        return process.wait_healthy() if wait else process

    def service(self, name="echo", **keys):
        return {"name": name, "subjects": self.services[name], **keys}

    def worker(self, worker="w1", *options, service="echo", known_to=None, env=None):
        """`waybill worker`, as its own process under its own user; waits until the given routers know it."""
        argv = [program("waybill"), "worker", "--service", service, "--id", worker, *options]
        process = Process(self, "worker-" + worker, argv, {**self.env("%s-%s" % (service, worker)), **(env or {})})
        for router in known_to or ():
            self.wait_known(router, worker, service, process)
        return process

    def raw_worker(self, worker="w1", handler=None, service="echo", known_to=(), **heartbeat):
        from .raw_worker import RawWorker
        raw = RawWorker(self, service, worker, handler, heartbeat)
        for router in known_to:
            self.wait_known(router, worker, service)
        return raw

    def show_workers(self, router):
        """The answer of admin show.workers from this one router."""
        if self.operator is None or self.operator.closed:
            self.operator = self.client("operator")
        answer = self.operator.request("%s.admin.show.workers.%s" % (PREFIX, router.config["router"]["id"]), b"{}")
        return answer.json()

    def known(self, router, service="echo"):
        return {entry["id"]: entry for entry in workers_in(self.show_workers(router), service)}

    def wait_known(self, router, worker, service="echo", process=None):
        def there():
            if process is not None and not process.running:
                raise AssertionError("the worker ended\n" + process.tail())
            return worker in self.known(router, service)
        wait_for(there, 10 * SLOW, lambda: "worker %s in show.workers\n%s" % (worker, router.tail()))

    def wait_unknown(self, router, worker, service="echo", bound=10.0):
        wait_for(lambda: worker not in self.known(router, service), bound * SLOW, "loss of " + worker)

    def tool(self, *argv, user="client", bound=20.0, stdin=None, env=None, check=True):
        """`waybill ...` as a subprocess.CompletedProcess with text."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_")}
        environment.update(self.env(user), HOME=self.dir, XDG_CONFIG_HOME=os.path.join(self.dir, "xdg"))
        environment.update(env or {})
        done = subprocess.run([program("waybill"), *argv], input=stdin, capture_output=True, text=True,
                              timeout=bound * SLOW, env=environment, cwd=self.dir,
                              **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
        if check and done.returncode != 0:
            raise AssertionError("waybill %s: exit %d\n%s%s" % (" ".join(argv), done.returncode, done.stdout, done.stderr))
        return done

    def nats(self, *argv, user="client", bound=30.0, stdin=None, check=True):
        """The `nats` tool, likewise; NatsTool of tests/e2e/case.py skips where there is none."""
        done = subprocess.run([servers.find_tool(), *argv], capture_output=True, text=True, timeout=bound * SLOW, env=self.nats_env(user),
                              cwd=self.dir, **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))
        if check and done.returncode != 0:
            raise AssertionError("nats %s: exit %d\n%s%s" % (" ".join(argv), done.returncode, done.stdout, done.stderr))
        return done

    def nats_env(self, user):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_")}
        return {**environment, **self.env(user), "HOME": self.dir, "XDG_CONFIG_HOME": os.path.join(self.dir, "xdg")}

    def nats_process(self, name, *argv, user):
        """The `nats` tool as a process that runs on; its exit code does not matter."""
        return Process(self, name, [servers.find_tool(), *argv], self.env(user), ordinary_end=False)

    # -- the end

    def tails(self):
        return "\n".join(p.tail() for p in self.processes if p.name != "nats-server")

    def close(self):
        """Ends everything. The list of what went wrong with the programs; empty is well."""
        wrong = []
        for client in self.clients:
            client.close()
        for process in reversed(self.processes):
            if process is self.server:
                continue
            try:
                already = not process.running
                code = process.terminate()
                if process.ordinary_end and not process.killed and code != 0:
                    wrong.append("%s %s exit code %s\n%s" % (
                        process.name, "had ended with" if already else "ended with", code, process.tail()))
            except AssertionError as e:
                wrong.append(str(e))
            if process.complaint():
                wrong.append(process.complaint())
        if self.server.running:
            self.server.popen.send_signal(signal.SIGCONT)
            self.server.kill()
        if wrong and os.environ.get("WAYBILL_KEEP"):
            wrong.append("kept: " + self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)
        return wrong


def workers_in(shown, service):
    """The workers of one service in the answer of show.workers."""
    return [worker for entry in shown["services"] if entry["service"] == service for worker in entry["workers"]]


class Load(threading.Thread):
    """Requests one after the other until stop(); keeps the replies and what went wrong."""

    def __init__(self, client, subject, window=1):
        super().__init__(daemon=True)
        self.client, self.subject, self.window = client, subject, window
        self.replies, self.failures, self.stopping = [], [], threading.Event()

    def run(self):
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                self.replies.append(self.client.request(self.subject, b"%d" % number, bound=10))
            except (AssertionError, OSError) as e:
                self.failures.append(e)
                if self.client.closed:
                    return

    def stop(self):
        self.stopping.set()
        self.join(30)
        return self.replies, self.failures
