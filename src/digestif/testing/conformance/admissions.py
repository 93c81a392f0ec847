"""Admissions at the level of the port: candidates are seen first, and opened or kept by another call."""

import pytest

from digestif.core.machine import Slot, seen
from digestif.core.records import State
from digestif.core.terms import Openings, Override, Terms
from digestif.ids import fresh_id
from digestif.stores.base import Admission, Admitted, Candidate, Due, Lease, Store, SuspectGroup, Unadmitted
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    complete,
    delete,
    everything,
    let_wait,
    open_digest,
    open_lease,
    record_keys,
    release,
    stored,
    take_all,
)
from digestif.testing.conformance.suspects import neighbours

LATER = NOW + 1_000  # when candidates are admitted
UNTIL = NOW + 60_000
PAST = Openings((NOW - 20, NOW - 10))


def candidates(store: Store, *, limit: int = 200, now: int = NOW, asks: bool = True) -> list[Candidate]:
    """Claim in all partitions, and ask for candidates."""
    pages = [
        store.claim(partition, limit, token=fresh_id(), lease=LEASE, now=now, asks=asks)
        for partition in range(store.partitions)
    ]
    return [candidate for page in pages for candidate in page.candidates]


def candidate(store: Store, *, now: int = NOW, asks: bool = True) -> Candidate:
    """The only one."""
    [found] = candidates(store, now=now, asks=asks)
    return found


def admit(store: Store, found: Candidate, *, until: int | None = None, now: int = LATER, group: int = 0) -> Admitted:
    """Open a candidate under a lease, or let it wait."""
    admission = Admission(found.timeline, seen(found.slot), until, group)
    return store.admit([admission], token=fresh_id(), lease=LEASE, now=now)


def opened(store: Store, found: Candidate, *, now: int = LATER) -> Lease:
    [lease] = admit(store, found, now=now).leases
    return lease


def own_policy(*, openings: Openings | None = None, since: int = NOW, off: bool = False, **terms: int) -> Override:
    return Override(text="default", since=since, terms=Terms(openings=openings, **terms), off=off)


