"""`digestif migrate`: brings the tables of a store up to date with this release."""

from typing import TYPE_CHECKING, Any, TypeGuard

import click

from digestif.cli.session import Session, shared_options

if TYPE_CHECKING:
    from digestif.stores.base import Store
    from digestif.stores.postgres import PostgresStore
    from digestif.stores.postgres.migrations import Upgrade

SELF_MADE = ("sqlite://", "memory://")  # not even opened: that would make the file


@click.command()
@click.argument("store_", metavar="[STORE]", required=False)
@click.option("--dry-run", is_flag=True, help="Change nothing. Exit code 1 if there is something to apply.")
@click.option("--sql", "as_sql", is_flag=True, help="Change nothing; print the SQL, for an administrator to apply.")
@shared_options()
def migrate(store_: str | None, *, dry_run: bool, as_sql: bool, **options: Any) -> int:
    """Bring the schema of a PostgreSQL store up to date.

    STORE is the same as --store. An empty schema needs no call: its tables are made on first use.
    """
    if store_ and options["store"]:
        raise click.UsageError("STORE and --store are the same; name it once")
    session = Session(click.get_current_context(), {**options, "store": store_ or options["store"]})
    applies = not dry_run and not as_sql
    upgrade = _upgrade(session, applies=applies)
    text = _in_words(session, upgrade, applied=applies)
    script = upgrade.script if upgrade else ""
    document = {"store": session.place, **_facts(upgrade, applied=applies), **({"sql": script} if as_sql else {})}
    session.answer((script or f"-- {text}") if as_sql else text, document, exact=as_sql)
    return 1 if dry_run and upgrade and upgrade.is_needed else 0


def _upgrade(session: Session, *, applies: bool) -> "Upgrade | None":
    """The migrations that are missing, applied or not; None for a store without migrations."""
    if session.place.lower().startswith(SELF_MADE):
        return None
    with session.digests(reaches=False) as digests:
        return digests.store.migrate(dry_run=not applies) if has_migrations(digests.store) else None


def has_migrations(store: "Store") -> "TypeGuard[PostgresStore]":
    return hasattr(store, "migrate")


def _in_words(session: Session, upgrade: "Upgrade | None", *, applied: bool) -> str:
    if upgrade is None:
        return f"{session.place} keeps its schema up to date by itself: nothing to do"
    schema, latest = upgrade.schema, f"version {upgrade.latest}"
    behind = f"\n  sequences {'caught up with' if applied else 'are behind'} their tables" if upgrade.lags else ""
    writers = f"  writers   {_writers(upgrade)}"
    if not upgrade.numbers:
        version = max(upgrade.version or 0, upgrade.latest)
        return f"the schema {schema} is up to date: version {version}, for writers of {_writers(upgrade)}{behind}"
    before = "no tables" if upgrade.version is None else f"version {upgrade.version}"
    numbers = ", ".join(f"{number:04}" for number in upgrade.numbers)
    if applied:
        return f"the schema {schema} went from {before} to {latest}\n  applied   {numbers}\n{writers}{behind}"
    return f"the schema {schema} has {before}, this release needs {latest}\n  to apply  {numbers}\n{writers}{behind}"


def _writers(upgrade: "Upgrade") -> str:
    """Say which processes may write the tables once the migrations are applied."""
    may_write = f"version {upgrade.oldest_after} or later"
    if upgrade.oldest in (None, upgrade.oldest_after):
        return may_write
    return f"{may_write}; older processes are refused"


def _facts(upgrade: "Upgrade | None", *, applied: bool) -> dict[str, Any]:
    return {
        "schema": upgrade and upgrade.schema,
        "from": upgrade and (upgrade.version or 0),
        "to": upgrade and max(upgrade.version or 0, upgrade.latest),
        "oldest_from": upgrade and (upgrade.oldest or 0),
        "oldest_to": upgrade and upgrade.oldest_after,
        "migrations": list(upgrade.numbers) if upgrade else [],
        "sequences_lag": bool(upgrade and upgrade.lags),
        "applied": applied and bool(upgrade and upgrade.is_needed),
    }


COMMANDS = [migrate]
