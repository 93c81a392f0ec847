"""The program that measures the PostgreSQL store, with small numbers."""

import json
import re

import pytest

from bench.postgres import Scale, postgres

SMALL = Scale(singles=1, batches=1, deliveries=1, timelines=50, growth=1, records=(10, 100))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Program":
    monkeypatch.setattr("bench.postgres.QUICK", SMALL)
    monkeypatch.setattr("bench.postgres.BLOCK", 1_000)
    monkeypatch.setattr("bench.postgres.CALLS", 5)
    return Program(capsys)


class Program:
    """Runs the program here, and gives what it says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        assert postgres.main(["--quick", *arguments], standalone_mode=False) == 0
        return self._capsys.readouterr().out


def test_adds_are_measured_beside_bare_upserts_on_a_server_that_is_durable(program: Program) -> None:
    found = json.loads(program("--only", "adds", "--json"))

    assert found["surroundings"]["server"].startswith("PostgreSQL ")
    assert (found["surroundings"]["fsync"], found["surroundings"]["synchronous_commit"]) == ("on", "on")
    for name in ("add", "add in 8 threads", "add_many of 100", "add_many of 1,000"):
        assert found["adds"][name]["per_second"] > 0
        assert found["adds"][name]["ratio"] > 0
    assert found["asked"]["add"]["words"].startswith(("met: ", "missed: "))


def test_other_sections_are_tables_of_80_columns_with_verdicts_in_words(program: Program) -> None:
    account = program("--only", "delivery", "--only", "growth")

    assert "claim, take, close" in account
    assert "100, at capacity" in account
    assert re.search("(met|missed): an add to 100, no capacity .*×, asked ≤ 1.2×", account)
    assert max(map(len, account.splitlines())) <= 80
