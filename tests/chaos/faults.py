"""Faults, planted on purpose: each breaks a promise, and the simulation has to find it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from msgspec.structs import replace

from digestif import partitions
from digestif.core import machine
from digestif.core.machine import Slot, Unfinished
from digestif.core.verdicts import Deliver, PutOff
from digestif.endings import Ending
from digestif.errors import StoreError
from digestif.worker import shift
from digestif.worker.shift import Job, Shift
from digestif.stores.base import Closing, Lease, Release, Store
from digestif.stores.rows import RowStore, ending, leasing, reading
from digestif.stores.rows.view import Rows
from tests.chaos.world import POLICIES


class Fault(NamedTuple):
    """Something wrong, and the timelines that suffer most from it."""

    planted: Callable[[], AbstractContextManager[None]]
    kinds: Sequence[str]


FAULTS: dict[str, Fault] = {}


def fault(*kinds: str) -> Callable[[Callable[[], Any]], None]:
    """Plant what the function gives (owner, name, replacement); its docstring says what goes wrong."""

    def register(plant: Callable[[], Any]) -> None:
        @contextmanager
        def planted() -> Iterator[None]:
            owner, name, wrong = plant()
            with patch.object(owner, name, wrong):
                yield

        assert plant.__doc__ is not None
        FAULTS[plant.__doc__] = Fault(planted, kinds or tuple(POLICIES))

    return register


# In the stores and the machine


@fault()
def _close() -> Any:
    """close ignores the token"""
    right = RowStore.close

    def wrong(self: RowStore, closings: Sequence[Closing], *, now: int | None) -> list[bool]:
        answers: list[bool] = []
        for closing in closings:
            slot = self.inspect(closing.lease.timeline)
            forged = closing.lease._replace(token=slot.token or "")
            at = min(self._now(now), (slot.until or 0) - 1)
            answers += right(self, [closing._replace(lease=forged)], now=at)
        return answers

    return RowStore, "close", wrong


@fault()
def _expiry() -> Any:
    """a token is good as long as nobody took over"""

    def wrong(slot: Slot, token: str, *, now: int) -> bool:
        return slot.token == token

    return machine, "is_held", wrong


@fault()
def _stale_release() -> Any:
    """a refused release still wakes the timeline"""
    right = RowStore.release

    def wrong(self: RowStore, releases: Sequence[Release], *, now: int | None) -> list[bool]:
        answers = right(self, releases, now=now)
        for release, done in zip(releases, answers, strict=True):
            if not done:
                self.flush(release.lease.timeline, now=now)
        return answers

    return RowStore, "release", wrong


@fault()
def _freeze() -> Any:
    """a lapse does not freeze"""
    right = machine.after_lapse

    def wrong(slot: Slot) -> Slot:
        lapsed = right(slot)
        if lapsed.digest is None or slot.digest is None:
            return lapsed
        return replace(lapsed, digest=replace(lapsed.digest, frozen=slot.digest.frozen))

    return machine, "after_lapse", wrong


@fault()
def _attempt() -> Any:
    """an attempt after a lapse is not counted"""
    right = machine.after_open

    def wrong(slot: Slot, **facts: Any) -> Slot:
        opened = right(slot, **facts)
        if slot.digest is None or opened.digest is None or not slot.digest.frozen:
            return opened
        return replace(opened, digest=replace(opened.digest, attempt=slot.digest.attempt))

    return machine, "after_open", wrong


@fault("merge", "eager")
def _revision() -> Any:
    """a merge keeps the revision"""
    right = machine.after_decision

    def wrong(slot: Slot, *, merge: bool) -> Slot:
        decided = right(slot, merge=merge)
        assert slot.digest is not None
        assert decided.digest is not None
        return replace(decided, digest=replace(decided.digest, revision=slot.digest.revision))

    return machine, "after_decision", wrong


@fault("merge", "eager")
def _interrupted_merge() -> Any:
    """a merge that was interrupted is not finished"""
    right = reading._needs_settling

    def wrong(rows: Rows, request: Any, *, now: int) -> bool:
        digest = rows.slot(request.lease.timeline).digest
        return right(rows, request, now=now) and not (digest is not None and digest.frozen)

    return reading, "_needs_settling", wrong


@fault()
def _claim() -> Any:
    """a lapsed lease is claimable only after a minute"""
    right = leasing.claim

    def wrong(rows: Rows, limit: int, **facts: Any) -> Any:
        now = facts["now"]
        claimable = rows.claimable

        def slow(now: int, *, limit: int) -> list[str]:
            found = claimable(now, limit=limit)
            return [name for name in found if (until := rows.slot(name).until) is None or until + 60_000 <= now]

        with patch.object(rows, "claimable", slow):
            return right(rows, limit, **{**facts, "now": now})

    return leasing, "claim", wrong


@fault()
def _ledger() -> Any:
    """a burial counts as a delivery"""
    right = ending._bury

    def wrong(rows: Rows, burial: Any, *, now: int) -> bool:
        before = rows.tally["dead"]
        done = right(rows, burial, now=now)
        rows.tally["delivered"] += rows.tally["dead"] - before
        rows.tally["dead"] = before
        return done

    return ending, "_bury", wrong


@fault("merge", "same")
def _set_aside() -> Any:
    """a digest that may have gone out loses a record and keeps its key"""
    right = machine.after_losing

    def wrong(digest: Unfinished, lost: int, **facts: Any) -> Unfinished:
        left = right(digest, lost, **facts)
        return replace(left, revision=digest.revision) if digest.frozen else left

    return machine, "after_losing", wrong


# In the worker


@fault()
def _settle() -> Any:
    """endings are dropped when the store does not answer"""

    right = Shift.settle

    def wrong(self: Shift, *, again: bool | None = None) -> StoreError | None:
        error = right(self, again=again)
        self._unanswered.clear()
        return error

    return Shift, "settle", wrong


@fault()
def _give_back() -> Any:
    """a digest whose handler was running is given back as if nothing was tried"""

    def wrong(self: Shift, job: Job, *, begun: bool) -> None:
        if not job.is_closed:
            self._ended.append(Ending.of(job.attempt, PutOff(None)))

    return Shift, "give_back", wrong


@fault("once")
def _at_most_once() -> Any:
    """what is to be delivered at most once is delivered although the store did not answer"""

    def wrong(self: Shift, jobs: list[Job]) -> list[Job]:
        early = [Ending.of(job.attempt, Deliver()) for job in jobs if job.handler.at_most_once]
        if early:
            self._conclude(early)
        return [job._replace(is_closed=job.handler.at_most_once) for job in jobs]

    return Shift, "_closed_first", wrong


@fault()
def _poison() -> Any:
    """a digest that ends its workers is never buried"""
    return shift, "is_poison", lambda lapses, policy: False


@fault()
def _renewal() -> Any:
    """only the first lease is renewed"""
    right = shift._pages

    def wrong(items: Sequence[Any]) -> Any:
        return right(items[:1] if items and isinstance(items[0], Lease) else items)

    return shift, "_pages", wrong


@fault()
def _unread() -> Any:
    """leases whose digests could not be read are kept"""

    def wrong(self: Shift, leases: Sequence[Lease], verdict: PutOff) -> None:
        pass

    return Shift, "_put_off", wrong


@fault()
def _let_go() -> Any:
    """the end of an old lease lets go of the new lease of the same digest"""

    def wrong(self: Shift, lease: Lease) -> None:
        for place, held in list(self._held.items()):
            if held.digest_id == lease.digest_id:
                del self._held[place]

    return Shift, "_let_go", wrong


@fault("once")
def _unclosed() -> Any:
    """what could not be closed before its delivery is held for ever"""
    right = Shift._closed_first

    def wrong(self: Shift, jobs: list[Job]) -> list[Job]:
        before = len(self._ended)
        closed = right(self, jobs)
        while len(self._ended) > before:
            self._ended.pop()
        return closed

    return Shift, "_closed_first", wrong


@fault()
def _pages() -> Any:
    """an error forgets the leases that the pages before it gave"""
    right = partitions.claim

    def wrong(store: Any, limit: int, **facts: Any) -> list[Lease]:
        errors: list[StoreError] = []

        class Watched:
            partitions = store.partitions

            def claim(self, *args: Any, **kwargs: Any) -> Any:
                try:
                    return store.claim(*args, **kwargs)
                except StoreError as error:
                    errors.append(error)
                    raise

        leases = right(cast(Store, Watched()), limit, **facts)
        if errors:
            raise errors[0]
        return leases

    return shift, "claim", wrong
