"""`digestif send-test`."""

from pathlib import Path

import pytest

from digestif.channels import Channel, DeliveryFailed, Format, Message, Receipt, Unavailable
from digestif.cli import send_test
from digestif.testing.servers import free_port
from tests.cli.runner import Run, is_one_line

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY%3D"


def test_a_message_goes_through_the_channel_and_its_receipt_is_shown(run: Run, folder: Path) -> None:
    code, out, err = run("send-test", f"file://{folder}/out", "ada@example.org")

    assert (code, err) == (0, "")
    assert out.startswith("sent to ada@example.org through file")
    [file] = [path for path in (folder / "out").rglob("*") if path.is_file()]
    assert "This channel works" in file.read_text("utf-8")


def test_programs_get_the_receipt_as_json(run: Run, folder: Path) -> None:
    known = run("send-test", f"file://{folder}/out", "ada@example.org", "--json").json

    assert (known["sent"], known["recipient"]) == (True, "ada@example.org")
    assert set(known["receipt"]) == {"id", "detail"}


def test_a_channel_that_cannot_be_reached_says_why_and_what_to_do(run: Run) -> None:
    dsn = f"webhook+http://127.0.0.1:{free_port()}/secret-path?allow_private=yes&secret={SECRET}"

    code, out, _ = run("send-test", dsn, "ada")
    known = run("send-test", dsn, "ada", "--json").json

    assert code == 3
    assert out.startswith("not sent to ada: ")
    assert "check the address" in out
    assert "secret-path" not in out
    assert (known["sent"], known["kind"]) == (False, "unavailable")


@pytest.mark.parametrize(
    ("error", "kind", "code", "advice"),
    [
        (DeliveryFailed("550 no such user", retry=False), "gone", 1, "check the recipient"),
        (DeliveryFailed("552 too big"), "refused", 1, "check the recipient"),
        (DeliveryFailed("slow down", throttled=True, after=30), "throttled", 1, "try again in 30 s"),
        (DeliveryFailed("no answer", unknown=True), "unknown", 1, "may have arrived"),
        (Unavailable("535 wrong password"), "unavailable", 3, "the password"),
        (KeyError("x"), "refused", 1, "check the recipient"),
    ],
)
def test_each_kind_of_failure_has_its_code_and_advice(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, code: int, advice: str
) -> None:
    class Failing(Channel):
        scheme = "failing"
        formats = frozenset({Format.TEXT})

        async def deliver(self, message: Message) -> Receipt:
            raise error

    monkeypatch.setattr("digestif.channels.registry.open_channel", lambda _: Failing())

    answer = run("send-test", "failing://", "ada", "--json")

    assert (answer.code, answer.json["kind"]) == (code, kind)
    assert advice in answer.json["advice"]
    assert str(error) in answer.json["reason"] or isinstance(error, KeyError)


def test_a_channel_that_never_answers_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    class Silent(Channel):
        scheme = "silent"
        formats = frozenset({Format.TEXT})

        async def deliver(self, message: Message) -> Receipt:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("digestif.channels.registry.open_channel", lambda _: Silent())

    code, out, _ = run("send-test", "silent://", "ada", "--timeout", "1")

    assert code == 1
    assert "no answer within 1 s; it may have arrived all the same" in out


def test_a_wrong_channel_is_wrong_usage(run: Run) -> None:
    code, _, err = run("send-test", "nope://secret@host", "ada")

    assert code == 2
    assert is_one_line(err)
    assert "secret" not in err


def test_the_message_has_every_format() -> None:
    message = send_test._message("ada")

    assert all([message.text, message.html, message.markdown, message.blocks, message.data])
