"""Dead letters, the history of ended digests, and notes about transfers between stores."""

from collections.abc import Sequence
from itertools import chain
from typing import Any
from zlib import crc32

from digestif.core.damage import Damage
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.tenants import REST
from digestif.core.times import Millis
from digestif.stores.base import HISTORY_LIMIT
from digestif.stores.documents import Document
from digestif.stores.postgres.arrays import Byteas
from digestif.stores.postgres.slots import PostgresSlots
from digestif.stores.postgres.transaction import SQL, as_bytes, as_text, encoded
from digestif.stores.rows import NEVER, DocumentRow, LetterRow
from digestif.stores.rows.bodies import (
    after_all,
    damaged_entries,
    encode_entry,
    letter_row,
    read_entry,
    read_letter,
    read_removals,
)


class PostgresLetters(PostgresSlots):
    """Holds entries of the history and removals back, and writes them together."""

    def __init__(self, *given: Any, writes: bool) -> None:
        super().__init__(*given, writes=writes)
        self._ended: dict[str, list[HistoryEntry]] = {}  # by ring
        self._removed: dict[str, Removals] = {}

    def letter(self, letter_id: str) -> DeadLetter | None:
        row = self._execute(SQL.letter, (self._namespace, letter_id.encode())).fetchone()
        if row is not None and self._writes:
            self.concern([as_text(row[0])])  # its timeline first: all transactions lock in this order
            row = self._execute(self._locking(SQL.letter), (self._namespace, letter_id.encode())).fetchone()
        return None if row is None else read_letter(letter_id, as_text(row[0]), bytes(row[1]))

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id.encode())
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        names = letter.id.encode(), letter.timeline.encode()
        self._execute(SQL.put_letter, (self._namespace, *names, batch, encoded(letter)))

    def update_letter(self, letter: DeadLetter) -> None:
        self._execute(SQL.update_letter, (encoded(letter), self._namespace, letter.id.encode()))

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id.encode()))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[tuple[str, DeadLetter | None]]:
        number = 0 if after is None else self._value(SQL.letter_number, self._namespace, as_bytes(after)) or NEVER
        if timeline is None:
            rows = self._execute(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._execute(self._locking(SQL.letters_of), (self._namespace, timeline.encode(), number, limit))
        found = [(as_text(letter_id), as_text(of), bytes(body)) for letter_id, of, body in rows]
        return [(letter[0], self._unless_damaged(read_letter, *letter)) for letter in found]

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        rows = self._execute(SQL.letter_with, (key.encode(), self._namespace, timeline.encode())).fetchall()
        letters = ((as_text(letter_id), timeline, bytes(body)) for letter_id, body in rows)
        found = (self._unless_damaged(read_letter, *letter) for letter in letters)
        return next((letter for letter in found if letter is not None), None)

    def letter_rows(self, *, after: int, limit: int) -> list[LetterRow]:
        rows = self._execute(SQL.letter_rows, (self._namespace, after, limit)).fetchall()
        return [letter_row(number, as_text(name), as_text(of), batch, bytes(b)) for number, name, of, batch, b in rows]

    def replace_letter(self, row: LetterRow, letter: DeadLetter | None) -> None:
        if letter is None:
            self._execute(SQL.remove_letter_row, (row.number,))
        else:
            names = letter.id.encode(), letter.timeline.encode()
            self._execute(SQL.replace_letter, (*names, encoded(letter), row.number))

    def remember(self, ended: HistoryEntry) -> None:
        self._ended.setdefault(self.tenants.of(ended.timeline), []).append(ended)

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        self._write_history()
        if timeline is not None:
            rows = self._execute(SQL.history_of, (self._namespace, timeline.encode(), limit))
        elif prefix:
            rows = self._execute(SQL.history_under, (self._namespace, prefix.encode(), after_all(prefix), limit))
        else:
            rows = self._execute(SQL.history, (self._namespace, limit))
        entries = [(as_text(of), bytes(body)) for of, body in rows]
        found = [entry for one in entries if (entry := self._unless_damaged(read_entry, *one)) is not None]
        if len(found) < len(entries) == limit < HISTORY_LIMIT:
            return self.history(timeline, limit=HISTORY_LIMIT, prefix=prefix)[
                :limit
            ]  # older entries in place of damaged ones
        return found

    def damaged_entries(self) -> list[tuple[int, Damage]]:
        self._write_history()
        rows = self._execute(SQL.history_rows, (self._namespace,)).fetchall()
        return damaged_entries((place, as_text(timeline), bytes(body)) for place, timeline, body in rows)

    def remove_entry(self, place: int) -> None:
        self._execute(SQL.remove_entry, (self._namespace, place))

    def delete_history(self, timeline: str) -> None:
        self._write_history()
        self._execute(SQL.forget, (self._namespace, timeline.encode()))

    def _write_history(self) -> None:
        ended, self._ended = self._ended, {}
        if REST in ended:
            self._remember(SQL.remember, ended.pop(REST))
        if ended:
            filled = {"filled": Byteas([ring.encode() for ring in ended]), "counts": [*map(len, ended.values())]}
            rings = Byteas([ring.encode() for ring, entries in ended.items() for _ in entries])
            self._remember(SQL.remember_in_rings, [*chain(*ended.values())], rings=rings, **filled)

    def _remember(self, statement: str, ended: Sequence[HistoryEntry], **rings: Any) -> None:
        timelines = Byteas([entry.timeline.encode() for entry in ended])
        columns = {"timelines": timelines, "bodies": Byteas([encode_entry(entry) for entry in ended])}
        self._execute(statement, {"namespace": self._namespace, "limit": HISTORY_LIMIT, **columns, **rings})

    def oldest_entry(self, ring: str) -> HistoryEntry | None:
        where = {"namespace": self._namespace, "limit": HISTORY_LIMIT}
        if ring == REST:
            row = self._execute(SQL.oldest_entry, where).fetchone()
        else:
            row = self._execute(SQL.oldest_entry_in_ring, {**where, "ring": ring.encode()}).fetchone()
        return None if row is None else self._unless_damaged(read_entry, as_text(row[0]), bytes(row[1]))

    def removals(self, timeline: str) -> Removals:
        if timeline in self._removed:
            return self._removed[timeline]
        return self._found_removals(SQL.removals, timeline.encode()) or Removals()

    def put_removals(self, timeline: str, removals: Removals) -> None:
        self._removed[timeline] = removals

    def delete_removals(self, timeline: str) -> None:
        self._removed.pop(timeline, None)
        self._execute(SQL.delete_removals, (self._namespace, timeline.encode()))

    def oldest_removals(self, ring: str) -> Removals | None:
        return self._found_removals(SQL.oldest_removals, ring.encode(), HISTORY_LIMIT - 1)

    def _found_removals(self, statement: str, *arguments: bytes | int) -> Removals | None:
        body = self._value(statement, self._namespace, *arguments)
        return None if body is None else read_removals(bytes(body))

    def _write_removals(self) -> None:
        """Write them all, and then forget the oldest: what follows must not wait for rows of other timelines."""
        if self._removed:
            timelines = sorted(self._removed, key=str.encode)
            bodies = [encoded(self._removed[timeline]) for timeline in timelines]
            rings = [self.tenants.of(timeline).encode() for timeline in timelines]
            columns = Byteas([timeline.encode() for timeline in timelines]), Byteas(bodies), Byteas(rings)
            self._execute(SQL.put_removals, (self._namespace, *columns))
            filled = {"rings": Byteas([*dict.fromkeys(rings)]), "limit": HISTORY_LIMIT}
            self._execute(SQL.forget_removals, {"namespace": self._namespace, **filled})
            self._removed = {}

    # Notes

    # documents

    def document(self, collection: str, key: str) -> DocumentRow | None:
        return next(iter(self._documents(SQL.document, collection.encode(), key.encode())), None)

    def _documents(self, statement: str, *arguments: object) -> list[DocumentRow]:
        rows = self._execute(statement, (self._namespace, *arguments)).fetchall()
        return [
            DocumentRow(number, as_text(collection), expires, size, _document(*rest))
            for number, collection, expires, size, *rest in rows
        ]

    def put_document(self, row: DocumentRow) -> None:
        key, body, timeline, at, ring = row.document
        place = (row.number, self._namespace, row.collection.encode(), row.expires)
        of = None if timeline is None else timeline.encode()
        self._save(SQL.put_document, (*place, key.encode(), body, of, at, ring.encode()))

    def remove_document(self, row: DocumentRow) -> None:
        self._save(SQL.remove_document, (row.number,))

    def oldest_document(self, collection: str, ring: str | None) -> DocumentRow | None:
        if ring is None:
            return next(iter(self._documents(SQL.oldest_document, collection.encode())), None)
        return next(iter(self._documents(SQL.oldest_document_of_ring, collection.encode(), ring.encode())), None)

    def newest_documents(self, collection: str, *, timeline: str | None, before: int, limit: int) -> list[DocumentRow]:
        if timeline is None:
            return self._documents(SQL.newest_documents, collection.encode(), before, limit)
        return self._documents(SQL.newest_documents_of, collection.encode(), timeline.encode(), before, limit)

    def documents_of(self, timeline: str, *, limit: int) -> list[DocumentRow]:
        return self._documents(SQL.documents_of, timeline.encode(), limit)

    def lock_note(self, name: str) -> None:
        self._execute(SQL.note_alone, (crc32(name.encode(), self._namespace) - 2**31,))

    def note(self, name: str) -> bytes | None:
        body = self._value(self._locking(SQL.note), self._namespace, name.encode())
        return None if body is None else bytes(body)

    def put_note(self, name: str, body: bytes | None) -> None:
        if body is None:
            self._save(SQL.remove_note, (self._namespace, name.encode()))
        else:
            self._save(SQL.put_note, (self._namespace, name.encode(), body))

    def remove_notes(self, prefix: str) -> None:
        self._execute(SQL.remove_notes, (self._namespace, prefix.encode(), f"{prefix}\U0010ffff".encode()))

    def notes(self) -> dict[str, bytes]:
        return {as_text(name): bytes(body) for name, body in self._execute(SQL.notes, (self._namespace,)).fetchall()}


def _document(key: bytes, body: bytes, timeline: bytes | None, at: Millis, ring: bytes) -> Document:
    return Document(as_text(key), bytes(body), None if timeline is None else as_text(timeline), at, as_text(ring))
