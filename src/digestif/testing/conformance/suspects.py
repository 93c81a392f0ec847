"""Suspects, at the level of the port: digests whose lease lapsed, one of which may have killed the worker."""

from collections.abc import Callable, Sequence

import pytest

from digestif import Busy
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES, Burial, ClaimPage, Lease, QuarantinedRecord, Store, SuspectGroup
from digestif.testing.conformance.base import Damager, Harm, Suite
from digestif.testing.conformance.port import (
    LEASE,
    LONG_AGO,
    NOW,
    arrive,
    arrive_everywhere,
    claim,
    claim_all,
    claim_suspects,
    complete,
    delete,
    maintain,
    open_digest,
    open_lease,
    record_keys,
    release,
    take_all,
)
from digestif.testing.footprint import assert_nothing_left

LAPSED = NOW + LEASE  # leases of NOW have just lapsed

TakeOver = Callable[[Store, bool, int], Lease]


def by_claim(store: Store, alone: bool, now: int) -> Lease:
    [lease] = claim_suspects(store, alone=alone, now=now)
    return lease


def by_opening(store: Store, alone: bool, now: int) -> Lease:
    return open_lease(store, alone=alone, now=now)


in_either_way = pytest.mark.parametrize("take_over", [by_claim, by_opening], ids=["claimed", "opened"])


