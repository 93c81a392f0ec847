"""A move: timelines and dead letters are copied page by page, then the counts of records that ended before.

From its beginning to its end the source accepts records and delivers nothing: what it delivered, the target would not
know of, and its timelines would have two cool-downs. What is due is moved first, so that the target delivers it soon.

Each parcel is exported, copied, and committed once the target has it whole. If the process is interrupted, the next run
finds the exports and their progress. Only one page is kept in memory.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from msgspec import structs

from digestif.attempts.failures import forget_failures
from digestif.clock import monotonic
from digestif.core.machine import IDLE, Slot
from digestif.core.records import VALUE_BYTES, DeadLetter
from digestif.core.times import Millis
from digestif.core.transfer import OUTGOING
from digestif.errors import Busy
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES, Lease, Store, Take
from digestif.stores.transfer import (
    ExportedRecord,
    ExportSource,
    ImportPage,
    ImportProgress,
    Parcel,
    ParcelKind,
    TransferStore,
)
from digestif.transfer.lock import LOCK_SECONDS, MoveLock

PAGE_BYTES = 2**20  # of payloads in one import; a single record may be larger
LETTERS = 50  # dead letters that are copied together
PAUSE_SECONDS = 0.2  # between two passes that move nothing
NAMES_REMEMBERED = 100_000  # of timelines: one that comes again is counted once


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a move is."""

    timelines: int = 0  # that were moved, each once; of more than NAMES_REMEMBERED those that come again count again
    parcels: int = 0  # of pending records and of unfinished digests: a timeline that gets new records comes again
    letters: int = 0
    records: int = 0
    waiting: int = 0  # timelines that can't be moved yet: a delivery is under way, in the source or the target
    following: bool = False  # what was there has been moved, and what is added in the source follows at once
    finished: bool = False

    @property
    def moved(self) -> tuple[int, int, int]:
        return self.parcels, self.letters, self.records


