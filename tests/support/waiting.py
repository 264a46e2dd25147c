"""Waiting for a condition with a bound. Nothing in the tests waits in any other way."""
import threading
import time


class TooLate(AssertionError):
    pass


def wait_for(condition, bound=5.0, what="the condition", wake=None):
    """Polls condition() until it is true and returns its value; TooLate after `bound` seconds.

    `wake` is a threading.Condition to be woken by; without one the condition is looked at every 10 ms."""
    end = time.monotonic() + bound
    pause = wake or threading.Condition()
    while True:
        with pause:
            value = condition()
            if value:
                return value
            left = end - time.monotonic()
            if left <= 0:
                break
            pause.wait(min(left, 0.01 if wake is None else 0.1))
    raise TooLate("no %s within %.1f s" % (what() if callable(what) else what, bound))


def stays(condition, span, what="the condition"):
    """Fails if condition() turns false within `span` seconds: for 'nothing comes' where nothing can be waited for."""
    end = time.monotonic() + span
    pause = threading.Condition()
    while time.monotonic() < end:
        if not condition():
            raise AssertionError("%s did not hold" % what)
        with pause:
            pause.wait(0.01)
