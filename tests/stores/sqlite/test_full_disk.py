"""Another program takes the last byte of the disk: adds are refused, what was acknowledged is delivered once."""

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif import Digest, Digests, Overloaded, Policy, Record, StoreError
from digestif.core.backoff import Retry
from digestif.stores.sqlite import SQLiteStore
from digestif.worker.worker import Worker
from tests.alone import alone
from tests.stores.sqlite.soundness import check_sound

pytestmark = pytest.mark.long

MEBIBYTE = 1 << 20
IN_A_SMALL_DISK = 'mount -t tmpfs -o size="$1" digestif "$2" && shift 2 && exec "$@"'
# Takes whatever becomes free, as soon as it does.
GREEDY = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    size = 65536
    while True:
        try:
            file.write(bytes(size))
        except OSError:
            size //= 4
            if size == 0:
                print("full", flush=True)
                time.sleep(0.0002)
                size = 4096
"""


def test_all_that_was_acknowledged_is_delivered_once_on_a_disk_without_a_byte(tmp_path: Path) -> None:
    account = alone(deliver_from_a_full_disk, str(tmp_path), 300, 10, under=in_a_small_disk(tmp_path, "6m"))

    assert_all_delivered(account)


def test_all_that_was_acknowledged_is_delivered_once_from_files_that_may_not_grow(tmp_path: Path) -> None:
    assert_all_delivered(alone(deliver_from_files_that_may_not_grow, str(tmp_path), 300, 10))


def test_a_worker_does_not_begin_what_it_could_not_end(tmp_path: Path) -> None:
    """The reserve is used up: nothing is claimed or opened, but what was begun before may end."""
    store = SQLiteStore(tmp_path / "d.db")
    digests = Digests(store, policy=Policy(minimum_delay=0))
    digests.add("first", "x")
    digests.add("second", "x")

    with digests.digest("first"):
        use_up(store)
        with pytest.raises(Overloaded), digests.digest("second"):
            raise AssertionError("it was opened")
        with pytest.raises(Overloaded):
            store.claim(0, 10, token="t", lease=1000, now=None)

    assert digests.ledger().delivered == 1
    assert digests.verify()
    store.close()


def test_adds_leave_free_pages_and_a_log_that_outlives_its_connections(tmp_path: Path) -> None:
    with Digests(f"sqlite:///{tmp_path}/d.db", policy=Policy(capacity=None)) as digests:
        for number in range(20):
            digests.add_many([(f"t{number}", "x" * 1000)] * 100)

        assert free_pages(tmp_path / "d.db") >= 256
        assert (tmp_path / "d.db-wal").samefile(tmp_path / "d.db-reserve")
        length = (tmp_path / "d.db-wal").stat().st_size

    assert not (tmp_path / "d.db-wal").exists()
    assert MEBIBYTE < length == (tmp_path / "d.db-reserve").stat().st_size

    with Digests(f"sqlite:///{tmp_path}/d.db") as digests:
        assert digests.ledger().pending == 2000
        assert (tmp_path / "d.db-wal").samefile(tmp_path / "d.db-reserve")
    check_sound(str(tmp_path / "d.db"))


def test_a_kept_log_is_never_taken_for_one_of_another_file(tmp_path: Path) -> None:
    """The database is put back from a copy, or removed, while the log of its successor was kept."""
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 0, key="old")
    shutil.copy(path, tmp_path / "copy")
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 0, key="new")
    shutil.copy(tmp_path / "copy", path)

    with Digests(f"sqlite:///{path}") as digests:
        assert [record.key for record in digests.peek("t")] == ["old"]
    check_sound(str(path))

    path.unlink()
    with Digests(f"sqlite:///{path}") as digests:
        assert digests.add("t", 0, key="first") is True
    check_sound(str(path))


def test_without_a_reserve_nothing_is_kept(tmp_path: Path) -> None:
    with Digests(f"sqlite:///{tmp_path}/d.db?reserve=0") as digests:
        digests.add("t", "x")

        assert free_pages(tmp_path / "d.db") == 0
    assert not (tmp_path / "d.db-reserve").exists()


# What they do


def assert_all_delivered(account: dict[str, Any]) -> None:
    assert account["refused"] > 0
    assert account["errors"] == []
    assert account["not once"] == {}
    assert account["dead"] > 0
    assert account["verified"]
    assert account["afterwards"]


def in_a_small_disk(folder: Path, size: str) -> list[str]:
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_SMALL_DISK, "sh", size, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    return command


def use_up(store: SQLiteStore) -> None:
    """Use up all free pages, as endings of digests would, and fill the disk."""
    with closing(sqlite3.connect(store._database.name, isolation_level=None)) as other:
        other.execute("CREATE TABLE taken (bytes BLOB)")
        free = other.execute("PRAGMA freelist_count").fetchone()[0]
        other.execute("INSERT INTO taken VALUES (zeroblob(?))", ((free - 20) * 4096,))
    writer = store._writer.connect()
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")


def free_pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as bare:
        free: int = bare.execute("PRAGMA freelist_count").fetchone()[0]
        return free


def deliver_from_a_full_disk(folder: str, timelines: int, size: int) -> dict[str, Any]:
    """Another program takes all free space of the disk, and all that becomes free."""
    account = Delivery(folder, timelines, size).run(lambda: greedy(folder))
    check_sound(f"{folder}/d.db")
    return account


@contextmanager
def greedy(folder: str) -> Iterator[None]:
    file = Path(folder, "greed")
    program = subprocess.Popen([sys.executable, "-c", GREEDY, str(file)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    program.stdout.readline()
    threading.Thread(target=program.stdout.read, daemon=True).start()
    try:
        yield
        while os.statvfs(folder).f_bavail:  # it takes what becomes free, to the end
            time.sleep(0.001)
    finally:
        program.kill()
        program.wait()
        file.unlink()


def deliver_from_files_that_may_not_grow(folder: str, timelines: int, size: int) -> dict[str, Any]:
    """A limit of the process, as a quota would be."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    account = Delivery(folder, timelines, size).run(lambda: file_size_limit(folder))
    check_sound(f"{folder}/d.db")
    return account