class SuspectClaims(Suite):
    def test_what_lapsed_is_not_claimed_with_others(self, store: Store) -> None:
        """Fact 66. It may have killed its worker, and could kill the next one with all that it holds."""
        arrive_everywhere(store, ["lapsed", "ready"])
        arrive(store, "due", ["a"], first_delay=LEASE)
        open_digest(store, "lapsed")

        claimed = claim_all(store, now=LAPSED)

        assert {lease.timeline for lease in claimed} == {"ready", "due"}
        assert [lease.timeline for lease in claim_suspects(store)] == ["lapsed"]

    def test_many_suspects_hide_no_healthy_timeline(self, store: Store) -> None:
        """Fact 66. More suspects than a claim may give stand before it, due earlier: the healthy one is given."""
        suspects = [f"t{n}" for n in range(PAGE_TIMELINES + 10)]
        arrive_everywhere(store, suspects)
        claim_all(store)
        arrive(store, "healthy", ["a"], now=LAPSED + 5)

        claims = [claim(store, partition, 1, now=LAPSED + 5) for partition in range(store.partitions)]

        assert [lease.timeline for each in claims for lease in each.leases] == ["healthy"]

    def test_a_claim_tells_when_the_first_lease_lapsed(self, store: Store) -> None:
        """Fact 66. The time of the first lapse; None before it, and when all suspects are taken over."""
        partition, (first, second) = neighbours(store, 2)
        for timeline, now in ((second, NOW + 10), (first, NOW)):
            arrive(store, timeline, ["a"])
            open_digest(store, timeline, now=now)

        def told(now: int) -> int | None:
            return claim(store, partition, 10, now=now).suspect

        assert [told(now) for now in (NOW, LAPSED - 1, LAPSED, LAPSED + 60_000)] == [None, None, LAPSED, LAPSED]
        open_digest(store, first, now=LAPSED + 20)
        assert told(LAPSED + 20) == LAPSED + 10
        open_digest(store, second, now=LAPSED + 20)
        assert told(LAPSED + 20) is None

    def test_a_claim_that_gives_nothing_else_tells_of_suspects_too(self, store: Store) -> None:
        """Fact 66. A claim gives that time with healthy timelines, without any, and with a full page."""
        partition, (suspect, *healthy) = neighbours(store, 3)
        arrive(store, suspect, ["a"])
        open_digest(store, suspect)
        arrive_everywhere(store, healthy)

        claims = [claim(store, partition, 1, now=LAPSED) for _ in range(3)]

        assert [(len(each.leases), each.suspect) for each in claims] == [(1, LAPSED), (1, LAPSED), (0, LAPSED)]

    def test_a_group_is_as_large_as_the_worker_asks(self, store: Store) -> None:
        """Fact 66. Many may have lapsed with one worker: they are tried in groups, each once."""
        partition, timelines = neighbours(store, 20)
        let_lapse(store, timelines)

        groups = [suspects(store, partition, now=LAPSED, size=8) for _ in range(4)]

        assert [len(group.leases) for group in groups] == [8, 8, 4, 0]
        assert [group.more for group in groups] == [True, True, False, False]
        assert sorted(lease.timeline for group in groups for lease in group.leases) == timelines
        assert len({lease.digest_id for group in groups for lease in group.leases}) == 20

    def test_a_group_that_lapsed_is_tried_in_halves(self, store: Store) -> None:
        """Fact 83. One of eight may have ended the worker: they come again in groups of four, then two, then one."""
        partition, timelines = neighbours(store, 8)
        let_lapse(store, timelines)
        groups = []

        for lapse, size in enumerate((8, 8, 8, 8, 8)):
            now = LAPSED + lapse * LEASE
            groups.append([suspects(store, partition, now=now, size=size, alone=True) for _ in range(8)])

        sizes = [[len(page.leases) for page in pages if page.leases] for pages in groups]
        assert sizes == [[8], [4, 4], [2] * 4, [1] * 8, [1] * 8]
        counts = [[lease.lapses_alone for page in pages for lease in page.leases] for pages in groups]
        assert counts == [[0] * 8, [0] * 8, [0] * 8, [0] * 8, [1] * 8]

    def test_the_first_to_lapse_decides_the_size(self, store: Store) -> None:
        """Fact 83. It lapsed in a group of four: others that may be tried in any join it in a group of two."""
        partition, (first, *others) = neighbours(store, 4)
        let_lapse(store, [first])
        suspects(store, partition, now=LAPSED, size=4, alone=True)
        let_lapse(store, others, now=LAPSED + 1)
        later = LAPSED + LEASE + 1

        two, rest = (suspects(store, partition, now=later, size=8) for _ in range(2))

        assert (two.size, len(two.leases), two.leases[0].timeline) == (2, 2, first)
        assert (rest.size, len(rest.leases)) == (8, 2)

    def test_one_that_may_not_join_is_passed_over(self, store: Store) -> None:
        """Fact 83. It lapsed by itself, and is tried by itself, after the group of one that lapsed before it."""
        partition, (first, single, *others) = neighbours(store, 4)
        let_lapse(store, [single])
        suspects(store, partition, now=LAPSED, size=1, alone=True)
        let_lapse(store, [first], now=LAPSED - 1)
        let_lapse(store, others, now=LAPSED + 1)
        later = LAPSED + LEASE + 1

        group, alone = (suspects(store, partition, now=later, size=8) for _ in range(2))

        assert sorted(lease.timeline for lease in group.leases) == sorted([first, *others])
        assert (group.size, group.passed_over) == (8, 1)
        assert ([lease.timeline for lease in alone.leases], alone.size) == ([single], 1)

    def test_a_group_goes_on_with_the_next_page(self, store: Store) -> None:
        """Fact 83. The size is decided: two more may join, behind one that was passed over."""
        partition, timelines = neighbours(store, 6)
        for number, timeline in enumerate(timelines):
            let_lapse(store, [timeline], now=NOW + number)
        group = SuspectGroup(5, 2, is_decided=True, skip=1)

        page = store.claim_suspects(partition, group, token=fresh_id(), lease=LEASE, now=LAPSED + 9)

        assert [lease.timeline for lease in page.leases] == timelines[1:3]
        assert (page.size, page.more, page.passed_over) == (5, True, 0)
        assert [store.inspect(timeline).group for timeline in timelines[:3]] == [0, 5, 5]

    def test_the_first_to_lapse_is_the_first_to_be_tried(self, store: Store) -> None:
        """Fact 66. By the end of the lease, not by the time at which a timeline was due."""
        partition, timelines = neighbours(store, 12)
        for n, timeline in enumerate(timelines):
            arrive(store, timeline, ["a"], now=NOW + n)
        for n, timeline in enumerate(reversed(timelines)):
            open_digest(store, timeline, now=NOW + 100 + n)

        groups = [suspects(store, partition, now=LAPSED + 200, size=7) for _ in range(2)]

        given = [lease.timeline for group in groups for lease in group.leases]
        assert given == timelines[::-1]

    def test_a_suspect_comes_again_exactly_as_it_was(self, store: Store) -> None:
        """Fact 40. The same digest as a further attempt, under a lease of its own; newer records wait."""
        arrive(store, "t", ["a"])
        first = open_digest(store)
        arrive(store, "t", ["b"], now=NOW + 1)

        [second] = claim_suspects(store)

        assert (second.digest_id, second.attempt, second.until) == (first.digest_id, 2, LAPSED + LEASE)
        assert (second.lapses, second.lapsed, second.at) == (1, True, NOW)
        taken = take_all(store, second, now=LAPSED)
        assert (record_keys(taken.records), taken.revision) == (["a"], 1)
        assert not complete(store, first, now=LAPSED)
        assert complete(store, second, now=LAPSED)

    def test_a_suspect_that_was_taken_over_is_no_suspect_until_it_lapses_again(self, store: Store) -> None:
        """Fact 66. Neither is one whose lease was extended in time."""
        arrive_everywhere(store, ["extended", "taken"])
        extended = open_digest(store, "extended")
        open_digest(store, "taken")
        assert store.extend([extended], lease=2 * LEASE, now=LAPSED - 1) == [True]
        [taken] = claim_suspects(store)

        assert claim_suspects(store, now=LAPSED + LEASE - 1) == []

        [again] = claim_suspects(store, now=LAPSED + LEASE)
        assert (again.timeline, again.lapses) == ("taken", 2)
        assert again.token != taken.token

    def test_a_suspect_is_opened_or_claimed_but_not_both(self, store: Store) -> None:
        """Fact 22. `open` takes over a lapsed lease as ever; what was claimed before that is Busy."""
        let_lapse(store, ["t", "u"])

        lease = open_lease(store, "t", now=LAPSED)

        assert (lease.lapsed, lease.lapses) == (True, 1)
        assert [each.timeline for each in claim_suspects(store)] == ["u"]
        with pytest.raises(Busy):
            open_lease(store, "u", now=LAPSED)

    def test_paused_suspects_are_not_given(self, store: Store) -> None:
        """Fact 53. Neither claimed nor announced while paused; as before when resumed."""
        partition, (paused, other) = neighbours(store, 2)
        let_lapse(store, [paused])
        let_lapse(store, [other], now=NOW + 5)
        store.pause(paused, True, now=LAPSED)

        assert claim(store, partition, 10, now=LAPSED + 5).suspect == LAPSED + 5
        assert [lease.timeline for lease in claim_suspects(store, now=LAPSED + 5)] == [other]

        store.pause(paused, False, now=LAPSED + 5)
        assert claim(store, partition, 10, now=LAPSED + 5).suspect == LAPSED
        assert [lease.timeline for lease in claim_suspects(store, now=LAPSED + 5)] == [paused]

    def test_empty_suspects_are_retired(self, store: Store) -> None:
        """Fact 24. All records of their digests were quarantined: nothing is left to try, and they are idle."""
        partition, (full, *empty) = neighbours(store, 3)
        let_lapse(store, [full])
        for timeline in empty:
            arrive(store, timeline, ["a"])
            store.quarantine(
                open_digest(store, timeline), [QuarantinedRecord("a", f"letter-{timeline}", "odd")], now=NOW
            )

        claims = [suspects(store, partition, now=LAPSED) for _ in range(2)]

        assert [lease.timeline for each in claims for lease in each.leases] == [full]
        assert sum(each.retired for each in claims) == 2
        assert [store.inspect(timeline).state for timeline in empty] == ["idle", "idle"]
        assert claim(store, partition, 10, now=LAPSED).suspect is None

    def test_an_empty_suspect_with_pending_records_begins_a_new_digest(self, store: Store) -> None:
        """Fact 24. Nothing of the old digest can have gone out: what is pending is a digest of its own."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.quarantine(lease, [QuarantinedRecord("a", "letter", "odd")], now=NOW)
        arrive(store, "t", ["b"], now=NOW + 1)

        [second] = claim_suspects(store, alone=True)

        assert second.digest_id != lease.digest_id
        assert (second.attempt, second.lapses, second.lapses_alone) == (1, 0, 0)
        assert record_keys(take_all(store, second, now=LAPSED).records) == ["b"]

    def test_a_deleted_suspect_is_gone(self, store: Store) -> None:
        """Fact 29. Deleted: no claim announces it, and nothing is left."""
        let_lapse(store, ["t"])

        delete(store, "t")

        claims = [claim(store, partition, 10, now=LAPSED) for partition in range(store.partitions)]
        assert [each.suspect for each in claims] == [None] * store.partitions
        assert claim_suspects(store) == []
        maintain(store, now=LAPSED)
        assert_nothing_left(store)

    @pytest.mark.parametrize("harm", [Harm.GARBLED, Harm.IMPOSSIBLE])
    def test_a_damaged_suspect_keeps_no_other_from_being_tried(self, store: Store, damage: Damager, harm: Harm) -> None:
        """Fact 70. It is skipped and removed from the schedule: no claim announces it any more."""
        partition, (bad, good) = neighbours(store, 2)
        let_lapse(store, [bad])
        let_lapse(store, [good], now=NOW + 1)
        damage(harm, bad)

        claims = [suspects(store, partition, now=LAPSED + 1) for _ in range(2)]

        assert [lease.timeline for each in claims for lease in each.leases] == [good]
        assert claim(store, partition, 10, now=LAPSED + 1).suspect is None
        assert suspects(store, partition, now=LAPSED + 1) == ClaimPage([], 0, size=8)


class LapsesAlone(Suite):
    @in_either_way
    def test_only_a_lapse_that_was_noted_alone_counts_as_such(self, store: Store, take_over: TakeOver) -> None:
        """Fact 66. Every lapse counts in `lapses`; only those in a group of one count in `lapses_alone`."""
        let_lapse(store, ["t"])
        counts = []

        for number, alone in enumerate((True, False, True, True, False)):
            lease = take_over(store, alone, LAPSED + number * LEASE)
            counts.append((lease.lapses, lease.lapses_alone))

        assert counts == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)]

    def test_a_first_attempt_is_not_noted(self, store: Store) -> None:
        """Fact 66. The first lapse of a digest proves nothing, even if it was alone: it was no suspect."""
        arrive(store, "t", ["a"])
        open_lease(store, alone=True)

        assert store.inspect("t").group == 0
        assert [lease.lapses_alone for lease in claim_suspects(store)] == [0]

    @in_either_way
    def test_the_note_can_be_cleared(self, store: Store, take_over: TakeOver) -> None:
        """Fact 66. Something else begins beside it: renewed without `alone`, its lapse proves nothing."""
        let_lapse(store, ["t"])
        lease = take_over(store, True, LAPSED)
        assert store.inspect("t").group == 1

        assert store.extend([lease], lease=LEASE, now=LAPSED + 1) == [True]
        assert store.inspect("t").group == 1
        assert store.extend([lease], lease=LEASE, now=LAPSED + 2, alone=False) == [True]

        assert store.inspect("t").group == 0
        again = take_over(store, False, LAPSED + 2 + LEASE)
        assert (again.lapses, again.lapses_alone) == (2, 0)

    def test_only_a_group_of_one_counts(self, store: Store) -> None:
        """Fact 66. The worker runs nothing else, but each of them beside the other."""
        partition, timelines = neighbours(store, 2)
        let_lapse(store, timelines)
        suspects(store, partition, alone=True, now=LAPSED, size=2)
        assert [store.inspect(timeline).group for timeline in timelines] == [2, 2]

        again = [suspects(store, partition, now=LAPSED + LEASE) for _ in range(2)]

        leases = [lease for each in again for lease in each.leases]
        assert [(lease.lapses, lease.lapses_alone) for lease in leases] == [(2, 0), (2, 0)]

    def test_the_size_that_was_asked_for_is_noted(self, store: Store) -> None:
        """Fact 83. Only one is there, in a group that may be of four: others may join it on the next page."""
        let_lapse(store, ["t"])

        for partition in range(store.partitions):
            suspects(store, partition, alone=True, now=LAPSED, size=4)

        assert store.inspect("t").group == 4
        [again] = claim_suspects(store, now=LAPSED + LEASE)
        assert (again.lapses, again.lapses_alone) == (2, 0)

    def test_a_lapse_without_a_note_changes_nothing(self, store: Store) -> None:
        """Fact 83. It lapsed in a group of four, then beside others: it may still be tried with one other."""
        partition, (timeline, other) = neighbours(store, 2)
        let_lapse(store, [timeline])
        suspects(store, partition, now=LAPSED, size=4, alone=True)
        suspects(store, partition, now=LAPSED + LEASE, size=2, alone=False)
        let_lapse(store, [other], now=LAPSED + LEASE)

        group = suspects(store, partition, now=LAPSED + 2 * LEASE, size=8)

        assert (group.size, len(group.leases)) == (2, 2)

    def test_a_group_of_one_is_noted(self, store: Store) -> None:
        """Fact 66. It lapsed once, and there is no other: tried alone, so that its next lapse counts."""
        let_lapse(store, ["t"])

        [lease] = claim_suspects(store, alone=True)

        assert lease.lapses_alone == 0
        assert store.inspect("t").group == 1
        assert [again.lapses_alone for again in claim_suspects(store, now=LAPSED + LEASE)] == [1]

    def test_a_worker_that_runs_others_beside_it_notes_nothing(self, store: Store) -> None:
        """Fact 66. Tried beside others after a long wait: uncounted."""
        let_lapse(store, ["t"])

        claim_suspects(store, alone=False)

        assert store.inspect("t").group == 0
        assert [lease.lapses_alone for lease in claim_suspects(store, now=LAPSED + LEASE)] == [0]

    def test_an_extended_lease_keeps_its_note(self, store: Store) -> None:
        """Fact 66. It was alone from the beginning to the end."""
        let_lapse(store, ["t"])
        [lease] = claim_suspects(store, alone=True)

        assert store.extend([lease], lease=LEASE, now=LAPSED + 10) == [True]

        assert [again.lapses_alone for again in claim_suspects(store, now=LAPSED + LEASE + 10)] == [1]

    @pytest.mark.parametrize("until", [None, LAPSED + 5], ids=["at once", "later"])
    def test_a_release_ends_the_note_and_keeps_the_count(self, store: Store, until: int | None) -> None:
        """Fact 66. The worker lived: the next attempt, beside others, is not noted."""
        let_lapse(store, ["t"])
        claim_suspects(store, alone=True)
        [lease] = claim_suspects(store, alone=True, now=LAPSED + LEASE)

        assert release(store, lease, until=until, now=LAPSED + LEASE)

        assert store.inspect("t").group == 0
        [other] = claim_all(store, now=LAPSED + LEASE)
        assert (other.lapses, other.lapses_alone) == (2, 1)
        assert store.inspect("t").group == 0
        [again] = claim_suspects(store, now=LAPSED + 2 * LEASE)
        assert (again.lapses, again.lapses_alone) == (3, 1)

    @pytest.mark.parametrize("ending", ["complete", "bury"])
    def test_the_next_digest_begins_without_note_and_count(self, store: Store, ending: str) -> None:
        """Fact 66. After a completion or a burial the next digest has no lapses."""
        let_lapse(store, ["t"])
        claim_suspects(store, alone=True)
        [lease] = claim_suspects(store, alone=True, now=LAPSED + LEASE)

        if ending == "complete":
            assert complete(store, lease, now=LAPSED + LEASE)
        else:
            assert store.bury([Burial(lease, "poison", 0)], now=LAPSED + LEASE) == [True]

        assert store.inspect("t").group == 0
        arrive(store, "t", ["b"], now=LAPSED + LEASE)
        [following] = claim_all(store, now=LAPSED + LEASE)
        assert (following.lapses, following.lapses_alone) == (0, 0)
        [again] = claim_suspects(store, now=LAPSED + 2 * LEASE)
        assert (again.lapses, again.lapses_alone) == (1, 0)

    def test_a_replayed_digest_begins_anew(self, store: Store) -> None:
        """Fact 40. A replay counts the lapses of a digest from 0."""
        let_lapse(store, ["t"])
        claim_suspects(store, alone=True)
        [lease] = claim_suspects(store, alone=True, now=LAPSED + LEASE)
        store.bury([Burial(lease, "poison", 0)], now=LAPSED + LEASE)

        assert store.replay(lease.digest_id, now=LAPSED + LEASE) is True

        revived = open_lease(store, now=LAPSED + LEASE)
        assert (revived.lapses, revived.lapses_alone) == (0, 0)
        digest = store.inspect("t").digest
        assert digest is not None
        assert digest.largest == 0


class SuspectMaintenance(Suite):
    def test_workers_leave_suspects_as_they_are(self, store: Store) -> None:
        """Fact 66. Maintenance without a deadline: what lapsed stays in its place until it is taken over."""
        let_lapse(store, ["t"])

        assert maintain(store, None, now=LAPSED + 60_000).lapsed == []

        assert store.inspect("t").state == "open"
        assert [lease.lapses for lease in claim_suspects(store, now=LAPSED + 60_000)] == [1]

    def test_with_a_deadline_a_suspect_waits_and_is_claimed_like_others(self, store: Store) -> None:
        """Fact 40. It waits, its due time is kept, the lapse counts, and no claim announces it any more."""
        partition, (timeline,) = neighbours(store, 1)
        let_lapse(store, [timeline])

        assert maintain(store, LONG_AGO, now=LAPSED).lapsed == [timeline]

        assert (store.inspect(timeline).state, store.inspect(timeline).at) == ("waiting", NOW)
        assert claim_suspects(store) == []
        claimed = claim(store, partition, 10, now=LAPSED)
        assert [(lease.lapses, lease.lapses_alone) for lease in claimed.leases] == [(1, 0)]
        assert claimed.suspect is None

    def test_a_lapse_that_was_noted_alone_counts_in_maintenance_too(self, store: Store) -> None:
        """Fact 66. Maintenance counts a lapse alone as a claim does."""
        let_lapse(store, ["t"])
        claim_suspects(store, alone=True)

        maintain(store, LONG_AGO, now=LAPSED + LEASE)

        assert store.inspect("t").group == 0
        [lease] = claim_all(store, now=LAPSED + LEASE)
        assert (lease.lapses, lease.lapses_alone) == (2, 1)

    def test_maintenance_names_what_it_did(self, store: Store) -> None:
        """Fact 40. Lost dispatches with the times at which they are due, lapsed leases, and records that expired."""
        arrive_everywhere(store, ["lost", "lapsed", "paused"])
        open_digest(store, "lapsed")
        open_digest(store, "paused")
        store.pause("paused", True, now=NOW)
        arrive(store, "fresh", ["a"], now=LAPSED)
        arrive(store, "old", ["a", "b"], now=NOW + 7, ttl=LEASE - 7)

        done = maintain(store, NOW, now=LAPSED)

        assert list(done.moved) == [("lost", NOW)]
        assert sorted(done.lapsed) == ["lapsed", "paused"]
        assert list(done.expired) == [("old", 2)]

    def test_a_worker_is_told_what_lapsed_while_paused_and_what_expired(self, store: Store) -> None:
        """Fact 53. Without a deadline: of what lapsed only the paused one, which no claim would give."""
        arrive_everywhere(store, ["ready", "lapsed", "paused"])
        open_digest(store, "lapsed")
        open_digest(store, "paused")
        store.pause("paused", True, now=NOW)
        arrive(store, "old", ["a"], ttl=10)

        done = maintain(store, None, now=LAPSED)

        assert (list(done.moved), list(done.lapsed), list(done.expired)) == ([], ["paused"], [("old", 1)])


def neighbours(store: Store, count: int) -> tuple[int, list[str]]:
    """A partition, and the sorted names of so many timelines that belong to it. Nothing is left of the search."""
    names = [f"n{number:03}" for number in range(count * store.partitions)]
    arrive_everywhere(store, names)
    found = [claim(store, partition, len(names)).leases for partition in range(store.partitions)]
    for name in names:
        delete(store, name)
    partition = max(range(store.partitions), key=lambda each: len(found[each]))
    return partition, sorted(lease.timeline for lease in found[partition])[:count]


def let_lapse(store: Store, timelines: Sequence[str], *, now: int = NOW) -> None:
    """Open timelines with a record each, and let their leases lapse together."""
    arrive_everywhere(store, timelines, now=now)
    for timeline in timelines:
        open_digest(store, timeline, now=now)


def suspects(store: Store, partition: int, *, now: int, size: int = 8, alone: bool = False) -> ClaimPage:
    """Claim a group of suspects of one partition, once."""
    return store.claim_suspects(partition, SuspectGroup(size, size, alone), token=fresh_id(), lease=LEASE, now=now)
