"""docs/origin.md speaks of every fact, and of tests that exist and say the same."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import digestif.testing.conformance

HERE = Path(__file__).parent
DOCUMENT = (HERE.parents[1] / "docs" / "origin.md").read_text()
SUITE = Path(digestif.testing.conformance.__file__).parent
FACTS = range(1, 38)


@cache
def facts_of_tests(folder: Path) -> dict[str, set[int]]:
    """The facts that each test of a folder names at the beginning of its docstring."""
    return {
        node.name: {int(number) for number in re.findall(r"\d+", (ast.get_docstring(node) or "").partition(".")[0])}
        for path in sorted(folder.glob("*.py"))
        if path != Path(__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def rows() -> list[tuple[int, list[str]]]:
    """Each fact of the table, with the other cells of its row."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENT.splitlines()]
    return [(int(cells[0]), cells[1:]) for cells in lines if len(cells) == 5 and cells[0].isdecimal()]


ROWS = dict(rows())


def test_every_fact_has_a_row() -> None:
    """1 to 37, in order, none twice."""
    assert [fact for fact, _ in rows()] == list(FACTS)


@pytest.mark.parametrize("fact", FACTS)
def test_every_row_says_whether_the_fact_is_the_same_and_why_it_changed(fact: int) -> None:
    """Same or changed; what changed has a reason."""
    _, verdict, reason, _ = ROWS[fact]

    assert verdict in ("same", "changed")
    assert reason or verdict == "same"


@pytest.mark.parametrize("fact", FACTS)
def test_every_row_names_tests_that_exist_and_speak_of_its_fact(fact: int) -> None:
    """A test of this folder first, and a mark on those of the conformance suite."""
    named = re.findall(r"`(test_\w+)`(°?)", ROWS[fact][-1])

    assert named
    for name, mark in named:
        assert fact in facts_of_tests(SUITE if mark else HERE)[name]
    assert not named[0][1]


def test_every_test_of_this_folder_is_named() -> None:
    """What is shown is told."""
    assert set(facts_of_tests(HERE)) <= set(re.findall(r"test_\w+", DOCUMENT))
