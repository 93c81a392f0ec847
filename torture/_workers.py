"""Workers are killed, or stopped for a while, at random points under load.

    python -m torture._workers DSN KILLS STOPS LEASE

Each worker notes in a file what it claims, sends and loses; in the end the notes are compared with what was accepted,
and the findings are printed as JSON. The program runs alone, in one thread, because it forks.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any, NamedTuple

from digestif import Claimed, Digest, Digests, Ended, Event, LeaseLost, Policy, Record, Retry, StoreError
from tests.logbook import Logbook

WORKERS = 4
TIMELINES = 60
BATCH = 20  # records of an add
PAUSE = 0.02  # seconds between two adds
LONGEST = 0.02  # seconds that a handler takes, at most
SLOW = 0.3  # the same while workers are stopped
LONGEST_STOP = 90.0  # seconds in which another worker takes over what a stopped one holds
ALLOWANCE = 2.0  # seconds after a digest could have come again at the latest
SUSPECTS_WAIT = 60.0  # seconds that a busy worker lets others go first, as the docs say
POLL = 0.2
PATIENCE = 120.0  # seconds in which everything has to be delivered in the end

POLICY = Policy(
    minimum_delay=0.05,
    increment_delay=0,
    maximum_delay=0.1,
    capacity=None,
    attempts=50,
    lapses=10_000,  # here it is not the digests that end the workers
    retry=Retry(initial=0.05, factor=1),
)


@dataclass(frozen=True)
class Findings:
    """What came of it."""

    accepted: int
    kills: int
    stops: int
    deliveries: int  # calls of handlers that sent something
    duplicates: int  # of those, again
    lost: list[str]  # record keys that no worker sent
    changed: list[str]  # idempotency keys that came with other records than before
    split: list[str]  # record keys that came under two idempotency keys
    refused: int  # ends that came too late
    late: list[str]  # digests that came again later than allowed
    usual: float  # seconds from a kill until a digest came again, the median
    most: float  # the same, for nine tenths of them
    slowest: float  # the same of the slowest
    balanced: bool
    verified: bool
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whatever the time it took."""
        return self.balanced and self.verified and not (self.lost or self.changed or self.split)


class Note(NamedTuple):
    """A line of the notes."""

    what: str  # claimed, sent, lost or ended
    at: float
    pid: int
    digest_id: str
    attempt: int
    key: str
    records: tuple[str, ...]


class Notes:
    """What all workers note."""

    def __init__(self, path: Path) -> None:
        self._logbook = Logbook(path)

    def add(self, what: str, digest_id: str, attempt: int = 0, key: str = "", records: tuple[str, ...] = ()) -> None:
        self._logbook.note(Note(what, time.time(), os.getpid(), digest_id, attempt, key, records))

    def held_by(self, pid: int) -> dict[str, float]:
        """The digests that a worker has claimed and not ended, and when it claimed them."""
        own = [note for note in self.read() if note.pid == pid]
        ended = {note.digest_id for note in own if note.what in ("ended", "lost")}
        return {note.digest_id: note.at for note in own if note.what == "claimed" and note.digest_id not in ended}

    def taken_over(self, held: dict[str, float], pid: int) -> bool:
        """True if another worker has claimed one of them since."""
        others = (note for note in self.read() if note.pid != pid and note.what == "claimed")
        return any(note.at > held.get(note.digest_id, note.at) for note in others)

    def read(self) -> list[Note]:
        notes = [Note(*noted) for noted in self._logbook.read()]
        return [note._replace(records=tuple(note.records)) for note in notes]


def serve(dsn: str, notes: Notes, *, lease: float, longest: float) -> None:
    """Be a worker until it is stopped or killed."""
    random = Random(os.getpid())
    pause = threading.Event()

    def send(digest: Digest) -> None:
        pause.wait(random.uniform(0, longest))
        if random.random() < 0.05:
            raise ConnectionError("nobody is there")
        notes.add("sent", digest.id, digest.attempt, digest.idempotency_key, tuple(record.key for record in digest))
        pause.wait(random.uniform(0, longest))

    def hear(event: Event) -> None:
        if isinstance(event, Claimed):
            notes.add("claimed", event.digest_id, event.attempt)
        elif isinstance(event, LeaseLost):
            notes.add("lost", event.digest_id)
        elif isinstance(event, Ended):
            notes.add("ended", event.digest_id)

    with Digests(dsn, policy=POLICY, lease=lease) as digests:
        digests.handler("*")(send)
        digests.subscribe(hear)
        digests.run(threads=4, poll=POLL)


class Herd:
    """The worker processes: as many as there should be."""

    def __init__(self, work: Callable[[], None], random: Random) -> None:
        self.pids: list[int] = []
        self.killed: dict[int, float] = {}  # when
        self._work = work
        self._random = random

    def fill(self) -> None:
        while len(self.pids) < WORKERS:
            self.pids.append(_forked(self._work))

    def kill(self) -> None:
        """End one of them at whatever it is, and start another."""
        pid = self.pids.pop(self._random.randrange(len(self.pids)))
        self.killed[pid] = time.time()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.fill()

    def stop(self, notes: Notes, *, seconds: float, most: float) -> int | None:
        """Freeze one of them, until another has taken over what it holds; None if it holds nothing, then it goes on.

        The answer is the process that lets it go on, after some seconds: it may hold what all others wait for.
        """
        pid = self._random.choice(self.pids)
        os.kill(pid, signal.SIGSTOP)
        held = notes.held_by(pid)
        if not held:
            os.kill(pid, signal.SIGCONT)
            return None

        def wake() -> None:
            time.sleep(seconds)
            end = time.monotonic() + most - seconds
            while time.monotonic() < end and not notes.taken_over(held, pid):
                time.sleep(0.1)
            os.kill(pid, signal.SIGCONT)

        return _forked(wake)

    def dismiss(self) -> list[int]:
        """Let all of them finish; gives how they ended."""
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        return [os.waitstatus_to_exitcode(os.waitpid(self.pids.pop(), 0)[1]) for _ in range(len(self.pids))]


