"""The book: what was done to a store and what it answered, kept apart from it, and what must be true of that.

It knows nothing of the rules by which timelines become due. It knows who was given which lease, which records were read
and handed out under which key, how attempts ended, and so which answers a store that keeps its promises can give.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import Any

from digestif.attempts.delivery import Delivery
from digestif.attempts.stages import Completed
from digestif.core.ledger import Ledger
from digestif.core.machine import Slot
from digestif.core.policy import Policy
from digestif.core.records import State
from digestif.core.times import Millis
from digestif.core.verdicts import DeliveryFailed
from digestif.stores.base import (
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Lease,
    Maintained,
    QuarantinedRecord,
    Release,
    Requeue,
    Requeued,
    Store,
    SuspectGroup,
    Take,
    Taken,
)
from tests.chaos.sources import Pages

IS_POISON = "it ends its workers"  # what the reason of a dead letter says


class Violation(BaseException):
    """A promise was broken. Not an Exception, so that nothing on the way takes it for a failure of the store."""


@dataclass(slots=True)
class Version:
    """One accepted version of a record, and what surely became of it."""

    timeline: str
    key: str
    fate: str | None = None
    handings: "list[Handing]" = field(default_factory=list)


@dataclass(slots=True)
class Handing:
    """An attempt that was handed to a handler."""

    token: str
    digest_id: str
    key: str  # of idempotency
    failed: bool = False  # the handler raised …
    counts: bool = True  # … and that counts as an attempt
    reported: bool = False  # … of which the store heard in time


@dataclass(slots=True)
class Hold:
    """A lease that has not been ended."""

    token: str
    digest_id: str
    until: Millis
    group: int  # the size that is noted of its group of suspects; 0: none
    is_given_back: bool = False  # its holder let it end: a suspect for which there was no memory
    keeps_group: bool = False  # others began beside it after it had lapsed, or when the store could not be told


@dataclass(slots=True)
class Life:
    """What a digest has been through."""

    attempt: int = 0
    lapses: int = 0
    lapses_alone: int = 0
    largest: int = 0  # group in which it may be tried; 0: any
    ended: bool = False


@dataclass(slots=True)
class Letter:
    timeline: str
    versions: tuple[int, ...]


class Book:
    """Sees every call that takes effect, and every digest that is handed out."""

    def __init__(self, store: Store, policies: dict[str, Policy], pages: Pages, poison: Set[int]) -> None:
        self._store = store
        self._policies = policies
        self._pages = pages
        self._poison = poison  # versions that end the worker that delivers them
        self.versions: dict[int, Version] = {}  # by number, the value of the record
        self.holds: dict[str, Hold] = {}  # by timeline
        self.handings: dict[tuple[str, str], Handing] = {}  # by token and timeline
        self._latest: dict[tuple[str, str], int] = {}  # version by timeline and record key
        self._paused: set[str] = set()
        self._lives: dict[str, Life] = {}
        self._letters: dict[str, Letter] = {}
        self._pages_read: dict[tuple[str, str], list[int]] = {}
        self._contents: dict[tuple[str, str], tuple[int, ...]] = {}  # as read to the end, by token and timeline
        self._carried: dict[str, tuple[int, ...]] = {}  # by idempotency key
        self._last: tuple[Ledger, tuple[int, int, int]] | None = None  # when it was checked
        self._broken: set[str] = set()  # digests of which a record was quarantined: they can't come again as they were
        self._counts = dict.fromkeys(("delivered", "dead", "deleted"), 0)

    # Before and after each call

    def expect(self, verb: str, args: tuple[Any, ...], at: Millis) -> "Expectation | None":
        """What has to come of a call that needs leases."""
        if verb not in LEASES_OF:
            return None
        leases = LEASES_OF[verb](args[0])
        held = [self.is_held(lease, at) for lease in leases]
        stale = {lease.timeline for lease, is_held in zip(leases, held, strict=True) if not is_held}
        stale -= {lease.timeline for lease, is_held in zip(leases, held, strict=True) if is_held}
        return Expectation(held, {timeline: self._store.inspect(timeline) for timeline in stale})

    def saw(
        self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any, at: Millis, expected: Any
    ) -> None:
        if expected is not None:
            self._compare(verb, answer, expected)
        note = getattr(self, f"_saw_{verb}", None)
        if note is not None:
            note(*args, answer=answer, at=at, **kwargs)
        if verb != "extend" and not _is_nothing(answer):  # the next call will tell, too
            self._check_counts()

    def is_held(self, lease: Lease, at: Millis) -> bool:
        hold = self.holds.get(lease.timeline)
        return hold is not None and hold.token == lease.token and at < hold.until

    def _compare(self, verb: str, answer: Any, expected: "Expectation") -> None:
        given = [answer] if verb == "quarantine" else [each is not None and each is not False for each in answer]
        require(given == expected.held, "{} answered {}, the leases say {}", verb, given, expected.held)
        for timeline, before in expected.unchanged.items():
            after = self._store.inspect(timeline)
            require(before == after, "{} with a stale token changed {!r}: {} became {}", verb, timeline, before, after)

    def _check_counts(self) -> None:
        ledger = self._store.ledger()
        counts = len(self.versions), self._counts["delivered"], self._counts["dead"]
        if (ledger, counts) == self._last:
            return
        self._last = ledger, counts
        require(ledger.balanced, "not balanced: {}", ledger)
        require(ledger.accepted == len(self.versions), "{} were accepted: {}", len(self.versions), ledger)
        require(ledger.delivered == self._counts["delivered"], "{} were delivered: {}", self._counts, ledger)
        require(ledger.dead == self._counts["dead"], "{} are dead: {}", self._counts, ledger)

    # Producing

    def _saw_add(self, batch: Sequence[Arrival], *, answer: list[bool], at: Millis, now: Millis | None) -> None:
        require(len(batch) <= self._pages.records, "{} records in one add", len(batch))
        for arrival in batch:
            number = number_in(arrival.payload)
            self.versions[number] = Version(arrival.timeline, arrival.key)
            self._latest[arrival.timeline, arrival.key] = number

    def _saw_retract(self, timeline: str, key: str, *, answer: bool, at: Millis, now: Millis | None) -> None:
        if answer:
            self._end([self._latest[timeline, key]], "deleted")

    # Leases

    def _saw_claim(
        self,
        partition: int,
        limit: int,
        *,
        answer: ClaimPage,
        at: Millis,
        token: str,
        lease: Millis,
        now: Millis | None,
        asks: bool,
    ) -> None:
        leases = answer.leases
        require(limit <= self._pages.timelines, "asked for {} leases in one call", limit)
        require(len(leases) + answer.retired <= limit, "{} leases, {} were asked for", len(leases), limit)
        require(len({each.timeline for each in leases}) == len(leases), "the same timeline twice in one claim")
        suspects = self._suspects(at)
        require(answer.suspect == min(suspects.values(), default=None), "have lapsed: {}, {}", suspects, answer)
        for each in leases:
            require(each.timeline not in suspects, "a suspect was claimed with the others: {}", each)
            require(not self._leased(each, at, token=token, until=at + lease), "it is noted as alone: {}", each)
        if len(leases) + answer.retired < limit:
            due = self._store.standing(now=at).due
            require(due == len(suspects), "a claim with room for more left {} that are due, {}", due, suspects)

    def _saw_claim_suspects(
        self,
        partition: int,
        group: SuspectGroup,
        *,
        answer: ClaimPage,
        at: Millis,
        token: str,
        lease: Millis,
        now: Millis | None,
        asks: bool,
    ) -> None:
        leases, suspects, size = answer.leases, self._suspects(at), answer.size
        largest = {timeline: self._largest_group(timeline) for timeline in suspects}
        firsts = {timeline for timeline, until in suspects.items() if until == min(suspects.values())}
        noted = [self._leased(each, at, token=token, until=at + lease) for each in leases]
        if group.is_decided or answer.retired:
            firsts = set()  # they were passed over, or some of them were empty
        else:
            require(bool(leases) or not suspects, "have lapsed: {}, none was claimed", suspects)
        require(len(leases) + answer.retired <= group.limit, "too many suspects at once: {}", leases)
        require(size == group.size or not group.is_decided, "a group of {}, then of {}", group, size)
        if answer.retired:
            self._forget_retired(at)
        for each in leases:
            require(each.timeline in suspects, "not a suspect: {}", each)
            require(largest[each.timeline] >= size, "it may be tried with {}: {}", largest[each.timeline], leases)
        require(not firsts or any(each.timeline in firsts for each in leases), "{} first, not {}", firsts, leases)
        sizes = {min(group.size, largest[each]) for each in firsts}
        require(not firsts or size in sizes, "the first may be tried with {}, not {}", sizes, size)
        for each, found in zip(leases, noted, strict=True):
            wanted = size if group.alone and each.lapses else 0  # it is another digest if that had no records
            require(found == wanted, "noted as a group of {}, not {}: {}", found, wanted, each)

    def _largest_group(self, timeline: str) -> float:
        """How many suspects may be tried beside each other with this one: half of those that it lapsed with."""
        hold = self.holds[timeline]
        return (hold.group and max(1, hold.group // 2)) or self._lives[hold.digest_id].largest or inf

    def _suspects(self, at: Millis) -> dict[str, Millis]:
        """Timelines whose lease has lapsed, and when."""
        holds = self.holds.items()
        return {name: hold.until for name, hold in holds if hold.until <= at and name not in self._paused}

    def _saw_open(
        self,
        timeline: str,
        *,
        answer: Lease,
        at: Millis,
        alone: bool,
        token: str,
        lease: Millis,
        now: Millis | None,
        asks: bool,
    ) -> None:
        noted = self._leased(answer, at, token=token, until=at + lease)
        require(noted == int(alone and answer.lapses > 0), "alone? {}, noted as {}: {}", alone, noted, answer)

    def _leased(self, lease: Lease, at: Millis, *, token: str, until: Millis) -> int:
        """A lease was given. The answer is the size of its group of suspects, as it is noted."""
        timeline = lease.timeline
        require((lease.token, lease.until) == (token, until), "asked with {} until {}: {}", token, until, lease)
        before = self.holds.get(timeline)
        require(timeline not in self._paused, "{!r} is paused and was claimed", timeline)
        require(before is None or before.until <= at, "{!r} was claimed under a live lease: {}", timeline, before)
        require(lease.lapsed == (before is not None), "lapsed? {}, before it {}", lease, before)
        if before is not None:
            self._lapse(timeline)
        life = self._lives.setdefault(lease.digest_id, Life())
        life.attempt += 1
        require(not life.ended, "a digest that ended came again: {}", lease)
        counted = lease.attempt, lease.lapses, lease.lapses_alone
        require(counted == (life.attempt, life.lapses, life.lapses_alone), "{}, but it was {}", lease, life)
        group = self._store.inspect(timeline).group
        self.holds[timeline] = Hold(lease.token, lease.digest_id, lease.until, group)
        return group

    def _lapse(self, timeline: str) -> None:
        hold = self.holds.pop(timeline)
        life = self._lives[hold.digest_id]
        life.lapses += 1
        life.lapses_alone += hold.group == 1
        life.largest = max(1, hold.group // 2) if hold.group else life.largest

    def group_of(self, lease: Lease) -> int:
        """The size of its group of suspects that is noted in a lease, and that bounds what runs beside it; 0: none.

        When others begin beside it, the store is told to clear the size. It does not if the lease has lapsed by then:
        its token is stale, and it did lapse in that group. It can't if it is not reached: the next renewal tells it.
        """
        hold = self._current(lease)
        return 0 if hold is None or hold.keeps_group else hold.group

    def keeps_group(self, lease: Lease) -> bool:
        """True if others run beside this lease, and the store still notes the size of its group."""
        hold = self._current(lease)
        return hold is not None and hold.keeps_group

    def _current(self, lease: Lease) -> Hold | None:
        hold = self.holds.get(lease.timeline)
        return hold if hold is not None and hold.token == lease.token else None

    def missed(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call did not reach the store."""
        if verb == "extend" and kwargs["lease"] and not kwargs.get("alone", True):
            self._keep_groups(args[0])

    def _keep_groups(self, leases: Iterable[Lease]) -> None:
        for hold in filter(None, map(self._current, leases)):
            hold.keeps_group = True

    def _forget_retired(self, at: Millis) -> None:
        """A timeline whose open digest lost all its records to quarantine becomes idle when its lease lapsed."""
        for timeline in [timeline for timeline, hold in self.holds.items() if hold.until <= at]:
            if self._store.inspect(timeline).state is State.IDLE:
                del self.holds[timeline]

    def _saw_extend(
        self,
        leases: Sequence[Lease],
        *,
        answer: list[bool],
        at: Millis,
        lease: Millis,
        now: Millis | None,
        alone: bool = True,
    ) -> None:
        require(len(leases) <= self._pages.timelines, "{} leases in one extend", len(leases))
        for each, extended in zip(leases, answer, strict=True):
            if extended:
                hold = self.holds[each.timeline]
                hold.until, hold.group = at + lease, hold.group if alone else 0
                hold.is_given_back = lease == 0
                noted = self._store.inspect(each.timeline).group
                require(noted == hold.group, "a group of {}, noted as {}: {}", hold.group, noted, each)
        if not alone:
            self._keep_groups(each for each, extended in zip(leases, answer, strict=True) if not extended)

    def _saw_maintain(
        self,
        partition: int,
        deadline: Millis | None,
        *,
        answer: Maintained,
        at: Millis,
        limit: int,
        now: Millis | None,
    ) -> None:
        require(limit <= self._pages.timelines, "maintain with a limit of {}", limit)
        overdue = {timeline for timeline, hold in self.holds.items() if hold.until <= at}
        if deadline is None:
            overdue &= self._paused  # the others are left to `claim_suspects`
        require(len(answer.lapsed) == min(limit, len(overdue)), "{} have lapsed: {}", overdue, answer)
        require(overdue.issuperset(answer.lapsed), "{} have lapsed: {}", overdue, answer)
        for timeline in answer.lapsed:
            self._lapse(timeline)

    def _saw_maintain_each(
        self, partitions: Sequence[int], deadline: Millis | None, *, answer: list[Maintained], **facts: Any
    ) -> None:
        for partition, each in zip(partitions, answer, strict=True):
            self._saw_maintain(partition, deadline, answer=each, **facts)

    # Reading

    def _saw_take(
        self, requests: Sequence[Take], *, answer: list[Taken | None], at: Millis, now: Millis | None
    ) -> None:
        read = sum(len(taken.records) for taken in answer if taken)
        require(read <= self._pages.records, "{} records in one take", read)
        for request, taken in zip(requests, answer, strict=True):
            if taken is not None:
                self._read(request, taken)

    def _read(self, request: Take, taken: Taken) -> None:
        timeline = request.lease.timeline
        place = request.lease.token, timeline
        if request.after is None:
            self._pages_read[place] = []
        numbers = [number_in(record.payload) for record in taken.records]
        for number in numbers:
            version = self.versions[number]
            require(
                version.timeline == timeline, "record {} of {!r} is read in {!r}", number, version.timeline, timeline
            )
            require(version.fate is None, "record {} was {} and is read in {!r}", number, version.fate, timeline)
        self._pages_read[place] += numbers
        if taken.complete:
            contents = self._contents[place] = tuple(self._pages_read[place])
            require(len(set(contents)) == len(contents), "a record twice in the digest of {!r}: {}", timeline, contents)

    def _saw_quarantine(
        self, lease: Lease, records: Sequence[QuarantinedRecord], *, answer: bool, at: Millis, now: Millis | None
    ) -> None:
        require(len(records) <= self._pages.records, "{} quarantined in one call", len(records))
        if not answer:
            return
        contents = self._contents[lease.token, lease.timeline]
        by_key = {self.versions[number].key: number for number in contents}
        gone = {by_key[record.key]: record.letter_id for record in records}
        for number, letter_id in gone.items():
            self._letters[letter_id] = Letter(lease.timeline, (number,))
        self._end(gone, "dead")
        self._contents[lease.token, lease.timeline] = tuple(number for number in contents if number not in gone)
        self._broken.add(lease.digest_id)

    # Handing out

    def hand(self, delivery: Delivery) -> None:
        """A handler is called with a digest."""
        lease, digest = delivery.held.lease, delivery.digest
        place = lease.token, lease.timeline
        numbers = tuple(record.value for record in digest.records)
        key = digest.idempotency_key
        require(
            numbers == self._contents.get(place), "{} was handed out with {}, read as {}", key, numbers, self._contents
        )
        known = self._carried.setdefault(key, numbers)
        require(known == numbers, "{} carried {} and now {}", key, known, numbers)
        require(lease.lapses_alone < self._policies[lease.timeline].lapses, "poison was handed out: {}", lease)
        handing = self.handings[place] = Handing(lease.token, lease.digest_id, key)
        for number in numbers:
            self._hand_version(number, handing, at_most_once=isinstance(delivery.loaded, Completed))

    def _hand_version(self, number: int, handing: Handing, *, at_most_once: bool) -> None:
        version = self.versions[number]
        for earlier in version.handings:
            excused = earlier.reported or earlier.digest_id in self._broken
            if earlier.key != handing.key and not excused:
                raise Violation(f"record {number} may have gone out under {earlier.key} and comes under {handing.key}")
        if at_most_once:
            require(not version.handings, "record {} was to go out at most once: {}", number, version.handings)
            require(version.fate == "delivered", "record {} went out before its digest was completed", number)
        version.handings.append(handing)

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """A handler has raised."""
        handing = self.handings[delivery.held.lease.token, delivery.timeline]
        handing.failed = True
        handing.counts = not (isinstance(error, DeliveryFailed) and error.throttled)

    # Ending

    def _saw_complete(
        self, completions: Sequence[Completion], *, answer: list[bool], at: Millis, now: Millis | None
    ) -> None:
        require(len(completions) <= self._pages.timelines, "{} completed in one call", len(completions))
        for completion, done in zip(completions, answer, strict=True):
            if done:
                self._end(self._ended(completion.lease), "delivered")

    def _saw_release(self, releases: Sequence[Release], *, answer: list[bool], at: Millis, now: Millis | None) -> None:
        require(len(releases) <= self._pages.timelines, "{} released in one call", len(releases))
        for release, released in zip(releases, answer, strict=True):
            if released:
                self._released(release)

    def _released(self, release: Release) -> None:
        lease = release.lease
        hold = self.holds.pop(lease.timeline)
        handing = self.handings.get((lease.token, lease.timeline))
        if not release.counted:
            self._lives[hold.digest_id].attempt -= 1
        if handing is not None and handing.failed:
            policy = self._policies[lease.timeline]
            final = handing.counts and lease.attempt >= policy.attempts
            require(not final, "after its last attempt it was released: {}", lease)
            require(release.counted == handing.counts, "{} counted? {}", handing, release)
            handing.reported = not release.freeze

    def _saw_bury(self, burials: Sequence[Burial], *, answer: list[bool], at: Millis, now: Millis | None) -> None:
        require(len(burials) <= self._pages.timelines, "{} buried in one call", len(burials))
        for burial, buried in zip(burials, answer, strict=True):
            if buried:
                self._buried(burial)

    def _buried(self, burial: Burial) -> None:
        lease = burial.lease
        is_poison = IS_POISON in burial.reason
        life, policy = self._lives[lease.digest_id], self._policies[lease.timeline]
        require(not is_poison or life.lapses_alone >= policy.lapses, "buried as poison: {}, it was {}", lease, life)
        if is_poison:
            self._contents[lease.token, lease.timeline] = self._versions_in_letter(lease.digest_id)
        versions = self._ended(lease)
        is_fatal = any(number in self._poison for number in versions)
        require(is_poison or not is_fatal or policy.backoff is not None, "it is poison, and died of: {}", burial)
        if versions:
            self._letters[lease.digest_id] = Letter(lease.timeline, versions)
        self._end(versions, "dead")

    def _versions_in_letter(self, letter_id: str) -> tuple[int, ...]:
        """What a dead letter holds whose digest was not read before."""
        found = self._store.letter_records(letter_id, after=None, limit=self._pages.records * 100)
        return tuple(number_in(record.payload) for record in found)

    def _ended(self, lease: Lease) -> tuple[int, ...]:
        """The records of a digest that has ended."""
        place = lease.token, lease.timeline
        require(place in self._contents, "it ended before it was read: {}", lease)
        self._lives[self.holds.pop(lease.timeline).digest_id].ended = True
        return self._contents[place]

    def _end(self, numbers: Iterable[int], fate: str) -> None:
        for number in numbers:
            version = self.versions[number]
            require(version.fate is None, "record {} was {} and is now {}", number, version.fate, fate)
            version.fate = fate
            self._counts[fate] += 1

    # Operating

    def _saw_pause(self, timeline: str, paused: bool, *, answer: bool, at: Millis, now: Millis | None) -> None:
        require(answer == (paused != (timeline in self._paused)), "pause {} answered {}", paused, answer)
        if paused:
            self._paused.add(timeline)
        else:
            self._paused.discard(timeline)

    def _saw_delete(self, timeline: str, *, answer: bool, at: Millis, now: Millis | None) -> None:
        if not answer:
            return
        self.holds.pop(timeline, None)
        self._paused.discard(timeline)
        for version in self.versions.values():
            if version.timeline == timeline and version.fate is None:
                version.fate = "gone"  # now, or before that by a newer version, by capacity or by age
        for letter_id in [key for key, letter in self._letters.items() if letter.timeline == timeline]:
            if self._store.letter(letter_id) is None:
                self._unbury(letter_id, "deleted")

    def _saw_discard(self, letter_id: str, *, answer: bool, at: Millis, now: Millis | None) -> None:
        require(answer == (letter_id in self._letters), "discard of {} answered {}", letter_id, answer)
        if answer:
            self._unbury(letter_id, "deleted")

    def _saw_replay(self, letter_id: str, *, answer: bool, at: Millis, now: Millis | None) -> None:
        require(answer == (letter_id in self._letters), "replay of {} answered {}", letter_id, answer)
        if answer:
            self._unbury(letter_id, None)
            self._lives[letter_id] = Life()

    def _saw_requeue(
        self, request: Requeue, *, answer: Requeued | None, at: Millis, limit: int, now: Millis | None
    ) -> None:
        letter = self._letters.get(request.letter_id)
        require((answer is None) == (letter is None), "requeue of {} answered {}", request.letter_id, answer)
        if answer is None or letter is None:
            return
        left = self._versions_in_letter(request.letter_id) if answer.more else ()
        moved = [number for number in letter.versions if number not in left]
        require(len(moved) == answer.records <= limit, "requeue of {} moved {}: {}", letter, moved, answer)
        for handing in [handing for number in moved for handing in self.versions[number].handings]:
            handing.reported |= handing.failed  # the letter can't have gone out, so another key may carry them
        self._unbury(request.letter_id, None)
        self._counts["dead"] += len(left)
        for number in left:
            self.versions[number].fate = "dead"
        if left:
            self._letters[request.letter_id] = Letter(letter.timeline, left)

    def _unbury(self, letter_id: str, fate: str | None) -> None:
        for number in self._letters.pop(letter_id).versions:
            self._counts["dead"] -= 1
            self.versions[number].fate = None
            if fate is not None:
                self._end([number], fate)

    @property
    def letters(self) -> list[str]:
        return list(self._letters)

    def timeline_of(self, letter_id: str) -> str:
        return self._letters[letter_id].timeline

    @property
    def paused(self) -> list[str]:
        return sorted(self._paused)

    # All of it

    def verify(self) -> None:
        report = self._store.verify()
        require(bool(report), "a recount says: {}", report.problems)

    def check_the_end(self) -> None:
        """Everything has drained: each record has one fate, and the store counts the same."""
        ledger = self._store.ledger()
        require(ledger.pending == ledger.open == 0, "did not drain: {}", ledger)
        self.verify()
        for letter_id, letter in self._letters.items():
            stored = sorted(self._versions_in_letter(letter_id))
            require(stored == sorted(letter.versions), "dead letter {} holds {}, not {}", letter_id, stored, letter)
        uncertain = [number for number, version in self.versions.items() if version.fate in (None, "gone")]
        counted = ledger.superseded + ledger.dropped + ledger.expired + ledger.deleted - self._counts["deleted"]
        require(len(uncertain) == counted, "{} have no other fate, {} such are counted: {}", uncertain, counted, ledger)
        for number in uncertain:
            require(self._may_vanish(number), "record {} is lost: {}", number, self.versions[number])
        for number in self._poison & self.versions.keys():
            fate, timeline = self.versions[number].fate, self.versions[number].timeline
            require(fate != "delivered" or timeline == "once", "record {} ends its worker, and was delivered", number)

    def _may_vanish(self, number: int) -> bool:
        version = self.versions[number]
        policy = self._policies[version.timeline]
        superseded = self._latest[version.timeline, version.key] != number
        return version.fate == "gone" or superseded or policy.capacity is not None or policy.ttl is not None


def _is_nothing(answer: Any) -> bool:
    return isinstance(answer, ClaimPage) and not answer.leases and not answer.retired


class Expectation:
    """Which leases are held, and the timelines of those that are not."""

    __slots__ = ("held", "unchanged")

    def __init__(self, held: list[bool], unchanged: dict[str, Slot]) -> None:
        self.held = held
        self.unchanged = unchanged


def require(holds: bool, otherwise: str, *facts: object) -> None:
    if not holds:
        raise Violation(otherwise.format(*facts))


def number_in(payload: bytes | None) -> int:
    """The version that a payload names: its value is its number."""
    assert payload is not None
    return int(payload.rpartition(b" ")[2])


def _leases_within(items: Sequence[Any]) -> list[Lease]:
    return [item.lease for item in items]


LEASES_OF: dict[str, Any] = {
    "take": _leases_within,
    "complete": _leases_within,
    "release": _leases_within,
    "bury": _leases_within,
    "extend": list,
    "quarantine": lambda lease: [lease],
}
