"""Open digests: read page by page, decoded, with what can't be decoded set aside."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from digestif.clock import monotonic
from digestif.core.capacity import Cursor, Stored
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.core.times import Millis, to_millis
from digestif.desk import Desk
from digestif.errors import StaleLease
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, Lease, SetAside, Take
from digestif.stores.codec import Sealer, read_timestamp


@dataclass(slots=True)
class Whole:
    """An open digest as it is stored; read to the end once it is complete."""

    lease: Lease
    policy: Policy
    revision: int = 1
    dropped: int = 0
    records: list[Stored] = field(default_factory=list)
    after: Cursor | None = None
    complete: bool = False
    lost: bool = False  # the lease lapsed or was lost meanwhile
    began: float = field(default_factory=monotonic)  # by the clock that never steps

    def request(self) -> Take:
        return Take(self.lease, self.policy.capacity, merge=True, after=self.after)  # unless it is frozen


class Attempt(NamedTuple):
    """One attempt to deliver a digest."""

    lease: Lease
    digest: Digest
    policy: Policy
    cool_down: Millis  # after it was delivered
    began: float  # by the clock that never steps


class Errand(NamedTuple):
    """A digest that a route is to deliver. Without an attempt it was never stored."""

    digest: Digest
    attempt: Attempt | None = None
    desk: Desk | None = None


def read_whole(desk: Desk, leases: Sequence[Lease], *, at_most: int | None = None) -> list[Whole]:
    """Read open digests page by page, the first ones first.

    Once `at_most` records are read, those that nothing was read of are left as they are: not complete, not lost.
    """
    wholes = [Whole(lease, desk.policy_for(lease.timeline)) for lease in leases]
    reading = wholes
    while reading:
        for whole, page in zip(reading, desk.store.take([w.request() for w in reading], now=desk.now()), strict=True):
            if page is None:
                whole.lost = True
                continue
            whole.records += page.records
            whole.revision, whole.dropped = page.revision, page.dropped
            whole.after, whole.complete = page.after, page.complete
        reading = [whole for whole in reading if not whole.complete and not whole.lost]
        if at_most is not None and sum(len(whole.records) for whole in wholes) >= at_most:
            reading = [whole for whole in reading if whole.records]
    return wholes


def attempt_of(desk: Desk, whole: Whole, *, minimum_delay: float | None = None) -> Attempt:
    """The attempt that a digest read to its end makes possible. StaleLease if the lease is lost meanwhile."""
    if whole.lost:
        raise StaleLease(f"{whole.lease.timeline!r}: the lease lapsed or was lost while its digest was read")
    lease, policy = whole.lease, whole.policy
    cool_down = cool_down_of(whole, minimum_delay)  # a policy that fails does so before the delivery
    records, broken = decode(whole.records, desk.sealer)
    if broken:
        _set_aside(desk, lease, broken)
        [whole] = read_whole(desk, [lease])  # it may have another revision now
        return attempt_of(desk, whole, minimum_delay=minimum_delay)
    digest = Digest(lease.timeline, lease.digest_id, whole.revision, lease.attempt, whole.dropped, tuple(records))
    return Attempt(lease, digest, policy, cool_down, whole.began)


def cool_down_of(whole: Whole, minimum_delay: float | None = None) -> Millis:
    """The wait after a digest was delivered or buried."""
    if minimum_delay is not None:
        return to_millis(minimum_delay)
    return whole.policy.cool_down(whole.lease.iteration + 1 if whole.records else 0)


def _set_aside(desk: Desk, lease: Lease, broken: list[tuple[str, str]]) -> None:
    for start in range(0, len(broken), PAGE_RECORDS):
        page = [SetAside(key, fresh_id(), reason) for key, reason in broken[start : start + PAGE_RECORDS]]
        if not desk.store.set_aside(lease, page, now=desk.now()):
            raise StaleLease(f"{lease.timeline!r}: the lease lapsed or was lost; nothing was changed")


def decode(stored: list[Stored], sealer: Sealer) -> tuple[list[Record], list[tuple[str, str]]]:
    """The records whose values can be read, and key and reason of those whose values can't."""
    records: list[Record] = []
    broken: list[tuple[str, str]] = []
    for item in stored:
        try:
            value: Any = sealer.unseal(item.payload)
        except ValueError as error:
            broken.append((item.key, str(error)))
        else:
            records.append(Record(item.key, value, read_timestamp(item)))
    return records, broken
