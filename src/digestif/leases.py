"""Digests under a lease: opened, read page by page, renewed, and ended. Shared by everything that delivers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from digestif.core.capacity import Cursor, Stored
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.core.texts import reason_of
from digestif.core.times import Millis, to_millis
from digestif.errors import DigestifError, InvalidState, StaleLease, StoreError
from digestif.events import Events, LeaseNotRenewed
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, Burial, Closing, Lease, Release, SetAside, Store, Take
from digestif.stores.codec import Sealer, read_timestamp

Now = Callable[[], Millis | None]


class Whole(NamedTuple):
    """All records of an open digest, as they are stored."""

    revision: int
    dropped: int
    records: list[Stored]


class Delivery:
    """One attempt to deliver one digest."""

    def __init__(
        self,
        store: Store,
        timeline: str,
        *,
        policy: Policy,
        sealer: Sealer,
        lease: Millis,
        now: Now,
        minimum_delay: float | None = None,
    ) -> None:
        self._store = store
        self._policy = policy
        self._sealer = sealer
        self._duration = lease
        self._now = now
        self._minimum_delay = minimum_delay
        self.lease = store.open(timeline, token=fresh_id(), lease=lease, now=now())
        try:
            self.digest = self._begin()
        except InvalidState:
            raise  # it was buried
        except BaseException:
            self.give_back()
            raise

    def _begin(self) -> Digest:
        whole = read_whole(self._store, self.lease, self._policy, now=self._now)
        self._cool_down = self._cool_down_after(empty=not whole.records)  # if that fails, then before the delivery
        if self.lease.lapses >= self._policy.lapses:
            self._bury(f"{self.lease.lapses} leases lapsed: delivering it seems to end its workers")
            raise InvalidState(f"{self.lease.timeline!r}: its digest lapsed too often and is now a dead letter")
        records, broken = decode(whole.records, self._sealer)
        if broken:
            self._set_aside(broken)
            self._cool_down = self._cool_down_after(empty=not records)
            whole = read_whole(self._store, self.lease, self._policy, now=self._now)  # it may have another revision now
        lease = self.lease
        return Digest(lease.timeline, lease.digest_id, whole.revision, lease.attempt, whole.dropped, tuple(records))

    def _cool_down_after(self, *, empty: bool) -> Millis:
        if self._minimum_delay is not None:
            return to_millis(self._minimum_delay)
        return self._policy.cool_down(0 if empty else self.lease.iteration + 1)

    def _set_aside(self, broken: list[tuple[str, str]]) -> None:
        for start in range(0, len(broken), PAGE_RECORDS):
            page = broken[start : start + PAGE_RECORDS]
            aside = [SetAside(key, fresh_id(), reason) for key, reason in page]
            _require(self._store.set_aside(self.lease, aside, now=self._now()), self.lease)

    def close(self) -> None:
        """End it as delivered. StaleLease if the lease was lost."""
        closing = Closing(self.lease, self._cool_down, self._policy.max_records)
        _require(self._store.close([closing], now=self._now())[0], self.lease)
        if len(self.digest) > PAGE_RECORDS:
            while self._store.sweep():
                pass

    def fail(self, error: BaseException) -> None:
        """Give it back after an error; after the last attempt it is buried. Never raises: the error itself matters."""
        if self.lease.attempt < self._policy.attempts or not self.digest.records:
            self.give_back()
        else:
            with suppress(DigestifError):
                self._bury(reason_of(error))

    def give_back(self) -> None:
        """Make the timeline ready again, without a word if the lease is lost."""
        with suppress(DigestifError):  # the lease will lapse, then
            freeze = self._policy.redelivery == "same"
            self._store.release([Release(self.lease, None, freeze)], now=self._now())

    def _bury(self, reason: str) -> None:
        burial = Burial(self.lease, reason, self._cool_down, self._policy.max_records)
        _require(self._store.bury([burial], now=self._now())[0], self.lease)

    @contextmanager
    def renewed(self, events: Events) -> Iterator[None]:
        """Renew the lease in a thread of its own while the block runs."""
        done = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(done, events), name="digestif-lease", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            done.set()  # not joined: it may be waiting for the store, and whoever is here may be an event loop

    def _renew(self, done: threading.Event, events: Events) -> None:
        while not done.wait(self._duration / 3000):
            try:
                if not self._store.extend([self.lease], lease=self._duration, now=self._now())[0]:
                    return  # lost: the close will say so
            except StoreError as error:
                if done.is_set():
                    return
                events.emit(LeaseNotRenewed(timeline=self.lease.timeline, error=error))


def read_whole(store: Store, lease: Lease, policy: Policy, *, now: Now) -> Whole:
    """Read an open digest page by page; StaleLease if the lease is lost meanwhile."""
    records: list[Stored] = []
    after: Cursor | None = None
    while True:
        request = Take(lease, policy.capacity, policy.redelivery == "merge", after)
        page = store.take([request], now=now())[0]
        if page is None:
            raise StaleLease(f"{lease.timeline!r}: the lease lapsed or was lost while its digest was read")
        records += page.records
        after = page.after
        if page.complete:
            return Whole(page.revision, page.dropped, records)


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


def _require(done: bool, lease: Lease) -> None:
    if not done:
        raise StaleLease(f"{lease.timeline!r}: the lease lapsed or was lost; nothing was changed")
