"""Damage: stored data that can't be read, or that contradicts itself."""

from dataclasses import dataclass

LOST_AND_FOUND = "lost+found"  # the timeline of records and dead letters whose own is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What is damaged, and how many records it concerns. `repair` turns these records into dead letters."""

    timeline: str | None  # None: it belongs to no timeline, or to an unknown one
    part: str  # slot, place, count, record, letter, history, note, inbox or ledger
    problem: str
    records: int = 0

    def __str__(self) -> str:
        return self.problem if self.timeline is None else f"{self.timeline!r}: {self.problem}"


def legible(name: str) -> str:
    """A name for people: bytes that are not UTF-8, held as lone surrogates, are written as escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
