"""Vectors and random comparisons of Lua with Python, as a net for faults in scripts."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from tests.nets.patches import ScriptFault, planted
from tests.servers import empty_server
from tests.stores.redis import test_vectors
from tests.stores.redis.twins import RULES

VECTORS = [sentence for name, sentence in vars(test_vectors).items() if name.endswith("_the_vectors_say")]
EXAMPLES = 200


def arithmetic_finds(fault: ScriptFault, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if a vector or a comparison fails while the fault is planted."""
    with planted(fault), empty_server().client() as client:
        monkeypatch.setattr(test_vectors, "server", lambda: client)  # one connection for all examples
        return any(fails(sentence) for sentence in [*VECTORS, compare_each_rule])


def compare_each_rule() -> None:
    """Some examples of each in turn: Hypothesis itself would look for the simplest at length."""
    numbers = random.Random(0)
    examples = [comparison(name).hypothesis.fuzz_one_input for name in RULES]
    for _ in range(EXAMPLES):
        for example in examples:
            example(numbers.randbytes(4096))


def comparison(name: str) -> Any:
    @given(test_vectors.COMPARISONS[name].facts)
    def compare(facts: test_vectors.Facts) -> None:
        test_vectors.compare(name, facts)

    return compare


def fails(sentence: Callable[[], None]) -> bool:
    try:
        sentence()
    except AssertionError:
        return True
    return False
