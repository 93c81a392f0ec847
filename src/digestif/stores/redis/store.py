"""`redis://` and its kin: timelines in Redis or Valkey, on one server or a cluster.

Every verb is one script call per partition, pipelined. A verb that finds timelines itself, such as those that are due,
first queries their names, then declares their keys in the call that acts, which checks each timeline again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from weakref import WeakSet

import msgspec

from digestif.core import machine
from digestif.core.damage import Damage
from digestif.core.ledger import Verification
from digestif.core.machine import Slot
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis
from digestif.errors import Busy, StoreError
from digestif.events.base import Event, Events
from digestif.ids import fresh_id
from digestif.stores.base import (
    PAGE_RECORDS,
    PAGE_TIMELINES,
    Accepted,
    Arrival,
    Due,
    Durability,
    Maintained,
    Replan,
    Requeue,
    Requeued,
    SchedulePage,
    Wakeups,
)
from digestif.stores.fork import watch
from digestif.stores.redis import encoding
from digestif.stores.redis.batches import Batches, Share
from digestif.stores.redis.calls import VALUELESS, Call, Scripts
from digestif.stores.redis.checks import Findings, examine
from digestif.stores.redis.client.commands import ScriptRefused, joined
from digestif.stores.redis.client.link import Link, all_required, required
from digestif.stores.redis.documents import RedisDocuments
from digestif.stores.redis.encoding import StoredLetter
from digestif.stores.redis.keys import Keys, as_text
from digestif.stores.redis.layout import Layouts
from digestif.stores.redis.leases import MOVED_RECORDS, RedisLeases
from digestif.stores.redis.queries import RedisQueries
from digestif.stores.redis.repair import Repair
from digestif.stores.redis.survey import footprint, verify
from digestif.stores.redis.transfer import RedisTransfer
from digestif.stores.redis.verbs import ACTED_TIMELINES, damage_of
from digestif.stores.redis.wakeups import listen

EXPIRED_RECORDS = 500
DAMAGED_FLAG = ord("!")  # the answer for a timeline that is damaged
LEFT_FLAG = ord("?")  # …for a record that was left out, because the call does not declare the orders that it needs


class RedisStore(RedisQueries, RedisLeases, RedisTransfer, RedisDocuments):
    """Timelines in Redis or Valkey, over a link."""

    def __init__(self, link: Link, *, namespace: str = "d", partitions: int | None = None, clustered: bool) -> None:
        super().__init__()
        self.namespace = namespace
        self._link = link
        self._wanted_partitions = partitions
        self._clustered = clustered
        self._findings: Findings | None = None
        self._known_scripts: Scripts | None = None
        self._known_batches: Batches | None = None
        self._listeners: WeakSet[Events] = WeakSet()
        watch(self)

    def report_to(self, events: Events) -> None:
        self._listeners.add(events)

    def _emit(self, event: Event) -> None:
        for events in list(self._listeners):
            events.emit(event)

    @property
    def _scripts(self) -> Scripts:
        if self._known_scripts is None:
            self.examine()
        assert self._known_scripts is not None
        return self._known_scripts

    def examine(self, *, patience: float | None = None) -> Findings:
        """Check that the server is fit; ConfigError says what is wrong, StoreUnavailable that it can't be reached."""
        found = examine(
            self._link,
            namespace=self.namespace,
            partitions=self._wanted_partitions,
            clustered=self._clustered,
            patience=patience,
        )
        self._known_scripts = self._known_scripts or self._begin(found)
        self._findings = found
        return found

    def _begin(self, found: Findings) -> Scripts:
        keys = Keys(self.namespace, found.partitions)
        layouts = Layouts(self._link, keys, found.layout, emit=self._emit)
        layouts.enter(range(keys.partitions), patience=0)  # the first use enters those that can't be reached now
        return Scripts(self._link, keys, layouts, self.damages)

    @property
    def _batches(self) -> Batches:
        if self._known_batches is None:
            self._known_batches = Batches(self._scripts.keys)
        return self._known_batches

    @property
    def partitions(self) -> int:  # type: ignore[override]  # known once the server was examined
        return self._scripts.keys.partitions

    @property
    def durability(self) -> Durability:  # type: ignore[override]  # likewise
        return (self._findings or self.examine()).durability

    def time(self, partition: int) -> Millis:
        return self._scripts.time(partition)

    def partition_of(self, timeline: str) -> int:
        return self._scripts.keys.partition_of(timeline)

    @property
    def is_divided(self) -> bool:
        return self._link.topology.is_divided

    def is_silent(self, timeline: str) -> bool:
        return self._link.misses_nodes and self._link.is_silent(self.partition_of(timeline))

    def reach(self) -> None:
        answers = list(self._link.ask_all("PING", patience=0.0).values())
        if all(isinstance(answer, Exception) for answer in answers):
            raise answers[0]

    def products(self) -> Mapping[str, str]:
        found = sorted(set(self.examine().versions.values()))
        return dict(product.split(" ", 1) for product in found)

    def listen(self) -> Wakeups:
        return listen(self._link.topology, lambda: self._scripts.keys)

    def close(self) -> None:
        self._link.close()

    def before_fork(self) -> None:
        """Calls under way stay the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child and self._known_scripts is not None:
            self._known_scripts.forget_callers()

    # Producing

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        if len(batch) == 1:
            return [self._add_alone(batch[0], now=now)]
        answers: list[Accepted | None] = [None] * len(batch)
        failure: StoreError | None = None
        positions: Sequence[int] = range(len(batch))
        while positions:
            left: list[int] = []  # out of the calls: the next ones declare the orders that these need
            try:
                for shares in self._batches.shares(batch, positions):
                    self._add_shares(shares, batch, answers, left, now=now)
            except StoreError as error:
                failure = failure or error
            positions = left
        if failure is not None:
            raise failure.knowing([answer and answer.ready for answer in answers])
        return [answer for answer in answers if answer is not None]

    def _add_alone(self, arrival: Arrival, *, now: Millis | None) -> Accepted:
        reply = self._scripts.write_one("add", self._batches.call_alone(arrival), now=now)
        if reply[0] == LEFT_FLAG:
            self._batches.remember_large(arrival.timeline)
            reply = self._scripts.write_one("add", self._batches.call_alone(arrival, is_large=True), now=now)
        if reply[0] == DAMAGED_FLAG:
            raise damage_of(self._scripts, arrival.timeline)
        return encoding.accepted(reply, 1, with_due=arrival.asks_due)[0]

    def _add_shares(
        self,
        shares: Iterable[Share],
        batch: Sequence[Arrival],
        answers: list[Accepted | None],
        left: list[int],
        *,
        now: Millis | None,
    ) -> None:
        """Send shares of a batch while they are made. Note answers, and what was left out; raise the first error."""
        sent: list[Share] = []
        replies = self._scripts.write_in_turn("add", _calls(shares, sent), now=now)
        damaged: list[int] = []  # positions of records whose timelines are damaged
        for share, reply in zip(sent, replies, strict=True):
            if isinstance(reply, Exception):
                continue
            flags = reply[: len(share.positions)]
            found = encoding.accepted(reply, len(flags), with_due=share.asks_due)
            for position, accepted in zip(share.positions, found, strict=True):
                answers[position] = accepted
            damaged += _flagged(share, flags, DAMAGED_FLAG)
            for position in _flagged(share, flags, LEFT_FLAG):
                answers[position] = None
                left.append(position)
                self._batches.remember_large(batch[position].timeline)
        for position in damaged:
            answers[position] = None
        all_required(replies)
        if damaged:
            raise damage_of(self._scripts, batch[min(damaged)].timeline)

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        return self._change("retract", timeline, key.encode(), encoding.encode(self._rings_of([timeline])), now=now)

    # Dispatching

    def schedule(
        self,
        partition: int,
        deadline: Millis,
        *,
        after: tuple[int | str, ...] | None,
        limit: int,
        now: Millis | None,
        asks: bool = False,
    ) -> SchedulePage:
        limit = min(limit, ACTED_TIMELINES)
        request = {"deadline": deadline, "limit": limit, "after": after and after[1:]}
        number, *flat = self._scripts.query_one("due", Call.of(partition, request))
        began = int(number) if after is None else int(after[0])
        times = {as_text(name): int(float(at)) for name, at in zip(flat[::2], flat[1::2], strict=True)}
        found = [Due(name, times[name]) for name in self._without_strays(partition, list(times))]
        page = self._make_ready(partition, found, began=began, now=now, asks=asks)
        last = list(times.items())[-1] if len(times) == limit else None
        return page._replace(after=None if last is None else (began, last[1], last[0]))

    def _make_ready(
        self, partition: int, found: list[Due], *, began: int, now: Millis | None, asks: bool
    ) -> SchedulePage:
        if not found:
            return SchedulePage([], None)
        request = {"began": began, "times": [due.at for due in found], "asks": asks}
        call = self._call(partition, [due.timeline for due in found], request, declared="slot")
        flags, at, candidates = encoding.decode(self._scripts.write_one("schedule", call, now=now))
        marked = list(zip(found, flags.encode(), strict=True))
        self._report_damaged([due.timeline for due, flag in marked if flag == DAMAGED_FLAG])
        entries = [due for due, moved in zip(found, encoding.flags(flags.encode()), strict=True) if moved]
        return SchedulePage(entries, None, tuple([encoding.candidate(each, at) for each in candidates]))

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        [answer] = self.maintain_each([partition], deadline, limit=limit, now=now)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def maintain_each(
        self, partitions: Sequence[int], deadline: Millis | None, *, limit: int, now: Millis | None
    ) -> list[Maintained | StoreError]:
        limit = min(limit, ACTED_TIMELINES)
        calls = [Call.of(each, {"deadline": deadline, "limit": limit}) for each in partitions]
        answers: list[Maintained | StoreError] = []
        for partition, reply in zip(partitions, self._scripts.query_each("overdue", calls, now=now), strict=True):
            try:
                *lists, evicts = required(reply)
                if evicts:
                    self._scripts.report_eviction(evicts.decode())  # and go on: deliveries empty the server
                answers.append(self._maintain(partition, lists, deadline, full=limit in map(len, lists), now=now))
            except StoreError as error:
                answers.append(error)
        return answers

    def _maintain(
        self, partition: int, lists: list[list[bytes]], deadline: Millis | None, *, full: bool, now: Millis | None
    ) -> Maintained:
        stale, lapsed, expiring = (self._without_strays(partition, list(map(as_text, names))) for names in lists)
        timelines = [*stale, *lapsed, *expiring]
        if not timelines:
            return Maintained([], [], [], full)
        numbers = {"stale": len(stale), "lapsed": len(lapsed), "expiring": len(expiring)}
        rings = self._rings_of(timelines)
        request: dict[str, object] = {"deadline": deadline, "limit": EXPIRED_RECORDS, **rings, **numbers}
        reply = self._scripts.write_one("maintain", self._call(partition, timelines, request), now=now)
        moved, gone, expired, more, damaged = encoding.decode(reply)
        self._report_damaged([timelines[number - 1] for number in damaged])
        return Maintained([Due(*each) for each in moved], gone, [(name, many) for name, many in expired], more or full)

    # Operating

    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        own = self._scripts.keys.of(timeline)
        ids = self._letter_ids(timeline, limit=PAGE_TIMELINES)
        keys = joined((own.whole, self._scripts.keys.letters(own.partition, ids)))
        entries = self._history_fields(timeline)
        request = {"letters": len(ids), "entries": entries, "ring": self._ring, "token": token or False}
        return self._flag("delete", timeline, Call.of(own.partition, request, keys), now=now)

    def sweep(self) -> bool:
        return False  # the server frees what was unlinked by itself

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        return self._change("flush", timeline, now=now)

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return self._change("pause", timeline, b"1" if paused else b"0", now=now)

    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        self._change("set_override", timeline, encoding.encode(override), now=now)

    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        return self._change("clear_override", timeline, encoding.encode((terms, cool_down)), now=now)

    def refresh_override(self, timeline: str, override: Override) -> bool:
        return self._change("refresh_override", timeline, encoding.encode(override), now=None)

    def replan(self, replans: Sequence[Replan], *, now: Millis | None) -> list[bool]:
        def call(partition: int, share: list[Replan]) -> Call:
            wanted = [(*encoding.seen(each.seen), each.terms, each.cool_down) for each in share]
            return self._call(partition, [each.timeline for each in share], wanted)

        return self._write_shares("replan", replans, lambda each: each.timeline, call, now=now)

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        try:
            return self._end_letter("replay", letter_id, now=now)
        except ScriptRefused as error:
            self._refuse_without_value(letter_id, error)
            raise Busy(f"the timeline of {letter_id} has an unfinished digest; replay it when that has ended") from None

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        return self._end_letter("discard", letter_id, now=now)

    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        found = self._find_letter(request.letter_id)
        if found is None:
            return None
        _, terms, delay, force = request
        wanted = {"terms": terms, "delay": delay, "force": force, "limit": min(limit, MOVED_RECORDS)}
        try:
            with self._naming_damage(found.timeline):
                reply = self._scripts.write_one("requeue", self._letter_call(found, wanted), now=now)
        except ScriptRefused as error:
            self._refuse_without_value(found.id, error)
            raise
        moved, *rest = encoding.decode(reply)
        if moved is not False:
            dropped, more, gone = rest
            self._report_losses([(found.timeline, gone)] if gone else [])
            return Requeued(moved, dropped, more)
        if rest:
            slot, letter = msgspec.convert(rest, tuple[Slot, StoredLetter])
            machine.refuse_requeue(slot, encoding.dead_letter(letter), force=force)
            raise StoreError(f"{found.id}: the server refused to requeue it and does not say why")
        return None

    def _refuse_without_value(self, letter_id: str, error: ScriptRefused) -> None:
        letter = self.letter(letter_id) if error.word == VALUELESS else None
        if letter is not None:
            machine.refuse_without_value(letter, is_missing=True)

    def _end_letter(self, script: str, letter_id: str, *, now: Millis | None) -> bool:
        found = self._find_letter(letter_id)
        if found is None:
            return False
        return self._flag(script, found.timeline, self._letter_call(found, self._rings_of([found.timeline])), now=now)

    def _letter_call(self, letter: StoredLetter, request: object) -> Call:
        own = self._scripts.keys.of(letter.timeline)
        keys = joined((own.whole, self._scripts.keys.letters(own.partition, [letter.id])))
        return Call.of(own.partition, request, keys)

    def verify(self) -> Verification:
        return verify(self._scripts, ring=self._ring)

    def repair(self, partition: int, *, dry_run: bool, now: Millis | None) -> list[Damage]:
        return Repair(self._scripts, partition, ring=self._ring, token=fresh_id(), now=now).run(dry_run=dry_run)

    def footprint(self) -> Mapping[str, int]:
        return footprint(self._scripts)


def _flagged(share: Share, flags: bytes, wanted: int) -> list[int]:
    """The positions of records with this flag."""
    if wanted not in flags:  # the usual case
        return []
    return [position for position, flag in zip(share.positions, flags, strict=True) if flag == wanted]


def _calls(shares: Iterable[Share], sent: list[Share]) -> Iterator[Call]:
    """The calls of shares, each of which is noted when its call is made."""
    for share in shares:
        sent.append(share)
        yield share.call
