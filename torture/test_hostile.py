"""Half an hour of hostile callers beside a well-behaved one, on a real service.

    ./dev torture -k hostile
    DIGESTIF_HOSTILE_SECONDS=120 ./dev torture -k "hostile and sqlite"

Callers of four kinds of tokens and without one do what they can (`_hostile.py`). The other client adds a record twenty
times a second, and a receiver of its digests notes when each record came.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif.service.settings import Scope, Token
from digestif.testing.servers import free_port
from tests.service.harness import Client, token_of
from tests.service.programs import Program, started
from tests.transfer.stores import dsn_of
from tests.worker.programs import ROOT

SECONDS = float(os.environ.get("DIGESTIF_HOSTILE_SECONDS", "1800"))
SEED = int(os.environ.get("DIGESTIF_HOSTILE_SEED", "1"))
QUIET = min(60.0, SECONDS / 2)  # seconds without hostile callers, before them
EVERY = 0.05  # seconds between two adds
TIMELINES = 20
MOST_SLOWER = 5.0
MOST_RSS = 300  # MiB, of the service and its children
COOL_DOWN = 2.0  # seconds, by the policy of the well-behaved client
LATE = 5.0  # seconds for a delivery: the look of a worker, and the delivery itself
SETTLED = 60.0  # seconds for the last digests, once the hostile callers are gone
SECRET = f"whsec_{'A' * 32}"
FILE = """
store = "STORE"
[limits]
timelines = 3000
rate = 40
[[routes]]
pattern = "good:*"
channel = "CHANNEL"
policy = "minimum=2s,increment=0s,maximum=2s"
[[routes]]
pattern = "evil:*"
channel = "webhook+http://127.0.0.1:EVIL/?secret=SECRET&allow_private=yes"
policy = "minimum=1m,increment=0s,maximum=1m,capacity=50"
"""


class Arrived(NamedTuple):
    """A record that the receiver got."""

    key: str
    at: float


class Receiver:
    """Notes which records come, and when."""

    def __init__(self) -> None:
        receiver = self
        self.arrived: list[Arrived] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"]
                now = time.monotonic()
                receiver.arrived += [Arrived(record["key"], now) for record in data["records"]]
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.dsn = f"webhook+http://127.0.0.1:{self._server.server_port}/?secret={SECRET}&allow_private=yes"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class GoodClient:
    """Adds a record at a steady pace, and notes how long each answer took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._connection = client.connect()
        self.added: dict[str, float] = {}  # when each record was accepted, by its key
        self.refused: Counter[int] = Counter()

    def run(self, seconds: float) -> list[float]:
        """The seconds that each add took."""
        took, end, following = [], time.monotonic() + seconds, time.monotonic()
        while following < end:
            time.sleep(max(0.0, following - time.monotonic()))
            following = max(following + EVERY, time.monotonic())
            took.append(self._add())
        return took

    def _add(self) -> float:
        key, began = f"r{len(self.added)}", time.monotonic()
        path = f"/v1/timelines/good:{len(self.added) % TIMELINES}/records"
        reply = self._client.post(path, {"value": {"title": key}, "key": key}, connection=self._connection)
        if reply.status == 202:
            self.added[key] = time.monotonic()
        else:
            self.refused[reply.status] += 1
        return time.monotonic() - began


class Memory:
    """Watches how much memory a process and its children have."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self.most = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.25):
            self.most = max(self.most, sum(map(rss, family(self._pid))))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


def family(pid: int) -> Iterator[int]:
    """A process and its children."""
    yield pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in children.read_text().split() if children.exists() else []:
        yield from family(int(child))


def rss(pid: int) -> int:
    """Bytes; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS")), 0)


def tokens() -> tuple[dict[str, str], list[Token]]:
    """A token of each kind by its name, and their entries in the settings."""
    kinds = {
        "good": ((Scope.INGEST,), "good:"),
        "ingest": ((Scope.INGEST,), "evil:"),
        "read": ((Scope.READ,), "evil:"),
        "admin": ((Scope.ADMIN,), "evil:"),
        "whole": ((Scope.READ,), ""),
    }
    made = {name: token_of(name, *scopes, prefix=prefix) for name, (scopes, prefix) in kinds.items()}
    return {name: text for name, (text, _) in made.items()}, [token for _, token in made.values()]


def table(token: Token) -> str:
    scopes = json.dumps([str(scope) for scope in token.scopes])
    names = f'name = "{token.name}"\nhash = "{token.hash}"\nprefix = "{token.prefix}"'
    return f"[[tokens]]\n{names}\nscopes = {scopes}\n"


class Scene(NamedTuple):
    """A service under test, and what belongs to it."""

    program: Program
    client: Client
    receiver: Receiver
    texts: dict[str, str]  # tokens by name
    evil: int  # the port at which hostile callers take their digests


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with dsn_of(request.param, tmp_path) as store, received() as receiver:
        texts, entries = tokens()
        evil = free_port()
        filled = {"STORE": store, "CHANNEL": receiver.dsn, "EVIL": str(evil), "SECRET": SECRET}
        text = reduce(lambda done, pair: done.replace(*pair), filled.items(), FILE) + "".join(map(table, entries))
        (tmp_path / "digestif.toml").write_text(text)
        with started(tmp_path) as (program, client):
            yield Scene(program, client, receiver, texts, evil)


@contextmanager
def received() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.mark.timeout(SECONDS + 600)
def test_a_well_behaved_client_hardly_notices_hostile_ones(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    good = GoodClient(scene.client.by(scene.texts["good"]))
    memory = Memory(scene.program.process.pid)
    quiet = good.run(QUIET)
    command = [sys.executable, "-m", "torture._hostile", str(scene.client.port), str(SECONDS), str(SEED)]
    command += [json.dumps(scene.texts), str(scene.evil)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as hostile:
        loaded = good.run(SECONDS)
        said = hostile.communicate()[0]
    wait_for_all(scene.receiver, good)
    memory.close()

    latest = max(lateness(scene.receiver, good))
    found = {
        "quiet p99 ms": 1000 * p99(quiet),
        "loaded p50 ms": 1000 * statistics.median(loaded),
        "loaded p99 ms": 1000 * p99(loaded),
        "loaded worst ms": 1000 * max(loaded),
        "rss MiB": memory.most >> 20,
        "added": len(good.added),
        "refused": good.refused,
        "latest s": latest,
    }
    with capfd.disabled():
        sys.stderr.write(f"\n{json.dumps(found)}\n{said}\n")
    counts = Counter(arrived.key for arrived in scene.receiver.arrived)
    assert good.refused == {}
    assert good.added.keys() - counts.keys() == set(), "lost"
    assert [key for key, count in counts.items() if count > 1] == [], "doubled"
    assert latest <= COOL_DOWN + 2 * LATE  # it may have to wait for the delivery before
    assert memory.most <= MOST_RSS << 20
    assert p99(loaded) <= MOST_SLOWER * p99(quiet)
    assert "Traceback" not in scene.program.log


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def wait_for_all(receiver: Receiver, good: GoodClient) -> None:
    end = time.monotonic() + SETTLED
    while time.monotonic() < end and good.added.keys() - {arrived.key for arrived in receiver.arrived}:
        time.sleep(0.5)


def lateness(receiver: Receiver, good: GoodClient) -> list[float]:
    """How long each record took from its acceptance to its delivery, in seconds."""
    return [arrived.at - good.added[arrived.key] for arrived in receiver.arrived if arrived.key in good.added]
