"""Each sentence runs on every store, with all of its parameters on some: torture/test_conformance.py has the rest."""

import pytest

from tests.conformance.modes import SharedRules


@pytest.hookimpl(trylast=True)  # after -k: what is asked for by its parameters is kept
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a sentence with many parameters, stores with shared rules run the first."""
    seen: set[tuple[type, str]] = set()
    left_out = [item for item in items if is_shared(item) and is_repeated(item, seen)]
    config.hook.pytest_deselected(items=left_out)
    dropped = set(left_out)
    items[:] = [item for item in items if item not in dropped]


def is_shared(item: pytest.Item) -> bool:
    """True for sentences of such a store that torture has, too: not for those about damaged data."""
    if not isinstance(item, pytest.Function) or item.cls is None or not issubclass(item.cls, SharedRules):
        return False
    return "damage" not in item.fixturenames


def is_repeated(item: pytest.Item, seen: set[tuple[type, str]]) -> bool:
    """True if the sentence was seen before, with other parameters."""
    assert isinstance(item, pytest.Function)
    sentence = item.cls, item.originalname
    if sentence in seen:
        return True
    seen.add(sentence)
    return False
