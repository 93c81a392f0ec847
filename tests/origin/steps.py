"""Steps that the tests here take besides those of the conformance suite."""

from collections.abc import Iterable

from digestif import Digest, Digests
from digestif.testing.conformance.actions import deliver, scheduled


def due(digests: Digests, timeline: str = "t") -> float:
    """When a waiting timeline is due."""
    at = digests.timeline(timeline).due
    assert at is not None, f"{timeline} does not wait"
    return at


def deliver_when_due(digests: Digests, timeline: str = "t") -> Digest:
    """Let the scheduler run a millisecond too early, then in time, and deliver."""
    at = due(digests, timeline)
    assert timeline not in scheduled(digests, at - 0.001)
    assert timeline in scheduled(digests, at)
    return deliver(digests, timeline, now=at)


def walk(digests: Digests, arrivals: Iterable[float], *, tick: float, until: float) -> list[tuple[float, int]]:
    """Live through time from 0, with a scheduler that ticks, and say when digests left and how large they were.

    An arrival at the time of a tick comes after it; a record that answers True is delivered at once.
    """
    sent: list[tuple[float, int]] = []
    coming = sorted(arrivals, reverse=True)

    def send(now: float) -> None:
        size = len(deliver(digests, "t", now=now))
        if size:
            sent.append((now, size))

    def arrive(before: float) -> None:
        while coming and coming[-1] < before:
            at = coming.pop()
            if digests.add("t", "an event", now=at):
                send(at)

    for step in range(int(until / tick) + 1):
        arrive(before=step * tick)
        if scheduled(digests, step * tick):
            send(step * tick)
    return sent
