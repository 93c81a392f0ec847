"""Connections of callers: those that await work with AsyncDigests, and a wrong kind says what is right."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from digestif import AsyncDigests, ConfigError, Digests

pytestmark = pytest.mark.long

Use = Callable[[AsyncDigests, str], Awaitable[None]]


def sqlalchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


# Callers who await


async def with_psycopg(digests: AsyncDigests, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await digests.add("t", "kept", connection=connection)
        await digests.add_many([("t", "first"), ("t", "second")], connection=connection)
        await connection.commit()
        await digests.add("t", "never", connection=connection)
        await connection.rollback()


async def with_a_connection_of_sqlalchemy(digests: AsyncDigests, url: str) -> None:
    """It has begun nothing when the first record is added."""
    async with running(url) as engine, engine.connect() as connection:
        await digests.add("t", "kept", connection=connection)
        await connection.commit()
        await digests.add_many([("t", "first"), ("t", "second")], connection=connection)
        await connection.commit()
        await digests.add("t", "never", connection=connection)
        await connection.rollback()


async def with_a_session_of_sqlalchemy(digests: AsyncDigests, url: str) -> None:
    async with running(url) as engine, AsyncSession(engine) as session:
        async with session.begin():
            await digests.add("t", "kept", connection=session)
            await digests.add_many([("t", "first"), ("t", "second")], connection=session)
        await digests.add("t", "never", connection=session)
        await session.rollback()


class running:  # noqa: N801  # reads as a verb
    """An engine of SQLAlchemy, disposed of afterwards."""

    def __init__(self, url: str) -> None:
        self._engine = create_async_engine(sqlalchemy_url(url))

    async def __aenter__(self) -> AsyncEngine:
        return self._engine

    async def __aexit__(self, *_: object) -> None:
        await self._engine.dispose()


@pytest.mark.parametrize(
    "use", [with_psycopg, with_a_connection_of_sqlalchemy, with_a_session_of_sqlalchemy], ids=lambda use: use.__name__
)
def test_a_caller_who_awaits_adds_in_a_transaction_of_their_own(url: str, use: Use) -> None:
    async def main() -> list[Any]:
        async with AsyncDigests(url) as digests:
            await use(digests, url)
            return [record.value for record in await digests.peek("t")]

    assert sorted(asyncio.run(main())) == ["first", "kept", "second"]


def test_what_has_not_been_committed_is_seen_by_the_caller_alone(url: str) -> None:
    async def main() -> tuple[bool, int, int, int]:
        async with AsyncDigests(url) as digests, await psycopg.AsyncConnection.connect(url) as connection:
            answer = await digests.add("t", 1, connection=connection)
            before = (await digests.ledger()).accepted
            found = await (await connection.execute("SELECT count(*) FROM digestif.inbox")).fetchone()
            await connection.commit()
            assert found is not None
            return answer, before, found[0], (await digests.ledger()).accepted

    assert asyncio.run(main()) == (False, 0, 1, 1)


def test_a_caller_who_awaits_may_bring_a_connection_that_does_not(url: str) -> None:
    async def main() -> list[Any]:
        async with AsyncDigests(url) as digests:
            with psycopg.connect(url) as connection:
                await digests.add("t", 1, connection=connection)
                await digests.add_many([("t", 2)], connection=connection)
            return [record.value for record in await digests.peek("t")]

    assert sorted(asyncio.run(main())) == [1, 2]


# Wrong kinds


def of(module: str, **attributes: Any) -> Any:
    """A connection of a driver that is not installed here."""
    kind = type("Connection", (), {"__module__": module, **attributes})
    return kind()


async def add_awaited(url: str, connection: Any) -> None:
    async with AsyncDigests(url) as digests:
        await digests.add("t", 1, connection=connection)


def over_sqlite() -> Any:
    return sqlalchemy.create_engine("sqlite://")


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (lambda _: sqlite3.connect(":memory:"), "sqlite3.Connection is no psycopg 3 connection"),
        (lambda _: of("asyncpg.connection"), "asyncpg.Connection is no psycopg 3 connection"),
        (lambda _: of("psycopg2.extensions"), "psycopg2.Connection is no psycopg 3 connection"),
        (lambda _: object(), "object is no psycopg 3 connection, nor one of Django or SQLAlchemy over it"),
        (lambda _: True, "bool is no psycopg 3 connection"),
        (lambda url: url, "a str is not an open connection; give that of psycopg.connect"),
        (lambda url: psycopg.connect(url).cursor(), "psycopg.Cursor is a cursor; give the connection"),
        (lambda _: sqlite3.connect(":memory:").cursor(), "sqlite3.Cursor is a cursor; give the connection"),
        (lambda url: ConnectionPool(url, open=False), "ConnectionPool is a pool; give one of its connections"),
        (lambda _: over_sqlite(), "sqlalchemy.Engine is not an open connection; give a Connection or a Session"),
        (lambda _: sessionmaker(over_sqlite()), "sessionmaker is not an open connection"),
        (lambda _: over_sqlite().connect(), "sqlalchemy.Connection runs over sqlite3; .* postgresql[+]psycopg://"),
        (lambda _: Session(over_sqlite()), "sqlalchemy.Session runs over sqlite3; .* postgresql[+]psycopg://"),
        (lambda _: scoped_session(sessionmaker(over_sqlite())), "scoped_session runs over sqlite3"),
        (
            lambda _: of("app", ensure_connection=lambda _: None, connection=sqlite3.connect(":memory:")),
            "Django's runs over sqlite3, and has to run over psycopg 3",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_kind_of_connection_says_what_is_right(
    digests: Digests, url: str, connection: Callable[[str], Any], complaint: str
) -> None:
    given = connection(url)

    with pytest.raises(ConfigError, match=f"connection: .*{complaint}"):
        digests.add("t", 1, connection=given)
    with pytest.raises(ConfigError, match=complaint):
        digests.add_many([("t", 1)], connection=given)
    with pytest.raises(ConfigError, match=complaint):
        asyncio.run(add_awaited(url, given))
    for each in (given, getattr(given, "connection", None)):
        if each is not None and hasattr(each, "close"):
            each.close()


@pytest.mark.parametrize("kind", [AsyncSession, AsyncConnection])
def test_a_connection_that_has_to_be_awaited_is_refused_by_digests(digests: Digests, url: str, kind: Any) -> None:
    engine = create_async_engine(sqlalchemy_url(url))

    with pytest.raises(ConfigError, match=f"sqlalchemy.{kind.__name__} needs AsyncDigests: await digests.add"):
        digests.add("t", 1, connection=kind(engine))


def test_a_connection_of_psycopg_that_has_to_be_awaited_is_refused_by_digests(digests: Digests, url: str) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            digests.add("t", 1, connection=connection)

    with pytest.raises(ConfigError, match=r"psycopg.AsyncConnection needs AsyncDigests: await digests.add"):
        asyncio.run(main())


def test_a_session_inside_of_run_sync_needs_async_digests(digests: Digests, url: str) -> None:
    async def main() -> None:
        async with running(url) as engine, AsyncSession(engine) as session:
            await session.run_sync(lambda inner: digests.add("t", 1, connection=inner))

    with pytest.raises(ConfigError, match=r"sqlalchemy\.Session over an AsyncConnection needs AsyncDigests"):
        asyncio.run(main())


def test_an_async_engine_is_not_an_open_connection(url: str) -> None:
    async def main() -> None:
        async with AsyncDigests(url) as digests, running(url) as engine:
            await digests.add("t", 1, connection=engine)

    with pytest.raises(ConfigError, match=r"sqlalchemy\.AsyncEngine is not an open connection"):
        asyncio.run(main())


def test_a_connection_of_the_pool_of_sqlalchemy_serves_too(digests: Digests, url: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url))
    with closing(engine.raw_connection()) as connection:
        digests.add("t", 1, connection=connection)
        connection.commit()
    engine.dispose()

    assert [record.value for record in digests.peek("t")] == [1]
