"""`digestif serve` as a process: it starts, reloads, stops and survives kills, and loses nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from digestif import Digests
from digestif.cli.serve import NEVER, YOUNG_OBJECTS
from digestif.testing.servers import free_port
from tests.service.harness import Client, token_of
from tests.service.programs import PATIENCE, Program, started

pytestmark = pytest.mark.long

MINUTES = 'policy = "minimum=10m,increment=0s,maximum=10m"\n'
FILE = """
store = "sqlite:///digestif.db"
[[routes]]
pattern = "mail:*"
channel = "CHANNEL"
policy = "immediate"
"""


def written(folder: Path, text: str = FILE, channel: str = "file://./outbox") -> Path:
    file = folder / "digestif.toml"
    file.write_text(text.replace("CHANNEL", channel))
    return file


def digests(folder: Path) -> Digests:
    return Digests(f"sqlite:///{folder}/digestif.db")


class Receiver:
    """A receiver of webhooks that answers when it is allowed to."""

    def __init__(self) -> None:
        receiver = self
        self.called = threading.Event()
        self.allowed = threading.Event()
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.called.set()
                receiver.allowed.wait(PATIENCE)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.dsn = f"webhook+http://127.0.0.1:{self._server.server_port}/?secret=whsec_{'A' * 32}&allow_private=yes"

    def close(self) -> None:
        self.allowed.set()
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_in_an_empty_folder_one_command_is_enough(tmp_path: Path) -> None:
    with started(tmp_path) as (program, client):
        assert client.add("mail:ada", "hello").status == 202
        program.signal(signal.SIGTERM)
        assert program.wait() == 0

    assert "there are no routes: records gather and nothing is delivered; digestif init writes" in program.log
    with digests(tmp_path) as store:
        assert store.ledger().pending == 1


def test_it_is_ready_after_a_second_of_work(tmp_path: Path) -> None:
    """Of the processor: how long that takes depends on what else the computer does."""
    with started(tmp_path) as (program, _):
        ticks = Path(f"/proc/{program.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]

    assert sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") < 1.5


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with Program("serve", "--listen", address, folder=tmp_path) as program:
            assert program.wait() == 2

    assert f"listen: {address} is in use by another program; choose another port with --listen" in program.log


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_other_computers_are_refused_without_tokens(tmp_path: Path, address: str) -> None:
    with Program("serve", "--listen", address, folder=tmp_path) as program:
        assert program.wait() == 2

    assert "and there are no tokens; make one with 'digestif token NAME --scope admin'" in program.log


@pytest.mark.parametrize("names", ['public = "https://digests.example.org"', 'hosts = ["digests.example.org"]'])
def test_a_name_for_other_computers_is_refused_without_tokens(tmp_path: Path, names: str) -> None:
    """A proxy on this computer would let all of them in."""
    written(tmp_path, f"[serve]\n{names}\n")
    with Program("serve", "--listen", "127.0.0.1:0", folder=tmp_path) as program:
        assert program.wait() == 2

    assert "digests.example.org can be reached from other computers, and there are no tokens" in program.log


def test_removing_the_last_token_of_a_public_service_changes_nothing(tmp_path: Path) -> None:
    text, token = token_of("ada")
    public = '[serve]\npublic = "https://digests.example.org"\n'
    written(tmp_path, f'{public}[[tokens]]\nname = "ada"\nhash = "{token.hash}"\nscopes = ["admin"]\n')
    with Program("serve", "--listen", f"127.0.0.1:{(port := free_port())}", folder=tmp_path) as program:
        program.said("there are no routes")
        written(tmp_path, public)
        program.signal(signal.SIGHUP)
        program.said("not reloaded: public: https://digests.example.org can be reached from other computers")

        assert Client(port).get("/v1/ledger").status == 401
        assert Client(port, text).get("/v1/ledger").status == 200


def test_a_crowd_of_connections_leaves_files_for_the_store_and_for_channels(tmp_path: Path) -> None:
    written(tmp_path)
    with started(tmp_path, files=512) as (program, client), ExitStack() as crowd:
        for _ in range(700):
            crowd.enter_context(socket.create_connection(("127.0.0.1", client.port)))

        assert client.add("mail:ada", 1).status == 202
        program.said("Delivered mail:ada")

    assert "Too many open files" not in program.log


def test_what_is_added_over_http_is_delivered(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, channel=receiver.dsn)
    receiver.allowed.set()
    with started(tmp_path) as (program, client):
        client.add("mail:ada", "hello")
        program.said("Delivered mail:ada: records=1")

    assert b"hello" in receiver.bodies[0]


def test_without_a_worker_nothing_is_delivered_until_one_comes(tmp_path: Path) -> None:
    file = written(tmp_path)
    with started(tmp_path, "--no-worker") as (service, client):
        client.add("mail:ada", "hello")
        with Program("worker", "--config", str(file), folder=tmp_path) as worker:
            worker.said("Delivered mail:ada: records=1")
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0

    assert "Delivered" not in service.log


# Reloading


def test_a_reload_replaces_tokens(tmp_path: Path) -> None:
    (first, old), (second, new) = token_of("first"), token_of("second")
    table = '[[tokens]]\nname = "a"\nhash = "{}"\nscopes = ["admin"]\n'
    written(tmp_path, table.format(old.hash))
    with started(tmp_path) as (program, client):
        before = [client.by(token).add("t", 1).status for token in (first, second)]
        written(tmp_path, table.format(new.hash))
        program.signal(signal.SIGHUP)
        program.said("reloaded digestif.toml: routes=0, tokens=1")
        after = [client.by(token).add("t", 1).status for token in (first, second)]

    assert (before, after) == ([202, 401], [401, 202])


def test_a_changed_policy_applies_to_what_waits(tmp_path: Path) -> None:
    written(tmp_path, FILE.replace('"immediate"', '"first=10m"'))
    with started(tmp_path) as (program, client):
        assert client.add("mail:ada", 1).json()["ready"] is False
        written(tmp_path)
        program.signal(signal.SIGHUP)
        program.said("Delivered mail:ada: records=1")


def test_a_changed_policy_applies_to_what_waits_without_routes(tmp_path: Path) -> None:
    written(tmp_path, 'policy = "first=10m"\n')
    with started(tmp_path) as (program, client), digests(tmp_path) as store:
        due = client.add("t", 1).json()["due"]
        written(tmp_path, 'policy = "first=20m"\n')
        program.signal(signal.SIGHUP)
        program.said("replanned")

        assert store.timeline("t").due == pytest.approx(due + 600)


def test_a_wrong_file_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    with started(tmp_path) as (program, client):
        written(tmp_path, 'stoer = 1\n[[routes]]\npattern = "x"\n')
        program.signal(signal.SIGHUP)
        program.said("the settings before stay in force")
        client.add("mail:ada", 1)
        program.said("Delivered mail:ada")

    assert "not reloaded: digestif.toml: line 1: stoer: there is no such setting; did you mean store?" in program.log
    assert "not reloaded: digestif.toml: line 2: routes[0].channel: is missing" in program.log


@pytest.mark.parametrize("wrong", ['[serve]\npublic = "http://["', '[serve]\nhosts = ["["]', "[worker]\npoll = 0"])
def test_a_setting_that_can_not_be_used_is_reported_and_changes_nothing(tmp_path: Path, wrong: str) -> None:
    written(tmp_path)
    with started(tmp_path) as (program, client):
        written(tmp_path, f"{FILE}{wrong}\n")
        program.signal(signal.SIGHUP)
        program.said("the settings before stay in force")
        client.add("mail:ada", 1)
        program.said("Delivered mail:ada")

    assert "Traceback" not in program.log


def test_a_file_that_was_written_after_the_start_is_found(tmp_path: Path) -> None:
    with started(tmp_path) as (program, client):
        with Program("init", folder=tmp_path) as init:
            assert init.wait() == 0
        program.signal(signal.SIGHUP)
        program.said("reloaded digestif.toml: routes=1")
        (tmp_path / "digestif.toml").unlink()
        program.signal(signal.SIGHUP)
        program.said("not reloaded: digestif.toml: there is no such file")

        assert client.get("/readyz").status == 200


def test_a_file_that_went_away_is_named_and_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    with started(tmp_path) as (program, client):
        (tmp_path / "digestif.toml").unlink()
        program.signal(signal.SIGHUP)
        program.said("not reloaded: digestif.toml: there is no such file")

        assert client.get("/readyz").status == 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('store = "sqlite:///other.db"', "store and namespace can't change while this runs: restart it"),
        ('namespace = "other"', "store and namespace can't change while this runs: restart it"),
    ],
)
def test_what_needs_a_restart_is_reported(tmp_path: Path, text: str, reason: str) -> None:
    written(tmp_path)
    with started(tmp_path) as (program, _):
        written(tmp_path, text)
        program.signal(signal.SIGHUP)
        program.said(f"not reloaded: {reason}")


def test_another_address_needs_a_restart(tmp_path: Path) -> None:
    address = f'[serve]\nlisten = "127.0.0.1:{free_port()}"\n'
    written(tmp_path, address)
    with Program("serve", folder=tmp_path) as program:
        program.said("there are no routes")
        written(tmp_path, address.replace("127.0.0.1", "127.0.0.2"))
        program.signal(signal.SIGHUP)
        program.said("not reloaded: serve.listen: 127.0.0.2:")


def test_reloads_under_load_lose_no_request_and_no_delivery(tmp_path: Path) -> None:
    """Four clients add as fast as they can, while the file changes ten times."""
    written(tmp_path)
    with started(tmp_path) as (program, client):
        load = Load(client, clients=4)
        for number in range(1, 11):
            written(tmp_path, f"{FILE}top = {number}\n")
            program.signal(signal.SIGHUP)
            program.said("reloaded digestif.toml", times=number)
        answers = load.end()
        program.signal(signal.SIGTERM)
        assert program.wait() == 0

    with Program("worker", "--drain", folder=tmp_path) as worker:  # what was given back
        assert worker.wait() == 0

    assert set(answers) == {202}
    with digests(tmp_path) as store:
        counts = store.ledger()
        assert counts.accepted == counts.delivered == len(answers) >= 10
        assert store.verify().problems == ()
        sent = [entry for entry in store.history(limit=10_000) if entry.outcome == "delivered"]
    assert sum(entry.records for entry in sent) == len(answers)
    assert len(list((tmp_path / "outbox").iterdir())) == len(sent)  # none was sent twice
    assert program.log.count("WorkerStarted") == program.log.count("WorkerStopped") == 11


class Load:
    """Clients that add until they are stopped."""

    def __init__(self, client: Client, *, clients: int) -> None:
        self._client = client
        self._is_over = threading.Event()
        self._answers: list[int] = []
        self._news = threading.Condition()
        self._threads = [threading.Thread(target=self._add, args=(number,), daemon=True) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _add(self, number: int) -> None:
        while not self._is_over.is_set() and 0 not in self._answers:
            try:
                answer = self._client.add(f"mail:{number}-{len(self._answers) % 20}", "x").status
            except (OSError, HTTPException):
                answer = 0
            with self._news:
                self._answers.append(answer)
                self._news.notify_all()

    def wait_for(self, accepted: int) -> None:
        """Wait until so many records were accepted."""
        with self._news:
            assert self._news.wait_for(lambda: self._answers.count(202) >= accepted, PATIENCE)

    def end(self) -> list[int]:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        return self._answers


def test_a_worker_reloads_its_file(tmp_path: Path) -> None:
    file = written(tmp_path, FILE.replace("mail:", "chat:"))
    with digests(tmp_path) as store, Program("worker", "--config", str(file), folder=tmp_path) as worker:
        worker.said("handlers=chat:*")
        store.add("mail:ada", 1)
        written(tmp_path, "stoer = 1")
        worker.signal(signal.SIGHUP)
        worker.said("the settings before stay in force")
        written(tmp_path)
        worker.signal(signal.SIGHUP)
        worker.said("Delivered mail:ada")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


# Ending


def begun(client: Client) -> socket.socket:
    """A connection with the head of a request whose body has not come yet."""
    connection = socket.create_connection(("127.0.0.1", client.port), PATIENCE)
    head = b"POST /v1/timelines/t/records HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % client.port
    head += b"Content-Type: application/json\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n"
    connection.sendall(head)
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    return connection


def test_a_request_that_is_under_way_is_answered_before_it_ends(tmp_path: Path) -> None:
    with started(tmp_path) as (program, client):
        with begun(client) as connection:
            program.signal(signal.SIGTERM)
            program.said("stopping: requests and deliveries have 25 s to finish")
            connection.sendall(b'{"value":1}')
            assert connection.recv(1000).startswith(b"HTTP/1.1 202")
        assert program.wait() == 0

    with digests(tmp_path) as store:
        assert store.ledger().accepted == 1


def test_a_body_that_never_comes_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with started(tmp_path) as (program, client), begun(client) as connection:
        program.signal(signal.SIGTERM)
        program.said("stopping:")
        began = time.monotonic()
        assert connection.recv(1000).startswith(b"HTTP/1.1 503")
        assert program.wait() == 0

    assert time.monotonic() - began < 12  # of 25 s of grace
    assert "Traceback" not in program.log
    assert "ERROR" not in program.log


def test_a_delivery_that_is_under_way_is_finished_before_it_ends(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, channel=receiver.dsn)
    with started(tmp_path) as (program, client):
        client.add("mail:ada", 1)
        assert receiver.called.wait(PATIENCE)
        program.signal(signal.SIGTERM)
        program.said("WorkerStopping")
        receiver.allowed.set()
        assert program.wait() == 0

    with digests(tmp_path) as store:
        assert store.ledger().delivered == 1


def test_a_second_signal_ends_it_at_once(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, channel=receiver.dsn)
    with started(tmp_path) as (program, client):
        client.add("mail:ada", 1)
        assert receiver.called.wait(PATIENCE)
        program.signal(signal.SIGTERM)
        program.said("WorkerStopping")
        program.signal(signal.SIGTERM)

        assert program.wait() == -signal.SIGTERM


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    written(tmp_path, MINUTES)
    with started(tmp_path) as (program, client):
        load = Load(client, clients=2)
        load.wait_for(50)
        program.process.kill()
        answers = load.end()
        program.wait()
    written(tmp_path)
    with started(tmp_path) as (program, client):
        assert client.add("mail:last", 1).status == 202
        program.said("Delivered mail:last")
        program.signal(signal.SIGTERM)
        assert program.wait() == 0

    with digests(tmp_path) as store:
        counts = store.ledger()
        assert counts.accepted >= answers.count(202) + 1
        assert store.verify().problems == ()


def test_one_link_is_printed(tmp_path: Path) -> None:
    with Program("serve", "--listen", "127.0.0.1:0", folder=tmp_path) as program:
        assert program.process.stdout is not None
        line = program.process.stdout.readline()
        program.signal(signal.SIGINT)
        assert program.wait() == 0
        rest = program.process.stdout.read()

    assert re.fullmatch(r"Digestif is at http://127\.0\.0\.1:\d+/\n", line)
    assert rest == ""


def test_the_collector_leaves_alone_what_the_start_has_loaded() -> None:
    program = (
        "import gc, digestif.cli.serve as s; s.collect_less_often(); print(gc.get_freeze_count(), *gc.get_threshold())"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    frozen, young, _, full = map(int, output.split())

    assert frozen > 1_000
    assert (young, full) == (YOUNG_OBJECTS, NEVER)
