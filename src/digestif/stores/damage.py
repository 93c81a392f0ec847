"""Damage that a store meets: an error where the caller named what is damaged, else a report to listeners, once."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec

from digestif.core.damage import Damage, legible
from digestif.errors import StoreError

LOSS = "loss"  # the part of a damage that is over: its records are counted as lost
DROP = "drop"  # no damage: records that were dropped by a call that does not answer how many
Loss = tuple[str, int]  # a timeline, and how many of its records are gone
REMEMBERED = 10_000  # damages that are not reported again
UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # what decoders raise for damage

T = TypeVar("T")


class Unreadable(StoreError):
    """The data that a call needs is damaged, or was written by a newer release."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage)
        self.damage = damage

    def __str__(self) -> str:
        return f"{self.damage}; it is damaged, or of a newer release: `digestif repair` quarantines it"


def decoded_note(name: str, raw: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode a note of a move. Raises Unreadable if it is damaged."""
    try:
        return decode(raw)
    except UNDECODABLE as error:
        problem = f"the note {legible(name)!r} can't be read ({error})"
        raise Unreadable(Damage(timeline=None, part="note", problem=problem)) from error


class Damages:
    """The damage that a store has met, and its listeners. Safe to use from many threads."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[Damage], object], ...] = ()  # replaced as a whole: other threads may read it
        self._noted: deque[Damage] = deque()
        self._reported: set[Damage] = set()

    def subscribe(self, listener: Callable[[Damage], object]) -> Callable[[], None]:
        """Call the listener with every new damage; the answer is a function that ends that."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            known = list(self._listeners)
            with suppress(ValueError):  # called twice
                known.remove(listener)
            self._listeners = tuple(known)

        return unsubscribe

    def note(self, damage: Damage) -> None:
        """Keep a damage for `report_noted`: listeners must not be called inside of a transaction."""
        self._noted.append(damage)

    def report(self, damage: Damage) -> None:
        """Call the listeners with this damage, and with those that were noted."""
        self.note(damage)
        self.report_noted()

    def report_losses(self, losses: Iterable[Loss]) -> None:
        """Call the listeners with records that turned out to be gone: the timeline, and how many. Each time anew."""
        for timeline, records in losses:
            loss = Damage(timeline=timeline, part=LOSS, problem=f"{records} records are gone", records=records)
            for listener in self._listeners:
                listener(loss)

    def report_drops(self, drops: Mapping[str, int]) -> None:
        """Call the listeners with records that were dropped, by timeline. Drops are reported every time."""
        for timeline, records in drops.items():
            drop = Damage(timeline=timeline, part=DROP, problem=f"{records} records were dropped", records=records)
            for listener in self._listeners:
                listener(drop)

    def report_noted(self) -> None:
        """Call the listeners with the damages that were noted, each once."""
        while self._noted:
            try:
                damage = self._noted.popleft()
            except IndexError:  # another thread was faster
                return
            if damage in self._reported:
                continue
            if len(self._reported) >= REMEMBERED:
                self._reported.clear()
            self._reported.add(damage)
            for listener in self._listeners:
                listener(damage)
