"""A gate is never waited for in vain, whatever an interrupt has done to those inside."""

import threading

import pytest

from digestif.stores.gate import Gate


def test_whoever_shuts_a_gate_does_not_wait_for_oneself() -> None:
    gate = Gate()
    with gate.inside():
        gate.shut()
        gate.open()


def test_whoever_shuts_a_gate_does_not_wait_for_a_thread_that_has_ended() -> None:
    gate = Gate()
    thread = threading.Thread(target=gate.inside().__enter__)
    thread.start()
    thread.join()

    gate.shut()


def test_an_interrupt_while_waiting_leaves_the_gate_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gate, "_others", interrupt)
        with pytest.raises(KeyboardInterrupt):
            gate.shut()

    with gate.inside():
        pass  # or hangs
