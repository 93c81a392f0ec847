"""A move: timelines and dead letters go page by page, then the counts of what ended long ago.

Each parcel is held in the store that it leaves, copied, and let go once the other store has it whole. Wherever the
process is interrupted, the next run finds what is held and how much of it has arrived. Nothing but a page is kept in
memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event

from digestif.clock import monotonic
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter
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
from digestif.transfer.lock import Hold

PAGE_BYTES = 2**20  # of payloads that go together; a single record may be more
LETTERS = 50  # that go together
PAUSE_SECONDS = 0.2  # before looking again at timelines that somebody has open


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a move is."""

    timelines: int = 0  # parcels of pending records and of unfinished digests that have arrived
    letters: int = 0
    records: int = 0
    waiting: int = 0  # timelines that could not go yet: a delivery is under way, here or there
    finished: bool = False


class Move:
    """Everything of one store goes into another. `run` may be called again, by any process, wherever it was stopped."""

    def __init__(
        self,
        source: ExportSource,
        target: TransferStore,
        *,
        report: Callable[[Progress], None] = lambda _: None,
        now: Callable[[], Millis | None] = lambda: None,
    ) -> None:
        self._source = source
        self._target = target
        self._report = report
        self._now = now
        self._stop = Event()
        self._hold = Hold(source, target)
        self._limit = self._room = min(source.page_records, target.page_records)
        self.progress = Progress()

    def stop(self) -> None:
        """Let `run` come to its end soon. Comes from any thread."""
        self._stop.set()

    def run(self, *, patience: float = 60, follow: bool = False) -> Progress:
        """Move until the source is empty; with `follow`, and whatever comes there, until stopped.

        Timelines that somebody has open, in either store, are waited for; `Busy` after so many seconds in which nothing
        else could be moved. ConfigError if a move of the source into another store was begun.
        """
        self._hold.take(patience=patience)
        try:
            if self._empty(patience, follow=follow):
                self._finish()
        finally:
            self._hold.release()
        return self.progress

    def _empty(self, patience: float, *, follow: bool) -> bool:
        """Pass over the source until nothing is left there; False if stopped before."""
        idle_since = monotonic()
        while not self._stop.is_set():
            before = self.progress
            left = self._pass()
            if replace(self.progress, waiting=0) != replace(before, waiting=0):
                idle_since = monotonic()
                continue
            if not follow and left == 0:
                return True
            if not follow and monotonic() - idle_since > patience:
                raise Busy(f"move: {left} are left whose deliveries have to end first; try again later")
            self._hold.renew()
            self._stop.wait(PAUSE_SECONDS)
        return False

    def _tell(self, **changes: int) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]  # the counts
        self._report(self.progress)

    # One pass over all that is there

    def _pass(self) -> int:
        """Move what can be moved; the answer is how many timelines and letters are left."""
        left, after = 0, None
        while not self._stop.is_set():
            page = self._source.scan(prefix="", after=after, limit=PAGE_TIMELINES)
            if not page:
                break
            after = page[-1][0]
            self._hold.renew()
            left += self._move_timelines(page)
        left += self._move_letters()
        self._tell(waiting=left)
        return left

    def _move_timelines(self, page: Sequence[tuple[str, Slot]]) -> int:
        """An unfinished digest goes first, what is pending beside it in a second round."""
        names = [name for name, slot in page if not self._must_wait(name, slot)]
        left = len(page) - len(names)
        for _ in range(2):
            parcels = (
                self._source.begin_export(names, token=f"{self._hold.id}-{fresh_id()}", now=self._now())
                if names
                else []
            )
            going = [self._settled(parcel) for parcel in parcels if parcel is not None]
            arrived = self._carry(going)
            left += len(names) - len(arrived)
            names = [parcel.timeline for parcel in arrived if parcel.kind is ParcelKind.DIGEST]
        return left

    def _must_wait(self, name: str, slot: Slot) -> bool:
        """True for an unfinished digest if the timeline has one in the other store, too."""
        if slot.digest is None or (slot.token or "").startswith(OUTGOING):
            return False
        target = self._target
        return isinstance(target, Store) and target.inspect(name).digest is not None

    def _settled(self, parcel: Parcel) -> Parcel:
        """Finish a merge that somebody began in it and did not end."""
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
            self._hold.renew()
            take = take._replace(after=answer.after if answer else None)
        [again] = self._source.begin_export([parcel.timeline], token=parcel.id, now=self._now())
        return again or parcel

    def _move_letters(self) -> int:
        while not self._stop.is_set():
            letters = self._source.letters(None, after=None, limit=LETTERS)
            if not letters:
                return 0
            self._hold.renew()
            arrived = self._carry([self._letter_parcel(letter) for letter in letters])
            if not arrived:
                return len(letters)
        return 0

    def _letter_parcel(self, letter: DeadLetter) -> Parcel:
        name = f"{OUTGOING}{self._hold.id}-letter-{letter.id}"
        return Parcel(name, letter.timeline, ParcelKind.LETTER, letter.records, IDLE, letter)

    # Parcels

    def _carry(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Bring parcels over and let go of those that arrived whole."""
        whole: list[Parcel] = []
        rest: list[tuple[Parcel, ImportProgress]] = []
        for parcel, mark in zip(parcels, self._target.progress(parcels) if parcels else [], strict=True):
            if mark.whole:
                whole.append(parcel)
            else:
                rest.append((parcel, mark))
        while rest:
            self._hold.renew()
            rest = self._carry_page(rest, whole)
        if whole:
            self._source.commit_export(whole, now=self._now())
            self._target.delete_progress(whole)
        letters = sum(1 for parcel in whole if parcel.kind is ParcelKind.LETTER)
        self._tell(timelines=self.progress.timelines + len(whole) - letters, letters=self.progress.letters + letters)
        return whole

    def _carry_page(
        self, rest: Sequence[tuple[Parcel, ImportProgress]], whole: list[Parcel]
    ) -> list[tuple[Parcel, ImportProgress]]:
        """One page of them all; the answer is what is still to be brought."""
        cargo = self._read(rest)
        pages = [
            ImportPage(parcel, mark.done, records)
            for (parcel, mark), records in zip(rest, cargo, strict=True)
            if records or mark.done == parcel.records
        ]
        if not pages:
            return self._without_gone(rest)
        answers = self._target.import_pages(pages, fence=self._hold.fence, now=self._now())
        self._tell(records=self.progress.records + sum(len(page.records) for page in pages))
        marks = {page.parcel.id: mark for page, mark in zip(pages, answers, strict=True)}
        going: list[tuple[Parcel, ImportProgress]] = []
        for parcel, before in rest:
            mark = marks.get(parcel.id, before)
            if mark is not None and mark.whole:
                whole.append(parcel)
            elif mark is not None:
                going.append((parcel, mark if mark.after or not mark.done else self._target.progress([parcel])[0]))
        return going

    def _without_gone(self, rest: Sequence[tuple[Parcel, ImportProgress]]) -> list[tuple[Parcel, ImportProgress]]:
        """Nothing more can be read of these: somebody has deleted them in the source, so their parts go, too."""
        gone = [parcel for parcel, mark in rest if not self._source.read_export([(parcel, mark.after)], limit=1)[0]]
        if gone:
            self._target.abort_import(gone, now=self._now())
        names = {parcel.id for parcel in gone}
        return [(parcel, mark) for parcel, mark in rest if parcel.id not in names]

    def _read(self, rest: Sequence[tuple[Parcel, ImportProgress]]) -> list[list[ExportedRecord]]:
        """A page that is neither too many records nor too many bytes; the next is smaller if these were too heavy."""
        pages = self._source.read_export([(parcel, mark.after) for parcel, mark in rest], limit=self._limit)
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
        """The counts of records that ended before go over, and nothing stays behind on either side."""
        for partition in range(self._source.partitions):
            name = self._hold.past_name(partition)
            self._target.import_counts(name, self._source.export_counts(partition, name), fence=self._hold.fence)
        self._hold.end()
        if isinstance(self._source, Store):
            while self._source.sweep():
                pass
        self.progress = replace(self.progress, finished=True)
        self._report(self.progress)
