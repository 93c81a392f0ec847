"""Surveys of partitions: every timeline, dead letter, entry and note is read, checked and counted.

`verify` reports what a survey finds, `repair` corrects it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from digestif.core.damage import Damage, legible
from digestif.core.ledger import COUNTERS, MOST, Ledger, Verification, corrected
from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.core.tenants import REST
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import Unreadable
from digestif.stores.redis import encoding, queries
from digestif.stores.redis.calls import NO_KEYS, Call, Scripts
from digestif.stores.redis.client.commands import Command, joined
from digestif.stores.redis.client.link import all_required
from digestif.stores.redis.client.scripts import load
from digestif.stores.redis.keys import LETTER_KINDS, SCHEDULE, TIMELINE_KINDS, as_text
from digestif.stores.redis.rings import NAMES, PAGE, named
from digestif.stores.transfer import ImportProgress, damage_of_note

TRIES = 3  # of a survey during which nothing moves
SURVEYED = 20  # timelines that a call reads: about 1 ms of the server, more if their batches are large
RAW_COUNTERS = (b"moved", *queries.COUNTED)


class PartitionFlaw(NamedTuple):
    """A damage, and what a repair needs to know of it."""

    damage: Damage
    name: str = ""  # of the timeline or note, the member in the order of letters, or the field in the history
    stored: bytes = b""  # what was found there
    keeps_choices: bool = False  # a timeline, of which only the records are wrong: its pause and its policy stay


@dataclass
class PartitionSurvey:
    """What a survey found in a partition."""

    raw: list[bytes | None]  # RAW_COUNTERS as they are stored
    counted: dict[str, int] = field(default_factory=lambda: {"pending": 0, "open": 0, "dead": 0})
    flaws: list[PartitionFlaw] = field(default_factory=list)
    moved: int = 0  # records that changed their fate during the survey

    @property
    def ledger(self) -> Ledger:
        """The ledger by the counters; one that is not a count counts as 0."""
        return queries.ledger_of([each if _is_count(each) else None for each in self.raw[1:]])

    def differences(self) -> list[str]:
        ledger = self.ledger
        wrong = [
            f"ledger.{fate} is {getattr(ledger, fate)}, {count} found"
            for fate, count in self.counted.items()
            if abs(getattr(ledger, fate) - count) > self.moved
        ]
        wrong += [
            f"{name.decode()} of the ledger is not a count: {each!r}"
            for name, each in zip(RAW_COUNTERS, self.raw, strict=True)
            if not _is_count(each)
        ]
        return [*wrong, ledger.imbalance] if ledger.imbalance else wrong

    def corrections(self) -> dict[str, int]:
        """What the counters should be, as `corrected` says. What left for another store was accepted and numbered."""
        found = corrected(self.ledger, self.counted)
        counts = {name: max(0, getattr(found, name)) for name in COUNTERS}
        numbers = dict(zip(RAW_COUNTERS, self.raw, strict=True))
        left = numbers[b"left"] if _is_count(numbers[b"left"]) else None
        wrong = {} if _is_count(numbers[b"moved"]) else {"moved": 0}
        return {**counts, "accepted": found.accepted + int(left or 0), "left": int(left or 0), **wrong}


def _is_count(stored: bytes | None) -> bool:
    """True for a number that can have been counted; a negative one is named as such."""
    return stored is None or (stored.removeprefix(b"-").isdigit() and len(stored) < 20 and abs(int(stored)) <= MOST)


def verify(scripts: Scripts, *, ring: int) -> Verification:
    """Count pending, open and dead records, partition by partition, and name what is damaged.

    Workers go on meanwhile: a count may differ from the ledger by the records that moved during the survey.
    """
    ledgers: list[Ledger] = []
    counted: Counter[str] = Counter(pending=0, open=0, dead=0)
    problems: list[str] = []
    for partition in range(scripts.keys.partitions):
        found = survey(scripts, partition, ring=ring)
        ledgers.append(found.ledger)
        counted.update(found.counted)
        problems += [*(str(flaw.damage) for flaw in found.flaws), *found.differences()]
    return Verification(ledger=queries.total(ledgers), recounted=dict(counted), problems=tuple(problems))


def survey(scripts: Scripts, partition: int, *, ring: int) -> PartitionSurvey:
    """Survey a partition, again if records moved meanwhile."""
    for _ in range(TRIES):
        before = _moves(_counters(scripts, partition))
        found = PartitionSurvey(_counters(scripts, partition))
        _survey_timelines(scripts, partition, found)
        _survey_letters(scripts, partition, found)
        _survey_history(scripts, partition, found, ring=ring)
        _survey_notes(scripts, partition, found)
        found.raw = _counters(scripts, partition)
        found.moved = _moves(found.raw) - before
        if found.moved == 0:
            break
    return found


def _counters(scripts: Scripts, partition: int) -> list[bytes | None]:
    key = scripts.keys.key(partition, "ledger")
    [counters] = scripts.get([Command(partition, ("HMGET", key, *RAW_COUNTERS))])
    return list(counters)


def _moves(counters: Sequence[bytes | None]) -> int:
    """How often records have changed their fate."""
    numbers = dict(zip(RAW_COUNTERS, counters, strict=True))
    return sum(int(numbers[name] or 0) for name in (b"moved", b"accepted") if _is_count(numbers[name]))


# Timelines


class BatchSizes(NamedTuple):
    """The sizes of a batch of a timeline."""

    records: int
    short: int  # records without a value; -1: there are too many records to check in one call
    ordered: int  # records in the order by age; 0: there is none, -1: there should be one


class TimelineSurvey(NamedTuple):
    """The reply of `survey.lua` for a timeline."""

    stored: bytes | None  # its slot
    is_readable: bool  # by scripts
    is_in_place: bool  # in the schedule
    wrong_keys: int  # keys of the wrong type
    pending: BatchSizes
    digest: BatchSizes
    merging: BatchSizes

    @classmethod
    def of(cls, reply: Sequence[Any]) -> "TimelineSurvey":
        stored, readable, in_place, wrong_keys, *sizes = reply
        batches = [BatchSizes(*sizes[start : start + 3]) for start in (0, 3, 6)]
        return cls(stored, bool(readable), bool(in_place), wrong_keys, *batches)

    @property
    def batches(self) -> tuple[BatchSizes, BatchSizes, BatchSizes]:
        return self.pending, self.digest, self.merging


def _survey_timelines(scripts: Scripts, partition: int, found: PartitionSurvey) -> None:
    seen: set[bytes] = set()
    for order in ("names", *SCHEDULE):  # a timeline that only the schedule has is there by mistake
        for page in _members(scripts, partition, order, seen):
            names = [as_text(name) for name in page]
            keys = [scripts.keys.packed_in(partition, name) for name in names]
            groups = [joined(keys[start : start + SURVEYED]) for start in range(0, len(keys), SURVEYED)]
            answers = all_required(scripts.query("survey", [Call(partition, group, NO_KEYS) for group in groups]))
            for name, reply in zip(names, chain.from_iterable(answers), strict=True):
                _survey_timeline(scripts, partition, name, TimelineSurvey.of(reply), found)


def _survey_timeline(
    scripts: Scripts, partition: int, name: str, timeline: TimelineSurvey, found: PartitionSurvey
) -> None:
    in_digest = timeline.digest.records + timeline.merging.records
    found.counted["pending"] += timeline.pending.records
    found.counted["open"] += in_digest

    def note(part: str, problem: str, records: int, *, keeps_choices: bool = False) -> None:
        damage = Damage(timeline=legible(name), part=part, problem=problem, records=records)
        found.flaws.append(PartitionFlaw(damage, name, timeline.stored or b"", keeps_choices))

    try:
        slot = _checked_slot(scripts, partition, name, timeline)
    except Unreadable as error:
        note("slot", error.damage.problem, timeline.pending.records + in_digest)
        return
    if slot.state is State.IDLE and timeline.pending.records:
        note("slot", "it is idle, with records", timeline.pending.records, keeps_choices=True)
        return
    noted = 0 if slot.digest is None else slot.digest.records
    if noted != in_digest:
        note("count", f"{noted} noted in its digest, {in_digest} found", in_digest)
    for batch in timeline.batches:
        if batch.ordered not in (0, batch.records):
            note("count", f"{batch.records} records, {max(0, batch.ordered)} in their order by age", batch.records)
    if not timeline.is_in_place:
        note("place", "it does not stand in the schedule where it should", 0)
    keys = scripts.keys.keys_in(partition, name)[:9:3]
    short = sum(
        len(short_keys(scripts, partition, key)) if batch.short < 0 else batch.short
        for key, batch in zip(keys, timeline.batches, strict=True)
    )
    if short:
        note("record", f"{short} records have no value", short)


def _checked_slot(scripts: Scripts, partition: int, name: str, timeline: TimelineSurvey) -> Slot:
    """Decode the slot of a timeline. Raises Unreadable if the timeline is damaged."""
    if legible(name) != name:
        raise encoding.unreadable_slot(name, "its name is not UTF-8")
    if scripts.keys.partition_of(name) != partition:
        raise encoding.unreadable_slot(name, "it belongs to another partition")
    if timeline.wrong_keys:
        raise encoding.unreadable_slot(name, "its keys are of the wrong type")
    slot = encoding.slot(name, timeline.stored, 0)
    if not timeline.is_readable:
        raise encoding.unreadable_slot(name, "scripts can't read it")
    if timeline.stored is None and any(batch.records for batch in timeline.batches):
        raise encoding.unreadable_slot(name, "it is gone, and its records are not")
    if slot.digest is None and (timeline.digest.records or timeline.merging.records):
        raise encoding.unreadable_slot(name, "it has no digest, and the records of one")
    return slot


def short_keys(scripts: Scripts, partition: int, key: bytes) -> list[bytes]:
    """The keys of a batch's records that have no value."""
    return sorted(chain.from_iterable(_scan(lambda cursor: scripts.read("short", partition, [key], cursor), set())))


