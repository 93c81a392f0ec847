"""Expiry: what arrived longer ago than its ttl is removed by maintenance, and counted."""

import pytest

from digestif import Digests, Record, StaleLease
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, let_wait, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left

OPTIONS = {"minimum_delay": 100, "maximum_delay": 100, "ttl": 200}


class Expiry(Suite):
    @pytest.fixture
    def digests(self, digests_with: DigestsWith) -> Digests:
        return digests_with(**OPTIONS)

    def test_a_delay_as_long_as_allowed_never_expires_data(self, digests: Digests) -> None:
        """Fact 45. A delay as long as allowed never expires data."""
        let_wait(digests, "t", due=T + 100, last=T)
        digests.add("t", Record("a", 1, T), now=T)
        for second in range(0, 100, 10):
            digests.maintenance(T + second, now=T + second)
        scheduled(digests, T + 100)
        digests.maintenance(T + 99, now=T + 100)

        assert keys(deliver(digests, "t", now=T + 100)) == ["a"]
        assert digests.ledger().expired == 0

    def test_what_is_pending_for_too_long_expires(self, digests: Digests, store: Store) -> None:
        """Fact 45. What expires is counted and leaves no key: pending records, by arrival."""
        digests.add("t", Record("a", 1, T + 1e6), now=T)
        digests.maintenance(T, now=T + 199.999)
        assert digests.ledger().expired == 0

        digests.maintenance(T, now=T + 200)

        assert (digests.ledger().expired, digests.ledger().pending) == (1, 0)
        assert digests.timeline("t").state == "idle"
        assert_nothing_left(store)

    def test_each_record_expires_by_its_own_arrival(self, digests: Digests) -> None:
        """Fact 45. By arrival: of two records the older one expires, the newer one is delivered."""
        digests.add("t", Record("older", 1, T), now=T)
        digests.add("t", Record("newer", 2, T), now=T + 1)
        digests.maintenance(T - 1, now=T + 200)

        assert keys(deliver(digests, "t", now=T + 200)) == ["newer"]
        assert digests.ledger().expired == 1

    def test_a_new_version_begins_its_time_anew(self, digests: Digests) -> None:
        """Fact 45. By arrival: a record that was added again lives from then on."""
        digests.add("t", Record("a", 1, T), now=T)
        digests.add("t", Record("a", 2, T), now=T + 150)
        digests.maintenance(T - 1, now=T + 349)

        assert keys(deliver(digests, "t", now=T + 349)) == ["a"]

    def test_an_unfinished_digest_expires_too(self, digests: Digests, store: Store) -> None:
        """Fact 45. What expires, pending and unfinished alike, is counted and leaves no key."""
        digests.add("t", "failed", now=T)
        fail(digests, "t")
        digests.add("t", "pending", now=T + 100)
        digests.maintenance(T - 1, now=T + 200)
        assert (digests.ledger().open, digests.ledger().expired) == (0, 1)

        digests.maintenance(T - 1, now=T + 300)

        assert digests.ledger().expired == 2
        assert digests.timeline("t").state == "idle"
        assert_nothing_left(store)

    def test_an_open_digest_does_not_expire(self, digests_with: DigestsWith) -> None:
        """Fact 45. A digest under a live lease is not touched, however old its records are."""
        digests = digests_with(lease=1000, **OPTIONS)
        digests.add("t", "a", now=T)
        with digests.digest("t", now=T):
            digests.maintenance(T, now=T + 900)

        assert (digests.ledger().expired, digests.ledger().delivered) == (0, 1)

    def test_a_digest_that_may_have_gone_out_expires_as_a_whole(self, digests: Digests, store: Store) -> None:
        """Fact 45. A frozen digest never loses a part: it expires once its last record has."""
        digests.add("t", Record("older", 1, T), now=T)
        digests.add("t", Record("newer", 2, T), now=T + 50)
        with pytest.raises(StaleLease), digests.digest("t", now=T + 60):
            digests.maintenance(T, now=T + 90)
        digests.maintenance(T, now=T + 249.999)
        assert (digests.ledger().open, digests.ledger().expired) == (2, 0)

        digests.maintenance(T, now=T + 250)

        assert (digests.ledger().open, digests.ledger().expired) == (0, 2)
        assert_nothing_left(store)

    def test_a_paused_timeline_expires_too(self, digests: Digests) -> None:
        """Fact 45. What expires is counted, paused or not."""
        digests.pause("t", now=T)
        digests.add("t", "a", now=T)

        digests.maintenance(T, now=T + 200)

        assert digests.ledger().expired == 1
        assert digests.timeline("t").paused is True

    def test_without_a_ttl_nothing_expires(self, digests_with: DigestsWith) -> None:
        """Fact 45. With ttl=None nothing expires, ever."""
        digests = digests_with(ttl=None)
        digests.add("t", Record("a", 1, T), now=T)
        digests.maintenance(T - 1, now=T + 1e9)

        assert keys(deliver(digests, "t", now=T + 1e9)) == ["a"]

    def test_many_pages_expire(self, digests: Digests, store: Store) -> None:
        """Fact 45. What expires is counted and leaves no key, of several pages too."""
        add_all(digests, "t", numbered(range(2_500)))
        add_all(digests, "u", numbered(range(10)))

        digests.maintenance(T, now=T + 200)

        assert digests.ledger().expired == 2_510
        assert_nothing_left(store)
