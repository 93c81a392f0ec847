"""Threads that never keep a process from ending."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from contextlib import suppress

import pytest

from digestif.threads import DaemonThreads
from tests.worker.workers import PATIENCE, Crowd, becomes

HANGS = """
import threading
from digestif.threads import DaemonThreads
threads = DaemonThreads(2, "hangs")
begun = threading.Event()
threads.submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
"""


def names(prefix: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


def test_answers_and_errors_come_back() -> None:
    threads = DaemonThreads(2, "some")

    assert threads.submit(divmod, 7, 2).result(PATIENCE) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(PATIENCE)
    with pytest.raises(SystemExit):
        threads.submit(sys.exit, 3).result(PATIENCE)
    assert threads.submit(lambda: "goes on").result(PATIENCE) == "goes on"
    threads.shutdown()


def test_there_are_as_many_threads_as_there_is_work_and_no_more_than_allowed() -> None:
    threads, crowd, meeting = DaemonThreads(3, "three"), Crowd(), threading.Barrier(3)

    def meet() -> None:
        with crowd:
            meeting.wait(PATIENCE)

    threads.submit(int).result(PATIENCE)
    assert len(names("three")) == 1
    for future in [threads.submit(meet) for _ in range(12)]:
        future.result(PATIENCE)

    assert crowd.most == 3
    assert len(names("three")) == 3
    threads.shutdown()
    assert becomes(lambda: names("three") == [])


def test_what_has_not_begun_can_be_cancelled() -> None:
    threads, released = DaemonThreads(1, "one"), threading.Event()
    first = threads.submit(released.wait, PATIENCE)
    assert becomes(first.running)
    second = threads.submit(int)

    assert second.cancel()
    assert not first.cancel()
    released.set()
    assert first.result(PATIENCE)
    assert threads.submit(lambda: "next").result(PATIENCE) == "next"
    threads.shutdown()


def test_what_was_begun_before_the_shutdown_is_done() -> None:
    threads = DaemonThreads(1, "last")
    futures = [threads.submit(str, n) for n in range(5)]

    threads.shutdown()

    assert [future.result(PATIENCE) for future in futures] == list("01234")


def test_nothing_can_be_submitted_after_the_shutdown() -> None:
    threads = DaemonThreads(1, "over")
    threads.shutdown()

    with pytest.raises(RuntimeError):
        threads.submit(int)


def test_an_idle_thread_keeps_nothing_alive() -> None:
    class Large:
        """A page of records, say."""

    threads = DaemonThreads(1, "idle")
    argument = Large()
    seen = weakref.ref(argument)
    answer = threads.submit(lambda value: value, argument).result(PATIENCE)
    made = weakref.ref(answer)

    del argument, answer

    assert becomes(lambda: gc.collect() >= 0 and seen() is None and made() is None)
    threads.shutdown()


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], timeout=PATIENCE, check=False)

    assert ended.returncode == 0


def test_an_error_keeps_nothing_of_the_call_that_raised_it() -> None:
    """What the frames of the call hold is free as soon as the error was caught, without a look for garbage."""

    class Large:
        pass

    async def failed() -> "weakref.ref[Large]":
        large = Large()

        def call(large: Large = large) -> None:
            raise ValueError(large.__class__)

        known = weakref.ref(large)
        del large
        with suppress(ValueError):
            await DaemonThreads(1, "one").run(call)
        return known

    gc.disable()
    try:
        known = asyncio.run(failed())
        assert becomes(lambda: known() is None, seconds=5)
    finally:
        gc.enable()
