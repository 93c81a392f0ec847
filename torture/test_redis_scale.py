"""The benchmark redis_scale with small numbers, run from the command line."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_proof_of_scale_goes_through_every_phase_and_leaves_nothing() -> None:
    command = [sys.executable, "-m", "bench.redis_scale", "--json"]
    small = ["--timelines", "400", "--records", "500", "--producers", "2"]
    found = json.loads(subprocess.run([*command, *small], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)

    phases = {phase["phase"]: phase for phase in found["phases"]}
    assert phases["add 400 timelines"]["done"] == 400
    assert phases["claim, read, close them"]["done"] == 400
    assert phases["merge 250 with 250"]["done"] == 500
    assert phases["expire 500"]["done"] == 500
    assert all(phase["calls"] > 0 and phase["peak"] >= phase["before"] for phase in found["phases"])
    assert (found["things"], found["problems"]) == ({}, [])
