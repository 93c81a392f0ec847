"""Many threads and tasks at one store: commits are shared, errors are not, and a close waits for those inside."""

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif import AsyncDigests, DigestifError, Digests, InvalidState, Policy, StoreError, StoreUnavailable
from digestif.clock import monotonic
from digestif.core.machine import IDLE
from digestif.stores.rows import Rows
from digestif.stores.sqlite import SQLiteStore
from tests.sqlite.alone import alone
from tests.sqlite.soundness import check_sound, pending_keys

CALLERS = 64
ADDS = 10  # of each caller
TIMELINES = 8


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "d.db")


@pytest.fixture
def store(path: str) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    store.disconnect()


# Sharing commits


def test_sixty_four_threads_that_add_singly_share_commits_and_lose_nothing(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)
    commits = counted_commits(store)

    def add(name: int) -> list[tuple[str, bool]]:
        return [(f"t{n % TIMELINES}", digests.add(f"t{n % TIMELINES}", n, key=f"{name}-{n}")) for n in range(ADDS)]

    with ThreadPoolExecutor(CALLERS) as threads:
        answers = [answer for answers in threads.map(add, range(CALLERS)) for answer in answers]

    assert immediate(answers) == {f"t{n}": 1 for n in range(TIMELINES)}
    assert len(commits) < CALLERS * ADDS / 2
    assert sorted(pending_keys(path)) == sorted(f"{name}-{n}" for name in range(CALLERS) for n in range(ADDS))
    check_sound(path)


def test_sixty_four_tasks_that_add_singly_share_commits_and_lose_nothing(store: SQLiteStore, path: str) -> None:
    commits = counted_commits(store)

    async def add_all() -> list[tuple[str, bool]]:
        async with AsyncDigests(store) as digests:

            async def add(name: int) -> list[tuple[str, bool]]:
                timelines = [f"t{n % TIMELINES}" for n in range(ADDS)]
                return [(t, await digests.add(t, n, key=f"{name}-{n}")) for n, t in enumerate(timelines)]

            return [answer for answers in await asyncio.gather(*map(add, range(CALLERS))) for answer in answers]

    answers = asyncio.run(add_all())

    assert immediate(answers) == {f"t{n}": 1 for n in range(TIMELINES)}
    assert len(commits) < CALLERS * ADDS / 4
    assert sorted(pending_keys(path)) == sorted(f"{name}-{n}" for name in range(CALLERS) for n in range(ADDS))
    check_sound(path)


def test_adds_that_wait_while_another_commits_are_committed_together(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)
    commits = counted_commits(store)

    with one_group(store) as group:
        adds = [group.submit(digests.add, "t", n, key=str(n)) for n in range(50)]

    assert sum(add.result() for add in adds) == 1
    assert len(commits) == 2  # the one that they waited for, and theirs
    assert check_sound(path).pending == 50


# Errors in a group


class Boom(Exception):
    """A fault in the code of a unit."""


@pytest.mark.parametrize("fault", [Boom, OverflowError])
def test_a_fault_in_one_unit_does_not_take_its_neighbours_along(
    store: SQLiteStore, path: str, fault: type[Exception]
) -> None:
    digests = Digests(store)

    def spoil(rows: Rows) -> None:
        rows.put_slot("half", IDLE)
        rows.tally["accepted"] += 1
        raise fault("in the middle")

    with one_group(store) as group:
        earlier = [group.submit(digests.add, f"a{n}", n, key=f"a{n}") for n in range(5)]
        faulty = group.submit(store._write, spoil)
        later = [group.submit(digests.add, f"b{n}", n, key=f"b{n}") for n in range(5)]

    assert [add.result() for add in earlier + later] == [True] * 10
    with pytest.raises(fault, match="in the middle"):
        faulty.result()
    assert sorted(pending_keys(path)) == sorted(f"{letter}{n}" for letter in "ab" for n in range(5))
    check_sound(path)


