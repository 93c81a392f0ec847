"""Workers are killed and stopped at random points under load, as in torture/, for a few seconds."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.servers import empty_lone_cluster, empty_server
from tests.stores.postgres.servers import empty_database
from tests.worker.programs import ROOT

LEASE = 0.5
Kind = Literal["sqlite", "postgres", "redis", "cluster"]


@pytest.fixture
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from emptied(request.param, tmp_path)


def emptied(store: Kind, folder: Path) -> Iterator[str]:
    match store:
        case "sqlite":
            yield f"sqlite:///{folder}/d.db"
        case "postgres":
            with empty_database() as url:
                yield url
        case "redis":
            yield empty_server().url
        case "cluster":
            yield f"{empty_lone_cluster().url}?partitions=3"


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
def test_workers_that_are_killed_lose_nothing_and_send_nothing_under_two_keys(dsn: str) -> None:
    found = tortured(dsn, kills=4, lease=LEASE)

    assert found["is_good"], found
    assert found["deliveries"] > 50


@pytest.mark.parametrize("dsn", ["redis"], indirect=True)
def test_workers_that_were_stopped_can_not_end_what_others_have_taken_over(dsn: str) -> None:
    found = tortured(dsn, stops=1, lease=LEASE)

    assert found["is_good"], found
    assert found["refused"] > 0


def tortured(dsn: str, *, kills: int = 0, stops: int = 0, lease: float) -> dict[str, Any]:
    """What the program finds; it runs alone because it forks."""
    command = [sys.executable, "-m", "torture._workers", dsn, str(kills), str(stops), str(lease)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    sys.stdout.write(ended.stdout)  # for those who want the figures: pytest -rP
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
