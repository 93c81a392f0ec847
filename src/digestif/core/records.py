"""Records and the other values of the public interface, and the checks of what callers give."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, overload

from digestif.core.durations import seconds_of
from digestif.core.texts import shortened
from digestif.core.times import (
    LONGEST,
    MILLISECONDS_FROM,
    Duration,
    Instant,
    datetime_of,
    in_seconds,
    is_duration,
    is_number,
)
from digestif.errors import InvalidRecord

KEY_BYTES = 512  # of UTF-8, for timelines and records
VALUE_BYTES = 256 * 1024  # of an encoded value, unless the namespace allows more…
MOST_VALUE_BYTES = 1024 * 1024  # …up to this
VALUE_SIZE = 4 * 1024 * 1024  # before it is compressed
VALUE_DEPTH = 64  # levels of containers


class Record(NamedTuple):
    """One event: a key that is unique within its timeline, a value, and the time of the event in seconds."""

    key: str
    value: Any
    timestamp: float

    @property
    def datetime(self) -> datetime:
        """The timestamp as an aware datetime in UTC. Raises ValueError if it is in none of the years 1 to 9999."""
        return datetime_of(self.timestamp)


class ScheduleEntry(NamedTuple):
    """A timeline that became ready, and the time it was due."""

    key: str
    timestamp: float


class State(StrEnum):
    """Where a timeline is in its life."""

    IDLE = "idle"  # nothing stored
    WAITING = "waiting"  # due at a time
    READY = "ready"  # may be taken
    OPEN = "open"  # taken under a lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What is known about a timeline. Times in seconds; an unknown timeline is idle."""

    key: str
    state: State
    due: float | None  # None unless waiting
    pending: int  # records in no digest yet
    last: float | None  # when the last delivery ended
    iteration: int  # digests in a row without an empty one
    paused: bool
    in_digest: int = 0  # records of its unfinished digest
    was_due: float | None = None  # of a ready one
    off: bool = False  # a person switched it off: no record is accepted
    cadence: str | None = None  # that a person chose


@dataclass(frozen=True, slots=True)
class Digest(Sequence[Record]):
    """The records that one delivery carries, newest first."""

    timeline: str
    id: str
    revision: int
    attempt: int
    dropped: int  # records that capacity pushed out since the last digest
    records: tuple[Record, ...]

    @property
    def idempotency_key(self) -> str:
        """Two deliveries with the same key carry the same records: receivers may ignore the second."""
        return f"{self.id}.{self.revision}"

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, index: int | slice) -> Record | tuple[Record, ...]:
        return self.records[index]

    def __len__(self) -> int:
        return len(self.records)


class TimelinesPage(NamedTuple):
    """Timelines, and where the next page begins; None: this was the last page."""

    timelines: "list[Timeline]"
    after: str | None


class Outcome(StrEnum):
    """How a digest ended."""

    DELIVERED = "delivered"
    DEAD = "dead"
    DISCARDED = "discarded"
    EXPIRED = "expired"


