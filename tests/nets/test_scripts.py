"""The nets hold the scripts, too: each fault in their text is found by the sentences that are named for it."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from digestif import Store
from digestif.stores.redis.client.scripts import load
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager
from digestif.testing.conformance.moves import Moves
from digestif.testing.modes import Mode
from tests.conformance.makers import made_at
from tests.nets.arithmetic import arithmetic_finds
from tests.nets.conftest import PLANTED
from tests.nets.patches import ScriptFault, planted
from tests.nets.script_faults import FAULTS, TRANSITIONS
from tests.servers import empty_server
from tests.stores.redis import (
    test_declared,
    test_losses,
    test_lua_calls,
    test_lua_large,
    test_lua_layout,
    test_suspects,
)
from tests.stores.redis.harm import harm_in
from tests.stores.redis.proxy import SCRIPTS
from tests.stores.redis.test_losses import client, digests  # noqa: F401  # fixtures

pytestmark = pytest.mark.long

SENTENCES = {sentence.partition("[")[0] for fault in FAULTS for sentence in fault.found_by}


class OnAServer(Moves, StoreConformance):
    @pytest.fixture
    def mode(self) -> Mode:
        return "sync"

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], Store]]:
        yield from made_at(empty_server().url)

    @pytest.fixture
    def store(self, make_store: Callable[[], Store]) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in, store)


# The sentences that are named, of the suite and of a server.
others = {name for name in dir(OnAServer) if name.startswith("test_")} - SENTENCES
TestSuite = type("TestSuite", (OnAServer,), dict.fromkeys(others))
for module in (test_declared, test_losses, test_lua_calls, test_lua_large, test_lua_layout, test_suspects):
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


def test_the_server_takes_every_script_that_a_fault_changes() -> None:
    sound = {name: load(name).text for name in SCRIPTS}
    with empty_server().client() as connection:
        for fault in FAULTS:
            with planted(fault):
                changed = [text for name in SCRIPTS if (text := load(name).text) != sound[name]]
            assert changed, f"no script has the fault that {fault.says}"
            for text in changed:
                connection.script_load(text)


@pytest.mark.parametrize("fault", TRANSITIONS, ids=lambda fault: fault.says)
def test_the_arithmetic_finds_a_fault_in_a_transition(fault: ScriptFault) -> None:
    """Faults that sentences find are left to torture/test_script_nets.py."""
    assert arithmetic_finds(fault)
