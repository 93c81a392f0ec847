"""Other releases, by what they find or leave in the database; and users with few rights."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from digestif.stores.postgres import migrations

_numbers = count(1)


def next_release(folder: Path, monkeypatch: pytest.MonkeyPatch, *texts: str) -> int:
    """Behave as a release with more migrations than this one; return its version."""
    for file in migrations.FOLDER.iterdir():
        if file.name.endswith(".sql"):
            (folder / file.name).write_bytes(file.read_bytes())
    older = current_version()
    texts = texts or ("ALTER TABLE letter ADD COLUMN colour text;",)
    for number, text in enumerate(texts, older + 1):
        (folder / f"{number:04}.sql").write_text(f"-- Something new.\n{text}\n")
    monkeypatch.setattr(migrations, "FOLDER", folder)
    return older + len(texts)


def current_version() -> int:
    return max(int(file.name[:4]) for file in migrations.FOLDER.iterdir() if file.name.endswith(".sql"))


def written_by_a_newer_release(url: str) -> None:
    """Behave as a release that no longer lets this one write."""
    mine = migrations.writers(migrations.OLDEST)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO digestif.migration (number) SELECT max(number) + 1 FROM digestif.migration")
        connection.execute(
            f"ALTER TABLE digestif.{mine} RENAME TO {migrations.writers(current_version() + 1)}".encode()
        )


@contextmanager
def user_without_rights(url: str) -> Iterator[str]:
    """The URL of a user who may connect, and nothing else."""
    name = f"Ada {next(_numbers)}"
    role = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        try:
            yield url.replace("//digestif@", f"//{name.replace(' ', '%20')}@")
        finally:
            administrator.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            administrator.execute(sql.SQL("DROP ROLE {}").format(role))
