"""`digestif migrate`."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from digestif import Digests
from digestif.dsn import redacted
from digestif.stores.postgres import migrations
from digestif.testing.servers import free_port
from tests.cli.runner import Run, is_one_line
from tests.stores.postgres.releases import (
    current_version,
    next_release,
    user_without_rights,
    written_by_a_newer_release,
)
from tests.stores.postgres.servers import empty_database

OLDEST = migrations.OLDEST


@pytest.fixture
def url() -> Iterator[str]:
    with empty_database() as url:
        yield url


@pytest.fixture
def older(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of a store that was made by the release before."""
    with Digests(url) as digests:
        digests.add("t", 1)
    version = current_version()
    (tmp_path / "migrations").mkdir()
    next_release(tmp_path / "migrations", monkeypatch)
    return version


def test_a_schema_is_brought_up_to_date_once(run: Run, url: str, older: int) -> None:
    newer = older + 1

    code, out, err = run("migrate", url)

    assert (code, err) == (0, "")
    assert out == (
        f"the schema digestif went from version {older} to version {newer}\n  applied   {newer:04}\n"
        f"  writers   version {OLDEST} or later\n"
    )
    up_to_date = f"the schema digestif is up to date: version {newer}, for writers of version {OLDEST} or later\n"
    assert run("migrate", url) == (0, up_to_date, "")
    assert run("ledger", "--store", url, "--json").json["pending"] == 1


def test_an_empty_schema_may_be_filled_before_its_first_use(run: Run, url: str) -> None:
    code, out, _ = run("migrate", f"{url}?schema=mail")

    assert code == 0
    assert out.startswith(f"the schema mail went from no tables to version {current_version()}\n  applied   0001")


def test_a_dry_run_tells_and_changes_nothing(run: Run, url: str, older: int) -> None:
    expected = (
        f"the schema digestif has version {older}, this release needs version {older + 1}\n  to apply  {older + 1:04}\n"
        f"  writers   version {OLDEST} or later\n"
    )

    assert run("migrate", url, "--dry-run") == (1, expected, "")
    assert run("migrate", url, "--dry-run") == (1, expected, "")

    run("migrate", url)
    assert run("migrate", url, "--dry-run").code == 0


@pytest.fixture
def lagging(url: str) -> None:
    """A store whose tables were restored without their sequences."""
    with Digests(url) as digests:
        digests.add_many([("a", 1), ("b", 1)])
    set_sequences_back(url)


def set_sequences_back(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for (name,) in connection.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'digestif'"):
            connection.execute(f'ALTER SEQUENCE digestif."{name}" RESTART WITH 1'.encode())


@pytest.mark.usefixtures("lagging")
def test_a_dry_run_tells_of_sequences_that_are_behind_their_tables(run: Run, url: str) -> None:
    numbers = f"version {current_version()}, for writers of version {OLDEST} or later"
    version = f"the schema digestif is up to date: {numbers}\n"
    expected = f"{version}  sequences are behind their tables\n"

    assert run("migrate", url, "--dry-run") == (1, expected, "")
    assert run("migrate", url, "--dry-run", "--json").json["sequences_lag"] is True
    assert "are behind its tables" in run("add", "c", "1", "--store", url).err

    assert run("migrate", url) == (0, f"{version}  sequences caught up with their tables\n", "")
    assert run("migrate", url, "--dry-run") == (0, version, "")
    assert run("add", "c", "1", "--store", url).code == 0
    assert run("verify", "--store", url).code == 0


@pytest.mark.usefixtures("lagging")
def test_the_sql_lets_sequences_catch_up(run: Run, url: str) -> None:
    script = run("migrate", url, "--sql").out
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())

    assert run("migrate", url, "--dry-run").code == 0
    assert run("add", "c", "1", "--store", url).code == 0


def test_an_older_schema_whose_sequences_are_behind_is_brought_up_to_date(run: Run, url: str, older: int) -> None:
    set_sequences_back(url)

    code, out, _ = run("migrate", url, "--dry-run")
    writers = f"  writers   version {OLDEST} or later"
    assert (code, out.splitlines()[1:]) == (
        1,
        [f"  to apply  {older + 1:04}", writers, "  sequences are behind their tables"],
    )

    assert run("migrate", url).code == 0
    assert run("migrate", url, "--dry-run").code == 0


