"""A store that was used before a fork serves parent and children alike, each with connections of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from digestif import AsyncDigests, Digests, Policy
from tests.alone import alone
from tests.children import Child, Gate, Report, killed_at_the_end
from tests.stores.sqlite.soundness import check_sound, pending_keys

pytestmark = pytest.mark.long

CHILDREN = 4
ADDS = 25
FORKS = 30
LONGEST = 20  # seconds that a child may take before it counts as stuck


def test_parent_and_children_add_to_a_store_that_was_used_before_the_fork(tmp_path: Path) -> None:
    account = alone(add_beside_children, str(tmp_path / "d.db"))

    expected = {f"{who}-{n}" for who in ["parent", *range(CHILDREN)] for n in range(ADDS)}
    assert set(account["keys"]) == expected | {"before"}


def test_children_of_children_add_too(tmp_path: Path) -> None:
    account = alone(add_in_generations, str(tmp_path / "d.db"))

    assert sorted(account["keys"]) == sorted(["before", *(f"{level}-{n}" for level in range(4) for n in range(ADDS))])


def test_children_go_on_when_their_parent_has_closed_its_store(tmp_path: Path) -> None:
    account = alone(go_on_without_the_parent, str(tmp_path / "d.db"))

    assert set(account["keys"]) == {"before", "with the parent", *(f"alone-{n}" for n in range(ADDS))}


def test_a_stranger_may_open_the_file_when_only_children_are_left(tmp_path: Path) -> None:
    account = alone(meet_a_stranger, str(tmp_path / "d.db"))

    own = {f"{part}-{n}" for part in ["first", "then", "stranger"] for n in range(ADDS)}
    assert set(account["keys"]) == {"before"} | own


def test_children_forked_while_other_threads_write_are_never_stuck(tmp_path: Path) -> None:
    account = alone(fork_amid_writing, str(tmp_path / "d.db"))

    assert set(account["keys"]) >= {f"child-{n}" for n in range(FORKS)}
    assert account["missing"] == []


def test_threads_may_fork_at_the_same_time(tmp_path: Path) -> None:
    account = alone(fork_in_threads, str(tmp_path / "d.db"))

    assert account == {"children": 4 * FORKS, "added": 4 * FORKS + 1}


def test_a_child_may_be_forked_while_a_digest_is_open(tmp_path: Path) -> None:
    account = alone(fork_inside_a_digest, str(tmp_path / "d.db"))

    assert account == {"delivered": 1, "pending": 1}


def test_asyncio_adds_in_a_child_of_a_process_that_used_it_before(tmp_path: Path) -> None:
    account = alone(add_in_asyncio, str(tmp_path / "d.db"))

    assert sorted(account["keys"]) == ["after", "before", "child"]


def test_the_memory_store_in_a_child_is_a_whole_copy_and_not_stuck() -> None:
    assert alone(fork_amid_writing_to_memory) == "all whole"


def test_a_store_keeps_to_its_file_when_the_process_goes_to_another_folder(tmp_path: Path) -> None:
    account = alone(change_the_folder, str(tmp_path))

    assert account == {"keys": ["after", "before"], "elsewhere": []}


# What they do


def engine(path: str) -> Digests:
    """Used for writing and reading, so that it has connections of both kinds."""
    digests = Digests(f"sqlite:///{path}", policy=Policy(capacity=None))
    digests.add("t", 0, key="before")
    digests.peek("t")
    return digests


def add_some(digests: Digests, name: object) -> None:
    for number in range(ADDS):
        digests.add("t", number, key=f"{name}-{number}")
    assert {f"{name}-{n}" for n in range(ADDS)} <= {record.key for record in digests.peek("t")}


def told_of(path: str) -> dict[str, list[str]]:
    check_sound(path)
    return {"keys": pending_keys(path)}


@contextmanager
def time_limit(seconds: int = LONGEST) -> Iterator[None]:
    """End the process by SIGALRM's default action if it takes longer: a thread that is stuck in C runs no handler."""
    signal.alarm(seconds)
    yield
    signal.alarm(0)


def add_beside_children(path: str) -> dict[str, list[str]]:
    digests = engine(path)
    gate = Gate()

    def work(name: int, report: Report) -> None:
        gate.wait()
        with time_limit():
            add_some(digests, name)

    children = [Child(work, name) for name in range(CHILDREN)]
    with killed_at_the_end(children):
        gate.open()
        add_some(digests, "parent")
        for child in children:
            child.finish()
    digests.close()
    return told_of(path)


def add_in_generations(path: str) -> dict[str, list[str]]:
    digests = engine(path)

    def live(level: int, report: Report) -> None:
        with time_limit():
            children = [Child(live, level + 1)] if level < 3 else []
            add_some(digests, level)
            for child in children:
                child.finish()

    Child(live, 0).finish()
    digests.close()
    return told_of(path)


