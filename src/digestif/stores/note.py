"""A note as a value: decoded when it is read, changed by compare-and-swap."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from digestif.errors import StoreUnavailable
from digestif.stores.damage import UNDECODABLE

if TYPE_CHECKING:
    from digestif.stores.base import Notes

TRIES = 1_000  # each try that fails is one in which another process or thread succeeded

T = TypeVar("T")


class Updated(NamedTuple, Generic[T]):
    """The value of a note before and after an update."""

    before: T
    after: T


@dataclass(frozen=True, slots=True)
class Note(Generic[T]):
    """A note of one partition. Any number of processes may update it: none overwrites what it has not read.

    A missing note has the value `empty`, which is stored as no note. So has a damaged one, unless `decode` raises
    another error than those in UNDECODABLE.
    """

    store: "Notes"
    name: str
    _: KW_ONLY
    partition: int = 0
    decode: Callable[[bytes], T]
    encode: Callable[[T], bytes] = msgspec.json.encode
    empty: T

    def read(self) -> T:
        """Return the value."""
        return self._decoded(self.store.note(self.partition, self.name))

    def update(self, function: Callable[[T], T]) -> Updated[T]:
        """Replace the value by the one that the function makes of it. An equal value is not written.

        The function is called again, with the value that another process wrote in the meantime, until no other process
        was quicker. It must not modify its argument. Raises StoreUnavailable after TRIES calls.
        """
        for _ in range(TRIES):
            stored = self.store.note(self.partition, self.name)
            before = self._decoded(stored)
            after = function(before)
            new = None if after == self.empty else self.encode(after)
            if after == before or self.store.swap_note(self.partition, self.name, stored, new):
                return Updated(before, after)
        raise StoreUnavailable(
            f"the note {self.name!r} was not changed: other processes changed it {TRIES:,} times; try again later"
        )

    def _decoded(self, stored: bytes | None) -> T:
        try:
            return self.empty if stored is None else self.decode(stored)
        except UNDECODABLE:
            return self.empty
