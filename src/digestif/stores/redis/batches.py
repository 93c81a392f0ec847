"""Batches of records to add, divided by partition. A call names each timeline and each policy once."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from digestif.core.terms import Terms
from digestif.core.times import Millis
from digestif.stores.base import Arrival
from digestif.stores.redis.calls import Call
from digestif.stores.redis.client.commands import Packed, joined, pack, pack_part
from digestif.stores.redis.encoding import body, numbers, whereabouts
from digestif.stores.redis.keys import Keys, TimelineKeys

ADDED_BYTES = 2**20
ASKS_DUE = b"\1"  # behind the whereabouts
ADDED_RECORDS = 150  # that a call adds: up to 9 ms of the server if each is the first of its timeline


class Share:
    """The records of one partition."""

    def __init__(self, partition: int) -> None:
        self.positions: list[int] = []  # in the batch
        self.bytes = 0  # of payloads
        self.asks_due = False  # a record asks when its timeline is due: the reply says it of all
        self._partition = partition
        self._keys: list[Packed] = []
        self._timelines: dict[str, int] = {}
        self._terms: list[Terms] = []
        self._whereabouts: list[bytes] = []
        self._bodies: list[bytes] = []

    def add(self, position: int, own: TimelineKeys, arrival: Arrival) -> None:
        timeline, key, payload, timestamp, within, terms, asks_due = arrival
        number = self._timelines.get(timeline)
        if number is None:
            number = self._timelines[timeline] = len(self._timelines) + 1
            self._keys.append(own.pending)
        if not self._terms or self._terms[-1] is not terms:  # in a batch they are nearly always the same
            self._terms.append(terms)
        self.positions.append(position)
        self.bytes += len(payload)
        self._whereabouts.append(whereabouts(number, len(self._terms), within))
        self._bodies.append(body(key, timestamp, payload))
        self.asks_due |= asks_due

    def is_full(self) -> bool:
        return len(self.positions) >= ADDED_RECORDS or self.bytes > ADDED_BYTES

    def call(self) -> Call:
        asking = ASKS_DUE if self.asks_due else b""
        head = pack((numbers(self._terms), b"".join((*self._whereabouts, asking))))
        arguments = Packed(head.parts + 2 * len(self._bodies), b"".join((head.body, *self._bodies)))
        return Call(self._partition, joined(self._keys), arguments)


def call_alone(keys: Keys, arrival: Arrival) -> Call:
    """The call for a single record."""
    timeline, key, payload, timestamp, within, terms, asks_due = arrival
    own = keys.of(timeline)
    where = _ALONE if within is None and not asks_due else _alone(within, asks_due=asks_due)
    arguments = b"".join((_packed_numbers(terms), where, body(key, timestamp, payload)))
    return Call(own.partition, own.pending, Packed(4, arguments))


def _alone(within: Millis | None, *, asks_due: bool = False) -> bytes:
    return pack_part(whereabouts(1, 1, within) + (ASKS_DUE if asks_due else b""))


_ALONE = _alone(None)


@lru_cache(256)
def _packed_numbers(terms: Terms) -> bytes:
    return pack_part(numbers((terms,)))


def rounds_of(keys: Keys, batch: Sequence[Arrival]) -> Iterator[list[Share]]:
    """Rounds of shares, one for each partition, none larger than a call may be.

    A round is sent when the one before is answered: records of a timeline must arrive in the order of the batch, and
    calls that are sent together may be repeated in any order.
    """
    shares: dict[int, Share] = {}
    for position, arrival in enumerate(batch):
        own = keys.of(arrival.timeline)
        share = shares.get(own.partition)
        if share is not None and share.is_full():
            yield list(shares.values())
            shares, share = {}, None
        if share is None:
            share = shares[own.partition] = Share(own.partition)
        share.add(position, own, arrival)
    if shares:
        yield list(shares.values())
