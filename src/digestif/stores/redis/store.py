"""`redis://` and its kin: timelines in Redis or Valkey, on one server or a cluster.

Every verb is one script call per partition, pipelined. What a verb finds by itself, such as timelines that are due, it
looks up first and then names in the call that acts, which checks each again: so all keys of a call are declared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar
from weakref import WeakSet

import msgspec

from digestif.core import machine
from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored, age_order
from digestif.core.damage import Damage, legible
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.times import Millis
from digestif.errors import Busy, InvalidState, StoreError
from digestif.events.base import Event, Events
from digestif.ids import fresh_id, shuffled
from digestif.stores.base import (
    HISTORY_LIMIT,
    PAGE_BYTES,
    PAGE_RECORDS,
    PAGE_TIMELINES,
    SUSPECTS_TOGETHER,
    Accepted,
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Due,
    Durability,
    Lease,
    Maintained,
    QuarantinedRecord,
    Release,
    SchedulePage,
    Store,
    Take,
    Taken,
    Wakeups,
)
from digestif.stores.damage import Unreadable
from digestif.stores.fork import watch
from digestif.stores.reader import Part
from digestif.stores.redis import encoding, queries
from digestif.stores.redis.batches import Share, call_alone, rounds_of
from digestif.stores.redis.calls import DAMAGED, Call, Scripts, every
from digestif.stores.redis.checks import Findings, examine
from digestif.stores.redis.client.commands import Command, Packed, Refused, joined, pack
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.keys import SCHEDULE, Keys, as_bytes, as_text
from digestif.stores.redis.layout import Layouts
from digestif.stores.redis.recount import footprint, recount
from digestif.stores.redis.repair import Repair
from digestif.stores.redis.transfer import RedisMoving
from digestif.stores.redis.wakeups import listen

Item = TypeVar("Item")
Answer = TypeVar("Answer")

ACTED_TIMELINES = 100  # that a call schedules, claims, closes or maintains: about 3 ms of the server
MOVED_RECORDS = 250  # of a digest that a call merges or trims: about 2 ms
EXPIRED_RECORDS = 500
NO_KEYS = Packed(0, b"")
REFUSED = b"!"  # the flag of a timeline that is damaged
Declared = Literal["slot", "whole"]  # which keys of a timeline a call names
ATTEMPTS = 8  # at claiming what others claim too


class RedisStore(Store, RedisMoving):
    """Timelines in Redis or Valkey, over a link."""

    def __init__(self, link: Link, *, namespace: str = "d", partitions: int | None = None, clustered: bool) -> None:
        self.namespace = namespace
        self._link = link
        self._wanted = partitions
        self._clustered = clustered
        self._found: Findings | None = None
        self._dialogue_: Scripts | None = None
        self._listeners: WeakSet[Events] = WeakSet()
        watch(self)

    def report_to(self, events: Events) -> None:
        self._listeners.add(events)

    def _tell(self, event: Event) -> None:
        for events in list(self._listeners):
            events.emit(event)

    @property
    def _scripts(self) -> Scripts:
        """The way to the scripts, once the server has been examined."""
        if self._dialogue_ is None:
            self.examine()
        assert self._dialogue_ is not None
        return self._dialogue_

    def examine(self, *, patience: float | None = None) -> Findings:
        """Check that the server is fit; ConfigError says what is wrong, StoreUnavailable that it can't be reached."""
        wanted, clustered = self._wanted, self._clustered
        found = examine(self._link, namespace=self.namespace, partitions=wanted, clustered=clustered, patience=patience)
        self._dialogue_ = self._dialogue_ or self._begin(found)
        self._found = found
        return found

    def _begin(self, found: Findings) -> Scripts:
        keys = Keys(self.namespace, found.partitions)
        layouts = Layouts(self._link, keys, found.layout, tell=self._tell)
        layouts.enter(range(keys.partitions), patience=0)  # those that can't be reached now, when they are first used
        return Scripts(self._link, keys, layouts, self.damages)

    @property
    def partitions(self) -> int:  # type: ignore[override]  # known once the server was asked
        return self._scripts.keys.partitions

    @property
    def durability(self) -> Durability:  # type: ignore[override]  # likewise
        return (self._found or self.examine()).durability

    @property
    def _ring(self) -> int:
        """Entries of the history that each partition keeps."""
        return HISTORY_LIMIT if self.partitions <= 4 else max(50, 4 * HISTORY_LIMIT // self.partitions)

    def time(self, partition: int) -> Millis:
        seconds, micros = self._scripts.time(partition)
        return int(seconds) * 1000 + int(micros) // 1000

    def reach(self) -> None:
        answers = list(self._link.ask_all("PING", patience=0.0).values())
        if all(isinstance(answer, Exception) for answer in answers):
            raise answers[0]

    # Producing

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        if len(batch) == 1:
            reply = self._scripts.write_one("add", call_alone(self._scripts.keys, batch[0]), now=now)
            if reply == REFUSED:
                raise self._unreadable(batch[0].timeline)
            return encoding.accepted(reply, 1)
        answers: dict[int, Accepted] = {}  # by the place of the record
        for shares in rounds_of(self._scripts.keys, batch):
            replies = self._scripts.write("add", [share.call() for share in shares], now=now)
            for share, reply in zip(shares, replies, strict=True):
                if not isinstance(reply, Exception):
                    answers.update(zip(share.places, encoding.accepted(reply, len(share.places)), strict=True))
            if any(isinstance(reply, Exception) for reply in replies):
                _refuse_failures(_known(answers, len(batch)), replies)
            self._refuse_damaged(batch, shares, replies, answers)
        return [answers[place] for place in range(len(batch))]

    def _refuse_damaged(
        self,
        batch: Sequence[Arrival],
        shares: Sequence[Share],
        replies: Sequence[bytes],
        answers: dict[int, Accepted],
    ) -> None:
        """If records were refused because their timelines are damaged, raise that; the others have been accepted."""
        told = [zip(share.places, reply, strict=False) for share, reply in zip(shares, replies, strict=True)]
        refused = [place for pairs in told for place, flag in pairs if flag == REFUSED[0]]
        if refused:
            for place in refused:
                del answers[place]
            raise self._unreadable(batch[refused[0]].timeline).knowing(_known(answers, len(batch)))

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        return self._act("retract", timeline, key.encode(), now=now)

    # Dispatching

    def schedule(
        self, partition: int, deadline: Millis, *, after: tuple[int | str, ...] | None, limit: int, now: Millis | None
    ) -> SchedulePage:
        limit = min(limit, ACTED_TIMELINES)
        request = encoding.encode({"deadline": deadline, "limit": limit, "after": after and after[1:]})
        number, *flat = self._scripts.glance("due", Call(partition, NO_KEYS, pack((request,))))
        began = int(number) if after is None else int(after[0])
        times = {as_text(name): int(float(at)) for name, at in zip(flat[::2], flat[1::2], strict=True)}
        found = [Due(name, times[name]) for name in self._own(partition, list(times))]
        entries = self._make_ready(partition, found, began=began, now=now) if found else []
        last = list(times.items())[-1] if len(times) == limit else None
        return SchedulePage(entries, None if last is None else (began, last[1], last[0]))

    def _make_ready(self, partition: int, found: list[Due], *, began: int, now: Millis | None) -> list[Due]:
        request = encoding.encode({"began": began, "times": [due.at for due in found]})
        call = self._call(partition, [due.timeline for due in found], request, declared="slot")
        reply = self._scripts.write_one("schedule", call, now=now)
        self._tell_of([due.timeline for due, flag in zip(found, reply, strict=True) if flag == REFUSED[0]])
        return [due for due, moved in zip(found, encoding.flags(reply), strict=True) if moved]

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        limit = min(limit, ACTED_TIMELINES)
        request = encoding.encode({"deadline": deadline, "limit": limit})
        *lists, evicts = self._scripts.glance("overdue", Call(partition, NO_KEYS, pack((request,))), now=now)
        if evicts:
            self._scripts.tell_of_eviction(evicts.decode())  # workers go on, the sooner the better
        full = limit in map(len, lists)
        stale, lapsed, expiring = (self._own(partition, list(map(as_text, names))) for names in lists)
        timelines = [*stale, *lapsed, *expiring]
        if not timelines:
            return Maintained([], [], [], full)
        numbers = {"stale": len(stale), "lapsed": len(lapsed), "expiring": len(expiring)}
        request = encoding.encode({"deadline": deadline, "limit": EXPIRED_RECORDS, "ring": self._ring, **numbers})
        reply = self._scripts.write_one("maintain", self._call(partition, timelines, request), now=now)
        moved, gone, expired, more, damaged = encoding.decode(reply)
        self._tell_of([timelines[number - 1] for number in damaged])
        return Maintained([Due(*each) for each in moved], gone, [(name, many) for name, many in expired], more or full)

    # Delivering

    def claim(self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None) -> ClaimPage:
        leases: list[Lease] = []
        suspect: Millis | None = None
        rounds = retired = lost = 0  # lost: rounds in which other workers took some of the candidates first
        while lost < ATTEMPTS and (rest := min(limit, PAGE_TIMELINES) - len(leases) - retired):
            wanted = min(rest, ACTED_TIMELINES)
            names, suspect = self._claimable(partition, wanted, lost=lost, now=now)
            if not names:
                break
            # A token for each round: frozen between two, this process may claim a timeline again whose lease of the
            # first round has lapsed, and that lease must not come to life again.
            held = f"{token}.{rounds}" if rounds else token
            rounds += 1
            terms = {"token": held, "lease": lease, "first": len(leases)}
            claimed = self._claim("claim", partition, names, terms, now=now)
            leases += claimed.leases
            retired += claimed.retired
            if len(claimed.leases) + claimed.retired < len(names):
                lost += 1
            elif len(names) < wanted:
                break
        return ClaimPage(leases, retired, suspect)

    def _claimable(
        self, partition: int, wanted: int, *, lost: int, now: Millis | None
    ) -> tuple[list[str], Millis | None]:
        """The earliest; where others are after the same ones, any of a wider choice. And the first lapse."""
        choice = min(wanted * 4**lost, 4 * ACTED_TIMELINES)
        suspect, *found = self._scripts.glance("claimable", Call(partition, NO_KEYS, pack((choice,))), now=now)
        names = self._own(partition, list(map(as_text, found)))
        places = shuffled(len(names)) if lost else range(len(names))
        return [names[place] for place in places[:wanted]], None if suspect is None else int(float(suspect))

    def _claim(
        self, script: str, partition: int, names: list[str], terms: Mapping[str, Any], *, now: Millis | None
    ) -> ClaimPage:
        """Open those of the candidates that may still be claimed."""
        call = self._call(partition, names, encoding.encode({"count": len(names), **terms}))
        emptied, told, damaged = encoding.decode(self._scripts.write_one(script, call, now=now))
        self._tell_of([names[number - 1] for number in damaged])
        return ClaimPage([encoding.lease(each, terms["token"]) for each in told], emptied + len(damaged))

    def claim_suspects(
        self, partition: int, *, alone: bool, token: str, lease: Millis, now: Millis | None
    ) -> ClaimPage:
        found = self._scripts.glance("suspects", Call(partition, NO_KEYS, pack((SUSPECTS_TOGETHER,))), now=now)
        names = self._own(partition, list(map(as_text, found)))
        if not names:
            return ClaimPage([], 0)
        terms = {"token": token, "lease": lease, "first": 0, "alone": alone}
        return self._claim("claim_suspects", partition, names, terms, now=now)

    def open(self, timeline: str, *, token: str, lease: Millis, now: Millis | None, alone: bool = False) -> Lease:
        request = encoding.encode({"token": token, "lease": lease, "alone": alone})
        partition = self._scripts.keys.home(timeline).partition
        with self._naming(timeline):
            reply = self._scripts.write_one("open", self._call(partition, [timeline], request), now=now)
        told, *refusal = encoding.decode(reply)
        if told:
            return encoding.lease(told, token)
        at, slot = refusal
        machine.refuse_opening(msgspec.convert(slot, Slot), timeline, now=at)
        raise StoreError(f"{timeline!r}: the server refused to open it and does not say why")

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        answers, unprepared = self._take(requests, now=now)
        if unprepared:
            self._prepare([requests[place] for place in unprepared], now=now)
            answers, _ = self._take(requests, now=now)
        return answers

    def _take(self, requests: Sequence[Take], *, now: Millis | None) -> tuple[list[Taken | None], list[int]]:
        shares = self._shares(requests, lambda request: request.lease.timeline)
        limits = {"limit": max(1, PAGE_RECORDS // max(1, len(shares))), "room": PAGE_BYTES // max(1, len(shares))}
        calls = []
        for partition, places in shares.items():
            some = [requests[place] for place in places]
            wanted = [(each.lease.token, each.capacity, each.after, each.max_bytes) for each in some]
            timelines = [each.lease.timeline for each in some]
            calls.append(self._call(partition, timelines, encoding.encode({**limits, "requests": wanted})))
        replies = every(self._scripts.looks("take", calls, now=now))
        answers: list[Taken | None] = [None] * len(requests)
        unprepared = []
        for places, reply in zip(shares.values(), replies, strict=True):
            for place, told in zip(places, reply, strict=True):
                if told is not None:
                    answers[place] = _taken(requests[place], told)
                    if told[3]:
                        unprepared.append(place)
        return answers, unprepared

    def _prepare(self, requests: Sequence[Take], *, now: Millis | None) -> None:
        shares = self._shares(requests, lambda request: request.lease.timeline)
        limit = max(1, MOVED_RECORDS // max(1, len(shares)))
        calls = []
        for partition, places in shares.items():
            some = [requests[place] for place in places]
            wanted = [(each.lease.token, each.capacity, each.merge, each.max_bytes) for each in some]
            timelines = [each.lease.timeline for each in some]
            calls.append(self._call(partition, timelines, encoding.encode({"limit": limit, "requests": wanted})))
        every(self._scripts.write("prepare", calls, now=now))

    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        home = self._scripts.keys.home(lease.timeline)
        held, raised = True, False
        for start in range(0, len(records), MOVED_RECORDS):
            page = records[start : start + MOVED_RECORDS]
            letters = self._scripts.keys.letters(home.partition, [item.letter_id for item in page])
            told = [(encoding.told_key(key), letter_id, reason) for key, letter_id, reason in page]
            request = encoding.encode({"token": lease.token, "records": told, "raised": raised})
            call = Call(home.partition, joined((home.whole, letters)), pack((request,)))
            held, raised = encoding.flags(self._scripts.write_one("quarantine", call, now=now))
            if not held:
                break
        return held

    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        home = self._scripts.keys.home(lease.timeline)
        revision: int | None = None
        raised = False
        for start in range(0, max(1, len(keys)), MOVED_RECORDS):
            page = keys[start : start + MOVED_RECORDS]
            request = encoding.encode({"token": lease.token, "keys": page, "raised": raised})
            call = Call(home.partition, home.whole, pack((request,)))
            told = encoding.decode(self._scripts.write_one("remove", call, now=now))
            if not told:
                return None
            revision, raised = told
        return revision

    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        home = self._scripts.keys.home(lease.timeline)
        request = encoding.encode({"token": lease.token, "recipients": recipients})
        call = Call(home.partition, home.slot, pack((request,)))
        return encoding.flags(self._scripts.write_one("mark_served", call, now=now))[0]

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        def request(share: list[Lease]) -> bytes:
            return encoding.encode({"lease": lease, "tokens": [held.token for held in share], "crowded": not alone})

        return self._in_shares("extend", leases, lambda held: held.timeline, request, declared="slot", now=now)

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        def request(share: list[Completion]) -> bytes:
            told = [(each.lease.token, each.cool_down, each.max_records, each.receipt) for each in share]
            return encoding.encode({"ring": self._ring, "completions": told})

        return self._in_shares("complete", completions, _timeline_of, request, now=now)

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        def request(share: list[Release]) -> bytes:
            return encoding.encode([(each.lease.token, each.freeze, not each.counted, each.until) for each in share])

        return self._in_shares("release", releases, _timeline_of, request, declared="slot", now=now)

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        answers: list[bool | None] = [None] * len(burials)
        shares = _in_pages(self._shares(burials, _timeline_of))
        calls = [self._burial(partition, [burials[place] for place in places]) for partition, places in shares]
        replies = self._scripts.write("bury", calls, now=now)
        for (_, places), reply in zip(shares, replies, strict=True):
            if isinstance(reply, Refused):
                timeline = burials[places[int(reply.rest) - 1]].lease.timeline
                raise InvalidState(f"{timeline!r} is being merged: take it whole before burying it")
            _fill(answers, places, reply)
        _refuse_failures(answers, replies)
        return [answer is True for answer in answers]

    def _burial(self, partition: int, burials: list[Burial]) -> Call:
        keys: list[Packed] = []
        for burial in burials:
            keys.append(self._scripts.keys.home(burial.lease.timeline).whole)
            keys.append(self._scripts.keys.letters(partition, [burial.lease.digest_id]))
        told = [(b.lease.token, b.lease.digest_id, b.reason, b.cool_down, b.max_records, b.traceback) for b in burials]
        return Call(partition, joined(keys), pack((encoding.encode({"ring": self._ring, "burials": told}),)))

    def listen(self) -> Wakeups:
        return listen(self._link.topology, lambda: self._scripts.keys)

    # Operating

    def delete(self, timeline: str, *, now: Millis | None) -> bool:
        home = self._scripts.keys.home(timeline)
        ids = queries.letter_ids(self._scripts, timeline, limit=PAGE_TIMELINES)
        keys = joined((home.whole, self._scripts.keys.letters(home.partition, ids)))
        entries = queries.places_of(self._scripts, timeline, ring=self._ring)
        request = encoding.encode({"letters": len(ids), "entries": entries})
        with self._naming(timeline):
            reply = self._scripts.write_one("delete", Call(home.partition, keys, pack((request,))), now=now)
        return encoding.flags(reply)[0]

    def sweep(self) -> bool:
        return False  # the server frees what is unlinked by itself, beside its work

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        return self._act("flush", timeline, now=now)

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return self._act("pause", timeline, b"1" if paused else b"0", now=now)

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        try:
            return self._end_letter("replay", letter_id, now=now)
        except Refused:
            raise Busy(f"the timeline of {letter_id} has an unfinished digest; replay it when that has ended") from None

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        return self._end_letter("discard", letter_id, now=now)

    def _end_letter(self, script: str, letter_id: str, *, now: Millis | None) -> bool:
        found = queries.find_letter(self._scripts, letter_id)
        if found is None:
            return False
        home = self._scripts.keys.home(found.timeline)
        keys = joined((home.whole, self._scripts.keys.letters(home.partition, [letter_id])))
        call = Call(home.partition, keys, pack((encoding.encode({"ring": self._ring}),)))
        with self._naming(found.timeline):
            return encoding.flags(self._scripts.write_one(script, call, now=now))[0]

    # Looking

    def inspect(self, timeline: str) -> Slot:
        return queries.inspect(self._scripts, timeline)

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        return queries.scan(self._scripts, prefix=prefix, after=after, limit=limit)

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        return queries.records(self._scripts, timeline, part, after=after, limit=limit)

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        return queries.find(self._scripts, timeline, key)

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        return queries.letters(self._scripts, timeline, after=after, limit=limit)

    def letter(self, letter_id: str) -> DeadLetter | None:
        found = queries.find_letter(self._scripts, letter_id)
        return None if found is None else encoding.dead_letter(found)

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        return queries.letter_records(self._scripts, letter_id, after=after, limit=limit)

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        return queries.letter_with(self._scripts, timeline, key)

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        return queries.history(self._scripts, timeline, limit=limit, ring=self._ring)

    def standing(self, *, now: Millis) -> Standing:
        return queries.standing(self._scripts, now=now)

    def ledger(self) -> Ledger:
        return queries.ledger(self._scripts)

    def verify(self) -> Verification:
        return recount(self._scripts, ring=self._ring)

    def repair(self, partition: int, *, dry_run: bool, now: Millis | None) -> list[Damage]:
        return Repair(self._scripts, partition, ring=self._ring, token=fresh_id(), now=now).run(dry_run=dry_run)

    def footprint(self) -> Mapping[str, int]:
        return footprint(self._scripts)

    def close(self) -> None:
        self._link.close()

    # Finding the way

    def _call(self, partition: int, timelines: Iterable[str], request: bytes, *, declared: Declared = "whole") -> Call:
        homes = map(self._scripts.keys.home, timelines)
        return Call(partition, joined(getattr(home, declared) for home in homes), pack((request,)))

    def _act(self, script: str, timeline: str, *arguments: bytes, now: Millis | None) -> bool:
        home = self._scripts.keys.home(timeline)
        call = Call(home.partition, home.whole, pack(arguments))
        with self._naming(timeline):
            return encoding.flags(self._scripts.write_one(script, call, now=now))[0]

    # Damage

    @contextmanager
    def _naming(self, timeline: str) -> Iterator[None]:
        """Say what is damaged, where a script says only that something is."""
        try:
            yield
        except Refused as error:
            if error.word != DAMAGED:
                raise
            raise self._unreadable(timeline) from None

    def _unreadable(self, timeline: str) -> Unreadable:
        return queries.damage_of(self._scripts, timeline)

    def _tell_of(self, timelines: Iterable[str]) -> None:
        for timeline in timelines:
            self.damages.report(self._unreadable(timeline).damage)

    def _own(self, partition: int, names: list[str]) -> list[str]:
        """Those that belong to the partition in whose schedule they were found; others leave it.

        Their keys would be those of another partition, or their names could not be told.
        """
        keys = self._scripts.keys
        strays = [name for name in names if keys.home(name).partition != partition or legible(name) != name]
        if not strays:
            return names
        raw = [as_bytes(name) for name in strays]
        every(self._scripts.change([Command(partition, ("ZREM", keys.key(partition, o), *raw)) for o in SCHEDULE]))
        for name in strays:
            problem = (
                "it stood in the schedule of another partition" if legible(name) == name else "its name is not UTF-8"
            )
            self.damages.report(Damage(timeline=legible(name), part="place", problem=problem))
        return [name for name in names if name not in strays]

    def _shares(self, items: Sequence[Item], timeline_of: Callable[[Item], str]) -> dict[int, list[int]]:
        """The places of items by the partition of their timeline."""
        shares: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            shares.setdefault(self._scripts.keys.home(timeline_of(item)).partition, []).append(place)
        return shares

    def _in_shares(
        self,
        script: str,
        items: Sequence[Item],
        timeline_of: Callable[[Item], str],
        request: Callable[[list[Item]], bytes],
        *,
        declared: Declared = "whole",
        now: Millis | None,
    ) -> list[bool]:
        """Ask each partition about its share of the items, and put the answers back in their order."""
        answers: list[bool | None] = [None] * len(items)
        shares = _in_pages(self._shares(items, timeline_of))
        calls = []
        for partition, places in shares:
            share = [items[place] for place in places]
            calls.append(self._call(partition, map(timeline_of, share), request(share), declared=declared))
        replies = self._scripts.write(script, calls, now=now)
        for (_, places), reply in zip(shares, replies, strict=True):
            _fill(answers, places, reply)
        _refuse_failures(answers, replies)
        return [answer is True for answer in answers]

    # Forks

    def before_fork(self) -> None:
        """Nothing has to rest: what is under way stays the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """The child is another caller."""
        if in_child and self._dialogue_ is not None:
            self._dialogue_.forget_callers()


def _in_pages(shares: dict[int, list[int]]) -> list[tuple[int, list[int]]]:
    """Shares of partitions, none larger than a call may be."""
    return [
        (partition, places[start : start + ACTED_TIMELINES])
        for partition, places in shares.items()
        for start in range(0, len(places), ACTED_TIMELINES)
    ]


def _timeline_of(item: Completion | Release | Burial) -> str:
    return item.lease.timeline


def _taken(request: Take, told: Sequence[Any]) -> Taken:
    revision, dropped, complete, _, *pages = told
    records = encoding.records(pages[0]) if pages else []
    after = age_order(records[-1]) if records else request.after
    return Taken(revision, dropped, records, after, bool(complete))


def _known(answers: dict[int, Accepted], many: int) -> list[bool | None]:
    return [answers[place].ready if place in answers else None for place in range(many)]


def _fill(answers: list[bool | None], places: Sequence[int], reply: Any) -> None:
    if not isinstance(reply, Exception):
        for place, flag in zip(places, encoding.flags(reply), strict=True):
            answers[place] = flag


def _refuse_failures(answers: list[bool | None], replies: Sequence[Any]) -> None:
    """If partitions failed, raise their error, which carries what is known of the others."""
    for reply in replies:
        if isinstance(reply, StoreError):
            raise reply.knowing(answers)
        if isinstance(reply, Exception):
            raise reply