class Candidates(Suite):
    def test_a_caller_that_asks_gets_candidates_and_nothing_changes(self, store: Store) -> None:
        """Fact 56. A claim that asks opens nothing: it answers the timelines with their slots."""
        arrive(store, "t", ["a", "b"])
        before = everything(store)

        found = candidate(store)

        assert found.timeline == "t"
        assert found.slot == store.inspect("t")
        assert (found.slot.state, found.slot.pending) == (State.READY, 2)
        assert everything(store) == before

    def test_what_waits_and_is_due_is_a_candidate_what_is_not_due_is_none(self, store: Store) -> None:
        """Fact 13. Candidates are ready, or waiting and due; neither paused, open, nor later."""
        arrive(store, "ready", ["a"])
        arrive(store, "due", ["a"], first_delay=1_000)
        arrive(store, "later", ["a"], first_delay=1_001)
        arrive(store, "paused", ["a"])
        store.pause("paused", True, now=NOW)
        arrive(store, "open", ["a"])
        open_lease(store, "open", now=NOW + 500)

        found = candidates(store, now=NOW + 1_000)

        assert sorted(each.timeline for each in found) == ["due", "ready"]

    def test_a_claim_gives_no_more_candidates_than_it_may_open(self, store: Store) -> None:
        """Fact 56. The limit of a claim holds for candidates, the earliest first."""
        partition, timelines = neighbours(store, 5)
        for number, timeline in enumerate(timelines):
            arrive(store, timeline, ["a"], now=NOW - number)

        page = store.claim(partition, 2, token=fresh_id(), lease=LEASE, now=NOW, asks=True)

        assert page.leases == []
        assert [each.timeline for each in page.candidates] == timelines[:2:-1]

    def test_empty_timelines_are_retired_all_the_same(self, store: Store) -> None:
        """Fact 18. A due timeline without records is no candidate: it becomes idle."""
        let_wait(store, ["t"], at=NOW)

        pages = [
            store.claim(partition, 10, token=fresh_id(), lease=LEASE, now=NOW, asks=True)
            for partition in range(store.partitions)
        ]

        assert sum(page.retired for page in pages) == 1
        assert not any(page.leases or page.candidates for page in pages)
        assert store.inspect("t").state is State.IDLE

    def test_a_stored_window_makes_a_candidate_of_its_timeline_alone(self, store: Store) -> None:
        """Fact 59. Without being asked: an override with a window has to be admitted, others are opened with it."""
        arrive_everywhere(store, ["plain", "own delays", "own window"])
        store.set_override("own delays", own_policy(first_delay=5), now=NOW)
        store.set_override("own window", own_policy(openings=PAST), now=NOW)

        pages = [
            store.claim(partition, 10, token=fresh_id(), lease=LEASE, now=NOW) for partition in range(store.partitions)
        ]

        leases = {lease.timeline: lease.override for page in pages for lease in page.leases}
        found = {each.timeline: each.slot.override for page in pages for each in page.candidates}
        assert leases == {"plain": None, "own delays": own_policy(first_delay=5)}
        assert found == {"own window": own_policy(openings=PAST)}

    def test_opening_one_that_has_to_be_admitted_is_refused_with_the_candidate(self, store: Store) -> None:
        """Fact 56. `open` raises with what it would have opened, and changes nothing."""
        arrive(store, "t", ["a"])
        before = everything(store)

        with pytest.raises(Unadmitted) as refused:
            store.open("t", token=fresh_id(), lease=LEASE, now=NOW, asks=True)

        assert refused.value.candidate == Candidate("t", store.inspect("t"), NOW)
        assert everything(store) == before

    def test_opening_an_empty_timeline_needs_no_admission(self, store: Store) -> None:
        """Fact 18. Ready, and its records were retracted: there is nothing to hold back, the digest is empty."""
        arrive(store, "t", ["a"])
        store.retract("t", "a", now=NOW)

        lease = store.open("t", token=fresh_id(), lease=LEASE, now=NOW, asks=True)

        assert take_all(store, lease).records == []
        complete(store, lease)
        assert store.inspect("t").state is State.IDLE

    def test_schedule_gives_candidates_in_the_same_way(self, store: Store) -> None:
        """Fact 56. A schedule that asks makes nothing ready; `admit` without a token does."""
        arrive(store, "t", ["a"], first_delay=1_000)
        before = everything(store)

        pages = [
            store.schedule(partition, LATER, after=None, limit=10, now=NOW, asks=True)
            for partition in range(store.partitions)
        ]
        [found] = [each for page in pages for each in page.candidates]

        assert not any(page.entries for page in pages)
        assert everything(store) == before
        admitted = store.admit([Admission("t", seen(found.slot))], now=LATER)
        assert admitted == Admitted([], [Due("t", NOW + 1_000)])
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.since) == (State.READY, NOW + 1_000, LATER)


