"""Ports of 127.0.0.1 for servers of the tests."""
import random
import socket


def free_port():
    """Below the range that the kernel takes the ports of outgoing connections from: one of those could take it first."""
    for port in random.sample(range(20000, 32000), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port")
