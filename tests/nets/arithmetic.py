"""Vectors and random comparisons of Lua with Python, as a net for faults in scripts."""

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from hypothesis import given

from digestif.stores.redis.client import scripts
from tests.nets.patches import ScriptFault, planted
from tests.stores.redis import test_vectors
from tests.stores.redis.twins import RULES

VECTORS = [sentence for name, sentence in vars(test_vectors).items() if name.endswith("_the_vectors_say")]
EXAMPLES = 200


def arithmetic_finds(fault: ScriptFault) -> bool:
    """True if a vector or a comparison fails while the fault is planted."""
    sound = scripts_of_rules()
    with planted(fault):
        changed = [name for name, script in scripts_of_rules().items() if script != sound[name]]
        return any(fails(sentence) for sentence in [*VECTORS, partial(compare_rules, changed)])


def scripts_of_rules() -> dict[str, str]:
    return {name: test_vectors.script_of(name, scripts._read) for name in RULES}


def compare_rules(names: list[str]) -> None:
    """Some examples of each in turn: Hypothesis itself would look for the simplest at length."""
    numbers = random.Random(0)
    examples = [comparison(name).hypothesis.fuzz_one_input for name in names]
    for _ in range(EXAMPLES):
        for example in examples:
            example(numbers.randbytes(4096))


@cache
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