def test_a_refusal_of_one_does_not_disturb_its_neighbours(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)

    with one_group(store) as group:
        adds = [group.submit(digests.add, "t", n, key=f"a{n}") for n in range(5)]
        refused = [group.submit(store.open, "unknown", token="x", lease=1000, now=None) for _ in range(2)]
        adds += [group.submit(digests.add, "t", n, key=f"b{n}") for n in range(5)]

    assert sum(add.result() for add in adds) == 1
    for answer in refused:
        with pytest.raises(InvalidState, match="unknown"):
            answer.result()
    assert check_sound(path).pending == 10


def test_a_unit_that_is_run_again_answers_for_what_it_did_in_the_end(store: SQLiteStore) -> None:
    """Its group was spoiled, and meanwhile another process may have changed the state that it was refused for."""
    digests = Digests(store)
    runs = []

    def refuse_once(rows: Rows) -> str:
        runs.append(1)
        if len(runs) == 1:
            raise InvalidState("not yet")
        rows.tally["accepted"] += 1
        rows.tally["deleted"] += 1
        return "done"

    def spoil(rows: Rows) -> None:
        raise Boom

    with one_group(store) as group:
        refused = group.submit(store._write, refuse_once)
        faulty = group.submit(store._write, spoil)

    assert faulty.exception() is not None
    outcome = "refused" if refused.exception() else refused.result()
    assert outcome == ("done" if digests.ledger().accepted else "refused")


def test_a_full_group_whose_commit_fails_tells_everybody(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)
    writer = store._connect()
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 8}")

    with one_group(store) as group:
        adds = [group.submit(digests.add, "t", "x" * 10_000, key=str(n)) for n in range(20)]

    for add in adds:
        with pytest.raises(StoreError, match="full"):
            add.result()
    assert check_sound(path).accepted == 0


# Interruptions


class Interruption(BaseException):
    """As KeyboardInterrupt is: raised by a signal handler, in the main thread, wherever that is."""


def test_an_interruption_of_the_one_who_commits_is_not_given_to_the_others(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)

    def interrupt(rows: Rows) -> None:
        raise Interruption

    with one_group(store) as group:
        leader = group.submit(store._write, interrupt)
        adds = {str(n): group.submit(digests.add, "t", n, key=str(n)) for n in range(5)}

    assert isinstance(leader.exception(), Interruption)
    assert {type(add.exception()) for add in adds.values()} <= {type(None), StoreUnavailable}
    assert {key for key, add in adds.items() if not add.exception()} <= set(pending_keys(path))
    assert digests.add("t", 0, key="later") in (True, False)
    check_sound(path)


def test_a_signal_handler_that_raises_in_a_waiting_thread_does_not_stop_the_others(path: str) -> None:
    assert alone(interrupt_one_who_waits, path) == {"interrupted": True, "stuck": False}
    check_sound(path)


def test_interruptions_at_any_moment_leave_a_store_that_works(path: str) -> None:
    told = alone(interrupt_at_any_moment, path)

    assert told["interruptions"] > 0
    assert told["missing"] == []
    assert told["stuck"] == 0
    assert told["given to others"] == []
    check_sound(path)


