"""Recounting from the data, and what the server really holds."""

from collections import Counter
from collections.abc import Iterator, Mapping

from digestif.core.ledger import Ledger, Verification
from digestif.stores.redis import queries
from digestif.stores.redis.calls import Scripts
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.keys import LETTER_KINDS, SCHEDULE, TIMELINE_KINDS
from digestif.stores.redis.survey import at_rest

ORDERS = ("names", *SCHEDULE, "letters")
KEPT = {"meta", "ledger", "history"}  # settings, counters and what callers were answered lately, history


def recount(scripts: Scripts, *, ring: int) -> Verification:
    """Count pending, open and dead records, partition by partition, and name what is damaged.

    Others go on meanwhile: what the ledger of a partition moved while it was counted is how much it may be off.
    """
    ledgers: list[Ledger] = []
    counted: Counter[str] = Counter(pending=0, open=0, dead=0)
    problems: list[str] = []
    for partition in range(scripts.keys.partitions):
        found = at_rest(scripts, partition, ring=ring)
        ledgers.append(found.ledger)
        counted.update(found.counted)
        problems += [*(str(flaw.damage) for flaw in found.flaws), *found.differences()]
    return Verification(ledger=queries.total(ledgers), recounted=dict(counted), problems=tuple(problems))


def footprint(scripts: Scripts) -> Mapping[str, int]:
    """What is stored apart from counters, settings and history. Looks at every key."""
    counts: Counter[str] = Counter(timelines=0, records=0, letters=0, orders=0, places=0, others=0)
    for partition in range(scripts.keys.partitions):
        for keys in _scan(scripts, partition):
            _count_keys(scripts, partition, keys, counts)
    return dict(counts)


def _scan(scripts: Scripts, partition: int) -> Iterator[list[bytes]]:
    cursor = b"0"
    seen: set[bytes] = set()
    pattern = scripts.keys.tag(partition) + ":*"
    while True:
        command = Command(partition, ("SCAN", cursor, b"MATCH", pattern, b"COUNT", 1000))
        [(cursor, keys)] = scripts.get([command])
        fresh = [key for key in keys if key not in seen]
        seen.update(fresh)
        yield fresh
        if int(cursor) == 0:
            return


_HASHES = {"t": "timelines", "l": "letters", "o": "", "m": ""}  # kinds with records, and what their own field counts as


def _count_keys(scripts: Scripts, partition: int, keys: list[bytes], counts: Counter[str]) -> None:
    prefix = len(scripts.keys.tag(partition)) + 1
    kinds = [(key, key[prefix:].split(b":", 1)[0].decode()) for key in keys]
    hashes = [(key, kind) for key, kind in kinds if kind in _HASHES]
    sizes = scripts.get([Command(partition, ("HLEN", key)) for key, _ in hashes])
    for (_, kind), size in zip(hashes, sizes, strict=True):
        own = 1 if _HASHES[kind] else 0
        counts["records"] += size - own
        if own:
            counts[_HASHES[kind]] += 1
    orders = [key for key, kind in kinds if kind in ORDERS]
    counts["places"] += sum(scripts.get([Command(partition, ("ZCARD", key)) for key in orders]))
    for _, kind in kinds:
        if kind in (*TIMELINE_KINDS, *LETTER_KINDS) and kind not in _HASHES:
            counts["orders"] += 1
        elif kind not in (*_HASHES, *ORDERS, *KEPT):
            counts["others"] += 1
