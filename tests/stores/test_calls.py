"""Locks and calls never block other threads for good, whatever step of them is interrupted."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from digestif.errors import StoreUnavailable
from digestif.stores.calls import Calls, holding
from digestif.testing.conformance.signals import interrupted_at, steps_of

T = TypeVar("T")


def test_whatever_step_is_interrupted_a_lock_is_given_back() -> None:
    lock = threading.RLock()

    def hold() -> None:
        holding(lock, nothing)

    for step in range(steps_of(hold)):
        assert interrupted_at(step, hold)
        assert in_a_thread(lambda lock=lock: lock.acquire(blocking=False)) is True  # type: ignore[misc]
        lock = threading.RLock()


def nothing() -> None: ...


@pytest.mark.parametrize("kind", ["run", "close", "pause"])
def test_whatever_step_of_a_call_is_interrupted_other_threads_are_not_kept_waiting(kind: str) -> None:
    def call() -> None:
        calls.pause() if kind == "pause" else getattr(calls, kind)(nothing)

    calls = Calls("store")
    for step in range(steps_of(call)):
        calls = Calls("store")
        assert interrupted_at(step, call)
        in_a_thread(lambda calls=calls: (calls.pause(), calls.resume()))  # type: ignore[misc]  # or hangs


def test_a_thread_inside_a_call_is_refused_another_and_does_not_wait_for_itself() -> None:
    calls = Calls("store")

    def call_again() -> None:
        for call in (calls.run, calls.close):
            with pytest.raises(StoreUnavailable, match="inside one of its own calls"):
                call(nothing)
        assert calls.pause() is False
        calls.resume()

    calls.run(call_again)

    in_a_thread(lambda: calls.run(nothing))  # or hangs


def test_closing_waits_until_the_calls_of_other_threads_have_ended_and_refuses_later_ones() -> None:
    calls, entered, leave = Calls("store"), threading.Event(), threading.Event()
    seen: list[str] = []

    def stay() -> None:
        entered.set()
        leave.wait(30)
        seen.append("left")

    thread = threading.Thread(target=calls.run, args=(stay,))
    thread.start()
    entered.wait(30)
    threading.Timer(0.01, leave.set).start()
    calls.close(lambda: seen.append("last"))
    thread.join()

    assert seen == ["left", "last"]
    with pytest.raises(StoreUnavailable, match="store: this store is closed"):
        calls.run(nothing)


def test_an_interrupt_while_waiting_for_others_lets_calls_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls("store")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(calls, "_others", interrupt)
        with pytest.raises(KeyboardInterrupt):
            calls.pause()

    in_a_thread(lambda: calls.run(nothing))  # or hangs


def test_only_the_thread_that_has_paused_calls_resumes_them() -> None:
    calls = Calls("store")
    assert calls.pause() is True

    in_a_thread(calls.resume)

    entered = threading.Thread(target=calls.run, args=(nothing,), daemon=True)
    entered.start()
    entered.join(0.01)
    assert entered.is_alive()
    calls.resume()
    entered.join(30)
    assert not entered.is_alive()


def in_a_thread(call: Callable[[], T]) -> T:
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(30)
    assert answers, "it is stuck"
    return answers[0]
