"""Reading without changing anything: plain commands and small scripts, in pages."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

from digestif.core.backlog import Standing, add_up
from digestif.core.capacity import Cursor, Stored, age_order, by_age
from digestif.core.damage import Damage, legible
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.times import Millis
from digestif.core.transfer import is_incoming
from digestif.stores.base import HISTORY_LIMIT
from digestif.stores.damage import Unreadable
from digestif.stores.reader import Part
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import Scripts, every
from digestif.stores.redis.client.commands import Command, WrongType
from digestif.stores.redis.encoding import Entry, Letter
from digestif.stores.redis.keys import as_bytes, as_text

PAGE = 100  # entries of the history, or letters, that one command reads

BATCHES = {
    Part.PENDING: (0,),
    Part.DIGEST: (3, 6),
}  # where the keys of each begin among a timeline's; the later one last


# Timelines


def inspect(scripts: Scripts, timeline: str) -> Slot:
    """The slot of a timeline; Unreadable if it is damaged."""
    [found] = read_slots(scripts, [timeline])
    if isinstance(found, Unreadable):
        raise found
    return found or IDLE


def read_slots(scripts: Scripts, timelines: Sequence[str]) -> list[Slot | Unreadable | None]:
    """The slots of timelines; None for one that is not stored."""
    commands = []
    for timeline in timelines:
        home = scripts.keys.home(timeline)
        commands.append(Command(home.partition, ("HGET", home.keys[0], b"")))
        commands.append(Command(home.partition, ("HLEN", home.keys[0])))
    answers = scripts.ask(commands)
    every([answer for answer in answers if not isinstance(answer, WrongType)])
    return [
        _read_slot(timeline, stored, size)
        for timeline, stored, size in zip(timelines, answers[::2], answers[1::2], strict=True)
    ]


def _read_slot(timeline: str, stored: bytes | WrongType | None, size: int) -> Slot | Unreadable | None:
    try:
        if isinstance(stored, WrongType):
            raise encoding.unreadable_slot(timeline, "its key is no hash")
        if legible(timeline) != timeline:
            raise encoding.unreadable_slot(timeline, "its name is not UTF-8")
        return None if stored is None else encoding.slot(timeline, stored, size - 1)
    except Unreadable as error:
        return error


def damage_of(scripts: Scripts, timeline: str) -> Unreadable:
    """What is wrong with a timeline that a script took for damaged."""
    [found] = read_slots(scripts, [timeline])
    return (
        found
        if isinstance(found, Unreadable)
        else encoding.unreadable_slot(timeline, "scripts can't read it, or a key of its records")
    )


def scan(scripts: Scripts, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
    found: list[tuple[str, Slot]] = []
    while len(found) < limit:
        page = _names(scripts, prefix=prefix, after=after, limit=limit - len(found))
        if not page:
            break
        for name, slot in zip(page, read_slots(scripts, page), strict=True):
            if isinstance(slot, Unreadable):
                scripts.damages.report(slot.damage)
            elif slot is not None:  # otherwise it ended just now
                found.append((name, slot))
        after = page[-1]
    return found


def _names(scripts: Scripts, *, prefix: str, after: str | None, limit: int) -> list[str]:
    first = prefix.encode()
    start = b"[" + first if after is None or as_bytes(after) < first else b"(" + as_bytes(after)
    pages = scripts.get(_everywhere(scripts, "names", "ZRANGEBYLEX", start, b"+", b"LIMIT", 0, limit))
    in_order = merge(*pages)  # by bytes of UTF-8, which is by code points
    return [as_text(name) for name in islice(in_order, limit) if name.startswith(first)]


def _everywhere(scripts: Scripts, kind: str, command: str, *arguments: bytes | int) -> list[Command]:
    """A command on a key of each partition."""
    keys = scripts.keys
    return [
        Command(partition, (command, keys.key(partition, kind), *arguments)) for partition in range(keys.partitions)
    ]


def records(scripts: Scripts, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
    home = scripts.keys.home(timeline)
    found: list[Stored] = []
    unread: list[Cursor] = []  # behind these a batch has more
    for begin in BATCHES[part]:
        page, complete = _page(scripts, home.partition, home.keys[begin : begin + 3], after=after, limit=limit)
        found += page
        if not complete:
            unread.append(age_order(page[-1]))
    in_order = sorted(found, key=by_age, reverse=True)[:limit]
    return [record for record in in_order if not unread or age_order(record) >= max(unread)]


def _page(
    scripts: Scripts, partition: int, keys: Sequence[bytes], *, after: Cursor | None, limit: int
) -> tuple[list[Stored], bool]:
    """A page of a batch, which ends early if its records are heavy, and whether it was the last."""
    complete, flat = scripts.read("page", partition, keys, limit, encoding.encode(after) if after else b"")
    return encoding.records(flat), bool(complete)


def find(scripts: Scripts, timeline: str, key: str) -> dict[Part, Stored]:
    home = scripts.keys.home(timeline)
    places = [(part, begin) for part, begins in BATCHES.items() for begin in begins]
    commands = [Command(home.partition, ("HGET", home.keys[begin], key.encode())) for _, begin in places]
    found = zip(places, scripts.get(commands), strict=True)
    return {part: encoding.record(key, stored) for (part, _), stored in found if stored is not None}


# Dead letters


def letter_ids(scripts: Scripts, timeline: str, *, limit: int) -> list[str]:
    """The first dead letters of a timeline."""
    home = scripts.keys.home(timeline)
    [members] = scripts.get([Command(home.partition, ("ZRANGE", home.keys[9], 0, limit - 1))])
    return [_letter_id(member) for member in members]


def find_letter(scripts: Scripts, letter_id: str) -> Letter | None:
    keys = scripts.keys
    commands = [
        Command(partition, ("HGET", keys.letter(partition, letter_id)[0], b"")) for partition in range(keys.partitions)
    ]
    if is_incoming(letter_id):
        return None  # it has not arrived whole
    answers = scripts.ask(commands)
    stored = next((answer for answer in answers if isinstance(answer, bytes)), None)
    if any(isinstance(answer, WrongType) for answer in answers):
        stored = b""
    if stored is None:
        every(answers)  # it may be where nobody answers
        return None
    return encoding.letter(letter_id, stored)


def letters(scripts: Scripts, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
    start = None
    if after is not None:
        last = find_letter(scripts, after)
        if last is None:
            return []
        start = (last.buried, last.number, scripts.keys.partition_of(last.timeline))
    if timeline is None:
        orders = [(partition, scripts.keys.key(partition, "letters")) for partition in range(scripts.keys.partitions)]
    else:
        home = scripts.keys.home(timeline)
        orders = [(home.partition, home.keys[9])]
    places = merge(*(_letter_places(scripts, partition, order, start, limit) for partition, order in orders))
    found: list[DeadLetter] = []
    while page := list(islice(places, limit - len(found))):
        letters = _read_letters(scripts, page)
        found += [encoding.dead_letter(letter) for letter in letters if timeline in (None, letter.timeline)]
    return found


Target = tuple[int, int, int, str]  # of a dead letter: buried, number, partition, id


def _letter_places(
    scripts: Scripts, partition: int, order: bytes, start: tuple[int, int, int] | None, limit: int
) -> Iterator[Target]:
    """The dead letters of an order behind the start, earliest first."""
    least = b"-inf" if start is None else start[0]
    offset = 0
    while True:
        command = ("ZRANGEBYSCORE", order, least, b"+inf", b"WITHSCORES", b"LIMIT", offset, limit)
        [flat] = scripts.get([Command(partition, command)])
        for member, buried in zip(flat[::2], flat[1::2], strict=True):
            if not is_letter_member(member):
                continue
            place = (int(buried), int(member[:16]), partition, _letter_id(member))
            if (start is None or place[:3] > start) and not is_incoming(place[3]):
                yield place
        if len(flat) < 2 * limit:
            return
        offset += limit


def _read_letters(scripts: Scripts, places: Iterable[Target]) -> list[Letter]:
    keys = scripts.keys
    places = list(places)
    commands = [Command(partition, ("HGET", keys.letter(partition, name)[0], b"")) for *_, partition, name in places]
    answers = scripts.ask(commands)
    every([answer for answer in answers if not isinstance(answer, WrongType)])
    found = []
    for (*_, name), stored in zip(places, answers, strict=True):
        try:
            if stored is not None:
                found.append(encoding.letter(name, b"" if isinstance(stored, WrongType) else stored))
        except Unreadable as error:
            scripts.damages.report(error.damage)
    return found


def is_letter_member(member: bytes) -> bool:
    return member[:16].isdigit() and len(member) > 16


def _letter_id(member: bytes) -> str:
    return as_text(member[16:])  # behind its number


def letter_records(scripts: Scripts, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
    found = find_letter(scripts, letter_id)
    if found is None:
        return []
    partition = scripts.keys.partition_of(found.timeline)
    page, _ = _page(scripts, partition, scripts.keys.letter(partition, letter_id), after=after, limit=limit)
    return page


def letter_with(scripts: Scripts, timeline: str, key: str) -> DeadLetter | None:
    home = scripts.keys.home(timeline)
    offset = 0
    while True:
        command = ("ZREVRANGE", home.keys[9], offset, offset + PAGE - 1)
        [members] = scripts.get([Command(home.partition, command)])
        ids = [_letter_id(member) for member in members]
        letters = [scripts.keys.letter(home.partition, letter_id)[0] for letter_id in ids]
        holding = scripts.ask([Command(home.partition, ("HEXISTS", letter, key.encode())) for letter in letters])
        every([answer for answer in holding if not isinstance(answer, WrongType)])
        for letter_id, held in zip(ids, holding, strict=True):
            found = _unless_damaged(scripts, letter_id) if held else None
            if found is not None:
                return encoding.dead_letter(found)
        if len(ids) < PAGE:
            return None
        offset += PAGE


def _unless_damaged(scripts: Scripts, letter_id: str) -> Letter | None:
    try:
        return find_letter(scripts, letter_id)
    except Unreadable as error:
        scripts.damages.report(error.damage)
        return None


# History


def history(scripts: Scripts, timeline: str | None, *, limit: int, ring: int) -> list[HistoryEntry]:
    keys = scripts.keys
    partitions = range(keys.partitions) if timeline is None else [keys.partition_of(timeline)]
    latest_first = merge(
        *(_entries(scripts, partition, ring) for partition in partitions), key=attrgetter("ended"), reverse=True
    )
    wanted = (entry for entry in latest_first if timeline in (None, entry.timeline))
    return [encoding.history_entry(entry) for entry in islice(wanted, min(limit, HISTORY_LIMIT))]


def _entries(scripts: Scripts, partition: int, ring: int) -> Iterator[Entry]:
    """The history of a partition, the latest first."""
    [ended] = scripts.get([Command(partition, ("HGET", scripts.keys.key(partition, "ledger"), b"ended"))])
    latest = int(ended) if ended and ended.isdigit() else 0
    for begin in range(latest, max(0, latest - ring), -PAGE):
        numbers = range(begin, max(0, begin - PAGE, latest - ring), -1)
        places = [number % ring for number in numbers]
        [stored] = scripts.get([Command(partition, ("HMGET", scripts.keys.key(partition, "history"), *places))])
        for body in stored:
            try:
                entry = None if body is None else encoding.entry(body)
            except Unreadable as error:
                scripts.damages.report(error.damage)
                continue
            if entry is not None and entry.number <= latest:
                yield entry


def places_of(scripts: Scripts, timeline: str, *, ring: int) -> list[tuple[int, int]]:
    """Where the entries of a timeline stand in the history of its partition, and their numbers."""
    found = _entries(scripts, scripts.keys.partition_of(timeline), ring)
    return [(entry.number % ring, entry.number) for entry in found if entry.timeline == timeline]


# Counts


def standing(scripts: Scripts, *, now: Millis) -> Standing:
    """Counts and firsts of the orders of each partition, added up."""
    keys = scripts.keys
    questions: list[tuple[str, str, tuple[bytes | int, ...]]] = [
        *[("ZCARD", kind, ()) for kind in ("names", "waiting", "ready", "leases", "paused")],
        *[("ZCOUNT", kind, (b"-inf", now)) for kind in ("waiting", "leases")],
        *[("ZRANGE", kind, (0, 0, b"WITHSCORES")) for kind in ("waiting", "ready", "expiring")],
    ]
    commands = [
        Command(partition, (command, keys.key(partition, kind), *arguments))
        for partition in range(keys.partitions)
        for command, kind, arguments in questions
    ]
    answers = scripts.get(commands)
    rows = [answers[start : start + len(questions)] for start in range(0, len(answers), len(questions))]
    return add_up(_standing(*row) for row in rows)


def _standing(
    names: int, waiting: int, ready: int, leases: int, paused: int, due: int, lapsed: int, *firsts: list[bytes]
) -> Standing:
    first_waiting, first_ready, expires = (int(float(first[1])) if first else None for first in firsts)
    earliest = min((at for at in (first_waiting, first_ready) if at is not None), default=None)
    return Standing(names, waiting, ready, leases + paused, due + ready + lapsed, earliest, expires)


def ledger(scripts: Scripts) -> Ledger:
    return total(map(ledger_of, scripts.get(_everywhere(scripts, "ledger", "HMGET", *COUNTED))))


def ledger_of(counts: Sequence[bytes | None]) -> Ledger:
    """From the counts of COUNTED. What went to another store is no longer accepted here."""
    try:
        left, *fates = [int(count or 0) for count in counts]
    except ValueError as error:
        problem = f"a counter of the ledger is not a number ({error})"
        raise Unreadable(Damage(timeline=None, part="ledger", problem=problem)) from error
    counted = dict(zip(COUNTERS, fates, strict=True))
    return Ledger(**{**counted, "accepted": counted["accepted"] - left})


def total(ledgers: Iterable[Ledger]) -> Ledger:
    every = list(ledgers)
    return Ledger(**{name: sum(getattr(each, name) for each in every) for name in COUNTERS})


COUNTED = [b"left", *(name.encode() for name in COUNTERS)]
