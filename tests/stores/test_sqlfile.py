"""SQL files are read by the names of their statements."""

import pytest

from digestif.stores.sqlfile import parse_statements


def test_each_statement_is_found_by_its_name_without_the_remarks() -> None:
    text = "-- About.\n-- name: one\nSELECT 1\n\n-- Why.\n-- name: two\nSELECT\n2\n"

    assert vars(parse_statements(text, "some.sql")) == {"one": "SELECT 1", "two": "SELECT\n2"}


@pytest.mark.parametrize("text", ["-- name: one\nSELECT 1\n-- name: one\nSELECT 2", "-- name: not a name\nSELECT 1"])
def test_a_name_that_is_none_or_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"some\.sql"):
        parse_statements(text, "some.sql")
