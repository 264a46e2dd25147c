"""`waybill bench` runs and says what it measured. How fast anything is depends on the machine: no figure is judged here."""
import json
import subprocess
import unittest

from case import SLOW
from support.cluster import program, server_binary


class Bench(unittest.TestCase):
    def bench(self, *argv):
        done = subprocess.run([program("waybill"), "bench", "--nats-server", server_binary(), "--rounds", "1", "--run-ms", "50", *argv],
                              capture_output=True, text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_workers(self):
        rows = json.loads(self.bench("--workers", "--json"))["workers"]
        self.assertEqual([(name, window) for window in (1, 1024) for name in ("libwaybill", "nats.c", "nats.c bare")],
                         [(row["worker"], row["window"]) for row in rows])
        for row in rows:
            self.assertGreater(row["cpu_us"], 0)
            self.assertGreater(row["ratio"], 0)
        self.assertEqual([1.0, 1.0], [row["ratio"] for row in rows if row["worker"] == "libwaybill"])
        self.assertIn("CPU us/request", self.bench("--workers"))


if __name__ == "__main__":
    unittest.main()
