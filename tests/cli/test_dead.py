"""`digestif dead list`, `show`, `replay` and `discard`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from digestif import Digests, Policy
from tests.cli.runner import DEFAULT_FILE, Run


@pytest.fixture
def digests(folder: Path) -> Iterator[Digests]:
    """With one attempt for each digest."""
    with Digests(f"sqlite:///{folder / DEFAULT_FILE}", policy=Policy(attempts=1)) as digests:
        yield digests


@pytest.fixture
def dead(digests: Digests) -> list[str]:
    """The ids of two dead letters, of timelines t and u."""
    for timeline in ("t", "u"):
        digests.add_many([(timeline, number) for number in range(25)])
        with pytest.raises(TimeoutError), digests.digest(timeline):
            raise TimeoutError("no answer from the mail server")
    return [letter.id for letter in digests.dead_letters()]


def test_dead_letters_are_listed_oldest_first(run: Run, dead: list[str]) -> None:
    code, out, _ = run("dead", "list")
    head, *rows = out.splitlines()

    assert code == 0
    assert head.split() == ["id", "timeline", "records", "given", "up", "reason"]
    assert [row.split()[:3] for row in rows] == [[dead[0], "t", "25"], [dead[1], "u", "25"]]
    assert rows[0].endswith("TimeoutError: no answer from the mail server")
    assert [letter["id"] for letter in run("dead", "list", "--json").lines] == dead
    assert [letter["id"] for letter in run("dead", "list", "u", "--json").lines] == dead[1:]
    assert [letter["id"] for letter in run("dead", "list", "--after", dead[0], "--json").lines] == dead[1:]
    assert "may be more" in run("dead", "list", "--limit", "1").out


@pytest.mark.usefixtures("digests")
def test_no_dead_letters_is_good_news(run: Run) -> None:
    assert run("dead", "list") == (0, "no dead letters\n", "")
    assert run("dead", "replay", "--all") == (1, "no dead letters\n", "")


def test_a_dead_letter_is_shown_with_its_records(run: Run, dead: list[str]) -> None:
    code, out, _ = run("dead", "show", dead[0], "--limit", "3")

    assert code == 0
    assert "reason    TimeoutError: no answer from the mail server" in out
    assert [line.split()[-1] for line in out.splitlines()[-4:-1]] == ["24", "23", "22"]
    assert out.endswith("  + 22 more\n")
    assert len(run("dead", "show", dead[0], "--json").json["contents"]) == 20


def test_a_dead_letter_comes_again(run: Run, digests: Digests, dead: list[str]) -> None:
    assert run("dead", "replay", dead[0]) == (0, f"{dead[0]}: comes again: the next worker delivers it\n", "")
    with digests.digest("t") as digest:
        assert digest.id == dead[0]
    assert digests.ledger().dead == 25


def test_a_dead_letter_waits_for_an_unfinished_digest(run: Run, digests: Digests, dead: list[str]) -> None:
    digests.delete("u")
    digests.flush("t")
    digests.add("t", "newer")
    with digests.digest("t"):
        code, out, _ = run("dead", "replay", dead[0])
        answer = run("dead", "replay", "--all", "--json")

    assert code == 1
    assert "has another unfinished digest; try again" in out
    assert (answer.code, answer.json["done"]) == (1, False)


def test_a_dead_letter_stays_while_its_store_is_being_moved(run: Run, digests: Digests, dead: list[str]) -> None:
    store: Any = digests.store
    store.begin_move(0, "m", now=None)

    code, out, _ = run("dead", "replay", dead[0])

    assert code == 1
    assert "this store is being moved into another one" in out


def test_all_dead_letters_come_again(run: Run, digests: Digests, dead: list[str]) -> None:
    answer = run("dead", "replay", "--all", "--json")

    assert answer.code == 0
    assert answer.lines == [{"id": each, "done": True} for each in dead]
    assert digests.ledger().open == 50


def test_dead_letters_are_let_go(run: Run, digests: Digests, dead: list[str]) -> None:
    assert run("dead", "discard", dead[0]) == (0, f"{dead[0]}: was discarded\n", "")
    assert run("dead", "discard", "--all", "--json").lines == [{"id": dead[1], "done": True}]
    assert digests.ledger().deleted == 50


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("command", ["show", "replay", "discard"])
def test_an_unknown_id_is_no(run: Run, command: str) -> None:
    code, out, err = run("dead", command, "unknown")

    assert (code, err) == (1, "")
    assert "there is no dead letter" in out
    assert run("dead", command, "unknown", "--json").json["done"] is False


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_ids_or_all_must_be_said(run: Run, dead: list[str], command: str) -> None:
    for arguments in ([], ["--all", dead[0]]):
        code, _, err = run("dead", command, *arguments)
        assert code == 2
        assert "name the IDs of dead letters (digestif dead list), or say --all" in err
