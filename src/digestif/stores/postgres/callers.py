"""Connections of callers: finds the psycopg connection behind one of psycopg, Django or SQLAlchemy.

Django and SQLAlchemy are recognised by the names of their classes, so that neither has to be installed.
"""

from typing import Any, TypeAlias

import psycopg

from digestif.errors import ConfigError

SyncConnection: TypeAlias = "psycopg.Connection[Any]"
AsyncConnection: TypeAlias = "psycopg.AsyncConnection[Any]"

AWAITED = "needs AsyncDigests: await digests.add(…, connection=…)"


def driver_connection(connection: Any) -> SyncConnection:
    """The psycopg connection of a caller who does not await. ConfigError says what to give instead."""
    if is_async(connection):
        raise ConfigError(f"connection: {_name(connection)} {AWAITED}")
    found = connection
    if _is_of_django(connection):
        connection.ensure_connection()
        found = connection.connection
    elif _is_of_sqlalchemy(connection):
        found = _behind_sqlalchemy(connection)
    if isinstance(found, psycopg.AsyncConnection):  # inside of `run_sync`
        raise ConfigError(f"connection: {_name(connection)} over an AsyncConnection {AWAITED}")
    if not isinstance(found, psycopg.Connection):
        raise _refusal(connection, found)
    return found


async def async_driver_connection(connection: Any) -> AsyncConnection:
    """The psycopg connection of a caller who awaits. ConfigError says what to give instead."""
    found = await _behind_async_sqlalchemy(connection) if _is_of_sqlalchemy(connection) else connection
    if not isinstance(found, psycopg.AsyncConnection):
        raise _refusal(connection, found)
    return found


def is_async(connection: Any) -> bool:
    """True for a connection whose statements have to be awaited, also for one that will be refused."""
    return isinstance(connection, psycopg.AsyncConnection) or _module(connection).startswith("sqlalchemy.ext.asyncio")


def _behind_sqlalchemy(connection: Any) -> object:
    """The driver's connection behind a Session, a Connection or a connection of the pool."""
    inner = connection.connection() if _is_session(connection) else connection
    if callable(getattr(inner, "in_transaction", None)) and not inner.in_transaction():
        inner.begin()  # as SQLAlchemy's own statements do; otherwise its commit would do nothing
    pooled = inner if hasattr(inner, "driver_connection") else getattr(inner, "connection", None)
    return getattr(pooled, "driver_connection", None)


async def _behind_async_sqlalchemy(connection: Any) -> object:
    """The driver's connection behind an AsyncSession or an AsyncConnection."""
    inner = await connection.connection() if _is_session(connection) else connection
    if not hasattr(inner, "get_raw_connection"):
        return None
    if not inner.in_transaction():
        await inner.begin()
    return (await inner.get_raw_connection()).driver_connection


def _is_session(connection: Any) -> bool:
    return hasattr(connection, "add_all")


def _refusal(given: Any, found: object) -> ConfigError:
    return ConfigError(f"connection: {_complaint(given, found)}")


def _complaint(given: Any, found: object) -> str:
    name = _name(given)
    if isinstance(given, str | bytes):  # not shown: it may hold a password
        return f"a {name} is not an open connection; give that of psycopg.connect(…)"
    if _is_of_django(given):
        return f"Django's runs over {_package(found)}, and has to run over psycopg 3"
    if _is_of_sqlalchemy(given) and found is None:
        return f"{name} is not an open connection; give a Connection or a Session"
    if _is_of_sqlalchemy(given):
        return f"{name} runs over {_package(found)}; make its engine of postgresql+psycopg://…"
    if hasattr(given, "fetchone"):
        return f"{name} is a cursor; give the connection that it belongs to"
    if hasattr(given, "getconn"):
        return f"{name} is a pool; give one of its connections"
    return f"{name} is no psycopg 3 connection, nor one of Django or SQLAlchemy over it"


def _is_of_django(connection: Any) -> bool:
    return hasattr(connection, "ensure_connection")


def _is_of_sqlalchemy(connection: Any) -> bool:
    return _module(connection).startswith("sqlalchemy.")


def _name(connection: Any) -> str:
    """The class of a connection, with the package that it comes from."""
    package, name = _package(connection), type(connection).__name__
    return name if package in ("builtins", "__main__") else f"{package}.{name}"


def _package(connection: object) -> str:
    return type(connection).__module__.partition(".")[0]


def _module(connection: Any) -> str:
    """Where the class of a connection is defined, or the class of SQLAlchemy that it derives from."""
    modules = [str(kind.__module__) for kind in type(connection).__mro__]
    return next((module for module in modules if module.startswith("sqlalchemy.")), modules[0])
