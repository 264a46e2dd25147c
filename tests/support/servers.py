"""Which nats-server programs there are. Every end-to-end test runs on each of them."""
import os
import re
import shutil
import subprocess

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


def go_build(module, name):
    """build/gobin/<name>, built if it is not there and Go is present and can; else None. Never fails the caller."""
    go = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    target = os.path.join(GOBIN, name)
    if os.path.exists(target):
        return target
    if not go:
        return None
    os.makedirs(GOBIN, exist_ok=True)
    env = dict(os.environ, GOBIN=GOBIN)
    done = subprocess.run([go, "install", module], env=env, capture_output=True, text=True, cwd="/")
    return target if done.returncode == 0 and os.path.exists(target) else None


def build_newer():
    return go_build(NEWER, "nats-server")


def find_tool():
    """The `nats` program, or None."""
    return shutil.which("nats") or go_build(TOOL, "nats")


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
