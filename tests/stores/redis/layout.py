"""The layout of a namespace's keys, written once more in Python: after every verb, `flaws` must find nothing."""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import msgspec
from redis import Redis

from digestif.core.machine import Slot
from digestif.core.times import Millis
from digestif.stores.redis import encoding
from digestif.stores.redis.keys import PARTITION_KINDS
from digestif.stores.rows.view import marks

SMALL = 256  # records that a batch has without orders
LIGHT = 8192 + 13  # bytes of a record in such a batch, with its head
NEVER = 2**54  # the expiry of a record without form that does not expire
SHIFT = 2 * 10**15  # makes every time positive
FORM, EXPIRES = 0xF8, 1
HEAD, EXPIRING_HEAD, FORMLESS_HEAD = Struct(">B5sd"), Struct(">B5s7sd"), Struct(">5s7sd")
DOCUMENT_HEAD, BYTES = 18, Struct(">d")
NO_TEXT = b"\xff"  # before the name of a ring
NAMED_RINGS = 2**52  # where documents of named rings begin in the order of their collection
ORDERS = ("waiting", "ready", "since", "leases", "paused", "expiring")
KEPT = {"meta", "ledger", "history", "docindex"}


class Head(NamedTuple):
    """What is stored before the payload of a record."""

    arrival: int
    expires: Millis | None
    timestamp: float


def read_head(record: bytes) -> Head:
    if record[0] >= FORM and not record[0] & EXPIRES:
        _, arrival, timestamp = HEAD.unpack_from(record)
        return Head(int.from_bytes(arrival), None, timestamp)
    if record[0] >= FORM:
        _, arrival, packed, timestamp = EXPIRING_HEAD.unpack_from(record)
    else:
        arrival, packed, timestamp = FORMLESS_HEAD.unpack_from(record)
    expires = int.from_bytes(packed, signed=True)
    return Head(int.from_bytes(arrival), expires if expires < NEVER else None, timestamp)


class Batch(NamedTuple):
    """Records and their orders, as they are stored."""

    name: str
    records: dict[bytes, bytes]
    ages: dict[bytes, float]
    times: dict[bytes, float]

    @property
    def expiries(self) -> dict[bytes, Millis]:
        """When records expire, of those that do."""
        found = {key: read_head(record).expires for key, record in self.records.items()}
        return {key: expires for key, expires in found.items() if expires is not None}

    @property
    def deadlines(self) -> dict[bytes, Millis]:
        return {member[1:]: -int(score) - SHIFT for member, score in self.times.items() if member[:1] == b"u"}


class Partition:
    """Everything that a partition holds."""

    def __init__(self, client: "Redis", namespace: str, partition: int) -> None:
        self.prefix = f"{{{namespace}:{partition}}}:".encode()
        keys = list(client.scan_iter(self.prefix + b"*", count=1000))
        self.held = {key[len(self.prefix) :]: _read(client, key) for key in keys}
        self.seen: set[bytes] = {kind.encode() for kind in (*PARTITION_KINDS, *KEPT)}

    def hash(self, kind: str, name: bytes) -> dict[bytes, bytes]:
        return self._take(kind, name)

    def order(self, kind: str, name: bytes = b"") -> dict[bytes, float]:
        return self._take(kind, name)

    def batch(self, what: str, kind: str, name: bytes) -> Batch:
        records = self.hash(kind, name)
        return Batch(
            f"{what} of {name.decode()!r}",
            {key: record for key, record in records.items() if key},
            self.order({"t": "ta", "o": "oa", "m": "ma", "l": "la"}[kind], name),
            self.order({"t": "tx", "o": "ox", "m": "mx", "l": "lx"}[kind], name),
        )

    def names(self, kind: str) -> list[bytes]:
        begin = f"{kind}:".encode()
        return [key[len(begin) :] for key in self.held if key.startswith(begin)]

    def _take(self, kind: str, name: bytes) -> dict[bytes, Any]:
        key = kind.encode() + (b":" + name if name else b"")
        self.seen.add(key)
        return self.held.get(key, {})


