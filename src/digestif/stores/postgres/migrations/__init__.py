"""Migrations: numbered files of SQL, each applied once, in order, in one transaction."""

from importlib.resources import files

from psycopg import Connection, sql

from digestif.errors import ConfigError

LOCK = 0x44494745  # "DIGE": whoever migrates holds this advisory lock


def latest() -> int:
    """The schema that this release knows."""
    return max(_numbers())


def migrate(connection: "Connection[object]", schema: str) -> int:
    """Bring the tables of a schema up to date, in a transaction; the answer is how many migrations were applied.

    ConfigError if they were written by a newer release.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        version = version_of(connection, schema)
        refuse_newer(version, schema)
        missing = [number for number in _numbers() if number > (version or 0)]
        if version is None:
            cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        cursor.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema)))
        if version is None:
            cursor.execute("CREATE TABLE migration (number integer PRIMARY KEY, applied timestamptz DEFAULT now())")
        for number in missing:
            cursor.execute(_text(number))
            cursor.execute("INSERT INTO migration (number) VALUES (%s)", (number,))
    return len(missing)


def version_of(connection: "Connection[object]", schema: str) -> int | None:
    """The schema that the tables have; None if there are none."""
    table = connection.execute("SELECT to_regclass(%s)", (f'"{schema}".migration',)).fetchone()
    if table is None or table[0] is None:  # type: ignore[index]
        return None
    query = sql.SQL("SELECT max(number) FROM {}.migration").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    return row[0] if row else None  # type: ignore[index]


def refuse_newer(version: int | None, schema: str) -> None:
    if version is not None and version > latest():
        raise ConfigError(
            f"store: the schema {schema!r} has version {version}, this release knows {latest()}; "
            "upgrade digestif to open it"
        )


def _numbers() -> list[int]:
    return sorted(int(file.name[:4]) for file in files(__name__).iterdir() if file.name.endswith(".sql"))


def _text(number: int) -> str:
    return files(__name__).joinpath(f"{number:04}.sql").read_text("utf-8")
