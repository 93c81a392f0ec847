"""The lock of a move: a note in the source lets one process at a time move a store, into one target."""

from enum import StrEnum
from threading import Event

import msgspec

from digestif.clock import monotonic
from digestif.core.times import Millis, to_seconds
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


class MoveLock:
    """The right to move a store, for one process at a time."""

    def __init__(self, source: ExportSource, target: TransferStore, *, seconds: float) -> None:
        self._source = source
        self._target = target
        self._seconds = seconds
        self._me = fresh_id()
        self._noted: bytes | None = None  # the note, while it is mine
        self._renewed = 0.0
        self._note = MoveNote(id="", stage=Stage.BEGUN)

    def _clock(self) -> float:
        return to_seconds(self._source.time(0))

    @property
    def id(self) -> str:
        return self._note.id

    def past_name(self, partition: int) -> str:
        """The name of the note with the exported counts of a partition."""
        return f"{OUTGOING}{self.id}-past-{partition}"

    def acquire(self, *, patience: float) -> None:
        """Begin a move, or go on with the one that was begun.

        Busy if another process holds the lock for `patience` seconds. ConfigError if that move has another target.
        """
        end, pause = monotonic() + patience, Event()
        while not self._is_mine():
            if monotonic() > end:
                raise Busy("move: another process is moving this store just now; wait for it, or stop it")
            pause.wait(POLL_SECONDS)
        self._agree()

    def _is_mine(self) -> bool:
        noted = self._source.note(0, NAME)
        note = MoveNote(fresh_id(), Stage.BEGUN) if noted is None else _read(noted)
        if note.until > self._clock():
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

    def end(self) -> None:
        """Everything has been moved: delete all notes of the move."""
        self._advance(Stage.ENDING)
        self._clear()

    def _clear(self) -> None:
        for partition in range(self._source.partitions):
            name = self.past_name(partition)
            self._source.swap_note(partition, name, self._source.note(partition, name), None)
        self._target.delete_notes(f"{OUTGOING}{self.id}-")
        self._source.swap_note(0, NAME, self._noted, None)
        self._noted = None

    def release(self) -> None:
        """Release the lock of an unfinished move, so that another process can go on at once."""
        if self._noted is not None:
            self._source.swap_note(0, NAME, self._noted, msgspec.json.encode(MoveNote(self.id, self._note.stage)))
            self._noted = None


def _read(noted: bytes) -> MoveNote:
    try:
        return msgspec.json.decode(noted, type=MoveNote)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise unreadable_note(NAME, error) from error


def _target_name(note: MoveNote) -> str:
    return f"{OUTGOING}{note.id}-target"


def abandon(source: ExportSource, *, now: Millis | None = None) -> int:
    """Abort a move: exported timelines stay in the source, as unfinished digests. The answer is their number.

    Records that the target has by then are in both stores. Busy while a process holds the lock.
    """
    noted = source.note(0, NAME)
    if noted is not None:
        note = _read(noted)
        if note.until > to_seconds(source.time(0)):
            raise Busy("move: another process is moving this store just now; stop it first")
        for partition in range(source.partitions):
            name = f"{OUTGOING}{note.id}-past-{partition}"
            source.swap_note(partition, name, source.note(partition, name), None)
        source.swap_note(0, NAME, noted, None)
    stayed, after = 0, None
    while page := source.scan(prefix="", after=after, limit=PAGE_TIMELINES):
        after = page[-1][0]
        held = [name for name, slot in page if (slot.token or "").startswith(OUTGOING)]
        stayed += sum(source.abort_export(held, now=now)) if held else 0
    return stayed