def missing_keys(scripts: Scripts, partition: int, keys: Sequence[bytes]) -> list[bytes]:
    """The keys that the order by age of a batch has and its records do not: their values are gone."""
    return sorted(chain.from_iterable(_scan(lambda cursor: scripts.read("missing", partition, keys, cursor), set())))


def _members(scripts: Scripts, partition: int, order: str, seen: set[bytes]) -> Iterator[list[bytes]]:
    """The members of an order that were not seen yet, in pages."""
    key = scripts.keys.key(partition, order)

    def step(cursor: bytes) -> tuple[bytes, list[bytes]]:
        [(following, flat)] = scripts.get([Command(partition, ("ZSCAN", key, cursor, b"COUNT", PAGE_TIMELINES))])
        return following, flat[::2]

    return _scan(step, seen)


def _scan(step: Callable[[bytes], tuple[bytes, list[bytes]]], seen: set[bytes]) -> Iterator[list[bytes]]:
    """Pages of a SCAN, which may return something twice; `step` runs it from a cursor."""
    cursor = b"0"
    while True:
        cursor, found = step(cursor)
        fresh = [each for each in found if each not in seen]
        seen.update(fresh)
        yield fresh
        if int(cursor) == 0:
            return


# Dead letters, history, notes


def _survey_letters(scripts: Scripts, partition: int, found: PartitionSurvey) -> None:
    for members in _members(scripts, partition, "letters", set()):
        names = [as_text(member) for member in members]
        keys = [scripts.keys.letter(partition, name[16:])[0] for name in names]
        answers = scripts.get([Command(partition, (1, key), load("letter")) for key in keys])
        for name, (stored, size) in zip(names, answers, strict=True):
            found.counted["dead"] += size
            if stored is None and size == 0:
                continue  # it ended just now
            problem = _problem_of_letter(name[16:], stored or b"", size)
            if problem is not None:
                timeline = encoding.salvaged_timeline(stored or b"")
                damage = Damage(timeline=timeline, part="letter", problem=problem, records=size)
                found.flaws.append(PartitionFlaw(damage, name, stored or b""))


