"""A project of deploy/compose, run for real; its clients' lines are the books that the tests compare with the bucket."""
import base64
import collections
import contextlib
import json
import os
import re
import subprocess
import threading
import time

from . import engine, servers
from .nats import Client
from .ports import free_port
from .waiting import TooLate, wait_for

PLACE = os.path.join(servers.ROOT, "deploy", "compose")
LINE = re.compile(r"(\d+\.\d+) (\d+\.\d+) (\S+) (served|error|lost|unsent) (\S*)")
NEVER_SERVED = ("no_worker", "worker_lost", "timeout", "overloaded")
Line = collections.namedtuple("Line", "began ended id kind what")


class Follower(threading.Thread):
    """Reads the lines of one client as they come."""

    def __init__(self, container):
        super().__init__(daemon=True)
        self.lines = []
        self.process = subprocess.Popen(["docker", "logs", "-f", container], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.start()

    def run(self):
        for text in self.process.stdout:
            match = LINE.match(text)
            if match:
                began, ended, name, kind, what = match.groups()
                self.lines.append(Line(float(began), float(ended), name, kind, what))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.join()
        self.process.stdout.close()


class Project:
    def __init__(self, folder, command, image):
        self.folder, self.command, self.name = os.path.join(PLACE, folder), command, "waybill-test-" + folder
        self.followers = {}
        # The project takes them only when its images are there, and again at each start.
        self.nats_port, self.monitor_port = free_port(), free_port()
        self.env = dict(os.environ, COMPOSE_PROJECT_NAME=self.name, WAYBILL_IMAGE=image, DOCKER_BUILDKIT="0",
                        COMPOSE_HTTP_TIMEOUT="180", WAYBILL_NATS_PORT=str(self.nats_port), WAYBILL_MONITOR_PORT=str(self.monitor_port))

    def __call__(self, *argv, **options):
        return engine.run(*self.command, *argv, env=self.env, cwd=self.folder, **{"bound": 120, **options})

    def try_it(self, bound):
        """The script that users run; what it starts stays up."""
        return engine.run("./try", "--keep", env=self.env, cwd=self.folder, bound=bound).stdout

    def remove(self):
        """Everything that bears the project's label."""
        while self.followers:
            self.followers.popitem()[1].end()
        self("down", "--volumes", "--remove-orphans", "--timeout", "1", check=False)
        label = "label=com.docker.compose.project=" + self.name
        for what, remove in (("ps", ("rm", "-f", "-v")), ("network", ("network", "rm")), ("volume", ("volume", "rm"))):
            command = ("ps", "-aq") if what == "ps" else (what, "ls", "-q")
            left = engine.docker(*command, "--filter", label).stdout.split()
            if left:
                engine.docker(*remove, *left, check=False)

    # -- containers

    def containers(self, service):
        return engine.docker("ps", "-aq", "--filter", "label=com.docker.compose.project=" + self.name,
                             "--filter", "label=com.docker.compose.service=" + service).stdout.split()

    def container(self, service):
        names = self.containers(service)
        assert len(names) == 1, "%s: %r" % (service, names)
        return names[0]

    def kill(self, service):
        engine.docker("kill", "-s", "KILL", self.container(service))

    def stop(self, service):
        engine.docker("stop", self.container(service))

    def start(self, service):
        engine.docker("start", self.container(service))

    def exit_codes(self, service):
        return [engine.inspect(name)["State"]["ExitCode"] for name in self.containers(service)]

    def wait_healthy(self, service, bound=60):
        wait_for(lambda: engine.inspect(self.container(service))["State"]["Health"]["Status"] == "healthy", bound,
                 lambda: "health of %s\n%s" % (service, self.logs(service)))

    def logs(self, service, tail=40):
        done = engine.docker("logs", "--tail", str(tail), self.container(service))
        return done.stdout + done.stderr

    def network(self, name):
        return "%s_%s" % (self.name, name)

    # -- the books

    def clients(self, count):
        """So many clients; their lines are followed from now on."""
        self("up", "-d", "--no-build", "--no-recreate", "--scale", "client=%d" % count)
        for name in self.containers("client"):
            if name not in self.followers:
                self.followers[name] = Follower(name)

    def lines(self):
        """All that the clients have noted, in the order of the ends."""
        return sorted((line for follower in self.followers.values() for line in list(follower.lines)), key=lambda line: line.ended)

    def wait_served(self, count, since=0.0, bound=60):
        """So many answers to requests that began after `since`."""
        def there():
            return sum(line.kind == "served" and line.began > since for line in self.lines()) >= count
        wait_for(there, bound, lambda: "%d answers; last: %r" % (count, self.lines()[-5:]))

    def connect(self, user):
        return Client(self.nats_port, user, user, name="test-" + user)

    def records(self, ids, service="chat", bound=60.0):
        """{id: record or None} as the leader of the bucket has it, with the operator's rights."""
        found, ids = {}, list(ids)
        client = self.connect("operator")
        try:
            def ask(batch):
                asked = {one: client.start("$JS.API.STREAM.MSG.GET.KV_waybill_attribution",
                                           json.dumps({"last_by_subj": "$KV.waybill_attribution.%s.%s" % (service, one)})) for one in batch}
                for one, sub in asked.items():
                    answer = sub.next(5)
                    sub.unsubscribe()
                    if answer.status is None:
                        body = answer.json()
                        if "message" in body or body["error"]["code"] == 404:
                            found[one] = json.loads(base64.b64decode(body["message"]["data"])) if "message" in body else None
            end = time.monotonic() + bound
            while len(found) < len(ids):
                with contextlib.suppress(TooLate):  # the stream has no leader at the moment
                    ask([one for one in ids if one not in found][:200])
                if time.monotonic() > end:
                    raise TooLate("%d of %d records could not be read" % (len(ids) - len(found), len(ids)))
            return found
        finally:
            client.close()

    def bucket(self):
        """The stream's info."""
        client = self.connect("operator")
        try:
            return client.request("$JS.API.STREAM.INFO.KV_waybill_attribution").json()
        finally:
            client.close()


def tally(lines):
    return dict(collections.Counter("%s %s" % (line.kind, line.what) for line in lines))