def interrupt_one_who_waits(path: str) -> dict[str, bool]:
    store = SQLiteStore(path)
    digests = Digests(store)
    interrupted = False
    with one_group(store) as group:
        signal.signal(signal.SIGUSR1, raise_interruption)

        def interrupt() -> None:
            group.wait_until_queued(1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        threading.Thread(target=interrupt).start()
        try:
            digests.add("t", 0, key="main")
        except Interruption:
            interrupted = True
    other = threading.Thread(target=lambda: digests.add("t", 0, key="other"), daemon=True)
    other.start()
    other.join(10)
    return finish(store, {"interrupted": interrupted, "stuck": other.is_alive()})


def raise_interruption(*_: object) -> None:
    raise Interruption


def interrupt_at_any_moment(path: str) -> dict[str, Any]:
    """The main thread adds and is interrupted again and again by a timer, while others add beside it."""
    store = SQLiteStore(path)
    digests = Digests(store, policy=Policy(capacity=None))
    acknowledged: list[str] = []
    done = threading.Event()

    def add(key: str) -> None:
        digests.add(f"t{len(key)}", 0, key=key)
        acknowledged.append(key)

    given: list[str] = []

    def add_beside(name: int) -> None:
        number = 0
        while not done.is_set():
            try:
                add(f"{name}-{number}")
            except StoreUnavailable:  # its leader was interrupted
                pass
            except BaseException as error:  # noqa: BLE001 -- to be judged by the caller
                given.append(repr(error))
            number += 1

    threads = [threading.Thread(target=add_beside, args=(name,), daemon=True) for name in range(2)]
    for thread in threads:
        thread.start()
    interruptions = 0
    signal.signal(signal.SIGALRM, raise_interruption)
    ends = monotonic() + 1.5
    number = 0
    while monotonic() < ends:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + (number % 50) * 0.00007)
            add(f"main-{number}")
            signal.setitimer(signal.ITIMER_REAL, 0)
        except (Interruption, StoreError):
            interruptions += 1
        number += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    done.set()
    for thread in threads:
        thread.join(10)
    stuck = sum(thread.is_alive() for thread in threads)
    missing = [] if stuck else sorted(set(acknowledged) - set(pending_keys(path)))
    return finish(store, {"interruptions": interruptions, "stuck": stuck, "missing": missing, "given to others": given})


def finish(store: SQLiteStore, told: dict[str, Any]) -> dict[str, Any]:
    if not told["stuck"]:
        store.disconnect()
    return told


# Cancelling


def test_a_cancelled_add_is_accepted_or_not_but_never_half(store: SQLiteStore, path: str) -> None:
    async def cancel_half() -> tuple[set[str], set[str]]:
        async with AsyncDigests(store) as digests:

            async def start(name: str) -> dict[str, asyncio.Task[bool]]:
                keys = [f"{name}-{n}" for n in range(CALLERS)]
                tasks = {key: asyncio.create_task(digests.add(f"t{key[-1]}", 0, key=key)) for key in keys}
                for _ in range(3):
                    await asyncio.sleep(0)  # until a store call is under way, or they wait for the next
                return tasks

            tasks: dict[str, asyncio.Task[bool]] = {}
            for wave in range(6):
                under_way, waiting = await start(f"{wave}a"), await start(f"{wave}b")
                for task in [*list(under_way.values())[::2], *list(waiting.values())[::2]]:
                    task.cancel()
                await asyncio.wait([*under_way.values(), *waiting.values()])
                tasks |= under_way | waiting
            cancelled = {key for key, task in tasks.items() if task.cancelled()}
            return set(tasks) - cancelled, cancelled

    acknowledged, cancelled = asyncio.run(cancel_half())

    stored = set(pending_keys(path))
    assert cancelled
    assert acknowledged <= stored
    assert stored <= acknowledged | cancelled
    assert check_sound(path).accepted == len(stored)


def test_cancelled_adds_do_not_hold_up_those_that_come_later(store: SQLiteStore, path: str) -> None:
    async def cancel_all_and_add() -> bool:
        async with AsyncDigests(store) as digests:
            tasks = [asyncio.create_task(digests.add("t", n)) for n in range(CALLERS)]
            await asyncio.sleep(0)  # they are waiting now
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            return await asyncio.wait_for(digests.add("later", 0), timeout=30)

    assert asyncio.run(cancel_all_and_add()) is True
    check_sound(path)


# Closing


def test_closing_waits_for_the_adds_of_tasks_that_are_under_way(path: str) -> None:
    async def close_amid_adds() -> list[bool | BaseException]:
        digests = AsyncDigests(f"sqlite:///{path}")
        tasks = [asyncio.create_task(digests.add(f"t{n}", n, key=str(n))) for n in range(CALLERS)]
        await asyncio.sleep(0)  # all are waiting or under way
        await digests.close()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=30)

    answers = asyncio.run(close_amid_adds())

    assert answers == [True] * CALLERS
    assert sorted(pending_keys(path)) == sorted(map(str, range(CALLERS)))
    check_sound(path)


