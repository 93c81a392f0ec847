"""How many instructions the server of a Redis store needs to add a record, whatever else the machine does.

What a client sends is noted once, with a server of its own; then the same bytes are sent to a server that valgrind
counts, once up to a mark and once to the end. The difference is the cost of what lies between.
"""

import json
import re
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import click
from hiredis import Reader
from redis.connection import Connection

from bench._measure import start
from bench._redis_adds import BATCH, Ours, Raw
from bench._table import Report, show
from digestif.testing.processes import free_port
from digestif.testing.servers import RedisServer, becomes_true

PARTITIONS = 64
PIECE = 65_536
COUNTED = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class Sent(NamedTuple):
    """What clients sent to a server."""

    data: bytes
    mark: int  # bytes that belong to the preparation
    records: int  # that were added after it


class Way(NamedTuple):
    """A way to add: the blocks that prepare it and those that are counted add the same number of records."""

    make: Callable[[RedisServer], Any]  # the subject, which has what it needs before the first block
    block: Callable[[Any], Callable[[], Callable[[], None]]]
    records: int  # in a block


WAYS = {
    "add": Way(lambda server: Ours(server, "one"), lambda ours: ours.singles(100), 100),
    f"add_many of {BATCH}": Way(lambda server: Ours(server, "many"), lambda ours: ours.batches(2), 2 * BATCH),
    f"add_many, {PARTITIONS} partitions": Way(
        lambda server: Ours(server, "spread", partitions=PARTITIONS), lambda ours: ours.batches(2), 2 * BATCH
    ),
    "HSET, one by one": Way(Raw, lambda raw: raw.singles(100), 100),
    f"HSET, pipelines of {BATCH}": Way(Raw, lambda raw: raw.batches(2), 2 * BATCH),
}


def sent_by(way: Way, *, blocks: int) -> Sent:
    """Add some records by this way, and return what was sent."""
    pieces: list[bytes] = []
    with noting(pieces), RedisServer() as server, closing(way.make(server)) as subject:
        block = way.block(subject)
        block()()
        mark = sum(map(len, pieces))
        for _ in range(blocks):
            block()()
    return Sent(b"".join(pieces), mark, blocks * way.records)


@contextmanager
def noting(pieces: list[bytes]) -> Iterator[None]:
    send = Connection.send_packed_command

    def noted(self: Connection, command: Sequence[bytes], check_health: bool = True) -> None:
        pieces.append(b"".join(command))
        send(self, command, check_health)  # type: ignore[no-untyped-call]

    with patch.object(Connection, "send_packed_command", noted):
        yield


def counted(program: str, data: bytes, folder: Path) -> int:
    """The instructions of a server from its start to its end, which answers these commands in between."""
    port, profile = free_port(), folder / "profile"
    server = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *server]
    process = subprocess.Popen(valgrind, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert becomes_true(lambda: _answers(port), timeout=60), "the server does not start under valgrind"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            _replay(connection, data)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    found = COUNTED.search(profile.read_text(errors="replace"))
    assert found, "valgrind wrote no total"
    return int(found[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _replay(connection: socket.socket, data: bytes) -> None:
    """Send the commands, and read as many replies."""
    left, replies = _values(Reader(), data), Reader()
    connection.setblocking(False)
    sent = 0
    while left:
        readable, writable, _ = select.select([connection], [connection] if sent < len(data) else [], [])
        if writable:
            sent += connection.send(data[sent : sent + PIECE])
        if readable:
            left -= _values(replies, connection.recv(PIECE))


def _values(reader: Reader, data: bytes) -> int:
    """How many values are complete with these bytes."""
    reader.feed(data)
    count = 0
    while reader.gets() is not False:
        count += 1
    return count


@click.command("instructions", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--blocks", type=click.IntRange(1), default=5, show_default=True, help="Blocks that are counted.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def instructions(blocks: int, as_json: bool) -> int:
    """Count the instructions of the server for each record that is added, beside HSET of the same bytes.

    On Valkey, or the product that DIGESTIF_REDIS_SERVER=/path/to/the/server names. Takes some two minutes.
    """
    if shutil.which("valgrind") is None:
        raise click.ClickException("this needs valgrind; on Debian: apt-get install valgrind")
    report = Report("instructions of the server", ("per record",))
    with RedisServer() as server:
        program = server.cli("INFO", "server")["executable"]
    for name, way in WAYS.items():
        click.echo(f"{name}…", err=True)
        sent = sent_by(way, blocks=blocks)
        with TemporaryDirectory() as folder:
            before, after = (counted(program, data, Path(folder)) for data in (sent.data[: sent.mark], sent.data))
        each = (after - before) / sent.records
        report.rows.append((name, f"{each:,.0f}"))
        report.figures[name] = each
    if as_json:
        print(json.dumps(report.figures, indent=2))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    start(instructions, name="./dev bench instructions")
