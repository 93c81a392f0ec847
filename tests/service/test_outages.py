"""`digestif serve` while its store takes no writes, and after it: answered in time, counted once, and no restart."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif.client import Client as DigestifClient
from digestif.testing.postgres import PostgresServer
from tests.service.harness import Client, Reply
from tests.service.outages import Outage, outage_of
from tests.service.programs import Program, started
from tests.worker.workers import becomes

pytestmark = pytest.mark.long

ANSWERED = 4.0  # seconds: two, and what a busy machine adds
GRACE, STORE_ENDS = 1, 5.0  # seconds
MOST_THREADS = 50
NDJSON = b'{"timeline": "n", "value": 1}\n{"timeline": "n", "value": 2}\n'
WRITES: dict[str, Any] = {
    "/v1/timelines/one/records": {"value": 1},
    "/v1/records": [{"timeline": "many", "value": 1}, {"timeline": "many", "value": 2}],
    "/v1/timelines/t/flush": None,
    "/v1/timelines/t/pause": None,
}
READS = ["/", "/timelines", "/v1/ledger", "/v1/status", "/v1/dead-letters", "/v1/timelines/t", "/v1/timelines"]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    with outage_of(request.param, tmp_path) as outage:
        yield outage


@contextmanager
def serving(folder: Path, outage: Outage) -> Iterator[tuple[Program, Client]]:
    """A service with a worker, whose store is away from now on."""
    (folder / "out").mkdir()
    (folder / "digestif.toml").write_text(
        f'store = "{outage.store}"\n[worker]\ngrace = {GRACE}\n'
        f'[[routes]]\npattern = "*"\nchannel = "file://{folder}/out"\npolicy = "minimum=0s,increment=0s,maximum=0s"\n'
    )
    with started(folder, "--config", "digestif.toml") as (program, client):
        assert client.add("t", 0).status == 202
        assert client.get("/timelines").status == 200
        assert becomes(lambda: counts(client)["delivered"] == 1)
        outage.begin()
        yield program, client


def counts(client: Client) -> Any:
    return client.get("/v1/ledger").json()


def is_ready(client: Client) -> bool:
    return client.get("/readyz").status == 200


def timed(client: Client, path: str, **options: Any) -> tuple[Reply, float]:
    began = time.monotonic()
    reply = client.post(path, WRITES.get(path), **options) if path in WRITES else client.get(path, **options)
    return reply, time.monotonic() - began


def test_what_needs_a_store_that_is_away_is_503_after_two_seconds_and_works_when_it_is_back(
    tmp_path: Path, outage: Outage
) -> None:
    with serving(tmp_path, outage) as (program, client), ThreadPoolExecutor(40) as threads:
        paths = [*WRITES, *READS] * 3
        healthy = Health(client)
        with healthy:
            answers = list(threads.map(lambda path: (path, *timed(client, path)), paths))
            lines = client.send("POST", "/v1/records", NDJSON, headers={"Content-Type": "application/x-ndjson"})
            not_ready = [timed(client, "/readyz") for _ in paced(6)]  # longer than a connection may take to be made

        for path, reply, took in answers:
            assert took < ANSWERED, path
            assert reply.status == 503 or (path in READS and reply.status == 200), path  # readers need no lock
            assert reply.status == 200 or 1 <= int(reply.headers["retry-after"]) <= 3
        assert (lines.status, {reply.status for reply, _ in not_ready}) == (503, {503})
        assert max(took for _, took in not_ready) < ANSWERED
        assert healthy.slowest < 1.0
        assert threads_of(program) < MOST_THREADS

        outage.end()
        assert becomes(lambda: is_ready(client))
        assert becomes(lambda: client.add("t", 2).status == 202)
        assert [client.get(path).status for path in READS] == [200] * len(READS)
        assert becomes(lambda: counts(client)["delivered"] >= 2)  # the worker goes on
        assert client.post("/v1/verify").json()["agrees"]
        assert program.process.poll() is None


def paced(seconds: float) -> Iterator[None]:
    """Four times a second."""
    for _ in range(int(4 * seconds)):
        time.sleep(0.25)
        yield


class Health:
    """Asks for /healthz, one request after the other, during the block."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_over = threading.Event()
        self._asking = threading.Thread(target=self._ask)
        self.slowest = 0.0

    def _ask(self) -> None:
        while not self._is_over.wait(0.05):
            reply, took = timed(self._client, "/healthz")
            assert reply.status == 200
            self.slowest = max(self.slowest, took)

    def __enter__(self) -> None:
        self._asking.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._asking.join()


