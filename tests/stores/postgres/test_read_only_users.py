"""A user with the right to read only, such as a dashboard, queries a store."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from digestif import Digests, StoreUnavailable
from tests.stores.postgres.releases import user_without_rights


@pytest.fixture
def readers(url: str) -> Iterator[str]:
    """The URL of a user with the rights that the documentation names."""
    with Digests(url) as digests:
        digests.add("t", "first")
    with user_without_rights(url) as theirs:
        user = sql.Identifier(str(conninfo_to_dict(theirs)["user"]))
        with psycopg.connect(url, autocommit=True) as administrator:
            administrator.execute(sql.SQL("GRANT USAGE ON SCHEMA digestif TO {}").format(user))
            administrator.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA digestif TO {}").format(user))
        yield theirs


def test_a_user_who_may_only_read_sees_everything(readers: str) -> None:
    with Digests(readers) as digests:
        assert [record.value for record in digests.peek("t")] == ["first"]
        assert digests.ledger().pending == 1
        assert digests.timeline("t").state == "ready"
        assert digests.explain("t").state == "ready"
        assert digests.backlog().ready == 1
        assert [view.key for view in digests.timelines()] == ["t"]
        assert list(digests.dead_letters()) == []
        assert list(digests.history()) == []
        assert digests.verify()


def test_what_was_added_inside_a_transaction_is_seen_once_somebody_else_has_come_by(url: str, readers: str) -> None:
    with Digests(url) as digests, psycopg.connect(url) as caller:
        digests.add("t", "inside", connection=caller)
        caller.commit()

        with Digests(readers) as looking:
            assert [record.value for record in looking.peek("t")] == ["first"]
            assert digests.ledger().pending == 2
            assert len(list(looking.peek("t"))) == 2


def test_a_user_who_may_only_read_hears_why_nothing_is_added(readers: str) -> None:
    with Digests(readers) as digests:
        for act in (lambda: digests.add("t", 2), lambda: digests.add_many([("t", 2), ("u", 3)])):
            with pytest.raises(StoreUnavailable, match=r"permission denied for .*check .* the rights on the schema"):
                act()


def test_a_namespace_that_is_not_there_has_to_be_made_by_somebody_who_may(url: str, readers: str) -> None:
    with Digests(readers, namespace="other") as digests:
        with pytest.raises(StoreUnavailable, match=r"permission denied for table namespace; .* needs .* INSERT"):
            digests.ledger()
        with Digests(url, namespace="other") as made:
            made.ledger()

        assert digests.ledger().pending == 0
