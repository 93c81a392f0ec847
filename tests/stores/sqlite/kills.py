"""Processes that write or deliver, and are killed with SIGKILL at random moments."""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from digestif import Digests, InvalidState, Policy, Record, StaleLease
from tests.alone import alone
from tests.children import Child, Report, killed_at_the_end, listen
from tests.stores.sqlite.soundness import check_sound, pending_keys

FILES = 4  # a new one now and then, so that its making is disturbed too
PROCESSES = 4
TIMELINES = ("t0", "t1", "t2")
LONGEST_ROUND = 0.08  # seconds


def writers_are_killed(folder: Path, *, rounds: int) -> None:
    account = alone(kill_writers, str(folder), a_seed(), rounds)

    assert account["killed"] >= rounds
    assert account["acknowledged"] > rounds  # they did write
    assert account["missing"] == 0
    assert account["unacknowledged"] <= account["killed"]  # at most the one add during which it died


def deliverers_are_killed(folder: Path, *, rounds: int) -> None:
    account = alone(kill_deliverers, str(folder), a_seed(), rounds)

    assert account["killed"] >= rounds
    assert account["sent"] > rounds  # they did deliver
    assert account["missing"] == 0
    assert account["digests that changed under their key"] == 0
    assert account["records under two keys"] == 0


def a_seed() -> int:
    return random.randrange(2**32)


def say(**facts: object) -> None:
    sys.stderr.write(f"{facts}\n")


class Writer(Child):
    """Adds singly and in batches, and reports the number of each add after it returned."""

    def __init__(self, path: str, name: str, seed: int) -> None:
        self.name = name
        super().__init__(write, path, name, random.Random(seed))

    @property
    def acknowledged(self) -> int:
        return len(self.lines)


def write(path: str, name: str, chance: random.Random, report: Report) -> None:
    digests = Digests(f"sqlite:///{path}", policy=Policy(capacity=None))
    number = 0
    while True:
        size = chance.choice([1, 1, 1, 2, 30])
        if size == 1:
            digests.add(chance.choice(TIMELINES), 0, key=f"{name}/{number}/0/1")
        else:
            keys = [f"{name}/{number}/{place}/{size}" for place in range(size)]
            digests.add_many([(chance.choice(TIMELINES), Record(key, 0, 0.0)) for key in keys])
        report(str(number))
        number += 1


def kill_writers(folder: str, seed: int, rounds: int) -> dict[str, int]:
    say(seed=seed)
    chance = random.Random(seed)
    account: Counter[str] = Counter()
    for file in range(FILES):
        account.update(kill_writers_of(f"{folder}/{file}.db", chance, rounds // FILES))
    say(**account)
    return dict(account)


def kill_writers_of(path: str, chance: random.Random, rounds: int) -> Counter[str]:
    writers: list[Writer] = []

    def start() -> Writer:
        writer = Writer(path, f"w{len(writers)}", chance.getrandbits(32))
        writers.append(writer)
        return writer

    alive = [start() for _ in range(PROCESSES)]
    with killed_at_the_end(alive):
        for _ in range(rounds):
            listen(alive, seconds=chance.uniform(0, LONGEST_ROUND))
            place = chance.randrange(PROCESSES)
            alive[place].kill()
            alive[place] = start()
            check_sound(path)
    check_sound(path)
    return compare(writers, pending_keys(path))


def compare(writers: Iterable[Writer], stored: Iterable[str]) -> Counter[str]:
    """Count missing and unacknowledged adds; a batch is stored as a whole or not at all."""
    found: dict[str, Counter[int]] = {writer.name: Counter() for writer in writers}
    sizes: dict[tuple[str, int], int] = {}
    for key in stored:
        name, number, _, size = key.split("/")
        found[name][int(number)] += 1
        sizes[name, int(number)] = int(size)
    account: Counter[str] = Counter()
    for writer in writers:
        adds = found[writer.name]
        assert all(sizes[writer.name, number] == count for number, count in adds.items()), f"half a batch: {adds}"
        account["killed"] += 1
        account["records"] += sum(adds.values())
        account["acknowledged"] += writer.acknowledged
        account["missing"] += sum(number not in adds for number in range(writer.acknowledged))
        account["unacknowledged"] += sum(number >= writer.acknowledged for number in adds)
    return account


def deliver(path: str, report: Report) -> None:
    """Deliver due timelines; report each digest before it is closed."""
    digests = Digests(f"sqlite:///{path}", policy=patient(), lease=0.05)
    while True:
        deliver_once(digests, report)


def deliver_once(digests: Digests, report: Report) -> None:
    for _ in digests.schedule():
        pass
    for timeline in TIMELINES:
        with suppress(InvalidState, StaleLease), digests.digest(timeline, 0) as digest:
            if digest:
                report(json.dumps([digest.idempotency_key, sorted(record.key for record in digest)]))


def patient() -> Policy:
    """Return a policy that never gives a digest up."""
    return Policy(minimum_delay=0, increment_delay=0, capacity=None, lapses=1_000_000, attempts=1_000_000)


def kill_deliverers(folder: str, seed: int, rounds: int) -> dict[str, int]:
    say(seed=seed)
    chance = random.Random(seed)
    path = f"{folder}/delivered.db"
    writer = Child(write_singly, path)
    workers = [Child(deliver, path) for _ in range(PROCESSES - 1)]
    sent: list[str] = []
    with killed_at_the_end([writer]), killed_at_the_end(workers):
        for _ in range(rounds):
            listen([writer, *workers], seconds=chance.uniform(0, LONGEST_ROUND))
            victim = workers.pop(chance.randrange(len(workers)))
            victim.kill()
            sent += victim.lines
            check_sound(path)
            workers.append(Child(deliver, path))
    for worker in workers:
        sent += worker.lines
    sent += deliver_the_rest(path)
    ledger = check_sound(path)
    assert ledger.delivered == ledger.accepted, ledger
    account = judge(acknowledged=set(writer.lines), sent=[json.loads(line) for line in sent])
    say(**account)
    return {"killed": rounds + PROCESSES} | account


def write_singly(path: str, report: Report) -> None:
    with Digests(f"sqlite:///{path}", policy=patient()) as digests:
        number = 0
        while True:
            key = f"r{number}"
            digests.add(TIMELINES[number % len(TIMELINES)], 0, key=key)
            report(key)
            number += 1


def deliver_the_rest(path: str) -> list[str]:
    sent: list[str] = []
    with Digests(f"sqlite:///{path}", policy=patient(), lease=0.05) as digests:
        while (ledger := digests.ledger()).pending or ledger.open:
            deliver_once(digests, sent.append)
        digests.maintenance()  # sweeps what processes left that were killed after a completion
        assert digests.store.footprint()["records"] == 0
    return sent


def judge(*, acknowledged: set[str], sent: list[tuple[str, list[str]]]) -> dict[str, int]:
    contents: dict[str, list[str]] = {}
    changed = 0
    for identity, keys in sent:
        changed += contents.setdefault(identity, keys) != keys
    times = Counter(key for keys in contents.values() for key in keys)
    return {
        "sent": len(sent),
        "sent again": len(sent) - len(contents),
        "acknowledged": len(acknowledged),
        "missing": len(acknowledged - times.keys()),
        "digests that changed under their key": changed,
        "records under two keys": sum(count > 1 for count in times.values()),
    }
