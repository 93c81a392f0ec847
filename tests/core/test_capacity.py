"""Which records stay, and what they weigh."""

import pytest

from digestif.core.capacity import Stored, weight_of, within_bytes


def sized(*sizes: int | None) -> list[Stored]:
    """Records of these sizes, newest first; None: the value is lost."""
    return [
        Stored(f"r{place}", None if size is None else b"x" * size, -float(place), -place)
        for place, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "expected"), [((), 0), ((0,), 0), ((3, 4), 7), ((None,), 0), ((3, None, 4), 7)], ids=str
)
def test_records_weigh_what_their_payloads_do(sizes: tuple[int | None, ...], expected: int) -> None:
    assert weight_of(sized(*sizes)) == expected


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "kept"),
    [
        ((), 10, 0),
        ((4, 4, 4), None, 3),
        ((4, 4, 4), 12, 3),
        ((4, 4, 4), 11, 2),
        ((4, 4, 4), 8, 2),
        ((4, 4, 4), 7, 1),
        ((4, 4, 4), 4, 1),
        ((4, 4, 4), 3, 1),
        ((11, 1, 1), 10, 1),
        ((1, 11, 1), 10, 1),
        ((5, 5, 0, None, 1), 10, 4),
        ((0, 0, 0), 0, 3),
        ((0, 1), 0, 1),
    ],
    ids=str,
)
def test_a_digest_keeps_the_newest_within_its_bytes_and_at_least_one(
    sizes: tuple[int | None, ...], max_bytes: int | None, kept: int
) -> None:
    assert within_bytes(sized(*sizes), max_bytes) == kept
