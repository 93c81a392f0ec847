"""A hundred thousand seeds, on all cores."""

import os

import pytest
from click.testing import CliRunner

from tests.chaos.__main__ import main

SEEDS = {"memory": 80_000, "sqlite": 20_000}


@pytest.mark.parametrize("store", SEEDS)
def test_the_promises_hold_whatever_happens(store: str) -> None:
    jobs = str(os.cpu_count() or 1)

    result = CliRunner().invoke(main, ["--seeds", str(SEEDS[store]), "--store", store, "--jobs", jobs])

    assert result.exit_code == 0, result.output
