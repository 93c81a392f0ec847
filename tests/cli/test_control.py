"""`digestif flush`, `pause`, `resume`, `retract` and `delete`."""

import pytest

from digestif import Digest, Digests, State, Unavailable
from digestif.stores.transfer import ExportSource
from tests.cli.runner import Run


@pytest.fixture
def _waiting(digests: Digests) -> None:
    digests.add("t", 1)
    with digests.digest("t"):
        pass
    digests.add("t", 2, key="k")


pytestmark = pytest.mark.usefixtures("_waiting")


def test_flush_makes_a_waiting_timeline_ready(run: Run, digests: Digests) -> None:
    assert run("flush", "t") == (0, "t is ready: the next worker delivers it\n", "")
    assert digests.timeline("t").state is State.READY
    assert run("flush", "t") == (1, "t is ready already: the next worker delivers it\n", "")
    assert run("flush", "t", "--json") == (1, '{"timeline": "t", "done": false}\n', "")


def test_flush_of_a_timeline_without_records_promises_no_delivery(run: Run, digests: Digests) -> None:
    digests.retract("t", "k")

    assert run("flush", "t") == (0, "t has nothing pending: no message is sent, only its cool-down ends\n", "")
    assert run("flush", "t") == (1, "t has nothing pending: there is nothing to flush\n", "")
    assert run("flush", "idle") == (1, "idle has nothing pending: there is nothing to flush\n", "")


def test_flush_of_a_pattern_counts_the_timelines_without_records(run: Run, digests: Digests) -> None:
    digests.add("t2", 1)
    with digests.digest("t2"):
        pass

    assert run("flush", "t*").out == (
        "t*: 2 of 2 timelines that match: each of them is ready: the next worker delivers it; "
        "1 of them has nothing pending: no message is sent\n"
    )


def test_flush_of_a_timeline_that_is_being_delivered_says_so(run: Run, digests: Digests) -> None:
    digests.flush("t")
    with digests.digest("t"):
        assert run("flush", "t") == (1, "t is being delivered now\n", "")


def test_a_paused_timeline_is_held_back_until_it_is_resumed(run: Run, digests: Digests) -> None:
    assert run("pause", "t") == (0, "t is paused: it gathers records\n", "")
    assert digests.timeline("t").paused
    assert run("pause", "t", "--json") == (1, '{"timeline": "t", "done": false}\n', "")
    assert run("resume", "t") == (0, "t goes on\n", "")
    assert not digests.timeline("t").paused
    assert run("resume", "t", "--json") == (1, '{"timeline": "t", "done": false}\n', "")


def test_several_timelines_are_steered_at_once(run: Run) -> None:
    answer = run("pause", "t", "u", "v", "--json")

    assert answer.code == 0
    assert [each["timeline"] for each in answer.lines] == ["t", "u", "v"]
    assert run("resume", "u", "unknown").code == 1


def test_a_pending_record_is_taken_back(run: Run, digests: Digests) -> None:
    assert run("retract", "t", "k") == (0, "k of t was taken back\n", "")
    assert digests.ledger().deleted == 1
    assert run("retract", "t", "k").out.startswith("k of t is not pending")
    assert run("retract", "t", "k", "--json") == (1, '{"timeline": "t", "key": "k", "done": false}\n', "")


def test_delete_needs_somebody_to_ask_or_a_yes(run: Run, digests: Digests) -> None:
    code, _, err = run("delete", "t")

    assert (code, err) == (
        2,
        "digestif: there is no terminal to ask in; say --yes to delete; see digestif delete --help\n",
    )
    assert digests.timeline("t").pending == 1
    assert run("delete", "t", "--yes") == (0, "t was deleted\n", "")
    assert digests.timeline("t").state is State.IDLE
    assert run("delete", "t", "--yes", "--json") == (1, '{"timeline": "t", "done": false}\n', "")


@pytest.mark.parametrize(("reply", "code", "said"), [("y", 0, "t was deleted"), ("n", 1, "nothing was deleted")])
def test_delete_asks(run: Run, monkeypatch: pytest.MonkeyPatch, reply: str, code: int, said: str) -> None:
    monkeypatch.setattr("digestif.cli.control.is_interactive", lambda: True)

    answer = run("delete", "t", stdin=f"{reply}\n")

    assert (answer.code, answer.out) == (code, f"{said}\n")
    assert answer.err.startswith("Delete t with 1 pending record? [y/N]: ")


# What holds timelines back


def close_channel(digests: Digests) -> None:
    """Let a delivery of mail:ada find that the channel of mail:* can't be used."""

    @digests.handler("mail:*", channel="crm")
    def send(digest: Digest) -> None:
        raise Unavailable("535 wrong password")

    digests.notify("mail:ada", 1)


HELD = "when the channel crm is back, which is down: 535 wrong password"


def test_flush_promises_no_delivery_while_the_channel_is_down(run: Run, digests: Digests) -> None:
    close_channel(digests)

    assert run("flush", "mail:ada") == (0, f"mail:ada is ready: it leaves {HELD}\n", "")


