"""Patterns of timelines."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif.intake.patterns import stars


@pytest.mark.parametrize(
    ("pattern", "timeline", "found"),
    [
        ("mail:ada", "mail:ada", []),
        ("mail:ada", "mail:bob", None),
        ("mail:*", "mail:ada", ["ada"]),
        ("mail:*", "mail:", [""]),
        ("mail:*", "sms:ada", None),
        ("*:*", "a:b:c", ["a", "b:c"]),
        ("a*a", "a", None),
        ("a*a", "aa", [""]),
        ("*", "line\nbreak", ["line\nbreak"]),
        ("a*b*c", "a.b.b.c", [".", ".b."]),
    ],
)
def test_stars_stand_for_any_characters(pattern: str, timeline: str, found: list[str] | None) -> None:
    assert stars(pattern, timeline) == found


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_they_match_what_the_same_regular_expression_does(pattern: str, timeline: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))

    found = stars(pattern, timeline)

    assert (found is not None) == bool(re.fullmatch(expression, timeline))
    if found is not None:
        parts = iter(found)
        assert re.sub(r"\*", lambda _: next(parts), pattern) == timeline


def test_a_hostile_name_takes_no_time() -> None:
    """By a regular expression this takes minutes."""
    assert stars("*-*-*-*-*-*-x", "-" * 500) is None