class Admissions(Suite):
    def test_what_may_leave_is_opened(self, store: Store) -> None:
        """Fact 56. Admitted without `until`: a lease, and the records can be taken."""
        arrive(store, "t", ["a", "b"])

        lease = opened(store, candidate(store))

        assert (lease.timeline, lease.attempt, lease.until) == ("t", 1, LATER + LEASE)
        assert record_keys(take_all(store, lease, now=LATER).records) == ["b", "a"]
        assert complete(store, lease, now=LATER)

    @pytest.mark.parametrize("state", ["ready", "waiting"])
    def test_what_may_not_leave_waits_with_its_records_pending(self, store: Store, state: str) -> None:
        """Fact 56. Kept until another time: nothing is counted, and its time by the delays is known still."""
        arrive(store, "t", ["a", "b"], first_delay=0 if state == "ready" else 500)
        due = store.inspect("t").at
        before = store.ledger()

        admitted = admit(store, candidate(store, now=NOW + 500), until=UNTIL)

        assert admitted == Admitted([], [], 1)
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.by_delays, slot.pending) == (State.WAITING, UNTIL, due, 2)
        assert slot.digest is None
        assert store.ledger() == before
        assert record_keys(stored(store, "t", Part.PENDING)) == ["b", "a"]
        assert candidates(store, now=UNTIL - 1) == []
        assert candidate(store, now=UNTIL).timeline == "t"

    def test_what_is_kept_twice_remembers_its_time_by_the_delays(self, store: Store) -> None:
        """Fact 56. However often it is kept, the delays made it due when they did."""
        arrive(store, "t", ["a"])
        for number in range(3):
            admit(store, candidate(store, now=UNTIL + number), until=UNTIL + number + 1, now=UNTIL + number)

        slot = store.inspect("t")
        assert (slot.at, slot.by_delays) == (UNTIL + 3, NOW)

    def test_openings_that_have_passed_leave_it_due_by_the_delays(self, store: Store) -> None:
        """Fact 55. All openings of an add are past: add answers False, and it waits, to be aligned when it is due."""
        answers = arrive(store, "t", ["a"], openings=PAST)

        assert answers == [False]
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.by_delays) == (State.WAITING, NOW, None)
        admit(store, candidate(store), until=UNTIL)
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.by_delays, slot.pending) == (State.WAITING, UNTIL, NOW, 1)

    def test_many_are_admitted_together(self, store: Store) -> None:
        """Fact 56. One call opens some and keeps others; an unknown timeline is left alone."""
        partition, timelines = neighbours(store, 4)
        arrive_everywhere(store, timelines)
        page = store.claim(partition, 10, token=fresh_id(), lease=LEASE, now=NOW, asks=True)
        untils = [None, UNTIL, None, UNTIL + 1]
        decided = [
            Admission(each.timeline, seen(each.slot), until)
            for each, until in zip(sorted(page.candidates), untils, strict=True)
        ]
        delete(store, timelines[2])

        admitted = store.admit(decided, token=fresh_id(), lease=LEASE, now=LATER)

        assert [lease.timeline for lease in admitted.leases] == timelines[:1]
        assert admitted.kept == 2
        assert [store.inspect(each).at for each in timelines[1::2]] == [UNTIL, UNTIL + 1]
        assert store.inspect(timelines[2]) == Slot()

    def test_leases_that_are_admitted_together_are_of_different_digests(self, store: Store) -> None:
        """Fact 40. One token serves for all of them, as in a claim; each digest has an id of its own."""
        partition, timelines = neighbours(store, 3)
        arrive_everywhere(store, timelines)
        page = store.claim(partition, 10, token=fresh_id(), lease=LEASE, now=NOW, asks=True)
        decided = [Admission(each.timeline, seen(each.slot)) for each in page.candidates]

        leases = store.admit(decided, token=fresh_id(), lease=LEASE, now=LATER).leases

        assert len({lease.digest_id for lease in leases}) == 3
        assert all(complete(store, lease, now=LATER) for lease in leases)

    def test_a_retry_that_is_kept_stays_the_same_digest(self, store: Store) -> None:
        """Fact 56. Kept between two attempts: the next one is the second, and newer records are merged."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        release(store, first, until=NOW + 10)
        arrive(store, "t", ["b"])

        admit(store, candidate(store, now=NOW + 10), until=UNTIL)

        assert store.inspect("t").at == UNTIL
        lease = opened(store, candidate(store, now=UNTIL), now=UNTIL)
        assert (lease.digest_id, lease.attempt) == (first.digest_id, 2)
        assert sorted(record_keys(take_all(store, lease, now=UNTIL).records)) == ["a", "b"]


class ChangedMeanwhile(Suite):
    """Fact 56. Between claim and admit anything may happen: what has changed is left alone."""

    @pytest.mark.parametrize("until", [None, UNTIL], ids=["opened", "kept"])
    @pytest.mark.parametrize(
        "change", ["opened", "delivered", "deleted", "paused", "moved", "flushed", "own policy", "kept"]
    )
    def test_what_changed_meanwhile_is_left_alone(self, store: Store, change: str, until: int | None) -> None:
        """Fact 56. Its state, its due time, its lease or its policy: the decision was about something else."""
        arrive(store, "t", ["a"], first_delay=0 if change != "flushed" else 10)
        found = candidate(store, now=NOW + 10)
        _change(store, change, found)
        before = everything(store)

        admitted = admit(store, found, until=until)

        assert admitted == Admitted([], [], 0)
        assert everything(store) == before

    def test_what_only_gained_records_is_opened(self, store: Store) -> None:
        """Fact 20. A record that came to a ready timeline meanwhile belongs to the digest."""
        arrive(store, "t", ["a"])
        found = candidate(store)
        arrive(store, "t", ["b"], now=NOW + 1)

        lease = opened(store, found)

        assert sorted(record_keys(take_all(store, lease, now=LATER).records)) == ["a", "b"]

    def test_what_lost_all_its_records_is_left_alone(self, store: Store) -> None:
        """Fact 18. Everything was retracted meanwhile: nothing is opened, the next claim retires it."""
        arrive(store, "t", ["a"])
        found = candidate(store)
        store.retract("t", "a", now=NOW)

        assert admit(store, found).leases == []
        assert candidates(store) == []
        assert store.inspect("t").state is State.IDLE

    def test_of_two_callers_with_the_same_candidate_one_opens_it(self, store: Store) -> None:
        """Fact 22. Both saw it, both admit it: there is one lease."""
        arrive(store, "t", ["a"])
        found = candidate(store)

        leases = [*admit(store, found).leases, *admit(store, found).leases]

        assert len(leases) == 1


class AdmittedSuspects(Suite):
    def test_suspects_are_candidates_too(self, store: Store) -> None:
        """Fact 66. A claim of suspects that asks takes nothing over; admitted, it is another attempt."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        before = everything(store)

        found = _suspect(store)

        assert everything(store) == before
        [lease] = admit(store, found, now=NOW + LEASE, group=4).leases
        assert (lease.digest_id, lease.attempt, lease.lapses, lease.lapsed) == (first.digest_id, 2, 1, True)
        assert store.inspect("t").group == 4

    def test_one_that_is_kept_lapses_first(self, store: Store) -> None:
        """Fact 56. Kept until another time: its lapse is counted, and it comes again exactly as it was."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        arrive(store, "t", ["b"], now=NOW + 1)

        admitted = admit(store, _suspect(store), until=UNTIL, now=NOW + LEASE)

        assert admitted.kept == 1
        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.token) == (State.WAITING, UNTIL, None)
        assert slot.digest is not None
        assert (slot.digest.id, slot.digest.lapses) == (first.digest_id, 1)
        assert not complete(store, first, now=NOW + LEASE)
        lease = opened(store, candidate(store, now=UNTIL), now=UNTIL)
        assert (lease.digest_id, lease.attempt) == (first.digest_id, 2)
        assert record_keys(take_all(store, lease, now=UNTIL).records) == ["a"]

    def test_one_that_another_worker_took_over_is_left_alone(self, store: Store) -> None:
        """Fact 39. Seen as lapsed, and open under another lease meanwhile."""
        arrive(store, "t", ["a"])
        open_digest(store)
        found = _suspect(store)
        open_digest(store, now=NOW + LEASE)
        before = everything(store)

        assert admit(store, found, until=UNTIL, now=NOW + LEASE + 1) == Admitted([], [], 0)
        assert admit(store, found, now=NOW + LEASE + 1) == Admitted([], [], 0)
        assert everything(store) == before


class AskedStores(Candidates, Admissions, ChangedMeanwhile, AdmittedSuspects):
    """All topics of this file."""


def _suspect(store: Store) -> Candidate:
    pages = [
        store.claim_suspects(partition, SuspectGroup(1, 1), token=fresh_id(), lease=LEASE, now=NOW + LEASE, asks=True)
        for partition in range(store.partitions)
    ]
    assert not any(page.leases for page in pages)
    [found] = [each for page in pages for each in page.candidates]
    return found


def _change(store: Store, change: str, found: Candidate) -> None:
    """What others do with the timeline between claim and admit."""
    match change:
        case "opened":
            opened(store, found, now=NOW + 20)
        case "delivered":
            complete(store, opened(store, found, now=NOW + 20), cool_down=5, now=NOW + 20)
        case "deleted":
            delete(store, "t")
        case "paused":
            store.pause("t", True, now=NOW + 20)
        case "moved":
            store.maintain(0, NOW, limit=10, now=NOW + 20)
            for partition in range(1, store.partitions):
                store.maintain(partition, NOW, limit=10, now=NOW + 20)
        case "flushed":
            store.flush("t", now=NOW + 20)
        case "own policy":
            store.set_override("t", own_policy(since=NOW + 20), now=NOW + 20)
        case "kept":
            admit(store, found, until=UNTIL - 1, now=NOW + 20)
