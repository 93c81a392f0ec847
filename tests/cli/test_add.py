"""`digestif add`."""

import json
from pathlib import Path

import pytest

from digestif import Digests, State
from tests.cli.runner import DEFAULT_FILE, Run, is_one_line


def test_a_record_is_accepted_and_its_next_delivery_told(run: Run, digests: Digests) -> None:
    answer = run("add", "mail:ada", '{"title": "Build 7 failed"}', "--key", "build-7", "--timestamp", "5")

    assert answer == (0, "accepted build-7: mail:ada is ready for delivery\n", "")
    assert digests.peek("mail:ada") == [("build-7", {"title": "Build 7 failed"}, 5.0)]


def test_the_first_record_makes_the_file(run: Run, folder: Path) -> None:
    assert run("add", "t", "1").code == 0
    assert (folder / DEFAULT_FILE).exists()


def test_a_program_is_told_the_key_and_the_due_time(run: Run, digests: Digests) -> None:
    first = run("add", "t", "null", "--json").json
    [record] = digests.peek("t")

    assert first == {"accepted": 1, "timeline": "t", "key": record.key, "ready": True, "due": None}
    assert record.value is None


def test_a_waiting_timeline_says_when_it_is_due(run: Run, digests: Digests) -> None:
    deliver(digests, "t")

    answer = run("add", "t", "2", "--within", "7")

    assert "t is due in 7 s" in answer.out


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda digests: digests.add("t", 1), "t is ready for delivery"),
        (lambda digests: digests.pause("t"), "t is paused and gathers records"),
    ],
)
def test_the_state_of_the_timeline_is_told(run: Run, digests: Digests, prepare: object, told: str) -> None:
    prepare(digests)  # type: ignore[operator]  # one of the above

    assert told in run("add", "t", "2").out


def test_a_record_for_an_open_timeline_goes_with_the_next_digest(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    with digests.digest("t"):
        assert "is being delivered; this goes with its next digest" in run("add", "t", "2").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["t", "hello"],
        ["t", "{"],
        ["t", "NaN"],
        ["t", "1", "--key", ""],
        ["t", "1", "--timestamp", "nan"],
        ["t", "1", "--within", "-1"],
        ["t", "1", "--within", "soon"],
        ["t", "1", "--timestamp", "soon"],
        ["x" * 513, "1"],
        ["t", "1", "--records"],
        ["t", "--key", "k"],
        [],
    ],
)
def test_what_is_wrong_is_refused_in_one_line(run: Run, digests: Digests, arguments: list[str]) -> None:
    answer = run("add", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert is_one_line(answer.err)
    assert digests.ledger().accepted == 0


def test_a_deadline_is_a_duration(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    with digests.digest("t"):
        pass

    run("add", "t", "2", "--within", "2m")

    due = digests.timeline("t").due
    assert due is not None
    assert 110 < due - digests.store.time(0) / 1000 <= 120


def test_a_text_without_quotes_gets_advice(run: Run) -> None:
    assert """a text needs quotes: '"hello"'""" in run("add", "t", "hello").err


def test_a_store_that_is_off_accepts_nothing(run: Run) -> None:
    assert run("--store", "off://", "add", "t", "1").code == 1
    assert run("--store", "off://", "add", "t", stdin="1\n").code == 1


# Lines


def test_each_line_is_a_value(run: Run, digests: Digests) -> None:
    answer = run("add", "t", stdin='1\n\n"two"\n{"three": 3}')

    assert answer.code == 0
    assert answer.out.startswith("accepted 3 records in ")
    assert answer.out.endswith("; 1 timeline is ready for delivery\n")
    assert [record.value for record in digests.peek("t")] == [{"three": 3}, "two", 1]


def test_a_line_may_say_more_than_its_value(run: Run, digests: Digests) -> None:
    lines = [
        {"timeline": "a", "key": "k", "value": 1, "timestamp": 5},
        {"timeline": "a", "key": "later", "value": 2},
        {"value": 3},
    ]

    answer = run("add", "b", "--records", "--json", stdin="\n".join(map(json.dumps, lines)))

    assert answer.json == {"accepted": 3, "ready": 2, "dropped": 0}
    assert digests.peek("a")[1] == ("k", 1, 5.0)
    assert digests.peek("a")[0].key == "later"
    assert [record.value for record in digests.peek("b")] == [3]


@pytest.mark.parametrize(
    ("options", "line", "reason"),
    [
        (["t"], "nope", "JSON is malformed"),
        (["t"], b"\xff", "JSON is malformed"),
        (["t"], json.dumps("x" * 300_000), "value: 300002 bytes encoded"),
        (["t"], "[" * 100_000, "recursion"),
        (["t"], " " * 5_000_000 + "1", "longer than"),
        (["t"], b"\xa0" * 5_000_000, "longer than"),
        (["--records"], '{"value": 1}', "has no timeline"),
        (["t", "--records"], '{"key": "k"}', "missing required field `value`"),
        (["t", "--records"], '{"value": 1, "kye": "k"}', "unknown field `kye`"),
        (["t", "--records"], '{"value": 1, "key": ""}', "record key: 0 bytes"),
        (["t", "--records"], "7", "Expected `object`"),
    ],
)
def test_a_bad_line_is_named_and_the_lines_before_it_are_accepted(
    run: Run, digests: Digests, options: list[str], line: str | bytes, reason: str
) -> None:
    good = b'{"timeline": "t", "value": 1}\n'
    bad = line if isinstance(line, bytes) else line.encode()

    answer = run("add", *options, stdin=good * 1500 + bad + b"\n" + good)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("digestif: line 1,501: ")
    assert reason in answer.err
    assert "1,500 records before it were accepted" in answer.err
    assert digests.ledger().accepted == 1500


def test_a_program_is_told_the_number_of_the_bad_line(run: Run) -> None:
    answer = run("add", "t", "--json", stdin="1\nx\n2\n")

    assert answer.code == 1
    assert answer.json["accepted"] == 1
    assert answer.json["line"] == 2


def test_no_lines_are_no_error(run: Run) -> None:
    assert run("add", "t", "--json", stdin="").json == {"accepted": 0, "ready": 0, "dropped": 0}


def test_urgent_lines_pull_the_digest_forward(run: Run, digests: Digests) -> None:
    deliver(digests, "t")

    run("add", "t", "--within", "9", stdin="1\n2\n")

    due, now = digests.timeline("t").due, digests.store.time(0) / 1000
    assert due is not None
    assert 0 < due - now <= 9


def deliver(digests: Digests, timeline: str) -> None:
    digests.add(timeline, "first")
    with digests.digest(timeline):
        pass
    assert digests.timeline(timeline).state is State.WAITING
