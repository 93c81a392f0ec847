"""The bench of the leading edge, with small numbers."""

import json

import pytest
from click.testing import CliRunner

from bench import edge


def test_the_bench_of_the_leading_edge_gives_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "QUICK", edge.Scale(adds=5, seconds=0.1))

    ended = CliRunner().invoke(edge.edge, ["--quick", "--store", "sqlite", "--json"], standalone_mode=False)

    assert ended.exception is None
    found = json.loads(ended.output)
    for case in ("sqlite, one process", "sqlite, two processes"):
        assert 0 < found[case]["p50"] <= found[case]["most"]
        assert found[case]["share"] >= 0
    assert set(found["asked"]) >= {"sqlite, one process: p50", "sqlite, one process: idle"}
