"""Creds files: an operator's server that takes nothing but signed JWTs. Every party of the fabric signs in with one, under the contract's permissions."""
import os
import re
import unittest

from case import SLOW, Case, Fabric, serve, wait_for
from support import jwt


class CredsFabric(Fabric):
    """The users are those of Fabric, with the same permissions; what names them is a JWT of the account in place of a password."""

    def prepare(self):
        self.operator_key, self.account_key, self.system_key = (jwt.Key(kind, self.dir) for kind in ("operator", "account", "account"))
        self.stranger_key = jwt.Key("account", self.dir)  # no operator vouches for it
        self.users, self.revoked = {}, []

    def server_config(self):
        config = super().server_config()
        self.permissions = {entry["user"]: entry.get("permissions") for entry in config["accounts"]["APP"]["users"]}
        del config["accounts"]
        config.update({"operator": jwt.make(self.operator_key, self.operator_key.public, "operator"), "resolver": "MEMORY",
                       "system_account": self.system_key.public, "resolver_preload": {
                           self.account_key.public: jwt.account(self.operator_key, self.account_key, self.revoked),
                           self.system_key.public: jwt.account(self.operator_key, self.system_key, jetstream=False)}})
        return config

    def user(self, name, issuer=None):
        rights = self.permissions[name]
        return jwt.User(issuer or self.account_key, self.dir, rights and (rights["publish"], rights["subscribe"]), name)

    def creds_path(self, name):
        return os.path.join(self.dir, name + ".creds")

    def write_creds(self, name, text):
        """At once, as a careful operator does: the router may read at any time."""
        with open(self.creds_path(name) + ".new", "w") as f:
            f.write(text)
        os.rename(self.creds_path(name) + ".new", self.creds_path(name))

    def known_user(self, name):
        if name not in self.users:
            self.users[name] = self.user(name)
            self.write_creds(name, self.users[name].creds)
        return self.users[name]

    def client(self, name="client", **options):
        return super().client(name, sign_in=self.known_user(name).sign_in, **options)

    def env(self, name):
        self.known_user(name)
        return {"NATS_URL": "nats://" + self.address, "NATS_CREDS": self.creds_path(name)}


class Creds(Case):
    def setUp(self):
        self.fabric = CredsFabric()
        self.addCleanup(self._close)

    def served(self, request_id):
        client = self.fabric.client()
        self.assertServed(client.request("echo.request.x", b"q", {"Waybill-Request-Id": request_id}, bound=20 * SLOW), "w1", b"q")
        self.assertEqual("w1", self.bucket.record(request_id, 20 * SLOW)["worker"])
        wait_for(lambda: self.bucket.stored_for(request_id), 20 * SLOW, "the stored record")

    def test_all_parties_by_creds(self):
        """Both lanes and the store's own connection: the bucket is made and the record is in it."""
        self.bucket = self.fabric.watch()
        router = self.fabric.router()
        self.fabric.raw_worker("w1", serve, known_to=[router])
        self.served("creds")

        def tool():
            """A login of nats.c 3.4.1 with good creds was refused once in some 250 by a 2.9 server: the tool is right if it gets in at all."""
            done = self.fabric.tool("request", "echo.request.x", "from the tool", check=False)
            return done.returncode == 0 and done.stdout == "from the tool\n"
        wait_for(tool, 20 * SLOW, "the tool's answer")
        self.assertRegex(router.output(), "bucket %s created" % self.bucket.name)
        violations = [line for line in self.fabric.server.output().splitlines() if "Violation" in line]
        self.assertEqual([], violations)

    def test_by_the_configuration_file(self):
        self.bucket = self.fabric.watch()
        environment = self.fabric.env("router-1")
        router = self.fabric.router(env={"NATS_CREDS": ""}, nats={"creds": environment["NATS_CREDS"]})
        self.fabric.raw_worker("w1", serve, known_to=[router])
        self.served("creds-file")

    def test_wrong_ones_until_the_right_ones_come(self):
        """Each kind of wrong file is said plainly, ends nothing, and is read anew: the right one is enough."""
        self.bucket = self.fabric.watch()
        right, stranger = self.fabric.known_user("router-1"), self.fabric.user("router-1", self.fabric.stranger_key)
        path = self.fabric.creds_path("router-1")
        swapped = right.creds.replace(right.key.seed, stranger.key.seed)  # a JWT with the seed of another key
        os.unlink(path)
        router = self.fabric.router(wait=False)
        for text, said in ((None, r"router-1\.creds: No such file"), ("", r"router-1\.creds: holds no user JWT and seed"),
                           (stranger.creds, "Authorization Violation"), (swapped, "Authorization Violation")):
            before = len(router.output())
            if text is not None:
                self.fabric.write_creds("router-1", text)
            for lane in ("front", "back"):
                pattern = "nats waybilld router-1 %s: .* not reached: .*%s" % (lane, said)
                wait_for(lambda: re.search(pattern, router.output()[before:]), 30 * SLOW, lambda: "%s\n%s" % (pattern, router.tail()))
            self.assertFalse(router.healthy)
        self.fabric.write_creds("router-1", right.creds)
        router.wait_healthy(30)
        self.fabric.raw_worker("w1", serve, known_to=[router])
        self.served("right")

    def test_revoked_and_replaced(self):
        """The account revokes the router's key while it serves: out, unready, not ended. A new key's creds bring it back, records included."""
        self.bucket = self.fabric.watch()
        router = self.fabric.router()
        worker = self.fabric.raw_worker("w1", serve, known_to=[router])
        self.served("before")
        old = self.fabric.known_user("router-1")
        self.fabric.revoked.append(old.key.public)
        self.fabric.restart_server()
        wait_for(lambda: router.output().count("uthorization") + router.output().count("evoked") >= 4, 60 * SLOW,
                 lambda: "refused logins in the log\n" + router.tail())
        self.assertFalse(router.healthy)
        self.fabric.users.pop("router-1")
        self.fabric.known_user("router-1")
        router.wait_healthy(60)
        worker.vanish()
        self.bucket = self.fabric.watch()
        self.fabric.raw_worker("w1", serve, known_to=[router])
        self.served("after")


if __name__ == "__main__":
    unittest.main()
