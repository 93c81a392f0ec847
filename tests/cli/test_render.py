"""`digestif render`."""

from pathlib import Path

import pytest

from digestif import Digests
from tests.cli.runner import Run, is_one_line

APP = """
from digestif import Digests
digests = Digests("sqlite:///digestif.db")
digests.route(
    "mail:*", channel="terminal://", group_by=["project"], zone="Asia/Tokyo", hours=12,
    links={"open": "https://shop.example/{recipient}"}, title="Shop news",
    items=2, wording=lambda recipient: {"record": (f"{recipient}’s order", f"{recipient}’s orders")},
)
"""


DISCARDING = """
from digestif import Digests, Discard
def refuse(timeline):
    raise Discard("has left")
digests = Digests("sqlite:///digestif.db")
digests.route("mail:*", channel="terminal://", to=refuse)
"""


def test_samples_are_shown_without_a_store(run: Run) -> None:
    code, out, _ = run("render")

    assert code == 0
    assert "3 × Build failed on main" in out
    assert run("render", "--format", "subject").out == "Build failed on main and 4 more (8 events)\n"
    assert '"type":"header"' in run("render", "--format", "slack").out.replace(" ", "")


def test_a_file_gets_the_format_that_its_name_says(run: Run, folder: Path) -> None:
    assert run("render", "--output", "mail.html").code == 0
    assert run("render", "--output", "mail.md", "--json").json == {
        "format": "markdown",
        "file": "mail.md",
        "hidden": {},
    }

    assert "<html" in (folder / "mail.html").read_text("utf-8")
    assert "**3 ×** Build failed on main" in (folder / "mail.md").read_text("utf-8")


def test_pending_records_are_shown_as_the_route_of_the_application_says(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "rendered_shop.py").write_text(APP, "utf-8")
    monkeypatch.syspath_prepend(folder)
    with Digests("sqlite:///digestif.db") as digests:
        for number in range(3):
            digests.add("mail:ada", {"project": f"p{number % 2}"}, timestamp=1_700_000_000.0)
        for text in ("one", "two", "three"):
            digests.add("mail:ada", {"project": "news", "text": text}, timestamp=1_700_000_000.0)

    out = run("render", "--app", "rendered_shop", "--timeline", "mail:ada").out

    assert "Shop news" in out
    assert "2 × p0" in out
    assert "6 ada’s orders" in out
    assert "- three · 7:13 am\n    - two · 7:13 am\n    … and 1 more\n" in out
    assert "7:13 am" in out
    assert "https://shop.example/ada" in out


def test_what_a_route_discards_is_told(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "leavers.py").write_text(DISCARDING)
    monkeypatch.syspath_prepend(folder)
    run("add", "mail:ada", '"Hello"', "--app", "leavers:digests")

    code, out, error = run("render", "--timeline", "mail:ada", "--app", "leavers:digests")

    assert (code, out) == (1, "")
    assert error == "digestif: nothing would be sent of 'mail:ada': its route discards it: has left\n"


def test_times_are_in_the_zone_that_the_reader_chose(run: Run, digests: Digests) -> None:
    digests.prefer("mail:ada", "daily", zone="Asia/Tokyo")
    digests.add("mail:ada", {"title": "Build 7 failed"}, timestamp=1_700_000_000.0)

    assert "07:13 (Asia/Tokyo)" in run("render", "--timeline", "mail:ada").out
    assert "22:13 (UTC)" in run("render", "--timeline", "mail:ada", "--zone", "UTC").out

    digests.prefer("mail:ada", "instant", zone="America/New_York")  # which has no window
    assert "17:13 (America/New_York)" in run("render", "--timeline", "mail:ada").out


def test_a_route_without_a_recipient_says_so(run: Run, folder: Path) -> None:
    (folder / "shop_without.py").write_text(
        "from digestif import Digests\n"
        "digests = Digests('sqlite:///digestif.db')\n"
        "digests.route('mail:*', channel='file:///out', to=lambda timeline: None)\n",
        "utf-8",
    )
    assert run("--app", "shop_without", "add", "mail:ada", "1").code == 0

    code, out, err = run("--app", "shop_without", "render", "--timeline", "mail:ada")

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert "to: gave None; return the recipient as a text, or raise Discard" in err


