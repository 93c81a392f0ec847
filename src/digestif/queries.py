"""`Queries`: the part of `Digests` for operators, who look at timelines and dead letters and act on them."""

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping

from digestif.attempts.failures import failure_of, latest_failures
from digestif.core.backlog import Backlog, Overview, backlog
from digestif.core.capacity import Stored
from digestif.core.damage import Damage
from digestif.core.explain import MOST_LETTERS, Explanation, explain
from digestif.core.failures import FailedAttempt
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import MOVING, Slot
from digestif.core.outages import ChannelOutage
from digestif.core.records import (
    DeadLetter,
    Fate,
    HistoryEntry,
    Outcome,
    Record,
    Sighting,
    State,
    Timeline,
    TimelinesPage,
    check_record_key,
    check_timeline,
)
from digestif.core.removals import RETRACTED_KEYS, Removals
from digestif.core.samples import Sample, with_counts
from digestif.core.sightings import fate_in, possible_fates
from digestif.core.texts import shortened
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.workers import LiveWorker
from digestif.engine import Engine
from digestif.errors import ConfigError, InvalidState, StoreError
from digestif.events.engine import Dropped
from digestif.intake.arrivals import check_limit, check_text, check_time
from digestif.notes.samples import samples
from digestif.notes.workers import is_unhandled, live_workers
from digestif.stored_records import dead_stored, decoded, peek_stored
from digestif.stores.base import HISTORY_KEYS, HISTORY_LIMIT, PAGE_TIMELINES, Requeue, Store
from digestif.stores.deletion import delete_timeline, sweep
from digestif.stores.partitions import visit
from digestif.stores.reader import DUE, PAUSED, Order, Part, Place

COUNTED = 60  # timelines that an overview counts itself, for each number
FRESH: Millis = 60_000  # for which an overview shows the counts of a sample


