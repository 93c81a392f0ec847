"""The lock of a move: a note in the source lets one process at a time move a store, into one target.

The note is there from the beginning of a move to its end. Beside it each partition has a mark, which keeps the source
from delivering.
"""

from enum import StrEnum
from threading import Event

import msgspec

from digestif.clock import monotonic
from digestif.core.times import Millis, is_past, to_seconds
from digestif.core.transfer import OUTGOING
from digestif.errors import Busy, ConfigError
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import unreadable_note
from digestif.stores.transfer import ExportSource, Fence, TransferStore

LOCK_SECONDS = 6.0  # then another process may go on with an interrupted move
POLL_SECONDS = 0.2
NAME = "move"  # of the note in the source
AWAY = "move: this process was away for too long, and another one went on with the move"


class Stage(StrEnum):
    """How far a move is."""

    BEGUN = "begun"
    AGREED = "agreed"  # the target has the fence
    ENDING = "ending"  # everything has been moved


class MoveNote(msgspec.Struct, frozen=True):
    """The note about a move in its source."""

    id: str
    stage: Stage
    holder: str = ""  # the process that moves…
    until: float = 0.0  # …until this time, by the clock of the source


class SourceLock:
    """The note in the source, while it is this process that writes it."""

    def __init__(self, source: ExportSource, *, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._me = fresh_id()
        self._noted: bytes | None = None  # the note, while it is mine
        self._renewed = 0.0
        self._note = MoveNote(id="", stage=Stage.BEGUN)

    @property
    def id(self) -> str:
        return self._note.id

    def past_name(self, partition: int) -> str:
        """The name of the note with the exported counts of a partition."""
        return f"{OUTGOING}{self.id}-past-{partition}"

    def _is_free(self, note: MoveNote) -> bool:
        """True if no process holds the lock. One that lives and is overtaken finds out at its next renewal."""
        return is_past(note.until, now=self._clock(), longest=max(self._seconds, LOCK_SECONDS))

    def _clock(self) -> float:
        return to_seconds(self._source.time(0))

    def _put(self, noted: bytes | None, move_id: str, stage: Stage) -> bool:
        note = MoveNote(move_id, stage, self._me, self._clock() + self._seconds)
        new = msgspec.json.encode(note)
        if not self._source.swap_note(0, NAME, noted, new):
            return False
        self._noted, self._note, self._renewed = new, note, monotonic()
        return True

    def _advance(self, stage: Stage) -> None:
        if not self._put(self._noted, self.id, stage):
            raise Busy(AWAY)

    def renew(self) -> None:
        """Extend the lock; Busy if another process took over."""
        if monotonic() - self._renewed > self._seconds / 5:
            self._advance(self._note.stage)

    def release(self) -> None:
        """Release the lock of an unfinished move, so that another process can go on at once."""
        if self._noted is not None:
            self._source.swap_note(0, NAME, self._noted, msgspec.json.encode(MoveNote(self.id, self._note.stage)))
            self._noted = None

    def _delete(self) -> None:
        """Delete everything about the move in the source, the note last: the rest can't be found without it."""
        for partition in range(self._source.partitions):
            name = self.past_name(partition)
            self._source.swap_note(partition, name, self._source.note(partition, name), None)
        self._end_move(self.id)
        self._source.swap_note(0, NAME, self._noted, None)
        self._noted = None

    def _end_move(self, move_id: str | None) -> None:
        for partition in range(self._source.partitions):
            self._source.end_move(partition, move_id)


class MoveLock(SourceLock):
    """The right to move a store into another, for one process at a time."""

    def __init__(self, source: ExportSource, target: TransferStore, *, seconds: float) -> None:
        super().__init__(source, seconds=seconds)
        self._target = target

    def acquire(self, *, patience: float, now: Millis | None = None) -> None:
        """Begin a move, or go on with the one that was begun; from then on the source delivers nothing.

        Busy if another process holds the lock for `patience` seconds. ConfigError if that move has another target.
        """
        end, pause = monotonic() + patience, Event()
        while not self._is_mine():
            if monotonic() > end:
                raise Busy("move: another process is moving this store just now; wait for it, or stop it")
            pause.wait(POLL_SECONDS)
        self._agree()
        self._stop_deliveries(now=now)

    def _is_mine(self) -> bool:
        noted = self._source.note(0, NAME)
        note = MoveNote(fresh_id(), Stage.BEGUN) if noted is None else _read(noted)
        if not self._is_free(note):
            return False
        if note.stage is Stage.AGREED and self._target.note(0, _target_name(note)) is None:
            raise ConfigError(
                "move: a move of this store was begun and not finished, and not into this target; "
                "finish that one first, with the same target as then"
            )
        if not self._put(noted, note.id, note.stage):
            return False
        if note.stage is Stage.ENDING:  # the last move was interrupted while it deleted its notes
            self._clear()
            return self._is_mine()
        return True

    @property
    def fence(self) -> Fence:
        """The note in the target that lets only this process import."""
        return Fence(_target_name(self._note), self._me.encode())

    def _agree(self) -> None:
        if self._target.note(0, NAME) == self._noted:
            self._source.swap_note(0, NAME, self._noted, None)
            self._noted = None
            raise ConfigError("move: FROM and TO are the same store")
        for partition in range(self._target.partitions):
            before = self._target.note(partition, self.fence.name)
            if not self._target.swap_note(partition, self.fence.name, before, self.fence.holder):
                raise Busy(AWAY)
        self._advance(Stage.AGREED)

    def _stop_deliveries(self, *, now: Millis | None) -> None:
        for partition in range(self._source.partitions):
            self._source.begin_move(partition, self.id, now=now)
        if not self._put(self._noted, self.id, Stage.AGREED):
            self._take_back_marks()
            raise Busy(AWAY)

    def _take_back_marks(self) -> None:
        """Another process went on. If it has ended the move already, nothing but this would remove the marks."""
        noted = self._source.note(0, NAME)
        if noted is None or _read(noted).id != self.id:
            self._end_move(self.id)

    def end(self) -> None:
        """Everything has been moved: delete all notes of the move. The source delivers again."""
        self._advance(Stage.ENDING)
        self._clear()

    def _clear(self) -> None:
        self._target.delete_notes(f"{OUTGOING}{self.id}-")
        self._delete()


class AbandonLock(SourceLock):
    """The right to give up a move."""

    def acquire(self) -> bool:
        """False if no move was begun; Busy if another process holds the lock."""
        noted = self._source.note(0, NAME)
        if noted is None:
            return False
        note = _read(noted)
        if not self._is_free(note) or not self._put(noted, note.id, note.stage):
            raise Busy("move: another process is moving this store just now; stop it first")
        return True

    def end(self) -> None:
        """Delete the notes of the move, if there is one, and every mark. The source delivers again."""
        if self._noted is not None:
            self._delete()
        self._end_move(None)


def _read(noted: bytes) -> MoveNote:
    try:
        return msgspec.json.decode(noted, type=MoveNote)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise unreadable_note(NAME, error) from error


def _target_name(note: MoveNote) -> str:
    return f"{OUTGOING}{note.id}-target"


def abandon(source: ExportSource, *, now: Millis | None = None) -> int:
    """Abort a move: exported timelines stay in the source, as unfinished digests. The answer is their number.

    Records that the target has by then are in both stores. Then the source delivers again. Busy while a process holds
    the lock.
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
