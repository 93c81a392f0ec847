"""The page about the HTTP API has what the service has."""

import re

from digestif.service.api.endpoints import ROUTES
from digestif.service.api.events import HEARTBEAT
from digestif.service.api.idempotency import BOUNDS, LONGEST
from digestif.service.api.openapi import problems_of
from digestif.service.connection import BODY_SECONDS, HEAD_BYTES, HEAD_SECONDS
from tests.docs.http_table import PAGE, written

TEXT = PAGE.read_text("utf-8")


def test_the_table_of_routes_is_that_of_the_service() -> None:
    assert written(TEXT) == TEXT, "./dev python -m tests.docs.http_table writes it anew"


def test_every_status_of_a_problem_is_explained() -> None:
    explained = set(map(int, re.findall(r"^\| (\d{3}) \|", TEXT, re.MULTILINE)))

    assert explained == {500, *(status for route in ROUTES for status in problems_of(route))}


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"within {HEAD_SECONDS:g} seconds, or the body within {BODY_SECONDS:g}" in TEXT
    assert f"longer than {HEAD_BYTES >> 10} KiB" in TEXT
    assert f"every {HEARTBEAT:g} seconds" in TEXT
    assert f"1 to {LONGEST} visible ASCII characters" in TEXT
    assert BOUNDS.age is not None
    assert f"for {BOUNDS.age // 3_600_000} hours and up to\n{BOUNDS.entries:,} keys" in TEXT
