"""The documentation tells the truth: each command of each ```sh block of PAGES is run, page by page, in one bash, on programs and a server of its own.

How a block is run:
- README.md's minute comes first for every page, since they all go on where it ends.
- Ports 4222, 8090 and 8091 stand for free ones, /tmp/nats-data for a folder of the test; HOME and the working folder are the test's (the tree in links).
- A command that fails is tried again for a while, as a reader's fingers are slower than a shell; one in the background is left running.
- `# -> TEXT` behind a command is what it must print.
- NOT_RUN lists the commands that can't be run here, each with the reason.
Blocks that name a file (```c tests/examples/small_worker.c) are equal to it, ```jsonc blocks pass `waybilld --check`, and there are no others without a language."""
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

from case import SLOW
from support import cluster, servers
from support.cluster import free_port, program
from support.waiting import wait_for

ROOT = servers.ROOT
START = "README.md"
PAGES = [START, "schemas/README.md", "include/waybill/README.md", "deploy/README.md"]
LANGUAGES = {"sh", "c", "go", "json", "jsonc", "text"}
NOT_RUN = {
    "tests/run.sh": "this test is a part of it",
    "deploy/demo.sh": "a test of its own: test_programs",
    "deploy/install-deps.sh": "installs packages, as root",
    "cmake --preset release && cmake --build --preset release": "what it builds is what is tested",
    "waybill bench --workers --rounds 25 --run-ms 200": "half a minute of both cores; test_bench runs it, shorter",
    "docker build -f deploy/compose/Dockerfile -t waybill .": "tests/containers builds it",
    "docker run -v $PWD/router.json:/etc/waybill/router.json:ro -e NATS_URL waybill": "tests/containers runs the image",
    "docker run --no-healthcheck -e NATS_URL waybill waybill worker --service chat --id w1": "tests/containers runs the image",
    "cd deploy/compose/single": "tests/containers runs both projects, by their `try`",
    "docker compose up -d --build": "the same",
    "docker compose logs -f client": "the same",
    "docker compose run --rm operator": "the same",
    "docker compose run --rm nats-cli kv get waybill_attribution chat.ID": "the same",
    "docker compose down --volumes": "the same",
}
BOUND_S = 20
# Before the commands: what `again` and `expect` do. The deadline of a page as a whole is the test's.
PRELUDE = """set -m; shopt -u huponexit
again() { # command, text that it must print
    local end=$((SECONDS + %d)) said code
    while :; do
        eval "$1" >"$OUT" 2>&1; code=$?
        [ $code -eq 0 ] && { [ -z "$2" ] || grep -qF -- "$2" "$OUT"; } && return 0
        [ $SECONDS -lt $end ] || break
        read -rt 0.1 <>"$NEVER"
    done
    printf 'exit %%d, wanted: %%s\\n$ %%s\\n' $code "$2" "$1"; cat "$OUT"; exit 1
}
listening() { (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null; }
trap 'for job in $(jobs -p); do kill -- -$job 2>/dev/null; done' EXIT
"""


def read(page):
    with open(os.path.join(ROOT, page)) as f:
        return f.read()


def blocks(page):
    """[(language, file or "", text)] of the fenced blocks."""
    return [(language, path, text) for language, path, text in
            re.findall(r"^```(\w*) ?(\S*)\n(.*?)^```$", read(page), re.M | re.S)]


def commands(text):
    """[(command, what it must print)]: lines are joined until bash takes them for whole."""
    found, lines = [], []
    for line in text.splitlines():
        if not lines and (not line.strip() or line.startswith("#")):
            continue
        lines.append(line)
        whole = "\n".join(lines)
        checked = subprocess.run(["bash", "-n"], input=whole, capture_output=True, text=True)
        if checked.returncode == 0 and "here-document" not in checked.stderr:
            command, _, wanted = whole.partition("# -> ") if len(lines) == 1 else (whole, "", "")
            found.append((re.sub(r"\s{2,}#.*$", "", command).strip() if len(lines) == 1 else command, wanted.strip()))
            lines = []
    if lines:
        raise AssertionError("not a whole command: %r" % lines)
    return found


def page_commands(page):
    return [one for language, path, text in blocks(page) if language == "sh" and not path for one in commands(text)]