class Queries:
    """What operators ask of a store, and do with timelines and dead letters."""

    engine: Engine
    store: Store

    # Operating

    def delete(self, timeline: str, *, now: float | None = None) -> bool:
        """Delete a timeline with its records, dead letters, history and kept messages. False if there was nothing.

        It deletes what is there when the call begins, so that it ends however busy producers are.
        """
        key, at = check_timeline(timeline), self.engine.intake.millis(now)
        return delete_timeline(self.store, key, now=at)

    def flush(self, timeline: str, *, now: float | None = None) -> bool:
        """Make a waiting timeline ready now. False if it is not waiting.

        It takes the name of a timeline, not a pattern. True without any record only ends its cool-down.
        """
        return self.store.flush(check_timeline(timeline), now=self.engine.intake.millis(now))

    def pause(self, timeline: str, *, now: float | None = None) -> bool:
        """Stop deliveries of a timeline, which goes on accepting records. False if it is paused already."""
        return self.store.pause(check_timeline(timeline), True, now=self.engine.intake.millis(now))

    def resume(self, timeline: str, *, now: float | None = None) -> bool:
        """End the pause of a timeline. False if it is not paused."""
        return self.store.pause(check_timeline(timeline), False, now=self.engine.intake.millis(now))

    def replay(self, digest_id: str, *, now: float | None = None) -> bool:
        """Make a dead letter the next digest of its timeline. False if there is none; Busy if another is unfinished."""
        letter = self.store.letter(check_text("digest_id", digest_id))
        own = None if letter is None else self.store.inspect(letter.timeline).override
        if letter is not None and own is not None and own.off:
            raise InvalidState(f"{letter.timeline!r} is switched off: prefer() another cadence before you replay")
        return self.store.replay(digest_id, now=self.engine.intake.millis(now))

    def requeue(self, digest_id: str, *, force: bool = False, now: float | None = None) -> bool:
        """Make the records of a dead letter pending again: they go out with the next digest of their timeline.

        False if there is no such letter. InvalidState if it may have gone out or has reached some recipients, unless
        `force` is given; and if its timeline is switched off. A call that was interrupted can be made again.
        """
        letter = self.store.letter(check_text("digest_id", digest_id))
        if letter is None:
            return False
        timeline, moment = letter.timeline, to_millis(self.engine.intake.seconds(now))
        terms, delay = self.engine.policies.terms(timeline, moment), self.engine.policies.of(timeline).cool_down(0)
        request, found = Requeue(digest_id, terms, delay, force), False
        while (page := self.store.requeue(request, now=self.engine.intake.millis(now))) is not None:
            found = True
            if page.dropped:
                self.engine.events.emit(Dropped(timeline=timeline, records=page.dropped))
            if not page.more:
                break
        return found

    def discard(self, digest_id: str, *, now: float | None = None) -> bool:
        """Discard a dead letter; its records count as deleted. False if there is none."""
        found = self.store.discard(check_text("digest_id", digest_id), now=self.engine.intake.millis(now))
        sweep(self.store, wanted=found)
        return found

    # Reading

    def timeline(self, key: str, *, now: float | None = None) -> Timeline:
        """What is known about a timeline; an unknown one is idle."""
        return _timeline(key, self.store.inspect(check_timeline(key)))

    def timelines(
        self,
        state: State | str | None = None,
        prefix: str = "",
        after: str | None = None,
        limit: int = 100,
        *,
        now: float | None = None,
    ) -> list[Timeline]:
        """Stored timelines in the order of their keys; the last key of a page is the `after` of the next."""
        wanted = None if state is None else _state(state)
        check_limit("limit", limit)
        check_text("prefix", prefix)
        after = None if after is None else check_text("after", after)
        found: list[Timeline] = []
        most = PAGE_TIMELINES if wanted is not None else min(limit, PAGE_TIMELINES)
        while len(found) < limit:
            page = self.store.scan(prefix=prefix, after=after, limit=most)
            found += [_timeline(key, slot) for key, slot in page if wanted in (None, slot.state)]
            if len(page) < most:
                break
            after = page[-1][0]
        return found[:limit]

    def timelines_page(
        self,
        state: State | str | None = None,
        prefix: str = "",
        after: str | None = None,
        limit: int = 100,
        paused: bool | None = None,
        *,
        due: bool = False,
        now: float | None = None,
    ) -> TimelinesPage:
        """A page of timelines for people to look at, which reads at most 500 rows or keys of the store.

        Those of a state come in the order of that state's index: waiting and ready ones by their due times, open ones
        by the end of their leases, without paused ones. With `paused` the paused ones come from an index of their own,
        open ones first; with `due` waiting and ready ones come together. Others come in the order of their keys. A page
        may be short or empty although more follow: they do unless `after` is None.
        """
        wanted = None if state is None else _state(state)
        check_limit("limit", limit)
        order = DUE if due else PAUSED if paused else None if wanted is State.IDLE else wanted
        place = None if after is None else _place(check_text("after", after), order)
        found = self.store.look_over(order, prefix=check_text("prefix", prefix), after=place, limit=limit)
        shown = [
            _timeline(key, slot)
            for key, slot in found.timelines
            if key.startswith(prefix) and wanted in (None, slot.state) and paused in (None, slot.paused)
        ]
        return TimelinesPage(shown, None if found.after is None else _cursor(found.after, order))

    def peek(self, key: str, limit: int | None = None, *, now: float | None = None) -> list[Record]:
        """The records that the next digest would carry, newest first; with a limit, only the newest are read."""
        return decoded(self.engine, peek_stored(self.engine, key, limit, now=now).records)

    def explain(self, key: str, *, now: float | None = None) -> Explanation:
        """Why a timeline is due when it is: policy, rule, arithmetic, window, and what would change it."""
        slot = self.store.inspect(check_timeline(key))
        found = self.engine.policies.in_force(key, slot.override)
        at = to_millis(self.engine.intake.seconds(now))
        outage, moving = self.engine.outages.shown_for(key, now=at), self.store.moving_since() is not None
        workers = self.workers(now=now)
        return explain(
            key,
            slot,
            now=at,
            found=found,
            outage=outage,
            failed=failure_of(self.store, key, slot, now=at),
            letters=self.dead_letters(key, limit=MOST_LETTERS),
            moving=moving,
            unhandled=is_unhandled(key, workers),
            unattended=not workers,
        )

    def trace(self, timeline: str, record_key: str, *, now: float | None = None) -> list[Sighting]:
        """Where the versions of a record are, or what became of them as far as history reaches; the latest first.

        After these comes what may have happened to a later version, or to one that was not found, with
        `certain=False`. An empty list: no such record was ever seen, or its timeline was deleted.
        """
        found = self.store.find(check_timeline(timeline), check_record_key(record_key))
        slot, history = self.store.inspect(timeline), self.store.history(timeline, limit=HISTORY_LIMIT)
        removals = self.store.removals(timeline)
        held = list(_held(slot, found, record_key))
        ended = sorted(self._ended(timeline, record_key, held, history, removals), key=_end, reverse=True)
        if held:
            return [*held, *ended]
        last = _end(ended[0]) if ended else None
        possible = list(possible_fates(slot, history, removals, after=last, kept_keys=HISTORY_KEYS))
        if not ended:
            possible += self._forgotten(timeline, removals)
        return [*ended, *possible]

    def _forgotten(self, timeline: str, removals: Removals) -> Iterator[Sighting]:
        """That a record may have ended before what is kept; nothing if nothing was forgotten."""
        kept_since = self.store.kept_since(timeline)
        times = [] if kept_since is None else [kept_since]
        if len(removals.retracted) == RETRACTED_KEYS:
            times.append(removals.retracted[0][1])
        if times:
            yield Sighting(Fate.FORGOTTEN, ended=to_seconds(max(times)), certain=False)

    def _ended(
        self,
        timeline: str,
        record_key: str,
        held: list[Sighting],
        history: list[HistoryEntry],
        removals: Removals,
    ) -> Iterator[Sighting]:
        """What became of the versions of a record that the timeline no longer holds. Of each digest once."""
        known = {sighting.digest_id for sighting in held}  # where the digest is now says more
        letter = self.store.letter_with(timeline, record_key)
        if letter is not None and letter.id not in known:
            known.add(letter.id)
            yield Sighting(Fate.DEAD, letter.id, letter.buried)
        for entry in history:
            if entry.id in known:
                continue
            if record_key in entry.left_out:
                known.add(entry.id)
                yield Sighting(Fate.LEFT_OUT, entry.id, entry.ended)
            elif record_key in entry.keys and not self._was_requeued(entry):
                known.add(entry.id)
                yield Sighting(fate_in(entry), entry.id, entry.ended)
        for key, at in reversed(removals.retracted):
            if key == record_key:
                yield Sighting(Fate.RETRACTED, ended=to_seconds(at))

    def _was_requeued(self, entry: HistoryEntry) -> bool:
        """True if the digest became a dead letter that is gone, or has lost records: they are pending again, or were.

        A letter that was replayed or discarded has a later entry of the same id.
        """
        letter = self.store.letter(entry.id) if entry.outcome is Outcome.DEAD else None
        return entry.outcome is Outcome.DEAD and (letter is None or letter.revision != entry.revision)

    def backlog(self, *, now: float | None = None) -> Backlog:
        """How many timelines are stored, how many are due, and how late the most overdue one is."""
        at = self.engine.time(0, self.engine.intake.millis(now))
        ttl = self.engine.policies.shortest_ttl  # for records with a longer ttl the age is too low, never too high
        return backlog(self.store.standing(now=at), now=at, ttl=None if ttl is None else to_millis(ttl))

    def overview(self, *, now: float | None = None) -> Overview:
        """The backlog with few rows read: in a large store the counts of timelines are those of the last sample."""
        at = self.engine.time(0, self.engine.intake.millis(now))
        standing = self.store.standing(now=at, most=COUNTED)
        at_least = not self.store.counts_at_once and max(standing.timelines, standing.due) >= COUNTED
        found = samples(self.store, since=at - FRESH, now=at)[-1:] if at_least else []
        for last in found:
            standing = with_counts(standing, last)
        ttl = self.engine.policies.shortest_ttl
        shown = backlog(standing, now=at, ttl=None if ttl is None else to_millis(ttl))
        counted = found[0].at if found else to_seconds(at)
        return Overview(backlog=shown, counted=counted, at_least=at_least and not found)

    def outages(self, *, now: float | None = None) -> list[ChannelOutage]:
        """The channels that are unavailable, or have just come back: why, since when, and when that is tried again."""
        return self.engine.outages.shown(now=self.engine.time(0, self.engine.intake.millis(now)))

    def failures(self, limit: int = 10, *, now: float | None = None) -> list[FailedAttempt]:
        """Why digests failed that are tried again, the latest first. It looks at the latest 50 failures."""
        check_limit("limit", limit)
        return latest_failures(self.store, limit=limit, now=self.engine.time(0, self.engine.intake.millis(now)))

    def workers(self, *, now: float | None = None) -> list[LiveWorker]:
        """The workers of all processes that were seen in the last minute, by name, and which timelines they serve."""
        return live_workers(self.store, now=self.engine.time(0, self.engine.intake.millis(now)))

    def samples(self, since: float | None = None, *, now: float | None = None) -> list[Sample]:
        """What was counted every ten seconds in the last 24 hours, the oldest first; workers and services note it."""
        first = None if since is None else to_millis(check_time("since", since))
        return samples(self.store, since=first, now=self.engine.time(0, self.engine.intake.millis(now)))

    def ledger(self, *, now: float | None = None) -> Ledger:
        """How many records were accepted, and what became of them."""
        return self.store.ledger()

    def check(self, *, now: float | None = None) -> list[str]:
        """Connect to the store, try every partition, and return what is wrong, in words; empty if nothing is.

        Tries whether the server may keep records and takes writes. A program that starts can refuse to go on then.
        """
        try:
            self.store.reach()
            self.store.products()  # where a server can be unfit, this examines it
        except (StoreError, ConfigError) as error:
            return [str(error)]
        problems: dict[str, None] = {}  # partitions of one server fail alike
        for partition in range(self.store.partitions):
            try:
                self.store.swap_note(partition, "never written", None, None)  # a write that changes nothing
            except (StoreError, ConfigError) as error:
                problems[str(error)] = None
        if not problems and self.store.moving_since() is not None:
            problems[MOVING] = None
        return list(problems)

    def verify(self, *, now: float | None = None) -> Verification:
        """Recount the records in the store and compare with the ledger; true if they agree and nothing is damaged."""
        return self.store.verify()

    def repair(self, *, dry_run: bool = False, now: float | None = None) -> list[Damage]:
        """Repair what is damaged in the store and return it; a dry run only returns it.

        Records of damaged timelines become dead letters, which can be read, replayed and discarded.
        """
        at = self.engine.intake.millis(now)

        def damages(partition: int) -> Iterator[Damage]:
            yield from self.store.repair(partition, dry_run=dry_run, now=at)

        return list(visit(self.store, "repair", damages, self.engine.events))

    def dead_letters(
        self,
        timeline: str | None = None,
        after: str | None = None,
        limit: int = 100,
        *,
        now: float | None = None,
    ) -> list[DeadLetter]:
        """Dead letters, the oldest first; the last id of a page is the `after` of the next."""
        check_limit("limit", limit)
        of = None if timeline is None else check_timeline(timeline)
        after = None if after is None else check_text("after", after)
        found: list[DeadLetter] = []
        while len(found) < limit:
            wanted = min(limit - len(found), PAGE_TIMELINES)
            page = self.store.letters(of, after=after, limit=wanted)
            found += page
            if len(page) < wanted:
                break
            after = page[-1].id
        return found

    def dead_records(self, digest_id: str, limit: int | None = None, *, now: float | None = None) -> list[Record]:
        """The records of a dead letter whose values can be read, newest first; with a limit, only the newest."""
        return decoded(self.engine, dead_stored(self.engine, digest_id, limit))

    def history(
        self, timeline: str | None = None, limit: int = 100, *, prefix: str = "", now: float | None = None
    ) -> list[HistoryEntry]:
        """Digests that ended lately, the latest first: those of a timeline, or of all that begin with the prefix."""
        check_limit("limit", limit)
        of = None if timeline is None else check_timeline(timeline)
        return self.store.history(of, limit=min(limit, HISTORY_LIMIT), prefix=check_text("prefix", prefix))


