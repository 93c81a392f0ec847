"""Times, tables and texts."""

import click
import pytest

from digestif.cli.output import (
    as_json,
    cells,
    clock,
    counted,
    cut,
    facts,
    fitted,
    padded,
    printable,
    span,
    table,
    when,
    wrapped,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.3401, "340 ms"),
        (0.9996, "1 s"),
        (42.4, "42 s"),
        (59.7, "1 min"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 5000, "5,000 d"),
    ],
)
def test_a_duration_is_told_as_people_say_it(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(("at", "text"), [(350, "in 4 min 10 s"), (100.2, "now"), (97, "3 s ago")])
def test_a_time_is_seen_from_now(at: float, text: str) -> None:
    assert when(at, now=100) == text


def test_the_clock_shows_the_date_of_other_days() -> None:
    assert len(clock(1000, now=1001)) == len("00:16:40")
    assert len(clock(1000, now=1000 + 3 * 86_400)) == len("1970-01-01 00:16:40")
    assert clock(1e15, now=0) == "after the year 9999"
    assert clock(-1e15, now=0) == "before the year 1"


def test_wide_letters_take_two_columns() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1
    assert padded("日本", 5) == "日本 "
    assert cut("日本語", 5) == "日本…"
    assert cut("plain", 5) == "plain"


def test_columns_are_aligned() -> None:
    lines = list(table(("name", "count"), [("a", "1"), ("longer", "1,000")], right=["count"], give=["name"]))

    assert lines[1:] == ["  a           1", "  longer  1,000"]


def test_control_codes_are_shown_not_sent() -> None:
    assert printable("a\x1b[2J\nb") == "a\\x1b[2J\\nb"
    assert as_json("é\x7f\u202e") == '"é\\u007f\\u202e"'
    assert as_json("\U000e0001") == '"\\udb40\\udc01"'


def test_numbers_agree_with_their_words() -> None:
    assert counted(1, "record") == "1 record"
    assert counted(2000, "delivery", "deliveries") == "2,000 deliveries"


def test_columns_give_way_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.cli.output.width", lambda: 48)

    _, line = table(("name", "id", "reason"), [("n" * 20, "i" * 10, "r" * 30)], give=["reason", "name"])

    assert line == f"  {'n' * 15}…  {'i' * 10}  {'r' * 15}…"


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (61, ["name", "due", "last"]),
        (60, ["name", "due", "last"]),
        (50, ["name", "due", "last"]),
        (49, ["name", "due"]),
    ],
)
def test_columns_that_can_be_spared_are_left_out_if_cutting_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, columns: int, heads: list[str]
) -> None:
    monkeypatch.setattr("digestif.cli.output.width", lambda: columns)
    row = ("n" * 27, "d" * 14, "l" * 14)

    lines = [click.unstyle(line) for line in table(("name", "due", "last"), [row], give=["name"], spare=["last"])]

    assert lines[0].split() == heads
    assert max(map(len, lines)) <= columns


REASON = "a server of the provider said that it can't take any more messages from this address today"


def test_on_a_terminal_long_facts_go_on_between_words_below_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.cli.output.width", lambda: 60)

    lines = facts([("channel", f"crm is down: {REASON}"), ("due", "now")]).splitlines()

    assert lines[0].startswith("  channel  crm is down: a server")
    assert lines[-1] == "  due      now"
    assert all(line.startswith(" " * 11) for line in lines[1:-1])
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines[:-1]) == f"channel  crm is down: {REASON}"


def test_colours_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.cli.output.width", lambda: 40)
    red = click.style("down for 3 min", fg="red", bold=True)

    shown = click.unstyle(facts([("channel", f"{red}, next try in 10 s")]))

    assert shown == "  channel  down for 3 min, next try in\n           10 s"


def test_words_are_never_broken() -> None:
    """Neither at a hyphen nor because they are long."""
    name = "mail:" + "x-" * 60

    assert wrapped(f"{name} is due").split() == [name, "is", "due"]
    assert max(map(len, wrapped(REASON).splitlines())) <= 80


def test_in_a_file_each_fact_stays_on_its_line() -> None:
    assert facts([("channel", REASON * 3)]).count("\n") == 0
    assert fitted(REASON * 3) == REASON * 3