def _problem_of_letter(letter_id: str, stored: bytes, size: int) -> str | None:
    try:
        noted = encoding.letter(letter_id, stored).records
    except Unreadable as error:
        return error.damage.problem
    return None if noted == size else f"dead letter {letter_id}: {noted} noted, {size} found"


def _survey_history(scripts: Scripts, partition: int, found: PartitionSurvey, *, ring: int) -> None:
    for name in [REST, *_names_of_rings(scripts, partition, found)]:
        for start in range(0, ring, PAGE):
            fields = [named(number, name) for number in range(start, min(ring, start + PAGE))]
            for field_name, body in zip(fields, _history_fields(scripts, partition, fields), strict=True):
                try:
                    if body is not None:
                        encoding.entry(body)
                except Unreadable as error:
                    found.flaws.append(PartitionFlaw(error.damage, field_name, body or b""))


def _names_of_rings(scripts: Scripts, partition: int, found: PartitionSurvey) -> Iterable[str]:
    [stored] = _history_fields(scripts, partition, [NAMES])
    try:
        return encoding.rings(stored)
    except Unreadable as error:
        found.flaws.append(PartitionFlaw(error.damage, NAMES, stored or b""))
        return ()


def _history_fields(scripts: Scripts, partition: int, fields: Sequence[str]) -> list[bytes | None]:
    [bodies] = scripts.get([Command(partition, ("HMGET", scripts.keys.key(partition, "history"), *fields))])
    return list(bodies)