class Addition(NamedTuple):
    """A record to be accepted with others, with what `add` takes."""

    timeline: str
    value: Any
    key: str | None = None
    timestamp: Instant | None = None
    within: Duration | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The answer to a record that was accepted: what became of its timeline. Times in seconds."""

    key: str  # of the record, also if it was chosen for it
    ready: bool  # the record made its timeline ready: it should be delivered now
    due: float | None  # when the timeline is delivered next; None while it is open, paused or switched off


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A digest that was given up, and can be replayed, requeued or discarded. Times in seconds."""

    id: str
    timeline: str
    revision: int
    attempts: int
    lapses: int  # attempts whose lease ran out
    reason: str
    records: int
    dropped: int
    opened: float  # first
    buried: float
    served: tuple[str, ...] = ()  # recipients who have their part; a replay serves the others
    traceback: str = ""  # of the handler's last error
    unknown: bool = False  # it may have gone out


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A digest that ended. Times in seconds."""

    id: str
    timeline: str
    outcome: Outcome
    revision: int
    attempts: int
    records: int
    dropped: int
    opened: float  # first
    ended: float
    reason: str | None = None
    keys: tuple[str, ...] = ()  # of its newest records, at most 100
    receipt: str | None = None  # what receivers answered, such as the queue id of a mail
    left_out: tuple[str, ...] = ()  # keys of records that a `keep` hook removed from it, at most 100


class Fate(StrEnum):
    """Where a version of a record is, or what became of it."""

    PENDING = "pending"
    OPEN = "open"
    DELIVERED = "delivered"
    DEAD = "dead"
    DISCARDED = "discarded"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    LEFT_OUT = "left out"  # by a `keep` hook
    DROPPED = "dropped"  # its timeline was full
    DECLINED = "declined"  # its timeline is switched off
    FORGOTTEN = "forgotten"  # it ended before what is still kept


class Sighting(NamedTuple):
    """What `trace` found of one version of a record: its fate, its digest, and when that digest or the record ended.

    One that is not `certain` may have happened to the record, from `since` to `ended`: the store knows how many
    records, and not which. Times in seconds; None is not known, or not yet.
    """

    fate: Fate
    digest_id: str | None = None
    ended: float | None = None
    certain: bool = True
    since: float | None = None  # it did not happen before; only if it is not certain
    records: int | None = None  # to how many it happened; only if it is not certain


def check_timeline(key: object) -> str:
    """The key of a timeline, if it is valid; otherwise InvalidRecord."""
    return check_key(key, "timeline key")


def check_record_key(key: object) -> str:
    """The key of a record, if it is valid; otherwise InvalidRecord."""
    return check_key(key, "record key")


def check_timestamp(timestamp: object) -> float:
    """The time of an event in seconds, of a number or an aware datetime; InvalidRecord if it is neither."""
    if type(timestamp) is float and -math.inf < timestamp < MILLISECONDS_FROM:  # the usual case
        return timestamp
    if isinstance(timestamp, datetime):
        return _seconds_of(timestamp)
    seconds = check_stored_timestamp(timestamp)
    if seconds >= MILLISECONDS_FROM:
        raise InvalidRecord(
            f"timestamp: {shortened(timestamp)} is in milliseconds or finer, it seems (as seconds it is past the year "
            "5138); give seconds: divide milliseconds by 1000"
        )
    return seconds


def _seconds_of(timestamp: datetime) -> float:
    if timestamp.utcoffset() is None:
        raise InvalidRecord(
            f"timestamp: {shortened(timestamp)} has no time zone, so it is no certain time; "
            "give one: timestamp.replace(tzinfo=UTC), or timestamp.astimezone() for the zone of this machine"
        )
    return timestamp.timestamp()


def check_stored_timestamp(timestamp: object) -> float:
    """A timestamp as a float of the same value, however large; InvalidRecord if it is no finite number."""
    if not is_number(timestamp):
        raise InvalidRecord(f"timestamp: {shortened(timestamp)} is not a finite number of seconds")
    seconds = float(timestamp)  # type: ignore[arg-type]  # is_number says so
    if seconds != timestamp:
        raise InvalidRecord(f"timestamp: {shortened(timestamp)} has no float of the same value")
    return seconds


def check_within(within: object) -> float:
    """A record's own deadline in seconds, if it is valid; otherwise InvalidRecord."""
    within = in_seconds(within)
    if not is_duration(within):
        seconds = seconds_of(within) if isinstance(within, str) else None
        write = "" if seconds is None else f"; write {seconds:g}"
        raise InvalidRecord(f"within: {shortened(within)} is not a number of seconds from 0 to {LONGEST:g}{write}")
    return float(within)  # type: ignore[arg-type]  # is_duration says so


def check_value(value: object) -> None:
    """Raise InvalidRecord if a value is nested too deep or too large, before a codec sees it.

    The size counts characters, bytes and items. Dicts, lists, tuples and sets are searched; any other object counts as
    one. There is no recursion, and a value that contains itself is soon too deep.
    """
    weight = weigh(value, VALUE_SIZE)
    if weight.room < 0:
        raise InvalidRecord(f"value: larger than {VALUE_SIZE} characters, bytes and items, which are allowed")
    if weight.is_deep:
        _refuse_depth(value)


def _refuse_depth(value: object) -> None:
    """Raise InvalidRecord for a value that is nested too deep, with the path to where."""
    path: list[object] = []
    levels: list[Iterator[tuple[Any, object]]] = [iter([(None, value)])]  # the items still to be checked, per level
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
            del path[-1:]
            continue
        name, item = found
        if isinstance(item, _CONTAINERS):
            path.append(name)
            if len(path) > VALUE_DEPTH:
                raise InvalidRecord(f"value: nested deeper than {VALUE_DEPTH} levels, at {shortened(_Path(path[1:]))}")
            parts = item.items() if isinstance(item, dict) else enumerate(item)
            levels.append(iter([(name, part) for name, part in parts if type(part) not in _SCALARS]))