@contextmanager
def herd(work: Callable[[], None], random: Random) -> Iterator[Herd]:
    """Workers, of which none is left when the block ends."""
    workers = Herd(work, random)
    workers.fill()
    try:
        yield workers
    finally:
        for pid in workers.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Producer:
    """Adds records all the time; each has a key of its own."""

    def __init__(self, digests: Digests, random: Random) -> None:
        self.accepted: list[str] = []
        self._digests = digests
        self._random = random

    def add_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            keys = [f"r{len(self.accepted) + n}" for n in range(BATCH)]
            batch = [(f"t{self._random.randrange(TIMELINES)}", Record(key, None, time.time())) for key in keys]
            self._digests.add_many(batch)
            self.accepted += keys
            time.sleep(PAUSE)


def torture(dsn: str, *, kills: int, stops: int, lease: float, seed: int = 1) -> Findings:
    """Kill and stop workers under load, let the others deliver everything, and look at what was noted."""
    random, began = Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Digests(dsn, policy=POLICY, lease=lease) as digests:
        notes = Notes(Path(folder) / "notes")
        assert digests.ledger().accepted == 0, "the store has to be empty"
        longest, is_locked = SLOW if stops else LONGEST, dsn.startswith("sqlite")  # a stopped writer holds its lock
        producer = Producer(digests, random)
        with herd(lambda: serve(dsn, notes, lease=lease, longest=longest), random) as workers:
            producer.add_for(0.5)
            for _ in range(kills):
                producer.add_for(random.uniform(0, 0.4))
                workers.kill()
            for _ in range(stops):
                waker = None
                while waker is None:
                    producer.add_for(random.uniform(0.2, 0.6))
                    waker = workers.stop(notes, seconds=3 * lease, most=3 * lease if is_locked else LONGEST_STOP)
                producer.add_for(3 * lease)
                os.waitpid(waker, 0)
            wait_until_delivered(digests)
            assert workers.dismiss() == [0] * WORKERS, "a worker did not end in order"
        facts = judged(notes.read(), producer.accepted, workers.killed, lease=lease)
        ledger, verified = digests.ledger(), bool(digests.verify())
        balanced = ledger.balanced and ledger.delivered == ledger.accepted == len(producer.accepted)
        seconds = time.monotonic() - began
        return Findings(kills=kills, stops=stops, balanced=balanced, verified=verified, seconds=seconds, **facts)


def wait_until_delivered(digests: Digests) -> None:
    end = time.monotonic() + PATIENCE
    while (ledger := digests.ledger()).pending or ledger.open:
        if time.monotonic() > end:
            raise StoreError(f"not delivered within {PATIENCE:g} s: {ledger}")
        time.sleep(0.1)


def judged(notes: list[Note], accepted: list[str], killed: dict[int, float], *, lease: float) -> dict[str, Any]:
    sent = [note for note in notes if note.what == "sent"]
    first: dict[str, tuple[str, ...]] = {}
    for note in sent:
        first.setdefault(note.key, note.records)
    under = Counter(record for records in first.values() for record in records)
    again = list(waits(notes, killed))
    once = [each.seconds for each in again if each.leases == 1]
    return {
        "accepted": len(accepted),
        "deliveries": len(sent),
        "duplicates": len(sent) - len(first),
        "lost": [key for key in accepted if key not in under],
        "changed": sorted({note.key for note in sent if first[note.key] != note.records}),
        "split": [record for record, count in under.items() if count > 1],
        "refused": sum(note.what == "lost" for note in notes),
        "late": [each.digest_id for each in again if each.seconds > each.latest(lease) + ALLOWANCE],
        "usual": median(once) if once else 0.0,
        "most": quantiles(once, n=10)[-1] if len(once) > 1 else 0.0,  # nine tenths come within
        "slowest": max(once, default=0.0),
    }


class Wait(NamedTuple):
    """A digest that came again after its worker had been killed."""

    digest_id: str
    seconds: float  # since
    leases: int  # that had to lapse: more than one, if others were killed before they could make a note of it

    def latest(self, lease: float) -> float:
        """The seconds after which it comes again if all workers are always busy.

        It lapses, lets others go first, and then waits for what its worker still runs, for one lease at most.
        """
        return self.leases * (lease + SUSPECTS_WAIT + lease)


def waits(notes: list[Note], killed: dict[int, float]) -> Iterator[Wait]:
    claims: defaultdict[str, list[Note]] = defaultdict(list)
    for note in notes:
        if note.what == "claimed":
            claims[note.digest_id].append(note)
    for digest_id, attempts in claims.items():
        for attempt, following in pairwise(attempts):
            since = killed.get(attempt.pid, following.at)
            if since < following.at:
                yield Wait(digest_id, following.at - since, following.attempt - attempt.attempt)


def _forked(work: Callable[[], None]) -> int:
    """A process that does this and nothing else."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    dsn, kills, stops, lease = sys.argv[1:]
    findings = torture(dsn, kills=int(kills), stops=int(stops), lease=float(lease))
    sys.stdout.write(json.dumps({**asdict(findings), "is_good": findings.is_good}) + "\n")
    sys.stdout.flush()