def threads_of(program: Program) -> int:
    lines = Path(f"/proc/{program.process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Threads:")))


def test_a_server_that_takes_no_new_connections_holds_up_only_what_needs_one(tmp_path: Path) -> None:
    with PostgresServer(fsync=False) as server:
        postmaster = Outage(
            server.url,
            lambda: os.kill(server.pid, signal.SIGSTOP),
            lambda: os.kill(server.pid, signal.SIGCONT),
        )
        with serving(tmp_path, postmaster) as (_, client):
            healthy = Health(client)
            try:
                with healthy:
                    status, took = timed(
                        client, "/v1/status"
                    )  # asks how durable the server is, on a connection of its own
                    others = [timed(client, "/v1/ledger") for _ in paced(3)]
            finally:
                postmaster.end()

            assert (status.status, took < ANSWERED, healthy.slowest < 1.0) == (503, True, True)
            assert {reply.status for reply, _ in others} == {200}
            assert becomes(lambda: client.get("/v1/status").status == 200)


def test_requests_with_a_key_that_are_sent_until_they_are_answered_count_once(tmp_path: Path, outage: Outage) -> None:
    """Longer than a process may be silent, with records without keys: nothing but their requests tells them apart."""
    with serving(tmp_path, outage) as (_, client), ThreadPoolExecutor(24) as threads:
        seen = threads.map(lambda number: sent_until_accepted(client, number), range(24))
        time.sleep(12)
        outage.end()

        assert {status for each in seen for status in each} <= {202, 409, 503}
        assert becomes(lambda: counts(client)["delivered"] == 25)
        found = counts(client)
        assert (found["accepted"], found["superseded"], found["balanced"]) == (25, 0, True)


def sent_until_accepted(client: Client, number: int) -> list[int]:
    statuses: list[int] = []
    while 202 not in statuses:
        headers = {"Idempotency-Key": f"key-{number}"}
        reply = client.post(f"/v1/timelines/u{number % 6}/records", {"value": number}, headers=headers)
        statuses.append(reply.status)
        time.sleep(0 if reply.status == 202 else 0.5)
    return statuses


@pytest.mark.parametrize("seconds", [6, 30])
def test_24_adds_of_the_client_through_an_outage_are_24_records(tmp_path: Path, outage: Outage, seconds: float) -> None:
    with serving(tmp_path, outage) as (_, client), ThreadPoolExecutor(24) as threads:
        with DigestifClient(client.url, patience=90) as digests:
            adding = [threads.submit(digests.add, f"u{number % 6}", number) for number in range(24)]
            time.sleep(seconds)
            outage.end()
            for each in adding:
                each.result()

        assert becomes(lambda: counts(client)["delivered"] == 25)
        found = counts(client)
        assert (found["accepted"] - found["superseded"], found["balanced"]) == (25, True)


def test_a_stop_while_the_store_is_away_ends_within_the_grace_and_five_seconds(tmp_path: Path, outage: Outage) -> None:
    with serving(tmp_path, outage) as (program, client), ThreadPoolExecutor(12) as threads:
        headers = [{"Idempotency-Key": str(number)} for number in range(12)]
        sent = threads.map(lambda each: client.post("/v1/records", WRITES["/v1/records"], headers=each).status, headers)
        assert set(sent) == {503}

        began = time.monotonic()
        program.signal(signal.SIGTERM)
        code = program.wait()

        assert (code, time.monotonic() - began < GRACE + STORE_ENDS + 4) == (0, True)
        assert "ending without it" in program.log


def test_a_store_that_is_away_for_longer_than_it_tries_is_back_without_a_restart(tmp_path: Path) -> None:
    """Its own calls fail in the outage, those of the worker too."""
    with outage_of("sqlite", tmp_path) as outage:
        short = outage._replace(store=f"{outage.store}?timeout=2")
        with serving(tmp_path, short) as (program, client), ThreadPoolExecutor(12) as threads:
            seen = threads.map(lambda number: sent_until_accepted(client, number), range(12))
            time.sleep(7)
            outage.end()

            assert all(each[-1] == 202 for each in seen)
            assert becomes(lambda: counts(client)["delivered"] == 13)
            assert counts(client)["accepted"] == 13
            assert program.process.poll() is None
