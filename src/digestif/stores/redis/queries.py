"""Queries: the verbs that change nothing, by plain commands and small scripts, in pages."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice

from digestif.core.backlog import Standing, add_up
from digestif.core.capacity import Cursor, Stored, age_order, by_age
from digestif.core.damage import Damage
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter
from digestif.core.terms import Override
from digestif.core.times import Millis
from digestif.core.transfer import is_incoming, move_start
from digestif.stores.damage import Unreadable
from digestif.stores.reader import UNLEASED, Part, beyond
from digestif.stores.redis import encoding
from digestif.stores.redis.client.commands import Command, WrongType
from digestif.stores.redis.client.link import all_required
from digestif.stores.redis.encoding import StoredLetter
from digestif.stores.redis.keys import as_bytes, as_text
from digestif.stores.redis.overview import RedisOverview
from digestif.stores.redis.rings import PAGE, READ_AT_ONCE, RedisRings
from digestif.stores.redis.verbs import read_slots

COUNTED = [b"left", *(name.encode() for name in COUNTERS)]  # what the ledger of a partition counts
BATCHES = {Part.PENDING: (0,), Part.DIGEST: (3, 6)}  # where their keys begin among a timeline's; the later batch last

LetterPosition = tuple[int, int, int, str]  # buried, number, partition, id


class RedisQueries(RedisOverview, RedisRings):
    """The verbs of the store that only read."""

    counts_at_once = True

    # Timelines

    def inspect(self, timeline: str) -> Slot:
        [slot] = self._slots([timeline])
        return slot

    def overrides(self, timelines: Sequence[str]) -> list[Override | None]:
        return [slot.override for slot in self._slots(timelines)]

    def _slots(self, timelines: Sequence[str]) -> list[Slot]:
        found = read_slots(self._scripts, timelines)
        for each in found:
            if isinstance(each, Unreadable):
                raise each
        return [IDLE if each is None or isinstance(each, Unreadable) else each for each in found]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        found: list[tuple[str, Slot]] = []
        while len(found) < limit:
            page = self._names(prefix=prefix, after=after, limit=limit - len(found))
            if not page:
                break
            for name, slot in zip(page, read_slots(self._scripts, page), strict=True):
                if isinstance(slot, Unreadable):
                    self.damages.report(slot.damage)
                elif slot is not None:  # otherwise it ended just now
                    found.append((name, slot))
            after = page[-1]
        return found

    def count_timelines(self, prefix: str, *, most: int) -> int:
        bounds = (b"[" + prefix.encode(), b"(" + beyond(prefix))
        return sum(self._scripts.get(self._everywhere("names", "ZLEXCOUNT", *bounds)))

    def _names(self, *, prefix: str, after: str | None, limit: int) -> list[str]:
        first = prefix.encode()
        start = b"[" + first if after is None or as_bytes(after) < first else b"(" + as_bytes(after)
        pages = self._scripts.get(self._everywhere("names", "ZRANGEBYLEX", start, b"+", b"LIMIT", 0, limit))
        in_order = merge(*pages)  # by bytes of UTF-8, which is by code points
        return [as_text(name) for name in islice(in_order, limit) if name.startswith(first)]

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        own = self._scripts.keys.of(timeline)
        found: list[Stored] = []
        unread: list[Cursor] = []  # behind these a batch has more
        for begin in BATCHES[part]:
            page, complete = self._page(own.partition, own.keys[begin : begin + 3], after=after, limit=limit)
            found += page
            if not complete:
                unread.append(age_order(page[-1]))
        in_order = sorted(found, key=by_age, reverse=True)[:limit]
        return [record for record in in_order if not unread or age_order(record) >= max(unread)]

    def _page(
        self, partition: int, keys: Sequence[bytes], *, after: Cursor | None, limit: int
    ) -> tuple[list[Stored], bool]:
        """A page of a batch, which ends early if its records are large, and whether it was the last."""
        start = encoding.encode(after) if after else b""
        complete, flat = self._scripts.read("page", partition, keys, limit, start)
        return encoding.records(flat), bool(complete)

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        own = self._scripts.keys.of(timeline)
        batches = [(part, begin) for part, begins in BATCHES.items() for begin in begins]
        commands = [Command(own.partition, ("HGET", own.keys[begin], key.encode())) for _, begin in batches]
        found = zip(batches, self._scripts.get(commands), strict=True)
        return {part: encoding.record(key, stored) for (part, _), stored in found if stored is not None}

    # Dead letters

    def letter(self, letter_id: str) -> DeadLetter | None:
        found = self._find_letter(letter_id)
        return None if found is None else encoding.dead_letter(found)

    def _find_letter(self, letter_id: str) -> StoredLetter | None:
        if is_incoming(letter_id):
            return None  # its import is not complete
        keys = self._scripts.keys
        answers = self._scripts.ask(
            [Command(each, ("HGET", keys.letter(each, letter_id)[0], b"")) for each in range(keys.partitions)]
        )
        stored = next((answer for answer in answers if isinstance(answer, bytes)), None)
        if any(isinstance(answer, WrongType) for answer in answers):
            stored = b""
        if stored is None:
            all_required(answers)  # it may be in a partition that failed
            return None
        return encoding.letter(letter_id, stored)

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        keys = self._scripts.keys
        start = None
        if after is not None:
            last = self._find_letter(after)
            if last is None:
                return []
            start = (last.buried, last.number, keys.partition_of(last.timeline))
        if timeline is None:
            orders = [(partition, keys.key(partition, "letters")) for partition in range(keys.partitions)]
        else:
            own = keys.of(timeline)
            orders = [(own.partition, own.keys[9])]
        read = max(1, min(limit, READ_AT_ONCE // len(orders)))  # at once of each order
        positions = merge(*(self._letter_positions(partition, order, start, read) for partition, order in orders))
        found: list[DeadLetter] = []
        while page := list(islice(positions, limit - len(found))):
            letters = self._read_letters(page)
            found += [encoding.dead_letter(letter) for letter in letters if timeline in (None, letter.timeline)]
        return found

    def _letter_positions(
        self, partition: int, order: bytes, start: tuple[int, int, int] | None, limit: int
    ) -> Iterator[LetterPosition]:
        """The dead letters of an order after the start, earliest first."""
        least = b"-inf" if start is None else start[0]
        offset = 0
        while True:
            command = ("ZRANGEBYSCORE", order, least, b"+inf", b"WITHSCORES", b"LIMIT", offset, limit)
            [flat] = self._scripts.get([Command(partition, command)])
            for member, buried in zip(flat[::2], flat[1::2], strict=True):
                if not member[:16].isdigit() or len(member) <= 16:
                    continue  # a damaged member
                position = (int(buried), int(member[:16]), partition, _letter_id(member))
                if (start is None or position[:3] > start) and not is_incoming(position[3]):
                    yield position
            if len(flat) < 2 * limit:
                return
            offset += limit

    def _read_letters(self, positions: Sequence[LetterPosition]) -> list[StoredLetter]:
        keys = self._scripts.keys
        answers = self._scripts.ask(
            [Command(partition, ("HGET", keys.letter(partition, name)[0], b"")) for *_, partition, name in positions]
        )
        all_required([answer for answer in answers if not isinstance(answer, WrongType)])
        found = []
        for (*_, name), stored in zip(positions, answers, strict=True):
            try:
                if stored is not None:
                    found.append(encoding.letter(name, b"" if isinstance(stored, WrongType) else stored))
            except Unreadable as error:
                self.damages.report(error.damage)
        return found

    def _letter_ids(self, timeline: str, *, limit: int) -> list[str]:
        """The first dead letters of a timeline."""
        own = self._scripts.keys.of(timeline)
        [members] = self._scripts.get([Command(own.partition, ("ZRANGE", own.keys[9], 0, limit - 1))])
        return [_letter_id(member) for member in members]

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        found = self._find_letter(letter_id)
        if found is None:
            return []
        partition = self._scripts.keys.partition_of(found.timeline)
        page, _ = self._page(partition, self._scripts.keys.letter(partition, letter_id), after=after, limit=limit)
        return page

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        keys, own = self._scripts.keys, self._scripts.keys.of(timeline)
        offset = 0
        while True:
            command = ("ZREVRANGE", own.keys[9], offset, offset + PAGE - 1)
            [members] = self._scripts.get([Command(own.partition, command)])
            ids = [_letter_id(member) for member in members]
            letters = [keys.letter(own.partition, letter_id)[0] for letter_id in ids]
            holding = self._scripts.ask(
                [Command(own.partition, ("HEXISTS", letter, key.encode())) for letter in letters]
            )
            all_required([answer for answer in holding if not isinstance(answer, WrongType)])
            for letter_id, held in zip(ids, holding, strict=True):
                try:
                    found = self.letter(letter_id) if held else None
                except Unreadable as error:
                    self.damages.report(error.damage)
                    continue
                if found is not None:
                    return found
            if len(ids) < PAGE:
                return None
            offset += PAGE

    # Counts

    def standing(self, *, now: Millis, most: int | None = None) -> Standing:
        keys = self._scripts.keys
        questions: list[tuple[str, str, tuple[bytes | int, ...]]] = [
            *[("ZCARD", kind, ()) for kind in ("names", "waiting", "ready", "leases")],
            ("ZCOUNT", "paused", (b"-inf", b"(%d" % UNLEASED)),
            *[("ZCOUNT", kind, (b"-inf", now)) for kind in ("waiting", "leases")],
            *[("ZRANGE", kind, (0, 0, b"WITHSCORES")) for kind in ("waiting", "ready", "expiring")],
        ]
        commands = [
            Command(partition, (command, keys.key(partition, kind), *arguments))
            for partition in range(keys.partitions)
            for command, kind, arguments in questions
        ]
        answers = self._scripts.get(commands)
        rows = [answers[start : start + len(questions)] for start in range(0, len(answers), len(questions))]
        return add_up(_standing(*row) for row in rows)

    def moving_since(self) -> Millis | None:
        marks = self._scripts.get(self._everywhere("ledger", "HGET", b"moving"))
        found = [move_start(mark.decode()) for mark in marks if mark is not None]
        return min((since for since in found if since is not None), default=None)

    def digests_delivered(self) -> int:
        counts = self._scripts.get(self._everywhere("ledger", "HGET", b"digests"))
        return sum(int(count) for count in counts if count and count.isdigit())

    def ledger(self) -> Ledger:
        return total(map(ledger_of, self._scripts.get(self._everywhere("ledger", "HMGET", *COUNTED))))


def _letter_id(member: bytes) -> str:
    return as_text(member[16:])  # behind its number


def _standing(
    names: int, waiting: int, ready: int, leases: int, paused: int, due: int, lapsed: int, *firsts: list[bytes]
) -> Standing:
    first_waiting, first_ready, expires = (int(float(first[1])) if first else None for first in firsts)
    earliest = min((at for at in (first_waiting, first_ready) if at is not None), default=None)
    return Standing(names, waiting, ready, leases + paused, due + ready + lapsed, earliest, expires)


def ledger_of(counts: Sequence[bytes | None]) -> Ledger:
    """The ledger by the counts of COUNTED. Records that left for another store do not count as accepted here."""
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
