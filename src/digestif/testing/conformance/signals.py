"""Signals: an exception out of a signal handler, at any step of a call in one thread, disturbs no other thread."""

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import CO_GENERATOR
from types import FrameType

import pytest

from digestif.stores.base import Store
from digestif.stores.reader import Part
from digestif.testing.conformance.actions import Interrupt
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    arrive,
    claim_all,
    claim_suspects,
    complete,
    delete,
    open_lease,
    record_keys,
    release,
    stored,
    take_all,
)

MOST = 20  # steps of a call that are tried
PATIENCE = 30  # seconds, for an answer that comes at once unless a thread is stuck


def interrupted_at(step: int, call: Callable[[], object]) -> BaseException | None:
    """Make a call that is interrupted at a step, and give what it raised; None if it ended before.

    A step is a moment when CPython runs signal handlers: after a C function, or at the start of a Python function. A
    profile function that raises is the same as a signal handler that does, but comes exactly when it is wanted.
    """
    left = step

    def count_down(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if _is_step(frame, event):
            left -= 1
            if left < 0:
                raise Interrupt

    try:
        _watched(count_down, call)
    except BaseException as interrupt:  # noqa: BLE001  # what is under way may make another error of it
        return interrupt
    return None


def steps_of(call: Callable[[], object]) -> int:
    """How many steps a call has."""
    count = 0

    def count_up(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += _is_step(frame, event)

    _watched(count_up, call)
    return count


def _watched(profile: Callable[[FrameType, str, object], None], call: Callable[[], object]) -> None:
    gc.disable()  # its callbacks are none of the call's steps
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()


def _is_step(frame: FrameType, event: str) -> bool:
    """False in finalizers, whose errors are not raised: callbacks of weak references, and generators that end."""
    if frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
        return False
    return event == "c_return" or (event == "call" and not frame.f_code.co_flags & CO_GENERATOR)


def adding(store: Store, name: str) -> Callable[[], object]:
    return lambda: arrive(store, name, ["a", "b"])


def completing(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    lease = open_lease(store, name)
    return lambda: complete(store, lease)


def releasing(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    lease = open_lease(store, name)
    return lambda: release(store, lease)


def claiming(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    return lambda: claim_all(store)


def claiming_suspects(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    open_lease(store, name)
    return lambda: claim_suspects(store, alone=True)


def taking(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    lease = open_lease(store, name)
    return lambda: take_all(store, lease)


def deleting(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    return lambda: delete(store, name)


def reading(store: Store, name: str) -> Callable[[], object]:
    arrive(store, name, ["a", "b"])
    return lambda: list(stored(store, name, Part.PENDING))


PREPARED = (adding, completing, releasing, claiming, claiming_suspects, taking, deleting, reading)


class Signals(Suite):
    @pytest.mark.parametrize("prepared", PREPARED)
    def test_an_interrupt_at_any_step_breaks_no_books_and_no_other_thread(
        self, store: Store, prepared: Callable[[Store, str], Callable[[], object]]
    ) -> None:
        """Fact 69. Signals that raise at any moment in one thread: the ledger agrees, no other thread gets an error."""
        seen: list[BaseException] = []  # their tracebacks keep alive whatever was left behind
        with ThreadPoolExecutor(1) as other:
            for step in _tried(steps_of(prepared(store, "counted"))):
                interrupt = interrupted_at(step, prepared(store, f"t{step}"))
                seen += [interrupt] if interrupt else []
                other.submit(arrive, store, "beside", [f"{step}"]).result(PATIENCE)

        assert seen
        assert len(record_keys(stored(store, "beside", Part.PENDING))) == store.inspect("beside").pending > 0
        assert store.ledger().balanced
        assert store.verify()


def _tried(steps: int) -> Iterator[int]:
    yield from range(0, steps, max(1, steps // MOST))
