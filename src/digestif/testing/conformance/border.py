"""The border: what is accepted reads back equal, anything else is refused before anything is written."""

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from digestif import ConfigError, Digests, InvalidRecord, Policy, Record
from digestif.core.times import MILLISECONDS_FROM
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, deliver
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.keys import one_store_for_all

JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**63 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text('aé\0 "\\', max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
LONE = "\ud800"


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


BAD_TIMESTAMPS: list[Any] = [
    datetime(2026, 1, 2),  # noqa: DTZ001  # without a zone it is no certain time
    1_700_000_000_000,  # milliseconds
    1e11,
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    "1700000000",
    b"1",
    [T],
    1j,
    2**53 + 1,
    10**400,
]
BAD_KEYS: list[Any] = ["", LONE, f"a{LONE}b", "x" * 513, "é" * 257, "😀" * 129, 7, b"bytes", True, ["list"]]
BAD_VALUES = [
    *(math.nan, math.inf, -math.inf, [1, [math.nan]], {"a": {"b": -math.inf}}),
    *(nested(65), [{"a": nested(64)}, 1]),
    *(b"bytes", bytearray(b"b"), (b"1",), {b"1"}, Decimal("NaN"), 1j, object(), Record("a", 1, T)),
    *(datetime(2026, 1, 2), [datetime(2026, 1, 2)], {"a": (1, datetime(2026, 1, 2))}),  # noqa: DTZ001
    *({1: "int key"}, {None: 1}, {("a",): 1}, LONE, [LONE], {LONE: 1}, "x" * (256 * 1024), ["x"] * 100_000),
]
BAD_DURATIONS: list[Any] = [-1, math.nan, math.inf, True, "10"]
SMALL_BAD_VALUES = some.sampled_from(BAD_VALUES[:-2])
HIDDEN_BAD_VALUES = some.recursive(
    SMALL_BAD_VALUES,
    lambda inner: (
        some.tuples(JSON, inner).map(list) | some.tuples(JSON, inner).map(lambda two: {"a": two[0], "b": two[1]})
    ),
    max_leaves=3,
)
FINITE = some.floats(max_value=MILLISECONDS_FROM, exclude_max=True, allow_nan=False, allow_infinity=False)
GOOD_KEYS = some.text("ab", min_size=1, max_size=9)


class StoredValues(Suite):
    @pytest.mark.parametrize(
        "timestamp", [T + 0.1 + 0.2, 5e-324, -1.7976931348623157e308, 0.1, -1e-9, 99_999_999_999.99998]
    )
    def test_a_timestamp_reads_back_to_the_last_bit(self, digests: Digests, timestamp: float) -> None:
        """Fact 5. An added record reads back equal in timestamp, to the last bit."""
        digests.add("t", Record("a", 1, timestamp), now=T)

        [record] = deliver(digests, "t")

        assert struct.pack(">d", record.timestamp) == struct.pack(">d", timestamp)

    def test_an_aware_datetime_serves_as_timestamp(self, digests: Digests) -> None:
        """Fact 5. An added record reads back equal: an aware datetime becomes its seconds."""
        at = datetime.fromtimestamp(T + 0.25, UTC).astimezone(timezone(timedelta(hours=5, minutes=30)))
        digests.add("t", 1, timestamp=at, now=T)

        [record] = deliver(digests, "t")

        assert record.timestamp == T + 0.25

    def test_standard_types_read_back_as_their_json_form(self, digests: Digests) -> None:
        """Fact 42. Encodable standard types are turned into JSON first; equality is that of the JSON form."""
        value = {"at": datetime(2026, 1, 2, tzinfo=UTC), "sum": Decimal("9.50"), "tags": {"b", "a"}, "pair": (1, 2)}
        digests.add("t", Record("a", value, T), now=T)

        [record] = deliver(digests, "t")

        assert record.value == {"at": "2026-01-02T00:00:00Z", "sum": "9.50", "tags": ["a", "b"], "pair": [1, 2]}

    def test_a_whole_number_serves_as_timestamp(self, digests: Digests) -> None:
        """Fact 5. An added record reads back equal: a whole number of seconds becomes the float of the same value."""
        digests.add("t", Record("a", 1, 1_700_000_000), now=T)

        [record] = deliver(digests, "t")

        assert record.timestamp == T
        assert type(record.timestamp) is float

    @given(value=JSON, timestamp=FINITE)
    @example(value=None, timestamp=T)
    @example(value="x" * (256 * 1024 - 100), timestamp=T)
    @example(value=nested(64), timestamp=T)
    @one_store_for_all
    def test_any_record_reads_back_equal(self, digests: Digests, value: Any, timestamp: float) -> None:
        """Fact 5. An added record reads back equal in key, value and timestamp."""
        digests.add("t", Record("a", value, timestamp), first_delay=0, now=T)
        digests.flush("t", now=T)

        [record] = deliver(digests, "t", 0)

        assert record == Record("a", value, timestamp)
        assert same_types(record.value, value)


class Refusals(Suite):
    @pytest.fixture
    def untouched(self, digests: Digests, store: Store) -> Any:
        """Fail unless a refused call leaves the store as it was, with something in it."""
        digests.add("known", Record("a", 1, T), now=T)
        before = (digests.ledger(), dict(store.footprint()))
        yield
        assert (digests.ledger(), dict(store.footprint())) == before

    @pytest.mark.usefixtures("untouched")
    def test_a_timestamp_that_is_no_finite_number_is_refused(self, digests: Digests) -> None:
        """Fact 42. NaN, infinities, booleans or text as a timestamp: InvalidRecord, nothing written."""
        for timestamp in BAD_TIMESTAMPS:
            assert_refused(digests, "t", Record("a", 1, timestamp))

    @pytest.mark.usefixtures("untouched")
    def test_an_empty_oversized_or_invalid_key_is_refused(self, digests: Digests) -> None:
        """Fact 42. Empty or oversized keys, lone surrogates: InvalidRecord, nothing written."""
        for key in BAD_KEYS:
            assert_refused(digests, "t", Record(key, 1, T))
            assert_refused(digests, key, Record("a", 1, T))

    @pytest.mark.usefixtures("untouched")
    def test_a_value_that_would_not_read_back_equal_is_refused(self, digests: Digests) -> None:
        """Fact 42. Values too large or too deep, lone surrogates, what would not read back equal: InvalidRecord."""
        for value in BAD_VALUES:
            assert_refused(digests, "t", Record("a", value, T))

    @pytest.mark.usefixtures("untouched")
    def test_a_deadline_that_is_no_duration_is_refused(self, digests: Digests) -> None:
        """Fact 42. A `within` that is not a finite number ≥ 0: InvalidRecord, nothing written."""
        for within in BAD_DURATIONS:
            with pytest.raises(InvalidRecord, match="within"):
                digests.add("t", "a", within=within, now=T)

    @pytest.mark.parametrize("name", ["first_delay", "increment_delay", "maximum_delay"])
    @pytest.mark.usefixtures("untouched")
    def test_a_delay_that_is_no_duration_is_refused(self, digests: Digests, name: str) -> None:
        """Fact 50. Delays given to a single call are checked one by one: ConfigError that names the field."""
        for delay in BAD_DURATIONS:
            with pytest.raises(ConfigError, match=name):
                digests.add("t", "a", **{name: delay}, now=T)

    @pytest.mark.usefixtures("untouched")
    def test_one_bad_record_among_many_refuses_them_all(self, digests: Digests) -> None:
        """Fact 42. Everything is validated before anything is written, over pages too."""
        items = [("t", Record(f"r{n}", n, T)) for n in range(1_200)]

        with pytest.raises(InvalidRecord):
            digests.add_many([*items, ("t", Record("bad", math.nan, T))], now=T)

    @given(
        record=some.builds(Record, some.sampled_from(BAD_KEYS), JSON, FINITE)
        | some.builds(Record, GOOD_KEYS, JSON, some.sampled_from(BAD_TIMESTAMPS))
        | some.builds(Record, GOOD_KEYS, HIDDEN_BAD_VALUES, FINITE)
    )
    @pytest.mark.usefixtures("untouched")
    @one_store_for_all
    def test_whatever_is_wrong_with_a_record_it_is_refused(self, digests: Digests, record: Record) -> None:
        """Fact 42. Anything that would not read back equal, wherever it hides: InvalidRecord, nothing written."""
        assert_refused(digests, "t", record)
        with pytest.raises(InvalidRecord):
            digests.add_many([("known", Record("good", 1, T)), ("t", record)], now=T)


class Configuration(Suite):
    @pytest.mark.parametrize(
        ("field", "options"),
        [
            ("minimum_delay", {"minimum_delay": 11, "maximum_delay": 10}),
            ("ttl", {"maximum_delay": 1800, "ttl": 3599}),
            ("ttl", {"first_delay": 5000, "ttl": 9999}),
            ("minimum_dealy", {"minimum_dealy": 10}),
            ("first_delay", {"first_delay": -1}),
            ("increment_delay", {"increment_delay": math.nan}),
            ("maximum_delay", {"maximum_delay": math.inf}),
            ("minimum_delay", {"minimum_delay": True}),
            ("quiet", {"quiet": "60"}),
            ("max_records", {"max_records": 0}),
            ("attempts", {"attempts": 0}),
            ("lapses", {"lapses": 0}),
            ("redelivery", {"redelivery": "sometimes"}),
        ],
    )
    def test_a_wrong_policy_is_refused_by_the_name_of_the_field(self, field: str, options: dict[str, Any]) -> None:
        """Fact 50. minimum > maximum, ttl < 2 × maximum, unknown options: ConfigError that names the field."""
        with pytest.raises(ConfigError, match=field):
            Policy(**options)

    def test_an_unknown_option_says_what_was_probably_meant(self) -> None:
        """Fact 50. Unknown options: ConfigError that names the field, and the one that is like it."""
        with pytest.raises(ConfigError, match="minimum_delay"):
            Policy(minimum_dealy=10)  # type: ignore[call-arg]  # that is the point

    def test_what_is_just_allowed_is_accepted(self) -> None:
        """Fact 50. minimum = maximum and ttl = 2 × maximum are no errors."""
        policy = Policy(minimum_delay=10, maximum_delay=10, ttl=20)

        assert (policy.minimum_delay, policy.ttl) == (10, 20)


def assert_refused(digests: Digests, timeline: str, record: Record) -> None:
    with pytest.raises(InvalidRecord):
        digests.add(timeline, record, now=T)


def same_types(one: object, other: object) -> bool:
    """True if two values are equal and of the same type: 1 == 1.0 == True is not enough."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(same_types, one.values(), other.values()))
    if isinstance(one, list) and isinstance(other, list):
        return all(map(same_types, one, other))
    return type(one) is type(other)
