"""Damage that a store meets: raised where it is in the way, told once where the rest goes on without it."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from digestif.core.damage import Damage
from digestif.errors import StoreError

REMEMBERED = 10_000  # damages, so that each is told once


class Unreadable(StoreError):
    """What was asked for is damaged, or was written by a release that knows more than this one."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage)
        self.damage = damage

    def __str__(self) -> str:
        return f"{self.damage}; it is damaged, or of a newer release: `digestif repair` sets it aside"


def unreadable_note(name: str, error: Exception) -> Unreadable:
    """What is to be raised about a note of a move."""
    return Unreadable(Damage(timeline=None, part="note", problem=f"the note {name!r} can't be read ({error})"))


class Damages:
    """What a store has met, and who wants to hear of it. Safe to use from many threads."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[Damage], object], ...] = ()  # replaced, never changed
        self._noted: deque[Damage] = deque()
        self._told: set[Damage] = set()

    def subscribe(self, listener: Callable[[Damage], object]) -> Callable[[], None]:
        """Call the listener with every damage from now on; the answer ends that."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            known = list(self._listeners)
            with suppress(ValueError):  # it was ended already
                known.remove(listener)
            self._listeners = tuple(known)

        return unsubscribe

    def note(self, damage: Damage) -> None:
        """Keep it to be told: in a transaction nobody may be called."""
        self._noted.append(damage)

    def report(self, damage: Damage) -> None:
        """Tell it, and what was noted before."""
        self.note(damage)
        self.tell()

    def tell(self) -> None:
        """Tell what was noted, each damage once."""
        while self._noted:
            try:
                damage = self._noted.popleft()
            except IndexError:  # another thread tells it
                return
            if damage in self._told:
                continue
            if len(self._told) >= REMEMBERED:
                self._told.clear()
            self._told.add(damage)
            for listener in self._listeners:
                listener(damage)
