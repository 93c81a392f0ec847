"""A store of rows: a verb runs a unit of work that loads slots, calls the machine, moves records and counts fates.

Units are lambdas. They are partials where a loop rebinds a variable that they use, and on the path of a single add,
where a partial saves a call.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TypeVar

from digestif.clock import monotonic
from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis, to_millis
from digestif.core.transfer import is_incoming
from digestif.errors import Busy
from digestif.stores.base import (
    PAGE_BYTES,
    PAGE_RECORDS,
    Accepted,
    Admission,
    Admitted,
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Lease,
    LeaseEnd,
    Maintained,
    QuarantinedRecord,
    Release,
    Replan,
    Requeue,
    Requeued,
    SchedulePage,
    Store,
    SuspectGroup,
    Take,
    Taken,
    Wakeups,
    weight_of_adds,
)
from digestif.stores.documents import DOCUMENTS_PAGE, Bounds, Document
from digestif.stores.reader import Order, Part, Place, TimelinePage
from digestif.stores.rows import (
    arrivals,
    documents,
    endings,
    open_digests,
    operations,
    overrides,
    queries,
    schedule,
    transfer,
)
from digestif.stores.rows.leases import (
    Grant,
    admit,
    claim,
    claim_suspects,
    end_leases,
    extend_all,
    open_ready,
    release_all,
)
from digestif.stores.rows.survey import pages_of_flaws, repair_page, survey, verify
from digestif.stores.rows.view import Rows
from digestif.stores.transfer import ExportedRecord, Fence, ImportPage, ImportProgress, Parcel, TransferStore
from digestif.stores.wakeups import Hints, LocalWakeups

T = TypeVar("T")

REPAIR_TRIES = 3
ADDING, CLAIMING = 1.0, 0.25  # the shares of the reserve that adds and claims must leave unused


class RowStore(Store, TransferStore):
    """A store whose verbs run on rows."""

    clock: Callable[[], float]
    page_records = PAGE_RECORDS

    @abstractmethod
    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1, share: float = 0.0) -> T:
        """Run a unit of work in one transaction, and return its result after the commit.

        A unit that raises a DigestifError has changed nothing. `weight` is about the number of rows that it writes.
        `share` is the part of the reserved space that it must leave unused: if space runs short, adds are refused
        first, then claims, and digests can still be ended.
        """

    @abstractmethod
    def _read(self, unit: Callable[[Rows], T], *, pending: bool = True) -> T:
        """Run a unit of work that only reads, on one snapshot. `pending` says whether it looks at pending records."""

    def _with_tenants(self, unit: Callable[[Rows], T]) -> Callable[[Rows], T]:
        """Give a unit of work the tenants as they are now: history and removals are kept by tenant."""
        tenants = self.tenants()

        def with_tenants(rows: Rows) -> T:
            rows.tenants = tenants
            return unit(rows)

        return with_tenants

    def _now(self, now: Millis | None) -> Millis:
        return self.time(0) if now is None else now

    def time(self, partition: int) -> Millis:
        return to_millis(self.clock())

    # Producing

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        at = self._now(now)
        weight = max(len(batch), weight_of_adds(batch) * PAGE_RECORDS // PAGE_BYTES)
        answers = self._write(partial(arrivals.add_all, batch=batch, now=at), weight=weight, share=ADDING)
        self._hints.wake(worth=any(answer.ready for answer in answers))
        return answers

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(self._with_tenants(lambda rows: arrivals.retract(rows, timeline, key, now=at)))

    # Dispatching

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
        at = self._now(now)
        return self._write(lambda rows: schedule.schedule(rows, deadline, after=after, limit=limit, now=at, asks=asks))

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        at = self._now(now)
        return self._write(self._with_tenants(lambda rows: schedule.maintain(rows, deadline, limit=limit, now=at)))

    # Delivering

    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        at = self._now(now)
        grant = Grant(token, at + lease, at)
        return self._write(lambda rows: claim(rows, limit, grant, asks=asks), share=CLAIMING)

    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        at = self._now(now)
        grant = Grant(token, at + lease, at)
        return self._write(lambda rows: claim_suspects(rows, group, grant, asks=asks), share=CLAIMING)

    def admit(
        self,
        admissions: Sequence[Admission],
        *,
        token: str | None = None,
        lease: Millis = 0,
        now: Millis | None,
    ) -> Admitted:
        at = self._now(now)
        grant = None if token is None else Grant(token, at + lease, at)
        return self._write(lambda rows: admit(rows, admissions, grant, now=at), share=CLAIMING)

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
        at = self._now(now)
        grant = Grant(token, at + lease, at, group=int(alone))
        return self._write(lambda rows: open_ready(rows, timeline, grant, asks=asks), share=CLAIMING)

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        at = self._now(now)
        answers = self._read(lambda rows: open_digests.take_prepared(rows, requests, now=at), pending=False)
        for read in (open_digests.take_counted, open_digests.take_all):  # the second if a digest must be counted again
            if answers is None:
                losses = self._write(lambda rows: open_digests.prepare_all(rows, requests, now=at))
                self.damages.report_losses(losses)
                answers = self._read(partial(read, requests=requests, now=at), pending=False)
        assert answers is not None  # `take_all` always answers
        return answers

    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: endings.quarantine(rows, lease, records, now=at))

    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        at = self._now(now)
        return self._write(lambda rows: endings.remove(rows, lease, keys, now=at))

    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: endings.mark_served(rows, lease, recipients, now=at))

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: extend_all(rows, leases, until=at + lease, now=at, alone=alone))

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        return self._read(lambda rows: rows.leases_beyond(time, limit=limit), pending=False)

    def end_leases(self, leases: Sequence[LeaseEnd], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: end_leases(rows, leases, now=at))

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(self._with_tenants(lambda rows: endings.complete_all(rows, completions, now=at)))

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        answers = self._write(lambda rows: release_all(rows, releases, now=at))
        self._hints.wake(worth=any(release.until is None or release.until <= at for release in releases))
        return answers

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(self._with_tenants(lambda rows: endings.bury_all(rows, burials, now=at)))

    # Hints

    @cached_property
    def _hints(self) -> Hints:
        return Hints()

    def listen(self) -> Wakeups:
        return self._hints.listen(LocalWakeups())

    def _wake_if(self, done: bool) -> bool:
        """Wake workers if something was done. Return `done`."""
        self._hints.wake(worth=done)
        return done

    # Operating

    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: operations.delete(rows, timeline, token=token, now=at))

    def sweep(self) -> bool:
        return self._write(lambda rows: rows.sweep(PAGE_RECORDS))

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._wake_if(self._write(lambda rows: operations.flush(rows, timeline, now=at)))

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return self._wake_if(self._write(lambda rows: operations.pause(rows, timeline, paused)))

    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        at = self._now(now)
        self._write(lambda rows: overrides.set_override(rows, timeline, override, now=at))
        self._hints.wake(worth=True)

    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        at = self._now(now)
        done = self._write(
            lambda rows: overrides.clear_override(rows, timeline, terms=terms, cool_down=cool_down, now=at)
        )
        return self._wake_if(done)

    def refresh_override(self, timeline: str, override: Override) -> bool:
        return self._write(lambda rows: overrides.refresh_override(rows, timeline, override))

    def replan(self, replans: Sequence[Replan], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        answers = self._write(lambda rows: overrides.replan(rows, replans, now=at), weight=len(replans))
        self._hints.wake(worth=any(answers))
        return answers

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        if is_incoming(letter_id):
            return False
        return self._wake_if(self._write(lambda rows: operations.replay(rows, letter_id, now=at)))

    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        at = self._now(now)
        if is_incoming(request.letter_id):
            return None
        page = min(limit, PAGE_RECORDS)
        done, losses = self._write(lambda rows: operations.requeue(rows, request, limit=page, now=at), weight=2 * page)
        self._hints.wake(worth=done is not None)
        self.damages.report_losses(losses)
        return done

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        if is_incoming(letter_id):
            return False
        return self._write(self._with_tenants(lambda rows: operations.discard(rows, letter_id, now=at)))

    # Queries

    def inspect(self, timeline: str) -> Slot:
        return self._read(lambda rows: rows.slot(timeline))

    def overrides(self, timelines: Sequence[str]) -> list[Override | None]:
        return self._read(partial(queries.overrides, timelines=timelines), pending=False)

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        return self._read(lambda rows: queries.scan(rows, prefix=prefix, after=after, limit=limit))

    def count_timelines(self, prefix: str, *, most: int) -> int:
        return self._read(lambda rows: rows.count_timelines(prefix, most))

    def look_over(self, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
        return self._read(lambda rows: queries.look_over(rows, order, prefix=prefix, after=after, limit=limit))

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        return self._read(lambda rows: queries.records(rows, timeline, part, after=after, limit=limit))

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        return self._read(lambda rows: queries.find(rows, timeline, key))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        return self._read(lambda rows: queries.letters(rows, timeline, after=after, limit=limit))

    def letter(self, letter_id: str) -> DeadLetter | None:
        return None if is_incoming(letter_id) else self._read(lambda rows: rows.letter(letter_id))

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        return self._read(lambda rows: queries.letter_records(rows, letter_id, after=after, limit=limit))

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        return self._read(lambda rows: rows.letter_with(timeline, key))

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        return self._read(lambda rows: rows.history(timeline, limit=limit, prefix=prefix))

    def removals(self, timeline: str) -> Removals:
        return self._read(lambda rows: rows.removals(timeline))

    def kept_since(self, timeline: str) -> Millis | None:
        return self._read(self._with_tenants(lambda rows: queries.kept_since(rows, timeline)))

    def standing(self, *, now: Millis, most: int | None = None) -> Standing:
        return self._read(lambda rows: rows.standing(now, most))

    def ledger(self) -> Ledger:
        return self._read(lambda rows: rows.ledger())

    def digests_delivered(self) -> int:
        return self._read(lambda rows: rows.digests_delivered())

    def verify(self) -> Verification:
        return self._read(verify)

    def repair(self, partition: int, *, dry_run: bool, now: Millis | None) -> list[Damage]:
        at = self._now(now)
        for _ in range(REPAIR_TRIES):
            found = self._read(survey)
            pages = [] if dry_run else pages_of_flaws(found)
            if all(self._write(partial(repair_page, survey=found, flaws=page, now=at)) for page in pages):
                return [flaw.damage for flaw in found.flaws]
        raise Busy("repair: others repair this store just now; try again when they are done")

    def footprint(self) -> Mapping[str, int]:
        return self._read(lambda rows: rows.footprint())

    # Transfer

    def due(self, *, limit: int, now: Millis | None) -> list[tuple[str, Slot]]:
        at = self._now(now)
        return self._read(lambda rows: transfer.due(rows, limit=limit, now=at))

    def begin_move(self, partition: int, move_id: str, *, now: Millis | None) -> None:
        at = self._now(now)
        self._write(lambda rows: transfer.begin_move(rows, move_id, now=at))

    def end_move(self, partition: int, move_id: str | None) -> None:
        self._wake_if(self._write(lambda rows: transfer.end_move(rows, move_id)))

    def moving_since(self) -> Millis | None:
        return self._read(lambda rows: transfer.moving_since(rows))

    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        at = self._now(now)
        parcels, losses = self._write(lambda rows: transfer.begin_export(rows, timelines, token=token, now=at))
        self.damages.report_losses(losses)
        return parcels

    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        return self._read(lambda rows: transfer.read_export(rows, requests, limit=limit))

    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: transfer.commit_export(rows, parcels, now=at), weight=PAGE_RECORDS)

    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        return self._write(lambda rows: transfer.abort_export(rows, timelines))

    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:
        return self._write(lambda rows: transfer.export_counts(rows, name))

    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        at = self._now(now)
        answers = self._write(
            lambda rows: transfer.import_pages(rows, pages, fence=fence, now=at), weight=PAGE_RECORDS, share=ADDING
        )
        self._hints.wake(worth=True)
        return answers

    def abort_import(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        at = self._now(now)
        self._write(lambda rows: transfer.abort_import(rows, parcels, now=at), weight=PAGE_RECORDS)

    def progress(self, parcels: Sequence[Parcel]) -> list[ImportProgress]:
        return self._read(lambda rows: [transfer.progress_of(rows, parcel) for parcel in parcels])

    def delete_progress(self, parcels: Sequence[Parcel]) -> None:
        self._write(lambda rows: transfer.delete_progress(rows, parcels))

    def delete_notes(self, prefix: str) -> None:
        self._write(lambda rows: rows.remove_notes(prefix))

    def import_counts(self, name: str, counts: Mapping[str, int], *, fence: Fence | None) -> None:
        self._write(lambda rows: transfer.import_counts(rows, name, counts, fence=fence))

    def note(self, partition: int, name: str) -> bytes | None:
        return self._read(lambda rows: rows.note(name), pending=False)

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        return self._write(lambda rows: transfer.swap_note(rows, name, old, new))

    # Documents

    def keep(
        self, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes = False, now: Millis | None
    ) -> bool:
        at, began = self._now(now), monotonic()

        def waited() -> Millis:  # for a lock, or a connection
            return 0 if now is not None else int((monotonic() - began) * 1000)

        return self._write(
            lambda rows: documents.keep(rows, collection, document, bounds=bounds, replace=replace, now=at + waited()),
            share=ADDING,
        )

    def kept(self, collection: str, key: str, *, now: Millis | None) -> Document | None:
        at = self._now(now)
        return self._read(lambda rows: documents.kept(rows, collection, key, now=at), pending=False)

    def documents(
        self, collection: str, *, timeline: str | None = None, before: str | None = None, limit: int, now: Millis | None
    ) -> list[Document]:
        at, most = self._now(now), min(limit, DOCUMENTS_PAGE)
        return self._read(
            lambda rows: documents.documents(rows, collection, timeline=timeline, before=before, limit=most, now=at),
            pending=False,
        )

    def forget(self, collection: str, key: str, *, body: bytes | None = None) -> bool:
        return self._write(lambda rows: documents.forget(rows, collection, key, body=body))

    def forget_timeline(self, timeline: str) -> None:
        if self._read(lambda rows: rows.documents_of(timeline, limit=1), pending=False):
            while self._write(lambda rows: documents.forget_timeline(rows, timeline, limit=DOCUMENTS_PAGE)):
                pass
