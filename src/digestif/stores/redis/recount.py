"""Recounting from the data, and what the server really holds."""

from collections import Counter
from collections.abc import Iterator, Mapping

from digestif.core.ledger import Ledger, Verification
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.redis import looking, wire
from digestif.stores.redis.commands import Command
from digestif.stores.redis.dialogue import Dialogue
from digestif.stores.redis.keys import LETTER_KINDS, TIMELINE_KINDS
from digestif.stores.redis.scripts import load

TRIES = 3  # at finding a partition at rest
ORDERS = ("names", "waiting", "ready", "since", "leases", "paused", "expiring", "letters")
KEPT = {"meta", "ledger", "history"}  # settings, counters and what callers were answered lately, history


def recount(dialogue: Dialogue) -> Verification:
    """Count pending, open and dead records, partition by partition.

    Others go on meanwhile: what the ledger of a partition moved while it was counted is how much it may be off.
    """
    ledgers: list[Ledger] = []
    counted: Counter[str] = Counter(pending=0, open=0, dead=0)
    problems: list[str] = []
    for partition in range(dialogue.keys.partitions):
        ledger, found, wrong = _recount_partition(dialogue, partition)
        ledgers.append(ledger)
        counted.update(found)
        problems += wrong
    return Verification(ledger=looking.total(ledgers), recounted=dict(counted), problems=tuple(problems))


def _recount_partition(dialogue: Dialogue, partition: int) -> tuple[Ledger, dict[str, int], list[str]]:
    for _ in range(TRIES):
        _, before = _ledger(dialogue, partition)
        counted = {"pending": 0, "open": 0, "dead": 0}
        problems: list[str] = []
        _count_timelines(dialogue, partition, counted, problems)
        _count_letters(dialogue, partition, counted, problems)
        ledger, after = _ledger(dialogue, partition)
        if after == before:
            break
    return ledger, counted, problems + _differences(ledger, counted, after - before)


def _ledger(dialogue: Dialogue, partition: int) -> tuple[Ledger, int]:
    """The ledger of a partition, and how many moves of records there have been."""
    key = dialogue.keys.key(partition, "ledger")
    [(moved, accepted, *counts)] = dialogue.get(
        [Command(partition, ("HMGET", key, b"moved", b"accepted", *looking.COUNTED))]
    )
    return looking.ledger_of(counts), int(moved or 0) + int(accepted or 0)


def _count_timelines(dialogue: Dialogue, partition: int, counted: dict[str, int], problems: list[str]) -> None:
    script = load("sizes")
    for names in _pages(dialogue, partition, "names"):
        homes = [dialogue.keys.home(name.decode()).keys for name in names]
        answers = dialogue.get([Command(partition, (len(keys), *keys), script) for keys in homes])
        for name, (stored, pending, digest, merging, *ordered) in zip(names, answers, strict=True):
            counted["pending"] += pending
            counted["open"] += digest + merging
            slot = wire.slot(name.decode(), stored, pending)
            noted = 0 if slot.digest is None else slot.digest.records
            if stored is not None and noted != digest + merging:
                problems.append(f"{name.decode()!r}: {noted} noted in its digest, {digest + merging} found")
            for size, in_order in zip((pending, digest, merging), ordered, strict=True):
                if in_order not in (0, size):
                    problems.append(f"{name.decode()!r}: {size} records, {in_order} in their order by age")


def _count_letters(dialogue: Dialogue, partition: int, counted: dict[str, int], problems: list[str]) -> None:
    for members in _pages(dialogue, partition, "letters"):
        ids = [member[16:].decode() for member in members]
        keys = [dialogue.keys.letter(partition, letter_id)[0] for letter_id in ids]
        answers = dialogue.get([Command(partition, (1, key), load("letter")) for key in keys])
        for letter_id, (stored, size) in zip(ids, answers, strict=True):
            if stored is None:
                continue  # it ended just now
            counted["dead"] += size
            noted = wire.letter(stored).records
            if noted != size:
                problems.append(f"dead letter {letter_id}: {noted} noted, {size} found")


def _pages(dialogue: Dialogue, partition: int, order: str) -> Iterator[list[bytes]]:
    """The members of an order, however it changes meanwhile."""
    key, cursor = dialogue.keys.key(partition, order), b"0"
    seen: set[bytes] = set()
    while True:
        [(cursor, flat)] = dialogue.get([Command(partition, ("ZSCAN", key, cursor, b"COUNT", PAGE_TIMELINES))])
        fresh = [member for member in flat[::2] if member not in seen]
        seen.update(fresh)
        yield fresh
        if int(cursor) == 0:
            return


def _differences(ledger: Ledger, counted: dict[str, int], moved: int) -> list[str]:
    wrong = [
        f"ledger.{fate} is {getattr(ledger, fate)}, {count} found"
        for fate, count in counted.items()
        if abs(getattr(ledger, fate) - count) > moved
    ]
    if not ledger.balanced:
        wrong.append(f"the ledger does not balance: {ledger.accepted} accepted, {ledger.accounted} accounted for")
    return wrong


def footprint(dialogue: Dialogue) -> Mapping[str, int]:
    """What is stored apart from counters, settings and history. Looks at every key."""
    counts: Counter[str] = Counter(timelines=0, records=0, letters=0, orders=0, places=0, others=0)
    for partition in range(dialogue.keys.partitions):
        for keys in _scan(dialogue, partition):
            _count_keys(dialogue, partition, keys, counts)
    return dict(counts)


def _scan(dialogue: Dialogue, partition: int) -> Iterator[list[bytes]]:
    cursor = b"0"
    seen: set[bytes] = set()
    pattern = dialogue.keys.tag(partition) + ":*"
    while True:
        command = Command(partition, ("SCAN", cursor, b"MATCH", pattern, b"COUNT", 1000))
        [(cursor, keys)] = dialogue.get([command])
        fresh = [key for key in keys if key not in seen]
        seen.update(fresh)
        yield fresh
        if int(cursor) == 0:
            return


_HASHES = {"t": "timelines", "l": "letters", "o": "", "m": ""}  # kinds with records, and what their own field counts as


def _count_keys(dialogue: Dialogue, partition: int, keys: list[bytes], counts: Counter[str]) -> None:
    prefix = len(dialogue.keys.tag(partition)) + 1
    kinds = [(key, key[prefix:].split(b":", 1)[0].decode()) for key in keys]
    hashes = [(key, kind) for key, kind in kinds if kind in _HASHES]
    sizes = dialogue.get([Command(partition, ("HLEN", key)) for key, _ in hashes])
    for (_, kind), size in zip(hashes, sizes, strict=True):
        own = 1 if _HASHES[kind] else 0
        counts["records"] += size - own
        if own:
            counts[_HASHES[kind]] += 1
    orders = [key for key, kind in kinds if kind in ORDERS]
    counts["places"] += sum(dialogue.get([Command(partition, ("ZCARD", key)) for key in orders]))
    for _, kind in kinds:
        if kind in (*TIMELINE_KINDS, *LETTER_KINDS) and kind not in _HASHES:
            counts["orders"] += 1
        elif kind not in (*_HASHES, *ORDERS, *KEPT):
            counts["others"] += 1
