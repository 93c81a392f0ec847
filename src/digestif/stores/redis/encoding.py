"""Values between Python and Lua: MessagePack, and for records a packed head before the payload."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from struct import Struct as Packing
from struct import pack as pack_numbers
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from digestif.core import machine
from digestif.core.capacity import Stored, by_age
from digestif.core.damage import Damage, legible
from digestif.core.machine import IDLE, Plan, Seen, Slot
from digestif.core.records import DeadLetter, HistoryEntry, Outcome
from digestif.core.removals import Removals
from digestif.core.terms import Openings, Override, Terms
from digestif.core.texts import shortened
from digestif.core.times import Millis, to_seconds
from digestif.stores.base import HISTORY_KEYS, Accepted, Candidate, Lease
from digestif.stores.codec import JsonCodec
from digestif.stores.damage import UNDECODABLE, Unreadable
from digestif.stores.redis.keys import as_bytes, as_text
from digestif.stores.transfer import ExportedRecord

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode
_slot = msgspec.msgpack.Decoder(Slot).decode

_TIMESTAMP, _read_timestamp = Packing(">d").pack, Packing(">d").unpack_from
FORM, EXPIRES, NAMELESS = 0xF8, 1, 2  # the first byte of a record, and what is added to it; see basics.lua
NAME = JsonCodec.name.encode() + b" "  # of the usual codec: it need not be stored with each payload
_NAME_SIZE = len(NAME)
_SLOT_HEAD, _OWN_HEAD = 8, 24  # bytes that only the scripts read; of a slot with an override that records may join
_TERMS = Packing(">9d")
_OPENINGS = _TAIL = Packing(">BH").pack
UNSET = math.nan
_DROPS = Packing(">HH")
_DUE = Packing(">d")  # NaN: not known
_YES = ord("1")
_READY, _QUIET = Accepted(ready=True), Accepted()
_NEVER = 2**54  # the expiry of a record of schema 1 that does not expire


class StoredLetter(msgspec.Struct):
    """A dead letter as it is stored beside its records. Times in milliseconds."""

    id: str
    timeline: str
    revision: int
    attempts: int
    lapses: int
    reason: str
    records: int
    dropped: int
    opened: Millis
    buried: Millis
    number: int
    served: tuple[str, ...] = ()
    traceback: str = ""
    unknown: bool = False


class StoredEntry(msgspec.Struct):
    """An entry of the history as it is stored. Times in milliseconds."""

    number: int
    id: str
    timeline: str
    outcome: Outcome
    revision: int
    attempts: int
    records: int
    dropped: int
    opened: Millis
    ended: Millis
    reason: str | None = None
    keys: tuple[str, ...] = ()
    receipt: str | None = None
    left_out: tuple[str, ...] = ()


# The usual lengths before the parts of a record: to format them would take longer than the rest of `body`.
_USUAL = 1024
_LENGTHS = [b"$%d\r\n" % size for size in range(_USUAL)]
_ENDS_AND_LENGTHS = [b"\r\n" + length for length in _LENGTHS]

_new = tuple.__new__  # the constructor of a NamedTuple takes twice as long

_letter = msgspec.msgpack.Decoder(StoredLetter).decode
_entry = msgspec.msgpack.Decoder(StoredEntry).decode
_removals = msgspec.msgpack.Decoder(Removals).decode
_rings = msgspec.msgpack.Decoder(dict[str, bool]).decode


def are_json(payloads: Iterable[bytes | None]) -> bool:
    """True if every payload has the name of the usual codec, so that it may be left out of their bodies."""
    return {payload and payload[:_NAME_SIZE] for payload in payloads} == {NAME}


def body(key: str, timestamp: float, payload: bytes | None, nameless: bool) -> tuple[bytes, ...]:
    """The pieces of a record as two parts of a command: its key, then timestamp and payload together."""
    name = key.encode()
    before = _LENGTHS[len(name)] if len(name) < _USUAL else b"$%d\r\n" % len(name)
    if payload is None:  # the value is missing, and stays so
        return before, name, b"\r\n$0\r\n\r\n"
    rest = payload[_NAME_SIZE:] if nameless else payload
    size = len(rest) + 8
    between = _ENDS_AND_LENGTHS[size] if size < _USUAL else b"\r\n$%d\r\n" % size
    return before, name, between, _TIMESTAMP(timestamp), rest, b"\r\n"


def whereabouts(places: Sequence[float]) -> bytes:
    """For each record the numbers of its timeline and policy within the call, both counted from 1, and its deadline."""
    return _whereabouts(len(places) // 3)(*places)


@cache
def _whereabouts(records: int) -> Callable[..., bytes]:
    return Packing(">" + "HHd" * records).pack


def tail(*, asks_due: bool, nameless: bool, ordered: int) -> bytes:
    """What is behind the whereabouts: the wishes, and of how many timelines the orders are declared."""
    return _TAIL(asks_due + 2 * nameless, ordered)


def numbers(policies: Sequence[Terms]) -> bytes:
    """The numbers of policies, then their openings. NaN stands for what is not set, infinity for no capacity."""
    rows: list[bytes] = []
    openings: list[bytes] = []
    place = len(policies) * _TERMS.size + 1
    for terms in policies:
        begin = UNSET
        if terms.openings is not None:
            openings.append(_packed_openings(terms.openings))
            begin, place = place, place + len(openings[-1])
        rows.append(_packed_terms(terms, begin))
    return b"".join((*rows, *openings))


def _packed_terms(terms: Terms, openings: float) -> bytes:
    return _TERMS.pack(
        terms.first_delay,
        UNSET if terms.increment is None else terms.increment,
        terms.maximum,
        UNSET if terms.quiet is None else terms.quiet,
        UNSET if terms.max_records is None else terms.max_records,
        terms.given,
        openings,
        math.inf if terms.capacity is None else terms.capacity,
        UNSET if terms.ttl is None else terms.ttl,
    )


def _packed_openings(openings: Openings) -> bytes:
    many = len(openings.numbers)
    return _OPENINGS(openings.hours + 2 * openings.urgent, many) + pack_numbers(f">{many}d", *openings.numbers)


def plan(plan: Plan) -> dict[str, Any]:
    """How a timeline goes on, for a request."""
    return {name: value for name, value in asdict(plan).items() if value is not None}


def seen(found: Seen) -> tuple[Any, ...]:
    """What decided about a timeline, for a request; false for what is not there."""
    return tuple(False if each is None else each for each in found)


def lease(reply: Sequence[Any], token: str) -> Lease:
    *plain, override, passes, tried, frozen = reply
    timeline, until, digest_id, attempt, lapses, iteration, at, lapsed, lapses_alone = plain
    own = msgspec.convert(override, Override) if override else None
    return Lease(
        *(timeline, token, until, digest_id, attempt, lapses, iteration, at, lapsed, lapses_alone, own, passes),
        tried=tried or None,
        frozen=frozen,
    )


def candidate(reply: Sequence[Any], now: Millis) -> Candidate:
    timeline, found, pending = reply
    return Candidate(timeline, replace(msgspec.convert(found, Slot), pending=pending), now)


def flags(reply: bytes) -> list[bool]:
    """`0101` as booleans."""
    return [flag == _YES for flag in reply]


def accepted(reply: bytes, many: int, *, with_due: bool) -> list[Accepted]:
    """The reply of `add`: a flag for each record, due times if asked for, then which records dropped how many."""
    answers = [_READY if flag == _YES else _QUIET for flag in reply[:many]]
    behind = many
    if with_due:
        behind += many * _DUE.size
        times = [at for (at,) in _DUE.iter_unpack(reply[many:behind])]
        answers = [
            answer if at != at else answer._replace(due=int(at)) for answer, at in zip(answers, times, strict=True)
        ]
    for position, dropped in _DROPS.iter_unpack(reply[behind:]):
        answers[position] = answers[position]._replace(dropped=dropped)
    return answers


def slot(timeline: str, stored: bytes | None, pending: int) -> Slot:
    """Decode a slot, which does not hold the number of pending records. Raises Unreadable if it is damaged."""
    if stored is None:
        return IDLE
    try:
        found = _slot(stored[head_size(stored) :])
    except UNDECODABLE as error:
        text = shortened(stored[1:])  # the first byte says only whether records may join it
        raise unreadable_slot(timeline, f"{error}: {text}") from error
    problem = machine.flaw(found)
    if problem is not None:
        raise unreadable_slot(timeline, problem)
    return replace(found, pending=pending)


def head_size(stored: bytes) -> int:
    """How many bytes of a slot are its head."""
    return _OWN_HEAD if stored[:1] in (b"p", b"q") else _SLOT_HEAD


def unreadable_slot(timeline: str, problem: str) -> Unreadable:
    return Unreadable(Damage(timeline=legible(timeline), part="slot", problem=f"its slot can't be read ({problem})"))


def records(flat: Sequence[bytes]) -> list[Stored]:
    """Records newest first, from keys and stored records in turn, in any order."""
    found = [record(as_text(key), stored) for key, stored in zip(flat[::2], flat[1::2], strict=True)]
    found.sort(key=by_age, reverse=True)
    return found


def record(key: str, stored: bytes) -> Stored:
    """Decode a record; without its value if it is too short or of an unknown form, or its key is not UTF-8."""
    form = _FORMS.get(stored[:1], _FORMLESS)
    if len(stored) < form.timestamp + 8:
        return Stored(key, None, 0.0, 0)
    arrival = int.from_bytes(stored[form.arrival : form.arrival + 5])
    (timestamp,) = _read_timestamp(stored, form.timestamp)
    if timestamp != timestamp or not (key.isascii() or legible(key) == key):
        return Stored(key, None, 0.0, arrival)
    return _new(Stored, (key, form.name + stored[form.timestamp + 8 :], timestamp, arrival))


class _Form(NamedTuple):
    """Where the parts of a stored record begin, and what stands before its payload when it is read."""

    arrival: int
    timestamp: int
    name: bytes = b""

    def expiry(self, stored: bytes) -> Millis | None:
        """Of a record that is whole."""
        if self.timestamp == self.arrival + 5:
            return None
        expires = int.from_bytes(stored[self.arrival + 5 : self.timestamp], signed=True)
        return None if expires == _NEVER else expires


_FORMLESS = _Form(0, 12)  # schema 1
_UNKNOWN = _Form(0, sys.maxsize)  # no record is long enough
_FORMS = {  # by the first byte
    **{bytes([form]): _UNKNOWN for form in range(FORM, 256)},
    bytes([FORM]): _Form(1, 6),
    bytes([FORM + EXPIRES]): _Form(1, 13),
    bytes([FORM + NAMELESS]): _Form(1, 6, NAME),
    bytes([FORM + EXPIRES + NAMELESS]): _Form(1, 13, NAME),
}


def key_text(key: str) -> str | msgspec.Raw:
    """The key of a record for a request."""
    return key if key.isascii() or legible(key) == key else text(as_bytes(key))


def history_keys(keys: Sequence[str] | None) -> list[str | msgspec.Raw] | None:
    """The keys of a digest's newest records for a request, as many as the history keeps."""
    return None if keys is None else [key_text(key) for key in keys[:HISTORY_KEYS]]