def _held(slot: Slot, found: Mapping[Part, Stored], record_key: str) -> Iterator[Sighting]:
    """The versions of a record that a timeline holds, or that its unfinished digest left out."""
    if Part.PENDING in found:
        yield Sighting(Fate.PENDING)
    if slot.digest is not None and Part.DIGEST in found:
        yield Sighting(Fate.OPEN, slot.digest.id)
    elif slot.digest is not None and record_key in slot.digest.left_out:
        yield Sighting(Fate.LEFT_OUT, slot.digest.id)


def _end(sighting: Sighting) -> float:
    return sighting.ended or 0.0


def _state(state: State | str) -> State:
    try:
        return State(state)
    except ValueError:
        raise ConfigError(f"state: {shortened(state)} is none of {', '.join(State)}") from None


def _cursor(place: Place, order: Order | None) -> str:
    """A place in an order of timelines as one word, for callers to give back."""
    return urlsafe_b64encode(json.dumps([order, *place], separators=(",", ":")).encode()).decode().rstrip("=")


def _place(cursor: str, order: Order | None) -> Place:
    """The place that a cursor names. ConfigError if it is none, or belongs to another order."""
    try:
        of, *place = json.loads(b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        of, place = "?", []
    sound = of == order and place and all(type(part) in (int, str) for part in place)
    if not sound or any(type(part) is int and abs(part) >= 2**62 for part in place):
        raise ConfigError(f"after: {shortened(cursor)} is not the `after` of a page of these timelines")
    return tuple(place)


def _timeline(key: str, slot: Slot) -> Timeline:
    return Timeline(
        key=key,
        state=slot.state,
        due=to_seconds(slot.at) if slot.state is State.WAITING else None,
        pending=slot.pending,
        last=None if slot.last is None else to_seconds(slot.last),
        iteration=slot.iteration,
        paused=slot.paused,
        in_digest=0 if slot.digest is None else slot.digest.records,
        was_due=to_seconds(slot.at) if slot.state is State.READY else None,
        off=slot.override is not None and slot.override.off,
        cadence=None if slot.override is None else slot.override.cadence,
    )
