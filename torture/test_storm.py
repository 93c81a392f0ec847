"""A storm on every store, ten minutes each: nothing is lost, nothing comes under two keys, and the books hold.

    ./dev torture -k storm
    DIGESTIF_STORM_SECONDS=120 DIGESTIF_STORM_SEED=7 ./dev torture -k "storm and redis"
    DIGESTIF_STORM_WITHOUT=moves,clocks ./dev torture -k "storm and redis"

Producers in threads and tasks, workers whose handlers fail, `digest()`, retract, flush, pause, delete, replay, discard,
schedule and maintenance, all together; processes are killed, stopped and terminated at random moments. People choose
policies and `off`, the store is moved again and again, a channel is away or a part of it, clocks jump, and later builds
of the package join. A seed chooses faults and victims, but not how processes interleave: two storms of one seed are
alike, never the same.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from digestif.ids import chance
from tests.transfer.stores import dsn_of
from tests.worker.programs import ROOT

SECONDS = os.environ.get("DIGESTIF_STORM_SECONDS", "600")
SEED = os.environ.get("DIGESTIF_STORM_SEED", str(int(chance() * 1_000_000)))
WITHOUT = os.environ.get("DIGESTIF_STORM_WITHOUT", "")  # parts of the mix, separated by commas

OPTIONS = {"cluster": "?partitions=8"}  # a move visits each partition at every step


@pytest.mark.timeout(float(SECONDS) + 1500)
@pytest.mark.parametrize("store", ["sqlite", "redis", "cluster", "postgres"])
def test_a_storm_loses_nothing(store: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with dsn_of(store, tmp_path) as dsn, capfd.disabled():  # shows progress as it comes
        sys.stderr.write(f"\nstorm on {store}, {SECONDS} s, seed {SEED}\n")
        command = [
            sys.executable,
            "-m",
            "torture._storm",
            dsn + OPTIONS.get(store, ""),
            SECONDS,
            SEED,
            "--without",
            WITHOUT,
        ]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        sys.stderr.write(f"{store}: {ended.stdout}")

    found = json.loads(ended.stdout)
    assert found["problems"] == []
    assert ended.returncode == 0
    assert found["acknowledged"] > 10 * float(SECONDS)
    assert found["verified"] >= float(SECONDS) // 60
    seen = {"strikes": "struck", "overrides": "choices", "moves": "moves", "outages": "refused", "upgrades": "shut_out"}
    for part in seen.keys() & found["parts"]:
        assert found[seen[part]], f"there were no {part}"
