"""Timelines of the origin (Sentry's digests in Redis), to be moved into a store of ours.

Two sorted sets hold the schedule, `d:s:w` (waiting) and `d:s:r` (ready), by time. A timeline has `d:t:NAME` (records by
timestamp), `d:t:NAME:d` (those of a digest that did not end), `d:t:NAME:l` (when it was delivered last) and a value for
each record, `d:t:NAME:r:KEY`. Records of a digest that did not end become pending: they may have gone out or not.
When a record arrived is not kept there: its timestamp stands for that, and it never expires.

Stop the application that writes them before a move. A timeline is deleted once the target has it; one that can't be
read is skipped and stays. Notes about the move are in `d:digestif` until it is finished.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from digestif.core.capacity import Cursor, Stored
from digestif.core.machine import Rule, Slot, Unfinished
from digestif.core.records import DeadLetter, State, check_record_key, check_stored_timestamp, check_timeline
from digestif.core.texts import reason_of
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.transfer import FOREVER, OUTGOING
from digestif.dsn import load_attribute
from digestif.errors import ConfigError, DigestifError, InvalidRecord, StoreError, StoreUnavailable
from digestif.exports import needs
from digestif.stores.codec import Sealer, mark_timestamp
from digestif.stores.transfer import ExportedRecord, ExportSource, Parcel

with needs("redis", module="move --origin"):
    import redis

Decoder = Callable[[bytes], Any]
_SWAP = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""
PAGE = 500


def load_decoder(name: str) -> Decoder:
    """`json`, or a callable from bytes to a value that is named as `module:attribute`."""
    if name == "json":
        import msgspec

        return msgspec.json.decode
    try:
        found = load_attribute(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"decoder: {name} can't be imported: {error}") from error
    if not callable(found):
        raise ConfigError(f"decoder: {name} is not callable")
    return found  # type: ignore[no-any-return]


class Origin(ExportSource):
    """The timelines of one Redis server and prefix."""

    page_records = PAGE
    partitions = 1

    def __init__(self, url: str, *, decoder: Decoder, prefix: str = "d", codec: str = "json") -> None:
        try:
            self._client: Any = redis.Redis.from_url(url)
        except ValueError:  # it may quote a password
            raise ConfigError(
                "move: FROM is not an address of Redis such as redis://user:password@host:6379/0"
            ) from None
        with _translated():
            self._client.ping()
        self.skipped: dict[str, str] = {}  # timelines that can't be read, and why
        self._prefix = prefix
        self._decode = decoder
        self._seal = Sealer(codec).seal
        self._names: list[str] = []
        self._places: dict[str, list[tuple[float, bytes]]] = {}  # of each parcel: its records, oldest first

    def close(self) -> None:
        self._client.close()

    # Queries

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        if after is None:
            with _translated():
                self._names = sorted(self._all_names() - self.skipped.keys())
        start = 0 if after is None else bisect_left(self._names, after + "\0")
        return [(name, Slot(State.WAITING)) for name in self._names[start : start + limit] if name.startswith(prefix)]

    def _all_names(self) -> set[str]:
        found = set()
        for name in (*self._members(self._waiting), *self._members(self._ready)):
            try:
                found.add(name.decode())
            except UnicodeDecodeError:
                self.skipped[repr(name)] = "its name is not UTF-8"
        return found

    def left_behind(self) -> Iterator[str]:
        """Sentences about what was not moved, and why."""
        for name, why in self.skipped.items():
            yield f"{name!r} was left there: {why}"
        with _translated():
            orphans = sorted(self._record_sets() - {key for name in self.skipped for key in self._sets_of(name)})
        if orphans:
            told = "1 set of records" if len(orphans) == 1 else f"{len(orphans)} sets of records"
            yield f"{told} left there, of timelines that neither wait nor are ready, such as {_shown(orphans[0])}"

    def _sets_of(self, timeline: str) -> tuple[bytes, bytes]:
        return self._key(timeline).encode(), self._key(timeline, "d").encode()

    def _record_sets(self) -> set[bytes]:
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self._key("")) + "*"
        return set(self._client.scan_iter(pattern, count=PAGE, _type="zset"))

    def _members(self, key: str) -> Iterator[bytes]:
        for member, _ in self._client.zscan_iter(key, count=PAGE):
            yield member

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:  # noqa: ARG002
        return []  # the origin has none

    # Exports

    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        """Make parcels without locking the source.

        A parcel's id is a hash of its contents, so a repeated export gives the same id.
        """
        move = token.rpartition("-")[0]
        with _translated():
            at = self.time(0) if now is None else now
            return [self._unless_unreadable(timeline, move, now=at) for timeline in timelines]

    def _unless_unreadable(self, timeline: str, move: str, *, now: Millis) -> Parcel | None:
        try:
            return self._parcel(timeline, move, now=now)
        except InvalidRecord as error:
            self.skipped[timeline] = str(error)
        except redis.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            self.skipped[timeline] = str(error)
        return None

    def _parcel(self, timeline: str, move: str, *, now: Millis) -> Parcel | None:
        check_timeline(timeline)
        waiting = self._client.zscore(self._waiting, timeline)
        ready = self._client.zscore(self._ready, timeline)
        if waiting is None and ready is None:
            return None
        places = self._records(timeline)
        # Decode all of it first: a parcel that fails halfway would stay incomplete in the target.
        for start in range(0, len(places), PAGE):
            self._exported(timeline, places[start : start + PAGE], start)
        content = sha256(repr(places).encode()).hexdigest()[:20]
        parcel_id = f"{OUTGOING}{move}-{sha256(timeline.encode()).hexdigest()[:20]}-{content}"
        due = to_millis(_due(waiting if waiting is not None else ready))
        if ready is not None:
            due = min(due, now)  # there, the date of an event: it may lie ahead
        slot = Slot(
            state=State.OPEN,
            parked=State.WAITING if ready is None else State.READY,
            at=due,
            since=due,
            last=self._last(timeline),
            rule=Rule.MOVED,
            token=parcel_id,
            until=FOREVER,
            digest=Unfinished(id=parcel_id, batch=0, records=len(places), opened=_first_arrival(places, now=now)),
        )
        self._places[parcel_id] = places
        return Parcel.of(timeline, slot)

    def _last(self, timeline: str) -> Millis | None:
        """The end of the last delivery; None if there was none, or it can't be read."""
        try:
            last = float(self._client.get(self._key(timeline, "l")) or b"")
        except ValueError:
            return None
        return to_millis(last) if abs(last) <= to_seconds(FOREVER) else None

    def _records(self, timeline: str) -> list[tuple[float, bytes]]:
        """Timestamps and keys of records, oldest first; of two versions the pending one."""
        found: dict[bytes, float] = {}
        for key in (self._key(timeline, "d"), self._key(timeline)):
            found.update(self._client.zrange(key, 0, -1, withscores=True))
        return sorted((timestamp, key) for key, timestamp in found.items())

    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        pages = []
        for parcel, after in requests:
            start = 0 if after is None else after.arrival + 1
            places = self._places[parcel.id][start : start + limit]
            limit -= len(places)
            with _translated(), _named(parcel.timeline):
                pages.append(self._exported(parcel.timeline, places, start) if places else [])
        return pages

    def _exported(self, timeline: str, places: Sequence[tuple[float, bytes]], start: int) -> list[ExportedRecord]:
        values = self._client.mget([self._value_key(timeline, key) for _, key in places])
        return [
            ExportedRecord(self._stored(key, value, timestamp, start + number), None, None)
            for number, ((timestamp, key), value) in enumerate(zip(places, values, strict=True))
        ]

    def _stored(self, key: bytes, value: bytes | None, timestamp: float, place: int) -> Stored:
        """A record whose value is missing is moved without one; a delivery quarantines it."""
        try:
            name = check_record_key(_text(key))
            check_stored_timestamp(timestamp)
            payload = None if value is None else mark_timestamp(self._seal(self._decode(value)), timestamp)
        except DigestifError as error:
            raise InvalidRecord(f"record {key!r}: {error}") from error
        except Exception as error:
            raise InvalidRecord(
                f"record {key!r}: the decoder can't read its value ({reason_of(error)}); "
                "name another with --decoder module:function"
            ) from error
        return Stored(name, payload, timestamp, place)

    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:  # noqa: ARG002
        with _translated():
            return [self._delete(parcel) for parcel in parcels]

    def _delete(self, parcel: Parcel) -> bool:
        """Delete the values first and the schedule last: if interrupted, the next run finds the timeline again."""
        timeline, keys = parcel.timeline, [key for _, key in self._places.pop(parcel.id)]
        for start in range(0, len(keys), PAGE):
            page = keys[start : start + PAGE]
            self._client.unlink(*(self._value_key(timeline, key) for key in page))
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.unlink(self._key(timeline), self._key(timeline, "d"), self._key(timeline, "l"))
            pipeline.zrem(self._waiting, timeline)
            pipeline.zrem(self._ready, timeline)
            pipeline.execute()
        return True

    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:  # noqa: ARG002
        return [False] * len(timelines)  # nothing is held

    def time(self, partition: int) -> Millis:  # noqa: ARG002
        seconds, micros = self._client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:  # noqa: ARG002
        return {}  # the origin does not count

    # Notes

    def note(self, partition: int, name: str) -> bytes | None:  # noqa: ARG002
        with _translated():
            noted: bytes | None = self._client.hget(f"{self._prefix}:digestif", name)
        return noted

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:  # noqa: ARG002
        keys = 1, f"{self._prefix}:digestif"
        with _translated():
            return bool(self._client.eval(_SWAP, *keys, name, old or b"", new or b""))

    # Keys

    @property
    def _waiting(self) -> str:
        return f"{self._prefix}:s:w"

    @property
    def _ready(self) -> str:
        return f"{self._prefix}:s:r"

    def _key(self, timeline: str, part: str | None = None) -> str:
        return f"{self._prefix}:t:{timeline}" + (f":{part}" if part else "")

    def _value_key(self, timeline: str, key: bytes) -> bytes:
        return f"{self._prefix}:t:{timeline}:r:".encode() + key


def _shown(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"the name {name!r} is not UTF-8") from error


def _due(at: float) -> float:
    if not abs(at) <= to_seconds(FOREVER):
        raise InvalidRecord(f"the time when it is due, {at}, is not one")
    return at


def _first_arrival(places: Sequence[tuple[float, bytes]], *, now: Millis) -> Millis:
    """The timestamp of the oldest record. What lies ahead, or is no date, counts as just arrived."""
    dates = [timestamp for timestamp, _ in places if abs(timestamp) <= to_seconds(FOREVER)]
    return min([now, *map(to_millis, dates[:1])])


@contextmanager
def _named(timeline: str) -> Iterator[None]:
    try:
        yield
    except InvalidRecord as error:
        raise InvalidRecord(f"move: {timeline!r}, {error}") from error


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of the driver as ours."""
    try:
        yield
    except redis.ConnectionError as error:
        raise StoreUnavailable(f"move: the server can't be reached: {error}") from error
    except redis.TimeoutError as error:
        raise StoreUnavailable(f"move: the server does not answer: {error}") from error
    except redis.RedisError as error:
        raise StoreError(f"move: the server refuses: {error}") from error
