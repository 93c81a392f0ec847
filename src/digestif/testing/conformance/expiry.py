"""Expiry: maintenance deletes and counts records that arrived longer ago than their ttl."""

from typing import Any

import pytest

from digestif import Digests, Outcome, Record, StaleLease
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, let_wait, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left

OPTIONS: dict[str, Any] = {"minimum_delay": 100, "maximum_delay": 100, "ttl": 200}


class Expiry(Suite):
    @pytest.fixture
    def expiring(self, digests_with: DigestsWith) -> Digests:
        return digests_with(**OPTIONS)

    def test_a_delay_as_long_as_allowed_never_expires_data(self, expiring: Digests) -> None:
        """Fact 45. A delay as long as allowed never expires data."""
        let_wait(expiring, "t", due=T + 100, last=T)
        expiring.add("t", Record("a", 1, T), now=T)
        for second in range(0, 100, 10):
            expiring.maintenance(T + second, now=T + second)
        scheduled(expiring, T + 100)
        expiring.maintenance(T + 99, now=T + 100)

        assert keys(deliver(expiring, "t", now=T + 100)) == ["a"]
        assert expiring.ledger().expired == 0

    def test_what_is_pending_for_too_long_expires(self, expiring: Digests, store: Store) -> None:
        """Fact 45. What expires is counted and leaves no key: pending records, by arrival."""
        expiring.add("t", Record("a", 1, T + 1e6), now=T)
        expiring.maintenance(T, now=T + 199.999)
        assert expiring.ledger().expired == 0

        expiring.maintenance(T, now=T + 200)

        assert (expiring.ledger().expired, expiring.ledger().pending) == (1, 0)
        assert expiring.timeline("t").state == "idle"
        assert_nothing_left(store)

    def test_each_record_expires_by_its_own_arrival(self, expiring: Digests) -> None:
        """Fact 45. By arrival: of two records the older one expires, the newer one is delivered."""
        expiring.add("t", Record("older", 1, T), now=T)
        expiring.add("t", Record("newer", 2, T), now=T + 1)
        expiring.maintenance(T - 1, now=T + 200)

        assert keys(deliver(expiring, "t", now=T + 200)) == ["newer"]
        assert expiring.ledger().expired == 1

    def test_a_new_version_begins_its_time_anew(self, expiring: Digests) -> None:
        """Fact 45. By arrival: a record that was added again lives from then on."""
        expiring.add("t", Record("a", 1, T), now=T)
        expiring.add("t", Record("a", 2, T), now=T + 150)
        expiring.maintenance(T - 1, now=T + 349)

        assert keys(deliver(expiring, "t", now=T + 349)) == ["a"]

    def test_an_unfinished_digest_expires_too(self, expiring: Digests, store: Store) -> None:
        """Fact 45. What expires, pending and unfinished alike, is counted and leaves no key."""
        expiring.add("t", "failed", now=T)
        fail(expiring, "t")
        expiring.add("t", "pending", now=T + 100)
        expiring.maintenance(T - 1, now=T + 200)
        assert (expiring.ledger().open, expiring.ledger().expired) == (0, 1)

        expiring.maintenance(T - 1, now=T + 300)

        assert expiring.ledger().expired == 2
        assert expiring.timeline("t").state == "idle"
        assert_nothing_left(store)

    def test_an_open_digest_does_not_expire(self, digests_with: DigestsWith) -> None:
        """Fact 45. A digest under a live lease is not touched, however old its records are."""
        digests = digests_with(lease=1000, **OPTIONS)
        digests.add("t", "a", now=T)
        with digests.digest("t", now=T):
            digests.maintenance(T, now=T + 900)

        assert (digests.ledger().expired, digests.ledger().delivered) == (0, 1)

    def test_a_digest_that_may_have_gone_out_expires_as_a_whole(self, expiring: Digests, store: Store) -> None:
        """Fact 45. A frozen digest never loses a part: it expires once its last record has."""
        expiring.add("t", Record("older", 1, T), now=T)
        expiring.add("t", Record("newer", 2, T), now=T + 50)
        with pytest.raises(StaleLease), expiring.digest("t", now=T + 60):
            expiring.maintenance(T, now=T + 90)
        expiring.maintenance(T, now=T + 249.999)
        assert (expiring.ledger().open, expiring.ledger().expired) == (2, 0)

        expiring.maintenance(T, now=T + 250)

        assert (expiring.ledger().open, expiring.ledger().expired) == (0, 2)
        assert_nothing_left(store)

    def test_a_digest_that_expired_whole_is_remembered(self, expiring: Digests) -> None:
        """Fact 45. What expires is counted: a digest that may have gone out is in the history as expired."""
        expiring.add("t", Record("a", 1, T), now=T)
        with pytest.raises(StaleLease), expiring.digest("t", now=T) as lapsed:
            expiring.maintenance(T - 1, now=T + 30)

        expiring.maintenance(T - 1, now=T + 200)

        [entry] = expiring.history("t")
        assert (entry.id, entry.outcome, entry.ended) == (lapsed.id, Outcome.EXPIRED, T + 200)

    def test_with_redelivery_same_a_failed_digest_expires_as_a_whole(self, digests_with: DigestsWith) -> None:
        """Fact 45. A digest that must be delivered exactly as it was expires only as a whole."""
        digests = digests_with(redelivery="same", **OPTIONS)
        digests.add("t", Record("older", 1, T), now=T)
        digests.add("t", Record("newer", 2, T), now=T + 50)
        failed = fail(digests, "t", now=T + 60)
        digests.maintenance(T - 1, now=T + 249.999)

        again = deliver(digests, "t", now=T + 249.999)

        assert keys(failed) == keys(again) == ["newer", "older"]
        assert failed.idempotency_key == again.idempotency_key

    def test_a_paused_timeline_expires_too(self, expiring: Digests) -> None:
        """Fact 45. What expires is counted, paused or not."""
        expiring.pause("t", now=T)
        expiring.add("t", "a", now=T)

        expiring.maintenance(T, now=T + 200)

        assert expiring.ledger().expired == 1
        assert expiring.timeline("t").paused is True

    def test_without_a_ttl_nothing_expires(self, digests_with: DigestsWith) -> None:
        """Fact 45. With ttl=None nothing expires, ever."""
        digests = digests_with(ttl=None)
        digests.add("t", Record("a", 1, T), now=T)
        digests.maintenance(T - 1, now=T + 1e9)

        assert keys(deliver(digests, "t", now=T + 1e9)) == ["a"]

    def test_many_pages_expire(self, expiring: Digests, store: Store) -> None:
        """Fact 45. What expires is counted and leaves no key, of several pages too."""
        add_all(expiring, "t", numbered(range(2_500)))
        add_all(expiring, "u", numbered(range(10)))

        expiring.maintenance(T, now=T + 200)

        assert expiring.ledger().expired == 2_510
        assert_nothing_left(store)
