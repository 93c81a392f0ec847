"""Hostile keys: no two timelines or records ever touch each other."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as some

from digestif import Digests, InvalidState, Record
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, deliver, keys, let_wait, next_digest, scheduled
from digestif.testing.conformance.base import Suite
from digestif.testing.footprint import assert_nothing_left

HOSTILE = [
    *("a", "a:d", "a:r", "a:r:x", "a:r:x:d", ":", "::", "{", "}", "{}", "{a}", "}a{", "a}b{c"),
    *(" ", " a", "a ", "\t", "\n", "a\n", "\r\n", "\0", "a\0", "a\0b", "\x1f", "\x7f", "\x85", "\u2028"),
    *("%", "_", "a%", "a_", "*", "a*", "?", "[a]", "'", '"', "';--", "\\", "/", "../a", "$1", "-1", "0", "00", "1e3"),
    *(
        "A",
        "é",
        "e\u0301",
        "ß",
        "ss",
        "K",
        "\u212a",
        "ı",
        "i",
        "😀",
        "👩‍👩‍👧",
        "\ufeff",
        "\ufeffa",
        "\uffff",
        "\U0010ffff",
    ),
    *("None", "null", "true", "x" * 511, "x" * 512, "x" * 510 + "é", "😀" * 128),
]
ANY_KEY = some.text(some.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
NEAR_KEY = some.text("a:rd{}\0 é", min_size=1, max_size=4)  # short and alike
KEYS = ANY_KEY | NEAR_KEY | some.sampled_from(HOSTILE)

# The examples share a store and clean up after themselves; one text serves many stores.
one_store_for_all = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow],
    deadline=None,
)


class HostileKeys(Suite):
    def test_hostile_timelines_do_not_touch_each_other(self, digests: Digests, store: Store) -> None:
        """Fact 43. Hostile keys: each timeline has its own records, state and end."""
        everybody = list(enumerate(HOSTILE))
        answers = digests.add_many([(timeline, Record("a", n, T)) for n, timeline in everybody], now=T)
        found = digests.timelines(limit=len(HOSTILE))
        assert answers == [True] * len(HOSTILE)
        assert [timeline.key for timeline in found] == sorted(HOSTILE)

        for n, timeline in everybody[::2]:
            assert list(deliver(digests, timeline, 0)) == [Record("a", n, T)]
        for _, timeline in everybody[1::2]:
            assert digests.delete(timeline, now=T) is True

        assert sorted(scheduled(digests)) == sorted(HOSTILE[::2])
        for timeline in HOSTILE[::2]:
            assert list(deliver(digests, timeline)) == []
        assert_nothing_left(store)

    def test_hostile_records_do_not_touch_each_other(self, digests: Digests) -> None:
        """Fact 43. Hostile keys: each record of a timeline is its own."""
        digests.add_many([("t", Record(key, n, T + n)) for n, key in enumerate(HOSTILE)], now=T)
        for key in HOSTILE[1::2]:
            assert digests.retract("t", key, now=T) is True

        digest = deliver(digests, "t")

        assert keys(digest) == HOSTILE[::2][::-1]

    @given(one=KEYS, other=KEYS)
    @one_store_for_all
    def test_any_two_timelines_are_apart(self, digests: Digests, store: Store, one: str, other: str) -> None:
        """Fact 43. Hostile keys: no two timelines ever touch each other, in any state."""
        assume(one != other)
        for timeline in (one, other):
            digests.delete(timeline, now=T)
        digests.add(one, Record("a", "of one", T), now=T)
        digests.pause(one, now=T)

        with pytest.raises(InvalidState):
            deliver(digests, other)
        let_wait(digests, other, due=T + 60)
        assert digests.timeline(one).state == "ready"
        assert digests.timeline(other).paused is False
        digests.add(other, Record("a", "of other", T), increment_delay=0, now=T)
        digests.delete(one, now=T)

        assert [record.value for record in next_digest(digests, other, now=T + 60)] == ["of other"]
        digests.delete(other, now=T)
        assert_nothing_left(store)

    @given(timeline=KEYS, one=KEYS, other=KEYS)
    @one_store_for_all
    def test_any_two_records_are_apart(
        self, digests: Digests, store: Store, timeline: str, one: str, other: str
    ) -> None:
        """Fact 43. Hostile keys: no two records ever touch each other, pending or in a digest."""
        assume(one != other)
        digests.delete(timeline, now=T)
        digests.add(timeline, Record(one, 1, T), now=T)
        with digests.digest(timeline, 0, now=T) as first:
            digests.add(timeline, Record(one, 2, T), now=T)
            digests.add(timeline, Record(other, 3, T), now=T)
            digests.retract(timeline, one, now=T)

        assert list(first) == [Record(one, 1, T)]
        assert list(next_digest(digests, timeline, now=T)) == [Record(other, 3, T)]
        digests.delete(timeline, now=T)
        assert_nothing_left(store)
