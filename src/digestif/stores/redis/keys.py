"""The names of the keys of a namespace.

All keys of a partition begin with its tag, `{d:17}`, so a cluster keeps them together. A kind follows, and for kinds
with many keys a colon and a name: no two things share a key, however timelines are named.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from digestif.stores.redis.client.commands import Packed, joined, pack

# Of a partition, in the order in which scripts declare them.
PARTITION_KINDS = (
    *("ledger", "names", "waiting", "ready", "since", "leases", "paused", "expiring"),
    *("history", "letters", "wake"),
)
# Of a timeline: records, ages and times, each of the pending records (with the slot), of the digest, and of the records
# that are being merged into it; then the order of its dead letters.
TIMELINE_KINDS = ("t", "ta", "tx", "o", "oa", "ox", "m", "ma", "mx", "d")
LETTER_KINDS = ("l", "la", "lx")
SCHEDULE = ("waiting", "ready", "since", "leases", "paused", "expiring")  # the orders in which timelines are due

_CACHED_TIMELINES = 8192


def as_text(name: bytes) -> str:
    """A name; bytes that are not UTF-8 become lone surrogates."""
    return name.decode("utf-8", "surrogateescape")


def as_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class TimelineKeys(NamedTuple):
    """The partition and the keys of a timeline, and groups of the keys for calls to declare."""

    partition: int
    keys: tuple[bytes, ...]  # in the order of TIMELINE_KINDS
    slot: Packed  # only the hash with the slot
    orders: Packed  # of the pending records
    pending: Packed  # both
    whole: Packed


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str, partitions: int) -> None:
        self.namespace = namespace
        self.partitions = partitions
        self.of = lru_cache(_CACHED_TIMELINES)(self._of)  # the keys of a timeline in its own partition
        self._fixed = [self._of_partition(partition) for partition in range(partitions)]
        self._of_timelines = [
            [self.key(partition, kind, "") for kind in TIMELINE_KINDS] for partition in range(partitions)
        ]

    def tag(self, partition: int) -> str:
        return f"{{{self.namespace}:{partition}}}"

    def fixed(self, partition: int) -> Packed:
        """The keys of a partition that every script declares."""
        return self._fixed[partition]

    def key(self, partition: int, kind: str, name: str | None = None) -> bytes:
        return f"{self.tag(partition)}:{kind}".encode() + (b"" if name is None else b":" + as_bytes(name))

    def letter(self, partition: int, letter_id: str) -> tuple[bytes, ...]:
        """The keys of a dead letter."""
        return tuple(self.key(partition, kind, letter_id) for kind in LETTER_KINDS)

    def letters(self, partition: int, letter_ids: Iterable[str]) -> Packed:
        """The keys of dead letters, for a call to declare."""
        return pack(key for letter_id in letter_ids for key in self.letter(partition, letter_id))

    def partition_of(self, timeline: str) -> int:
        return crc32(as_bytes(timeline)) % self.partitions

    def keys_in(self, partition: int, timeline: str) -> tuple[bytes, ...]:
        """The keys of a timeline in this partition, even if it belongs to another."""
        name = as_bytes(timeline)
        return tuple([prefix + name for prefix in self._of_timelines[partition]])

    def packed_in(self, partition: int, timeline: str) -> Packed:
        """The same, for a call to declare."""
        return pack(self.keys_in(partition, timeline))

    def _of(self, timeline: str) -> TimelineKeys:
        partition = self.partition_of(timeline)
        keys = self.keys_in(partition, timeline)
        slot, orders, rest = pack(keys[:1]), pack(keys[1:3]), pack(keys[3:])
        pending = joined((slot, orders))
        return TimelineKeys(partition, keys, slot, orders, pending, whole=joined((pending, rest)))

    def _of_partition(self, partition: int) -> Packed:
        return pack(self.key(partition, kind) for kind in PARTITION_KINDS)


def ledger_key(namespace: str, partition: int) -> bytes:
    """The ledger of a partition, for use before the number of partitions is known."""
    return f"{{{namespace}:{partition}}}:ledger".encode()


def settings_key(namespace: str) -> bytes:
    """The hash with the schema and the number of partitions of a namespace."""
    return f"{{{namespace}:0}}:meta".encode()
