"""The survey behind `verify` and `repair`: everything that a partition holds, looked at and counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from digestif.core.damage import Damage, legible
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.transfer import OUTGOING
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import Unreadable
from digestif.stores.redis import encoding, queries
from digestif.stores.redis.calls import Call, Scripts, every
from digestif.stores.redis.client.commands import Command, Packed, joined
from digestif.stores.redis.client.scripts import load
from digestif.stores.redis.keys import SCHEDULE, as_text
from digestif.stores.transfer import ImportProgress

TRIES = 3  # at finding a partition at rest
NOTHING = Packed(0, b"")
SURVEYED = 20  # timelines that a call looks at: about 1 ms of the server, more if their batches are large
RAW_COUNTERS = (b"moved", *queries.COUNTED)


class Flaw(NamedTuple):
    """Something that is wrong, and what is known of it."""

    damage: Damage
    name: str = ""  # of the timeline, its place in the order of letters, in the history or among the notes
    stored: bytes = b""  # what was found there


@dataclass
class Survey:
    """What was found in a partition."""

    raw: list[bytes | None]  # RAW_COUNTERS as they are stored
    counted: dict[str, int] = field(default_factory=lambda: {"pending": 0, "open": 0, "dead": 0})
    flaws: list[Flaw] = field(default_factory=list)
    moved: int = 0  # records, by others, meanwhile

    @property
    def ledger(self) -> Ledger:
        """What the counters say; one that is not a number says nothing."""
        return queries.ledger_of([each if _is_number(each) else None for each in self.raw[1:]])

    def differences(self) -> list[str]:
        ledger = self.ledger
        wrong = [
            f"ledger.{fate} is {getattr(ledger, fate)}, {count} found"
            for fate, count in self.counted.items()
            if abs(getattr(ledger, fate) - count) > self.moved
        ]
        wrong += [
            f"{name.decode()} of the ledger is not a number: {each!r}"
            for name, each in zip(RAW_COUNTERS, self.raw, strict=True)
            if not _is_number(each)
        ]
        return [*wrong, ledger.imbalance] if ledger.imbalance else wrong

    def corrections(self) -> dict[str, int]:
        """What the counters should be. What was accepted gives records their numbers, and never falls."""
        ledger = self.ledger
        counts = {name: max(0, getattr(ledger, name)) for name in COUNTERS} | self.counted
        accounted = sum(count for name, count in counts.items() if name != "accepted")
        numbers = dict(zip(RAW_COUNTERS, self.raw, strict=True))
        accepted = numbers[b"accepted"]
        total = max(int(accepted) if accepted is not None and _is_number(accepted) else 0, accounted)
        moved = numbers[b"moved"]
        wrong = {} if _is_number(moved) else {"moved": 0}
        return {**counts, "accepted": total, "left": total - accounted, **wrong}


def _is_number(stored: bytes | None) -> bool:
    return stored is None or stored.removeprefix(b"-").isdigit()


def at_rest(scripts: Scripts, partition: int, *, ring: int) -> Survey:
    """A survey during which nothing moved, if that can be had."""
    for _ in range(TRIES):
        before = _moves(_counters(scripts, partition))
        found = Survey(_counters(scripts, partition))
        _look_at_timelines(scripts, partition, found)
        _look_at_letters(scripts, partition, found)
        _look_at_history(scripts, partition, found, ring=ring)
        _look_at_notes(scripts, partition, found)
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
    """How many moves of records there have been."""
    numbers = dict(zip(RAW_COUNTERS, counters, strict=True))
    return sum(int(numbers[name] or 0) for name in (b"moved", b"accepted") if _is_number(numbers[name]))


# Timelines


class Batch(NamedTuple):
    """What a batch of a timeline holds."""

    records: int
    short: int  # of these, too short to be one; -1: there are too many to look at in one call
    ordered: int  # in the order by age


class Sight(NamedTuple):
    """A timeline as `survey.lua` tells it."""

    stored: bytes | None  # its slot
    is_readable: bool  # for scripts
    is_in_place: bool
    wrong_keys: int  # of its keys, those of the wrong type
    pending: Batch
    digest: Batch
    merging: Batch

    @classmethod
    def of(cls, told: Sequence[Any]) -> "Sight":
        stored, readable, in_place, wrong_keys, *sizes = told
        batches = [Batch(*sizes[start : start + 3]) for start in (0, 3, 6)]
        return cls(stored, bool(readable), bool(in_place), wrong_keys, *batches)

    @property
    def batches(self) -> tuple[Batch, Batch, Batch]:
        return self.pending, self.digest, self.merging


def _look_at_timelines(scripts: Scripts, partition: int, found: Survey) -> None:
    seen: set[bytes] = set()
    for order in ("names", *SCHEDULE):  # in the others are only those that are somewhere by mistake
        for page in pages(scripts, partition, order, seen):
            names = [as_text(name) for name in page]
            keys = [scripts.keys.home_in(partition, name) for name in names]
            groups = [joined(keys[start : start + SURVEYED]) for start in range(0, len(keys), SURVEYED)]
            answers = every(scripts.looks("survey", [Call(partition, group, NOTHING) for group in groups]))
            for name, told in zip(names, chain.from_iterable(answers), strict=True):
                _look_at_timeline(scripts, partition, name, Sight.of(told), found)


def _look_at_timeline(scripts: Scripts, partition: int, name: str, sight: Sight, found: Survey) -> None:
    in_digest = sight.digest.records + sight.merging.records
    found.counted["pending"] += sight.pending.records
    found.counted["open"] += in_digest

    def note(part: str, problem: str, records: int) -> None:
        damage = Damage(timeline=legible(name), part=part, problem=problem, records=records)
        found.flaws.append(Flaw(damage, name, sight.stored or b""))

    try:
        noted = _noted_in_digest(scripts, partition, name, sight)
    except Unreadable as error:
        note("slot", error.damage.problem, sight.pending.records + in_digest)
        return
    if noted != in_digest:
        note("count", f"{noted} noted in its digest, {in_digest} found", in_digest)
    for batch in sight.batches:
        if batch.ordered not in (0, batch.records):
            note("count", f"{batch.records} records, {batch.ordered} in their order by age", batch.records)
    if not sight.is_in_place:
        note("place", "it does not stand in the schedule where it should", 0)
    keys = scripts.keys.home_keys(partition, name)[:9:3]
    short = sum(
        len(short_keys(scripts, partition, key)) if batch.short < 0 else batch.short
        for key, batch in zip(keys, sight.batches, strict=True)
    )
    if short:
        note("record", f"{short} records have no value", short)


def _noted_in_digest(scripts: Scripts, partition: int, name: str, sight: Sight) -> int:
    """How many records the digest of a timeline should have. Unreadable if the timeline is damaged."""
    if legible(name) != name:
        raise encoding.unreadable_slot(name, "its name is not UTF-8")
    if scripts.keys.partition_of(name) != partition:
        raise encoding.unreadable_slot(name, "it belongs to another partition")
    if sight.wrong_keys:
        raise encoding.unreadable_slot(name, "its keys are of the wrong type")
    slot = encoding.slot(name, sight.stored, 0)
    if not sight.is_readable:
        raise encoding.unreadable_slot(name, "scripts can't read it")
    if sight.stored is None and any(batch.records for batch in sight.batches):
        raise encoding.unreadable_slot(name, "it is gone, and its records are not")
    if slot.digest is None and (sight.digest.records or sight.merging.records):
        raise encoding.unreadable_slot(name, "it has no digest, and the records of one")
    return 0 if slot.digest is None else slot.digest.records


def short_keys(scripts: Scripts, partition: int, key: bytes) -> list[bytes]:
    """Of a batch the keys of records that are too short to be one."""
    cursor, found = b"0", set[bytes]()
    while True:
        cursor, keys = scripts.read("short", partition, [key], cursor)
        found.update(keys)
        if int(cursor) == 0:
            return sorted(found)


def pages(scripts: Scripts, partition: int, order: str, seen: set[bytes]) -> Iterator[list[bytes]]:
    """The members of an order that were not seen yet, however it changes meanwhile."""
    key, cursor = scripts.keys.key(partition, order), b"0"
    while True:
        [(cursor, flat)] = scripts.get([Command(partition, ("ZSCAN", key, cursor, b"COUNT", PAGE_TIMELINES))])
        fresh = [member for member in flat[::2] if member not in seen]
        seen.update(fresh)
        yield fresh
        if int(cursor) == 0:
            return


# Dead letters, history, notes


def _look_at_letters(scripts: Scripts, partition: int, found: Survey) -> None:
    for members in pages(scripts, partition, "letters", set()):
        names = [as_text(member) for member in members]
        keys = [scripts.keys.letter(partition, name[16:])[0] for name in names]
        answers = scripts.get([Command(partition, (1, key), load("letter")) for key in keys])
        for name, (stored, size) in zip(names, answers, strict=True):
            found.counted["dead"] += size
            if stored is None and size == 0:
                continue  # it ended just now
            problem = _flaw_of_letter(name[16:], stored or b"", size)
            if problem is not None:
                timeline = encoding.salvaged_timeline(stored or b"")
                damage = Damage(timeline=timeline, part="letter", problem=problem, records=size)
                found.flaws.append(Flaw(damage, name, stored or b""))


def _flaw_of_letter(letter_id: str, stored: bytes, size: int) -> str | None:
    try:
        noted = encoding.letter(letter_id, stored).records
    except Unreadable as error:
        return error.damage.problem
    return None if noted == size else f"dead letter {letter_id}: {noted} noted, {size} found"


def _look_at_history(scripts: Scripts, partition: int, found: Survey, *, ring: int) -> None:
    key = scripts.keys.key(partition, "history")
    for start in range(0, ring, queries.PAGE):
        places = range(start, min(ring, start + queries.PAGE))
        [bodies] = scripts.get([Command(partition, ("HMGET", key, *places))])
        for place, body in zip(places, bodies, strict=True):
            try:
                if body is not None:
                    encoding.entry(body)
            except Unreadable as error:
                found.flaws.append(Flaw(error.damage, str(place), body))


def _look_at_notes(scripts: Scripts, partition: int, found: Survey) -> None:
    [flat] = scripts.get([Command(partition, ("HGETALL", scripts.keys.key(partition, "notes")))])
    for name, body in zip(map(as_text, flat[::2]), flat[1::2], strict=True):
        problem = _flaw_of_note(name, body)
        if problem is not None:
            found.flaws.append(Flaw(Damage(timeline=None, part="note", problem=problem), name, body))


def _flaw_of_note(name: str, body: bytes) -> str | None:
    """What is wrong with a note of a move, whose form is known; None if nothing is."""
    try:
        if name == "move":
            msgspec.json.decode(body, type=dict[str, object])
        elif name.startswith(OUTGOING) and not name.endswith("-target") and "-past-" not in name:
            msgspec.msgpack.decode(body, type=ImportProgress)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"the note {legible(name)!r} can't be read ({error})"
    return None
