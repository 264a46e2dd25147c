"""NATS's decentralised accounts, made here: nkeys, JWTs of an operator, its accounts and their users, creds files. Signatures are openssl's."""
import base64
import json
import os
import subprocess
import time

PREFIXES = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
SEED = 18 << 3


def _check(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return data + crc.to_bytes(2, "little")


def _base32(data):
    return base64.b32encode(_check(data)).decode().rstrip("=")


def _base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _openssl(*argv, data=None):
    return subprocess.run(["openssl", *argv], input=data, capture_output=True, check=True, timeout=60).stdout


class Key:
    """An Ed25519 key in NATS's clothes. `folder` holds what openssl needs to read."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        der = _openssl("genpkey", "-algorithm", "ed25519", "-outform", "DER")
        raw = _openssl("pkey", "-inform", "DER", "-pubout", "-outform", "DER", data=der)[-32:]
        prefix = PREFIXES[kind]
        self.public = _base32(bytes([prefix]) + raw)
        self.seed = _base32(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + der[-32:])
        self.file = os.path.join(folder, self.public + ".der")
        with open(self.file, "wb") as f:
            f.write(der)

    def sign(self, data):
        path = os.path.join(self.folder, "sign-%d-%d" % (id(self), time.monotonic_ns()))
        with open(path, "wb") as f:
            f.write(data)
        try:
            return _base64url(_openssl("pkeyutl", "-sign", "-inkey", self.file, "-keyform", "DER", "-rawin", "-in", path))
        finally:
            os.unlink(path)


def make(issuer, subject, kind, claims=None, name="test", issued=None):
    """A JWT by which `issuer` (a Key) vouches for `subject` (a public key)."""
    body = {"jti": "test", "iat": int(issued if issued is not None else time.time()), "iss": issuer.public, "name": name, "sub": subject,
            "nats": {**(claims or {}), "type": kind, "version": 2}}
    parts = [_base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    return ".".join(parts + [issuer.sign(".".join(parts).encode())])


def account(operator, key, revoked=(), jetstream=True):
    """An account without limits. `revoked`: public keys of users who may no longer come."""
    limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    limits["wildcards"] = True
    if jetstream:
        limits.update(dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1))
    claims = {"limits": limits, "default_permissions": {"pub": {}, "sub": {}}}
    if revoked:
        claims["revocations"] = {public: int(time.time()) + 1 for public in revoked}
    return make(operator, key.public, "account", claims)


class User:
    """A user of an account: its key and JWT, as `sign_in` of a Client and as a creds file."""

    def __init__(self, issuer, folder, permissions=None, name="test"):
        publish, subscribe = permissions or ([">"], [">"])
        self.key = Key("user", folder)
        self.jwt = make(issuer, self.key.public, "user", {
            "pub": {"allow": publish}, "sub": {"allow": subscribe}, "subs": -1, "data": -1, "payload": -1}, name)

    def sign_in(self, nonce):
        return {"jwt": self.jwt, "sig": self.key.sign(nonce.encode())}

    @property
    def creds(self):
        return ("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"
                "************************* IMPORTANT *************************\n"
                "NKEY Seed printed below can be used to sign and prove identity.\n\n"
                "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n\n"
                "*************************************************************\n" % (self.jwt, self.key.seed))
