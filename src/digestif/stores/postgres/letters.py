"""Dead letters, digests that ended lately, and notes about what is on its way between stores."""

from typing import Any
from zlib import crc32

import msgspec
from psycopg import Cursor as PgCursor

from digestif.core.records import DeadLetter, HistoryEntry
from digestif.stores.base import HISTORY_LIMIT
from digestif.stores.postgres.arrays import Byteas
from digestif.stores.postgres.slots import Slots
from digestif.stores.postgres.transaction import SQL, Namespace, encoded
from digestif.stores.rows import NEVER

_letter = msgspec.json.Decoder(DeadLetter).decode
_ended = msgspec.json.Decoder(HistoryEntry).decode


class Letters(Slots):
    """Endings are kept back, and written together."""

    def __init__(self, cursor: "PgCursor[Any]", namespace: Namespace, *, writes: bool) -> None:
        super().__init__(cursor, namespace, writes=writes)
        self._ended: list[HistoryEntry] = []

    def letter(self, letter_id: str) -> DeadLetter | None:
        body = self._value(SQL.letter, self._namespace, letter_id.encode())
        if body is not None and self._writes:
            self.concern([_letter(body).timeline])  # before its letters, as all who change both
            body = self._value(self._own(SQL.letter), self._namespace, letter_id.encode())
        return None if body is None else _letter(body)

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id.encode())
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        names = letter.id.encode(), letter.timeline.encode()
        self._execute(SQL.put_letter, (self._namespace, *names, batch, encoded(letter)))

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id.encode()))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        number = 0 if after is None else self._value(SQL.letter_number, self._namespace, after.encode()) or NEVER
        if timeline is None:
            rows = self._execute(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._execute(self._own(SQL.letters_of), (self._namespace, timeline.encode(), number, limit))
        return [_letter(body) for (body,) in rows]

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        body = self._value(SQL.letter_with, key.encode(), self._namespace, timeline.encode())
        return None if body is None else _letter(body)

    def remember(self, ended: HistoryEntry) -> None:
        self._ended.append(ended)

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        self._write_history()
        if timeline is None:
            rows = self._execute(SQL.history, (self._namespace, limit))
        else:
            rows = self._execute(SQL.history_of, (self._namespace, timeline.encode(), limit))
        return [_ended(body) for (body,) in rows]

    def forget(self, timeline: str) -> None:
        self._write_history()
        self._execute(SQL.forget, (self._namespace, timeline.encode()))

    def _write_history(self) -> None:
        if self._ended:
            timelines = Byteas([ended.timeline.encode() for ended in self._ended])
            columns = {"timelines": timelines, "bodies": Byteas([encoded(ended) for ended in self._ended])}
            self._execute(SQL.remember, {"namespace": self._namespace, "limit": HISTORY_LIMIT, **columns})
            self._ended = []

    # notes

    def note_alone(self, name: str) -> None:
        self._execute(SQL.note_alone, (crc32(name.encode(), self._namespace) - 2**31,))

    def note(self, name: str) -> bytes | None:
        body = self._value(self._own(SQL.note), self._namespace, name.encode())
        return None if body is None else bytes(body)

    def put_note(self, name: str, body: bytes | None) -> None:
        if body is None:
            self._save(SQL.remove_note, (self._namespace, name.encode()))
        else:
            self._save(SQL.put_note, (self._namespace, name.encode(), body))

    def remove_notes(self, prefix: str) -> None:
        self._execute(SQL.remove_notes, (self._namespace, prefix.encode(), f"{prefix}\U0010ffff".encode()))
