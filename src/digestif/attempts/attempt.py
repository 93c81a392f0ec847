"""The attempt: a digest, its lease, its policy, and what a route may do with it on the way."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from digestif.clock import monotonic, wall_clock
from digestif.core.capacity import Cursor, Stored
from digestif.core.machine import Plan, Slot, unreachable, who_got, who_never_can
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.core.terms import Override
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.errors import ConfigError, StaleLease
from digestif.ids import fresh_id
from digestif.stores.base import HISTORY_KEYS, PAGE_RECORDS, Lease, Store
from digestif.stores.off import OffStore

if TYPE_CHECKING:
    from digestif.attempts.handlers import Handler
    from digestif.attempts.process import Group

Now = Callable[[], Millis | None]  # None leaves it to the store's clock


class SkippedRecipients(NamedTuple):
    """Recipients that further attempts leave out."""

    reached: frozenset[str] = frozenset()  # they have got the digest
    unreachable: frozenset[str] = frozenset()  # they never can


def with_records(digest: Digest, records: tuple[Record, ...]) -> Digest:
    """The same digest with other records. Made for each delivery, and `dataclasses.replace` is slow."""
    return Digest(digest.timeline, digest.id, digest.revision, digest.attempt, digest.dropped, records)


class Attempt:
    """One try to deliver one digest: what it carries, under which lease and policy, and how it ended."""

    __slots__ = (
        "__weakref__",
        "after",
        "answered",
        "began",
        "cool_down",
        "counted",
        "digest",
        "duration",
        "group",
        "handler",
        "is_completed",
        "is_dead",
        "is_ended",
        "is_lost",
        "is_read",
        "is_routed",
        "keys",
        "late",
        "lease",
        "now",
        "plan",
        "policy",
        "receipts",
        "store",
        "stored",
        "weight",
    )

    def __init__(self, lease: Lease, policy: Policy, *, store: Store, now: Now) -> None:
        self.lease = lease
        self.policy = policy
        self.store = store
        self.now = now
        self.handler: Handler | None = None
        self.digest = Digest(lease.timeline, lease.digest_id, 1, lease.attempt, 0, ())
        self.cool_down: Millis = 0  # after it was delivered or buried
        self.plan = Plan(0)  # how its timeline goes on then by the policy in the code
        self.began = monotonic()
        self.weight = 0  # bytes of its records, about as many as they take in memory
        self.receipts: list[str] = []  # what the receivers of its messages said
        self.answered = False  # its channel answered, be it with a refusal
        self.is_routed = False  # a route delivers it, which says whether the channel answered
        self.duration: Millis = 0  # of its lease
        self.late = 0.0  # seconds from due to claimed
        self.is_completed = False  # the store does not hear how it ends: delivered at most once, or never stored
        self.group: Group | None = None  # of suspects, if nothing runs beside that
        self.is_lost = False  # the lease lapsed or was lost
        self.is_dead = False  # it was to be discarded, and is still a dead letter
        self.is_ended = False  # and its event was emitted
        self.stored: list[Stored] = []  # while its records are read
        self.counted = 0  # records that were seen and not kept
        self.keys: tuple[str, ...] | None = None  # of its newest records, once they are forgotten
        self.after: Cursor | None = None  # likewise
        self.is_read = False  # to the end

    def clear_pages(self) -> None:
        self.stored, self.weight, self.after, self.is_read = [], 0, None, False

    @property
    def timeline(self) -> str:
        return self.lease.timeline

    @property
    def records(self) -> int:
        """How many records it has, as far as they were read."""
        return len(self.digest) or len(self.stored) or self.counted

    def newest_keys(self) -> tuple[str, ...] | None:
        """The keys of its records, as many as the history keeps; None if they were not read to the end."""
        if self.keys is not None or not self.is_read:
            return self.keys
        return tuple([record.key for record in self.digest.records[:HISTORY_KEYS]])

    def forget_records(self) -> None:
        """Free the memory of its records when its handler has ended; their number and keys are kept."""
        self.counted = self.records
        self.keys = self.newest_keys()
        self.digest = with_records(self.digest, ())
        self.weight = 0

    @property
    def chosen_zone(self) -> str | None:
        """The time zone that a person chose for the timeline."""
        return None if self.lease.override is None else self.lease.override.zone

    @property
    def took(self) -> float:
        """Seconds since it began."""
        return monotonic() - self.began

    def time(self) -> float:
        """Seconds, by the clock that was given, else that of this machine."""
        now = self.now()
        return wall_clock() if now is None else to_seconds(now)

    def store_time(self) -> Millis:
        """The time of the store, without asking it: the lease says when it began by the store's clock."""
        now = self.now()
        return self.lease.until - self.duration + to_millis(monotonic() - self.began) if now is None else now

    def began_at(self) -> Millis:
        """When its lease was given, by the store's clock."""
        return self.lease.until - self.duration

    def failing(self) -> Millis | None:
        """For how long attempts of its digest have failed for its own sake; None: none has."""
        return None if self.lease.tried is None else max(0, self.store_time() - self.lease.tried)

    def next_delivery(self) -> float | None:
        """When the timeline is delivered next at the earliest, if that is known; in seconds."""
        if self.is_completed or self.policy.max_records is not None:  # enough records may make it due before
            return None
        now = to_millis(self.time())
        due, window = now + self.cool_down, self.policy.window
        try:
            opening = due if window is None else window.first(self.timeline, due, now)
        except ConfigError:  # a user's function for the time zone fails
            opening = None
        return None if opening is None else to_seconds(opening)

    # What a route does on the way. Each of these raises StaleLease if the lease is lost.

    def remove(self, keys: Sequence[str]) -> None:
        """Take records out of the digest, here and in the store; they count as deleted."""
        revision: int | None = self.digest.revision
        for start in range(0, len(keys), PAGE_RECORDS):
            revision = self.store.remove(self.lease, keys[start : start + PAGE_RECORDS], now=self.now())
            if revision is None:
                raise self.stale()
        assert revision is not None
        gone = set(keys)
        rest = tuple(record for record in self.digest.records if record.key not in gone)
        self.digest = replace(self.digest, records=rest, revision=revision)

    def slot_of(self, timeline: str) -> Slot:
        """The slot of another timeline, with what its reader chose."""
        return self.store.inspect(timeline)

    def served(self) -> SkippedRecipients:
        """The recipients of a split digest that need no message any more."""
        slot = self.store.inspect(self.timeline)
        if slot.digest is None or slot.token != self.lease.token:
            raise self.stale()
        return SkippedRecipients(frozenset(who_got(slot.digest)), frozenset(who_never_can(slot.digest)))

    def mark_served(self, *recipients: str, reached: bool = True) -> None:
        """Note that recipients have got the digest, or never can: further attempts leave them out."""
        names = [name if reached else unreachable(name) for name in recipients]
        if not self.store.mark_served(self.lease, names, now=self.now()):
            raise self.stale()

    def stale(self) -> StaleLease:
        return StaleLease(f"{self.timeline!r}: the lease lapsed or was lost; nothing was changed")


class Unstored(Attempt):
    """An attempt to deliver a record that was never stored: it only emits events."""

    __slots__ = ("_asked",)

    def __init__(
        self,
        timeline: str,
        record: Record,
        policy: Policy,
        *,
        asked: Store,  # about other timelines
        override: Override | None = None,
        now: Now,
    ) -> None:
        at = now()
        began = to_millis(wall_clock()) if at is None else at
        lease = Lease(timeline, "", began, fresh_id(), 1, 0, 0, began, override=override)
        super().__init__(lease, policy, store=OffStore(), now=now)
        self._asked = asked
        self.digest = replace(self.digest, records=(record,))
        self.is_completed = True

    def slot_of(self, timeline: str) -> Slot:
        return self._asked.inspect(timeline)

    def remove(self, keys: Sequence[str]) -> None:
        gone = set(keys)
        self.digest = replace(
            self.digest, records=tuple(record for record in self.digest.records if record.key not in gone)
        )

    def served(self) -> SkippedRecipients:
        return SkippedRecipients()

    def mark_served(self, *recipients: str, reached: bool = True) -> None:
        """Do nothing: there is no further attempt that could read it."""