def test_fields_may_be_named(run: Run, digests: Digests) -> None:
    for number in range(4):
        digests.add("t", {"rule": "r", "who": number % 3})

    code, out, _ = run("render", "--timeline", "t", "--group-by", "rule", "--distinct", "people=who")

    assert code == 0
    assert "3 people" in out


def test_own_templates_are_shown_with_misspelt_names_visible(run: Run, folder: Path) -> None:
    (folder / "short.txt").write_text("{{ count }} events {{ sumary }}", "utf-8")

    code, out, _ = run("render", "short", "--templates", ".")

    assert code == 0
    assert out.startswith("8 events {{ sumary }}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["unknown"], 2, "template"),
        (["x", "--templates", "nowhere"], 2, "nowhere"),
        (["--timeline", "empty"], 1, "nothing pending"),
        (["--distinct", "people"], 2, "NAME=FIELD"),
        (["--zone", "Mars/Base"], 2, "zone"),
        (["bad", "--templates", "."], 2, "bad.txt"),
    ],
)
def test_what_can_not_be_rendered_is_told_in_one_line(
    run: Run, digests: Digests, folder: Path, arguments: list[str], code: int, message: str
) -> None:
    digests.ledger()
    (folder / "bad.txt").write_text("{% for x in %}", "utf-8")

    answer = run("render", *arguments)

    assert (answer.code, answer.out) == (code, "")
    assert is_one_line(answer.err)
    assert message in answer.err


CHOOSING = """
from digestif import Digests
digests = Digests("sqlite:///digestif.db")
digests.route("mail:*", channel="terminal://", details=["host", "labels.zone"], brand={"name": "Web shop"})
"""


def test_fields_that_are_not_shown_are_named_on_stderr_with_the_reason(run: Run) -> None:
    value = {"title": "Disk almost full", "host": "web-3", "api_token": "hunter2", "_id": 1, "labels": {"zone": "b"}}
    with Digests("sqlite:///digestif.db") as digests:
        digests.add("mail:ada", value)

    code, out, err = run("render", "--timeline", "mail:ada", "--store", "sqlite:///digestif.db")

    assert code == 0
    assert "host: web-3\n" in out
    assert "hunter2" not in out + err
    assert err.splitlines() == [
        "not shown: api_token (its name looks like that of a secret)",
        "not shown: _id (its name begins with _)",
        "not shown: labels (it is not a single value; details can name a path into it)",
    ]


def test_a_longer_text_that_a_digest_of_several_hides_is_named(run: Run) -> None:
    declined = {"title": "Payment failed", "text": "Card declined"}
    with Digests("sqlite:///digestif.db") as digests:
        for value in (declined | {"amount": 99}, declined | {"amount": 20}, {"title": "Backup done"}):
            digests.add("mail:ada", value)
    arguments = ("render", "--timeline", "mail:ada", "--store", "sqlite:///digestif.db", "--group-by", "title")

    _, out, err = run(*arguments)

    assert "Card declined" not in out
    assert err == "not shown: text (a longer text, shown if its record stands alone)\n"
    assert run(*arguments[:-2], "--json").json["hidden"] == {}  # each record is a subject with its text


def test_fields_that_the_route_does_not_choose_are_named_too(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "choosing_shop.py").write_text(CHOOSING, "utf-8")
    monkeypatch.syspath_prepend(folder)
    value = {"title": "Disk almost full", "percent": 97, "host": "web-3", "labels": {"zone": "b"}}
    with Digests("sqlite:///digestif.db") as digests:
        digests.add("mail:ada", value)

    arguments = ("render", "--app", "choosing_shop", "--timeline", "mail:ada")

    assert "\nhost: web-3 · zone: b\n" in run(*arguments).out
    assert run(*arguments).out.startswith("Web shop\n")
    assert run(*arguments, "--json").json["hidden"] == {"percent": "details does not name it"}
