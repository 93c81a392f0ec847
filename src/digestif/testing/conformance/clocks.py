"""Clocks that are set back: what was written while they were ahead holds nothing up for as long."""

from digestif.attempts.lease_watch import LeaseWatch
from digestif.stores.base import LeaseEnd, Store
from digestif.testing.clock import FakeClock
from digestif.testing.conformance.actions import T, deliver
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    claim_suspects,
    complete,
    open_digest,
    open_lease,
    record_keys,
    take_all,
)

DAY = 86_400_000


class LeasesAhead(Suite):
    def test_a_lease_that_does_not_change_for_a_whole_lease_ends_though_it_is_a_day_ahead(self, store: Store) -> None:
        """Fact 49. The clock was a day ahead when a worker died: its digest is a suspect after one lease, not a day."""
        arrive(store, "t", ["a", "b"])
        dead = open_digest(store, now=NOW + DAY)
        steady = FakeClock()
        watch = LeaseWatch(store, lease=LEASE, clock=steady)

        look(watch, steady, after=0)
        look(watch, steady, after=LEASE - 1)
        assert store.inspect("t").until == NOW + DAY + LEASE

        look(watch, steady, after=LEASE)
        [again] = claim_suspects(store, now=NOW + 2 * LEASE)
        assert (again.digest_id, again.attempt, again.lapses) == (dead.digest_id, 2, 1)
        assert sorted(record_keys(take_all(store, again, now=NOW + 2 * LEASE).records)) == ["a", "b"]
        assert not complete(store, dead, now=NOW + 2 * LEASE)

    def test_a_holder_that_lives_keeps_its_lease_whatever_its_clock_says(self, store: Store) -> None:
        """Fact 49. Its clock is an hour ahead: it renews its lease, which is never ended for it."""
        arrive(store, "t", ["a"])
        hour = 3_600_000
        lease = open_digest(store, now=NOW + hour)
        steady = FakeClock()
        watch = LeaseWatch(store, lease=LEASE, clock=steady)

        for passed in range(0, 5 * LEASE, LEASE // 3):
            assert store.extend([lease], lease=LEASE, now=NOW + hour + passed) == [True]
            look(watch, steady, after=LEASE // 3, now=NOW + passed)

        assert complete(store, lease, now=NOW + hour + 5 * LEASE)

    def test_a_lease_that_is_not_far_ahead_runs_out_by_itself(self, store: Store) -> None:
        """Fact 49. Clocks may differ by ten minutes: within those nothing is ended early."""
        arrive(store, "t", ["a"])
        lease = open_digest(store, now=NOW + 600_000)
        steady = FakeClock()
        watch = LeaseWatch(store, lease=LEASE, clock=steady)

        for _ in range(5):
            look(watch, steady, after=LEASE)

        assert store.inspect("t").until == lease.until

    def test_the_leases_of_an_engine_that_has_longer_ones_are_not_ended_earlier(self, store: Store) -> None:
        """Fact 49. An engine whose leases last for two hours notes that, and the others wait for as long."""
        hours = 7_200_000
        arrive(store, "t", ["a"])
        steady = FakeClock()
        LeaseWatch(store, lease=hours, clock=steady).note_lease()
        lease = store.open("t", token="long", lease=hours, now=NOW)
        watch = LeaseWatch(store, lease=LEASE, clock=steady)

        for _ in range(5):
            look(watch, steady, after=LEASE)
        assert store.inspect("t").until == NOW + hours

        store.extend([lease], lease=DAY + hours, now=NOW)  # as by a clock that is a day ahead
        look(watch, steady, after=LEASE)
        look(watch, steady, after=hours - 1)
        assert store.inspect("t").until == NOW + DAY + hours

        look(watch, steady, after=LEASE)
        assert store.inspect("t").until == NOW

    def test_a_lease_ends_early_only_if_its_end_is_the_one_that_was_seen(self, store: Store) -> None:
        """Fact 39. Renewed, completed or given to another since then: False, and nothing changes."""
        arrive_everywhere(store, ["renewed", "completed", "same"])
        leases = {lease.timeline: lease for lease in claim_all(store)}
        seen = [LeaseEnd(timeline, NOW + LEASE) for timeline in ("renewed", "completed", "same", "idle")]
        store.extend([leases["renewed"]], lease=LEASE + 1, now=NOW)
        complete(store, leases["completed"])

        assert store.end_leases(seen, now=NOW + 1) == [False, False, True, False]

        assert store.inspect("renewed").until == NOW + LEASE + 1
        assert store.inspect("completed").state == "waiting"
        assert [lease.timeline for lease in claim_suspects(store, now=NOW + 1)] == ["same"]

    def test_leases_are_found_that_end_after_a_time_and_paused_ones_are_not(self, store: Store) -> None:
        """Fact 53. A paused timeline is not delivered anyway."""
        arrive_everywhere(store, ["soon", "late", "later", "paused"])
        for timeline, ahead in (("soon", 0), ("late", 1), ("later", 2), ("paused", 3)):
            open_lease(store, timeline, now=NOW + ahead)
        store.pause("paused", True, now=NOW)

        found = store.leases_beyond(NOW + LEASE, limit=1000)

        assert sorted(found) == [("late", NOW + LEASE + 1), ("later", NOW + LEASE + 2)]
        assert len(store.leases_beyond(0, limit=1)) <= store.partitions


class TimelinesAhead(Suite):
    def test_after_a_clock_was_set_back_what_waits_is_planned_by_now(self, digests_with: DigestsWith) -> None:
        """Fact 49. Delivered while the clock was a day ahead: it is due after its cool-down, not a day later."""
        digests = digests_with(minimum_delay=300, increment_delay=30, maximum_delay=1800)
        digests.add("t", 1, now=T + 86_400)
        deliver(digests, "t", now=T + 86_400)
        digests.add("t", 2, now=T + 86_401)
        digests.add("new", 1, first_delay=60, now=T + 86_400)

        assert digests.replan(now=T) == 2

        assert digests.timeline("t").due == T + 300
        assert digests.timeline("new").due == T
        digests.add("t", 3, now=T + 1)
        assert digests.timeline("t").due == T + 330


def look(watch: LeaseWatch, steady: FakeClock, *, after: int, now: int = NOW) -> None:
    """Let milliseconds pass, then look."""
    steady.advance(after / 1000)
    watch.look(now)
