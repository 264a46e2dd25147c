#!/usr/bin/python3
"""Include direction: each folder includes only what the table of the house allows (src/README.md), no header includes itself by a detour."""
import sys

import tree

# folder: (folders of src it may include, public headers, third-party headers)
PUBLIC = {"waybill/status.h", "waybill/types.h", "waybill/client.h", "waybill/worker.h", "waybill/version.h"}
# Plain values, no calls into the library: any floor may use them.
VALUES = {"waybill/status.h", "waybill/types.h", "waybill/version.h"}
MAY = {
    "base": (set(), VALUES, {"uv.h", "uthash.h", "utlist.h"}),
    "wire": ({"base"}, VALUES, {"msgpack.h", "cjson/cJSON.h"}),
    "lane": ({"base"}, VALUES, {"openssl/", "nats.h", "nats/nats.h"}),
    "store": ({"base"}, VALUES, {"nats.h", "nats/nats.h", "cjson/cJSON.h"}),
    "core": ({"base"}, VALUES, set()),
    "router": ({"core", "wire", "lane", "store", "base"}, VALUES, {"microhttpd.h"}),
    "client": ({"wire", "base"}, PUBLIC, {"nats.h", "nats/nats.h"}),
    # The loader holds names and subjects to wire's own rules, policies' names to core's.
    "daemon": ({"router", "store", "lane", "core", "wire", "base"}, VALUES, {"cjson/cJSON.h"}),
    "cli": ({"wire", "base"}, PUBLIC, {"nats.h", "nats/nats.h", "cjson/cJSON.h"}),
}
# One user for each of these.
ONLY_IN = {"uv.h": "src/base/loop.c", "uthash.h": "src/base/map.c", "utlist.h": "src/base/map.c",
           "msgpack.h": "src/wire/", "microhttpd.h": "src/router/monitor.c"}
# The floors of the system's own headers that a layer must not reach: core reads no clock and does no I/O.
CORE_MAY_NOT = {"time.h", "unistd.h", "stdio.h", "sys/", "pthread.h", "netinet/", "arpa/", "fcntl.h", "poll.h"}
LIBC = {"assert.h", "ctype.h", "errno.h", "fcntl.h", "float.h", "getopt.h", "inttypes.h", "limits.h", "math.h", "netdb.h",
        "poll.h", "pthread.h", "signal.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h",
        "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h", "strings.h", "time.h", "unistd.h", "endian.h", "malloc.h",
        "termios.h", "pwd.h", "spawn.h", "sched.h", "locale.h", "wchar.h", "dirent.h", "execinfo.h", "syslog.h", "libgen.h"}
LIBC_FOLDERS = ("sys/", "netinet/", "arpa/", "linux/", "net/", "sanitizer/")


def listed(name, allowed):
    return any(name == entry or (entry.endswith("/") and name.startswith(entry)) for entry in allowed)


def check_file(path, wrong):
    parts = path.split("/")
    folder = parts[1] if parts[0] == "src" else None
    if parts[0] == "include":
        for line, name, _ in tree.includes(path):
            if not (name in PUBLIC or name in ("nats.h", "nats/nats.h") or name in LIBC or name.startswith(LIBC_FOLDERS)):
                wrong.append("%s:%d: a public header includes %s" % (path, line, name))
        return
    if folder not in MAY:
        wrong.append("%s: the folder is not in the table" % path)
        return
    folders, public, third = MAY[folder]
    for line, name, _ in tree.includes(path):
        where = "%s:%d: " % (path, line)
        head = name.split("/")[0]
        if name.endswith(".c"):
            wrong.append(where + "includes a .c file")
        elif name.startswith("waybill/"):
            if name not in public:
                wrong.append(where + "src/%s may not include %s" % (folder, name))
        elif head in MAY and "/" in name:
            if head != folder and head not in folders:
                wrong.append(where + "src/%s may not include src/%s (%s)" % (folder, head, name))
        elif name in LIBC or name.startswith(LIBC_FOLDERS):
            if folder == "core" and listed(name, CORE_MAY_NOT):
                wrong.append(where + "core does no I/O and reads no clock: <%s>" % name)
        elif not listed(name, third):
            wrong.append(where + "src/%s may not include %s (write folder/name.h for our own)" % (folder, name))
        only = next((place for header, place in ONLY_IN.items() if name == header), None)
        if only and not (path == only or (only.endswith("/") and path.startswith(only))):
            wrong.append(where + "%s belongs to %s alone" % (name, only))


def check_tests(path, wrong):
    for line, name, _ in tree.includes(path):
        if name.endswith(".c"):
            wrong.append("%s:%d: a test includes a .c file" % (path, line))
    parts = path.split("/")
    if parts[1] != "unit":
        return
    # A unit test links only the folder that it tests, so it can see only what that folder sees.
    folder = parts[2]
    if folder not in MAY:
        wrong.append("%s: tests a folder that is not in the table" % path)
        return
    for line, name, _ in tree.includes(path):
        head = name.split("/")[0]
        if head in MAY and "/" in name and head != folder and head not in MAY[folder][0]:
            wrong.append("%s:%d: a unit test of src/%s may not include %s" % (path, line, folder, name))


def check_cycles(wrong):
    graph = {}
    for path in tree.files("src", "include", ends=(".h",)):
        name = path.split("/", 1)[1]
        graph[name] = [n for _, n, _ in tree.includes(path)]
    done, stack = set(), []

    def visit(name):
        if name in stack:
            wrong.append("headers include each other: " + " -> ".join(stack[stack.index(name):] + [name]))
            return
        if name in done or name not in graph:
            return
        stack.append(name)
        for other in graph[name]:
            visit(other)
        stack.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def main():
    wrong = []
    for path in tree.files("src", "include"):
        check_file(path, wrong)
    for path in tree.files("tests"):
        check_tests(path, wrong)
    check_cycles(wrong)
    print("\n".join(wrong)) if wrong else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
