"""The fixtures of every topic: engines over the store under test, in both modes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import StrEnum
from typing import Any, Protocol, cast

import pytest

from digestif import Digests, Policy
from digestif.stores.base import Store
from digestif.testing.modes import MODES, Mode, digests_in


class DigestsWith(Protocol):
    """Makes an engine over the store under test (or over another one), with these options of its policy."""

    def __call__(self, *, over: Store | None = None, lease: float = 30, **policy: Any) -> Digests: ...


class Harm(StrEnum):
    """A way to damage what is stored of a timeline."""

    GARBLED = "garbled"  # its slot can't be decoded
    IMPOSSIBLE = "impossible"  # its slot is open, without a lease
    IDLE = "idle"  # its slot is idle, and its pending records are still there
    MISPLACED = "misplaced"  # it is in no index of the schedule
    VALUE = "value"  # one of its pending records has lost its value
    RECORD = "record"  # one of its pending records is gone
    DIGEST_VALUE = "digest value"  # one of the records in its unfinished digest has lost its value
    DIGEST_RECORD = "digest record"  # one of these records is gone
    LETTER_RECORD = "letter record"  # one of the records of its dead letter is gone
    LETTER = "letter"  # its dead letters can't be decoded
    HISTORY = "history"  # its entries in the history can't be decoded


Damager = Callable[[Harm, str], None]


class Suite:
    """The base of every topic. A subclass gives the one fixture `store`."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise NotImplementedError("the suite needs a fixture `store` that yields a fresh, empty Store")

    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        """Optional: makes further stores, empty and apart from each other, for tests that need several."""
        pytest.skip("this needs a fixture `make_store`: a callable that gives a fresh, empty Store each time")

    @pytest.fixture
    def damage(self) -> Damager:
        """Optional: damages the stored data of a timeline in the ways of `Harm`, without the store's help."""
        pytest.skip("this needs a fixture `damage`: a callable that damages what is stored of a timeline")

    @pytest.fixture(params=MODES)
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return cast(Mode, request.param)

    @pytest.fixture
    def digests_with(self, store: Store, mode: Mode) -> Iterator[DigestsWith]:
        with ExitStack() as opened:

            def make(*, over: Store | None = None, lease: float = 30, **policy: Any) -> Digests:
                digests = digests_in(mode, over or store, policy=Policy(**policy), lease=lease)
                return opened.enter_context(digests)

            yield make

    @pytest.fixture
    def digests(self, digests_with: DigestsWith) -> Digests:
        return digests_with()


# For tests that say nothing about the mode and take long.
in_sync_mode_only = pytest.mark.parametrize("mode", ["sync"], indirect=True)
