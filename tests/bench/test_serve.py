"""The benchmark of the service, with small numbers."""

import pytest

from bench import serve
from tests.bench.program import Program
from tests.bench.program import program as program  # a fixture

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One start, one short round, and nothing is installed."""
    monkeypatch.setattr("bench._serve_starts.STARTS", 1)
    monkeypatch.setattr("bench.serve.QUICK", serve.Scale(rounds=1, seconds=0.2))
    monkeypatch.setattr("bench._serve_subjects.installed", lambda: False)


def test_the_service_is_measured_and_a_kill_loses_nothing(program: Program) -> None:
    found = program.figures(serve.serve, "--quick")

    assert found["acknowledged"] > 500
    assert found["lost"] == 0
    assert 0 < found["started"] < 60
    for name in ("digestif", "bare"):
        assert found[name]["single"] > 0
        assert found[name]["bulk"] > 0
        assert found[name]["p99"] > 0
    assert "Alertmanager" not in found
    assert all(asked["words"].startswith(("met: ", "missed: ")) for asked in found["asked"].values())