def _read(client: "Redis", key: bytes) -> dict[bytes, Any]:
    if client.type(key) == b"hash":
        return client.hgetall(key)  # type: ignore[return-value]  # redis-py's types also know awaitables
    return dict(client.zrange(key, 0, -1, withscores=True))  # type: ignore[arg-type]


def flaws(client: "Redis", *, namespace: str, partitions: int = 1) -> list[str]:
    """What does not hang together in a namespace that is at rest."""
    return [flaw for number in range(partitions) for flaw in _flaws_of_partition(Partition(client, namespace, number))]


def _flaws_of_partition(held: Partition) -> Iterator[str]:
    expected: dict[str, dict[bytes, Millis]] = {order: {} for order in ORDERS}
    names = held.names("t")
    for name in names:
        stored = held.hash("t", name).get(b"")
        if stored is None:
            yield f"{name.decode()!r} has records but no slot"
            continue
        slot = msgspec.msgpack.decode(stored[encoding.head_size(stored) :])
        yield from _flaws_of_timeline(held, name, slot)
        for order, time in _places(slot).items():
            expected[order][name] = time
    if set(held.order("names")) != set(names):
        yield f"names are {sorted(held.order('names'))}, of slots {sorted(names)}"
    for order, places in expected.items():
        if held.order(order) != places:
            yield f"{order} is {held.order(order)}, should be {places}"
    yield from _flaws_of_letters(held)
    yield from _flaws_of_documents(held)
    if left := sorted(set(held.held) - held.seen):
        yield f"keys that nothing owns: {left}"


def _flaws_of_documents(held: Partition) -> Iterator[str]:
    """A collection has its documents in one hash, with what each ring weighs, and their order in another key."""
    index: set[bytes] = set()
    for name in held.names("docs"):
        bodies, order = held.hash("docs", name), held.order("docorder", name)
        documents = {key: body for key, body in bodies.items() if key and key[:1] != NO_TEXT}
        if set(order) != set(documents):
            yield f"documents {name.decode()!r}: {len(order)} in their order, {len(documents)} found"
            continue
        weights = {b"": 0}
        for key, stored in documents.items():
            size = DOCUMENT_HEAD + int.from_bytes(stored[16:18])
            timeline, mark, ring = stored[DOCUMENT_HEAD:size].partition(NO_TEXT)
            weights[mark + ring] = weights.get(mark + ring, 0) + len(stored) - size
            if (order[key] > NAMED_RINGS) != bool(ring):
                yield f"document {key!r} of ring {ring!r} stands in the order at {order[key]}"
            owners = [(b"", timeline)] * bool(timeline) + [(2 * NO_TEXT, ring)] * bool(ring)
            rest = bytes([len(name)]) + name + (int(order[key]) % NAMED_RINGS).to_bytes(8) + key
            index |= {first + len(owner).to_bytes(2) + owner + rest for first, owner in owners}
        noted = {field: BYTES.unpack_from(body)[0] for field, body in bodies.items() if field not in documents}
        if noted != {ring: weight for ring, weight in weights.items() if weight or not ring}:
            yield f"documents {name.decode()!r} weigh {weights}, noted are {noted}"
    if set(held.order("docindex")) != index:
        yield f"the index of documents has {len(held.order('docindex'))} members, should have {len(index)}"


