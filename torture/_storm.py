"""A storm on one store: processes that use every verb at once, and are killed, stopped and terminated meanwhile.

    python -m torture._storm DSN SECONDS SEED

After the storm a worker delivers the rest, and the notes of all processes are compared with the ledger. The program
prints its findings as JSON, and progress to stderr. It forks, so it has one thread until then.
"""

import heapq
import importlib
import json
import logging
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Any

from digestif import Busy, Digest, Digests
from digestif.clock import monotonic
from digestif.testing.servers import becomes_true
from tests.worker.workers import working
from torture._storm_roles import LEASE, POLICY, ROLES, TIMELINES, Notes, family_of, ids_of, key_of, play

CREW = {"produce": 2, "tasks": 1, "work": 3, "dispatch": 1, "operate": 1}
PAUSE = (0.1, 1.5)  # seconds between two strikes
STRIKES = {"kill": 4, "terminate": 2, "stop": 3}
STOPPED = (0.2, 2 * LEASE)  # seconds, so that some leases lapse
TO_END = 60.0  # seconds for a worker to end after SIGTERM
TO_DELIVER = 180.0  # seconds to deliver everything after the storm
REPORT = 20.0  # seconds between two lines of progress
UNKNOWN = 30.0  # seconds after which the call of a killed process has surely ended


# The processes


@dataclass
class Process:
    role: str
    pid: int
    ending_since: float | None = None  # when it was killed, or asked to end
    is_stopped: bool = False


class Crew:
    """The processes of the storm, so many of each role."""

    def __init__(self, dsn: str, folder: Path, random: Random) -> None:
        self.struck: Counter[str] = Counter()
        self.problems: list[str] = []
        self.store = dsn.partition(":")[0]
        self._dsn = dsn
        self._folder = folder
        self._random = random
        self._processes: list[Process] = []
        self._stopped: list[tuple[float, int]] = []  # when to let it go on, and which
        self._numbers = count()

    def fill(self) -> None:
        for role, wanted in CREW.items():
            for _ in range(wanted - sum(process.role == role for process in self._processes)):
                self._processes.append(Process(role, self._fork(role)))

    def _fork(self, role: str) -> int:
        name, seed = f"{role}{next(self._numbers)}", str(self._random.random())
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            play(role, self._dsn, self._folder / name, name=name, seed=seed)
            status = 0
        finally:
            os._exit(status)

    def strike(self) -> None:
        """Kill, terminate or stop one of the processes."""
        [blow] = self._random.choices([*STRIKES], weights=[*STRIKES.values()])
        process = self._random.choice(
            [each for each in self._processes if not each.ending_since and not each.is_stopped]
        )
        self.struck[blow] += 1
        if blow == "stop":
            os.kill(process.pid, signal.SIGSTOP)
            process.is_stopped = True
            heapq.heappush(self._stopped, (monotonic() + self._random.uniform(*STOPPED), process.pid))
        elif blow == "kill":
            os.kill(process.pid, signal.SIGKILL)
            process.ending_since = monotonic()
        else:
            os.kill(process.pid, signal.SIGTERM)
            process.ending_since = monotonic()

    def tend(self) -> None:
        """Continue processes that were stopped for long enough, and replace those that ended."""
        while self._stopped and self._stopped[0][0] <= monotonic():
            self._continue(heapq.heappop(self._stopped)[1])
        self._reap()
        self.fill()

    def _continue(self, pid: int) -> None:
        for process in self._processes:
            if process.pid == pid:
                os.kill(pid, signal.SIGCONT)
                process.is_stopped = False

    def _reap(self) -> None:
        for process in list(self._processes):
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._processes.remove(process)
                self._judge(process, os.waitstatus_to_exitcode(status))
            elif process.ending_since and monotonic() > process.ending_since + TO_END:
                self.problems.append(f"a process of {process.role} did not end within {TO_END:g} s")
                os.kill(process.pid, signal.SIGKILL)

    def _judge(self, process: Process, code: int) -> None:
        if process.ending_since is None and code == 0:
            self.struck["ended by a handler"] += 1
        elif code not in (0, -signal.SIGKILL, -signal.SIGTERM) or (process.ending_since is None):
            self.problems.append(f"a process of {process.role} ended with {code}")
        elif process.role == "work" and code == -signal.SIGTERM:
            self.struck["terminated before it was ready"] += 1

    def dismiss(self) -> None:
        """Terminate all processes, and wait for them: workers finish what they have begun."""
        while self._stopped:
            self._continue(heapq.heappop(self._stopped)[1])
        for process in self._processes:
            if not process.ending_since:
                os.kill(process.pid, signal.SIGTERM)
                process.ending_since = monotonic()
        becomes_true(self._has_ended, timeout=2 * TO_END, every=0.1)

    def _has_ended(self) -> bool:
        self._reap()
        return not self._processes

    def kill(self) -> None:
        for process in self._processes:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        self._processes.clear()


