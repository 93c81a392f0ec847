"""The Hypothesis state machine on the store in memory: the same lives in every run, and no search for a shorter one."""

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from digestif.stores.memory import MemoryStore
from digestif.testing.stateful import store_machine

LIVES = settings(
    max_examples=60,
    stateful_step_count=150,  # lives begin with nothing: the later steps find most
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
)


def test_the_store_and_the_model_live_the_same_lives() -> None:
    run_state_machine_as_test(store_machine(MemoryStore), settings=LIVES)
