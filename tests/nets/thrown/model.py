"""The Hypothesis state machine on the store in memory: the same lives in every run, and no search for a shorter one."""

from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from digestif.stores.memory import MemoryStore
from digestif.testing.stateful import store_machine

# Hypothesis varies its first lives most, so several beginnings find more than one long run; and a life begins with
# nothing, so its later steps find most.
BEGINNINGS = 16
LIVES = settings(
    max_examples=8,
    stateful_step_count=150,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    deadline=None,
)


def test_the_store_and_the_model_live_the_same_lives() -> None:
    for number in range(BEGINNINGS):
        run_state_machine_as_test(seed(number)(store_machine(MemoryStore)), settings=LIVES)
