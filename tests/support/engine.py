"""A Docker engine for the tests: its commands with a bound, and the images that the compose files take from a registry. Where there is none they are
made here: a Debian by debootstrap, one around a nats-server, one around the `nats` tool. Those images are kept (waybill-test/*) so that the next
run is quick; the public names are only lent to them while the tests run."""
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

from . import servers

OWN = "waybill-test/"
DEBIAN, NATS, BOX = "debian:bookworm-slim", "nats:2", "natsio/nats-box:latest"
KEPT_OUT = ["var/cache/apt/archives/*.deb", "var/cache/apt/*.bin", "var/lib/apt/lists/*", "var/log/*", "usr/share/doc/*", "usr/share/man/*",
            "usr/share/locale/*", "proc/*", "sys/*", "dev/*"]


class Unavailable(Exception):
    """Why the containers cannot be tested here."""


def run(*argv, bound=60, check=True, env=None, stdin=None, cwd=None):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=bound, env=env, cwd=cwd,
                          **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))
    if check and done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(argv), done.returncode, done.stdout[-6000:], done.stderr[-6000:]))
    return done


def docker(*argv, **options):
    return run("docker", *argv, **options)


def compose_command():
    """`docker compose` or docker-compose; Unavailable without an engine or without either."""
    if not shutil.which("docker"):
        raise Unavailable("there is no docker program")
    try:
        if docker("version", "--format", "{{.Server.Version}}", bound=20, check=False).returncode != 0:
            raise Unavailable("no Docker engine answers")
    except subprocess.TimeoutExpired:
        raise Unavailable("the Docker engine does not answer")
    if docker("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise Unavailable("there is neither docker compose nor docker-compose")


def inspect(name):
    """What docker knows of an image or container; None: no such thing."""
    done = docker("inspect", name, check=False)
    return json.loads(done.stdout)[0] if done.returncode == 0 else None


def dangling():
    """Images without a name: the layers that a build leaves behind."""
    return set(docker("images", "-q", "--no-trunc", "--filter", "dangling=true").stdout.split())


def mirror():
    """Where apt gets Debian from on this machine."""
    for path in ["/etc/apt/sources.list"] + sorted(glob.glob("/etc/apt/sources.list.d/*")):
        try:
            with open(path) as f:
                text = re.sub(r"#.*", "", f.read())
        except OSError:
            continue
        for found in (re.search(r"^deb\s+(?:\[.*?\]\s+)?(\S+)\s+bookworm\s", text, re.M),
                      "bookworm" in text and re.search(r"^URIs:\s*(\S*debian\S*)", text, re.M)):
            if found and "security" not in found.group(1):
                return found.group(1)
    return "http://deb.debian.org/debian"


def make_debian():
    """Half a minute of debootstrap. Its mounts vanish with its namespace."""
    name = OWN + "debian:bookworm"
    if inspect(name):
        return name
    if not shutil.which("debootstrap"):
        raise Unavailable("no registry has %s and there is no debootstrap to make it" % DEBIAN)
    if os.geteuid() != 0:
        raise Unavailable("no registry has %s and only root can make it" % DEBIAN)
    place = tempfile.mkdtemp(prefix="waybill-debian.")
    try:
        run("unshare", "--mount", "--propagation", "private", "debootstrap", "--variant=minbase", "bookworm", place, mirror(), bound=600)
        with open(os.path.join(place, "etc/dpkg/dpkg.cfg.d/quick"), "w") as f:
            f.write("force-unsafe-io\n")  # as in Debian's own image: a layer needs no sync
        left_out = ["--exclude=./" + pattern for pattern in KEPT_OUT]
        tar = subprocess.Popen(["tar", "--one-file-system", "-C", place, *left_out, "-c", "."], stdout=subprocess.PIPE)
        done = subprocess.run(["docker", "import", "--change", 'CMD ["bash"]', "-", name], stdin=tar.stdout, capture_output=True, text=True, timeout=300)
        if tar.wait() != 0 or done.returncode != 0:
            raise Unavailable("the image of Debian could not be imported: " + done.stderr)
    except AssertionError as e:
        raise Unavailable("debootstrap failed: %s" % e)
    finally:
        run("rm", "-rf", "--one-file-system", place, bound=120, check=False)
    return name


def make_around(name, program, target, entrypoint):
    """An image of Debian and one program."""
    with tempfile.TemporaryDirectory(prefix="waybill-image.") as place:
        shutil.copy2(program, os.path.join(place, "program"))
        with open(os.path.join(place, "Dockerfile"), "w") as f:
            f.write("FROM %s\nCOPY program %s\n%s\n" % (DEBIAN, target, entrypoint))
        docker("build", "-q", "-t", name, place, bound=300)
    return name


def make_nats():
    found = servers.find(build=True)
    if not found:
        raise Unavailable("no registry has %s and there is no nats-server" % NATS)
    version, path = found[-1]
    return make_around(OWN + "nats:" + version, path, "/nats-server", 'ENTRYPOINT ["/nats-server"]')


def make_box():
    path = servers.find_tool()
    if path is None:
        raise Unavailable("no registry has %s, there is no nats tool and no Go to build it" % BOX)
    return make_around(OWN + "nats-box", path, "/usr/local/bin/nats", 'CMD ["bash"]')


@contextlib.contextmanager
def images(say):
    """All images that the compose files start from, present under their public names inside the block. One process at a time."""
    with open(os.path.join(tempfile.gettempdir(), "waybill-containers.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lent, registry = [], True
        try:
            for name, make in ((DEBIAN, make_debian), (NATS, make_nats), (BOX, make_box)):
                if inspect(name):
                    say("image %s: was there" % name)
                    continue
                if registry:
                    try:
                        registry = docker("pull", "-q", name, bound=180, check=False).returncode == 0
                    except subprocess.TimeoutExpired:
                        registry = False
                if not inspect(name):
                    made = make()
                    docker("tag", made, name)
                    lent.append(name)
                    say("image %s: %s" % (name, made))
            yield
        finally:
            for name in lent:
                docker("rmi", "--no-prune", name, check=False)
