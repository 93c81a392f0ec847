"""Reloads that fail in ways that no check of the settings foresees: what runs goes on by the settings before."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from digestif import AsyncDigests, WorkerStarted
from digestif.core.secret import Secret
from digestif.service.reload import ignore_hangup
from digestif.service.runtime import Runtime
from digestif.service.settings import RouteSettings, Settings, WorkerSettings
from digestif.service.worker import SettingsWorker
from tests.service.harness import Client, token_of

PATIENCE = 30.0  # seconds: far more than anything here needs
ROUTE = RouteSettings(pattern="mail:*", channel=Secret("terminal://"), options={})


def settings(**more: Any) -> Settings:
    given = {"store": Secret("memory://"), "listen": "127.0.0.1:0", "routes": (ROUTE,), "source": "digestif.toml"}
    return Settings(**{**given, **more})


WRONG = {
    "a reader that fails": RuntimeError("no reader should"),
    "a worker that refuses its options": settings(worker=WorkerSettings(poll=0.0)),
    "an engine that refuses a route": settings(routes=(ROUTE, ROUTE)),
    "an address that can't be read": settings(public="http://[", tokens=(token_of("other")[1],)),
}


class Log(logging.Handler):
    """What the service logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._news = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self._news.set()

    async def said(self, text: str) -> None:
        while not any(text in line for line in self.lines):
            self._news.clear()
            await self._news.wait()


@pytest.fixture
def log() -> Iterator[Log]:
    logger, handler = logging.getLogger("digestif.service"), Log()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.fixture(autouse=True)
def hangup() -> Iterator[None]:
    """A signal that comes too early or too late ends no test."""
    before = signal.getsignal(signal.SIGHUP)
    ignore_hangup()
    yield
    signal.signal(signal.SIGHUP, before)


def reader(*answers: Settings | Exception) -> Callable[[], Settings]:
    """Reads one answer after the other."""
    following = iter(answers)

    def read() -> Settings:
        answer = next(following)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return read


async def until(running: "asyncio.Task[None]", event: Awaitable[object]) -> None:
    """Wait for an event while something runs. Raises what ended it instead."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait({running, waiting}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    assert waiting.done(), "it did not happen"


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_reload_of_the_service_that_fails_is_reported_and_changes_nothing(
    log: Log, wrong: Settings | Exception
) -> None:
    (old, token), (new, other) = token_of("old"), token_of("new")

    async def statuses(address: str) -> list[int]:
        port = int(address.rstrip("/").rpartition(":")[2])
        return [(await asyncio.to_thread(Client(port, text).get, "/v1/ledger")).status for text in (old, new)]

    async def main() -> tuple[list[int], list[int]]:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        read = reader(wrong, settings(tokens=(other,)))
        runtime = Runtime(settings(tokens=(token,)), read=read, ready=ready.set_result)
        serving = asyncio.create_task(runtime.serve())
        await until(serving, ready)
        signal.raise_signal(signal.SIGHUP)
        await until(serving, log.said("the settings before stay in force"))
        after_wrong = await statuses(ready.result())
        signal.raise_signal(signal.SIGHUP)
        await until(serving, log.said("reloaded digestif.toml"))
        after_right = await statuses(ready.result())
        runtime.stop()
        await serving
        return after_wrong, after_right

    assert asyncio.run(main()) == ([200, 401], [401, 200])
    assert len([line for line in log.lines if line.startswith("not reloaded: ")]) == 1


class HangupAtStart(logging.Handler):
    """Sends SIGHUP while the first worker logs that it has started."""

    def emit(self, record: logging.LogRecord) -> None:
        if "WorkerStarted" in record.getMessage():
            logging.getLogger("digestif").removeHandler(self)
            signal.raise_signal(signal.SIGHUP)


@pytest.fixture
def hangup_at_start(log: Log) -> Iterator[None]:
    logger, handler = logging.getLogger("digestif"), HangupAtStart()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.mark.usefixtures("hangup_at_start")
@pytest.mark.parametrize(
    "start",
    [
        lambda: Runtime(settings(), read=reader(settings())),
        lambda: SettingsWorker(reader(settings(), settings()), options={}),
    ],
    ids=["service", "worker"],
)
def test_a_signal_that_comes_while_a_process_says_that_it_has_started_is_heard(
    log: Log, start: Callable[[], Runtime | SettingsWorker]
) -> None:
    async def main() -> None:
        process = start()
        serving = asyncio.create_task(process.serve())
        await until(serving, log.said("reloaded digestif.toml"))
        process.stop()
        await serving

    asyncio.run(main())


@pytest.mark.parametrize("wrong", list(WRONG.values())[:3], ids=list(WRONG)[:3])  # a worker has no address
def test_a_worker_hears_signals_after_a_reload_that_failed(log: Log, wrong: Settings | Exception) -> None:
    begun: list[WorkerStarted] = []

    async def main() -> None:
        started = asyncio.Event()

        def note(event: object) -> None:
            if isinstance(event, WorkerStarted):
                begun.append(event)
                started.set()

        worker = SettingsWorker(
            reader(settings(), wrong, settings(lease=20.0)), options={}, prepare=lambda digests: digests.subscribe(note)
        )
        serving = asyncio.create_task(worker.serve())
        await until(serving, started.wait())
        signal.raise_signal(signal.SIGHUP)
        await until(serving, log.said("the settings before stay in force"))
        started.clear()
        signal.raise_signal(signal.SIGHUP)
        await until(serving, log.said("reloaded digestif.toml"))
        await until(serving, started.wait())
        worker.stop()
        await serving

    asyncio.run(main())

    assert len(begun) == 2


def test_a_worker_that_ends_is_not_kept_alive_by_a_reload(log: Log) -> None:
    async def main() -> None:
        started, called, allowed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        engines: list[AsyncDigests] = []

        async def handle(_: object) -> None:
            called.set()
            await allowed.wait()

        def prepare(digests: AsyncDigests) -> None:
            digests.handler("chat:*")(handle)
            digests.subscribe(lambda event: started.set() if isinstance(event, WorkerStarted) else None)
            engines.append(digests)

        worker = SettingsWorker(reader(settings(), settings()), options={}, prepare=prepare)
        serving = asyncio.create_task(worker.serve())
        await until(serving, started.wait())
        await engines[0].add("chat:ada", 1)
        await until(serving, called.wait())
        worker.stop()
        signal.raise_signal(signal.SIGHUP)
        await until(serving, log.said("reloaded digestif.toml"))
        allowed.set()
        await asyncio.wait_for(serving, PATIENCE)

    asyncio.run(main())
