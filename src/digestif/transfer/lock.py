"""The lock of a move: a note in the source lets one process at a time move a store, and only into one target.

The note exists from the beginning of a move to its end. Each partition of the source also has a mark, which stops
deliveries.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from threading import Event

import msgspec

from digestif.clock import monotonic
from digestif.core.times import Millis, is_past, to_seconds
from digestif.core.transfer import OUTGOING
from digestif.errors import Busy, ConfigError
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import decoded_note
from digestif.stores.note import Note
from digestif.stores.transfer import ExportSource, Fence, TransferStore

LOCK_SECONDS = 6.0  # after which another process may continue an interrupted move
POLL_SECONDS = 0.2
LOCK = "move"  # the name of the note in the source
AWAY = "move: this process was away for too long, and another one went on with the move"


class Stage(StrEnum):
    """How far a move is."""

    BEGUN = "begun"
    AGREED = "agreed"  # the target has the fence
    ENDING = "ending"  # everything was moved, and the notes are being deleted


class MoveNote(msgspec.Struct, frozen=True):
    """The note about a move, in its source."""

    id: str
    stage: Stage
    holder: str = ""  # the process that moves…
    until: float = 0.0  # …until this time, by the clock of the source


_decode = partial(decoded_note, LOCK, decode=msgspec.json.Decoder(MoveNote).decode)


class SourceLock:
    """The note in the source, while it names this process."""

    def __init__(self, source: ExportSource, *, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._me = fresh_id()
        self._note: Note[MoveNote | None] = Note(source, LOCK, decode=_decode, empty=None)
        self._mine: MoveNote | None = None  # the note of this process, while it holds the lock
        self._renewed = 0.0
        self.id = ""

    def past_name(self, partition: int) -> str:
        """Return the name of the note with a partition's exported counts."""
        return f"{OUTGOING}{self.id}-past-{partition}"

    def _is_free(self, note: MoveNote) -> bool:
        """Return True if no process holds the lock. A holder that is overtaken finds out at its next renewal."""
        return is_past(note.until, now=self._clock(), longest=max(self._seconds, LOCK_SECONDS))

    def _clock(self) -> float:
        return to_seconds(self._source.time(0))

    def _taken(self, move_id: str, stage: Stage) -> MoveNote:
        return MoveNote(move_id, stage, self._me, self._clock() + self._seconds)

    def _take(self, change: Callable[[MoveNote | None], MoveNote | None]) -> bool:
        """Change the note. Return True if it names this process afterwards."""
        noted = self._note.update(change).after
        if noted is None or noted.holder != self._me:
            return False
        self._mine, self.id, self._renewed = noted, noted.id, monotonic()
        return True

    def _advance(self, stage: Stage) -> None:
        """Note how far the move is, and extend the lock. Raises Busy if another process took over."""
        if not self._take(lambda found: self._taken(self.id, stage) if found == self._mine else found):
            raise Busy(AWAY)

    def renew(self) -> None:
        """Extend the lock, if a fifth of its time has passed. Raises Busy if another process took over."""
        if self._mine is not None and monotonic() - self._renewed > self._seconds / 5:
            self._advance(self._mine.stage)

    def release(self) -> None:
        """Release the lock of an unfinished move, so that another process can continue it without waiting."""
        if self._mine is not None:
            self._leave(MoveNote(self.id, self._mine.stage))

    def _leave(self, note: MoveNote | None) -> None:
        """Give up the lock, and replace its note by this one or none, unless another process took over."""
        mine, self._mine = self._mine, None
        self._note.update(lambda found: note if found == mine else found)

    def _delete(self) -> None:
        """Delete everything about the move in the source. The note goes last: only through it the rest is found."""
        for partition in range(self._source.partitions):
            past = Note(self._source, self.past_name(partition), decode=bytes, empty=b"", partition=partition)
            past.update(lambda _: b"")
        self._end_move(self.id)
        self._leave(None)

    def _end_move(self, move_id: str | None) -> None:
        for partition in range(self._source.partitions):
            self._source.end_move(partition, move_id)


