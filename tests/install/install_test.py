#!/usr/bin/python3
"""libwaybill as others get it: which names the libraries show, and the installed tree used by a project in C and one in C++.

    install_test.py BUILD_DIR [CLASS]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release")


def run(*argv, env=None, bound=120, **options):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=bound, env={**os.environ, **(env or {})}, **options)
    if done.returncode != 0:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(argv), done.returncode, done.stdout, done.stderr))
    return done.stdout


def declared():
    """The functions that include/waybill declares."""
    names = set()
    folder = os.path.join(ROOT, "include", "waybill")
    for header in os.listdir(folder):
        if header.endswith(".h"):
            with open(os.path.join(folder, header)) as f:
                text = re.sub(r"/\*.*?\*/|//[^\n]*", "", f.read(), flags=re.S)
            names |= set(re.findall(r"\b(wb_\w+)\(", text))
    return names


def defined(*argv):
    names = set()
    for line in run("nm", "--defined-only", *argv).splitlines():
        parts = line.split()
        if len(parts) == 3:
            names.add(parts[2])
    return names


class Names(unittest.TestCase):
    maxDiff = None

    def test_the_shared_library_exports_what_the_headers_declare_and_nothing_else(self):
        self.assertEqual(declared(), defined("-D", os.path.join(BUILD, "lib", "libwaybill.so")))

    def test_the_static_library_has_no_other_global_name(self):
        self.assertEqual(declared(), defined("-g", os.path.join(BUILD, "lib", "libwaybill.a")))

    def test_the_soname_carries_the_major_version(self):
        dynamic = run("readelf", "-d", os.path.join(BUILD, "lib", "libwaybill.so"))
        self.assertIn("[libwaybill.so.0]", dynamic)
        needed = re.findall(r"NEEDED.*\[(\w+)\.so", dynamic)
        self.assertEqual({"libnats", "libmsgpackc", "libcjson", "libc"} - set(needed), set())
        self.assertNotIn("libuv", needed)

    def test_the_archive_holds_machine_code_not_a_compilers_bytecode(self):
        self.assertNotIn(".gnu.lto_", run("readelf", "-SW", os.path.join(BUILD, "lib", "libwaybill.a")))


class Projects(unittest.TestCase):
    """One installation for all; it is moved after it was made, for nothing in it may know where it was put at first."""

    @classmethod
    def setUpClass(cls):
        from support import cluster
        cls.cluster = cluster
        cls.dir = tempfile.mkdtemp(prefix="waybill-install.")
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        run("cmake", "--install", BUILD, "--prefix", os.path.join(cls.dir, "first"))
        cls.prefix = os.path.join(cls.dir, "prefix")
        os.rename(os.path.join(cls.dir, "first"), cls.prefix)
        found = [os.path.join(folder, "pkgconfig") for folder, _, files in os.walk(cls.prefix) if "libwaybill.so" in files]
        cls.pkg_config = {"PKG_CONFIG_PATH": found[0]}
        cls.out_c, cls.out_cpp = os.path.join(cls.dir, "c"), os.path.join(cls.dir, "cpp")
        run("cmake", "-G", "Ninja", "-S", os.path.join(HERE, "c"), "-B", cls.out_c, "-DCMAKE_PREFIX_PATH=" + cls.prefix)
        run("cmake", "--build", cls.out_c)
        os.mkdir(cls.out_cpp)
        run("make", "-s", "-f", os.path.join(HERE, "cpp", "Makefile"), "OUT=" + cls.out_cpp, env=cls.pkg_config)

    def round(self, worker, client):
        os.environ["WAYBILL_BIN"] = os.path.join(self.prefix, "bin")
        fabric = self.cluster.Fabric(workers=("w1",))
        self.addCleanup(lambda: self.assertEqual([], fabric.close()))
        router = fabric.router()

        def url(user):
            return {"NATS_URL": "nats://%s:%s@%s" % (user, self.cluster.PASSWORD, fabric.address)}
        process = subprocess.Popen([os.path.join(self.out_c, worker), "echo", "w1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env={**os.environ, **url("echo-w1")})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertEqual("0.1.0 ok\n", process.stdout.readline())
        fabric.wait_known(router, "w1")
        said = run(os.path.join(self.out_cpp, client), "echo.request.x", "from outside", env=url("client"), bound=30)
        self.assertEqual("0.1.0 w1 w1 from outside\n", said)
        process.stdin.close()
        self.assertEqual(0, process.wait(30))

    def test_a_worker_in_c_and_a_client_in_cpp_with_the_shared_library(self):
        self.assertIn("libwaybill.so.0", run("readelf", "-d", os.path.join(self.out_c, "worker")))
        self.assertIn("libwaybill.so.0", run("readelf", "-d", os.path.join(self.out_cpp, "client")))
        self.round("worker", "client")

    def test_the_same_with_the_static_library_beside_names_of_their_own(self):
        self.assertNotIn("libwaybill", run("readelf", "-d", os.path.join(self.out_c, "worker_static")))
        self.assertNotIn("libwaybill", run("readelf", "-d", os.path.join(self.out_cpp, "client_static")))
        self.round("worker_static", "client_static")

    def test_nothing_installed_names_the_place_it_was_built_in(self):
        for folder, _, files in os.walk(self.prefix):
            for name in files:
                if name.endswith((".pc", ".cmake", ".h")):
                    with open(os.path.join(folder, name)) as f:
                        text = f.read()
                    self.assertNotIn(ROOT, text, name)
                    self.assertNotIn(self.dir, text, name)

    def test_another_version_is_not_taken_for_it(self):
        text = 'cmake_minimum_required(VERSION 3.25)\nproject(x C)\nfind_package(Waybill 0.2 REQUIRED)\n'
        folder = os.path.join(self.dir, "other")
        os.makedirs(folder)
        with open(os.path.join(folder, "CMakeLists.txt"), "w") as f:
            f.write(text)
        with self.assertRaisesRegex(AssertionError, "0.1.0"):
            run("cmake", "-S", folder, "-B", os.path.join(folder, "build"), "-DCMAKE_PREFIX_PATH=" + self.prefix)


@unittest.skipUnless(os.environ.get("NATSC_SRC"), "NATSC_SRC names no source tree of nats.c")
class OtherNatsC(unittest.TestCase):
    """Everything that stands on nats.c, with the nats.c of NATSC_SRC: a source tree, or a git directory of which HEAD is taken."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="waybill-natsc.")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def source(self):
        given = os.path.abspath(os.environ["NATSC_SRC"])
        if os.path.exists(os.path.join(given, "CMakeLists.txt")):
            return given
        tree = os.path.join(self.dir, "source")
        os.mkdir(tree)
        run("sh", "-c", 'git -C "$1" archive HEAD | tar -x -C "$2"', "sh", given, tree)
        return tree

    def install(self):
        prefix = os.path.join(self.dir, "natsc")
        build = os.path.join(self.dir, "natsc-build")
        run("cmake", "-G", "Ninja", "-S", self.source(), "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DNATS_BUILD_STREAMING=OFF",
            "-DNATS_BUILD_EXAMPLES=OFF", "-DBUILD_TESTING=OFF", "-DNATS_BUILD_LIB_STATIC=OFF", "-DCMAKE_INSTALL_LIBDIR=lib",
            "-DCMAKE_INSTALL_PREFIX=" + prefix)
        run("cmake", "--build", build, "--target", "install", bound=300)
        return prefix

    def test_builds_and_serves(self):
        prefix, build = self.install(), os.path.join(self.dir, "build")
        env = {"PKG_CONFIG_PATH": os.path.join(prefix, "lib", "pkgconfig"), "LD_LIBRARY_PATH": os.path.join(prefix, "lib")}
        version = run("pkg-config", "--modversion", "libnats", env=env).strip()
        run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Debug", env=env)
        run("cmake", "--build", build, env=env, bound=600)
        self.assertIn(prefix, run("ldd", os.path.join(build, "bin", "waybilld"), env=env))
        print(run("ctest", "--test-dir", build, "--output-on-failure", "--timeout", "200", "-R", "unit.(client|store)", env=env, bound=600))
        print("nats.c " + version)


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2, exit=False)
    result = program.result
    if result.wasSuccessful() and result.testsRun == len(result.skipped):
        print("skipped: " + ", ".join(sorted({why for _, why in result.skipped})))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
