"""Damage: something stored that can't be read, or that says what can't be."""

from dataclasses import dataclass

LOST_AND_FOUND = "lost+found"  # the timeline of dead letters whose own can't be told any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What is damaged, and how many records it concerns; those that are set aside are found among the dead letters."""

    timeline: str | None  # None: it belongs to no timeline, or that can't be told
    part: str  # slot, place, count, record, letter, history, note, inbox or ledger
    problem: str
    records: int = 0

    def __str__(self) -> str:
        return self.problem if self.timeline is None else f"{self.timeline!r}: {self.problem}"


def legible(name: str) -> str:
    """A name that may hold bytes which are not UTF-8 (as lone surrogates), with those written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
