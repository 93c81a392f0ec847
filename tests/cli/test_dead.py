"""`digestif dead list`, `show`, `replay`, `requeue` and `discard`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from digestif import Digest, Digests, Policy, Unavailable
from digestif.stores.base import Burial
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


def bury(digests: Digests, timeline: str, *, unknown: bool = False) -> str:
    """One more dead letter, with one record; its id."""
    digests.add(timeline, "one more")
    digests.flush(timeline)
    lease = digests.store.open(timeline, token=f"of {timeline}", lease=30_000, now=None)
    digests.store.bury([Burial(lease, "no answer", 0, unknown=unknown)], now=None)
    return lease.digest_id


def test_dead_letters_are_listed_oldest_first(run: Run, dead: list[str]) -> None:
    code, out, _ = run("dead", "list")
    head, *rows = out.splitlines()

    assert code == 0
    assert head.split() == ["id", "timeline", "records", "given", "up", "sent", "reason"]
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


def test_which_letters_may_have_gone_out_is_told(run: Run, digests: Digests, dead: list[str]) -> None:
    store = digests.store
    digests.add_many([("v", 1), ("w", 2)])
    [v, w] = [store.open(name, token=name, lease=30_000, now=None) for name in ("v", "w")]
    store.mark_served(w, ["ada"], now=None)
    store.bury([Burial(v, "no answer", 0, unknown=True), Burial(w, "no answer", 0)], now=None)

    rows = run("dead", "list").out.splitlines()[1:]
    shown = {name: run("dead", "show", name).out for name in (dead[0], v.digest_id, w.digest_id)}

    assert [re.findall(" (no|maybe|partly) ", row)[0] for row in rows] == ["no", "no", "maybe", "partly"]
    assert [letter["sent"] for letter in run("dead", "list", "--json").lines] == ["no", "no", "maybe", "partly"]
    assert run("dead", "show", v.digest_id, "--json").json["sent"] == "maybe"
    assert "sent      no: every attempt failed" in shown[dead[0]]
    assert "sent      maybe: an attempt may have gone out" in shown[v.digest_id]
    assert "sent      partly: some recipients have it" in shown[w.digest_id]


# Replay


def test_a_dead_letter_comes_again(run: Run, digests: Digests, dead: list[str]) -> None:
    assert run("dead", "replay", dead[0]) == (0, f"{dead[0]} of t: comes again: the next worker delivers it\n", "")
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
    assert "has an unfinished digest; replay" in out
    assert (answer.code, answer.json["done"], answer.json["timeline"]) == (1, False, "t")


def test_a_dead_letter_stays_while_its_store_is_being_moved(run: Run, digests: Digests, dead: list[str]) -> None:
    store: Any = digests.store
    store.begin_move(0, "m", now=None)

    code, out, _ = run("dead", "replay", dead[0])

    assert code == 1
    assert "this store is being moved into another one" in out


def test_all_dead_letters_come_again(run: Run, digests: Digests, dead: list[str]) -> None:
    answer = run("dead", "replay", "--all", "--json")

    assert answer.code == 0
    assert answer.lines == [{"id": each, "timeline": of, "done": True} for each, of in zip(dead, "tu", strict=True)]
    assert digests.ledger().open == 50


def test_a_refusal_stops_no_other_replay(run: Run, digests: Digests, dead: list[str]) -> None:
    """The second of one timeline is busy, that of one that is off is refused; a paused one is no obstacle."""
    second = bury(digests, "t")
    off, paused = bury(digests, "off"), bury(digests, "paused")
    digests.prefer("off", "off")
    digests.pause("paused")

    code, out, err = run("dead", "replay", "--all")

    lines = out.splitlines()
    again = "comes again: the next worker delivers it"
    assert (code, err) == (1, "")
    assert lines[:2] == [f"{dead[0]} of t: {again}", f"{dead[1]} of u: {again}"]
    assert lines[2].startswith(f"{second} of t: 't' has an unfinished digest")
    assert lines[3].startswith(f"{off} of off: 'off' is switched off: prefer() another cadence")
    assert lines[4:] == [
        f"{paused} of paused: comes again: it leaves after digestif resume, because of a pause",
        "3 of 5 dead letters replayed",
    ]


def test_a_replay_promises_no_delivery_while_the_channel_is_down(run: Run, digests: Digests) -> None:
    letter = bury(digests, "mail:bob")

    @digests.handler("mail:*", channel="crm")
    def send(digest: Digest) -> None:
        raise Unavailable("535 wrong password")

    digests.notify("mail:ada", 1)

    assert run("dead", "replay", letter).out == (
        f"{letter} of mail:bob: comes again: "
        "it leaves when the channel crm is back, which is down: 535 wrong password\n"
    )


def test_the_letters_of_one_timeline_come_again(run: Run, digests: Digests, dead: list[str]) -> None:
    assert [line["id"] for line in run("dead", "replay", "--timeline", "u", "--json").lines] == [dead[1]]
    assert [letter.id for letter in digests.dead_letters()] == [dead[0]]
    assert run("dead", "replay", "--timeline", "none") == (1, "no dead letters\n", "")


# Requeue


def test_dead_letters_of_a_timeline_are_requeued_together(run: Run, digests: Digests, dead: list[str]) -> None:
    second = bury(digests, "t")

    code, out, err = run("dead", "requeue", "--timeline", "t")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{dead[0]} of t: its records wait for the next digest",
        f"{second} of t: its records wait for the next digest",
        "2 of 2 dead letters requeued",
    ]
    assert digests.timeline("t").pending == 26
    assert [letter.id for letter in digests.dead_letters()] == [dead[1]]
    assert digests.verify()


def test_a_refusal_stops_no_other_requeue(run: Run, digests: Digests, dead: list[str]) -> None:
    unknown, off = bury(digests, "v", unknown=True), bury(digests, "off")
    digests.prefer("off", "off")
    after = bury(digests, "x")

    answer = run("dead", "requeue", "--all", "--json")

    assert answer.code == 1
    assert [(line["id"], line["done"]) for line in answer.lines] == [
        *((each, True) for each in dead),
        (unknown, False),
        (off, False),
        (after, True),
    ]
    assert "may have gone out" in answer.lines[2]["reason"]
    assert "switched off" in answer.lines[3]["reason"]
    assert [letter.id for letter in digests.dead_letters()] == [unknown, off]
    forced = run("dead", "requeue", unknown, off, "--force")
    assert forced.code == 1
    assert forced.out.splitlines()[0] == f"{unknown} of v: its records wait for the next digest"
    assert [letter.id for letter in digests.dead_letters()] == [off]


def test_the_policy_of_the_program_decides(run: Run, folder: Path, digests: Digests, dead: list[str]) -> None:
    program = (
        f"from digestif import *\ndigests = Digests('sqlite:///{folder / DEFAULT_FILE}', policy=Policy(capacity=10))"
    )
    (folder / "requeuing.py").write_text(program)

    assert run("dead", "requeue", dead[0], "--app", "requeuing:digests").code == 0

    assert (digests.ledger().pending, digests.ledger().dropped) == (10, 15)


# Discard


def test_dead_letters_are_let_go(run: Run, digests: Digests, dead: list[str]) -> None:
    assert run("dead", "discard", dead[0]) == (0, f"{dead[0]} of t: was discarded\n", "")
    lines = run("dead", "discard", "--all", "--yes", "--json").lines
    assert lines == [{"id": dead[1], "timeline": "u", "done": True}]
    assert digests.ledger().deleted == 50


@pytest.mark.parametrize("which", [["--all"], ["--timeline", "t"], ["--all", "--json"]])
def test_many_are_not_let_go_without_a_yes(run: Run, digests: Digests, dead: list[str], which: list[str]) -> None:
    code, out, err = run("dead", "discard", *which)

    assert (code, out) == (2, "")
    assert "there is no terminal to ask in; say --yes to discard" in err
    assert [letter.id for letter in digests.dead_letters()] == dead


@pytest.mark.parametrize(("reply", "code", "left"), [("y", 0, 0), ("n", 1, 2), ("", 1, 2)])
@pytest.mark.parametrize("as_json", [False, True])
def test_before_many_are_let_go_it_asks(
    run: Run,
    digests: Digests,
    dead: list[str],
    monkeypatch: pytest.MonkeyPatch,
    reply: str,
    code: int,
    left: int,
    as_json: bool,
) -> None:
    monkeypatch.setattr("digestif.cli.dead.is_interactive", lambda: True)

    answer = run("dead", "discard", "--all", *(["--json"] if as_json else []), stdin=f"{reply}\n")

    assert answer.code == code
    assert answer.err.startswith("discard 2 dead letters with 50 records? [y/N]: ")
    assert ("nothing was discarded" in (answer.err if as_json else answer.out)) == bool(left)
    assert len(digests.dead_letters()) == left == len(dead) - (2 - left)


def test_where_there_are_none_it_does_not_ask(run: Run, digests: Digests) -> None:
    assert digests.dead_letters() == []
    assert run("dead", "discard", "--all") == (1, "no dead letters\n", "")


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("command", ["show", "replay", "requeue", "discard"])
def test_an_unknown_id_is_no(run: Run, command: str) -> None:
    code, out, err = run("dead", command, "unknown")

    assert (code, err) == (1, "")
    assert "there is no dead letter" in out
    assert run("dead", command, "unknown", "--json").json["done"] is False


@pytest.mark.parametrize("command", ["replay", "requeue", "discard"])
def test_ids_or_all_must_be_said(run: Run, dead: list[str], command: str) -> None:
    for arguments in ([], ["--all", dead[0]], ["--timeline", "t", "--all"], ["--timeline", "t", dead[0]]):
        code, _, err = run("dead", command, *arguments)
        assert code == 2
        assert "name the IDs of dead letters (digestif dead list), or say --all or --timeline" in err
