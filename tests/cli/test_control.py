"""`digestif flush`, `pause`, `resume`, `retract` and `delete`."""

import pytest

from digestif import Digests, State
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
    assert run("flush", "t") == (1, "t is not waiting: there is nothing to flush\n", "")
    assert run("flush", "t", "--json") == (1, '{"timeline": "t", "done": false}\n', "")


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


@pytest.mark.parametrize("command", ["flush", "pause", "resume", "delete"])
def test_a_timeline_must_be_named(run: Run, command: str) -> None:
    code, _, err = run(command)

    assert code == 2
    assert "Missing argument 'TIMELINE" in err
