"""The programs that measure the embedded store and the worker, with small numbers."""

from pathlib import Path

import pytest

from bench.sqlite import sqlite
from bench.worker import Scale, worker
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture


def test_the_bench_of_the_sqlite_store_gives_its_figures(program: Program, tmp_path: Path) -> None:
    found = program.figures(sqlite, "--quick", "--rounds", "1", "--only", "adds", "--folder", str(tmp_path))

    assert found["adds"]["add"]["per_second"] > 0
    assert found["adds"]["add in 64 threads"]["to_add"] > 0
    assert found["adds"]["add in 64 tasks"]["peak_mib"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_bench_of_workers_gives_its_figures(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.worker.QUICK", Scale(timelines=40, times=1, crowd=60))

    found = program.figures(worker, "--quick", "--store", "sqlite")

    assert found["sqlite"]["1 process, coroutine"]["digests_per_second"] > 0
    assert found["sqlite"]["crowd"]["timelines"] == 60
    assert "sqlite, digests a second" in found["asked"]