def _survey_notes(scripts: Scripts, partition: int, found: PartitionSurvey) -> None:
    [flat] = scripts.get([Command(partition, ("HGETALL", scripts.keys.key(partition, "notes")))])
    for name, body in zip(map(as_text, flat[::2]), flat[1::2], strict=True):
        damage = damage_of_note(name, body, decode_progress=msgspec.msgpack.Decoder(ImportProgress).decode)
        if damage is not None:
            found.flaws.append(PartitionFlaw(damage, name, body))


# The footprint

ORDERS = ("names", *SCHEDULE, "letters")
KEPT = {"meta", "ledger", "history"}  # settings; counters and the last answers to callers; history
_HASHES = {"t": "timelines", "l": "letters", "o": "", "m": ""}  # kinds with records, and what their own field counts as


def footprint(scripts: Scripts) -> Mapping[str, int]:
    """Count what is stored, apart from counters, settings and history. Reads every key."""
    counts: Counter[str] = Counter(timelines=0, records=0, letters=0, orders=0, places=0, notes=0, others=0)
    for partition in range(scripts.keys.partitions):
        for keys in _all_keys(scripts, partition):
            _count_keys(scripts, partition, keys, counts)
    return dict(counts)


def _all_keys(scripts: Scripts, partition: int) -> Iterator[list[bytes]]:
    pattern = scripts.keys.tag(partition) + ":*"

    def step(cursor: bytes) -> tuple[bytes, list[bytes]]:
        [page] = scripts.get([Command(partition, ("SCAN", cursor, b"MATCH", pattern, b"COUNT", 1000))])
        return page[0], page[1]

    return _scan(step, set())


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
        elif kind not in (*_HASHES, *ORDERS, *KEPT, "notes"):
            counts["others"] += 1
    notes = [Command(partition, ("HKEYS", key)) for key, kind in kinds if kind == "notes"]
    counts["notes"] += len([name for names in scripts.get(notes) for name in names if not name.startswith(b"samples:")])
