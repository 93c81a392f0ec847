"""The short way of a single add: it notices changes between its look and its save."""

import threading
from collections.abc import Callable

import psycopg
import pytest

from digestif import Digests
from digestif.stores.postgres.rows import PostgresRows
from digestif.stores.postgres.single_add import SingleAdd


def deliver(digests: Digests) -> None:
    with digests.digest("t"):
        pass


OTHERS: dict[str, Callable[[Digests], object]] = {
    "the same record": lambda digests: digests.add("t", "theirs", key="k"),
    "another record": lambda digests: digests.add("t", "theirs", key="other"),
    "the same record, among others": lambda digests: digests.add_many([("t", "theirs"), ("u", "theirs")]),
    "a retraction": lambda digests: digests.retract("t", "first"),
    "a delivery": deliver,
    "the end of the timeline": lambda digests: digests.delete("t"),
    "a pause": lambda digests: digests.pause("t"),
}


@pytest.mark.parametrize("first", [True, False], ids=["of a timeline", "of a new timeline"])
@pytest.mark.parametrize("other", OTHERS)
def test_an_add_that_is_overtaken_after_its_look_looks_again(
    digests: Digests, monkeypatch: pytest.MonkeyPatch, other: str, first: bool
) -> None:
    if first or other == "a delivery":
        digests.add("t", "first", key="first")
    accepted = digests.ledger().accepted
    save = SingleAdd.save

    def overtaken(self: SingleAdd, channel: str) -> bool:
        monkeypatch.undo()
        OTHERS[other](digests)
        return save(self, channel)

    monkeypatch.setattr(SingleAdd, "save", overtaken)
    digests.add("t", "ours", key="k")

    assert "ours" in [record.value for record in digests.peek("t")]
    assert digests.ledger().accepted > accepted
    assert digests.verify()


def test_it_takes_no_transaction_of_several_statements(digests: Digests, monkeypatch: pytest.MonkeyPatch) -> None:
    digests.ledger()
    monkeypatch.setattr(PostgresRows, "_execute", None)  # the long way is closed

    answers = [digests.add("t", version, key="k") for version in range(3)]
    monkeypatch.undo()

    assert answers == [True, False, False]
    assert [record.value for record in digests.peek("t")] == [2]
    assert (digests.ledger().pending, digests.ledger().superseded) == (1, 2)


@pytest.mark.parametrize("single", [True, False], ids=["add", "add_many"])
def test_an_add_waits_for_its_share_of_the_ledger_and_counts_in_it(digests: Digests, url: str, single: bool) -> None:
    digests.add_many([("t", 1), ("u", 1)])
    with psycopg.connect(url) as other:
        other.execute("UPDATE digestif.ledger SET accepted = accepted + 0")
        adding = threading.Thread(
            target=lambda: digests.add("t", 2) if single else digests.add_many([("t", 2), ("u", 2)])
        )
        adding.start()
        while not other.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
            pass
        other.commit()
        adding.join()

    assert digests.ledger().accepted == (3 if single else 4)
    assert digests.verify()
