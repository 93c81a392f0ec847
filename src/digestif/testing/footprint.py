"""A finished timeline leaves nothing behind."""

from digestif.stores.base import Store


def assert_nothing_left(store: Store) -> None:
    """Fail unless the store holds nothing but its counters, settings and history."""
    left = {kind: count for kind, count in store.footprint().items() if count}
    assert not left, f"the store still holds {left}"
