"""Workers as a process: they run until a signal says that they should stop."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAVE_SECONDS = 1.0


class Runs(Protocol):
    """What `run` needs of a worker: `serve` and `stop`."""

    def stop(self) -> None: ...
    async def serve(self) -> None: ...


def run(*workers: Runs) -> None:
    """Let workers serve side by side until SIGTERM or SIGINT; a second signal ends the process at once.

    If one fails, its neighbours are stopped, and its error is raised when they have ended.
    In another thread than the main one there are no signals: call `stop` of each.
    """
    loop = asyncio.new_event_loop()
    try:
        try:
            loop.run_until_complete(_serve(workers))
        finally:
            loop.run_until_complete(_leave())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _leave() -> None:
    """Cancel what handlers have left running; unlike asyncio.run, not waiting for what will not be cancelled."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    running = (await asyncio.wait(left, timeout=LEAVE_SECONDS))[1] if left else ()
    if not running:  # otherwise a generator may be running, which can't be closed
        await asyncio.get_running_loop().shutdown_asyncgens()


async def _serve(workers: tuple[Runs, ...]) -> None:
    """Serve until all workers have ended. One that fails stops its neighbours, which end in order."""
    with _stopped_by_signals(workers):
        serving = [asyncio.ensure_future(worker.serve()) for worker in workers]
        try:
            await asyncio.gather(*serving)
        except Exception:
            for worker in workers:
                worker.stop()
            await asyncio.wait(serving)
            raise


@contextmanager
def _stopped_by_signals(workers: tuple[Runs, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals, owner = 0, os.getpid()

    def stop(number: int, _: object) -> None:
        nonlocal signals
        signals += 1
        if signals > 1 or os.getpid() != owner:  # a child that a handler has forked is no worker
            _end_at_once(number)
        for worker in workers:
            worker.stop()

    before = {number: signal.signal(number, stop) for number in SIGNALS}  # not by the loop: a handler may block that
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed from Python


def _end_at_once(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
