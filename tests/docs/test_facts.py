"""Facts are cited by number, in docstrings of tests: each number has its sentence in the docs."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

CITED = re.compile(r"\b[Ff]acts? (\d+(?:(?:, | and |–| to )\d+)*)")
KNOWN = {
    int(number)
    for page in ("origin.md", "facts.md")
    for number in re.findall(r"^\| (\d+) \|", (DOCS / page).read_text("utf-8"), re.MULTILINE)
}
FILES = [path for folder in ("src/digestif/testing", "tests", "torture") for path in (ROOT / folder).rglob("*.py")]


def cited(path: Path) -> set[int]:
    return {int(number) for group in CITED.findall(path.read_text("utf-8")) for number in re.findall(r"\d+", group)}


def test_every_fact_that_a_test_cites_is_in_the_docs() -> None:
    citations = {path: cited(path) for path in FILES}

    assert set().union(*citations.values()) >= set(range(38, 62)) | {64}
    assert {
        str(path.relative_to(ROOT)): numbers - KNOWN for path, numbers in citations.items() if numbers - KNOWN
    } == {}


@pytest.mark.parametrize("page", ["origin.md", "facts.md"])
def test_no_fact_stands_twice(page: str) -> None:
    numbers = re.findall(r"^\| (\d+) \|", (DOCS / page).read_text("utf-8"), re.MULTILINE)

    assert len(numbers) == len(set(numbers))
