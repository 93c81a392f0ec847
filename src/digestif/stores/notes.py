"""Notes: what those who share a store tell each other through it, apart from records."""

from abc import ABC, abstractmethod


class Notes(ABC):
    """A few small notes, by name, in each partition."""

    partitions: int

    @abstractmethod
    def note(self, partition: int, name: str) -> bytes | None:
        """What was noted under a name."""

    @abstractmethod
    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        """Note something else under a name; None is nothing. False, with nothing done, if the old one is not there."""
