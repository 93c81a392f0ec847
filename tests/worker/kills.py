"""Programs that kill and stop workers under load, each on an empty store."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tests.servers import empty_lone_cluster, empty_server
from tests.stores.postgres.servers import empty_database
from tests.worker.programs import ROOT

Kind = Literal["sqlite", "postgres", "redis", "cluster"]


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


def tortured(dsn: str, *, kills: int = 0, stops: int = 0, lease: float) -> dict[str, Any]:
    """What the program finds; it runs alone because it forks."""
    command = [sys.executable, "-m", "torture._workers", dsn, str(kills), str(stops), str(lease)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    sys.stdout.write(ended.stdout)  # for those who want the figures: pytest -rP
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
