"""The password: neither a store nor its errors show it."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from digestif import ConfigError, Digests, StoreUnavailable
from digestif.core.secret import Secret
from digestif.stores.postgres import PostgresStore
from digestif.stores.registry import open_store
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import free_port

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that wants a password."""
    with PostgresServer(fsync=False) as server:
        server.sql(f"ALTER ROLE digestif PASSWORD '{PASSWORD}'")
        [(rules,)] = server.sql("SHOW hba_file")
        Path(rules).write_text("host all all 127.0.0.1/32 scram-sha-256\n", "utf-8")
        server.sql("SELECT pg_reload_conf()")
        yield server


def with_password(server: PostgresServer, password: str = PASSWORD) -> str:
    return server.url.replace("digestif@", f"digestif:{password}@")


def everything_about(error: BaseException) -> str:
    """Return a traceback with all local variables, as the tools of operators print it, from our frames on."""
    account, links = list[str](), [error]
    for link in links:
        links += [other for other in (link.__cause__, link.__context__) if other and other not in links]
        account += traceback.TracebackException.from_exception(link, capture_locals=True).format()
        account.append(repr(vars(link)))
    return "".join(account)


def reachable(start: object) -> Iterator[object]:
    """Yield all objects that are reachable by attributes and in containers."""
    seen, found = set[int](), [start]
    while found:
        thing = found.pop()
        if id(thing) in seen or isinstance(thing, type | Secret | psycopg.Connection):
            continue
        seen.add(id(thing))
        yield thing
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        found += [*vars(thing).values()] if hasattr(thing, "__dict__") else []
        found += [getattr(thing, name, None) for name in slots]
        if isinstance(thing, dict):
            found += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            found += thing


def test_a_store_holds_no_password_that_could_be_printed(server: PostgresServer) -> None:
    with Digests(with_password(server)) as digests:
        digests.add("t", 1)

        assert [thing for thing in reachable(digests.store) if isinstance(thing, str) and PASSWORD in thing] == []
        assert PASSWORD not in repr(digests.store)


ACTS: dict[str, Any] = {
    "a call": lambda store: store.ledger(),
    "migrate": lambda store: store.migrate(),
    "durability": lambda store: store.durability,
    "reach": lambda store: store.reach(),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("problem", ["wrong password", "missing database", "no server"])
def test_a_failure_shows_no_password_whatever_is_printed(server: PostgresServer, act: str, problem: str) -> None:
    addresses = {
        "wrong password": with_password(server, f"{PASSWORD}-not"),
        "missing database": f"{with_password(server)}_nowhere",
        "no server": with_password(server).replace(f":{server.port}/", f":{free_port()}/"),
    }
    store: Any = open_store(f"{addresses[problem]}?timeout=1")

    with pytest.raises(StoreUnavailable) as failure:
        ACTS[act](store)
    store.close()

    ours = failure.value.with_traceback(failure.tb.tb_next)  # without the frame of this test
    assert PASSWORD not in everything_about(ours)


def test_an_address_that_makes_no_sense_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="no address of a PostgreSQL server") as refused:
        PostgresStore({"host": "h", "pott": "1", "password": Secret(PASSWORD)})

    assert PASSWORD not in everything_about(refused.value.with_traceback(refused.tb.tb_next))
