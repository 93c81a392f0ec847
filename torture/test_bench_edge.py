"""The bench of the leading edge, with small numbers."""

import json

import pytest
from click.testing import CliRunner

from bench import edge


def test_the_bench_of_the_leading_edge_gives_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "QUICK", edge.Scale(adds=5, seconds=0.1))
    monkeypatch.setattr(edge, "cases", lambda _: [edge.Case("sqlite, one process", "sqlite", here=True)])

    ended = CliRunner().invoke(edge.edge, ["--quick", "--store", "sqlite", "--json"], standalone_mode=False)

    assert ended.exception is None
    found = json.loads(ended.output)
    figures = found["sqlite, one process"]
    assert 0 < figures["p50"] <= figures["most"]
    assert figures["share"] >= 0
    assert set(found["asked"]) >= {"sqlite, one process: p50", "sqlite, one process: idle"}
