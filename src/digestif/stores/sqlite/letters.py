"""Dead letters, the history of ended digests, and notes about transfers between stores."""

from digestif.core.damage import Damage
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.tenants import REST
from digestif.stores.base import HISTORY_LIMIT
from digestif.stores.documents import Document
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
from digestif.stores.sqlite.connections import SQL
from digestif.stores.sqlite.slots import SqliteSlots, as_bytes, encoded, lenient_text


class SqliteLetters(SqliteSlots):
    """Every method runs its statements at once; nothing is held back."""

    def letter(self, letter_id: str) -> DeadLetter | None:
        rows = self._rows(SQL.letter, (self._namespace, letter_id))
        return read_letter(letter_id, *rows[0]) if rows else None

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id)
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        row = (self.next_number(), self._namespace, letter.id, letter.timeline, batch, encoded(letter).decode())
        self._execute(SQL.put_letter, row)

    def update_letter(self, letter: DeadLetter) -> None:
        self._execute(SQL.update_letter, (encoded(letter).decode(), self._namespace, letter.id))

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[tuple[str, DeadLetter | None]]:
        number = 0
        if after is not None:
            number = self._value(SQL.letter_number, self._namespace, as_bytes(after)) or NEVER
        if timeline is None:
            rows = self._rows(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._rows(SQL.letters_of, (self._namespace, timeline, number, limit))
        return [(letter_id, self._unless_damaged(read_letter, letter_id, *rest)) for letter_id, *rest in rows]

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        for letter_id, body in self._rows(SQL.letter_with, (key, self._namespace, timeline)):
            if (letter := self._unless_damaged(read_letter, letter_id, timeline, body)) is not None:
                return letter
        return None

    def letter_rows(self, *, after: int, limit: int) -> list[LetterRow]:
        rows = self._execute(SQL.letter_rows, (self._namespace, after, limit))
        return [letter_row(number, lenient_text(name), lenient_text(of), *rest) for number, name, of, *rest in rows]

    def replace_letter(self, row: LetterRow, letter: DeadLetter | None) -> None:
        if letter is None:
            self._execute(SQL.remove_letter_row, (row.number,))
        else:
            self._execute(SQL.replace_letter, (letter.id, letter.timeline, encoded(letter).decode(), row.number))

    def remember(self, ended: HistoryEntry) -> None:
        ring = self.tenants.of(ended.timeline)
        if ring != REST:
            self._remember_in_ring(ring, ended)
            return
        number: int = self._value(SQL.next_ended, self._namespace)
        row = (self._namespace, number % HISTORY_LIMIT, number, ended.timeline, encode_entry(ended).decode())
        self._execute(SQL.remember, row)

    def _remember_in_ring(self, ring: str, ended: HistoryEntry) -> None:
        entry = {"timeline": ended.timeline, "body": encode_entry(ended).decode()}
        where = {"namespace": self._namespace, "ring": ring}
        self._execute(SQL.remember_in_ring, {**where, **entry, "place": HISTORY_LIMIT + self.next_number()})
        self._execute(SQL.forget_in_ring, {**where, "limit": HISTORY_LIMIT})

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        if timeline is not None:
            rows = self._rows(SQL.history_of, (self._namespace, timeline, limit))
        elif prefix:
            rows = self._rows(SQL.history_under, (self._namespace, prefix, after_all(prefix), limit))
        else:
            rows = self._rows(SQL.history, (self._namespace, limit))
        found = [entry for row in rows if (entry := self._unless_damaged(read_entry, *row)) is not None]
        if len(found) < len(rows) == limit < HISTORY_LIMIT:
            return self.history(timeline, limit=HISTORY_LIMIT, prefix=prefix)[
                :limit
            ]  # older entries in place of damaged ones
        return found

    def damaged_entries(self) -> list[tuple[int, Damage]]:
        rows = self._execute(SQL.history_rows, (self._namespace,))
        return damaged_entries((place, lenient_text(timeline), body) for place, timeline, body in rows)

    def remove_entry(self, place: int) -> None:
        self._execute(SQL.remove_entry, (self._namespace, place))

    def delete_history(self, timeline: str) -> None:
        self._execute(SQL.forget, (self._namespace, timeline))

    def oldest_entry(self, ring: str) -> HistoryEntry | None:
        where = {"namespace": self._namespace, "limit": HISTORY_LIMIT}
        if ring == REST:
            rows = self._rows(SQL.oldest_entry, where)
        else:
            rows = self._rows(SQL.oldest_entry_in_ring, {**where, "ring": ring})
        return self._unless_damaged(read_entry, *rows[0]) if rows else None

    def removals(self, timeline: str) -> Removals:
        body = self._value(SQL.removals, self._namespace, timeline)
        return Removals() if body is None else read_removals(body)

    def put_removals(self, timeline: str, removals: Removals) -> None:
        ring, body = self.tenants.of(timeline), encoded(removals).decode()
        self._execute(SQL.put_removals, (self.next_number(), self._namespace, timeline, body, ring))
        self._execute(SQL.forget_removals, {"namespace": self._namespace, "ring": ring, "limit": HISTORY_LIMIT})

    def delete_removals(self, timeline: str) -> None:
        self._execute(SQL.delete_removals, (self._namespace, timeline))

    def oldest_removals(self, ring: str) -> Removals | None:
        body = self._value(SQL.oldest_removals, self._namespace, ring, HISTORY_LIMIT - 1)
        return None if body is None else read_removals(body)

    # documents

    def document(self, collection: str, key: str) -> DocumentRow | None:
        return next(iter(self._documents(SQL.document, collection, key)), None)

    def _documents(self, statement: str, *arguments: object) -> list[DocumentRow]:
        rows = self._rows(statement, (self._namespace, *arguments))
        return [DocumentRow(number, own, expires, size, Document(*rest)) for number, own, expires, size, *rest in rows]

    def put_document(self, row: DocumentRow) -> None:
        place = (row.number, self._namespace, row.collection, row.expires)
        self._execute(SQL.put_document, (*place, *row.document))

    def remove_document(self, row: DocumentRow) -> None:
        self._execute(SQL.remove_document, (row.number,))

    def oldest_document(self, collection: str, ring: str | None) -> DocumentRow | None:
        if ring is None:
            return next(iter(self._documents(SQL.oldest_document, collection)), None)
        return next(iter(self._documents(SQL.oldest_document_of_ring, collection, ring)), None)

    def newest_documents(self, collection: str, *, timeline: str | None, before: int, limit: int) -> list[DocumentRow]:
        if timeline is None:
            return self._documents(SQL.newest_documents, collection, before, limit)
        return self._documents(SQL.newest_documents_of, collection, timeline, before, limit)

    def documents_of(self, timeline: str, *, limit: int) -> list[DocumentRow]:
        return self._documents(SQL.documents_of, timeline, limit)

    # notes

    def lock_note(self, name: str) -> None:
        """Do nothing: one transaction at a time writes."""

    def note(self, name: str) -> bytes | None:
        body: bytes | None = self._value(SQL.note, self._namespace, name)
        return body

    def put_note(self, name: str, body: bytes | None) -> None:
        if body is None:
            self._execute(SQL.remove_note, (self._namespace, name))
        else:
            self._execute(SQL.put_note, (self._namespace, name, body))

    def remove_notes(self, prefix: str) -> None:
        self._execute(SQL.remove_notes, (self._namespace, prefix, f"{prefix}\U0010ffff"))

    def notes(self) -> dict[str, bytes]:
        return {lenient_text(name): body for name, body in self._execute(SQL.notes, (self._namespace,))}
