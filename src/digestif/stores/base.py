"""The port: what the engine asks of a store. Its questions that change nothing are in `reader`.

A store is bound to one namespace. Its verbs are synchronous, safe to call from many threads, and take batches; each is
one transaction: it happens whole or not at all, and the ledger changes with the data. No verb handles more than a page
(`PAGE_TIMELINES`, `PAGE_RECORDS`); the caller loops. `now` is in milliseconds; None means the store's own clock.

Leases are proved with a token that the caller chose, fresh for each call; the ids of new digests derive from it. A verb
that takes leases answers for each: False (or None) says that the token is stale and nothing was changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from threading import Event
from typing import Any, NamedTuple

from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage
from digestif.core.policy import Terms
from digestif.core.times import Millis
from digestif.errors import ConfigError
from digestif.events.base import Events
from digestif.stores.reader import StoreReader

PAGE_TIMELINES = 200
PAGE_RECORDS = 1000
PAGE_BYTES = 8 << 20  # of payloads, that a page of records holds at most, or a single record
SUSPECTS_TOGETHER = 8  # digests that lapsed once, which are tried beside each other and nothing else
HISTORY_KEYS = 100  # record keys that an entry of the history names
HISTORY_LIMIT = 1000  # entries that a namespace keeps


class Durability(StrEnum):
    """What an acknowledged record survives."""

    POWER_LOSS = "power loss"
    PROCESS_KILL = "process kill"
    NOTHING = "nothing"


class Arrival(NamedTuple):
    """A record to add: validated, encoded, with the numbers of its policy."""

    timeline: str
    key: str
    payload: bytes
    timestamp: float
    within: Millis | None
    terms: Terms


class Accepted(NamedTuple):
    """What became of a record that was added."""

    ready: bool = False  # it made its timeline ready for immediate delivery
    dropped: int = 0  # pending records that it pushed out of a full timeline; an old record pushes itself out


class Due(NamedTuple):
    """A timeline that schedule made ready, and when it was due."""

    timeline: str
    at: Millis


class SchedulePage(NamedTuple):
    entries: list[Due]
    after: tuple[int | str, ...] | None  # where the next page begins; None: that was all


class Maintained(NamedTuple):
    """What one page of maintenance did."""

    moved: Sequence[Due] = ()  # ready for too long, now waiting
    lapsed: Sequence[str] = ()  # timelines whose lease ran out
    expired: Sequence[tuple[str, int]] = ()  # timelines, and how many of their records
    more: bool = False


class Lease(NamedTuple):
    """The right to finish an open digest."""

    timeline: str
    token: str
    until: Millis
    digest_id: str
    attempt: int
    lapses: int
    iteration: int  # of the timeline, before this digest
    at: Millis  # when the timeline was due
    lapsed: bool = False  # taken over from somebody whose lease ran out
    lapses_alone: int = 0  # of `lapses`, those while nothing else ran beside it


class ClaimPage(NamedTuple):
    leases: list[Lease]
    retired: int  # timelines that left the schedule on the way: empty ones, now idle, and damaged ones
    suspect: Millis | None = None  # when the first lease lapsed that nobody took over; None: there is none


class Take(NamedTuple):
    """A request for the records of an open digest, one page at a time."""

    lease: Lease
    capacity: int | None
    merge: bool  # after a reported failure, newer records join
    after: Cursor | None = None
    max_bytes: int | None = None  # of payloads, that a digest may carry: the newest are kept, at least one


class Taken(NamedTuple):
    """A page of an open digest. Its header is final once `complete`."""

    revision: int
    dropped: int
    records: list[Stored]  # newest first
    after: Cursor | None  # for the next request
    complete: bool


class Completion(NamedTuple):
    """A delivered digest, and how the timeline goes on."""

    lease: Lease
    cool_down: Millis
    max_records: int | None = None
    receipt: str | None = None  # for the history


class Release(NamedTuple):
    """A failed attempt: try again at `until`; None makes the timeline ready again at once, as it was."""

    lease: Lease
    until: Millis | None
    freeze: bool = False  # it comes again exactly as it is
    counted: bool = True  # False: nothing was tried, so the attempt does not count


class Burial(NamedTuple):
    """A digest that is given up and becomes a dead letter; the timeline goes on as after a delivery."""

    lease: Lease
    reason: str
    cool_down: Millis
    max_records: int | None = None
    traceback: str = ""  # of the error, for people


class QuarantinedRecord(NamedTuple):
    """A record that can't be decoded: it leaves the open digest and becomes a dead letter of its own."""

    key: str
    letter_id: str
    reason: str


