"""The backlog, at the level of the port: how many timelines are in which state; and attempts that do not count."""

from digestif.stores.base import Release, Store
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    claim_all,
    claim_suspects,
    complete,
    open_digest,
    open_lease,
    release,
    take_all,
)

LATER = NOW + LEASE


class BacklogCounts(Suite):
    def test_an_empty_store_has_nothing_to_do(self, store: Store) -> None:
        """Fact 30. Neither has one whose timelines are all delivered and idle."""
        assert store.standing(now=NOW) == (0, 0, 0, 0, 0, None, None)

    def test_timelines_are_counted_by_where_they_stand(self, store: Store) -> None:
        """Fact 12. One waits, two are ready, one is open; the earliest due time is given."""
        for name in ("ready 1", "ready 2", "open", "waits"):
            arrive(store, name, ["a"])
        complete(store, open_digest(store, "waits"), cool_down=700)
        open_lease(store, "open")

        found = store.standing(now=NOW)

        assert (found.timelines, found.waiting, found.ready, found.open) == (4, 1, 2, 1)
        assert (found.due, found.earliest) == (2, NOW)

    def test_what_waits_is_due_in_its_time_and_a_lapsed_lease_at_its_end(self, store: Store) -> None:
        """Fact 13. Exactly at its time it counts."""
        for name in ("open", "waits"):
            arrive(store, name, ["a"])
        complete(store, open_digest(store, "waits"), cool_down=LEASE)
        open_lease(store, "open")

        assert [store.standing(now=now).due for now in (LATER - 1, LATER)] == [0, 2]
        assert store.standing(now=LATER).earliest == LATER

    def test_what_is_paused_is_counted_and_not_due(self, store: Store) -> None:
        """Fact 53. A paused timeline is neither scheduled nor claimed, so it is not due."""
        arrive(store, "t", ["a"])
        store.pause("t", True, now=NOW)

        found = store.standing(now=LATER)

        assert (found.timelines, found.waiting, found.ready, found.due, found.earliest) == (1, 0, 0, 0, None)

    def test_the_first_record_to_expire_is_known(self, store: Store) -> None:
        """Fact 45. The first expiry follows from the arrival, not from the timestamps."""
        arrive(store, "late", ["a"], ttl=900, now=NOW + 5)
        arrive(store, "early", ["a"], ttl=900)

        assert store.standing(now=NOW).expires == NOW + 900


class UncountedAttempts(Suite):
    def test_an_attempt_that_was_none_does_not_count(self, store: Store) -> None:
        """Fact 47. A digest that is released uncounted, at once or for later, has as many attempts left as before."""
        for name, until in (("at once", None), ("later", NOW + 5)):
            arrive(store, name, ["a"])
            lease = open_digest(store, name)
            assert store.release([Release(lease, until, counted=False)], now=NOW) == [True]

        assert {lease.timeline: lease.attempt for lease in claim_all(store, now=LATER)} == {"at once": 1, "later": 1}

    def test_an_attempt_that_may_have_gone_out_comes_again_as_it_was_and_does_not_count(self, store: Store) -> None:
        """Fact 46. Frozen: the same records under the same revision, newer ones wait."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.release([Release(lease, None, freeze=True, counted=False)], now=NOW)
        arrive(store, "t", ["b"])

        again = open_lease(store)
        taken = take_all(store, again)

        assert (again.attempt, taken.revision, [record.key for record in taken.records]) == (1, 1, ["a"])

    def test_a_lease_tells_whether_it_was_taken_over(self, store: Store) -> None:
        """Fact 40. `lapsed` is true after another lease ran out, and false the first time and after a release."""
        arrive(store, "t", ["a"])
        first = open_lease(store)
        second = open_lease(store, now=LATER)
        release(store, second, now=LATER)
        [third] = claim_all(store, now=LATER)
        [fourth] = claim_suspects(store, now=LATER + LEASE)

        assert [lease.lapsed for lease in (first, second, third, fourth)] == [False, True, False, True]
