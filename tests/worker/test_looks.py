"""How often a worker looks, and the windows that are too short for that."""

from digestif import Digests, Policy, ShortWindow, Window, WorkerStarted
from tests.worker.workers import Ear, working


def test_a_worker_that_starts_warns_of_windows_that_it_may_miss() -> None:
    digests = Digests("memory://", policy=Policy(window=Window.hours("09:00-09:01", tz="UTC")))
    digests.handler("mail:*", policy=Policy(window=Window.hours("09:00-10:00", tz="UTC")))(lambda _: None)
    ear = Ear(digests)
    with working(digests, poll=31):
        [told] = ear.wait_for(ShortWindow)

    assert told.source == "engine"
    assert "open for 60 s, and the worker looks every 31 s" in told.problem


def test_a_worker_that_looks_often_enough_does_not_warn() -> None:
    digests = Digests("memory://", policy=Policy(window=Window.hours("09:00-09:01", tz="UTC")))
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    with working(digests, poll=30):
        ear.wait_for(WorkerStarted)

    assert ear.of(ShortWindow) == []
