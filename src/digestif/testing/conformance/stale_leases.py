"""Stale leases: a stale token changes nothing, and a digest that may have gone out keeps its idempotency key."""

from collections.abc import Callable
from random import Random

import pytest

from digestif import Busy, Digest, Digests, InvalidState, Record, StaleLease
from digestif.stores.base import Store
from digestif.testing.conformance.actions import Boom, T, deliver, fail, keys, next_digest, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left


def lapse(digests: Digests) -> None:
    """The lease of 30 seconds runs out, and maintenance notices."""
    digests.maintenance(T - 1, now=T + 30)


def delete(digests: Digests) -> None:
    digests.delete("t", now=T)


def delete_and_add_again(digests: Digests) -> None:
    digests.delete("t", now=T)
    digests.add("t", Record("again", 1, T), now=T)


def take_over(digests: Digests) -> None:
    """Another worker opens it after the lapse, and fails."""
    fail(digests, "t", now=T + 30)


LOSSES = pytest.mark.parametrize("lose", [lapse, delete, delete_and_add_again, take_over])


class StaleLeases(Suite):
    def test_a_record_added_again_during_its_digest_is_in_the_next_one(self, digests: Digests) -> None:
        """Fact 38. Re-adding a record key during an open digest: the new version is in the next digest."""
        digests.add("t", Record("a", "old", T), now=T)
        with digests.digest("t", 0, now=T) as first:
            digests.add("t", Record("a", "new", T), now=T)

        assert [record.value for record in first] == ["old"]
        assert [record.value for record in next_digest(digests, "t", now=T)] == ["new"]
        assert (digests.ledger().delivered, digests.ledger().superseded) == (2, 0)

    @LOSSES
    @pytest.mark.parametrize("error", [None, Boom()], ids=["complete", "release"])
    def test_who_lost_the_lease_changes_nothing(
        self, digests: Digests, store: Store, lose: Callable[[Digests], None], error: Boom | None
    ) -> None:
        """Fact 39. A completion or release with a stale token changes nothing: StaleLease, or what the block raised."""
        digests.add("t", Record("a", 1, T), now=T)
        with pytest.raises(type(error) if error else StaleLease), digests.digest("t", now=T):
            lose(digests)
            before = all_that_is_seen(digests, store)
            if error:
                raise error

        assert all_that_is_seen(digests, store) == before

    def test_a_lost_lease_gives_exactly_the_same_digest_again(self, digests: Digests, store: Store) -> None:
        """Fact 40. A lease lost in the middle: the second worker gets the same digest; the first cannot complete it."""
        digests.add("t", Record("a", 1, T), now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T) as first:
            digests.add("t", Record("a", "later", T + 1), now=T + 1)
            digests.add("t", Record("b", 2, T + 1), now=T + 1)
            second = deliver(digests, "t", 0, now=T + 30)

        assert list(second) == list(first) == [Record("a", 1, T)]
        assert second.idempotency_key == first.idempotency_key
        assert (first.attempt, second.attempt) == (1, 2)
        assert keys(next_digest(digests, "t", now=T + 30)) == ["b", "a"]
        assert (digests.ledger().accepted, digests.ledger().delivered) == (3, 3)

    def test_a_lapsed_digest_stays_as_it_was_over_further_failures(self, digests: Digests) -> None:
        """Fact 40. After a lapse: exactly the same digest under the same key, whatever arrived and failed meanwhile."""
        seen: list[Digest] = []
        digests.add("t", Record("a", 1, T), now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T) as first:
            lapse(digests)
        digests.add("t", Record("b", 2, T), now=T + 30)
        scheduled(digests, T + 30)

        seen = [fail(digests, "t", now=T + 31), fail(digests, "t", now=T + 32), deliver(digests, "t", now=T + 33)]

        assert {(tuple(digest), digest.idempotency_key) for digest in seen} == {(tuple(first), first.idempotency_key)}
        assert [digest.attempt for digest in seen] == [2, 3, 4]

    def test_a_lapse_after_a_merge_keeps_what_was_merged(self, digests: Digests) -> None:
        """Fact 40. After failure, merge and lapse: the digest of the last revision comes again under its key."""
        digests.add("t", Record("a", 1, T), now=T)
        fail(digests, "t")
        digests.add("t", Record("b", 2, T), now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T) as merged:
            digests.add("t", Record("c", 3, T), now=T)
            again = deliver(digests, "t", now=T + 30)

        assert list(again) == list(merged)
        assert keys(again) == ["b", "a"]
        assert again.idempotency_key == merged.idempotency_key

    def test_maintenance_ends_a_lapsed_lease_and_counts_it(self, digests: Digests) -> None:
        """Fact 40. Open with a lapsed lease: maintenance lets it wait, due when it was, and counts it as moved."""
        digests.add("t", "a", now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T + 1):
            moved = digests.maintenance(T - 1, now=T + 31)

        assert moved == 1
        assert (digests.timeline("t").state, digests.timeline("t").due) == ("waiting", T)

    def test_a_lease_is_alive_until_the_last_moment(self, digests: Digests) -> None:
        """Fact 40. A lease has lapsed when now ≥ its expiry: a moment before, a second worker gets Busy."""
        digests.add("t", "a", now=T)

        with digests.digest("t", now=T):
            with pytest.raises(Busy):
                deliver(digests, "t", now=T + 29.999)
            assert digests.maintenance(T + 1e6, now=T + 29.999) == 0

        assert digests.ledger().delivered == 1

    def test_a_digest_that_kills_its_workers_is_buried(self, digests_with: DigestsWith) -> None:
        """Fact 40. Lapsed alone as often as the policy allows, it is buried instead of being opened, and counted dead.

        The first lapse makes it a suspect and proves nothing.
        """
        digests = digests_with(lapses=2)
        digests.add("t", "deadly", now=T)
        for lapses in range(3):
            with pytest.raises(StaleLease), digests.digest("t", now=T + 30 * lapses):
                digests.maintenance(T - 1, now=T + 30 * (lapses + 1))
            scheduled(digests, T + 30 * (lapses + 1))

        with pytest.raises(InvalidState):
            deliver(digests, "t", now=T + 90)

        assert (digests.ledger().dead, digests.ledger().open) == (1, 0)
        assert digests.timeline("t").state == "waiting"

    def test_a_clock_that_is_ahead_takes_over_but_only_one_can_complete(self, digests_with: DigestsWith) -> None:
        """Fact 49. Clocks an hour apart: the process that is ahead takes the lease over; the other's token is stale."""
        slow, fast = digests_with(), digests_with()
        slow.add("t", Record("a", 1, T), now=T)
        with pytest.raises(StaleLease), slow.digest("t", now=T) as first, fast.digest("t", now=T + 3600) as second:
            with pytest.raises(Busy):
                deliver(slow, "t", now=T + 1)
            assert list(second) == list(first)

        assert first.idempotency_key == second.idempotency_key
        assert slow.ledger().delivered == 1

    def test_a_clock_that_is_behind_waits_for_the_lease_of_the_other(self, digests_with: DigestsWith) -> None:
        """Fact 49. Clocks an hour apart: the process that is behind gets Busy while the other's lease lives."""
        slow, fast = digests_with(), digests_with()
        fast.add("t", Record("a", 1, T), now=T + 3600)
        with pytest.raises(StaleLease), fast.digest("t", now=T + 3600):
            with pytest.raises(Busy):
                deliver(slow, "t", now=T + 3629)
            recovered = deliver(slow, "t", now=T + 3630)

        assert keys(recovered) == ["a"]
        assert slow.ledger().delivered == 1

    @pytest.mark.parametrize("seed", range(2))
    def test_engines_with_clocks_an_hour_apart_lose_nothing(
        self, digests_with: DigestsWith, store: Store, seed: int
    ) -> None:
        """Fact 49. Two engines with clocks an hour apart: no loss, each record is delivered once."""
        random, engines = Random(seed), [(digests_with(), 0.0), (digests_with(), 3600.0)]
        delivered: list[str] = []
        for n in range(60):
            digests, ahead = random.choice(engines)
            now = T + n + ahead
            digests.add(random.choice("xyz"), Record(f"r{n}", n, now), now=now)
            if random.random() < 0.5:
                digests, ahead = random.choice(engines)
                delivered += drain(digests, now=T + n + ahead)
        for now in (T + 9_000, T + 99_000):
            delivered += drain(engines[0][0], now=now)

        assert sorted(delivered) == sorted(f"r{n}" for n in range(60))
        assert engines[0][0].ledger().delivered == 60
        assert_nothing_left(store)


def all_that_is_seen(digests: Digests, store: Store) -> tuple[object, ...]:
    return digests.timeline("t"), digests.ledger(), digests.history(), dict(store.footprint())


def drain(digests: Digests, *, now: float) -> list[str]:
    """Deliver everything that is ready or due by this clock."""
    digests.maintenance(now, now=now)
    return [key for timeline in scheduled(digests, now) for key in keys(deliver(digests, timeline, now=now))]
