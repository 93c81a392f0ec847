"""Workers in a world of faults: whatever a seed brings, the promises hold; and the simulation would notice if not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from digestif.errors import InvalidState
from digestif.stores.sqlite import SQLiteStore
from tests.chaos.__main__ import main
from tests.chaos.book import Violation
from tests.chaos.faults import FAULTS
from tests.chaos.simulation import STORES, live
from tests.chaos.stage import Crashed, Stage
from tests.chaos.world import Make

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CHUNK = {"memory": 60, "sqlite": 12}  # seeds of one test; many more: torture/test_chaos.py
PATIENCE = 1500  # seeds in which a fault has to be found
TROUBLE = (
    "crashes before",
    "crashes after",
    "pauses before",
    "pauses after",
    "unavailable: complete",
    "unavailable: claim",
    "reply lost: complete",
    "reply lost: claim",
    "reply lost: take",
    "reply lost: release",
    "reply lost: add",
    "the clock steps",
    "is poisoned",
    "stops",
    "LeaseLost",
    "LeaseNotRenewed",
    "Lapsed",
    "PutOff",
    "Unsettled",
    "no handler is free",
    "claim_suspects [0, SuspectGroup[1, 1, True",
    "claim_suspects [0, SuspectGroup[2, 2, True",
    "claim_suspects [0, SuspectGroup[1, 1, False",
    "it ends its workers",
    "Buried",
    "Discarded",
    "Expired",
    "Unhandled",
    "Returned",
    "RetryLater",
    "quarantine",
    "replay",
    "requeue",
    "delete",
    "refused:",
)


@pytest.mark.parametrize("chunk", range(1))
def test_the_promises_hold_on_memory_whatever_happens(chunk: int) -> None:
    expect_no_violation("memory", chunk)


@pytest.mark.parametrize("chunk", range(2))
def test_the_promises_hold_on_sqlite_whatever_happens(chunk: int) -> None:
    expect_no_violation("sqlite", chunk)


def expect_no_violation(store: str, chunk: int) -> None:
    for seed in range(chunk * CHUNK[store], (chunk + 1) * CHUNK[store]):
        life = live(seed, STORES[store])

        assert life.violation is None, f"python -m tests.chaos --store {store} --trace {seed}: {life.violation}"


def test_the_promises_hold_on_a_file(tmp_path: Path) -> None:
    for seed in range(5):
        life = live(seed, in_file(tmp_path / f"{seed}.db"))

        assert life.violation is None, f"seed {seed}: {life.violation}"


def in_file(path: Path) -> Make:
    return lambda clock: SQLiteStore(path, synchronous="normal", clock=clock)


@pytest.mark.parametrize("store", sorted(STORES))
def test_the_same_seed_gives_the_same_trace(store: str) -> None:
    for seed in range(3):
        assert live(seed, STORES[store]).told == live(seed, STORES[store]).told


def test_other_seeds_give_other_traces() -> None:
    assert len({live(seed, STORES["memory"]).told for seed in range(8)}) == 8


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    def traced(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.chaos", "--store", "sqlite", "--trace", "7"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert traced("1") == traced("2") == live(7, STORES["sqlite"]).told


def test_the_seeds_meet_every_kind_of_trouble() -> None:
    missing = set(TROUBLE)
    for seed in range(PATIENCE):
        told = live(seed, STORES["memory"]).told
        missing = {trouble for trouble in missing if trouble not in told}
        if not missing:
            break

    assert missing == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    planted, kinds = FAULTS[fault]
    with planted():
        lives = (live(seed, STORES["memory"], kinds=kinds) for seed in range(PATIENCE))
        found = next((life.violation for life in lives if life.violation), None)

    assert isinstance(found, Violation | InvalidState)


# The command


def test_the_command_tells_how_many_seeds_it_lived_through() -> None:
    result = CliRunner().invoke(main, ["--seeds", "5", "--store", "sqlite"])

    assert result.exit_code == 0
    assert result.stdout.startswith("5 seeds on sqlite, ")


def test_the_command_stops_at_the_first_seed_that_fails_and_tells_how_to_see_it_again() -> None:
    with FAULTS["a burial counts as a delivery"].planted():
        result = CliRunner().invoke(main, ["--seeds", "100", "--from", "3"])
        seed = result.stdout.rpartition("--trace ")[2].split()[0]
        again = CliRunner().invoke(main, ["--trace", seed])
        as_json = CliRunner().invoke(main, ["--seeds", "100", "--from", "3", "--json"])

    assert result.exit_code == again.exit_code == as_json.exit_code == 1
    assert result.stdout.startswith(again.stdout)
    assert f"seed {seed} broke a promise: Violation: " in again.stdout
    assert json.loads(as_json.stdout)["failed"] == int(seed)


def test_several_processes_live_through_the_same_seeds() -> None:
    def told(jobs: str) -> dict[str, object]:
        command = [sys.executable, "-m", "tests.chaos", "--seeds", "6", "--json", "--jobs", jobs]
        told: dict[str, object] = json.loads(
            subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        )
        return told

    alone, together = told("1"), told("2")

    assert alone["seeds"] == together["seeds"] == 6
    assert alone["happenings"] == together["happenings"]


# The stage


def test_an_actor_that_pauses_lets_others_go_on_and_goes_on_where_it_was() -> None:
    stage = Stage()
    said: list[str] = []

    def step() -> bool:
        match len(said):
            case 0:
                said.append("first begins")
                stage.pause("first")
                said.append("first ends")
            case 1:
                said.append("second begins")
                stage.pause("second")
                said.append("second ends")
            case 2:
                stage.resume("first")
            case 3:
                stage.resume("second")
        return len(said) < 4

    stage.play(step)

    assert said == ["first begins", "second begins", "first ends", "second ends"]


def test_an_actor_that_nobody_resumes_crashes_and_the_error_of_a_step_is_raised() -> None:
    stage = Stage()
    said: list[str] = []

    def step() -> bool:
        if said:
            raise ValueError("the end")
        said.append("begins")
        try:
            stage.pause("actor")
        except Crashed:
            said.append("crashes")
            raise
        return True

    with pytest.raises(ValueError, match="the end"):
        stage.play(step)

    assert said == ["begins", "crashes"]
    assert stage.parked == []
