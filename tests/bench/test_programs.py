"""The benchmarks rounds and logging, with small numbers."""

from pathlib import Path

import pytest

from bench.logging import run as logging_calls
from bench.rounds import rounds
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture

SMALL = ("--timelines", "30", "--records", "600")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_rounds_deliver_every_event_and_leave_nothing(kind: str, program: Program, tmp_path: Path) -> None:
    store = "memory://" if kind == "memory" else f"sqlite:///{tmp_path / 'rounds.db'}"

    found = program.figures(rounds, "--store", store, *SMALL)

    assert found["events"] == found["ledger"]["accepted"] == 600
    assert found["ledger"]["delivered"] + found["ledger"]["superseded"] == 600
    assert (found["balanced"], found["verified"], found["left"]) == (True, True, {})


def test_rounds_go_through_every_phase_until_the_timelines_are_idle(program: Program) -> None:
    found = program.figures(rounds, "--store", "memory://", *SMALL)

    phases = [(phase["round"], phase["phase"]) for phase in found["phases"]]
    assert phases == [
        *[(1, "load"), (1, "schedule"), (1, "digest")],
        *[(2, "load"), (2, "schedule"), (2, "digest")],
        *[(3, "schedule"), (3, "digest")],
    ]
    assert found["phases"][0]["events"] + found["phases"][3]["events"] == 600
    assert all(phase["milliseconds"] >= 0 for phase in found["phases"])


def test_rounds_fail_if_anything_is_left_in_the_store(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.rounds.MOST_ROUNDS", 2)  # the round that finds the timelines empty never comes

    found = program.figures(rounds, "--store", "memory://", *SMALL, status=1)

    assert found["left"]
    assert not found["good"]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--records", "none"), "'none' is not a valid integer"),
        (("--timelines", "0"), "0 is not in the range"),
        (("--store", "sqlit:///x"), "nothing here opens sqlit://; did you mean sqlite?"),
        (("--store", "off://"), "accepts nothing"),
        (("--speed", "9"), "No such option"),
    ],
)
def test_a_wrong_argument_is_answered_in_one_line(program: Program, args: tuple[str, str], complaint: str) -> None:
    refused = program(rounds, *args, status=2)

    assert complaint in refused
    assert refused.startswith("./dev bench: ")
    assert len(refused.splitlines()) == 1


def test_logging_measures_both_handlers_in_one_run(program: Program) -> None:
    found = program.figures(logging_calls, "--quick", "--rounds", "1")

    assert set(found["microseconds"]) == {"bursts", "stream", "errors"}
    assert all(cost > 0 for costs in found["microseconds"].values() for cost in costs.values())
    assert found["dropped"] == 0
