"""Which nats-server programs there are. Every end-to-end test runs on each of them."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEWER = "github.com/nats-io/nats-server/v2@v2.15.2"
TOOL = "github.com/nats-io/natscli/nats@v0.5.0"
GOBIN = os.path.join(ROOT, "build", "gobin")


def version_of(path):
    try:
        out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"v?(\d+\.\d+\.\d+)", out)
    return match.group(1) if match else None


def go():
    """The Go tool, or None."""
    return shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)


@contextlib.contextmanager
def alone_in_gobin():
    """One process at a time builds there."""
    os.makedirs(GOBIN, exist_ok=True)
    with open(os.path.join(GOBIN, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go_build(module, name):
    """build/gobin/<name>, built if it is not there and Go is present and can; else None. Never fails the caller."""
    target = os.path.join(GOBIN, name)
    if os.path.exists(target):
        return target
    if not go():
        return None
    with alone_in_gobin(), tempfile.TemporaryDirectory(dir=GOBIN) as place:
        if not os.path.exists(target):
            done = subprocess.run([go(), "install", module], env=dict(os.environ, GOBIN=place), capture_output=True, text=True, cwd="/")
            made = os.path.join(place, name)
            if done.returncode != 0 or not os.path.exists(made):
                return None
            os.rename(made, target)
    return target


def go_program(folder, name, *verb):
    """(build/gobin/<name>, "") from the Go module in `folder`; (None, why) where there is no Go or its modules can't be had. Does not compile: AssertionError."""
    if not go():
        return None, "there is no Go"
    with alone_in_gobin():
        had = subprocess.run([go(), "mod", "download"], capture_output=True, text=True, cwd=folder)
        if had.returncode != 0:
            return None, "the modules of %s can't be had: %s" % (name, had.stderr.strip()[-300:])
        target = os.path.join(GOBIN, name)
        done = subprocess.run([go(), *(verb or ("build",)), "-o", target, "."], capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            raise AssertionError("%s does not build\n%s%s" % (folder, done.stdout, done.stderr))
    return target, ""


def build_newer():
    return go_build(NEWER, "nats-server")


def find_tool():
    """The `nats` program, or None: the one on the PATH if it is of TOOL's version, else one built here."""
    there = shutil.which("nats")
    return there if there and version_of(there) == TOOL.rsplit("@v", 1)[1] else go_build(TOOL, "nats")


def find(build=False):
    """[(version, path)], each version once, oldest first. $WAYBILL_NATS_SERVERS (paths, colons between) replaces the search."""
    given = os.environ.get("WAYBILL_NATS_SERVERS")
    if given:
        places = given.split(":")
    else:
        folders = os.environ.get("PATH", "").split(":") + [
            "/usr/sbin", "/usr/local/bin", os.path.expanduser("~/go/bin"), GOBIN]
        places = [os.path.join(folder, "nats-server") for folder in folders if folder]
        if build and not any(_newer(version_of(place)) for place in places if os.path.exists(place)):
            build_newer()
    found = {}
    for place in places:
        if os.access(place, os.X_OK):
            version = version_of(place)
            if version and version not in found:
                found[version] = place
    return sorted(found.items(), key=lambda item: _numbers(item[0]))


def _numbers(version):
    return tuple(int(part) for part in version.split("."))


def _newer(version):
    return version is not None and _numbers(version) >= (2, 10, 0)


def numbers_of(path):
    return _numbers(version_of(path))


if __name__ == "__main__":
    for version, path in find(build=True):
        print(version, path)
