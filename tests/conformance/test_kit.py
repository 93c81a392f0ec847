"""The testing kit itself: what the suite says of its tests, what the plugin costs, and what the modes do."""

import inspect
import re
import subprocess
import sys
import threading
from collections import Counter

import pytest

import digestif.testing
from digestif import Digests
from digestif.exports import explain_missing
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock, Partitioned, StoreConformance, assert_nothing_left
from digestif.testing.conformance.actions import Boom, T
from digestif.testing.modes import MODES, Mode, digests_in

# 36, 37 and 71 need something readable, 68 two stores, 80 two builds.
FACTS = {*range(1, 36), *range(38, 68), 69, 70, *range(72, 80), 81, 82, 83, 88}


def sentences() -> list[tuple[str, str]]:
    """Name and docstring of each test, as often as it is defined."""
    return [
        (name, inspect.getdoc(function) or "")
        for topic in StoreConformance.__mro__
        for name, function in vars(topic).items()
        if name.startswith("test_")
    ]


class TestTheSuite:
    def test_every_test_says_which_fact_it_shows(self) -> None:
        """A docstring begins with the number of its fact."""
        silent = [name for name, text in sentences() if not re.match(r"Fact \d+\. \S", text)]

        assert silent == []

    def test_every_fact_is_shown(self) -> None:
        """No fact that a store can show is left out."""
        shown = {int(number) for _, text in sentences() for number in re.findall(r"^Fact (\d+)\.", text)}

        assert shown == FACTS

    def test_no_two_topics_have_a_test_of_the_same_name(self) -> None:
        """The topics are put together by inheritance: one of two tests with the same name would never run."""
        names = Counter(name for name, _ in sentences())

        assert [name for name, count in names.items() if count > 1] == []

    @pytest.mark.parametrize("module", ["hypothesis", "pytest"])
    def test_a_missing_module_is_named_with_what_to_install(self, module: str) -> None:
        """Without pytest or Hypothesis the suite says what to do, and the clock still works."""
        hidden = f"import sys; sys.modules[{module!r}] = None; from digestif.testing import FakeClock; FakeClock()()"

        said = run_python(f"{hidden}; from digestif.testing import StoreConformance")

        assert explain_missing(module, extra="testing") in said.stderr

    def test_all_public_names_can_be_imported(self) -> None:
        """`__all__` is sorted, and everything in it is there."""
        assert sorted(digestif.testing.__all__) == digestif.testing.__all__
        assert all(hasattr(digestif.testing, name) for name in digestif.testing.__all__)
        assert not hasattr(digestif.testing, "unknown")


class TestThePlugin:
    def test_loading_it_imports_neither_hypothesis_nor_the_suite(self) -> None:
        """Every pytest run of a user loads the plugin: it must be cheap."""
        said = run_python("import digestif.testing.plugin, sys; print(*sys.modules)")

        loaded = set(said.stdout.split())
        assert "digestif.testing.plugin" in loaded
        assert not {"hypothesis", "digestif.testing.conformance", "digestif.testing.model"} & loaded

    def test_its_engine_reads_its_clock(self, digestif_digests: Digests, digestif_clock: FakeClock) -> None:
        """The fixtures belong together: time passes when the test says so."""
        digestif_digests.add("t", "a")
        with digestif_digests.digest("t", 60):
            pass
        assert digestif_digests.timeline("t").due == digestif_clock() + 60
        assert list(digestif_digests.schedule()) == []

        digestif_clock.advance(60)

        assert [entry.key for entry in digestif_digests.schedule()] == ["t"]


class TestTheClock:
    def test_it_shows_what_it_is_told_to(self) -> None:
        """It stands still, advances, and can be set back."""
        clock = FakeClock()
        seen = [clock(), clock(), clock.advance(1.5), clock(), clock.set(0), clock()]

        assert seen == [T, T, T + 1.5, T + 1.5, 0, 0]


@pytest.mark.parametrize("mode", MODES)
class TestTheModes:
    def test_a_closed_engine_leaves_no_thread(self, mode: Mode) -> None:
        """The event loop of the asynchronous mode ends with the engine."""
        before = set(threading.enumerate())
        digests = digests_in(mode, "memory://")
        digests.add("t", "a", now=T)

        digests.close()
        digests.close()

        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()

    def test_the_exception_of_the_block_reaches_the_engine(self, mode: Mode) -> None:
        """A block that raises is a failed attempt in either mode, and the very exception comes out."""
        boom = Boom()
        with digests_in(mode, "memory://") as digests:
            digests.add("t", "a", now=T)
            with pytest.raises(Boom) as raised, digests.digest("t", now=T):
                raise boom

            assert raised.value is boom
            assert digests.timeline("t").state == "ready"

    def test_a_store_that_was_given_is_left_connected(self, mode: Mode) -> None:
        """Who made the store lets go of it."""
        store = MemoryStore(namespace="d")
        with digests_in(mode, store) as digests:
            digests.add("t", "a", now=T)

        assert store.ledger().pending == 1

    def test_a_wrong_option_is_an_error_at_once(self, mode: Mode) -> None:
        """An engine that can't be made leaves no thread either."""
        before = set(threading.enumerate())

        with pytest.raises(digestif.ConfigError):
            digests_in(mode, "memory://", lease=-1)

        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()


def test_something_left_is_named() -> None:
    """The footprint check says what is still there."""
    store = Partitioned([MemoryStore(namespace="d")])
    assert_nothing_left(store)
    digests_in("sync", store).add("t", "a", now=T)

    with pytest.raises(AssertionError, match="still holds"):
        assert_nothing_left(store)


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
