"""Durations as people say them."""

import pytest

from digestif.core.spans import ago, due, exact_span, when


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 s"),
        (1, "0.001 s"),
        (30_000, "30 s"),
        (60_000, "1 min"),
        (5_400_500, "1 h 30 min 0.5 s"),
        (27_000_000, "7 h 30 min"),
        (86_400_000 + 1000, "1 d 1 s"),
    ],
)
def test_a_summand_is_told_to_the_millisecond(millis: int, text: str) -> None:
    assert exact_span(millis) == text


@pytest.mark.parametrize(
    ("at", "seen", "expected"),
    [
        (100.0, "just now", "now"),
        (100.4, "now", "now"),
        (99.6, "just now", "now"),
        (99.1, "900 ms ago", "now"),
        (99.0, "1 s ago", "now, 1 s late"),
        (90.0, "10 s ago", "now, 10 s late"),
        (101.0, "in 1 s", "in 1 s"),
        (100.0 + 250, "in 4 min 10 s", "in 4 min 10 s"),
    ],
)
def test_a_time_of_the_past_was_and_one_that_something_is_due_at_is_late(at: float, seen: str, expected: str) -> None:
    assert when(at, now=100) == seen
    assert due(at, now=100) == expected


def test_a_moment_ago_is_not_0_milliseconds_ago() -> None:
    assert (ago(0), ago(0.2), ago(3)) == ("just now", "just now", "3 s ago")