@pytest.mark.parametrize("version", ["older", "none"])
def test_the_sql_can_be_applied_by_somebody_else(
    run: Run, url: str, version: str, request: pytest.FixtureRequest
) -> None:
    if version == "older":
        request.getfixturevalue("older")

    code, script, _ = run("migrate", url, "--sql")

    assert code == 0
    assert f"INSERT INTO migration (number) VALUES ({current_version()});" in script
    assert run("migrate", url, "--dry-run").code == 1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())
    assert run("migrate", url, "--dry-run").code == 0
    up_to_date = f"up to date: version {current_version()}, for writers of version {OLDEST} or later"
    assert run("migrate", url, "--sql") == (0, f"-- the schema digestif is {up_to_date}\n", "")
    assert run("add", "t", "1", "--store", url).code == 0


def test_programs_get_the_same_facts(run: Run, url: str, older: int) -> None:
    newer = older + 1
    numbers = {"from": older, "to": newer, "oldest_from": OLDEST, "oldest_to": OLDEST}
    facts = {"store": redacted(url), "schema": "digestif", **numbers, "migrations": [newer], "sequences_lag": False}

    assert run("migrate", url, "--dry-run", "--json").json == {**facts, "applied": False}
    told = json.loads(run("migrate", url, "--sql", "--json").out)
    assert told.pop("sql").startswith("BEGIN;\n")
    assert told == {**facts, "applied": False}
    assert run("migrate", url, "--json").json == {**facts, "applied": True}
    assert run("--json", "migrate", url).json == {**facts, "from": newer, "migrations": [], "applied": False}


# Which store


def test_the_store_may_be_named_as_for_other_commands(
    run: Run, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "post_office.py").write_text(f"from digestif import Digests\ndigests = Digests({url!r})\n")
    monkeypatch.syspath_prepend(str(folder))

    assert run("migrate", "--store", url).code == 0
    assert run("--store", url, "migrate").code == 0
    assert run("migrate", "--app", "post_office").code == 0
    assert "name it once" in run("migrate", url, "--store", url).err
    assert "--app brings its own store" in run("migrate", url, "--app", "post_office").err


@pytest.mark.parametrize("store", ["sqlite:///none.db", "memory://", "redis://127.0.0.1:1", "off://"])
def test_other_stores_keep_their_schema_themselves(run: Run, folder: Path, store: str) -> None:
    for options in ([], ["--dry-run"], ["--sql"]):
        assert run("migrate", store, *options) == (
            0,
            f"{'-- ' if options == ['--sql'] else ''}{store} keeps its schema up to date by itself: nothing to do\n",
            "",
        )

    assert run("migrate", store, "--json").json["migrations"] == []
    assert list(folder.iterdir()) == []


# Who may write


def test_a_dry_run_says_that_older_processes_will_be_refused(
    run: Run, url: str, older: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "OLDEST", older + 1)

    told = run("migrate", url, "--dry-run")
    facts = run("migrate", url, "--dry-run", "--json").json

    assert told.out.endswith(f"  writers   version {older + 1} or later; older processes are refused\n")
    assert (facts["oldest_from"], facts["oldest_to"]) == (OLDEST, older + 1)
    assert run("migrate", url, "--json").json["oldest_to"] == older + 1
    assert run("migrate", url, "--json").json["oldest_from"] == older + 1


# Refusals


def test_an_older_schema_is_refused_by_other_commands_with_what_to_run(run: Run, url: str, older: int) -> None:
    code, out, err = run("status", "--store", url)

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert err.endswith(f"has version {older}, this release needs {older + 1}; run `digestif migrate STORE`\n")


@pytest.mark.parametrize("option", [[], ["--dry-run"], ["--sql"]], ids=str)
def test_a_store_of_a_newer_release_is_refused(run: Run, url: str, option: list[str]) -> None:
    run("migrate", url)
    written_by_a_newer_release(url)

    code, out, err = run("migrate", url, *option)

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert "Upgrade this process" in err


def test_a_server_that_cannot_be_reached_is_told_apart(run: Run) -> None:
    code, out, err = run("migrate", f"postgresql://ada:secret@127.0.0.1:{free_port()}/app?timeout=1")

    assert (code, out) == (3, "")
    assert is_one_line(err)
    assert "secret" not in err


def test_a_user_without_rights_hears_what_to_grant(run: Run, url: str) -> None:
    with user_without_rights(url) as theirs:
        code, out, err = run("migrate", theirs)
        script = run("migrate", theirs, "--sql")

    assert (code, out) == (3, "")
    assert is_one_line(err)
    assert "GRANT CREATE ON DATABASE " in err
    assert (script.code, script.err) == (0, "")
