"""Durations as people say them."""

import pytest

from digestif.core.spans import exact_span


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