@contextmanager
def crew(dsn: str, folder: Path, random: Random) -> Iterator[Crew]:
    """Run the processes; kill those that are left when the block ends."""
    processes = Crew(dsn, folder, random)
    try:
        processes.fill()
        yield processes
    finally:
        processes.kill()


# The notes of the processes


@dataclass
class Account:
    """The notes of all processes, read as they grow."""

    folder: Path
    added: dict[str, float] = field(default_factory=dict)  # ids, and when their add began
    acknowledged: set[str] = field(default_factory=set)
    sent: dict[str, list[str]] = field(default_factory=dict)  # ids by idempotency key
    key: dict[str, str] = field(default_factory=dict)  # idempotency keys by id
    duplicates: int = 0
    changed: set[str] = field(default_factory=set)  # idempotency keys that came with other records than before
    split: set[str] = field(default_factory=set)  # ids that came under two keys
    discarded: set[str] = field(default_factory=set)
    removed: dict[tuple[str, ...], dict[Path, float]] = field(default_factory=dict)
    # … deleted timelines, or timeline and key of retracted records: by which process, and when
    failed: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    _places: Counter[Path] = field(default_factory=Counter)

    def read(self) -> None:
        """Read the notes since the last time."""
        for path in self.folder.iterdir():
            with path.open("rb") as file:
                file.seek(self._places[path])
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self._places[path] += len(text)
            for line in text.splitlines():
                with suppress(ValueError):  # torn, or between two
                    self._enter(path, *json.loads(line))

    def _enter(self, path: Path, what: str, at: float, *facts: Any) -> None:
        match what, *facts:
            case "add", ids:
                self.added.update(dict.fromkeys(ids, at))
            case "ack", ids:
                self.acknowledged.update(ids)
            case "sent", key, ids:
                self._enter_sent(key, ids)
            case "discard", ids:
                self.discarded.update(ids)
            case "remove", *place:
                self.removed.setdefault(tuple(place), {})[path] = at + UNKNOWN
            case "removed", *place:
                self.removed[tuple(place)][path] = at
            case "failed", words:
                self.failed[words] += 1
            case "crash", words:
                self.crashes.append(words)

    def _enter_sent(self, key: str, ids: list[str]) -> None:
        if key in self.sent:
            self.duplicates += 1
            if sorted(self.sent[key]) != sorted(ids):
                self.changed.add(key)
        self.sent[key] = ids
        for id in ids:
            if self.key.setdefault(id, key) != key:
                self.split.add(id)

    def missing(self) -> list[str]:
        """Return the ids that were acknowledged and never sent."""
        return [id for id in self.acknowledged if id not in self.key]

    def is_removed(self, id: str) -> bool:
        """True if the record was discarded, retracted or deleted after its add began."""
        timeline = id.partition("/")[0]
        times = [self.removed.get(place, {}).values() for place in [(timeline,), (timeline, key_of(id))]]
        return id in self.discarded or any(at >= self.added[id] for at in chain(*times))


@dataclass(frozen=True)
class Findings:
    """The result of a storm."""

    seed: int
    seconds: float
    acknowledged: int
    unknown: int  # adds without an answer
    delivered: int
    duplicates: int
    struck: dict[str, int]
    failed: dict[str, int]  # calls that failed as calls may, the most frequent
    ledger: dict[str, int]
    problems: list[str]  # none


def judged(account: Account, digests: Digests) -> Iterator[str]:
    """Compare account, ledger and recount, and yield what is wrong."""
    ledger, verified = digests.ledger(), digests.verify()
    missing = account.missing()
    dropped = [id for id in missing if family_of(id) == "small"]
    gone = [id for id in missing if family_of(id) == "gone"]
    replaced = [id for id in gone if "#" in id and not account.is_removed(id)]
    lost = set(missing) - set(dropped) - set(replaced) - {id for id in gone if account.is_removed(id)}
    strangers = account.key.keys() - account.added.keys()
    known, possible = len(account.acknowledged), len(account.added)
    checks = {
        f"crashed: {account.crashes[:3]}": not account.crashes,
        f"lost: {len(lost)}, {[*lost][:5]}": not lost,
        f"{len(dropped)} lost to capacity, and {ledger.dropped} dropped": len(dropped) <= ledger.dropped,
        f"{len(replaced)} replaced, and {ledger.superseded} superseded": len(replaced) <= ledger.superseded,
        f"{len(gone)} not delivered, and {ledger.deleted} deleted, {ledger.superseded} superseded": (
            len(gone) <= ledger.deleted + ledger.superseded
        ),
        f"under two keys: {len(account.split)}, {[*account.split][:5]}": not account.split,
        f"other records under the same key: {[*account.changed][:5]}": not account.changed,
        f"sent and never added: {[*strangers][:5]}": not strangers,
        f"{known} acknowledged of {possible}, and {ledger.accepted} accepted": known <= ledger.accepted <= possible,
        f"{len(account.key)} sent, and {ledger.delivered} delivered": ledger.delivered <= len(account.key),
        f"the ledger does not balance: {ledger}": ledger.balanced,
        f"left behind: {ledger}": not (ledger.pending or ledger.open or ledger.dead or ledger.expired),
        f"verify: {verified.problems}": bool(verified),
    }
    return (words for words, holds in checks.items() if not holds)


