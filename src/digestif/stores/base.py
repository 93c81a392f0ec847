"""The port: what the engine asks of a store. The queries, which change nothing, are in `reader`.

A store is bound to one namespace. Its verbs are synchronous, safe to call from many threads, and take batches; each is
one transaction: it happens whole or not at all, and the ledger changes with the data. No verb handles more than a page
(`PAGE_TIMELINES`, `PAGE_RECORDS`); the caller loops. `now` is in milliseconds; None means the store's own clock.

The caller chooses a fresh token for each call that gives leases; the ids of new digests derive from it. A verb that is
called with leases answers for each of them: False (or None) means that the token is stale and nothing was changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from operator import itemgetter
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage
from digestif.core.machine import Plan, Seen, Slot
from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES
from digestif.core.tenants import Tenants
from digestif.core.terms import Openings, Override, Terms
from digestif.core.texts import shortened
from digestif.core.times import Millis
from digestif.errors import ConfigError, InvalidState, StoreError
from digestif.events.base import Events
from digestif.stores.documents import Documents
from digestif.stores.note import Note
from digestif.stores.reader import StoreReader
from digestif.stores.tenants import TenantsNote

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

PAGE_TIMELINES = 200
PAGE_RECORDS = 1000
PAGE_BYTES = 8 << 20  # of payloads in a page of records; a single record may be larger
HISTORY_KEYS = 100  # record keys in an entry of the history
HISTORY_LIMIT = 1000  # entries of a ring, and timelines whose removals are remembered in it


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
    asks_due: bool = False  # the answer has to say when the timeline is due


_payload = itemgetter(2)


def weight_of_adds(batch: Sequence[Arrival]) -> int:
    """The bytes of their payloads."""
    return sum(map(len, map(_payload, batch)))


class Accepted(NamedTuple):
    """The answer to a record that was added."""

    ready: bool = False  # the record made its timeline ready
    dropped: int = 0  # pending records that capacity pushed out, maybe the added one itself
    due: Millis | None = None  # when the timeline is delivered next, by `machine.next_delivery`, if the arrival asks


class Due(NamedTuple):
    """A timeline that became ready, or waits again, and the time it was due."""

    timeline: str
    at: Millis


class SchedulePage(NamedTuple):
    """Timelines that one call of `schedule` made ready."""

    entries: list[Due]
    after: tuple[int | str, ...] | None  # where the next page begins; None: this was the last page
    candidates: tuple["Candidate", ...] = ()  # to be admitted


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
    lapsed: bool = False  # taken over after another lease ran out
    lapses_alone: int = 0  # of `lapses`, those in a group of one: nothing else ran beside the digest
    override: Override | None = None  # the timeline's own policy
    passes: bool = False  # no window holds back its attempts
    tried: Millis | None = None  # since when attempts of the digest fail for its own sake
    frozen: bool = False  # its records are settled: an earlier attempt may have sent them


class LeaseEnd(NamedTuple):
    """When the lease of an open timeline ends."""

    timeline: str
    until: Millis


class Candidate(NamedTuple):
    """A timeline that could be delivered now. Whether it may is for the caller to say, with `admit`."""

    timeline: str
    slot: Slot
    now: Millis  # the time at which it was found


class Unadmitted(InvalidState):
    """The timeline could be opened, once the caller has said that it may be."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(candidate)
        self.candidate = candidate

    def __str__(self) -> str:
        return f"{self.candidate.timeline!r} has to be admitted before it can be opened"


class Admission(NamedTuple):
    """Whether a candidate is delivered now. One that has changed since it was seen is left alone."""

    timeline: str
    seen: Seen
    until: Millis | None = None  # when it may be delivered; None: now
    group: int = 0  # size of its group of suspects, to be noted with the lease; 0: its lapse would prove nothing


class ClaimPage(NamedTuple):
    """The answer to one claim."""

    leases: list[Lease]
    retired: int  # timelines that left the schedule: empty ones, now idle, and damaged ones
    suspect: Millis | None = None  # when the first suspect lapsed; None: there is no suspect
    candidates: tuple[Candidate, ...] = ()  # to be admitted
    pages: Mapping[str, "Taken"] = MappingProxyType({})  # by digest id: new digests that were read along, whole
    more: bool = False  # of `claim_each` and `claim_suspects`: there may be more
    size: int = 0  # of `claim_suspects`: the size of the group
    passed_over: int = 0  # of `claim_suspects`: suspects that may not join a group of this size


