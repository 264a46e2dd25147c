#!/usr/bin/python3
"""clang-tidy on every source of the release build, two at a time. A file whose text, headers, flags and checks are as they were
when it last passed is not looked at again (build/tidy holds the hashes)."""
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

import tree

LISTING = os.path.join(tree.ROOT, "build", "release", "compile_commands.json")
CACHE = os.path.join(tree.ROOT, "build", "tidy")


def closure(path, seen):
    """The file and all of our own headers that it reaches."""
    if path in seen or not os.path.exists(os.path.join(tree.ROOT, path)):
        return
    seen.add(path)
    for _, name, _ in tree.includes(path):
        for place in ("src/", "include/", os.path.dirname(path) + "/", "tests/"):
            closure(os.path.normpath(place + name), seen)


def stamp_of(path, command):
    digest = hashlib.sha256(command.encode())
    seen = set()
    closure(path, seen)
    for one in sorted(seen) + [".clang-tidy"]:
        digest.update(one.encode() + b"\0" + tree.text(one).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def look(path):
    done = subprocess.run(["clang-tidy", "--quiet", "--extra-arg=-Wno-ignored-optimization-argument", "-p", CACHE, path], capture_output=True, text=True, cwd=tree.ROOT)
    noise = re.compile(r"^\d+ warnings? (generated|treated)|^Suppressed |^Use -header-filter|^\d+ warnings? and \d+ errors? generated")
    words = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line and not noise.match(line))
    return path, done.returncode, words


def main():
    if not os.path.exists(LISTING):
        print("no %s: build the release first" % LISTING)
        return 1
    os.makedirs(CACHE, exist_ok=True)
    # A file that two libraries are built of is looked at once: clang-tidy 14 finds a va_list uninitialized in the second reading.
    with open(LISTING) as f:
        commands = list({entry["file"]: entry for entry in reversed(json.load(f))}.values())
    with open(os.path.join(CACHE, "compile_commands.json"), "w") as f:
        json.dump(commands, f)
    work = {}
    for entry in commands:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), tree.ROOT)
        if path.startswith("src/"):
            stamp = stamp_of(path, entry["command"])
            if not os.path.exists(os.path.join(CACHE, stamp)):
                work[path] = stamp
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, code, words in pool.map(look, sorted(work)):
            if code == 0:
                open(os.path.join(CACHE, work[path]), "w").close()
            else:
                bad += 1
                print(words)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
