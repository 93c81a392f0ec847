"""Held leases: which of them are renewed, which attempts run in this process, and which of these are a group."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar
from weakref import WeakSet

from digestif.clock import monotonic, wall_clock
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.errors import StaleLease, StoreError
from digestif.events.base import Events
from digestif.events.engine import LeaseNotRenewed
from digestif.stores.base import PAGE_TIMELINES, Lease, Store

T = TypeVar("T")

Now = Callable[[], Millis | None]  # None leaves it to the store's clock


class Group:
    """Suspects that are tried together, alone in the process. Known by identity: the leases hold the size."""


DISTURBED = Group()  # stands for any group beside which something else has begun


class HeldLease:
    """The lease of one attempt, by which the attempt is known until it has ended. Compared by identity."""

    __slots__ = (
        "__weakref__",
        "began",
        "duration",
        "given_at",
        "group",
        "lease",
        "now",
        "runs_in",
        "store",
        "timeline",
    )

    def __init__(self, lease: Lease, store: Store, *, duration: Millis, now: Now, group: Group | None = None) -> None:
        self.lease = lease
        self.timeline = lease.timeline
        self.store = store
        self.duration = duration
        self.given_at = lease.until - duration  # by the store's clock
        self.now = now
        self.group = group  # None: not a suspect, or one that began beside others
        self.began = monotonic()
        self.runs_in: object = None  # the process in which the attempt runs, as `Running` knows it

    @property
    def is_running(self) -> bool:
        """True until the attempt has ended."""
        return self in running()

    def store_time(self) -> Millis:
        """Return the time of the store without asking it: the lease says when it was given by the store's clock."""
        now = self.now()
        return self.given_at + to_millis(monotonic() - self.began) if now is None else now

    def time(self) -> float:
        """Return seconds by the clock that was given, else by that of this machine."""
        now = self.now()
        return wall_clock() if now is None else to_seconds(now)

    def took(self) -> float:
        """Return the seconds since the attempt began."""
        return monotonic() - self.began

    def failing(self) -> Millis | None:
        """Return for how long attempts of the digest have failed for its own sake; None if none has."""
        return None if self.lease.tried is None else max(0, self.store_time() - self.lease.tried)

    def stale(self) -> StaleLease:
        return StaleLease(f"{self.timeline!r}: the lease lapsed or was lost; nothing was changed")


class Renewals:
    """The leases that one worker, or one call, renews until their attempts end. Safe to use from several threads."""

    def __init__(self, store: Store, *, duration: Millis, now: Now, events: Events) -> None:
        self._store = store
        self._now = now
        self._events = events
        self._held: dict[HeldLease, None] = {}  # in the order in which they were given
        self.duration = duration

    def add(self, held: HeldLease) -> None:
        self._held[held] = None

    def drop(self, held: HeldLease) -> None:
        self._held.pop(held, None)

    def renew(self, renewed: Callable[[HeldLease], object]) -> None:
        """Renew all leases, and call `renewed` with each that is alive. Lost ones are dropped: their end reports it."""
        held = list(self._held)
        self._renew([each for each in held if each.group is not DISTURBED], renewed)
        # The store may not have answered when others began beside these. Or such a lease had lapsed, and lives again by
        # a clock that was set back.
        self._renew([each for each in held if each.group is DISTURBED], renewed, alone=False)

    def _renew(self, wanted: Sequence[HeldLease], renewed: Callable[[HeldLease], object], **options: bool) -> None:
        for page in pages_of(wanted):
            try:
                leases = [held.lease for held in page]
                answers = self._store.extend(leases, lease=self.duration, now=self._now(), **options)
            except StoreError as error:
                if any(held in self._held for held in page):
                    self._events.emit(LeaseNotRenewed(timeline=page[0].timeline, error=error))
                continue
            for held, is_alive in zip(page, answers, strict=True):
                if is_alive:
                    renewed(held)
                else:
                    self.drop(held)


class Running:
    """The attempts of a process that have not ended: a lapse is evidence against a group only if nothing ran beside it.

    References are weak: an attempt that was forgotten never ends. The garbage collector clears them before it runs
    finalizers, and one of these may end the attempt; so the lease itself knows whether its attempt runs.
    """

    def __init__(self) -> None:
        self.begin_process()

    def begin_process(self) -> None:
        """Begin without attempts: after a fork, those of the parent run in the parent alone."""
        self._process = object()
        self._lock = threading.RLock()  # a finalizer that leaves a block may run inside of any of these calls
        self._held: WeakSet[HeldLease] = WeakSet()
        self._group: Group | None = None  # to which all attempts belong

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not len(self._held)

    def __contains__(self, held: object) -> bool:
        return isinstance(held, HeldLease) and held.runs_in is self._process

    def begin(self, held: HeldLease) -> None:
        """Note that an attempt begins.

        If it begins beside a group of suspects, a lapse proves nothing now: the size of the group is cleared in the
        leases of its attempts.
        """
        with self._lock:
            held.runs_in = self._process
            self._held.add(held)
            if held.group is not None and len(self._held) == 1:
                self._group = held.group
            if held.group is self._group:
                return
            self._group = None
            disturbed = [each for each in self._held if each.group not in (None, DISTURBED)]
            for each in disturbed:
                each.group = DISTURBED
        if disturbed:
            _clear_group(disturbed)

    def end(self, held: HeldLease) -> bool:
        """Note that an attempt has ended. False if that was noted before."""
        with self._lock:
            was_running, held.runs_in = held.runs_in is self._process, None
            self._held.discard(held)
            return was_running


RUNNING = Running()
os.register_at_fork(after_in_child=RUNNING.begin_process)


def _clear_group(disturbed: Sequence[HeldLease]) -> None:
    for store in {held.store for held in disturbed}:
        for page in pages_of([held for held in disturbed if held.store is store]):
            with suppress(StoreError):  # the next renewal clears it
                leases = [held.lease for held in page]
                store.extend(leases, lease=page[0].duration, now=page[0].now(), alone=False)


def running() -> Running:
    """Return the attempts that run in this process, of all engines."""
    return RUNNING


def pages_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PAGE_TIMELINES] for start in range(0, len(items), PAGE_TIMELINES))