def go_on_without_the_parent(path: str) -> dict[str, list[str]]:
    digests = engine(path)
    parent_is_gone = Gate()

    def work(report: Report) -> None:
        digests.add("t", 0, key="with the parent")
        report("added")
        parent_is_gone.wait()
        with time_limit():
            add_some(digests, "alone")

    child = Child(work)
    with killed_at_the_end([child]):
        child.wait_for("added")
        digests.close()
        parent_is_gone.open()
        child.finish()
    return told_of(path)


def meet_a_stranger(path: str) -> dict[str, list[str]]:
    """The parent closes; then a program that was not forked from it uses the file, beside the child."""
    digests = engine(path)
    stranger_has_come = Gate()

    def work(report: Report) -> None:
        add_some(digests, "first")
        report("added")
        stranger_has_come.wait()
        with time_limit():
            add_some(digests, "then")

    child = Child(work)
    with killed_at_the_end([child]):
        child.wait_for("added")
        digests.close()
        stranger = subprocess.Popen(
            [sys.executable, "-c", STRANGER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert stranger.stdout is not None
        stranger.stdout.readline()
        stranger_has_come.open()
        child.finish()
        stranger.communicate(b"leave\n", timeout=LONGEST)
    return told_of(path)


STRANGER = f"""
import sys
from digestif import Digests
with Digests("sqlite:///" + sys.argv[1]) as digests:
    for number in range({ADDS}):
        digests.add("t", number, key=f"stranger-{{number}}")
    print("here", flush=True)
    sys.stdin.readline()
"""


def fork_amid_writing(path: str) -> dict[str, list[str]]:
    """Threads add all the time; a child of each fork adds one record and ends."""
    digests = engine(path)
    done = threading.Event()
    acknowledged: list[str] = []

    def write(name: str) -> None:
        number = 0
        while not done.is_set():
            key = f"{name}-{number}"
            digests.add("t", number, key=key)
            digests.timeline("t")
            acknowledged.append(key)
            number += 1

    def work(number: int, report: Report) -> None:
        with time_limit():
            digests.add("t", number, key=f"child-{number}")
            assert digests.timeline("t").pending > number

    threads = [threading.Thread(target=write, args=(f"thread{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(FORKS):
            Child(work, number).finish()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    digests.close()
    account = told_of(path)
    return account | {"missing": sorted(set(acknowledged) - set(account["keys"]))}


def fork_in_threads(path: str) -> dict[str, int]:
    """Each thread forks and adds in turns; the children end at once."""
    digests = engine(path)
    statuses: list[int] = []

    def fork_and_add() -> None:
        for _ in range(FORKS):
            child = os.fork()
            if child == 0:
                os._exit(0)
            statuses.append(os.waitpid(child, 0)[1])
            digests.add("t", 0)

    with time_limit():
        threads = [threading.Thread(target=fork_and_add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    added = digests.ledger().accepted
    digests.close()
    return {"children": statuses.count(0), "added": added}


def fork_inside_a_digest(path: str) -> dict[str, int]:
    digests = engine(path)
    with time_limit(), digests.digest("t"):
        Child(add_and_end, digests).finish()
    digests.close()
    ledger = check_sound(path)
    return {"delivered": ledger.delivered, "pending": ledger.pending}


def add_and_end(digests: Digests, report: Report) -> None:
    with time_limit():
        digests.add("t", 0, key="child")


def add_in_asyncio(path: str) -> dict[str, list[str]]:
    digests = AsyncDigests(f"sqlite:///{path}")

    async def add(key: str) -> None:
        await digests.add("t", 0, key=key)
        assert key in [record.key for record in await digests.peek("t")]

    def work(report: Report) -> None:
        with time_limit():
            asyncio.run(add("child"))

    asyncio.run(add("before"))
    Child(work).finish()
    asyncio.run(add("after"))
    asyncio.run(digests.close())
    return told_of(path)


def fork_amid_writing_to_memory() -> str:
    digests = Digests("memory://", policy=Policy(capacity=50))
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            digests.add("t", 0)

    def work(report: Report) -> None:
        with time_limit():
            verification = digests.verify()
            assert verification, verification.problems
            digests.add("t", 0)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            Child(work).finish()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return "all whole"


def change_the_folder(folder: str) -> dict[str, list[str]]:
    here, elsewhere = Path(folder, "here"), Path(folder, "elsewhere")
    here.mkdir()
    elsewhere.mkdir()
    os.chdir(here)
    with Digests("sqlite:///d.db") as digests:
        digests.add("t", 0, key="before")
        os.chdir(elsewhere)
        Child(add_nothing, digests).finish()  # a fork opens everything anew
        digests.add("t", 0, key="after")
        keys = sorted(record.key for record in digests.peek("t"))
    return {"keys": keys, "elsewhere": [entry.name for entry in elsewhere.iterdir()]}


def add_nothing(digests: Digests, report: Report) -> None:
    assert digests.timeline("t").pending == 1
