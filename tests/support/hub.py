"""JetStream on a server of its own, behind a Bridge: it can be frozen while NATS itself runs on. The fabric is one without JetStream."""
import os

from . import cluster
from .bridge import Bridge
from .bucket import Bucket
from .nats import Client


class Hub(cluster.Server):
    def __init__(self, fabric):
        port = cluster.free_port()
        super().__init__(fabric, fabric.binary, port, {
            "listen": "127.0.0.1:%d" % port, "jetstream": {"store_dir": os.path.join(fabric.dir, "hub")},
            "accounts": {"APP": {"jetstream": "enabled", "users": [cluster.user("test")]}, "SYS": {"users": [cluster.user("system")]}},
            "system_account": "SYS"}, "hub")
        self.near = Client(fabric.port, "test", cluster.PASSWORD)  # not the fabric's: a router that stops still writes its records
        self.bridge = Bridge(self.near, port, "test", cluster.PASSWORD)
        self.client = Client(port, "test", cluster.PASSWORD)
        self.bucket = Bucket(self.client)

    def thaw(self):
        if self.running:
            super().thaw()

    def close(self):
        """After the fabric."""
        self.bridge.close()
        self.near.close()
        self.client.close()