@contextmanager
def file_size_limit(folder: str) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(entry.stat().st_size for entry in Path(folder).iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class Delivery:
    """Producers add until they are refused, while something takes the space; then a worker delivers it all."""

    def __init__(self, folder: str, timelines: int, size: int) -> None:
        self._folder = folder
        self._timelines = timelines
        self._value = "x" * size
        self._acknowledged: set[str] = set()
        self._delivered: Counter[str] = Counter()
        self._refused = 0
        self._errors: list[str] = []
        self._is_done = False

    def run(self, shortage: Callable[[], AbstractContextManager[None]]) -> dict[str, Any]:
        with self._open() as digests:
            digests.add_many([(self._timeline(n), Record(str(n), self._value, 0.0)) for n in range(500)])
            self._acknowledged.update(map(str, range(500)))
        with shortage():
            with self._open() as digests:
                self._add(digests, range(500, 100_000))
            with self._open() as digests, self._open("other") as other:  # also after all connections were closed
                producer = threading.Thread(target=self._produce, args=(other,))
                producer.start()
                asyncio.run(self._deliver(digests))
                self._is_done = True
                producer.join()
                verified = bool(digests.verify()) and bool(other.verify())
                dead = digests.ledger().dead
        with self._open() as digests:
            afterwards = digests.add("afterwards", self._value)
        wrong = {key: self._delivered[key] for key in self._acknowledged if self._delivered[key] != 1}
        return {
            "refused": self._refused,
            "errors": self._errors,
            "not once": wrong,
            "dead": dead,
            "verified": verified,
            "afterwards": afterwards,
        }

    def _open(self, namespace: str = "d") -> Digests:
        policy = Policy(capacity=None, minimum_delay=0, attempts=2, retry=Retry(initial=0.01))
        return Digests(f"sqlite:///{self._folder}/d.db?synchronous=normal", namespace=namespace, policy=policy)

    def _timeline(self, number: int) -> str:
        return f"t{number % self._timelines}"

    def _add(self, digests: Digests, numbers: range) -> None:
        for number in numbers:
            try:
                digests.add(self._timeline(number), self._value, key=str(number))
            except Overloaded:
                self._refused += 1
                if self._refused == 20:
                    return
            else:
                self._acknowledged.add(str(number))

    def _produce(self, digests: Digests) -> None:
        """In another namespace of the file, as much as is accepted."""
        number = 0
        while not self._is_done:
            number += 1
            try:
                digests.add(f"t{number % 50}", self._value)
            except Overloaded:
                self._refused += 1
            except StoreError as error:
                self._errors.append(repr(error))

    async def _deliver(self, digests: Digests) -> None:
        """By a real worker, whose handler fails for some timelines and for good: those end as dead letters."""

        @digests.handler("*")
        def send(digest: Digest) -> None:
            if digest.timeline.endswith("7") and digest.attempt < 2:
                raise ValueError("the first attempt fails")
            self._delivered.update(record.key for record in digest)
            if digest.timeline.endswith("77"):
                raise ValueError("so does the last")

        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        digests.subscribe(lambda event: loop.call_soon_threadsafe(ended.set))
        worker = Worker(digests, poll=0.01)
        serving = asyncio.create_task(worker.serve())
        while (ledger := digests.ledger()).pending or ledger.open:
            await ended.wait()
            ended.clear()
        worker.stop()
        await serving
