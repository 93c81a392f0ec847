"""The PostgreSQL that tests share: one per process, started at first use, with an empty database for each test.

A test that kills or configures a server starts its own.
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

import psycopg

from digestif.testing.postgres import PostgresServer

# Emptying takes 10 ms, where a new database takes 40 and its end 20. It ends connections that are left;
# no need to wait for that: who holds a lock is waited for, and the function would look every 100 ms only.
EMPTY = """
    SET lock_timeout = '10s';
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
            EXECUTE format('DROP SCHEMA %I CASCADE', name);
        END LOOP;
        EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
    END $$;
    CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC
"""

_numbers = count(1)
_spare: list[str] = []  # names of databases that are empty


def shared_server() -> PostgresServer:
    """The server of this process, without fsync. Leave it as it is."""
    return _server().start()


@contextmanager
def empty_database() -> Iterator[str]:
    """Yield the URL of an empty database that no other test uses."""
    server = shared_server()
    name = _spare.pop() if _spare else _new(server)
    yield server.url_of(name)
    # A database that a failed test leaves is not used again: a thread may still use it.
    with psycopg.connect(server.url_of(name), autocommit=True) as connection:
        connection.execute(EMPTY)
    _spare.append(name)


def _new(server: PostgresServer) -> str:
    name = f"test_{next(_numbers)}"
    server.new_database(name)
    return name


# Not by a fixture of the session: each conftest that imports one would have a server of its own.
@cache
def _server() -> PostgresServer:
    server = PostgresServer(fsync=False, max_prepared_transactions=2)
    atexit.register(server.close)
    return server
