"""Locks and gates are never waited for in vain, whatever an interrupt has done to those inside."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from digestif.stores.gate import Gate, holding
from digestif.testing.conformance.signals import interrupted_at, steps_of

T = TypeVar("T")


def test_whatever_step_is_interrupted_a_lock_is_given_back() -> None:
    lock = threading.RLock()

    def hold() -> None:
        holding(lock, lambda: None)

    for step in range(steps_of(hold)):
        assert interrupted_at(step, hold)
        assert in_a_thread(lambda lock=lock: lock.acquire(blocking=False)) is True  # type: ignore[misc]
        lock = threading.RLock()


def test_whatever_step_is_interrupted_a_gate_is_left() -> None:
    gate = Gate()

    def pass_through() -> None:
        gate.through(lambda: None)

    for step in range(steps_of(pass_through)):
        assert interrupted_at(step, pass_through)
        in_a_thread(lambda: gate.alone(lambda: None))  # or hangs


def test_a_thread_that_shuts_a_gate_does_not_wait_for_itself() -> None:
    gate = Gate()

    def shut_and_open() -> None:
        gate.shut()
        gate.open()

    gate.through(shut_and_open)


def test_a_thread_that_shuts_a_gate_waits_until_the_others_have_left() -> None:
    gate, entered, leave = Gate(), threading.Event(), threading.Event()
    seen: list[str] = []

    def stay() -> None:
        entered.set()
        leave.wait(30)
        seen.append("left")

    thread = threading.Thread(target=gate.through, args=(stay,))
    thread.start()
    entered.wait(30)
    threading.Timer(0.01, leave.set).start()
    gate.alone(lambda: seen.append("alone"))
    thread.join()

    assert seen == ["left", "alone"]


def test_an_interrupt_while_waiting_leaves_the_gate_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gate, "_others", interrupt)
        with pytest.raises(KeyboardInterrupt):
            gate.shut()

    in_a_thread(lambda: gate.through(lambda: None))  # or hangs


def test_to_open_a_gate_that_another_thread_has_shut_does_nothing() -> None:
    gate = Gate()
    gate.shut()

    in_a_thread(gate.open)

    entered = threading.Thread(target=gate.through, args=(lambda: None,), daemon=True)
    entered.start()
    entered.join(0.01)
    assert entered.is_alive()
    gate.open()
    entered.join(30)
    assert not entered.is_alive()


def in_a_thread(call: Callable[[], T]) -> T:
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(30)
    assert answers, "it is stuck"
    return answers[0]
