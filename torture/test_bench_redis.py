"""The program that measures the Redis store, with small numbers."""

import json
import re

import pytest

from bench.redis import Scale, redis

SMALL = Scale(singles=1, batches=1, deliveries=1, timelines=250, memory=50, growth=1, records=(10, 1_000))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Program":
    monkeypatch.setattr("bench.redis.QUICK", SMALL)
    return Program(capsys)


class Program:
    """Runs the program here, and gives what it says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        assert redis.main(["--quick", *arguments], standalone_mode=False) == 0
        return self._capsys.readouterr().out


def test_the_bench_of_the_redis_store_gives_its_figures(program: Program) -> None:
    found = json.loads(program("--only", "adds", "--json"))

    assert found["surroundings"]["server"].startswith(("valkey ", "redis "))
    assert found["adds"]["add, ready"]["per_second"] > 0
    assert found["adds"]["add_many of 500"]["ratio"] > 0
    assert found["asked"]["add, ready"]["words"].startswith(("met: ", "missed: "))


def test_other_sections_are_tables_of_80_columns_with_verdicts_in_words(program: Program) -> None:
    account = program("--only", "delivery", "--only", "memory", "--only", "growth")

    assert "claim, take, close, 64 partitions" in account
    assert "40 in each timeline" in account
    assert "1,000, at capacity" in account
    assert re.search("(met|missed): memory of a record .* bytes, asked ≤ 450 bytes", account)
    assert max(map(len, account.splitlines())) <= 80
