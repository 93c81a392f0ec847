"""The servers that are compared, each a process of its own on loopback, and what is posted to them."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import click

from bench._serve_load import Post
from bench._workload import VALUE, timeline_key
from digestif.service.security.tokens import fresh_token, hash_of

BULK = 500
TIMELINES = 10_000
STARTED = 30.0  # seconds
ALERTMANAGER = "prometheus-alertmanager"  # Debian's name


class Subject(NamedTuple):
    """A running server."""

    name: str
    port: int
    process: "subprocess.Popen[str]"
    one: Callable[[int], Post]
    many: Callable[[int], Post]


def request(path: str, body: object, records: int, token: str = "", name: str = "") -> Post:
    data = json.dumps(body, separators=(",", ":")).encode()
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}Content-Type: application/json\r\n"
    return Post(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data, records, name)


def one_record(token: str, number: int) -> Post:
    timeline, key = timeline_key(number * 7919 % TIMELINES), f"k{number}"
    body = {"value": VALUE, "key": key}
    return request(f"/v1/timelines/{timeline}/records", body, 1, token, f"{timeline} {key}")


def many_records(token: str, number: int) -> Post:
    numbers = range(number * BULK, (number + 1) * BULK)
    body = [{"timeline": timeline_key(each * 7919 % TIMELINES), "value": VALUE} for each in numbers]
    return request("/v1/records", body, BULK, token)


def alerts(size: int, number: int) -> Post:
    """Alerts that differ in one label each, as records of a timeline differ in their keys."""
    names = [
        {"customer": str(each % TIMELINES), "key": f"{size}-{each}"}
        for each in range(number * size, (number + 1) * size)
    ]
    body = [{"labels": {"alertname": "mail", **own}, "annotations": VALUE} for own in names]
    return request("/api/v2/alerts", body, size)


@contextmanager
def running(command: list[str], folder: Path, cwd: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A server that logs into its folder, and is killed in the end."""
    log = (folder / "log").open("w")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=cwd or folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        log.close()
        assert process.stdout is not None
        process.stdout.close()


def _port(process: "subprocess.Popen[str]", folder: Path) -> int:
    """The port in the line that a server prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise click.ClickException(f"a server has not started: {(folder / 'log').read_text()[-500:]}")
    return int(line.strip().rstrip("/").rpartition(":")[2])


def _subject(name: str, process: "subprocess.Popen[str]", folder: Path, token: str) -> Subject:
    return Subject(name, _port(process, folder), process, partial(one_record, token), partial(many_records, token))


@contextmanager
def service(folder: Path) -> Iterator[Subject]:
    """`digestif serve` on SQLite with synchronous=FULL and one token, without a worker."""
    token = fresh_token()
    entry = f'[[tokens]]\nname = "bench"\nhash = "{hash_of(token)}"\nscopes = ["ingest"]\n'
    (folder / "digestif.toml").write_text(f'store = "sqlite:///digestif.db"\n{entry}')
    command = [sys.executable, "-m", "digestif", "serve", "--no-worker", "--listen", "127.0.0.1:0"]
    with running(command, folder) as process:
        yield _subject("digestif", process, folder, token)


@contextmanager
def bare(folder: Path) -> Iterator[Subject]:
    root = Path(__file__).parent.parent
    with running([sys.executable, "-m", "bench._serve_bare"], folder, cwd=root) as process:
        yield _subject("bare", process, folder, fresh_token())


@contextmanager
def alertmanager(folder: Path) -> Iterator[Subject | None]:
    """Alertmanager with one receiver that sends nothing; None where it is not installed and can't be."""
    if not installed():
        yield None
        return
    (folder / "am.yml").write_text("route: {receiver: none, group_by: [customer]}\nreceivers: [{name: none}]\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = [f"--config.file={folder}/am.yml", f"--storage.path={folder}", f"--web.listen-address=127.0.0.1:{port}"]
    with running([ALERTMANAGER, *options, "--cluster.listen-address=", "--log.level=error"], folder) as process:
        _wait_for(port)
        yield Subject("Alertmanager", port, process, partial(alerts, 1), partial(alerts, BULK))


def installed() -> bool:
    """True if Alertmanager is there, if need be after an installation from Debian's packages."""
    if shutil.which(ALERTMANAGER) is None and shutil.which("apt-get") is not None:
        command = ["apt-get", "install", "-y", "--no-install-recommends", ALERTMANAGER]
        subprocess.run(command, capture_output=True, check=False, timeout=600)
    return shutil.which(ALERTMANAGER) is not None


def _wait_for(port: int) -> None:
    end = monotonic() + STARTED
    while monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        sleep(0.05)
    raise click.ClickException("Alertmanager does not answer")
