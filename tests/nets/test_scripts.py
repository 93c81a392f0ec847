"""The nets hold the scripts, too: each fault in their text is found by the sentences that are named for it."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given

from digestif import Store
from digestif.stores.redis.client.scripts import load
from digestif.testing import StoreConformance
from digestif.testing.modes import Mode
from tests.conformance.makers import made_at
from tests.nets.conftest import PLANTED
from tests.nets.patches import ScriptFault, planted
from tests.nets.script_faults import FAULTS
from tests.servers import empty_server
from tests.stores.redis import test_lua_calls, test_lua_large, test_lua_layout, test_suspects, test_vectors
from tests.stores.redis.proxy import SCRIPTS
from tests.stores.redis.twins import RULES

SENTENCES = {sentence.partition("[")[0] for fault in FAULTS for sentence in fault.found_by}


class OnAServer(StoreConformance):
    @pytest.fixture
    def mode(self) -> Mode:
        return "sync"

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], Store]]:
        yield from made_at(empty_server().url)

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()


# The sentences that are named, of the suite and of a server.
others = {name for name in dir(StoreConformance) if name.startswith("test_")} - SENTENCES
TestSuite = type("TestSuite", (OnAServer,), dict.fromkeys(others))
for module in (test_lua_calls, test_lua_large, test_lua_layout, test_suspects):
    globals().update({name: sentence for name, sentence in vars(module).items() if name in SENTENCES})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a sentence with each fault that it is named for."""
    name = metafunc.function.__name__
    faults = [fault for fault in FAULTS if any(name == found.partition("[")[0] for found in fault.found_by)]
    if faults:
        metafunc.parametrize("fault_planted", faults, indirect=True, ids=[f"@{fault.says}@" for fault in faults])


@pytest.fixture(autouse=True)
def fault_planted(request: pytest.FixtureRequest) -> Iterator[None]:
    if (fault := getattr(request, "param", None)) is None:
        yield
        return
    with planted(fault):
        yield


def test_every_sentence_that_is_named_is_there(pytestconfig: pytest.Config) -> None:
    named = {sentence for fault in FAULTS for sentence in fault.found_by}
    there = pytestconfig.stash[PLANTED]

    assert sorted(named - there) == []


def test_a_script_with_a_fault_is_still_a_script() -> None:
    """Otherwise every sentence would find it."""
    sound = {name: load(name).text for name in SCRIPTS}
    with empty_server().client() as client:
        for fault in FAULTS:
            with planted(fault):
                texts = (load(name).text for name in SCRIPTS if load(name).text != sound[name])
                client.script_load(next(texts))


VECTORS = [sentence for name, sentence in vars(test_vectors).items() if name.endswith("_the_vectors_say")]
EXAMPLES = 200


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.vectors], ids=lambda fault: fault.says)
def test_the_arithmetic_finds_it_too(fault: ScriptFault, monkeypatch: pytest.MonkeyPatch) -> None:
    with planted(fault), empty_server().client() as client:
        monkeypatch.setattr(test_vectors, "server", lambda: client)  # one connection for all examples
        assert any(fails(sentence) for sentence in [*VECTORS, compare_each_rule])


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
