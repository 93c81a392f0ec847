"""Connections that are lost at the commit: the store asks the server for its outcome, and answers accordingly."""

from functools import cache
from typing import Any

import pytest

from digestif import Digests, StoreUnavailable
from digestif.testing.postgres import PostgresServer
from tests.stores.postgres.lost_answers import answers_of
from tests.stores.postgres.proxy import Loss, Proxy
from tests.stores.postgres.servers import empty_database
from tests.stores.redis.lives import EVERYDAY, POLICY

pytestmark = pytest.mark.long


@cache
def undisturbed() -> tuple[str, ...]:
    with empty_database() as url, Digests(url, policy=POLICY) as digests:
        return answers_of(digests)


@pytest.mark.parametrize(
    ("loss", "first"),
    [(Loss.ANSWER, True), (Loss.ANSWER, False), (Loss.REQUEST, True), (Loss.SILENCE, False)],
    ids=["answers", "the other answers", "requests", "requests, in silence"],
)
def test_a_call_that_is_lost_at_its_commit_answers_truly_and_counts_once(url: str, loss: Loss, first: bool) -> None:
    with Proxy(url) as proxy, Digests(proxy.url, policy=POLICY) as digests:
        digests.ledger()
        proxy.lose_from_now_on(loss, first=first)
        account = answers_of(digests)
        proxy.lose = None

        assert account == undisturbed()
        assert proxy.lost > len(EVERYDAY) / 3
        assert digests.verify()


@pytest.mark.parametrize("loss", Loss)
def test_a_single_add_is_answered_as_it_was_decided(url: str, loss: Loss) -> None:
    with Proxy(url) as proxy, Digests(proxy.url, policy=POLICY) as digests:
        digests.ledger()
        proxy.lose = loss

        answers = [digests.add("t", number, key=str(number % 2)) for number in range(4)]

        assert proxy.lost >= 2
        proxy.lose = None
        assert answers == [True, False, False, False]
        assert (digests.ledger().accepted, digests.ledger().superseded) == (4, 2)
        assert digests.verify()


def test_what_others_did_meanwhile_does_not_hide_that_it_took_place(url: str) -> None:
    """A worker may have delivered the record before its producer can ask."""
    with Proxy(url) as proxy, Digests(f"{proxy.url}?timeout=5", policy=POLICY) as digests, Digests(url) as others:
        others.ledger()
        digests.ledger()
        ask = digests.store._database._has_committed  # type: ignore[attr-defined]

        def ask_late(transaction: Any) -> bool:
            with others.digest("t"):
                pass
            answer: bool = ask(transaction)
            return answer

        digests.store._database._has_committed = ask_late  # type: ignore[attr-defined]
        proxy.lose = Loss.ANSWER

        assert digests.add("t", 1) is True

        assert (others.ledger().accepted, others.ledger().delivered) == (1, 1)
        assert others.verify()


def test_a_server_that_crashed_meanwhile_gives_the_same_id_to_others_who_are_not_taken_for_it() -> None:
    """A crash loses transactions, and their ids, that are not in the log yet; it is written every ten seconds here."""
    with (
        PostgresServer(fsync=False, wal_writer_delay=10_000) as server,
        Proxy(server.url) as proxy,
        Digests(proxy.url) as digests,
    ):
        digests.add("before", 1)
        ask = digests.store._database._has_committed  # type: ignore[attr-defined]

        def ask_after_a_crash(transaction: Any) -> bool:
            server.restart(immediate=True)
            while int(server.sql("SELECT pg_current_xact_id()::text")[0][0]) < int(transaction.number):
                pass
            answer: bool = ask(transaction)
            return answer

        digests.store._database._has_committed = ask_after_a_crash  # type: ignore[attr-defined]
        proxy.lose = Loss.REQUEST

        with pytest.raises(StoreUnavailable, match="it is unknown"):
            digests.add("t", 1)


def test_commits_that_never_arrive_are_not_repeated_for_ever(url: str) -> None:
    with Proxy(url) as proxy, Digests(f"{proxy.url}?timeout=1", policy=POLICY) as digests:
        digests.ledger()
        proxy.lose, proxy.always = Loss.REQUEST, True

        with pytest.raises(StoreUnavailable, match="nothing took place"):
            digests.add("t", 1)

        proxy.lose = None
        assert digests.ledger().accepted == 0


def test_a_server_that_does_not_come_back_leaves_it_unknown() -> None:
    with (
        PostgresServer(fsync=False) as server,
        Proxy(server.url) as proxy,
        Digests(f"{proxy.url}?timeout=1") as digests,
    ):
        digests.add("before", 1)
        ask = digests.store._database._has_committed  # type: ignore[attr-defined]

        def ask_nobody(transaction: Any) -> bool:
            server.kill()
            answer: bool = ask(transaction)
            return answer

        digests.store._database._has_committed = ask_nobody  # type: ignore[attr-defined]
        proxy.lose = Loss.ANSWER

        with pytest.raises(StoreUnavailable, match="it is unknown"):
            digests.add("t", 1)
