"""Large values: a namespace may allow more than the usual 256 KiB, and digests of them keep to their bytes."""

from typing import Any

import pytest

from digestif import ConfigError, Digests, InvalidRecord, Record
from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, next_digest, numbered
from digestif.testing.conformance.base import DigestsWith, Suite, in_sync_mode_only

LARGEST = "x" * (MOST_VALUE_BYTES - 2)  # with its quotes, a mebibyte
FITTING = 3
BYTES = FITTING << 20 | 1000  # of a digest that holds so many of them


def large(numbers: range) -> list[Record]:
    """Records r0, r1… a second apart, as large as they may be."""
    return [Record(f"r{number}", LARGEST, T + number) for number in numbers]


class LargeValues(Suite):
    def test_a_namespace_allows_larger_values_in_every_process(self, store: Store, digests_with: DigestsWith) -> None:
        """Fact 42. An engine that was refused a value before accepts it as soon as another process allows it."""
        before, after = digests_with(), digests_with()
        with pytest.raises(InvalidRecord, match=f"allowed are {VALUE_BYTES}; .* value_bytes"):
            before.add("t", LARGEST, now=T)
        assert store.value_bytes() == VALUE_BYTES

        store.raise_value_bytes(MOST_VALUE_BYTES)

        before.add("t", LARGEST, key="a", now=T)
        after.add_many([("t", Record("b", 1, T)), ("t", Record("c", LARGEST, T))], now=T)
        assert after.accept("t", LARGEST, key="d", now=T).key == "d"
        assert {record.key: record.value == LARGEST for record in deliver(after, "t")} == {
            "a": True,
            "b": False,
            "c": True,
            "d": True,
        }
        assert after.verify()

    def test_a_value_beyond_the_limit_is_refused_with_nothing_written(self, store: Store, digests: Digests) -> None:
        """Fact 42. As every invalid record, alone and among others."""
        store.raise_value_bytes(VALUE_BYTES * 2)
        fits, exceeds = "x" * (VALUE_BYTES * 2 - 2), "x" * (VALUE_BYTES * 2 - 1)
        valid = Record("valid", fits, T)

        with pytest.raises(InvalidRecord, match=f"value: {VALUE_BYTES * 2 + 1} bytes encoded, allowed are"):
            digests.add("t", exceeds, now=T)
        with pytest.raises(InvalidRecord, match="record 1: value: "):
            digests.add_many([("t", valid), ("t", exceeds)], now=T)
        assert digests.ledger().accepted == 0

        first, second = digests.accept_valid([("t", exceeds), ("t", valid)], now=T)
        assert isinstance(first, InvalidRecord)
        assert not isinstance(second, InvalidRecord)
        assert digests.ledger().accepted == 1

    @in_sync_mode_only
    def test_what_is_allowed_is_never_lowered(self, store: Store, digests: Digests) -> None:
        """Fact 42. A lower limit is a ConfigError that names both; what was accepted stays readable."""
        store.raise_value_bytes(MOST_VALUE_BYTES)

        with pytest.raises(ConfigError, match=f"allows {MOST_VALUE_BYTES} and keeps that, not {VALUE_BYTES}"):
            store.raise_value_bytes(VALUE_BYTES)

        assert store.value_bytes() == MOST_VALUE_BYTES
        assert digests.add("t", LARGEST, now=T)

    @pytest.mark.parametrize("wanted", [VALUE_BYTES - 1, MOST_VALUE_BYTES + 1, True, 1e6])
    def test_no_other_limit_is_allowed(self, store: Store, wanted: Any) -> None:
        """Fact 50. From 256 KiB to 1 MiB, in bytes."""
        with pytest.raises(ConfigError, match=r"value_bytes: .* is not a whole number from 262144 to 1048576"):
            store.raise_value_bytes(wanted)

        assert store.value_bytes() == VALUE_BYTES

    @in_sync_mode_only
    def test_a_digest_holds_the_newest_of_the_largest_values(self, store: Store, digests_with: DigestsWith) -> None:
        """Fact 67. So few values of the usual size would fit, whatever they are."""
        digests = digests_with(max_bytes=BYTES)
        store.raise_value_bytes(MOST_VALUE_BYTES)
        add_all(digests, "t", large(range(FITTING + 5)))
        expected = [f"r{number}" for number in range(FITTING + 4, 4, -1)]

        digest = deliver(digests, "t")

        assert keys(digest) == expected
        assert (digest.dropped, digests.ledger().dropped) == (5, 5)
        assert digests.verify()

    @in_sync_mode_only
    def test_large_values_are_weighed_beside_small_ones(self, store: Store, digests_with: DigestsWith) -> None:
        """Fact 67. Smaller records before and behind them change nothing."""
        digests = digests_with(max_bytes=BYTES)
        store.raise_value_bytes(MOST_VALUE_BYTES)
        digests.add("t", Record("first", "x" * 10_000, T - 1), now=T)
        add_all(digests, "t", large(range(FITTING + 1)))
        digests.add("t", Record("last", 1, T + 100), now=T)

        digest = deliver(digests, "t")

        assert keys(digest) == ["last", *(f"r{number}" for number in range(FITTING, 0, -1))]
        assert digest.dropped == 2

    @in_sync_mode_only
    def test_large_values_are_weighed_after_a_merge(self, store: Store, digests_with: DigestsWith) -> None:
        """Fact 67. They joined small ones after a failure."""
        digests = digests_with(max_bytes=BYTES)
        store.raise_value_bytes(MOST_VALUE_BYTES)
        add_all(digests, "t", numbered(range(2)))
        fail(digests, "t")
        add_all(digests, "t", large(range(2, FITTING + 3)))

        digest = deliver(digests, "t")

        assert (len(digest), digest.dropped, keys(digest)[0]) == (FITTING, 3, f"r{FITTING + 2}")

    @in_sync_mode_only
    def test_large_values_are_weighed_after_a_requeue(self, store: Store, digests_with: DigestsWith) -> None:
        """Fact 67. Records of a dead letter come back, and small ones have arrived."""
        digests = digests_with(attempts=1, minimum_delay=10, max_bytes=BYTES)
        store.raise_value_bytes(MOST_VALUE_BYTES)
        add_all(digests, "t", large(range(2, FITTING + 2)))
        fail(digests, "t")
        [letter] = digests.dead_letters()
        digests.requeue(letter.id, now=T + 1)
        add_all(digests, "t", [Record(f"s{number}", "x" * 2_000, T + 1_000 + number) for number in range(2)], now=T + 2)

        digest = next_digest(digests, "t", now=T + 3600)

        assert keys(digest) == ["s1", "s0", *[f"r{number}" for number in range(FITTING + 1, 2, -1)]]
        assert digest.dropped == 1
        assert digests.verify()