def test_flush_of_a_pattern_says_how_many_wait_for_a_channel(run: Run, digests: Digests) -> None:
    close_channel(digests)

    out = run("flush", "*").out

    assert out == (
        f"*: 2 of 2 timelines that match: each of them is ready: 1 of them leaves {HELD}; "
        "the next worker delivers the others\n"
    )


def test_resume_says_that_the_channel_is_down(run: Run, digests: Digests) -> None:
    close_channel(digests)
    digests.pause("mail:ada")

    assert run("resume", "mail:ada") == (0, f"mail:ada goes on; it leaves {HELD}\n", "")


def test_flush_of_a_paused_timeline_says_that_it_stays(run: Run, digests: Digests) -> None:
    digests.pause("t")

    assert run("flush", "t") == (
        0,
        "t is ready: it leaves after digestif resume, because of a pause\n",
        "",
    )


def test_resume_in_a_store_that_is_being_moved_says_that_it_waits_for_the_move(run: Run, digests: Digests) -> None:
    digests.pause("t")
    assert isinstance(digests.store, ExportSource)
    digests.store.begin_move(0, "m", now=None)

    assert run("resume", "t").out == "t goes on; it leaves when the move of this store has ended\n"


@pytest.mark.parametrize("command", ["flush", "pause", "resume", "delete"])
def test_a_timeline_must_be_named(run: Run, command: str) -> None:
    code, _, err = run(command)

    assert code == 2
    assert "Missing argument 'TIMELINE" in err


# Patterns


@pytest.fixture
def _several(digests: Digests) -> None:
    for name in ("mail:ada", "mail:bob", "chat:ada"):
        digests.add(name, 1)
        with digests.digest(name):
            pass
        digests.add(name, 2)


@pytest.mark.usefixtures("_several")
def test_a_pattern_stands_for_all_timelines_that_match(run: Run, digests: Digests) -> None:
    assert run("pause", "mail:*") == (
        0,
        "mail:*: 2 of 2 timelines that match: each of them is paused: it gathers records\n",
        "",
    )
    assert [digests.timeline(name).paused for name in ("mail:ada", "mail:bob", "chat:ada")] == [True, True, False]
    assert run("pause", "mail:*", "--json") == (1, '{"pattern": "mail:*", "matched": 2, "done": 0}\n', "")
    assert run("resume", "*:ada", "--json").json == {"pattern": "*:ada", "matched": 2, "done": 1}
    assert run("flush", "*:ada", "--json").json == {"pattern": "*:ada", "matched": 2, "done": 2}
    assert run("flush", "sms:*") == (1, "sms:*: no stored timeline matches\n", "")


@pytest.mark.usefixtures("_several")
def test_delete_of_a_pattern_says_how_many_and_asks(
    run: Run, digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("delete", "mail:*").code == 2
    monkeypatch.setattr("digestif.cli.control.is_interactive", lambda: True)

    refused = run("delete", "mail:*", stdin="n\n")
    assert (refused.code, refused.out) == (1, "nothing was deleted\n")
    assert refused.err.startswith("Delete mail:* (2 timelines) with 2 pending records? [y/N]: ")
    assert run("delete", "mail:*", stdin="y\n").out == "mail:*: 2 of 2 timelines that match: each of them was deleted\n"
    assert [timeline.key for timeline in digests.timelines()] == ["chat:ada", "t"]


def test_delete_of_a_pattern_finds_timelines_that_have_only_dead_letters(run: Run, digests: Digests) -> None:
    digests.add("mail:ada", 1)
    for _ in range(digests.policy.attempts):
        with pytest.raises(KeyError), digests.digest("mail:ada"):
            raise KeyError
    digests.delete("t")
    assert digests.dead_letters()

    assert run("pause", "mail:*", "--json").json["matched"] <= 1
    assert run("delete", "mail:*", "--yes", "--json").json["done"] == 1
    assert digests.dead_letters() == []


def test_a_pattern_matches_more_timelines_than_a_page(run: Run, digests: Digests) -> None:
    digests.add_many([(f"many:{number:04}", 1) for number in range(1203)])

    assert run("pause", "many:*", "--json").json == {"pattern": "many:*", "matched": 1203, "done": 1203}


@pytest.mark.usefixtures("_several")
def test_exact_takes_a_star_for_a_star(run: Run, digests: Digests) -> None:
    digests.add("mail:*", 1)

    assert run("pause", "mail:*", "--exact").out == "mail:* is paused: it gathers records\n"
    assert run("resume", "mail:*", "--exact").out == "mail:* goes on\n"
    assert run("flush", "mail:*", "--exact").code == 1
    assert run("delete", "mail:*", "--exact", "--yes").out == "mail:* was deleted\n"
    assert [each.key for each in digests.timelines(prefix="mail:")] == ["mail:ada", "mail:bob"]
    assert not any(each.paused for each in digests.timelines())


@pytest.mark.usefixtures("_several")
def test_delete_of_an_exact_name_asks_about_one_timeline(
    run: Run, digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("digestif.cli.control.is_interactive", lambda: True)

    answer = run("delete", "mail:*", "--exact", stdin="n\n")

    assert answer.err.startswith("Delete mail:* with 0 pending records? [y/N]: ")