def text(raw: bytes) -> msgspec.Raw:
    """Any bytes as a text of MessagePack: scripts know only texts."""
    return msgspec.Raw(b"\xdb" + len(raw).to_bytes(4) + raw)


def read_export(key: str, stored: bytes, deadline: bytes) -> ExportedRecord:
    """A record for another store, with its times."""
    found = record(key, stored)
    expires = None if found.payload is None else _FORMS.get(stored[:1], _FORMLESS).expiry(stored)
    return ExportedRecord(found, int(deadline) if deadline else None, expires)


def letter(letter_id: str, stored: bytes) -> StoredLetter:
    """Decode a dead letter. Raises Unreadable if it is damaged."""
    try:
        found = _letter(stored)
        problem = None if found.id == letter_id and found.records >= 0 else "it says something else"
    except UNDECODABLE as error:
        problem = str(error)
    if problem is None:
        return found
    problem = f"the dead letter {legible(letter_id)} can't be read ({problem}: {shortened(stored)})"
    raise Unreadable(Damage(timeline=salvaged_timeline(stored), part="letter", problem=problem))


def salvaged_timeline(stored: bytes) -> str | None:
    """The timeline that a damaged dead letter still names."""
    _, found, rest = stored.partition(b"\xa8timeline")
    if not found or not rest:
        return None
    sizes = {0xD9: 1, 0xDA: 2}  # the length of a text is in its first byte, or in one or two that follow
    behind = sizes.get(rest[0], 0)
    size = int.from_bytes(rest[1 : 1 + behind]) if behind else rest[0] & 0x1F
    try:
        name = rest[1 + behind : 1 + behind + size].decode()
    except UnicodeDecodeError:
        return None
    return name if len(name.encode()) == size and size else None


