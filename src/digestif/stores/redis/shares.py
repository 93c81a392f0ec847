"""Records to add, by partition: each timeline and each policy is told once."""

from collections.abc import Sequence

from digestif.core.policy import Terms
from digestif.stores.base import Arrival
from digestif.stores.redis.dialogue import Call
from digestif.stores.redis.keys import Home, Keys
from digestif.stores.redis.wire import place as place_of
from digestif.stores.redis.wire import terms as terms_of
from digestif.stores.redis.wire import with_timestamp

PENDING_KEYS = 3


class Share:
    """The records of one partition."""

    def __init__(self, partition: int) -> None:
        self.places: list[int] = []  # in the batch
        self._partition = partition
        self._keys: list[bytes] = []
        self._timelines: dict[str, int] = {}
        self._terms: dict[Terms, int] = {}
        self._bodies: list[bytes] = []

    def add(self, place: int, home: Home, arrival: Arrival) -> None:
        timeline, key, payload, timestamp, within, terms = arrival
        number = self._timelines.get(timeline)
        if number is None:
            number = self._timelines[timeline] = len(self._timelines) + 1
            self._keys += home.keys[:PENDING_KEYS]
        terms_number = self._terms.get(terms)
        if terms_number is None:
            terms_number = self._terms[terms] = len(self._terms) + 1
        self.places.append(place)
        self._bodies += (place_of(number, terms_number, within), key.encode(), with_timestamp(timestamp, payload))

    def call(self) -> Call:
        return Call(self._partition, self._keys, (b"".join(map(terms_of, self._terms)), *self._bodies))


def shares_of(keys: Keys, batch: Sequence[Arrival]) -> list[Share]:
    shares: dict[int, Share] = {}
    for place, arrival in enumerate(batch):
        home = keys.home(arrival.timeline)
        share = shares.get(home.partition)
        if share is None:
            share = shares[home.partition] = Share(home.partition)
        share.add(place, home, arrival)
    return list(shares.values())
