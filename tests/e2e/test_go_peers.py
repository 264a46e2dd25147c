"""Client and worker in Go, on nats.go and the protocol's page alone (tests/peers): each Go test runs under the contract's permissions."""
import os
import subprocess
import unittest

from case import SLOW, Case
from support import servers
from support.cluster import PASSWORD, user

FOLDER = os.path.join(servers.ROOT, "tests", "peers")
# A service of nats.go's `micro` package: its own subject, its answers, and the discovery that every such service offers.
MICRO = user("micro", (["waybill.reply.plain.micro.>", "_INBOX.>"], ["plain.micro", "$SRV.>"]))


class GoPeers(Case):
    fabric_options = {"services": {"echo": ["echo.request.>"], "count": ["count.request.>"], "plain": ["plain.request.>"]},
                      "workers": ("w1", "w2"), "statics": {("plain", "micro"): "plain.micro"}, "extra_users": [MICRO]}

    @classmethod
    def setUpClass(cls):
        cls.program, why = servers.go_program(FOLDER, "peers.test", "test", "-c")
        if cls.program is None:
            raise unittest.SkipTest(why)

    def go(self, name):
        fabric = self.fabric
        self.router = fabric.router(services=[
            fabric.service("echo"), fabric.service("count", replies="stream"),
            fabric.service("plain", workers=[{"id": "micro", "subject": "plain.micro"}])])
        environment = dict(fabric.nats_env("client"), PEERS_URL="nats://" + fabric.address, PEERS_PASSWORD=PASSWORD, PEERS_BOUND="%ds" % (10 * SLOW))
        done = subprocess.run([self.program, "-test.v", "-test.run", "^%s$" % name, "-test.timeout", "%ds" % (60 * SLOW)], cwd=fabric.dir,
                              env=environment, capture_output=True, text=True, timeout=90 * SLOW, stdin=subprocess.DEVNULL)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn("--- PASS: %s " % name, done.stdout)
        self.assertNotIn("--- SKIP", done.stdout)
        self.assertAtRest()


def names():
    with open(os.path.join(FOLDER, "peers_test.go")) as f:
        return [line.split("(")[0].split()[1] for line in f if line.startswith("func Test")]


for one in names():
    setattr(GoPeers, "test_" + one, lambda self, one=one: self.go(one))


if __name__ == "__main__":
    unittest.main()
