"""The stored bodies of slots, dead letters and history entries; Unreadable says which row is damaged, and how."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from digestif.core import machine
from digestif.core.damage import Damage, legible
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.texts import shortened
from digestif.stores.damage import UNDECODABLE, Unreadable
from digestif.stores.rows.view import LetterRow, Marks, TimelineRow

_encode = msgspec.json.Encoder().encode
_slot = msgspec.json.Decoder(Slot).decode
_letter = msgspec.json.Decoder(DeadLetter).decode
_removals = msgspec.json.Decoder(Removals).decode
_ended = msgspec.json.Decoder(HistoryEntry).decode


def read_slot(timeline: str, body: str | bytes) -> Slot:
    """A timeline's slot. Unreadable also if its name is not UTF-8, or if the slot contradicts itself."""
    try:
        slot = _slot(body)
    except UNDECODABLE as error:
        raise _unreadable_slot(timeline, _problem(_slot, body)) from error
    problem = machine.flaw(slot)
    if problem is not None or (slot.pending and slot.batch is None):
        raise _unreadable_slot(timeline, problem or "it has records, and no batch")
    if not timeline.isascii() and legible(timeline) != timeline:
        raise _unreadable_slot(timeline, "its name is not UTF-8")
    return slot


def _unreadable_slot(timeline: str, problem: str) -> Unreadable:
    name = legible(timeline)
    return Unreadable(Damage(timeline=name, part="slot", problem=f"its row can't be read ({problem})"))


def timeline_row(name: str, body: bytes, marks: Marks) -> TimelineRow:
    try:
        return TimelineRow(name, marks, read_slot(name, body))
    except Unreadable as error:
        return TimelineRow(name, marks, None, error.damage, body)


def read_letter(letter_id: str, timeline: str, body: str | bytes) -> DeadLetter:
    try:
        letter = _letter(body)
    except UNDECODABLE as error:
        raise _unreadable_letter(letter_id, timeline, _problem(_letter, body)) from error
    if letter.id != letter_id or letter.timeline != timeline or letter.records < 0:
        raise _unreadable_letter(letter_id, timeline, _problem(_letter, body))
    return letter


def letter_row(number: int, letter_id: str, timeline: str, batch: int, body: bytes) -> LetterRow:
    try:
        return LetterRow(number, letter_id, timeline, batch, read_letter(letter_id, timeline, body))
    except Unreadable as error:
        return LetterRow(number, letter_id, timeline, batch, None, error.damage)


def _unreadable_letter(letter_id: str, timeline: str, problem: str) -> Unreadable:
    problem = f"the dead letter {legible(letter_id)} can't be read ({problem})"
    return Unreadable(Damage(timeline=legible(timeline), part="letter", problem=problem))


def read_entry(timeline: str, body: str | bytes) -> HistoryEntry:
    try:
        return _ended(body)
    except UNDECODABLE as error:
        problem = f"an entry of its history can't be read ({_problem(_ended, body)})"
        raise Unreadable(Damage(timeline=legible(timeline), part="history", problem=problem)) from error


def damaged_entries(rows: Iterable[tuple[int, str, bytes]]) -> list[tuple[int, Damage]]:
    """The entries of the history that can't be read, of these (place, timeline, body)."""
    found = []
    for place, timeline, body in rows:
        try:
            read_entry(timeline, body)
        except Unreadable as error:
            found.append((place, error.damage))
    return found


def encode_entry(ended: HistoryEntry) -> bytes:
    """The body of a history entry. Record keys that are not UTF-8 are written as escapes."""
    try:
        return _encode(ended)
    except UnicodeEncodeError:
        return _encode(replace(ended, keys=tuple(map(legible, ended.keys))))


def after_all(prefix: str) -> bytes:
    """Return bytes that sort after every name that begins with the prefix, and before every other later name."""
    return prefix.encode() + b"\xff"


def read_removals(body: str | bytes) -> Removals:
    """What a body says of records that were removed; nothing if it is damaged."""
    try:
        return _removals(body)
    except UNDECODABLE:
        return Removals()


def _problem(decode: Callable[[bytes], object], body: str | bytes) -> str:
    """Why a body can't be decoded, in the same words for text and bytes."""
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogateescape")
    try:
        decode(raw)
    except UNDECODABLE as error:
        return f"{error}: {shortened(raw)}"
    return f"it says {shortened(raw)}"
