"""The delivery: a digest during the call of its handler, and the receipts of its messages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from digestif.attempts.leases import HeldLease, Now
from digestif.attempts.stages import Claimed, Completed, Judged, Loaded, Unstored
from digestif.clock import wall_clock
from digestif.core.machine import Plan, Slot, unreachable, who_got, who_never_can
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.core.terms import Override
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.verdicts import Verdict
from digestif.errors import ConfigError
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, Lease, Store

if TYPE_CHECKING:
    from digestif.attempts.handlers import Handler


class SkippedRecipients(NamedTuple):
    """Recipients that further attempts leave out."""

    reached: frozenset[str] = frozenset()  # they have got the digest
    unreachable: frozenset[str] = frozenset()  # they never can


class Delivery:
    """One call of a handler. A route also removes records, and notes which recipients have got their part."""

    __slots__ = ("answered", "digest", "held", "loaded", "policy", "receipts", "timeline")

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.digest: Digest = loaded.digest
        self.timeline = loaded.digest.timeline
        self.held: HeldLease = loaded.claimed.held
        self.policy: Policy = loaded.claimed.policy
        self.receipts: tuple[str, ...] = ()  # what the receivers of its messages said
        self.answered: bool | None = None  # its channel answered, be it with a refusal; None: the handler can't tell

    def judged(self, verdict: Verdict) -> Judged:
        """Return the attempt with its verdict, and without its records."""
        return self.loaded.judged(verdict, digest=self.digest, receipts=self.receipts, answered=self.answered)

    @property
    def is_frozen(self) -> bool:
        """True if an earlier attempt may have sent the records: no other ones may go out under their key."""
        return self.held.lease.frozen

    @property
    def chosen_zone(self) -> str | None:
        """The time zone that a person chose for the timeline."""
        override = self.held.lease.override
        return None if override is None else override.zone

    def now(self) -> Millis | None:
        """Return the time that was given; None leaves it to the store's clock."""
        return self.held.now()

    def next_delivery(self) -> float | None:
        """Return when the timeline is delivered next at the earliest, in seconds; None if that is not known."""
        policy = self.policy
        if (
            isinstance(self.loaded, Completed) or policy.max_records is not None
        ):  # enough records may make it due before
            return None
        now = to_millis(self.held.time())
        due, window = now + self.loaded.cool_down, policy.window
        try:
            opening = due if window is None else window.first(self.timeline, due, now)
        except ConfigError:  # a user's function for the time zone fails
            opening = None
        return None if opening is None else to_seconds(opening)

    # In the store. Each of these raises StaleLease if the lease is lost.

    def remove(self, keys: Sequence[str]) -> None:
        """Take records out of the digest, here and in the store; they count as deleted."""
        revision: int | None = self.digest.revision
        for start in range(0, len(keys), PAGE_RECORDS):
            revision = self.held.store.remove(self.held.lease, keys[start : start + PAGE_RECORDS], now=self.now())
            if revision is None:
                raise self.held.stale()
        assert revision is not None
        self._forget(keys, revision=revision)

    def _forget(self, keys: Sequence[str], *, revision: int) -> None:
        gone = set(keys)
        rest = tuple(record for record in self.digest.records if record.key not in gone)
        self.digest = replace(self.digest, records=rest, revision=revision)

    def slot_of(self, timeline: str) -> Slot:
        """Return the slot of another timeline, with what its reader chose."""
        return self.held.store.inspect(timeline)

    def served(self) -> SkippedRecipients:
        """Return the recipients of a split digest that need no message any more."""
        slot = self.held.store.inspect(self.timeline)
        if slot.digest is None or slot.token != self.held.lease.token:
            raise self.held.stale()
        return SkippedRecipients(frozenset(who_got(slot.digest)), frozenset(who_never_can(slot.digest)))

    def mark_served(self, *recipients: str, reached: bool = True) -> None:
        """Note that recipients have got the digest, or never can: further attempts leave them out."""
        names = [name if reached else unreachable(name) for name in recipients]
        if not self.held.store.mark_served(self.held.lease, names, now=self.now()):
            raise self.held.stale()


class UnstoredDelivery(Delivery):
    """A delivery of a record that was never stored: there is no lease, and no further attempt."""

    __slots__ = ()

    def remove(self, keys: Sequence[str]) -> None:
        self._forget(keys, revision=self.digest.revision)

    def served(self) -> SkippedRecipients:
        return SkippedRecipients()

    def mark_served(self, *recipients: str, reached: bool = True) -> None:
        """Do nothing: there is no further attempt that could read it."""


def unstored(
    store: Store,
    timeline: str,
    record: Record,
    policy: Policy,
    handler: "Handler",
    override: Override | None,
    *,
    now: Now,
) -> Unstored:
    """Return a record that is not stored as what a handler delivers, with a lease that no store has given."""
    at = now()
    began = to_millis(wall_clock()) if at is None else at
    lease = Lease(timeline, "", began, fresh_id(), 1, 0, 0, began, override=override)
    held = HeldLease(lease, store, duration=0, now=now)
    digest = Digest(timeline, lease.digest_id, 1, 1, 0, (record,))
    return Unstored(Claimed(held, policy, 0.0, handler), digest, 0, 0, Plan(0))
