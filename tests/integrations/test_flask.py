"""The program of the page about Flask: its own tests, and a server with a worker beside it."""

import re
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from digestif.testing.servers import becomes_true
from tests.integrations.recipes import STRICT, Recipe

pytestmark = pytest.mark.long


@pytest.fixture
def shop(tmp_path: Path) -> Recipe:
    recipe = Recipe("flask", tmp_path, FLASK_CHANNEL=f"file://{tmp_path}/mails?as=txt")
    recipe.write()
    return recipe


def test_the_tests_of_the_page_pass(shop: Recipe) -> None:
    assert "3 passed" in shop.run("-m", "pytest", *STRICT, "test_shop.py")


def test_what_a_view_adds_is_delivered_by_a_worker_beside_the_server(shop: Recipe) -> None:
    """And the command line answers for the application."""
    mails = shop.folder / "mails"
    with shop.start("-m", "flask", "--app", "shop", "run", "--port", "0") as server:
        said = server.wait_for("Running on http://")
        address = re.search(r"Running on (http://\S+)", said)
        assert address is not None
        with shop.start("-m", "flask", "--app", "shop", "deliver") as worker:
            report(address[1], 7)
            assert becomes_true(lambda: len(list(mails.glob("*.txt"))) == 1), worker.words
            report(address[1], 8)
            report(address[1], 9)

            assert worker.stop() == 0
    assert "2 pending" in shop.run("-m", "digestif", "--app", "desk", "explain", "mail:ada@example.org")
    assert "delivered" in shop.run("-m", "digestif", "--app", "desk", "status")


def report(address: str, number: int) -> None:
    form = urlencode({"watcher": "ada@example.org"}).encode()
    with urlopen(Request(f"{address}/projects/web/builds/{number}/failed", data=form)) as answer:
        assert answer.status == 202