class Wakeups:
    """Hints that a timeline may be taken, for one caller at a time who has nothing else to do.

    Hints may get lost and may be wrong, so whoever waits looks for himself once in a while. These here never come.
    """

    def __init__(self) -> None:
        self._closed = Event()

    def wait(self, timeout: float) -> bool:
        """True as soon as a timeline may have become ready since the last wait; False when `timeout` seconds are over.

        Many hints are one. A store that can't be reached gives no hints and raises nothing; once it is heard again
        that counts as a hint, since others may have been missed. False at once when closed.
        """
        self._closed.wait(timeout)
        return False

    def close(self) -> None:
        """Let go of connections. Comes from any thread, and ends a wait that is under way."""
        self._closed.set()


class Notes(ABC):
    """Small notes by name, in each partition: what processes that share a store write for each other."""

    partitions: int

    @abstractmethod
    def note(self, partition: int, name: str) -> bytes | None:
        """The note of this name; None if there is none."""

    @abstractmethod
    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        """Replace the old note by the new one; None is no note. False, with nothing done, if another one is there."""


class Store(StoreReader, Notes):
    """Where the timelines of one namespace are kept.

    Verbs that find timelines themselves leave out those whose slot is damaged; `claim` also takes them out of the
    schedule, so that they do not fill its pages. Leases of a damaged timeline count as lost, and verbs that name the
    timeline raise StoreError.
    """

    durability: Durability
    enabled: bool = True  # False: accepts nothing

    def report_to(self, events: Events) -> None:
        """Tell these of what befalls the store itself, from now on. The default is a store that has nothing to tell."""

    # Producing

    @abstractmethod
    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        """Accept records, in order; at most PAGE_RECORDS.

        A pending record of the same key is superseded; capacity is applied at each record. Returns only when the
        records are as safe as `durability` says.
        """

    def add_inside(self, connection: Any, batch: Sequence[Arrival]) -> None:
        """Accept records inside a transaction of the caller's own: they exist if and only if the caller commits.

        Locks nothing that others need. ConfigError if the store can't, or the connection is not one of its kind.
        """
        raise ConfigError("connection: only a PostgreSQL store can add inside a transaction of the caller's own")

    @abstractmethod
    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        """Remove a pending record and count it deleted. False if there is none."""

    # Dispatching through a queue of the caller's own

    @abstractmethod
    def schedule(
        self, partition: int, deadline: Millis, *, after: tuple[int | str, ...] | None, limit: int, now: Millis | None
    ) -> SchedulePage:
        """Make timelines ready that wait, are due at or before the deadline and not paused, earliest first.

        `after` is None for the first page of a call and then what the last page said: within one call a timeline is
        given once, even if it waits and is due again meanwhile. Looks at no more than `limit` timelines, so a page
        may be empty with more to come.
        """

    @abstractmethod
    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        """Let timelines wait again that are ready since the deadline or longer, or whose lease lapsed.

        Without a deadline, which is how workers call it, ready ones are left alone, and lapsed ones to `claim_suspects`
        unless they are paused. Also expires records that arrived longer than their ttl ago, and erases what ended
        digests left behind.
        """

    # Delivering

    @abstractmethod
    def claim(self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None) -> ClaimPage:
        """Open up to `limit` timelines that are ready, or waiting and due; not paused.

        Earliest first. Those without any record become idle instead. Those whose lease lapsed are left to
        `claim_suspects`: they may be what ended their worker, and would end this one with all that it holds.
        """

    @abstractmethod
    def claim_suspects(
        self, partition: int, *, alone: bool, token: str, lease: Millis, now: Millis | None
    ) -> ClaimPage:
        """Open timelines whose lease lapsed, not paused, for a worker that tries nothing else beside them.

        The one that lapsed first decides. If its digest lapsed once: it and others that did, SUSPECTS_TOGETHER at most.
        If it lapsed before: it alone. `alone` says that the worker runs nothing else; of a single digest that is noted
        in its lease, and if that lapses too, it counts in `lapses_alone`.
        """

    @abstractmethod
    def open(self, timeline: str, *, token: str, lease: Millis, now: Millis | None, alone: bool = False) -> Lease:
        """Take a timeline's records for delivery.

        Raises InvalidState unless it is ready (or open with a lapsed lease), Busy while another lease lives. Records
        that arrive meanwhile belong to the next digest. After a reported failure the same records come again, with the
        new ones; after a lapse, exactly the same. `alone` is noted as in `claim_suspects`.
        """

    @abstractmethod
    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        """Read pages of open digests, merging and trimming them first where that is due.

        At most PAGE_RECORDS are moved and read in one call, over all requests, and about PAGE_BYTES; repeat with each
        answer's `after` until it is complete. Pages of a complete digest never change while the lease is held.
        """

    @abstractmethod
    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        """Turn records of an open digest into dead letters of their own; at most PAGE_RECORDS.

        After an earlier attempt, which may have carried them, this raises the digest's revision.
        """

    @abstractmethod
    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        """Take records out of an open digest and count them deleted; at most PAGE_RECORDS.

        The answer is the digest's revision, which this raises if an earlier attempt may have carried them; None if the
        token is stale.
        """

    @abstractmethod
    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        """Note who has got an open digest, so that another attempt serves only the others."""

    @abstractmethod
    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        """Let leases end `lease` milliseconds from now. Without `alone` a note that they are alone is withdrawn."""

    @abstractmethod
    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        """End digests as delivered: the timeline cools down, or is idle after an empty one with nothing pending."""

    @abstractmethod
    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        """Give digests back after a failed attempt; they keep their records."""

    @abstractmethod
    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        """End digests as dead letters. InvalidState, with nothing done, if one is being merged: take it whole first."""

    def listen(self) -> Wakeups:
        """Hear of timelines that become ready from now on, whoever makes them so; to be closed by the caller.

        Raises nothing if the store can't be reached. The default is a store without hints.
        """
        return Wakeups()

    # Operating

    @abstractmethod
    def delete(self, timeline: str, *, now: Millis | None) -> bool:
        """Remove a timeline with everything that belongs to it, and count its records deleted.

        One call removes the timeline and at most PAGE_TIMELINES of its dead letters: repeat while True. What it owned
        is no longer counted or found, and is erased by `sweep`.
        """

    @abstractmethod
    def sweep(self) -> bool:
        """Erase a page of records that nothing owns any more. True if there may be more."""

    @abstractmethod
    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        """Make a waiting timeline ready. False in any other state."""

    @abstractmethod
    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        """Set or clear the flag. False if it was so already."""

    @abstractmethod
    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        """Make a dead letter its timeline's unfinished digest. Busy if there is one; False without such a letter."""

    @abstractmethod
    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        """Give up a dead letter and count its records deleted. False if there is none."""

    def repair(self, partition: int, *, dry_run: bool, now: Millis | None) -> list[Damage]:
        """Set aside what is damaged, so that `verify` agrees afterwards; the answer is what was found.

        The records of a damaged timeline become dead letters: one for those that were pending, one for those in its
        digest, which may have gone out. The timeline goes on as idle. What has no readable timeline any more goes to
        LOST_AND_FOUND. Damaged entries of the history and notes are removed. Counters follow from the data, in the same
        transaction. A dry run only looks. Reads everything, in pages, while others go on.

        The default is a store in which nothing can be damaged.
        """
        return []
