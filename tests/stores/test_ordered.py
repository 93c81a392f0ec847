"""The memory store's sorted collection behaves like a sorted list, at any size."""

from hypothesis import given
from hypothesis import strategies as st

from digestif.stores.ordered import Ordered

numbers = st.integers(0, 3000)


@given(st.sets(numbers, max_size=200), st.sets(numbers, max_size=200), st.none() | numbers, st.booleans())
def test_it_gives_what_a_sorted_list_gives(
    kept: set[int], removed: set[int], start: int | None, inclusive: bool
) -> None:
    ordered: Ordered[int] = Ordered()
    for number in kept | removed:
        ordered.add(number)
    for number in removed - kept:
        ordered.remove(number)

    expected = sorted(n for n in kept if start is None or n > start or (inclusive and n == start))
    assert list(ordered.after(start, inclusive=inclusive)) == expected


def test_thousands_of_items_are_split_into_chunks_and_stay_in_order() -> None:
    ordered: Ordered[int] = Ordered()
    scattered = [number * 7919 % 10_007 for number in range(10_007)]
    for number in scattered:
        ordered.add(number)
    for number in scattered[::2]:
        ordered.remove(number)

    assert list(ordered.after(None)) == sorted(scattered[1::2])
    assert list(ordered.after(9_000)) == sorted(n for n in scattered[1::2] if n > 9_000)