class Move:
    """Moves everything from one store into another. After an interruption any process can go on with `run`."""

    def __init__(
        self,
        source: ExportSource,
        target: TransferStore,
        *,
        report: Callable[[Progress], None] = lambda _: None,
        now: Callable[[], Millis | None] = lambda: None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self._source = source
        self._target = target
        self._report = report
        self._now = now
        self._stop = _Stop()
        self._lock = MoveLock(source, target, seconds=lock_seconds)
        self._limit = self._room = min(source.page_records, target.page_records)
        self._seen: set[str] = set()  # names of timelines that were moved
        self.progress = Progress()

    def stop(self) -> None:
        """Let `run` end soon. Any thread may call it, and a signal handler."""
        self._stop.set()

    def run(self, *, patience: float = 60, follow: bool = False) -> Progress:
        """Move until the source is empty; with `follow`, until `stop`, also records that are added there meanwhile.

        The source delivers nothing from now until a run without `follow` has finished, or the move is abandoned. Waits
        for timelines that are open in either store; Busy after `patience` seconds in which nothing could be moved.
        ConfigError if a move of the source into another target was begun.
        """
        self._lock.acquire(patience=patience, now=self._now())
        try:
            self._allow_large_values()
            if self._empty(patience, follow=follow):
                self._finish()
        finally:
            self._lock.release()
        return self.progress

    def _allow_large_values(self) -> None:
        """Let the target accept what the source accepts, and read as many bytes at most as of values of usual size."""
        allowed = self._source.value_bytes()
        self._target.raise_value_bytes(max(allowed, self._target.value_bytes()))
        self._limit = self._room = max(1, self._room * VALUE_BYTES // allowed)

    def _empty(self, patience: float, *, follow: bool) -> bool:
        """Move all that is in the source, pass after pass; False if stopped before it is empty."""
        idle_since = monotonic()
        while not self._stop.is_set():
            before = self.progress
            left = self._pass()
            if left == 0 and self.progress.parcels - before.parcels <= PAGE_TIMELINES:
                self._report_progress(following=True)
            if self.progress.moved != before.moved:
                idle_since = monotonic()
                continue
            if not follow and left == 0:
                return True
            if not follow and monotonic() - idle_since > patience:
                raise Busy(
                    f"move: {left} are left whose deliveries have to end first; FROM delivers nothing else meanwhile; "
                    "try again later"
                )
            self._lock.renew()
            self._stop.wait(PAUSE_SECONDS)
        return False

    def _report_progress(self, **changes: int | bool) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]  # the counts
        self._report(self.progress)

    # One pass over the source

    def _pass(self) -> int:
        """Move what can be moved; the answer is how many timelines and dead letters are left."""
        left, after = 0, None
        stuck: set[str] = set()  # due, and can't be moved yet
        while not self._stop.is_set():
            self._move_due(stuck)
            page = self._source.scan(prefix="", after=after, limit=PAGE_TIMELINES)
            if not page:
                break
            after = page[-1][0]
            self._lock.renew()
            left += len(self._move_timelines(page))
        left += self._move_letters()
        self._report_progress(waiting=left)
        return left

    def _move_due(self, stuck: set[str]) -> None:
        """Move a page of timelines that are due, apart from those that are stuck; it may find more of these."""
        due = self._source.due(limit=PAGE_TIMELINES + len(stuck), now=self._now())
        page = [(name, slot) for name, slot in due if name not in stuck]
        if page:
            self._lock.renew()
            stuck |= self._move_timelines(page[:PAGE_TIMELINES])

    def _move_timelines(self, page: Sequence[tuple[str, Slot]]) -> set[str]:
        """Move unfinished digests first, then the pending records of the same timelines. The answer is what is left."""
        names = [name for name, slot in page if not self._must_wait(name, slot)]
        left = {name for name, _ in page}.difference(names)
        for _ in range(2):
            parcels = (
                self._source.begin_export(names, token=f"{self._lock.id}-{fresh_id()}", now=self._now())
                if names
                else []
            )
            going = [self._merged(parcel) for parcel in parcels if parcel is not None]
            arrived = self._copy(going)
            left.update(set(names).difference(parcel.timeline for parcel in arrived))
            names = [parcel.timeline for parcel in arrived if parcel.kind is ParcelKind.DIGEST]
        return left

    def _must_wait(self, name: str, slot: Slot) -> bool:
        """True if the timeline has an unfinished digest in both stores."""
        if slot.digest is None or (slot.token or "").startswith(OUTGOING):
            return False
        target = self._target
        return isinstance(target, Store) and target.inspect(name).digest is not None

    def _merged(self, parcel: Parcel) -> Parcel:
        """End a merge that an interrupted attempt began: an import needs all records in one batch."""
        digest = parcel.slot.digest
        source = self._source
        if digest is None or digest.merging is None or not isinstance(source, Store):
            return parcel
        lease = Lease(
            parcel.timeline, parcel.id, parcel.slot.until or 0, digest.id, digest.attempt, digest.lapses, 0, 0
        )
        take, complete = Take(lease, None, merge=False), False
        while not complete:
            [answer] = source.take([take], now=self._now())
            complete = answer is None or answer.complete
            self._lock.renew()
            take = take._replace(after=answer.after if answer else None)
        [again] = self._source.begin_export([parcel.timeline], token=parcel.id, now=self._now())
        return again or parcel

    def _move_letters(self) -> int:
        while not self._stop.is_set():
            letters = self._source.letters(None, after=None, limit=LETTERS)
            if not letters:
                return 0
            self._lock.renew()
            arrived = self._copy([self._letter_parcel(letter) for letter in letters])
            if not arrived:
                return len(letters)
        return 0

    def _letter_parcel(self, letter: DeadLetter) -> Parcel:
        name = f"{OUTGOING}{self._lock.id}-letter-{letter.id}"
        return Parcel(name, letter.timeline, ParcelKind.LETTER, letter.records, IDLE, letter)

    # Parcels

    def _copy(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Copy parcels and commit those that the target has whole; the answer is the latter."""
        whole: list[Parcel] = []
        rest: list[tuple[Parcel, ImportProgress]] = []
        for begun, imported in zip(parcels, self._target.progress(parcels) if parcels else [], strict=True):
            parcel = _without_choices(begun) if imported.done or imported.whole else begun
            if imported.whole:
                whole.append(parcel)
            else:
                rest.append((parcel, imported))
        while rest:
            self._lock.renew()
            rest = self._copy_page(rest, whole)
        if whole:
            self._source.commit_export(whole, now=self._now())
            self._target.delete_progress(whole)
        self._count(whole)
        return whole

    def _count(self, moved: Sequence[Parcel]) -> None:
        names = [parcel.timeline for parcel in moved if parcel.kind is not ParcelKind.LETTER]
        fresh = set(names) - self._seen
        self._seen.update(sorted(fresh)[: NAMES_REMEMBERED - len(self._seen)])
        before = self.progress
        self._report_progress(
            timelines=before.timelines + len(fresh),
            parcels=before.parcels + len(names),
            letters=before.letters + len(moved) - len(names),
        )

    def _copy_page(
        self, rest: Sequence[tuple[Parcel, ImportProgress]], whole: list[Parcel]
    ) -> list[tuple[Parcel, ImportProgress]]:
        """Copy one page over all parcels; the answer is what is left, with its progress."""
        read = self._read(rest)
        pages = [
            ImportPage(parcel, imported.done, records)
            for (parcel, imported), records in zip(rest, read, strict=True)
            if records or imported.done == parcel.records
        ]
        if not pages:
            return self._without_deleted(rest)
        answers = self._target.import_pages(pages, fence=self._lock.fence, now=self._now())
        self._report_progress(records=self.progress.records + sum(len(page.records) for page in pages))
        answered = {page.parcel.id: imported for page, imported in zip(pages, answers, strict=True)}
        going: list[tuple[Parcel, ImportProgress]] = []
        for parcel, before in rest:
            imported = answered.get(parcel.id, before)
            if imported is not None and imported.whole:
                whole.append(parcel)
            elif imported is not None:
                going.append(
                    (parcel, imported if imported.after or not imported.done else self._target.progress([parcel])[0])
                )
        return going

    def _without_deleted(self, rest: Sequence[tuple[Parcel, ImportProgress]]) -> list[tuple[Parcel, ImportProgress]]:
        """Abort imports of parcels that were deleted in the source meanwhile; the answer is the others.

        A dead letter that is still there has lost records: it is whole with those that it has.
        """
        gone, left = list[Parcel](), list[tuple[Parcel, ImportProgress]]()
        for parcel, imported in rest:
            if self._source.read_export([(parcel, imported.after)], limit=1)[0]:
                left.append((parcel, imported))
            elif parcel.letter is not None and self._is_stored(parcel.letter):
                letter = replace(parcel.letter, records=imported.done)
                left.append((parcel._replace(records=imported.done, letter=letter), imported))
            else:
                gone.append(parcel)
        if gone:
            self._target.abort_import(gone, now=self._now())
        return left

    def _is_stored(self, letter: DeadLetter) -> bool:
        return isinstance(self._source, Store) and self._source.letter(letter.id) is not None

    def _read(self, rest: Sequence[tuple[Parcel, ImportProgress]]) -> list[list[ExportedRecord]]:
        """Read a page within the limits of records and bytes; the next one has fewer records if this was too heavy."""
        pages = self._source.read_export([(parcel, imported.after) for parcel, imported in rest], limit=self._limit)
        read = sum(map(len, pages))
        room, heavy = PAGE_BYTES, False
        for page in pages:
            for place, item in enumerate(page):
                room -= len(item.record.payload or b"")
                if room < 0 and (place or page is not pages[0]):
                    del page[place:]
                    heavy = True
                    break
        self._limit = max(1, read // 2) if heavy else min(self._room, self._limit * 2)
        return pages

    # The end

    def _finish(self) -> None:
        """Move the counts of records that ended before, and delete all notes."""
        for partition in range(self._source.partitions):
            name = self._lock.past_name(partition)
            self._target.import_counts(name, self._source.export_counts(partition, name), fence=self._lock.fence)
        self._lock.end()
        if isinstance(self._source, Store):
            forget_failures(self._source)
            while self._source.sweep():
                pass
        self.progress = replace(self.progress, finished=True)
        self._report(self.progress)


def _without_choices(parcel: Parcel) -> Parcel:
    """The parcel of an interrupted run: a policy or pause chosen since then has not arrived, and follows on its own."""
    return parcel._replace(slot=structs.replace(parcel.slot, override=None, paused=False))


class _Stop:
    """An event that a signal handler may set: `threading.Event.set` waits for ever if it interrupts `wait`."""

    def __init__(self) -> None:
        self._is_set = False
        self._signals: SimpleQueue[None] = SimpleQueue()  # its `put` is reentrant

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._signals.put(None)

    def wait(self, seconds: float) -> None:
        with suppress(Empty):
            self._signals.get(timeout=seconds)