class SuspectGroup(NamedTuple):
    """A group of suspects that a worker is about to try beside each other."""

    size: int  # once decided; before that the largest that the worker tries
    limit: int  # suspects that may still join
    alone: bool = True  # nothing else runs beside the group
    is_decided: bool = False  # by the first suspect
    skip: int = 0  # suspects that were passed over, as they may not join


class Admitted(NamedTuple):
    """The answer to admissions."""

    leases: list[Lease]  # of those that were opened
    ready: list[Due]  # those that were made ready, if no lease was asked for
    kept: int = 0  # those that wait again


class Take(NamedTuple):
    """A request for the records of an open digest, one page at a time."""

    lease: Lease
    capacity: int | None
    merge: bool  # after a reported failure, merge newer records
    after: Cursor | None = None
    max_bytes: int | None = None  # of payloads in a digest: the newest records are kept, at least one


class Taken(NamedTuple):
    """A page of an open digest. `revision` and `dropped` are final once it is complete."""

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
    openings: Openings | None = None  # of the policy's window
    given: bool = False  # the cool-down was given to the call: an override does not replace it
    keys: Sequence[str] | None = None  # of its newest records, for the history; None: the store looks for them
    ttl: Millis | None = None  # a cool-down that was given is at most half of it

    @property
    def plan(self) -> Plan:
        return Plan(self.cool_down, self.max_records, self.openings, self.given, self.ttl)


class Release(NamedTuple):
    """A failed attempt: try again at `until`; None makes the timeline ready again at once, as it was."""

    lease: Lease
    until: Millis | None
    freeze: bool = False  # the next attempt carries exactly the same records
    counted: bool = True  # False: nothing was tried, or the digest is not to blame
    unknown: bool = False  # it may have gone out
    tried: Millis | None = None  # since when attempts fail for the digest's own sake
    read: bool = True  # the attempt had the whole digest, and may have sent it


class Burial(NamedTuple):
    """A digest that becomes a dead letter; the timeline goes on as after a delivery."""

    lease: Lease
    reason: str
    cool_down: Millis
    max_records: int | None = None
    traceback: str = ""  # of the error, for people
    openings: Openings | None = None
    given: bool = False
    unknown: bool = False  # the last attempt may have gone out
    ttl: Millis | None = None

    @property
    def plan(self) -> Plan:
        return Plan(self.cool_down, self.max_records, self.openings, self.given, self.ttl)


class Replan(NamedTuple):
    """Another policy for a timeline that waits. One that has changed since it was seen is left alone."""

    timeline: str
    seen: Seen
    terms: Terms
    cool_down: Millis


class Requeue(NamedTuple):
    """A dead letter whose records are to be pending again, with the numbers of the policy in the code."""

    letter_id: str
    terms: Terms
    delay: Millis  # the cool-down, for which an idle timeline waits
    force: bool = False  # even if the letter may have gone out, or reached some recipients


class Requeued(NamedTuple):
    """What one page of a requeue did."""

    records: int  # that left the dead letter
    dropped: int  # pending records that capacity pushed out
    more: bool  # records are left in the letter


class QuarantinedRecord(NamedTuple):
    """A record that can't be decoded: it leaves the open digest and becomes a dead letter of its own."""

    key: str
    letter_id: str
    reason: str


