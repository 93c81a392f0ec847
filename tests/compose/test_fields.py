"""Values of records: found by path, written as one harmless line, cut to a size that can be sent."""

import itertools
import json
import unicodedata
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif.compose.fields import LABEL_LENGTH, UNREADABLE, bounded, identity, label_of, reader
from digestif.core.records import Record


class Level(StrEnum):
    HIGH = "high"


def read(path: str, value: Any) -> Any:
    (found,) = reader(path, "group_by")([Record("k", value, 0.0)])
    return found


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("user", {"user": 1}, 1),
        ("user.id", {"user": {"id": 1}}, 1),
        ("tags.1", {"tags": ["a", "b"]}, "b"),
        ("0.id", [{"id": 3}], 3),
        ("0", {"0": "a key, not an index"}, "a key, not an index"),
        ("tags.2", {"tags": ["a", "b"]}, None),
        ("tags.-1", {"tags": ["a", "b"]}, None),
        ("tags.first", {"tags": ["a", "b"]}, None),
        ("tags.²", {"tags": ["a", "b", "c"]}, None),
        ("tags." + "9" * 5_000, {"tags": ["a"]}, None),
        ("name.0", {"name": "letters are no items"}, None),
        ("user.id", {"user": None}, None),
        ("user.id", {"user.id": 1}, None),
        ("user.id", 7, None),
    ],
)
def test_a_path_leads_into_dicts_and_lists_or_nowhere(path: str, value: Any, found: Any) -> None:
    assert read(path, value) == found


def test_a_callable_is_given_the_record() -> None:
    assert reader(lambda record: record.key, "group_by")([Record("k", None, 0.0)]) == ["k"]


def test_a_path_leads_into_dicts_of_other_types() -> None:
    assert read("user.id", Counter({"user": {"id": 1}})) == 1


def test_where_a_callable_raises_the_value_is_unreadable_and_has_no_identity() -> None:
    found = reader(lambda record: 1 / record.value, "group_by")([Record("k", 0, 0.0), Record("l", 1, 0.0)])

    assert found == [UNREADABLE, 1.0]
    with pytest.raises(TypeError):
        identity(UNREADABLE)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("Build failed", "Build failed"),
        (None, "other"),
        (True, "true"),
        (17, "17"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        ("", "(empty)"),
        (" \n ", "(empty)"),
        ("\u200b\u202e\u200d", "(empty)"),
        ("two\r\nlines\u2028three", "two lines three"),
        ("Subject: x\r\nBcc: y", "Subject: x Bcc: y"),
        ("bell\x07 and \x1b[31mred", "bell\ufffd and \ufffd[31mred"),
        ("gpj.\u202eexe\u202c \u2066x\u2069", "gpj.exe x"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("👩\u200d💻 naïve 日本", "👩\u200d💻 naïve 日本"),
        ({"b": 1, "a": ["x"]}, '{"a":["x"],"b":1}'),
        ([1, None], "[1,null]"),
        (Level.HIGH, "high"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (10**5_000, "<int>"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        ("x" * 98 + "\u200dyy", "x" * 98 + "…"),
        ("\u202e" * 1_000 + "hidden", "…"),
    ],
    ids=itertools.count(),
)
def test_a_label_is_a_short_harmless_line(value: Any, label: str) -> None:
    assert label_of(value) == label


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Lu"]), max_size=500))
def test_no_text_breaks_a_line_or_turns_it_around(text: str) -> None:
    label = label_of(text)

    assert 1 <= len(label) <= LABEL_LENGTH
    assert len(label.splitlines()) == 1
    assert {
        unicodedata.category(character) for character in label.replace("\u200d", "").replace("\u200c", "")
    }.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    label.encode()


@pytest.mark.parametrize("value", [None, True, 1.5, "text", [1, {"a": None}], {"a": {"b": ["c"]}}, 2**63])
def test_a_small_value_stays_as_it_is(value: Any) -> None:
    assert bounded(value) == value


def test_a_large_value_is_cut_where_the_reader_can_see_it() -> None:
    assert bounded("x" * 10_000) == "x" * 1_992 + "…"
    assert bounded(list(range(10_000)))[-2:] == [248, "…"]
    assert bounded({f"key {n}": n for n in range(1_000)})["…"] > 800
    assert bounded([[[[[[[[[["deep"]]]]]]]]]]) == [[[[[[[["…"]]]]]]]]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 10**5_000, object(), {1: 2}, {"\ud800": "\ud800"}, {1, 2}, b"x"],
    ids=itertools.count(),
)
def test_what_json_can_not_say_is_replaced(value: Any) -> None:
    json.dumps(bounded([value]), allow_nan=False).encode()
    assert json.loads(json.dumps(bounded(value))) == bounded(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, JSON)
def test_two_values_have_one_identity_if_json_writes_them_alike(one: Any, other: Any) -> None:
    alike = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (identity(one) == identity(other)) is alike
    assert identity(json.loads(json.dumps(one))) == identity(one)


def test_texts_and_numbers_of_other_types_are_those_that_they_stand_for() -> None:
    class Many(int):
        pass

    assert identity(Level.HIGH) == identity("high")
    assert identity(Many(3)) == identity(3)
    assert identity(("a", 1)) == identity(["a", 1])


def test_a_large_value_has_a_small_identity() -> None:
    assert len(str(identity(["x" * 1_000_000]))) < 100
