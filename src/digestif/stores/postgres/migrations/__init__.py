"""Migrations: numbered files of SQL, each applied once, in order, in one transaction.

The store applies them to an empty schema by itself. It leaves a schema of an older release to `digestif migrate`, since
other processes may be using it.

The schema has two numbers. Its version is that of the last migration. The oldest version that may still write is in the
name of a table, `writers_11`: every transaction locks that table in the weakest mode, by its name. To raise the number
is to rename the table, which waits for the transactions under way; the server then refuses statements with the name of
before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from psycopg import Connection, errors, sql

from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.schema import Schema, too_old

FOLDER: Traversable = files(__name__)
OLDEST = 11  # the oldest version that may still write once these migrations are applied
FIRST_WITH_TWO_NUMBERS = 10  # before, a process used no other version than its own
LOCK = "SELECT pg_advisory_xact_lock(1145653061)"  # the number is "DIGE"; one process migrates at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What the tables of a schema lack."""

    schema: str
    version: int | None  # of the tables; None if there are none…
    is_missing: bool  # …and not even the schema for them
    oldest: int | None  # the oldest version that may still write now
    latest: int
    numbers: tuple[int, ...]  # of the migrations to apply
    lags: bool = False  # the sequences are behind the tables, and have to catch up

    @property
    def is_needed(self) -> bool:
        return bool(self.numbers) or self.lags

    @property
    def oldest_after(self) -> int:
        """The oldest version that may still write once they are applied."""
        return max(self.oldest or 0, OLDEST)

    @property
    def statements(self) -> list[str]:
        """The statements that apply it, inside one transaction."""
        return [
            *([f'CREATE SCHEMA "{self.schema}";'] if self.is_missing else []),
            *([f'CREATE TABLE "{self.schema}".{_TABLE};'] if self.version is None else []),
            f'SET LOCAL search_path TO "{self.schema}";',
            *self._fence(is_there=(self.version or 0) >= FIRST_WITH_TWO_NUMBERS),
            *(part for number in self.numbers for part in (_text(number), _note(number))),
            *self._fence(is_there=FIRST_WITH_TWO_NUMBERS in self.numbers),
            *([_in_schema(_CATCH_UP, self.schema).as_string(None).strip() + ";"] if self.lags else []),
        ]

    def _fence(self, *, is_there: bool) -> list[str]:
        """Return the statement that raises the oldest version, if the table that names it exists at this point."""
        before = max(self.oldest or 0, FIRST_WITH_TWO_NUMBERS)
        if not is_there or before == self.oldest_after:
            return []
        return [f"ALTER TABLE {writers(before)} RENAME TO {writers(self.oldest_after)};"]

    @property
    def script(self) -> str:
        """The same as a script for an administrator's own tool; empty if there is nothing to do."""
        return "\n\n".join(["BEGIN;", f"{LOCK};", *self.statements, "COMMIT;"]) if self.is_needed else ""


def prepare(connection: "Connection[Any]", schema: str) -> Schema:
    """Create the tables if there are none, and return their numbers.

    ConfigError if this release can't use them, or their sequences lag.
    """
    upgrade = examine(connection, schema)
    if upgrade.version is None:
        migrate(connection, schema)
        upgrade = examine(connection, schema)  # another process may have been quicker, of another release
    if upgrade.numbers:
        raise ConfigError(
            f"store: the schema {schema!r} has version {upgrade.version}, this release needs {upgrade.latest}; "
            "run `digestif migrate STORE`"
        )
    if upgrade.lags:
        raise ConfigError(
            f"store: the sequences of the schema {schema!r} are behind its tables, as after a restore of data alone or "
            "by logical replication, and would give numbers twice; run `digestif migrate STORE`"
        )
    return Schema(upgrade.version or upgrade.latest, upgrade.oldest or OLDEST)


def find_oldest(connection: "Connection[Any]", schema: str) -> int | None:
    """Return the oldest version that may write the tables; None if there are none."""
    found = _schema(connection, schema, _taken(connection, schema))
    return found and found.oldest


def latest() -> int:
    """Return the version of this release."""
    return _numbers()[-1]


def writers(oldest: int) -> str:
    """Return the name of the table that exists as long as this is the oldest version that may write."""
    return f"writers_{oldest}"


def migrate(connection: "Connection[Any]", schema: str) -> Upgrade:
    """Bring the tables up to date, completely or not at all; the answer is what they lacked.

    ConfigError if a newer release wrote them, or another program has tables of these names in the schema;
    StoreUnavailable, with what to grant, if the user may not create or change them.
    """
    with explained(connection, schema), connection.transaction():
        connection.execute(LOCK)
        upgrade = _examine(connection, schema)
        if upgrade.is_needed:
            for statement in upgrade.statements:
                connection.execute(statement.encode())
    return upgrade


def examine(connection: "Connection[Any]", schema: str) -> Upgrade:
    """Return what `migrate` would do; ConfigError if it would refuse."""
    with explained(connection, schema):
        return _examine(connection, schema)


