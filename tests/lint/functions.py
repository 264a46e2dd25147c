#!/usr/bin/python3
"""Functions of at most 100 lines; calls that this house does not make; names that it does not use."""
import os
import re
import sys

import tree

LONGEST = 100
BANNED = {
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "strcpy": "a bounded copy", "strcat": "base/buf.h", "gets": "fgets",
    "strncpy": "a bounded copy", "strtok": "base/span.h", "atoi": "strtol with a check", "atol": "strtol with a check",
    "atof": "strtod with a check", "rand": "base/rng.h", "random": "base/rng.h", "srand": "base/rng.h", "alloca": "base/buf.h",
    "system": "posix_spawn", "popen": "posix_spawn", "tmpnam": "mkstemp", "setjmp": "a status", "longjmp": "a status",
}
BANNED_IN_TESTS = {"sprintf", "vsprintf", "gets"}  # a test may be plainer than the product
SLEEPS = {"sleep", "usleep", "nanosleep", "uv_sleep", "nats_Sleep"}
# The worker's --delay-ms waits in the handler's own thread; a program around which `worker --exec` stands is run there too.
EXCEPT = {("src/cli/worker.c", "system"), ("src/cli/worker.c", "popen"), ("src/cli/exec.c", "popen")}
SLEEP_EXCEPT = ("src/cli/", "src/client/", "tests/examples/stream_worker.c")  # the last one sleeps where others would work
FORBIDDEN_NAMES = ("util", "utils", "common", "misc", "helper", "helpers")


def check_functions(path, wrong):
    """A function begins at a line that opens a brace in column 0 or ends a header that began there, and ends at `}` in column 0."""
    lines = tree.code(path).splitlines()
    start, opened = None, None
    for number, line in enumerate(lines, 1):
        if re.match(r"[A-Za-z_]", line) and opened is None and not line.startswith(("#", "typedef", "extern")):
            start = number
        if line.startswith("{"):
            opened = start or number
        elif line.startswith("}") and opened is not None:
            length = number - opened + 1
            if length > LONGEST:
                wrong.append("%s:%d: a function of %d lines (%d at most)" % (path, opened, length, LONGEST))
            opened = None


def check_calls(path, wrong):
    for number, line in enumerate(tree.code(path).splitlines(), 1):
        for match in re.finditer(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(", line):
            name = match.group(1)
            banned = name in (BANNED_IN_TESTS if path.startswith("tests/") else BANNED)
            if banned and (path, name) not in EXCEPT:
                wrong.append("%s:%d: %s() is not used here: %s" % (path, number, name, BANNED[name]))
            if name in SLEEPS and not path.startswith(SLEEP_EXCEPT):
                wrong.append("%s:%d: %s(): wait for a condition with a bound" % (path, number, name))
    for match in re.finditer(r"^(?:static |extern |const )*\w[\w \*]*?\b(_\w+)\s*\(", tree.code(path), flags=re.M):
        wrong.append("%s: a name with a leading underscore: %s" % (path, match.group(1)))


def check_python(path, wrong):
    for number, line in enumerate(tree.text(path).splitlines(), 1):
        if re.search(r"\btime\.sleep\(|\bfrom time import .*sleep|asyncio\.sleep\(", line) and "re.search" not in line:
            wrong.append("%s:%d: a test does not sleep: support.waiting.wait_for" % (path, number))


def check_name(path, wrong):
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    if any(part in FORBIDDEN_NAMES for part in re.split(r"[_\-.]", stem)):
        wrong.append("%s: say in the name what the file is about" % path)


def main():
    wrong = []
    for path in tree.files("src", "include", "tests"):
        check_functions(path, wrong)
        check_calls(path, wrong)
    for path in tree.files("tests", "deploy", ends=(".py",)):
        check_python(path, wrong)
    for path in tree.files("src", "include", "tests", "deploy", ends=(".c", ".h", ".py", ".sh", ".txt")):
        check_name(path, wrong)
    print("\n".join(wrong)) if wrong else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