class Wakeups:
    """Hints that a timeline may be claimed, for one idle worker at a time.

    A hint may get lost or be wrong, so the worker polls as well. This class gives no hints.
    """

    def __init__(self) -> None:
        self._closed = Event()

    def wait(self, timeout: float) -> bool:
        """True as soon as a timeline may have become ready since the last wait; False after `timeout` seconds.

        Several hints count as one. A store that can't be reached gives no hints and raises nothing; the connection's
        return is a hint, since others may have been missed. False at once when closed.
        """
        self._closed.wait(timeout)
        return False

    def wait_where(self, timeout: float) -> frozenset[int] | None:
        """Wait likewise, and return the partitions that the hints name. None: in any, or there was no hint."""
        self.wait(timeout)
        return None

    def close(self) -> None:
        """Close connections, and end a wait that is under way. Any thread may call it."""
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

    _wanted_value_bytes: int = VALUE_BYTES

    def value_bytes(self) -> int:
        """How many bytes an encoded value of this namespace may have, as far as any process has raised it."""
        noted = Note(self, "value_bytes", decode=lambda raw: min(int(raw), MOST_VALUE_BYTES), empty=VALUE_BYTES)
        return noted.update(lambda found: max(found, self._wanted_value_bytes)).after

    def raise_value_bytes(self, wanted: int) -> None:
        """Allow larger values in this namespace, in every process and for good.

        Raises ConfigError if more are allowed already, with nothing changed. While the store can't be reached, or has
        no room, the next call of `value_bytes` tries again.
        """
        if type(wanted) is not int or not VALUE_BYTES <= wanted <= MOST_VALUE_BYTES:
            allowed = f"from {VALUE_BYTES} to {MOST_VALUE_BYTES}"
            raise ConfigError(f"value_bytes: {shortened(wanted)} is not a whole number {allowed}")
        self._wanted_value_bytes = wanted
        found = self.value_bytes()
        if found > wanted:
            raise ConfigError(
                f"value_bytes: the namespace allows {found} and keeps that, not {wanted}; leave the option out"
            )