def dead_letter(found: StoredLetter) -> DeadLetter:
    return DeadLetter(**_public_fields(found, "opened", "buried"))


def entry(stored: bytes) -> StoredEntry:
    """Decode an entry of the history. Raises Unreadable if it is damaged."""
    try:
        return _entry(stored)
    except UNDECODABLE as error:
        problem = f"an entry of the history can't be read ({error}: {shortened(stored)})"
        raise Unreadable(Damage(timeline=salvaged_timeline(stored), part="history", problem=problem)) from error


def rings(stored: bytes | None) -> dict[str, bool]:
    """Decode the names of the tenants that have a ring in the history. Raises Unreadable if they are damaged."""
    try:
        return {} if stored is None else _rings(stored)
    except UNDECODABLE as error:
        problem = f"the names of the rings of the history can't be read ({error}: {shortened(stored or b'')})"
        raise Unreadable(Damage(timeline=None, part="history", problem=problem)) from error


def history_entry(found: StoredEntry) -> HistoryEntry:
    return HistoryEntry(**_public_fields(found, "opened", "ended"))


def removals(stored: bytes | None) -> Removals:
    """Decode what is remembered of records that were removed; nothing if it is damaged."""
    try:
        return Removals() if stored is None else _removals(stored)
    except UNDECODABLE:
        return Removals()


def _public_fields(found: msgspec.Struct, *times: str) -> dict[str, Any]:
    """The stored fields without the number, times in seconds."""
    fields = asdict(found)
    del fields["number"]
    return fields | {name: to_seconds(fields[name]) for name in times}