# Reads the ends of two indexes. A role without the right to read the sequence draws no numbers, and is left out.
_LAGS = """
SELECT coalesce(last_value, 0) < greatest((SELECT max(batch) FROM {0}.record), (SELECT max(number) FROM {0}.letter))
FROM pg_sequences
WHERE schemaname = {1} AND sequencename = 'number'
AND has_sequence_privilege(format('%I.number', schemaname), 'SELECT')
"""
_CATCH_UP = """
SELECT setval(format('%I.%I', {1}, sequence)::regclass, highest)
FROM (VALUES
    ('number', greatest(
        (SELECT max(greatest(batch, arrival)) FROM {0}.record), (SELECT max(number) FROM {0}.letter),
        (SELECT max(version) FROM {0}.timeline), (SELECT max(place) FROM {0}.history)
    )),
    ('ended', (SELECT max(number) FROM {0}.history)),
    ('namespace_id_seq', (SELECT max(id) FROM {0}.namespace)),
    ('timeline_id_seq', (SELECT max(id) FROM {0}.timeline)),
    ('inbox_id_seq', (SELECT max(id) FROM {0}.inbox))
) AS found (sequence, highest)
JOIN pg_sequences ON schemaname = {1} AND sequencename = sequence
WHERE highest > coalesce(last_value, 0)
"""


def _lags(connection: "Connection[Any]", schema: str) -> bool:
    """True if the sequence would give numbers that the tables already use: replication copies tables, not sequences."""
    row = connection.execute(_in_schema(_LAGS, schema)).fetchone()
    return row is not None and bool(row[0])


def _in_schema(statement: str, schema: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(schema), sql.Literal(schema))


_CREATED = re.compile(r"^CREATE (?:TABLE|SEQUENCE|INDEX) (\w+)", re.MULTILINE)
_WRITERS = re.compile(r"writers_(\d+)")
_TABLE = "migration (number integer PRIMARY KEY, applied timestamptz DEFAULT now())"


def _examine(connection: "Connection[Any]", schema: str) -> Upgrade:
    taken = _taken(connection, schema)  # in one statement: another process may be about to create them
    found, numbers = _schema(connection, schema, taken), _numbers()
    if found is not None and not found.admits(numbers[-1]):
        raise ConfigError(too_old(f"store: the schema {schema!r}", oldest=found.oldest, version=numbers[-1]))
    lacking = tuple(number for number in numbers if found is None or number > found.version)
    if in_the_way := sorted(taken.keys() & _made(lacking, first=found is None)):
        raise _not_ours(schema, ", ".join(in_the_way))
    return Upgrade(
        schema=schema,
        version=found and found.version,
        is_missing=found is None and not _has_schema(connection, schema),
        oldest=found and found.oldest,
        latest=numbers[-1],
        numbers=lacking,
        lags=found is not None and _lags(connection, schema),
    )


def _numbers() -> list[int]:
    return sorted(int(file.name[:4]) for file in FOLDER.iterdir() if file.name.endswith(".sql"))


def _text(number: int) -> str:
    return FOLDER.joinpath(f"{number:04}.sql").read_text("utf-8").strip()


def _note(number: int) -> str:
    return f"INSERT INTO migration (number) VALUES ({number});"


def _version(connection: "Connection[Any]", schema: str) -> int:
    query = sql.SQL("SELECT coalesce(max(number), 0) FROM {}.migration").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _schema(connection: "Connection[Any]", schema: str, taken: Mapping[str, bool]) -> Schema | None:
    """Return the numbers of the tables; None if there are none. Before the first with two, both are the version."""
    if not _are_ours(taken):
        return None
    version = _version(connection, schema)
    return Schema(
        version, max((int(match[1]) for name in taken if (match := _WRITERS.fullmatch(name))), default=version)
    )


def _taken(connection: "Connection[Any]", schema: str) -> dict[str, bool]:
    """Return which of our names exist in the schema, and whether that table has a column `number`, as ours has."""
    # Not by to_regclass: after waiting for the lock, its cache would still show the state before.
    query = """
        SELECT relname, EXISTS (SELECT FROM pg_attribute
            WHERE attrelid = pg_class.oid AND attname = 'number' AND atttypid = 'integer'::regtype)
        FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
        WHERE nspname = %s AND (relname = ANY (%s::text[]) OR relname ~ '^writers_[0-9]+$')"""
    return dict(connection.execute(query, (schema, sorted(_made(_numbers(), first=True)))).fetchall())


def _are_ours(taken: Mapping[str, bool]) -> bool:
    """True if the tables are digestif's. Other programs have a table `migration`, too."""
    return taken.get("migration", False) and {"namespace", "timeline"} <= taken.keys()


def _made(numbers: Iterable[int], *, first: bool) -> set[str]:
    """Return the names that these migrations create; with the `first`, also the table that records migrations."""
    names = {name for number in numbers for name in _CREATED.findall(_text(number))}
    return names | {"migration"} if first else names


def _has_schema(connection: "Connection[Any]", schema: str) -> bool:
    return connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).rowcount > 0


# Refusals


def _not_ours(schema: str, names: str) -> ConfigError:
    return ConfigError(
        f"store: the schema {schema!r} has tables that are not digestif's, in its way: {names}; "
        "name another in the DSN, as ?schema=…"
    )


@contextmanager
def explained(connection: "Connection[Any]", schema: str) -> Iterator[None]:
    """Add to errors what the administrator has to do."""
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
    if _are_ours(_taken(connection, schema)):
        return (
            f"the tables are another user's, for whom `digestif migrate` is; {user} needs USAGE ON SCHEMA {room}, "
            f"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {room} and "
            f"USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {room}"
        )
    grant = f"USAGE, CREATE ON SCHEMA {room}" if _has_schema(connection, schema) else f"CREATE ON DATABASE {database}"
    return f"GRANT {grant} TO {user}, or let an administrator apply what `digestif migrate --sql STORE` prints"
