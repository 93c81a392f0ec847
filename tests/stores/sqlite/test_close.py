"""Adds that are cancelled, and stores that are closed, while others are at work: each gets an answer or a refusal."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from digestif import AsyncDigests, DigestifError, Digests
from digestif.stores.sqlite import SQLiteStore
from tests.alone import alone
from tests.stores.sqlite.groups import CALLERS
from tests.stores.sqlite.soundness import check_sound, pending_keys

pytestmark = pytest.mark.long

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


# Completion


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
    account = alone(close_amid_threads, str(tmp_path))

    assert account["missing"] == []
    assert set(account["refusals"]) == {"StoreUnavailable"}
    assert account["left open"] == []


def close_amid_threads(folder: str) -> dict[str, Any]:
    """Close many times: closing a connection that a thread uses crashes only now and then."""
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
    assert len(errors) == len(threads), "a thread goes on after the completion"
    return acknowledged, errors


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return [str(entry.readlink()) for entry in folder.iterdir() if entry.is_symlink()] if folder.exists() else []