class Store(StoreReader, Notes, Documents):
    """Where the timelines of one namespace are kept.

    Verbs that search for timelines skip those whose slot is damaged; `claim` also removes them from the schedule, so
    that they do not fill its pages. Leases of a damaged timeline are stale, and verbs that name it raise StoreError.
    """

    durability: Durability
    enabled: bool = True  # False: accepts nothing

    def report_to(self, events: Events) -> None:
        """Emit events about the store itself to these listeners from now on. By default there are none."""

    @cached_property
    def _tenants_note(self) -> TenantsNote:
        return TenantsNote(self)

    def tenants(self) -> Tenants:
        """The prefixes that are named in this namespace, by any process. They decide about rings.

        History, removals and documents have one ring for each prefix and one for the rest, with bounds of its own.
        Read at most once in 15 s, never inside a transaction. Raises nothing if the store can't be reached.
        """
        return self._tenants_note.tenants()

    def name_tenants(self, prefixes: Iterable[str]) -> None:
        """Let the next call of `tenants` name these prefixes, for every process and for good.

        At most MOST_TENANTS are named in a namespace; timelines of the prefixes beyond share the ring of the rest.
        """
        self._tenants_note.name(prefixes)

    # Producing

    @abstractmethod
    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        """Accept records, in order; at most PAGE_RECORDS.

        A pending record of the same key is superseded; capacity is applied at each record. Returns only when the
        records are as safe as `durability` says.
        """

    def add_inside(self, connection: Any, batch: Sequence[Arrival]) -> None:
        """Accept records inside the caller's own transaction: they exist if and only if the caller commits.

        Locks nothing that others need. ConfigError if the store can't do it, or the connection is of another kind.
        """
        raise ConfigError("connection: only a PostgreSQL store can add inside a transaction of the caller's own")

    async def add_inside_async(self, connection: Any, batch: Sequence[Arrival], *, in_thread: InThread) -> None:
        """The same for a caller with an event loop, whose connection may be one that has to be awaited.

        What blocks is called by `in_thread`.
        """
        await in_thread(partial(self.add_inside, connection, batch))

    @abstractmethod
    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        """Remove a pending record, count it deleted and remember its key. False if there is none."""

    # Dispatching through a queue of the caller's own

    @abstractmethod
    def schedule(
        self,
        partition: int,
        deadline: Millis,
        *,
        after: tuple[int | str, ...] | None,
        limit: int,
        now: Millis | None,
        asks: bool = False,
    ) -> SchedulePage:
        """Make waiting timelines ready that are due at or before the deadline and not paused, earliest first.

        `after` is None for the first page and then the `after` of the last page. Over all pages a timeline is given
        once, even if it waits and is due again meanwhile. A call reads at most `limit` timelines, so a page may be
        empty although more follow. Candidates, as in `claim`, are answered as they are; `admit` makes them ready.
        """

    @abstractmethod
    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        """Let timelines wait again that became ready at or before the deadline, or whose lease lapsed.

        Workers call it without a deadline: then ready ones stay ready, and lapsed ones are left to `claim_suspects`
        unless they are paused. Also expires records older than their ttl, remembers how many, and sweeps a page.
        """

    def maintain_each(
        self, partitions: Sequence[int], deadline: Millis | None, *, limit: int, now: Millis | None
    ) -> list[Maintained | StoreError]:
        """The same in each of these partitions, asked at once where a store can; one that fails answers so."""
        answers: list[Maintained | StoreError] = []
        for partition in partitions:
            try:
                answers.append(self.maintain(partition, deadline, limit=limit, now=now))
            except StoreError as error:
                answers.append(error)
        return answers

    # Delivering

    @abstractmethod
    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        """Open up to `limit` timelines that are ready, or waiting and due; not paused.

        Earliest first. Timelines without any record become idle instead. Suspects are left to `claim_suspects`: their
        digests may have killed a worker, and could kill this one with all that it holds.

        A timeline is not opened but answered as a candidate if its override has a window, or if the caller `asks` for
        that: whether it may be delivered now is then decided outside of any transaction, and `admit` acts on it.

        The `pages` of the answer are whole digests as `take` would give them, without regard to capacity and
        `max_bytes`; a store reads along what costs it little, or nothing.
        """

    def claim_each(
        self,
        partitions: Sequence[int],
        limit: int,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        asks: bool = False,
    ) -> list[ClaimPage | StoreError]:
        """Claim in each of these partitions, at most `limit` timelines over all; a partition that fails answers so.

        By default one is asked after the other. A store that can asks all of them at once.
        """
        answers: list[ClaimPage | StoreError] = []
        left = limit
        for partition in partitions:
            if left < 1:
                answers.append(ClaimPage([], 0, more=True))
                continue
            try:
                page = self.claim(partition, left, token=f"{token}.{partition}", lease=lease, now=now, asks=asks)
            except StoreError as error:
                answers.append(error)
                continue
            given = len(page.leases) + len(page.candidates)
            answers.append(page._replace(more=given + page.retired >= left))
            left -= given
        return answers

    @abstractmethod
    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        """Open suspects (timelines whose lease lapsed) that are not paused and may join a group.

        The first to lapse comes first. Unless the size of the group is decided, the first suspect decides it
        (`machine.group_size`); only those join that `machine.may_join` lets. If the group runs alone, its size is noted
        with the leases, and `machine.after_lapse` learns from it. At most PAGE_TIMELINES are looked at; the answer says
        the size, how many were passed over, and whether there may be more. Candidates as in `claim`.
        """

    @abstractmethod
    def admit(
        self,
        admissions: Sequence[Admission],
        *,
        token: str | None = None,
        lease: Millis = 0,
        now: Millis | None,
    ) -> Admitted:
        """Open candidates under a lease, or without a token make them ready; let those wait that have an `until`.

        At most PAGE_TIMELINES, all of one partition. What has changed since it was seen is left alone.
        """

    @abstractmethod
    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        """Take a timeline's records for delivery. Raises Unadmitted where `claim` would answer a candidate.

        Raises InvalidState unless it is ready (or open with a lapsed lease), Busy while another lease lives, or while
        the store is being moved (see `transfer.ExportSource.begin_move`; `claim` and others give nothing then). Records
        that arrive meanwhile belong to the next digest. After a reported failure the same records come again, with the
        new ones; after a lapse, exactly the same. `alone` says that the caller runs nothing beside it: a group of one.
        """

    @abstractmethod
    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        """Read pages of open digests; a digest that is not prepared yet is merged and trimmed first.

        One call moves and reads at most PAGE_RECORDS and about PAGE_BYTES over all requests; repeat with each answer's
        `after` until it is complete. Pages of a complete digest do not change while the lease is held. A record whose
        value is gone has no payload: `quarantine` makes a dead letter of it. Records that are gone with their keys are
        counted as lost, and `damages` reports them; the revision rises if an earlier attempt may have carried them.
        """

    @abstractmethod
    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        """Turn records of an open digest into dead letters of their own; at most PAGE_RECORDS.

        Raises the digest's revision if an earlier attempt may have carried them.
        """

    @abstractmethod
    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        """Remove records from an open digest and count them deleted; at most PAGE_RECORDS.

        The digest notes up to HISTORY_KEYS of their keys, for the history. The answer is the digest's revision, which
        rises if an earlier attempt may have carried them; None if the token is stale.
        """

    @abstractmethod
    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        """Note which recipients have an open digest, so that the next attempt serves only the others."""

    @abstractmethod
    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        """Let leases end `lease` milliseconds from now.

        Without `alone`, clear the size of the group that is noted with them: something else runs beside it.
        """

    @abstractmethod
    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        """Leases that end after a time, the earliest of each partition first, at most `limit` in all.

        Leases of paused timelines and of moves are left out, and so are partitions that do not answer.
        """

    @abstractmethod
    def end_leases(self, leases: Sequence[LeaseEnd], *, now: Millis | None) -> list[bool]:
        """End leases now, as if they had run out. False for a lease that has another end by now: nothing changes."""

    @abstractmethod
    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        """End digests as delivered. The timeline cools down; after an empty digest with nothing pending it is idle."""

    @abstractmethod
    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        """End attempts that failed; the digests keep their records and are tried again."""

    @abstractmethod
    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        """End digests as dead letters. InvalidState, with nothing done, if one is being merged: take it whole first."""

    def listen(self) -> Wakeups:
        """Hints of timelines that become ready from now on, in any process. The caller closes them.

        Raises nothing if the store can't be reached. By default there are no hints.
        """
        return Wakeups()

    # Operating

    @abstractmethod
    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        """Delete a timeline with everything that belongs to it, and count its records deleted.

        One call deletes the timeline and at most PAGE_TIMELINES of its dead letters: repeat while True. Its records are
        no longer counted or found; `sweep` deletes them. With the token of a lease it ends the open digest as well;
        False, with nothing done, if the token is stale.
        """

    @abstractmethod
    def sweep(self) -> bool:
        """Delete a page of records that nothing owns any more. True if there may be more."""

    @abstractmethod
    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        """Make a waiting timeline ready. False in any other state; Busy while the store is being moved."""

    @abstractmethod
    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        """Set or clear the flag. False if that changes nothing."""

    @abstractmethod
    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        """Store a policy for the timeline; it moves what waits, as `machine.after_plan` says.

        Also of an unknown timeline. One that is off loses its pending records, and its unfinished digest unless that is
        open; they count as deleted.
        """

    @abstractmethod
    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        """Remove the stored policy. What waits moves by the given terms and cool-down. False if there is none."""

    @abstractmethod
    def refresh_override(self, timeline: str, override: Override) -> bool:
        """Replace the numbers of an override; nothing moves. False if the stored one was set at another time."""

    @abstractmethod
    def replan(self, replans: Sequence[Replan], *, now: Millis | None) -> list[bool]:
        """Move timelines that wait, at most PAGE_TIMELINES, as `machine.after_plan` says. True for those that moved."""

    @abstractmethod
    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        """Make a dead letter its timeline's unfinished digest. False without such a letter.

        Busy if there is an unfinished digest, or while the store is being moved. InvalidState if the value of its only
        record is gone.
        """

    @abstractmethod
    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        """Make records of a dead letter pending again: the oldest, at most `limit`. None if there is no such letter.

        InvalidState, with nothing done, if its timeline is switched off; without `force` also if the letter may have
        gone out, or if recipients have their part of it; always if the value of its only record is gone.
        Busy while the timeline is on its way to another store.

        Records that were dead count as pending. They expire by the ttl of the terms, counted from now, and have no
        deadline any more. Of two versions of a key the one that arrived later stays, the other counts as superseded;
        then capacity is applied. What the letter has in `dropped` goes along with its first records. An override comes
        before the terms, and its cool-down before the delay. The timeline moves as `machine.after_requeue` says.

        What is left remains a dead letter, under the next revision: repeat while there are `more`.
        """

    @abstractmethod
    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        """Delete a dead letter and count its records deleted. False if there is none."""

    def repair(self, partition: int, *, dry_run: bool, now: Millis | None) -> list[Damage]:
        """Repair damage, so that `verify` agrees afterwards; the answer is the damage that was found.

        The records of a damaged timeline become dead letters: one for those that were pending, one for those in its
        digest, which may have gone out. The timeline becomes idle. Records of an unknown timeline go to LOST_AND_FOUND.
        Records without a value become dead letters of their own. Damaged notes and entries of the history are removed.
        Counters are corrected in the same transaction, as `core.ledger.corrected` says: `accepted` stays, and what
        can't be accounted for is lost. A dry run changes nothing. Reads everything, in pages, while other calls go on.

        By default nothing in a store can be damaged.
        """
        return []
