"""Processes that start while the server starts, recovers or shuts down: they say so, and go on by themselves."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from digestif import Delivered, Digests, StoreFailed, StoreUnavailable
from digestif.testing.postgres import PostgresServer
from digestif.testing.processes import becomes_true
from tests.worker.workers import Ear, working

pytestmark = pytest.mark.long

State = Callable[[PostgresServer], AbstractContextManager[Callable[[], None]]]  # the function ends it


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server with a record that is due."""
    with PostgresServer(fsync=False) as server:
        with Digests(server.url) as digests:
            digests.add("t", 1)
        yield server


@contextmanager
def starting(server: PostgresServer) -> Iterator[Callable[[], None]]:
    """The server reads its log, until the function is called."""
    held = server.directory / "held"
    held.touch()
    server.stop()
    (server.directory / "data/recovery.signal").touch()
    server.settings["restore_command"] = f"while [ -e '{held}' ]; do sleep 0.05; done; false"
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(server.start)
        try:
            assert becomes_true(lambda: refusal(server) == "the database system is starting up")

            def end() -> None:
                held.unlink(missing_ok=True)
                started.result()  # the server answers questions before its recovery is over
                assert becomes_true(lambda: server.sql("SELECT pg_is_in_recovery()") == [(False,)])

            yield end
        finally:
            held.unlink(missing_ok=True)


@contextmanager
def recovering(server: PostgresServer) -> Iterator[Callable[[], None]]:
    """The server is a replica that answers questions, until the function is called."""
    server.stop()
    (server.directory / "data/standby.signal").touch()
    server.start()

    def end() -> None:
        server.sql("SELECT pg_promote()")

    yield end


@contextmanager
def shutting_down(server: PostgresServer) -> Iterator[Callable[[], None]]:
    """The server waits for a client to leave, until the function is called; then it ends and is started again."""
    with psycopg.connect(server.url) as client:
        os.kill(server.pid, signal.SIGTERM)
        assert becomes_true(lambda: refusal(server) == "the database system is shutting down")

        def end() -> None:
            client.close()
            server.stop()
            server.start()

        yield end


STATES: dict[State, str] = {
    starting: "the database system is starting up; it takes no connections before it is ready, so try again",
    recovering: "it is a replica or read-only; connect to the primary",
    shutting_down: "the database system is shutting down; it takes no connections before it is ready, so try again",
}


def refusal(server: PostgresServer) -> str:
    """What the server says to those who connect."""
    try:
        server.sql("SELECT 1")
    except psycopg.OperationalError as error:
        return str(error).rpartition("FATAL:")[2].strip()
    return ""


@pytest.mark.parametrize("state", STATES)
def test_a_store_opens_and_its_calls_say_what_the_server_does(server: PostgresServer, state: State) -> None:
    with state(server) as end, Digests(f"{server.url}?timeout=1") as digests:
        with pytest.raises(StoreUnavailable) as caught:
            digests.add("t", 1)
        assert STATES[state] in str(caught.value)
        end()

        assert digests.add("other", 1)


@pytest.mark.parametrize("state", STATES)
def test_a_worker_that_starts_goes_on_once_the_server_is_ready(server: PostgresServer, state: State) -> None:
    with state(server) as end, Digests(f"{server.url}?timeout=1") as digests:
        digests.handler("*")(lambda _: None)
        ear = Ear(digests)
        with working(digests):
            failed = ear.wait_for(StoreFailed)
            assert STATES[state] in str(failed[0].error)
            end()
            ear.wait_for(Delivered)
