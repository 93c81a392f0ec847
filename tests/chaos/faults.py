"""Faults, planted on purpose: each breaks a promise, and the simulation has to find it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace as replace_verdict
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from msgspec.structs import replace

from digestif.attempts import leases as attempts_leases
from digestif.attempts import pipeline, submission
from digestif.attempts.claims import ClaimedLeases, Claims
from digestif.attempts.judgement import BegunAttempts
from digestif.attempts.leases import HeldLease, Running
from digestif.attempts.pipeline import Pipeline
from digestif.attempts.reports import Reports
from digestif.attempts.stages import Completed, Completions, Judged, Loaded, Page
from digestif.attempts.steps import Steps
from digestif.attempts.submission import Answer
from digestif.core import machine
from digestif.core.machine import Slot, Unfinished
from digestif.core.verdicts import DELIVERED, Ending
from digestif.errors import StoreError
from digestif.events import Ended
from digestif.stores.base import Completion, Release, Store
from digestif.stores.rows import RowStore, endings, leases, open_digests
from digestif.stores.rows import store as row_store
from digestif.stores.rows.view import Rows
from digestif.worker.suspects import Suspects
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
def _complete() -> Any:
    """complete ignores the token"""
    right = RowStore.complete

    def wrong(self: RowStore, completions: Sequence[Completion], *, now: int | None) -> list[bool]:
        answers: list[bool] = []
        for completion in completions:
            slot = self.inspect(completion.lease.timeline)
            forged = completion.lease._replace(token=slot.token or "")
            at = min(self._now(now), (slot.until or 0) - 1)
            answers += right(self, [completion._replace(lease=forged)], now=at)
        return answers

    return RowStore, "complete", wrong


@fault()
def _expiry() -> Any:
    """a token is good until another one is given"""

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


@fault("merge")
def _interrupted_merge() -> Any:
    """a merge that was interrupted is not finished"""
    right = open_digests._needs_preparation

    def wrong(rows: Rows, request: Any, *, now: int) -> bool:
        digest = rows.slot(request.lease.timeline).digest
        return right(rows, request, now=now) and not (digest is not None and digest.frozen)

    return open_digests, "_needs_preparation", wrong


@fault()
def _late_suspects() -> Any:
    """a lapsed lease is claimable only after a minute"""
    right = leases.claim_suspects

    def wrong(rows: Rows, group: Any, grant: Any, *, asks: bool) -> Any:
        suspects = rows.suspects
        with patch.object(rows, "suspects", lambda now, **page: suspects(now - 60_000, **page)):
            return right(rows, group, grant, asks=asks)

    return row_store, "claim_suspects", wrong


@fault()
def _suspects_among_others() -> Any:
    """an ordinary claim gives suspects together with others"""
    right = leases.claim

    def wrong(rows: Rows, limit: int, grant: Any, *, asks: bool) -> Any:
        claimable = rows.claimable

        def all_of_them(now: int, *, limit: int) -> tuple[list[str], int | None]:
            found, suspect = claimable(now, limit=limit)
            return [*rows.suspects(now, skip=0, limit=limit), *found][:limit], suspect

        with patch.object(rows, "claimable", all_of_them):
            return right(rows, limit, grant, asks=asks)

    return row_store, "claim", wrong


@fault()
def _several_alone() -> Any:
    """several suspects that are tried together are noted as alone"""
    right, open_all = leases.claim_suspects, leases._open_all

    def wrong(rows: Rows, group: Any, grant: Any, *, asks: bool) -> Any:
        alone = grant._replace(group=1)
        with patch.object(leases, "_open_all", lambda rows, chosen, _, asks: open_all(rows, chosen, alone, asks=asks)):
            return right(rows, group, grant, asks=asks)

    return row_store, "claim_suspects", wrong


@fault()
def _lapses_alone() -> Any:
    """every lapse counts as one that happened alone"""
    right = machine.after_lapse
    return machine, "after_lapse", lambda slot: right(replace(slot, group=1))


@fault()
def _ledger() -> Any:
    """a burial counts as a delivery"""
    right = endings._bury

    def wrong(rows: Rows, burial: Any, *, now: int) -> bool:
        before = rows.tally["dead"]
        done = right(rows, burial, now=now)
        rows.tally["delivered"] += rows.tally["dead"] - before
        rows.tally["dead"] = before
        return done

    return endings, "_bury", wrong


@fault("merge", "same")
def _quarantine() -> Any:
    """a digest that may have gone out loses a record and keeps its key"""
    right = machine.after_losing

    def wrong(digest: Unfinished, lost: int, **facts: Any) -> Unfinished:
        left = right(digest, lost, **facts)
        return replace(left, revision=digest.revision) if digest.frozen else left

    return machine, "after_losing", wrong


# In attempts


@fault()
def _unanswered() -> Any:
    """endings are dropped when the store does not answer"""
    right = Pipeline.end

    def wrong(self: Pipeline, judged: Sequence[Judged]) -> Steps[list[Answer]]:
        answers = yield from right(self, judged)
        return [Ending.DELIVERED if isinstance(answer, StoreError) else answer for answer in answers]

    return Pipeline, "end", wrong


@fault()
def _give_back() -> Any:
    """a digest whose handler was running is given back as if nothing was tried"""
    right = submission._released

    def wrong(judged: Judged) -> Release:
        return right(replace(judged, verdict=replace_verdict(judged.verdict, unknown=False)))

    return submission, "_released", wrong


@fault("once")
def _at_most_once() -> Any:
    """what is to be delivered at most once is delivered although the store did not answer"""

    def wrong(self: Pipeline, loaded: Sequence[Loaded], begun: BegunAttempts) -> Steps[Any]:
        ready: list[Loaded] = []
        for each in loaded:
            yield from submission.submit(self.store, [each.judged(DELIVERED)], now=self.now())
            self.leases.drop(each.claimed.held)
            completed = Completed(*(getattr(each, field) for field in each.__struct_fields__))
            begun.reach(completed)
            ready.append(completed)
        return Completions(ready, [])

    return Pipeline, "_complete", wrong


@fault()
def _poison() -> Any:
    """a digest that ends its workers is never buried"""
    return pipeline, "poison", lambda lapses_alone, policy: None


@fault()
def _renewal() -> Any:
    """only the first lease is renewed"""
    return attempts_leases, "pages_of", lambda items: [items[:1]]


@fault()
def _unread() -> Any:
    """leases whose digests could not be read are kept"""
    right = Pipeline._load_page

    def wrong(self: Pipeline, *args: Any, **options: Any) -> Steps[Page]:
        page = yield from right(self, *args, **options)
        return page if page.error is None else page._replace(judged=[])

    return Pipeline, "_load_page", wrong


@fault()
def _stop_renewing() -> Any:
    """the end of an old lease ends the renewal of the new lease of the same digest"""
    right = Reports._end

    def wrong(self: Reports, held: HeldLease, event: Ended) -> None:
        for each in list(self._leases._held):
            if each.lease.digest_id == held.lease.digest_id:
                self._leases.drop(each)
        right(self, held, event)

    return Reports, "_end", wrong


@fault("once")
def _not_completed() -> Any:
    """what could not be completed before its delivery is held for ever"""
    right = Pipeline._complete

    def wrong(self: Pipeline, loaded: Sequence[Loaded], begun: BegunAttempts) -> Steps[Any]:
        done = yield from right(self, loaded, begun)
        return done._replace(refused=[])

    return Pipeline, "_complete", wrong


@fault()
def _pages() -> Any:
    """an error forgets the leases that the pages before it gave"""
    right = Claims.claim

    def wrong(self: Claims, limit: int, *facts: Any) -> ClaimedLeases:
        store = self._store
        errors: list[StoreError] = []

        class Watched:
            partitions = store.partitions
            claim_suspects, open, admit = store.claim_suspects, store.open, store.admit

            def claim(self, *args: Any, **kwargs: Any) -> Any:
                try:
                    return store.claim(*args, **kwargs)
                except StoreError as error:
                    errors.append(error)
                    raise

        self._store = cast(Store, Watched())
        try:
            claimed = right(self, limit, *facts)
        finally:
            self._store = store
        if errors:
            raise errors[0]
        return claimed

    return Claims, "claim", wrong


@fault()
def _told_twice() -> Any:
    """the end of an attempt is told twice"""
    right = Reports._end

    def wrong(self: Reports, held: HeldLease, event: Ended) -> None:
        right(self, held, event)
        self._events.emit(event)

    return Reports, "_end", wrong


@fault()
def _not_told() -> Any:
    """the end of an attempt that lost its lease is not told"""
    right = Reports.ended

    def wrong(self: Reports, judged: Judged, answer: Answer) -> None:
        if answer is None:
            self._leases.drop(judged.held)
            attempts_leases.running().end(judged.held)
        else:
            right(self, judged, answer)

    return Reports, "ended", wrong


@fault()
def _others_run() -> Any:
    """alone is noted although others run in the process"""
    return Running, "is_idle", True


@fault()
def _evidence() -> Any:
    """what begins beside suspects does not clear the size of their group"""
    return attempts_leases, "_clear_group", lambda disturbed: None


# In the worker


@fault()
def _others_beside_suspects() -> Any:
    """others are claimed while suspects are tried"""
    return Suspects, "are_tried", False


@fault()
def _others_beside_the_claim() -> Any:
    """others are claimed while suspects are being claimed"""

    right = Suspects.begin_claim

    def wrong(self: Suspects, most: int) -> int:
        size = right(self, most)
        self._is_claiming = False
        return size

    return Suspects, "begin_claim", wrong
