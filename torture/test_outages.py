"""Outages at full size: six hours by a given clock, minutes in real time with kills, 100,000 timelines kept."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from digestif import Digests
from tests.channels.gate import gate_to
from tests.channels.mailserver import MailServer, running_mail_server
from tests.logbook import Logbook
from tests.routes.mail_outages import MINUTE, READERS, living, mail_of, mails_by_reader
from tests.worker.kills import emptied
from tests.worker.programs import ROOT

HOUR = 3600.0
CROWD = 100_000


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from emptied(request.param, tmp_path)


def test_six_hours_without_a_mail_server(store: str) -> None:
    with living(store) as world:
        with world.gate.shut():
            world.live(6 * HOUR)
        returned = world.now

        world.live(6 * MINUTE, events=False)

        entries = world.digests.history()
        assert world.digests.ledger().dead == 0
        assert mails_by_reader(world) == dict.fromkeys(READERS, 1)
        assert [entry.records for entry in entries] == [360] * len(READERS)
        late = max(entry.ended for entry in entries) - returned
        show(f"the last mail {late:.0f} s after the return")
        assert late <= 6 * MINUTE
        assert world.digests.verify()


def show(figures: str) -> None:
    """For those who want the figures: pytest -rP."""
    sys.stdout.write(f"{figures}\n")


# In real time, with processes


@contextmanager
def working(store: str, mail: str, folder: Path, workers: int = 2) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "torture._outages", store, mail, str(folder)]
    with ExitStack() as ended:
        started = []
        for _ in range(workers):
            process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
            ended.callback(process.wait, 30)
            ended.callback(process.send_signal, signal.SIGTERM)
            started.append(process)
        yield started


def wait_until(condition: object, seconds: float, *, every: float = 0.05) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every)
    return bool(condition())


def add_for_minutes(digests: Digests, minutes: int) -> list[str]:
    """An event a minute for each reader; the answer is their keys."""
    keys = []
    for number in range(minutes):
        began = time.monotonic()
        key = f"event-{number}"
        digests.add_many([(reader, {"title": key}) for reader in READERS])
        keys.append(key)
        time.sleep(max(0.0, MINUTE - (time.monotonic() - began)))
    return keys


def all_have(server: MailServer, keys: list[str]) -> bool:
    """True if every reader has a mail with every record."""
    arrived: dict[str, set[str]] = {}
    for body in list(server.mails):
        mail = mail_of(body)
        arrived.setdefault(f"mail:{mail.to}", set()).update(mail.records)
    return all(arrived.get(reader, set()) >= set(keys) for reader in READERS)


@pytest.mark.parametrize("kill", [False, True], ids=["calm", "killed"])
def test_two_minutes_in_real_time(tmp_path: Path, kill: bool) -> None:
    """With a worker killed while it sends: at most one mail more, and no record under two keys."""
    store = f"sqlite:///{tmp_path}/d.db"
    with running_mail_server() as server, gate_to(server.port) as gate, Digests(store) as digests:
        mail = server.dsn("&timeout=10", port=gate.port)
        with working(store, mail, tmp_path) as workers:
            with gate.shut():
                keys = add_for_minutes(digests, 2)
            returned = time.monotonic()
            if kill:
                assert wait_until(lambda: "MAIL" in server.commands, 6 * MINUTE, every=0.001)
                os.kill(workers[0].pid, signal.SIGKILL)
            assert wait_until(lambda: all_have(server, keys), 6 * MINUTE)
            took = time.monotonic() - returned
            time.sleep(5)

        mails = [mail_of(body) for body in server.mails]
        by_reader, ids = Counter(mail.to for mail in mails), {mail.id for mail in mails}
        show(f"the last mail {took:.0f} s after the return, {len(mails)} mails for {len(ids)} digests")
        assert digests.ledger().dead == 0
        assert len(ids) == len(READERS)
        assert {records for mail in mails for records in [mail.records]} == {tuple(keys)}
        assert len(mails) - len(READERS) <= int(kill)
        assert max(by_reader.values()) <= 1 + int(kill)


def test_a_wrong_password_is_told_by_status_within_a_second(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/d.db"
    with running_mail_server(plain_login=True) as server, Digests(store) as digests:
        with working(store, server.dsn(login="ada:wrong-wrong@"), tmp_path):
            digests.add_many([(reader, {"title": "event-0"}) for reader in READERS])
            assert wait_until(lambda: server.logins, 30, every=0.001)
            refused = time.monotonic()
            assert wait_until(digests.outages, 10, every=0.01)
            took = time.monotonic() - refused
            status = subprocess.run(
                [sys.executable, "-m", "digestif", "status", "--json", "--store", store],
                cwd=ROOT,
                capture_output=True,
                check=True,
            )
            [outage] = json.loads(status.stdout)["outages"]
            show(f"known after {took:.2f} s")
            assert took < 1
            assert outage["reason"].startswith("configuration: ")
            assert "wrong-wrong" not in status.stdout.decode()

            server.password = "wrong-wrong"
            assert wait_until(lambda: all_have(server, ["event-0"]), 6 * MINUTE)

        assert digests.ledger().dead == 0
        assert len(server.mails) == len(READERS)


def test_a_hundred_thousand_behind_a_closed_channel_hold_up_no_other(store: str, tmp_path: Path) -> None:
    with running_mail_server() as server, gate_to(server.port) as gate, Digests(store) as digests:
        for start in range(0, CROWD, 1000):
            digests.add_many([(f"mail:{n}@example.org", {"title": "event-0"}) for n in range(start, start + 1000)])
        added: dict[str, float] = {}
        with gate.shut(), working(store, server.dsn(port=gate.port), tmp_path):
            assert wait_until(digests.outages, 60)
            time.sleep(30)
            for number in range(1200):
                name = f"fast:{number}"
                added[name] = time.time()
                digests.add(name, number)
                time.sleep(0.05)
            assert wait_until(lambda: len(list(Logbook(tmp_path / "delivered").read())) >= 1200, 60)

        delivered = dict(Logbook(tmp_path / "delivered").read())
        late = sorted(delivered[name] - at for name, at in added.items())
        show(f"lateness p50 {late[600]:.3f} s, p99 {late[1188]:.3f} s, most {late[-1]:.3f} s")
        assert digests.ledger().dead == 0
        assert late[1188] < 2


# A part is away


@pytest.mark.parametrize(
    ("share", "together", "each"), [(0.05, 0.9, 0.8), (0.1, 0.8, 0.6), (0.2, 0.6, 0.4), (0.5, 0.0, 0.0)]
)
def test_readers_get_what_goes_through_the_rest_of_a_channel(share: float, together: float, each: float) -> None:
    """Three minutes in real time, two workers, ten readers with an event every two seconds."""
    command = [sys.executable, "-m", "torture._partial", str(share)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    found = json.loads(ended.stdout)
    show(ended.stdout)
    assert found["together"] >= together
    assert found["least"] >= each * found["of"]
    assert (found["twice"], found["dead"]) == (0, 0)
