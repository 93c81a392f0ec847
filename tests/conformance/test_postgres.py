"""PostgreSQL obeys: each test in a namespace of its own."""

from collections.abc import Iterator

import psycopg
import pytest

from digestif import Store
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager, Harm
from tests.conformance.makers import Maker, made_warm
from tests.conformance.modes import SharedRules
from tests.stores.postgres.warm import warm_database


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with warm_database() as url:
        yield url


class TestPostgres(SharedRules, StoreConformance):
    @pytest.fixture
    def make_store(self, dsn: str) -> Iterator[Maker]:
        yield from made_warm(dsn)

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store, dsn: str) -> Damager:
        def harm(how: Harm, timeline: str) -> None:
            given = {"namespace": store.namespace, "key": timeline.encode()}
            with psycopg.connect(dsn, autocommit=True, options="-c search_path=digestif") as connection:
                assert connection.execute(DAMAGE[how], given).rowcount > 0

        return harm


_OWN = "namespace = (SELECT id FROM namespace WHERE name = %(namespace)s)"
_SLOT = f"UPDATE timeline SET slot = %s WHERE key = %(key)s AND {_OWN}"
_BATCH = f"SELECT (convert_from(slot, 'UTF8')::jsonb->>'batch')::bigint FROM timeline WHERE key = %(key)s AND {_OWN}"
_PENDING = f"(SELECT key FROM record WHERE batch = ({_BATCH}) ORDER BY arrival DESC LIMIT 1) AND {_OWN}"
_IN_DIGEST = _PENDING.replace("jsonb->>'batch'", "jsonb->'digest'->>'batch'")
_IN_LETTER = _PENDING.replace(_BATCH, f"SELECT batch FROM letter WHERE timeline = %(key)s AND {_OWN}")
DAMAGE = {
    Harm.GARBLED: _SLOT.replace("%s", "substr(slot, 1, length(slot) - 1)"),
    Harm.IMPOSSIBLE: _SLOT.replace(
        "%s", """convert_to((convert_from(slot, 'UTF8')::jsonb - 'token' || '{"state": "open"}')::text, 'UTF8')"""
    ),
    Harm.IDLE: _SLOT.replace(
        "%s", """convert_to((convert_from(slot, 'UTF8')::jsonb || '{"state": "idle", "pending": 0}')::text, 'UTF8')"""
    ),
    Harm.MISPLACED: f"""UPDATE timeline SET waiting = NULL, ready = NULL, until = NULL, expires = NULL
        WHERE key = %(key)s AND {_OWN}""",
    Harm.VALUE: f"UPDATE record SET payload = NULL WHERE key = {_PENDING}",
    Harm.RECORD: f"DELETE FROM record WHERE key = {_PENDING}",
    Harm.DIGEST_VALUE: f"UPDATE record SET payload = NULL WHERE key = {_IN_DIGEST}",
    Harm.DIGEST_RECORD: f"DELETE FROM record WHERE key = {_IN_DIGEST}",
    Harm.LETTER_RECORD: f"DELETE FROM record WHERE key = {_IN_LETTER}",
    Harm.LETTER: f"UPDATE letter SET body = 'null' WHERE timeline = %(key)s AND {_OWN}",
    Harm.HISTORY: f"UPDATE history SET body = '{{' WHERE timeline = %(key)s AND {_OWN}",
}
