"""Batches of records to add, divided by partition. A call names each timeline and each policy once."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from digestif.core.terms import Terms
from digestif.stores.base import Arrival
from digestif.stores.redis.calls import IN_FLIGHT, Call
from digestif.stores.redis.client.commands import Packed, pack_part
from digestif.stores.redis.encoding import NAME, UNSET, are_json, body, numbers, tail, whereabouts
from digestif.stores.redis.keys import Keys, TimelineKeys

ADDED_BYTES = 2**20
ADDED_RECORDS = 135  # that a call adds: up to 8 ms of the server if each is the first of its timeline…
FIRST_RECORDS = 60  # …and the first of several calls, for which the server waits
LIGHT = 8000  # bytes of a payload; a heavier one makes its timeline large
KNOWN_LARGE = 10_000  # timelines


class Share(NamedTuple):
    """Records of one partition, few enough for one call."""

    positions: list[int]  # in the batch, those of a timeline together
    asks_due: bool  # a record asks when its timeline is due: the reply says it of all
    call: Call


class Room:
    """The share of a partition in one round while it is filled: timelines, and their positions in the batch."""

    __slots__ = ("bytes", "declaring", "limit", "number", "plain", "records")

    def __init__(self, number: int) -> None:
        self.number = number  # of the round
        self.plain: list[tuple[TimelineKeys, list[int]]] = []
        self.declaring: list[tuple[TimelineKeys, list[int]]] = []  # those whose orders are declared
        self.records = 0
        self.bytes = 0  # of payloads in those
        self.limit = ADDED_RECORDS if number else min(FIRST_RECORDS, ADDED_RECORDS)

    def takes(self, records: int) -> bool:
        return not self.records or (self.records + records <= self.limit and self.bytes <= ADDED_BYTES)

    def put(self, own: TimelineKeys, position: int, size: int) -> None:
        """Put in a record of a timeline whose orders are declared."""
        if self.declaring and self.declaring[-1][0] is own:
            self.declaring[-1][1].append(position)
        else:
            self.declaring.append((own, [position]))
        self.records += 1
        self.bytes += size


class Batches:
    """Turns records into calls of `add`.

    A call declares the hash of each timeline, and the orders of its records if it is known to need them: because it was
    large lately, or a record is heavy or urgent. The script leaves out a record that needs orders which the call does
    not declare; the caller then remembers the timeline as large, and adds the record by another call. All records of a
    timeline whose orders are not declared are in one call, so that none overtakes another.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._large: dict[str, None] = {}  # timelines that needed their orders lately

    def remember_large(self, timeline: str) -> None:
        if len(self._large) >= KNOWN_LARGE:
            self._large.clear()
        self._large[timeline] = None

    def call_alone(self, arrival: Arrival, *, is_large: bool = False) -> Call:
        """The call for a single record."""
        timeline, key, payload, timestamp, within, terms, asks_due = arrival
        own = self._keys.of(timeline)
        declares = is_large or within is not None or len(payload) > LIGHT or timeline in self._large
        nameless = payload.startswith(NAME)
        where = b"+" if within is None else whereabouts([1, 1, within])
        places = _packed_places(where, asks_due=asks_due, nameless=nameless, ordered=int(declares))
        pieces = (_packed_numbers((terms,)), places, *body(key, timestamp, payload, nameless))
        return Call(own.partition, own.pending if declares else own.slot, Packed(4, b"".join(pieces)))

    def shares(self, batch: Sequence[Arrival], positions: Iterable[int]) -> Iterator[Iterator[Share]]:
        """The shares of these records, each encoded when it is asked for; together those to send without waiting.

        First comes one share of each partition, then the second ones, and so on.
        """
        rounds = self._rounds(batch, positions)
        for start in range(0, len(rounds), IN_FLIGHT):
            yield (
                _share(partition, room, batch)
                for shares in rounds[start : start + IN_FLIGHT]
                for partition, room in shares.items()
            )

    def _rounds(self, batch: Sequence[Arrival], positions: Iterable[int]) -> list[dict[int, Room]]:
        """Rounds of at most one share for each partition."""
        timelines, declaring = self._by_timeline(batch, positions)
        rounds: list[dict[int, Room]] = []
        latest: dict[int, Room] = {}  # by partition

        def next_room(partition: int, before: Room | None) -> Room:
            room = latest[partition] = Room(0 if before is None else before.number + 1)
            if room.number == len(rounds):
                rounds.append({})
            rounds[room.number][partition] = room
            return room

        for timeline, ours in timelines.items():
            own = self._keys.of(timeline)
            room = latest.get(own.partition)
            if timeline in declaring:
                for position in ours:
                    if room is None or not room.takes(1):
                        room = next_room(own.partition, room)
                    room.put(own, position, len(batch[position].payload))
                continue
            if room is None or not room.takes(len(ours)):
                room = next_room(own.partition, room)
            room.plain.append((own, ours))
            room.records += len(ours)
        return rounds

    def _by_timeline(self, batch: Sequence[Arrival], positions: Iterable[int]) -> tuple[dict[str, list[int]], set[str]]:
        """The positions by timeline, and the timelines whose orders have to be declared."""
        timelines: dict[str, list[int]] = {}
        declaring: set[str] = set()
        for position in positions:
            timeline, _, payload, _, within, _, _ = batch[position]
            ours = timelines.get(timeline)
            if ours is None:
                timelines[timeline] = [position]
            else:
                ours.append(position)
                if len(ours) > ADDED_RECORDS:
                    declaring.add(timeline)
            if within is not None or len(payload) > LIGHT:
                declaring.add(timeline)
        if self._large:
            declaring.update(self._large.keys() & timelines.keys())
        return timelines, declaring