class Text(unittest.TestCase):
    """What needs no server."""
    maxDiff = None

    def test_every_block_has_a_language_and_none_is_indented(self):
        for page in PAGES:
            for language, path, text in blocks(page):
                self.assertIn(language, LANGUAGES, "%s: %s" % (page, text))
            prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)
            self.assertEqual([], re.findall(r"^    (?:\$|nats|waybill|cmake|docker|curl|cd|deploy|tests)\b.*", prose, re.M), page)

    def test_examples_stand_in_the_page_as_they_are_built(self):
        shown = set()
        for page in PAGES:
            for _, path, text in blocks(page):
                if path:
                    shown.add(path)
                    self.assertEqual(read(path), text, page)
        self.assertEqual({"tests/examples/small_worker.c", "tests/examples/worker_go/main.go", "tests/examples/worker.sh"}, shown)

    def test_links_lead_somewhere(self):
        for page in PAGES + ["src/README.md", "tests/README.md", "deploy/config.md"]:
            for target in re.findall(r"\]\(([^)#:]*)(?:#[^)]*)?\)", read(page)):
                if target:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(page), target)), "%s: %s" % (page, target))

    def test_anchors_are_headings(self):
        def anchors(page):
            return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", read(page), re.M)}
        for page in PAGES:
            for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", read(page)):
                where = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
                self.assertIn(anchor, anchors(where), "%s: %s#%s" % (page, target, anchor))

    def test_configurations_pass_the_check(self):
        for page in PAGES:
            for language, _, text in blocks(page):
                if language == "jsonc":
                    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                        f.write(text)
                        f.flush()
                        done = subprocess.run([program("waybilld"), "--check", "-c", f.name], capture_output=True, text=True)
                        self.assertEqual(0, done.returncode, done.stderr)

    def test_the_reference_of_the_configuration_is_what_the_program_prints(self):
        printed = subprocess.run([program("waybilld"), "--help-config"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed, read("deploy/config.md"), "deploy/config.md is made by: waybilld --help-config >deploy/config.md")

    def test_what_is_not_run_stands_in_a_page(self):
        there = {command for page in PAGES for command, _ in page_commands(page)}
        self.assertEqual([], [command for command in NOT_RUN if command not in there])


@unittest.skipIf(SLOW > 1, "the pages are about the release build")
class Commands(unittest.TestCase):
    def setUp(self):
        tool = servers.find_tool()
        if tool is None:
            self.skipTest("there is no nats tool and no Go to build it")
        self.dir = tempfile.mkdtemp(prefix="waybill-docs.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tree = os.path.join(self.dir, "tree")
        os.makedirs(self.tree)
        for name in os.listdir(ROOT):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.tree, name))
        self.port = free_port()
        self.stands_for = {"4222": self.port, "8090": free_port(), "8091": free_port()}
        self.out, never = os.path.join(self.dir, "out"), os.path.join(self.dir, "never")
        os.mkfifo(never)
        gopath = [os.path.dirname(servers.go())] if servers.go() else []
        path = [cluster.bin_dir(), os.path.dirname(cluster.server_binary()), os.path.dirname(tool)] + gopath + [os.environ["PATH"]]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("NATS_")}
        go_places = {"GOMODCACHE": os.environ.get("GOMODCACHE", os.path.expanduser("~/go/pkg/mod")),
                     "GOCACHE": os.environ.get("GOCACHE", os.path.expanduser("~/.cache/go-build"))}
        self.environment.update(go_places, PATH=":".join(path), HOME=self.dir, XDG_CONFIG_HOME=os.path.join(self.dir, "xdg"),
                                NATS_URL="nats://127.0.0.1:%d" % self.port, OUT=self.out, NEVER=never)

    def here(self, text):
        for port, ours in self.stands_for.items():
            text = re.sub(r"\b%s\b" % port, str(ours), text)
        return text.replace("/tmp/nats-data", os.path.join(self.dir, "js"))

    def script(self, page):
        lines = [PRELUDE % BOUND_S]
        for number, (command, wanted) in enumerate(self.commands(page)):
            if command.endswith("&"):
                job = shlex.quote(os.path.join(self.dir, "job.%d" % number))
                lines.append("{ %s; } >>%s 2>&1 &" % (self.here(command).rstrip("& "), job))
                if command.startswith("nats-server"):
                    lines.append("again 'listening %d' ''" % self.port)
            elif command.startswith("export ") or re.match(r"\w+=\S+$", command):
                lines.append(self.here(command))
            else:
                lines.append("again %s %s" % (shlex.quote(self.here(command)), shlex.quote(self.here(wanted))))
        return "\n".join(lines) + "\necho all of it\n"

    def commands(self, page):
        minute = page_commands(START)
        pages = minute if page == START else minute + page_commands(page)
        return [(command, wanted) for command, wanted in pages if command not in NOT_RUN]

    def run_page(self, page, least):
        self.assertGreaterEqual(len(self.commands(page)), least)
        shell = subprocess.Popen(["bash", "-c", self.script(page)], cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            said, _ = shell.communicate(timeout=150)
        finally:
            self.end(shell)
        self.assertTrue(said.endswith("all of it\n"), "%s\n%s\n%s" % (page, said, self.jobs()))

    def end(self, shell):
        """The shell has ended its jobs, each a group of its own; none may be left in its session."""
        def left():
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and session_of(name) == shell.pid and int(name) != shell.pid]
        try:
            wait_for(lambda: not left(), 15, "end of the jobs")
        finally:
            for pid in left() + ([shell.pid] if shell.poll() is None else []):
                os.kill(pid, signal.SIGKILL)
            shell.wait(10)

    def jobs(self):
        text = ""
        for name in sorted(os.listdir(self.dir)):
            if name.startswith("job."):
                with open(os.path.join(self.dir, name), errors="replace") as f:
                    text += "--- %s\n%s" % (name, f.read()[-2000:])
        return text

    def test_the_minute_of_the_readme(self):
        self.run_page(START, 10)

    def test_the_protocols_page(self):
        made, why = servers.go_program(os.path.join(ROOT, "tests", "examples", "worker_go"), "worker_go")
        if made is None:
            self.skipTest(why)
        self.run_page("schemas/README.md", 25)

    def test_the_page_of_libwaybill(self):
        self.run_page("include/waybill/README.md", 18)

    def test_the_operators_page(self):
        self.run_page("deploy/README.md", 28)


def session_of(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[3])
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    unittest.main()
