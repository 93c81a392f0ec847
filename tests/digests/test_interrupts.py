"""Interrupts at the start of any function, as of signal handlers: attempts end once, what went out keeps its key."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from types import FrameType
from typing import NamedTuple

import pytest

from digestif import Claimed, Digest, Digests, Ended, Event, InvalidState, Policy
from digestif.events.base import Events
from tests.worker.workers import Ear

EMITTED = Events.emit.__qualname__  # interrupted before any listener is called, an event is lost
KINDS = ("deliver", "block", "notify", "at most once")


class Sent(NamedTuple):
    """A delivery, as its receiver sees it."""

    key: str
    records: tuple[str, ...]


class Life(NamedTuple):
    """One digest whose first attempt was interrupted, and that was tried again until nothing was left."""

    interrupted_in: str
    sent: list[Sent]
    told: list[Event]
    accepted: int

    @property
    def ends(self) -> list[str]:
        """How the attempts that the interrupt found ended."""
        return [type(event).__name__ for event in self.told if isinstance(event, Ended)]


class Interrupts:
    """Raises KeyboardInterrupt in place of one function of the package, the given number of calls from now."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.function = ""

    def __enter__(self) -> "Interrupts":
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/digestif/" in frame.f_code.co_filename:
            self._left -= 1
            if not self._left:
                sys.setprofile(None)
                self.function = frame.f_code.co_qualname
                raise KeyboardInterrupt


def live(kind: str, number: int) -> Life:
    now = [1000.0]
    with Digests("memory://", clock=lambda: now[0], policy=Policy(minimum_delay=60)) as digests:
        sent: list[Sent] = []

        @digests.handler("t", at_most_once=kind == "at most once")
        def send(digest: Digest) -> None:
            sent.append(Sent(digest.idempotency_key, tuple(record.key for record in digest)))

        if kind != "notify":
            digests.add("t", 1, key="one")
        ear = Ear(digests)
        with suppress(KeyboardInterrupt), Interrupts(number) as interrupts:
            attempt(digests, kind, send)
        told = list(ear.events)
        digests.add("t", 2, key="two")
        for _ in range(3):
            now[0] += 4000
            list(digests.schedule())
            with suppress(InvalidState):
                digests.deliver("t")
        assert digests.verify()
        return Life(interrupts.function, sent, told, digests.ledger().accepted)


def attempt(digests: Digests, kind: str, send: Callable[[Digest], None]) -> None:
    if kind == "block":
        with digests.digest("t") as digest:
            send(digest)
    elif kind == "notify":
        digests.notify("t", 1, key="one")
    else:
        digests.deliver("t")


def lives(kind: str) -> Iterator[Life]:
    for number in count(1):
        life = live(kind, number)
        if not life.interrupted_in:
            return
        yield life


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # interrupts in generators that are closed
@pytest.mark.parametrize("kind", KINDS)
def test_wherever_an_attempt_is_interrupted_it_ends_once_and_what_went_out_keeps_its_key(kind: str) -> None:
    interrupted = 0
    for life in lives(kind):
        interrupted += 1
        claimed = sum(isinstance(event, Claimed) for event in life.told)
        assert claimed <= len(life.ends) <= 1 or life.interrupted_in == EMITTED, life
        assert len({each.key for each in life.sent if "one" in each.records}) <= 1, life
        assert len({each.key for each in life.sent}) == len({*life.sent}), life
        if kind == "at most once":
            assert "LeaseLost" not in life.ends, life
        elif life.accepted == 2:
            assert any("one" in each.records for each in life.sent), life

    assert interrupted > 200
