"""One tenant floods `digestif serve`: history, traces and kept messages of another one are as they were.

Each takes less than a minute: `./dev torture -k attack_rings -rP` prints how much was pushed through.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif.testing.postgres import PostgresServer
from digestif.testing.processes import becomes_true
from digestif.testing.servers import RedisServer
from tests.service.harness import Client, segment, token_of
from tests.service.programs import started

FLOOD = 1_200  # digests: more than a ring of the history, of removals and of messages holds
PAGE = 200
WITHIN = 50.0  # seconds
SETTINGS = """store = "{store}"
[serve]
keep_messages = true
[[routes]]
pattern = "*"
channel = "file://./outbox"
policy = "immediate"
{tokens}"""


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/digestif.db"
    elif kind == "postgres":
        with PostgresServer(fsync=False) as server:
            yield server.new_database("attacked")
    else:
        with RedisServer() as server:
            yield server.url


def seen_by(client: Client, timeline: str) -> dict[str, Any]:
    """What a tenant reads about a timeline that was delivered."""
    [digest] = client.get(f"/v1/digests?timeline={segment(timeline)}").json()["digests"]
    return {
        "digests": client.get("/v1/digests").json(),
        "message": client.get(f"/v1/digests/{segment(digest['id'])}/message").json(),
        "delivered": client.get(f"/v1/timelines/{segment(timeline)}/trace/first").json(),
        "never came": client.get(f"/v1/timelines/{segment(timeline)}/trace/never").json(),
        "retracted": client.get(f"/v1/timelines/{segment(timeline + '-gone')}/trace/first").json(),
    }


def fill(client: Client, timeline: str) -> None:
    """Let one record be delivered, and take another one back."""
    assert client.add(timeline, 1, key="first").status == 202
    assert becomes_true(lambda: bool(client.get(f"/v1/digests?timeline={segment(timeline)}").json()["digests"]))
    paused = f"{timeline}-gone"
    assert client.post(f"/v1/timelines/{segment(paused)}/pause").status < 300
    assert client.add(paused, 1, key="first").status == 202
    assert client.send("DELETE", f"/v1/timelines/{segment(paused)}/records/first").status < 300


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey"])
def test_a_flood_of_one_tenant_pushes_out_nothing_of_another(kind: str, tmp_path: Path) -> None:
    tokens = {prefix: token_of(f"of {prefix}", prefix=prefix) for prefix in ("a:", "b:", "")}
    tables = "".join(
        f'[[tokens]]\nname = "{each.name}"\nhash = "{each.hash}"\nscopes = ["admin"]\nprefix = "{each.prefix}"\n'
        for _, each in tokens.values()
    )
    with place(kind, tmp_path) as store:
        (tmp_path / "digestif.toml").write_text(SETTINGS.format(store=store, tokens=tables))
        with started(tmp_path) as (_, client):
            attacker, tenant, operator = (client.by(token) for token, _ in tokens.values())
            fill(tenant, "b:1")
            before = seen_by(tenant, "b:1")

            began = time.monotonic()
            for first in range(0, FLOOD, PAGE):
                names = [f"a:{number}" for number in range(first, first + PAGE)]
                records = [{"timeline": name, "value": 1, "key": "k"} for name in names]
                assert attacker.post("/v1/records", records).status == 202
            assert becomes_true(lambda: operator.get("/v1/ledger").json()["delivered"] > FLOOD, timeout=WITHIN)
            took = time.monotonic() - began

            assert seen_by(tenant, "b:1") == before
    sys.stdout.write(f"{kind}: {FLOOD} digests of a: in {took:.1f} s; b: reads what it read before\n")
