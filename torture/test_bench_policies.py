"""The bench of windows and stored policies, with small numbers."""

import json

from click.testing import CliRunner

from bench.policies import policies


def test_the_bench_of_policies_gives_its_figures() -> None:
    ended = CliRunner().invoke(
        policies, ["--quick", "--rounds", "1", "--store", "sqlite", "--json"], standalone_mode=False
    )

    assert ended.exception is None
    found = json.loads(ended.output)
    assert found["cost"]["sqlite, cooling, plain, single"] == 1
    assert all(cost > 0 for cost in found["cost"].values())
    assert "sqlite, ready, override with a window, batch" in found["asked"]
