"""Load on a store that is disturbed meanwhile: processes that add and deliver, and log the answers.

    with Load(server.url, directory=tmp_path) as load:
        load.go_on()  # every actor has done something since the last time
        server.kill()
        server.start()
        load.go_on()
    account = load.account()  # what was acknowledged, delivered and lost

Each actor has a file of its own, one line per fact, written before anything relies on it: `?` keys that it is about to
add, `+` keys that were acknowledged, `=` the idempotency key of a digest that it delivers and the keys in it, `.` that
a step succeeded, `!` a call that failed as calls may, `x` one that failed otherwise. A process may thus be killed at
any time.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from digestif import Digests, InvalidState, Ledger, Policy, Record, StaleLease, StoreError, Verification
from digestif.attempts.contents import Progress
from digestif.clock import monotonic, wall_clock
from digestif.events import Events
from digestif.stores.base import Completion, Release
from digestif.testing.servers import becomes_true
from tests.reader import read
from tests.stores.claims import claim, claim_suspects

POLICY = Policy(minimum_delay=0.05, increment_delay=0.005, maximum_delay=0.2, attempts=1000, lapses=1000)
LEASE = 3  # seconds
TIMELINES = 30
SIZES = {40: 600, 2: 10, 1: 1}  # of batches: every so many calls, so many records
PACE = 0.002  # seconds between the calls of an actor, so that others get their turn on a small machine
STEPS = 3  # that count as going on
PATIENCE = 30


class Event(NamedTuple):
    """A line of an actor's file."""

    mark: str
    at: float  # of the monotonic clock, which all processes share
    keys: list[str]


# Inside a process