def test_after_closing_an_add_is_refused_in_our_own_words(path: str) -> None:
    digests = Digests(f"sqlite:///{path}")
    digests.close()

    with pytest.raises(DigestifError, match="closed"):
        digests.add("t", 0)
    with pytest.raises(DigestifError, match="closed"):
        digests.peek("t")

    digests.close()  # again is no error


def test_after_closing_an_awaited_add_is_refused_in_our_own_words(path: str) -> None:
    async def add_after_closing() -> None:
        digests = AsyncDigests(f"sqlite:///{path}")
        await digests.add("t", 0)
        await digests.close()
        with pytest.raises(DigestifError, match="closed"):
            await digests.add("t", 0)
        with pytest.raises(DigestifError, match="closed"):
            await digests.ledger()
        await digests.close()

    asyncio.run(add_after_closing())


def test_closing_while_threads_add_and_read_gives_each_an_answer_or_a_refusal(tmp_path: Path) -> None:
    told = alone(close_amid_threads, str(tmp_path))

    assert told["missing"] == []
    assert set(told["refusals"]) == {"StoreUnavailable"}
    assert told["left open"] == []


def close_amid_threads(folder: str) -> dict[str, Any]:
    """Again and again, since a connection that is closed under a thread's feet crashes only now and then."""
    missing: list[str] = []
    refusals: Counter[str] = Counter()
    left_open: list[str] = []
    for attempt in range(15):
        path = f"{folder}/{attempt}.db"
        acknowledged, errors = write_until_closed(path)
        refusals.update(type(error).__name__ for error in errors)
        left_open += [target for target in open_files() if target.startswith(path)]
        missing += set(acknowledged) - set(pending_keys(path))
        check_sound(path)
    return {"missing": missing, "refusals": dict(refusals), "left open": left_open}


def write_until_closed(path: str) -> tuple[list[str], Sequence[BaseException]]:
    digests = Digests(f"sqlite:///{path}")
    acknowledged: list[str] = []
    errors: list[BaseException] = []
    busy = threading.Barrier(9)

    def work(name: int) -> None:
        number = 0
        try:
            while True:
                digests.add(f"t{name}", 0, key=f"{name}-{number}")
                acknowledged.append(f"{name}-{number}")
                digests.timeline(f"t{name}")
                number += 1
                if number == 3:
                    busy.wait(30)
        except BaseException as error:  # noqa: BLE001 -- to be judged by the caller
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    busy.wait(30)
    digests.close()
    for thread in threads:
        thread.join(30)
    assert len(errors) == len(threads), "a thread goes on after the close"
    return acknowledged, errors


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return [str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink()] if folder.exists() else []


# Helpers


def counted_commits(store: SQLiteStore) -> list[str]:
    """A list that grows with every commit of the store's writer."""
    commits: list[str] = []
    store._connect().set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
    return commits


def immediate(answers: Sequence[tuple[str, bool]]) -> Counter[str]:
    """How many adds to each timeline answered True."""
    return Counter(timeline for timeline, answer in answers if answer)


class Group:
    """Calls that wait in the store's queue, in order, behind one that is under way."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(CALLERS)
        self._inside = threading.Event()
        self._go = threading.Event()
        self._first = self._threads.submit(store._write, self._hold)
        self._inside.wait(30)

    def _hold(self, rows: Rows) -> None:
        self._inside.set()
        self._go.wait(30)

    def submit(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        queued = len(self._store._group._queue)
        answer = self._threads.submit(call, *arguments, **options)
        self.wait_until_queued(queued + 1)
        return answer

    def wait_until_queued(self, count: int) -> None:
        ends = monotonic() + 30
        while len(self._store._group._queue) < count:
            assert monotonic() < ends, "a call does not reach the queue"
            os.sched_yield()

    def release(self) -> None:
        self._go.set()
        self._first.result()
        self._threads.shutdown()


@contextmanager
def one_group(store: SQLiteStore) -> Iterator[Group]:
    """What is submitted in the block is committed together after it."""
    group = Group(store)
    try:
        yield group
    finally:
        group.release()