class MoveLock(SourceLock):
    """The right to move a store into another, for one process at a time."""

    def __init__(self, source: ExportSource, target: TransferStore, *, seconds: float) -> None:
        super().__init__(source, seconds=seconds)
        self._target = target

    def acquire(self, *, patience: float, now: Millis | None = None) -> None:
        """Begin a move, or continue an interrupted one. From then on the source delivers nothing.

        Raises Busy if another process holds the lock for `patience` seconds, and ConfigError if an interrupted move has
        another target.
        """
        end, pause = monotonic() + patience, Event()
        while not self._try_to_take():
            if monotonic() > end:
                raise Busy("move: another process is moving this store just now; wait for it, or stop it")
            pause.wait(POLL_SECONDS)
        self._agree()
        self._stop_deliveries(now=now)

    def _try_to_take(self) -> bool:
        """Take the lock if it is free. First delete the notes of a finished move that was interrupted at its end."""
        if not self._take(self._after_begin):
            return False
        if self._mine and self._mine.stage is Stage.ENDING:
            self._clear()
            return self._try_to_take()
        return True

    def _after_begin(self, found: MoveNote | None) -> MoveNote | None:
        """Return the note that names this process, or the one that was found if another process holds the lock."""
        note = found or MoveNote(fresh_id(), Stage.BEGUN)
        if not self._is_free(note):
            return found
        if note.stage is Stage.AGREED and self._target.note(0, _target_name(note.id)) is None:
            raise ConfigError(
                "move: a move of this store was begun and not finished, and not into this target; "
                "finish that one first, with the same target as then"
            )
        return self._taken(note.id, note.stage)

    @property
    def fence(self) -> Fence:
        """The note in the target by which only this process may import."""
        return Fence(_target_name(self.id), self._me.encode())

    def _agree(self) -> None:
        """Put the fence of this process into each partition of the target. Raises Busy if another process did so."""
        if self._target.note(0, LOCK) == msgspec.json.encode(self._mine):
            self._leave(None)
            raise ConfigError("move: FROM and TO are the same store")
        for partition in range(self._target.partitions):
            # Tried once: a process that lost its fence must not take it back.
            before = self._target.note(partition, self.fence.name)
            if not self._target.swap_note(partition, self.fence.name, before, self.fence.holder):
                raise Busy(AWAY)
        self._advance(Stage.AGREED)

    def _stop_deliveries(self, *, now: Millis | None) -> None:
        """Mark each partition of the source. Raises Busy if another process took over."""
        for partition in range(self._source.partitions):
            self._source.begin_move(partition, self.id, now=now)
        try:
            self._advance(Stage.AGREED)
        except Busy:
            self._take_back_marks()
            raise

    def _take_back_marks(self) -> None:
        """Remove this process's marks, if the process that went on has ended the move already."""
        noted = self._note.read()
        if noted is None or noted.id != self.id:
            self._end_move(self.id)

    def end(self) -> None:
        """Delete all notes of a finished move, so that the source delivers again."""
        self._advance(Stage.ENDING)
        self._clear()

    def _clear(self) -> None:
        self._target.delete_notes(f"{OUTGOING}{self.id}-")
        self._delete()


class AbandonLock(SourceLock):
    """The right to give up a move."""

    def acquire(self) -> bool:
        """Take over an unfinished move. Return False if there is none.

        Raises Busy if another process holds the lock.
        """

        def after_abandon(found: MoveNote | None) -> MoveNote | None:
            if found is not None and not self._is_free(found):
                raise Busy("move: another process is moving this store just now; stop it first")
            return None if found is None else self._taken(found.id, found.stage)

        return self._take(after_abandon)

    def end(self) -> None:
        """Delete the notes of the move, if there is one, and all marks, so that the source delivers again."""
        if self._mine is not None:
            self._delete()
        self._end_move(None)


def _target_name(move_id: str) -> str:
    return f"{OUTGOING}{move_id}-target"


def abandon(source: ExportSource, *, now: Millis | None = None) -> int:
    """Abort a move, and return how many exported timelines stay in the source, as unfinished digests.

    Records that were imported by then are in both stores. Afterwards the source delivers again. Raises Busy if another
    process holds the lock.
    """
    lock = AbandonLock(source, seconds=LOCK_SECONDS)
    has_begun = lock.acquire()
    try:
        stayed, after = 0, None
        while page := source.scan(prefix="", after=after, limit=PAGE_TIMELINES):
            after = page[-1][0]
            held = [name for name, slot in page if (slot.token or "").startswith(OUTGOING)]
            stayed += sum(source.abort_export(held, now=now)) if held else 0
            if has_begun:
                lock.renew()
        lock.end()
    finally:
        lock.release()
    return stayed
