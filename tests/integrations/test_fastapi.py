"""The program of the page about FastAPI: its own tests, a server that delivers itself, and a worker beside one."""

import re
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from digestif.testing.servers import becomes_true
from tests.integrations.recipes import STRICT, Program, Recipe

pytestmark = pytest.mark.long


@pytest.fixture
def shop(tmp_path: Path) -> Recipe:
    recipe = Recipe("fastapi", tmp_path, SHOP_CHANNEL=f"file://{tmp_path}/mails?as=txt")
    recipe.write()
    return recipe


def test_the_tests_of_the_page_pass(shop: Recipe) -> None:
    assert "1 passed" in shop.run("-m", "pytest", *STRICT, "test_shop.py")


def test_a_server_delivers_what_its_endpoints_add_and_ends_cleanly(shop: Recipe) -> None:
    with shop.start("-m", "uvicorn", "shop:app", "--port", "0") as server:
        report(server, 7)
        assert becomes_true(lambda: mails(shop) == 1), server.words
        report(server, 8)
        report(server, 9)

        assert server.stop() in (0, -15)  # uvicorn raises the signal again once it has ended everything
        assert "Application shutdown complete" in server.words
        assert "Traceback" not in server.words
    assert mails(shop) == 1
    assert "2 pending" in shop.run("-m", "digestif", "--app", "mails", "explain", "mail:ada@example.org")


def test_a_worker_beside_it_has_the_same_routes(shop: Recipe) -> None:
    shop.run("-m", "digestif", "--app", "mails", "add", "mail:ada@example.org", '{"project": "web", "title": "Hello"}')

    with shop.start("-m", "digestif", "worker", "mails") as worker:
        assert becomes_true(lambda: mails(shop) == 1), worker.words
        assert worker.stop() == 0


def mails(shop: Recipe) -> int:
    return len(list((shop.folder / "mails").glob("*.txt")))


def report(server: Program, number: int) -> None:
    address = re.search(r"running on (http://\S+)", server.wait_for("Uvicorn running on"))
    assert address is not None
    url = f"{address[1]}/projects/web/builds/{number}/failed?watcher=ada@example.org"
    with urlopen(Request(url, method="POST")) as answer:
        assert answer.status == 202
