"""How much a worker takes on, and how long it waits for what."""

from typing import NamedTuple

from digestif.attempts.handlers import Kind
from digestif.attempts.room import RECORDS
from digestif.ids import chance


class Limits(NamedTuple):
    """How much a worker takes on."""

    concurrency: int  # coroutines that run at once
    threads: int  # functions that run at once
    memory: int  # bytes of records, about as many as they take once they are decoded

    def of(self, kind: Kind) -> int:
        return self.concurrency if kind is Kind.COROUTINE else self.threads


class Tuning(NamedTuple):
    """Numbers that suit every worker; tests give smaller ones. Durations in seconds."""

    records: int = RECORDS  # that a claim reads before it gives back the rest of its digests
    maintenance: float = 10.0  # between two looks for expired records
    look_again: float = 1.0  # while all handlers are busy
    slow: float = 1.5  # after which a second claim begins beside the first, if the store has several servers
    hold_back: float = 0.1  # that a claim waits for attempts that may end soon
    pauses: tuple[float, float] = (0.1, 5.0)  # after a failure of the store: the first, doubled up to the longest
    last_calls: float = 5.0  # for ending attempts in the store, when the worker stops
    cancel: float = 2.0  # that a coroutine may take to be cancelled
    reach: float = 4.0  # after which an event says that the store does not answer
    suspects: float = 60.0  # that suspects let the others go first
    sampling: float = 10.0  # between two samples of the counters
    presence: float = 12.5  # between two notes that the worker is alive, more or less

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after this number of failures in a row."""
        first, longest = self.pauses
        return min(first * 2.0 ** min(failures - 1, 10), longest) * (0.5 + chance() / 2)


DEFAULT = Tuning()
