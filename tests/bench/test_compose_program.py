"""The benchmark compose, with small numbers."""

import json

import pytest

from bench.compose import ORDINARY, RECORDS, SHAPES, Scale, compose, digest_of


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few digests; and the shapes that matter, as each has a process of its own."""
    monkeypatch.setattr("bench.compose.QUICK", Scale(rounds=1, digests=3))
    monkeypatch.setattr("bench.compose.SHAPES", {ORDINARY: SHAPES[ORDINARY]})


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert compose.main(["--quick", *arguments], standalone_mode=False) == 0
    return capsys.readouterr().out


def test_summaries_and_mails_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "--json"))

    figures = found["digests"][ORDINARY]
    assert figures["summaries_per_second"] > figures["mails_per_second"] > 0
    assert figures["html_kib"] > 1
    assert all(asked["words"].startswith(("met: ", "missed: ")) for asked in found["asked"].values())


def test_people_get_a_table_of_80_columns_with_verdicts_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys)

    assert ORDINARY in output
    assert "mails of ordinary digests a second" in output
    assert max(map(len, output.splitlines())) <= 80


def test_what_is_measured_has_the_shape_that_it_is_named_for() -> None:
    for shape in SHAPES.values():
        digest = digest_of(shape, 7)
        subjects = {(record.value["rule"], record.value["issue"]["id"]) for record in digest}

        assert len(digest) == RECORDS
        assert len(subjects) == min(shape.rules * shape.issues, RECORDS)
        assert digest == digest_of(shape, 7)
