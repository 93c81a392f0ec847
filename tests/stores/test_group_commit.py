"""Group commit: what a commit leaves behind."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import pytest

from digestif.stores.group_commit import GroupCommit, JobPage


class Unit:
    """A unit of work that can be watched."""

    def __call__(self, run: list[int]) -> int:
        run.append(1)
        return len(run)


@pytest.fixture
def collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    yield
    if was_on:
        gc.enable()


@pytest.fixture
def group() -> GroupCommit[list[int]]:
    run: list[int] = []

    def commit(page: JobPage[list[int]]) -> None:
        for job in page.jobs:
            job.result = job.unit(run)
        page.is_over = True

    return GroupCommit(commit, limit=10)


@pytest.mark.usefixtures("collector_off")
def test_a_unit_of_work_is_freed_by_the_next_one_without_the_garbage_collector(group: GroupCommit[list[int]]) -> None:
    unit = Unit()
    watched = ref(unit)
    assert group.submit(unit) == 1
    del unit

    assert group.submit(Unit()) == 2

    assert watched() is None


@pytest.mark.usefixtures("collector_off")
def test_units_of_many_threads_are_freed_without_the_garbage_collector(group: GroupCommit[list[int]]) -> None:
    units = [Unit() for _ in range(100)]
    watched = [ref(unit) for unit in units]
    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(group.submit, units)) == list(range(1, 101))
    units.clear()

    assert group.submit(Unit()) == 101

    assert [unit() for unit in watched] == [None] * 100
