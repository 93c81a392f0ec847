"""Many threads and tasks at one store: commits are shared, errors are not, and nothing is lost."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from digestif import AsyncDigests, Digests, InvalidState, StoreError
from digestif.core.machine import IDLE
from digestif.stores.rows import Rows
from digestif.stores.sqlite import SQLiteStore
from digestif.stores.sqlite.connections import Connection
from digestif.stores.sqlite.writer import Job, Page, Writer
from tests.stores.sqlite.groups import CALLERS, one_group
from tests.stores.sqlite.soundness import check_sound, pending_keys

ADDS = 10  # of each caller
TIMELINES = 8


# Sharing commits


def test_sixty_four_threads_that_add_singly_share_commits_and_lose_nothing(
    store: SQLiteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit begins once all other threads wait for the next one, as they do where the disk is slow."""
    digests = Digests(store)
    commits = counted_commits(store)
    adding = set(range(CALLERS))
    transact = Writer._transact

    def transact_late(self: Writer, writer: Connection, page: Page, jobs: list[Job], share: float) -> None:
        while len(jobs) + (0 if self._page is None else len(self._page.jobs)) < len(adding):
            os.sched_yield()
        transact(self, writer, page, jobs, share)

    def add(name: int) -> list[tuple[str, bool]]:
        try:
            return [(f"t{n % TIMELINES}", digests.add(f"t{n % TIMELINES}", n, key=f"{name}-{n}")) for n in range(ADDS)]
        finally:
            adding.discard(name)

    monkeypatch.setattr(Writer, "_transact", transact_late)
    with ThreadPoolExecutor(CALLERS) as threads:
        answers = [answer for answers in threads.map(add, range(CALLERS)) for answer in answers]

    assert immediate(answers) == {f"t{n}": 1 for n in range(TIMELINES)}
    assert len(commits) <= 2 * ADDS  # of the first thread, and of all others
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


def counted_commits(store: SQLiteStore) -> list[str]:
    """A list that grows with every commit of the store's writer."""
    commits: list[str] = []
    store._writer.connect().set_trace_callback(
        lambda statement: commits.append(statement) if statement == "COMMIT" else None
    )
    return commits


def immediate(answers: Sequence[tuple[str, bool]]) -> Counter[str]:
    """How many adds to each timeline answered True."""
    return Counter(timeline for timeline, answer in answers if answer)


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
    """Its page was rolled back, and another process may have changed the state that the refusal was based on."""
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
    writer = store._writer.connect()
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 8}")

    with one_group(store) as group:
        adds = [group.submit(digests.add, "t", "x" * 10_000, key=str(n)) for n in range(20)]

    for add in adds:
        with pytest.raises(StoreError, match="full"):
            add.result()
    assert check_sound(path).accepted == 0