# The storm


def storm(dsn: str, *, seconds: float, seed: int) -> Findings:
    """Run the storm for so many seconds, deliver everything, and compare the notes with the ledger."""
    random, began = Random(seed), monotonic()
    with tempfile.TemporaryDirectory() as folder:
        account = Account(Path(folder))
        with crew(dsn, account.folder, random) as processes:
            blow(processes, account, random, seconds=seconds)
            processes.dismiss()
        with Digests(dsn, policy=POLICY, lease=LEASE) as digests:
            problems = [*processes.problems, *delivered_in_the_end(digests, Notes(account.folder / "calm"))]
            account.read()
            problems += judged(account, digests)
            ledger = digests.ledger()
    return Findings(
        seed=seed,
        seconds=round(monotonic() - began),
        acknowledged=len(account.acknowledged),
        unknown=len(account.added) - len(account.acknowledged),
        delivered=ledger.delivered,
        duplicates=account.duplicates,
        struck=dict(processes.struck),
        failed=dict(account.failed.most_common(8)),
        ledger={name: getattr(ledger, name) for name in ledger.__slots__},
        problems=problems,
    )


def blow(processes: Crew, account: Account, random: Random, *, seconds: float) -> None:
    began = reported = monotonic()
    strike = began + 2
    while (now := monotonic()) < began + seconds:
        processes.tend()
        if now >= strike:
            processes.strike()
            strike = now + random.uniform(*PAUSE)
        if now >= reported + REPORT:
            account.read()
            report(processes, account, now - began, seconds)
            reported = now
        signal.sigtimedwait([], 0.05)  # a pause that needs no thread


def report(processes: Crew, account: Account, passed: float, seconds: float) -> None:
    struck = ", ".join(f"{blow} {times}" for blow, times in sorted(processes.struck.items()))
    words = (
        f"storm {processes.store} {passed:.0f}/{seconds:g} s: "
        f"{len(account.acknowledged)} acknowledged, {len(account.key)} sent, "
        f"{account.duplicates} digests twice, {account.failed.total()} calls failed; {struck}"
    )
    bad = [*processes.problems, *(crash.splitlines()[-1] for crash in account.crashes)]
    sys.stderr.write(f"{words}{'; PROBLEMS ' + str(bad[:5]) if bad else ''}\n")
    sys.stderr.flush()


def delivered_in_the_end(digests: Digests, notes: Notes) -> list[str]:
    """Deliver everything, dead letters too; return a problem if that takes too long."""

    def send(digest: Digest) -> None:
        notes.note("sent", digest.idempotency_key, ids_of(digest))

    def is_all_delivered() -> bool:
        for letter in digests.dead_letters():
            with suppress(Busy):
                digests.replay(letter.id)
        ledger = digests.ledger()
        return not (ledger.pending or ledger.open or ledger.dead)

    digests.handler("*")(send)
    for timeline in TIMELINES:
        digests.resume(timeline)
    with working(digests, poll=0.2):
        if becomes_true(is_all_delivered, timeout=TO_DELIVER, every=0.2):
            return []
    return [f"not delivered within {TO_DELIVER:g} s: {[each for each in digests.timelines() if each.state != 'idle']}"]


def main(dsn: str, seconds: str, seed: str) -> None:
    assert ROLES.keys() == CREW.keys()
    logging.getLogger("digestif").addHandler(logging.NullHandler())  # what fails is noted
    for store in ("sqlite", "redis", "postgres"):  # once, not in every process
        with suppress(ImportError):
            importlib.import_module(f"digestif.stores.{store}")
    findings = storm(dsn, seconds=float(seconds), seed=int(seed))
    sys.stdout.write(json.dumps(findings.__dict__) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
