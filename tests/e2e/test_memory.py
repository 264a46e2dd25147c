"""What the router's memory is promised to be: private (RssAnon), idle with 1,000 workers known, and for each request in flight."""
import unittest

from case import SLOW, Case, hold, wait_for

IDLE_MAX = 6 * 1024 * 1024
REQUEST_MAX = 1024  # besides the message itself
REQUESTS = 20000
AT_ONCE = 500
PAYLOAD = b"q" * 128


@unittest.skipIf(SLOW > 1, "a sanitizer keeps memory of its own")
class Memory(Case):
    def known(self):
        found = self.router.metrics().get('waybill_workers{service="echo",standing="discovered"}', 0)
        return int(found)

    def test_idle_with_a_thousand_workers(self):
        self.ready()
        tester = self.fabric.client("test")
        for n in range(1000):
            tester.publish("waybill.heartbeat.echo.m%d" % n, b'{"v":1,"epoch":5,"interval_ms":60000}')
        wait_for(lambda: self.known() == 1000, 10, lambda: "1000 workers (%d)" % self.known())
        self.assertLess(self.router.rss_bytes(), IDLE_MAX)

    def each(self, payload, named=False):
        """Bytes that a request in flight costs besides its message."""
        self.ready(hold, hold)  # the bytes out to one worker are limited
        before = self.router.rss_bytes()
        sent = 0
        for n in range(REQUESTS):
            frame = self.client.frame("echo.request.x", payload, "_INBOX.memory.x",
                                      {"Waybill-Request-Id": "memory-%05d" % n} if named else None)
            self.client.send(frame)
            sent += len(frame) - len(b"PUB   1000\r\n\r\n")
            if (n + 1) % AT_ONCE == 0:  # else it is the links' buffers that are measured, as large as the load makes them
                wait_for(lambda: int(self.router.metrics()["waybill_held_requests"]) == n + 1, 30, "%d requests in flight" % (n + 1))
        return (self.router.rss_bytes() - before - sent) / REQUESTS

    def test_a_request_in_flight(self):
        self.assertLess(self.each(b"q" * 128), REQUEST_MAX)

    def test_a_larger_request_in_flight(self):
        self.assertLess(self.each(b"q" * 1000), REQUEST_MAX)

    def test_a_request_with_an_id_of_the_client_in_flight(self):
        self.assertLess(self.each(b"q" * 1000, named=True), REQUEST_MAX)


if __name__ == "__main__":
    unittest.main()