class Log:
    """The file of an actor."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, mark: str, *keys: str) -> None:
        os.write(self._file, json.dumps([mark, monotonic(), keys]).encode() + b"\n")


def produce(digests: Digests, log: Log, name: str) -> Iterator[None]:
    """Add records, one by one and in batches, and deliver what is ready at once."""
    for number in count(1):
        size = next(size for every, size in SIZES.items() if number % every == 0)
        batch = [(f"t{(number * 7 + each) % TIMELINES}", f"{name}.{number}.{each}") for each in range(size)]
        log.note("?", *(key for _, key in batch))
        try:
            ready = _added(digests, batch)
        except StoreError as error:
            known = error.answers or [None] * len(batch)
            log.note("+", *(key for (_, key), answer in zip(batch, known, strict=True) if answer is not None))
            raise
        log.note("+", *(key for _, key in batch))
        for (timeline, _), immediate in zip(batch, ready, strict=True):
            if immediate:
                deliver(digests, log, timeline)
        yield


def _added(digests: Digests, batch: list[tuple[str, str]]) -> list[bool]:
    if len(batch) == 1:
        [(timeline, key)] = batch
        return [digests.add(timeline, 0, key=key)]
    return digests.add_many([(timeline, Record(key, 0, 0.0)) for timeline, key in batch])


def dispatch(digests: Digests, log: Log, name: str) -> Iterator[None]:
    """Schedule and deliver, as applications do that have a task queue of their own."""
    for number in count():
        if number % 10 == 9:
            digests.maintenance(wall_clock() - 2)
        for entry in digests.schedule(page=5):
            deliver(digests, log, entry.key)
            if number % 3:
                break
        yield


def deliver(digests: Digests, log: Log, timeline: str) -> None:
    try:
        with digests.digest(timeline) as digest:
            log.note("=", digest.idempotency_key, *(record.key for record in digest))
            if hash(digest.id) % 8 == 0:
                raise RuntimeError("the channel failed")
    except (InvalidState, StaleLease, RuntimeError):
        pass


def work(digests: Digests, log: Log, name: str) -> Iterator[None]:
    """Claim a page, read it and complete it, as workers do."""
    while True:
        claim_and_complete(digests, log.note, limit=5)
        yield


def claim_and_complete(digests: Digests, note: Callable[..., None], *, limit: int, now: float | None = None) -> int:
    at = None if now is None else round(now * 1000)
    store, events = digests.store, Events()
    leases = claim(store, limit, lease=LEASE * 1000, now=lambda: at, events=events).leases
    leases += claim_suspects(store, alone=False, lease=LEASE * 1000, now=lambda: at, events=events)
    completions, releases = [], []
    for number, lease in enumerate(leases):
        [reading] = read(digests, [lease], now=now)
        if reading.progress is Progress.LOST:
            continue
        note("=", f"{lease.digest_id}.{reading.revision}", *(record.key for record in reading.stored))
        if at is None and number % 4 == 3:
            releases.append(Release(lease, lease.until))
        else:
            completions.append(Completion(lease, 50))
    store.complete(completions, now=at)
    store.release(releases, now=at)
    return len(leases)


ACTORS = {"produce": produce, "produce-too": produce, "dispatch": dispatch, "work": work}


def run_actor(digests: Digests, name: str, path: Path, stopping: threading.Event) -> None:
    log = Log(path)
    while not stopping.is_set():
        try:
            for _ in ACTORS[name.partition("-")[2]](digests, log, f"{name}.{monotonic():f}"):
                log.note(".")
                if stopping.wait(PACE):
                    return
        except StoreError as error:
            log.note("!", f"{type(error).__name__}: {error}")
            stopping.wait(PACE)
        except Exception:  # noqa: BLE001  # the account shows it
            log.note("x", traceback.format_exc())
            return


def main(dsn: str, namespace: str, number: str, directory: str) -> None:
    """Run all actors until the parent closes the pipe."""
    logging.getLogger("digestif").addHandler(logging.NullHandler())  # failures are noted in the files
    stopping = threading.Event()
    with Digests(dsn, namespace=namespace, policy=POLICY, lease=LEASE) as digests:
        threads = []
        for name in ACTORS:
            actor = f"{number}-{name}"
            arguments = (digests, actor, Path(directory) / actor, stopping)
            threads.append(threading.Thread(target=run_actor, args=arguments))
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stopping.set()
        for thread in threads:
            thread.join()


# Around the processes


class Account(NamedTuple):
    """What became of the records, once everything was delivered that could be."""

    acknowledged: dict[str, float]  # and when
    attempted: dict[str, float]
    digests: dict[str, set[frozenset[str]]]  # what was delivered, by idempotency key
    ledger: Ledger
    verification: Verification
    failures: Counter[str]  # calls that failed as calls may, by their words
    crashes: list[str]

    @property
    def delivered(self) -> set[str]:
        return {key for contents in self.digests.values() for content in contents for key in content}

    @property
    def lost(self) -> set[str]:
        return self.acknowledged.keys() - self.delivered

    @property
    def unknown(self) -> set[str]:
        """Records of which it is not known whether they were accepted."""
        return self.attempted.keys() - self.acknowledged.keys()

    def check(self) -> None:
        """Nothing is lost, counted twice, invented or sent under a key of other records; ledger and data agree."""
        self.check_ledger()
        assert self.lost == set()
        assert self.ledger.accepted == len(self.delivered)
        assert [key for key, contents in self.digests.items() if len(contents) > 1] == []

    def check_with_losses(self, *periods: tuple[float, float]) -> None:
        """Ledger and data agree; only what was accepted in these periods may be lost."""
        self.check_ledger()
        for key in self.lost:
            # Accepted between these: a batch is answered as a whole, even if a part of it waited for a successor.
            asked, answered = self.attempted[key], self.acknowledged[key]
            assert any(begin < answered and asked < end for begin, end in periods), (key, asked, answered, periods)
        assert self.ledger.accepted <= len(self.delivered)  # some were lost after they were delivered

    def check_ledger(self) -> None:
        assert not self.crashes, self.crashes[0]
        assert self.verification, self.verification.problems
        assert self.ledger == Ledger(accepted=self.ledger.accepted, delivered=self.ledger.accepted)
        assert self.delivered <= self.attempted.keys()

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} records acknowledged, {len(self.unknown)} of unknown outcome, "
            f"{self.ledger.accepted} accepted, {len(self.delivered)} delivered, {len(self.lost)} lost; "
            f"{self.failures.total()} calls failed"
        )


class Load:
    """Processes that use a store until the end of the block."""

    def __init__(self, dsn: str, *, directory: Path, namespace: str = "d", processes: int = 2) -> None:
        self._dsn = dsn
        self._namespace = namespace
        self._directory = directory / namespace
        self._directory.mkdir()
        self._started = 0
        self._offsets: dict[Path, tuple[int, int]] = {}  # how far each file was read, and successes until then
        self._processes = [self._start() for _ in range(processes)]

    def _start(self) -> subprocess.Popen[bytes]:
        words = (self._dsn, self._namespace, str(self._started), str(self._directory))
        self._started += 1
        code = "import sys; from tests.stores.redis.load import main; main(*sys.argv[1:])"
        return subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for process in self._processes:
            assert process.stdin
            process.stdin.close()
        try:
            for process in self._processes:
                process.wait(PATIENCE)
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
        if kind is None:
            assert [process.returncode for process in self._processes] == [0] * len(self._processes)

    def replace_one(self) -> None:
        """Kill a process as a crash does, and start another."""
        process = self._processes.pop(0)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self._processes.append(self._start())

    def go_on(self, steps: int = STEPS) -> None:
        """Wait until every actor of a living process has succeeded a few more times."""
        before = self._successes()
        lagging: list[str] = []

        def all_went_on() -> bool:
            now = self._successes()
            lagging[:] = [actor for actor in self._living() if now[actor] < before[actor] + steps]
            return not lagging

        if not becomes_true(all_went_on, timeout=PATIENCE, every=0.02):
            raise AssertionError(f"{lagging} did nothing for {PATIENCE} s; {self._crashes()}")

    def fail(self, calls: int = 1) -> None:
        """Wait until more calls have failed as calls may."""
        before = self._failures().total()
        if not becomes_true(lambda: self._failures().total() >= before + calls, timeout=PATIENCE, every=0.02):
            raise AssertionError(f"no call failed for {PATIENCE} s")

    def _failures(self) -> Counter[str]:
        return Counter(event.keys[0] for event in self._events() if event.mark == "!")

    def _living(self) -> list[str]:
        numbers = range(self._started - len(self._processes), self._started)
        return [f"{number}-{name}" for number in numbers for name in ACTORS]

    def _successes(self) -> Counter[str]:
        successes: Counter[str] = Counter()
        for path in self._directory.iterdir():
            offset, known = self._offsets.get(path, (0, 0))
            with path.open("rb") as file:
                file.seek(offset)
                read = file.read()
            known += read.count(b'["."')
            self._offsets[path] = (offset + len(read), known)
            successes[path.name] = known
        return successes

    def _events(self) -> Iterator[Event]:
        for path in self._directory.iterdir():
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):  # the last one may be being written
                    yield Event(*json.loads(line))

    def _crashes(self) -> list[str]:
        return [event.keys[0] for event in self._events() if event.mark == "x"]

    def account(self, dsn: str | None = None) -> Account:
        """Deliver the rest, long after every lease has lapsed, and account for every record."""
        attempted: dict[str, float] = {}
        acknowledged: dict[str, float] = {}
        delivered: dict[str, set[frozenset[str]]] = {}

        def note(mark: str, *keys: str, at: float = 0) -> None:
            match mark:
                case "?":
                    attempted.update(dict.fromkeys(keys, at))
                case "+":
                    acknowledged.update(dict.fromkeys(keys, at))
                case "=":
                    delivered.setdefault(keys[0], set()).add(frozenset(keys[1:]))

        for event in self._events():
            note(event.mark, *event.keys, at=event.at)
        with Digests(dsn or self._dsn, namespace=self._namespace, policy=POLICY) as digests:
            verification = digests.verify()
            drain(digests, note)
            ledger, verified = digests.ledger(), verification and digests.verify()
        return Account(acknowledged, attempted, delivered, ledger, verified, self._failures(), self._crashes())


def drain(digests: Digests, note: Callable[..., None]) -> None:
    for hour in count(1):
        if not claim_and_complete(digests, note, limit=200, now=wall_clock() + 3600 * hour):
            return