def _flaws_of_timeline(held: Partition, name: bytes, slot: dict[str, Any]) -> Iterator[str]:
    pending = held.batch("pending", "t", name)
    yield from _flaws_of_batch(pending, large=slot.get("large", False), bound=slot.get("expires"))
    if slot.get("deadline") != min(pending.deadlines.values(), default=None):
        yield f"{pending.name}: the deadline is {slot.get('deadline')}, of {pending.deadlines}"
    if (slot.get("first") is None) != (not pending.records):
        yield f"{pending.name}: the first came at {slot.get('first')}, there are {len(pending.records)}"
    digest = slot.get("digest")
    if digest is not None:
        batches = [held.batch("digest", "o", name)]
        if digest.get("merging") is not None:
            batches.append(held.batch("merging", "m", name))
        if digest["records"] != sum(len(batch.records) for batch in batches):
            yield f"{batches[0].name}: {digest['records']} noted, {[len(batch.records) for batch in batches]} found"
        for batch in batches:
            anyway = digest.get("replayed") or digest.get("frozen")  # those have other rules
            yield from _flaws_of_batch(batch, bound=-NEVER if anyway else digest.get("expires"))


def _flaws_of_batch(batch: Batch, *, large: bool | None = None, bound: Millis | None) -> Iterator[str]:
    """Whether the orders are right, and no record expires before the bound. Most batches do not say what they are."""
    large = bool(batch.ages) if large is None else large
    heavy = max(map(len, batch.records.values()), default=0) > LIGHT
    if not large and (len(batch.records) > SMALL or (heavy and len(batch.records) > 1)):
        yield f"{batch.name}: {len(batch.records)} records are looked through"
    if batch.ages != (_ages(batch) if large else {}):
        yield f"{batch.name}: the order by age is wrong, {len(batch.ages)} of {len(batch.records)}"
    expiries = batch.expiries
    noted = {member[1:]: int(score) - SHIFT for member, score in batch.times.items() if member[:1] == b"x"}
    if noted != (expiries if large else {}):
        yield f"{batch.name}: the order by expiry is wrong, {len(noted)} of {len(expiries)}"
    if not batch.deadlines.keys() <= batch.records.keys():
        yield f"{batch.name}: deadlines of records that are gone"
    if expiries and (bound is None or bound > min(expiries.values())):
        yield f"{batch.name}: the first expires at {min(expiries.values())}, noted is {bound}"


def _ages(batch: Batch) -> dict[bytes, float]:
    heads = {key: read_head(record) for key, record in batch.records.items()}
    return {head.arrival.to_bytes(8) + key: head.timestamp for key, head in heads.items()}


def _places(slot: dict[str, Any]) -> dict[str, Millis]:
    """Where a timeline stands in the orders of its partition."""
    waiting, ready, since, until, paused_until, _ = marks(msgspec.convert(slot, Slot))
    digest = slot.get("digest", {})
    expires = [slot.get("expires")] if slot["state"] != "idle" else []
    if slot["state"] not in ("idle", "open") and not digest.get("replayed"):
        expires.append(digest.get("expires"))
    soonest = min((time for time in expires if time is not None), default=None)
    places = zip(ORDERS, (waiting, ready, since, until, paused_until, soonest), strict=True)
    return {order: time for order, time in places if time is not None}


def _flaws_of_letters(held: Partition) -> Iterator[str]:
    letters: dict[bytes, dict[bytes, Millis]] = {}
    for name in held.names("l"):
        batch = held.batch("letter", "l", name)
        letter = msgspec.msgpack.decode(held.hash("l", name)[b""])
        yield from _flaws_of_batch(batch, bound=-NEVER)
        if letter["records"] != len(batch.records):
            yield f"{batch.name}: {letter['records']} noted, {len(batch.records)} found"
        of_timeline = letters.setdefault(letter["timeline"].encode(), {})
        of_timeline[b"%016d%b" % (letter["number"], name)] = letter["buried"]
    for timeline in {*letters, *held.names("d")}:
        if held.order("d", timeline) != letters.get(timeline, {}):
            yield f"the letters of {timeline.decode()!r} are {held.order('d', timeline)}"
    if held.order("letters") != {member: buried for of in letters.values() for member, buried in of.items()}:
        yield f"the letters are {held.order('letters')}"