class Weight(NamedTuple):
    """What `weigh` found."""

    room: int  # that is left; negative: the value is too large
    is_plain: bool  # all of it is of JSON's own types
    is_deep: bool  # it is nested too deep, or contains itself


def weigh(value: object, room: int) -> Weight:
    """Count items, characters and bytes of a value as often as they would be written, until there is no room left.

    A value that shares its parts may be small in memory and endless as text: each part is looked at once per level, and
    counted as often as it occurs there.
    """
    is_plain = True
    level: dict[int, tuple[Any, int]] = {0: ([value], 1)}  # by identity: a container, and how often it occurs
    room += 1  # for the list around the value
    for _ in range(VALUE_DEPTH + 1):
        inner: dict[int, tuple[Any, int]] = {}
        for part, times in level.values():
            size = 1
            if isinstance(part, dict):
                size += sum([1 + len(name) if type(name) in _TEXTS else 1 for name in part])
            for item in _inside(part):
                kind = type(item)
                if kind is str:
                    size += 1 + len(item)  # type: ignore[arg-type]  # mypy does not see that it is a text
                elif kind in _SCALARS and kind is not bytes:
                    size += 1
                elif isinstance(item, _CONTAINERS):
                    is_plain = is_plain and (kind is dict or kind is list)
                    known = inner.get(id(item))
                    inner[id(item)] = (item, times if known is None else times + known[1])
                else:
                    is_plain = False
                    size += _size(item)
            room -= times * size
            if room < 0:
                return Weight(room, is_plain, is_deep=False)
        if not inner:
            return Weight(room, is_plain, is_deep=False)
        level = inner
    return Weight(room, is_plain, is_deep=True)


def is_deep(value: object, depth: int = VALUE_DEPTH) -> bool:
    """True if a value is nested too deep. Faster than `check_value`; the value must not contain itself."""
    level = [value]
    for _ in range(depth):
        level = [inner for item in level for inner in _inside(item) if type(inner) not in _SCALARS]
        if not level:
            return False
    return any(isinstance(item, _CONTAINERS) for item in level)


_CONTAINERS = (dict, list, tuple, set, frozenset)
_TEXTS = frozenset((str, bytes))
_SCALARS = _TEXTS | {int, float, bool, type(None)}


def _size(item: object) -> int:
    """The size of an item: its characters or bytes, else one. A container includes its keys and scalars."""
    if isinstance(item, str | bytes | bytearray):
        return len(item)
    parts = [*item, *item.values()] if isinstance(item, dict) else _inside(item)
    scalars: list[Any] = [part for part in parts if type(part) in _SCALARS]
    return 1 + len(scalars) + sum([len(part) for part in scalars if type(part) in _TEXTS])


def _inside(item: object) -> Iterable[object]:
    if type(item) is dict:
        return item.values()
    if type(item) is list:
        return item
    if isinstance(item, _CONTAINERS):
        return item.values() if isinstance(item, dict) else item
    return ()


class _Path(tuple[object, ...]):
    """The keys and indexes that lead to a part of a value."""

    def __repr__(self) -> str:
        return "".join(f"[{shortened(name)}]" for name in self)


def check_key(key: object, what: str) -> str:
    """The key, if it is valid; otherwise InvalidRecord, whose text begins with `what`."""
    if type(key) is str and key.isascii() and 0 < len(key) <= KEY_BYTES:  # the usual case
        return key
    if not isinstance(key, str):
        raise InvalidRecord(f"{what}: {shortened(key)} is not a string")
    try:
        size = len(key) if key.isascii() else len(key.encode())
    except UnicodeEncodeError:
        raise InvalidRecord(f"{what}: {shortened(key)} has a lone surrogate and is not valid UTF-8") from None
    if not 1 <= size <= KEY_BYTES:
        raise InvalidRecord(f"{what}: {size} bytes of UTF-8, allowed are 1 to {KEY_BYTES}")
    return key if type(key) is str else str.__str__(key)