def _share(partition: int, room: Room, batch: Sequence[Arrival]) -> Share:
    timelines = [*room.declaring, *room.plain]
    keys = [own.slot.body for own, _ in timelines] + [own.orders.body for own, _ in room.declaring]
    ordered = [position for _, ours in timelines for position in ours]
    arrivals = [batch[position] for position in ordered]
    nameless = are_json([arrival[2] for arrival in arrivals])
    pieces = [b""]  # the first is for the head
    terms, asks, is_plain = arrivals[0].terms, False, True
    for _, key, payload, timestamp, within, own_terms, asks_due in arrivals:
        pieces += body(key, timestamp, payload, nameless)
        if own_terms is not terms or within is not None:
            is_plain = False
        if asks_due:
            asks = True
    policies: tuple[Terms, ...] = (terms,)
    if is_plain:
        places = b"".join([b"+".ljust(len(ours), b"=") for _, ours in timelines])
    else:
        policies, places = _places([ours for _, ours in timelines], batch)
    places = _packed_places(places, asks_due=asks, nameless=nameless, ordered=len(room.declaring))
    pieces[0] = _packed_numbers(policies) + places
    arguments = Packed(2 + 2 * len(ordered), b"".join(pieces))
    return Share(ordered, asks, Call(partition, Packed(len(keys) + len(room.declaring), b"".join(keys)), arguments))


def _places(timelines: Iterable[list[int]], batch: Sequence[Arrival]) -> tuple[tuple[Terms, ...], bytes]:
    """The policies of records, and packed for each record its timeline, its policy and its own deadline."""
    policies: list[Terms] = []
    places: list[float] = []
    for number, positions in enumerate(timelines, 1):
        for position in positions:
            arrival = batch[position]
            if not policies or policies[-1] is not arrival.terms:  # in a batch they are nearly always the same
                policies.append(arrival.terms)
            places += (number, len(policies), UNSET if arrival.within is None else arrival.within)
    return tuple(policies), whereabouts(places)


def _packed_places(places: bytes, *, asks_due: bool, nameless: bool, ordered: int) -> bytes:
    return pack_part(places + tail(asks_due=asks_due, nameless=nameless, ordered=ordered))


@lru_cache(256)
def _packed_numbers(policies: tuple[Terms, ...]) -> bytes:
    return pack_part(numbers(policies))
