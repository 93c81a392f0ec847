"""Another program takes the last byte of the disk: adds are refused, and all that was acknowledged is delivered once."""

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from digestif import Digest, Digests, Overloaded, Policy, StoreError
from digestif.runtime.worker import Worker
from tests.sqlite.alone import alone
from tests.sqlite.soundness import check_sound

TIMELINES = 40
VALUE = "x" * 300
MOST = 20_000  # adds; a disk of some megabytes refuses before
IN_A_SMALL_DISK = 'mount -t tmpfs -o size=6m digestif "$1" && shift && exec "$@"'
# Takes whatever becomes free, at once, as long as it lives.
GREEDY = """
import sys, time
file = open(sys.argv[1], "wb", buffering=0)
print("begun", flush=True)
size = 65536
while True:
    try:
        file.write(bytes(size))
    except OSError:
        size = max(1, size // 4)
        if size == 1:
            print("full", flush=True)
            time.sleep(0.0002)
            size = 4096
"""


def test_all_that_was_acknowledged_is_delivered_once_on_a_disk_without_a_byte(tmp_path: Path) -> None:
    told = alone(deliver_from_a_full_disk, str(tmp_path), under=in_a_small_disk(tmp_path))

    assert told["refused"] > 0
    assert told["errors"] == []
    assert told["not once"] == {}
    assert told["verified"]
    assert told["left"] == 0  # bytes on the disk, all the time
    assert told["afterwards"]


def in_a_small_disk(folder: Path) -> list[str]:
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_SMALL_DISK, "sh", str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    return command


def deliver_from_a_full_disk(folder: str) -> dict[str, Any]:
    with Digests(f"sqlite:///{folder}/d.db", policy=Policy(capacity=None, minimum_delay=0)) as digests:
        told = Delivery(digests).run(lambda: greedy(folder), lambda: os.statvfs(folder).f_bavail)
        told["afterwards"] = digests.add("afterwards", VALUE)
    check_sound(f"{folder}/d.db")
    return told


@contextmanager
def greedy(folder: str) -> Iterator[None]:
    file = f"{folder}/greed"
    program = subprocess.Popen([sys.executable, "-c", GREEDY, file], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    while program.stdout.readline().strip() != "full":
        pass
    threading.Thread(target=program.stdout.read, daemon=True).start()
    try:
        yield
    finally:
        program.kill()
        program.wait()
        os.unlink(file)


class Delivery:
    """Adds until it is refused, while something takes the space; then a worker delivers it all."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._acknowledged: set[str] = set()
        self._delivered: Counter[str] = Counter()
        self._refused = 0
        self._errors: list[str] = []

    def run(self, shortage: Callable[[], Any], left: Callable[[], int]) -> dict[str, Any]:
        self._add(0, 500)
        with shortage():
            self._add(500, MOST)
            most = left()
            asyncio.run(self._deliver())
            most = max(most, left())
            verified = bool(self._digests.verify())
        once = Counter(dict.fromkeys(self._acknowledged, 1))
        wrong = {key: self._delivered[key] for key in once | self._delivered if self._delivered[key] != 1}
        return {
            "refused": self._refused,
            "errors": self._errors,
            "not once": wrong,
            "verified": verified,
            "left": most,
            "acknowledged": len(once),
        }

    def _add(self, start: int, stop: int) -> None:
        for number in range(start, stop):
            try:
                self._digests.add(f"t{number % TIMELINES}", VALUE, key=str(number))
            except Overloaded:
                self._refused += 1
                if self._refused == 20:
                    return
            except StoreError as error:
                self._errors.append(repr(error))
                return
            else:
                self._acknowledged.add(str(number))

    async def _deliver(self) -> None:
        """A real worker; producers go on trying meanwhile."""

        @self._digests.handler("*")
        def send(digest: Digest) -> None:
            self._delivered.update(record.key for record in digest)

        worker = Worker(self._digests, poll=0.01)
        serving = asyncio.create_task(worker.serve())
        while self._acknowledged - self._delivered.keys() or self._digests.ledger().open:
            await asyncio.sleep(0.01)
        worker.stop()
        await serving
