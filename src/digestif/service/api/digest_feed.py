"""Which digests the clients of the event stream were not sent yet, and which a client missed that comes back."""

from collections.abc import Sequence
from math import inf

from digestif.core.records import HistoryEntry
from digestif.stores.base import HISTORY_LIMIT

RECENT = 100  # digests that are read at each look, unless more are new
BEGINNING = "0.000-"  # a number before all others


def number_of(entry: HistoryEntry) -> str:
    """What tells the end of a digest from all others: a replayed one ends again under the same id."""
    return f"{entry.ended:.3f}-{entry.id}"


def latest_of(history: Sequence[HistoryEntry]) -> str:
    """The number of the latest digest."""
    return number_of(history[0]) if history else BEGINNING


class DigestFeed:
    """The latest digests that were read so far. Of the next ones, those that are not among them are new.

    Times alone would not do: a digest may be committed after another one that ended later. Where timelines were
    deleted, older digests than the known ones come into view; these are not new.
    """

    def __init__(self, history: Sequence[HistoryEntry]) -> None:
        """Begin behind this history, which is all there is."""
        self._known: dict[str, float] = {}  # when they ended, by their numbers
        self._old_until = -inf  # what ended until then is not new
        self.last = latest_of(history)
        self.take(history)

    def is_reached_by(self, recent: Sequence[HistoryEntry]) -> bool:
        """True if no new digest can be older than these. Half of a look is the margin for late commits."""
        return not any(map(self._is_new, recent[RECENT // 2 :]))

    def has_gap_to(self, history: Sequence[HistoryEntry]) -> bool:
        """True if there may be new digests that are no longer in the history."""
        return len(history) >= HISTORY_LIMIT and self._is_new(history[-1])

    def take(self, history: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        """The new ones of these, the oldest first; from now on they are known."""
        new = [entry for entry in reversed(history) if self._is_new(entry)]
        if new:
            self._known |= {number_of(entry): entry.ended for entry in new}
            self.last = number_of(new[-1])
            self._forget_old()
        return new

    def _is_new(self, entry: HistoryEntry) -> bool:
        return entry.ended > self._old_until and number_of(entry) not in self._known

    def _forget_old(self) -> None:
        if len(self._known) >= HISTORY_LIMIT:
            self._old_until = sorted(self._known.values())[-HISTORY_LIMIT]
            self._known = {number: ended for number, ended in self._known.items() if ended > self._old_until}


def missed(history: Sequence[HistoryEntry], last: str | None) -> list[HistoryEntry]:
    """The digests that ended after the one that a client saw last, the oldest first. None if it saw none.

    If that one is no longer in the history, its number still says when it ended.
    """
    if last is None:
        return []
    place = next((place for place, entry in enumerate(history) if number_of(entry) == last), None)
    if place is not None:
        return [*reversed(history[:place])]
    since = _time_of(last)
    return [entry for entry in reversed(history) if entry.ended >= since]


def _time_of(number: str) -> float:
    """When the digest of this number ended. The beginning of time for what is no number."""
    try:
        return float(number.partition("-")[0])
    except ValueError:
        return -inf
