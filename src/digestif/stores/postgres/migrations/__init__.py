"""Migrations: numbered files of SQL, each applied once, in order, in one transaction.

An empty schema gets them by itself, one of an older release by `digestif migrate` only: others may be at work there.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from psycopg import Connection, errors, sql

from digestif.errors import ConfigError, StoreUnavailable

FOLDER: Traversable = files(__name__)
LOCK = "SELECT pg_advisory_xact_lock(1145653061)"  # the number is "DIGE"; whoever migrates holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What the tables of a schema lack."""

    schema: str
    version: int | None  # of the tables; None if there are none…
    is_missing: bool  # …and not even the schema for them
    latest: int
    numbers: tuple[int, ...]  # of the migrations to apply

    @property
    def statements(self) -> list[str]:
        """What applies it, inside of one transaction."""
        return [
            *([f'CREATE SCHEMA "{self.schema}";'] if self.is_missing else []),
            *([f'CREATE TABLE "{self.schema}".{_TABLE};'] if self.version is None else []),
            f'SET LOCAL search_path TO "{self.schema}";',
            *(part for number in self.numbers for part in (_text(number), _note(number))),
        ]

    @property
    def script(self) -> str:
        """The same for somebody who applies it with a tool of theirs; empty if there is nothing to do."""
        return "\n\n".join(["BEGIN;", f"{LOCK};", *self.statements, "COMMIT;"]) if self.numbers else ""


def prepare(connection: "Connection[Any]", schema: str) -> None:
    """Make the tables if there are none. ConfigError if they are those of another release."""
    upgrade = examine(connection, schema)
    if upgrade.version is None:
        migrate(connection, schema)
    elif upgrade.numbers:
        raise ConfigError(
            f"store: the schema {schema!r} has version {upgrade.version}, this release needs {upgrade.latest}; "
            "run `digestif migrate STORE`"
        )


def migrate(connection: "Connection[Any]", schema: str) -> Upgrade:
    """Bring the tables up to date, whole or not at all; the answer is what they lacked.

    ConfigError if they were written by a newer release, or if others have tables of these names in the schema;
    StoreUnavailable with what to grant, if the user may not make or change them.
    """
    with _explained(connection, schema), connection.transaction():
        connection.execute(LOCK)
        upgrade = _examine(connection, schema)
        if upgrade.numbers:
            for statement in upgrade.statements:
                connection.execute(statement.encode())
    return upgrade


def examine(connection: "Connection[Any]", schema: str) -> Upgrade:
    """What `migrate` would do, and ConfigError if it would refuse."""
    with _explained(connection, schema):
        return _examine(connection, schema)


_CREATED = re.compile(r"^CREATE (?:TABLE|SEQUENCE|INDEX) (\w+)", re.MULTILINE)
_TABLE = "migration (number integer PRIMARY KEY, applied timestamptz DEFAULT now())"


def _examine(connection: "Connection[Any]", schema: str) -> Upgrade:
    version, numbers = _version(connection, schema), _numbers()
    _refuse_tables_of_others(connection, schema, [number for number in numbers if number > (version or 0)])
    if (version or 0) > numbers[-1]:
        raise ConfigError(
            f"store: the schema {schema!r} has version {version}, this release knows {numbers[-1]}; "
            "upgrade digestif to open it"
        )
    return Upgrade(
        schema=schema,
        version=version,
        is_missing=version is None and not _has_schema(connection, schema),
        latest=numbers[-1],
        numbers=tuple(number for number in numbers if number > (version or 0)),
    )


def _numbers() -> list[int]:
    return sorted(int(file.name[:4]) for file in FOLDER.iterdir() if file.name.endswith(".sql"))


def _text(number: int) -> str:
    return FOLDER.joinpath(f"{number:04}.sql").read_text("utf-8").strip()


def _note(number: int) -> str:
    return f"INSERT INTO migration (number) VALUES ({number});"


def _version(connection: "Connection[Any]", schema: str) -> int | None:
    if not _has_tables(connection, schema):
        if _names(connection, schema, ["migration"]):
            raise _not_ours(schema, "migration")
        return None
    query = sql.SQL("SELECT coalesce(max(number), 0) FROM {}.migration").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else None


def _has_tables(connection: "Connection[Any]", schema: str) -> bool:
    """Whether they are ours: others have a table `migration`, too."""
    query = """
        SELECT FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid JOIN pg_namespace ON relnamespace = pg_namespace.oid
        WHERE nspname = %s AND relname = 'migration' AND attname = 'number' AND atttypid = 'integer'::regtype"""
    ours = ["migration", "namespace", "timeline"]
    return len(_names(connection, schema, ours)) == len(ours) and connection.execute(query, (schema,)).rowcount > 0


def _names(connection: "Connection[Any]", schema: str, names: Sequence[str]) -> list[str]:
    """Those that are taken in the schema."""
    # Not by to_regclass: who has waited for the lock would hear from its cache what was so before.
    query = """
        SELECT relname FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
        WHERE nspname = %s AND relname = ANY (%s::text[]) ORDER BY relname"""
    return [name for (name,) in connection.execute(query, (schema, list(names))).fetchall()]


def _has_schema(connection: "Connection[Any]", schema: str) -> bool:
    return connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).rowcount > 0


# Refusals


def _refuse_tables_of_others(connection: "Connection[Any]", schema: str, numbers: Sequence[int]) -> None:
    """ConfigError if a name is taken that these migrations need."""
    needed = [name for number in numbers for name in _CREATED.findall(_text(number))]
    if taken := _names(connection, schema, needed):
        raise _not_ours(schema, ", ".join(taken))


def _not_ours(schema: str, names: str) -> ConfigError:
    return ConfigError(
        f"store: the schema {schema!r} has tables that are not digestif's, in its way: {names}; "
        "name another in the DSN, as ?schema=…"
    )


@contextmanager
def _explained(connection: "Connection[Any]", schema: str) -> Iterator[None]:
    """Errors that somebody has to act on, with what to do."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        said = str(error).partition("\n")[0]
        raise StoreUnavailable(f"{said}; {_remedy(connection, schema)}") from error
    except (errors.DuplicateTable, errors.UndefinedColumn) as error:
        raise _not_ours(schema, str(error).partition("\n")[0]) from error


def _remedy(connection: "Connection[Any]", schema: str) -> str:
    user, database, room = (
        sql.Identifier(name).as_string(connection) for name in (connection.info.user, connection.info.dbname, schema)
    )
    if _has_tables(connection, schema):
        return (
            f"the tables are another user's, for whom `digestif migrate` is; {user} needs USAGE ON SCHEMA {room}, "
            f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {room} and "
            f"USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {room}"
        )
    grant = f"USAGE, CREATE ON SCHEMA {room}" if _has_schema(connection, schema) else f"CREATE ON DATABASE {database}"
    return f"GRANT {grant} TO {user}, or let somebody apply what `digestif migrate --sql STORE` prints"
