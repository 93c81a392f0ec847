"""Pages say why nothing is delivered (no route, no worker, no delivery yet), and what makes it so."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from digestif import Digests
from digestif.core.secret import Secret
from digestif.core.workers import MOST_WORKERS, LiveWorker, WorkerNote
from digestif.notes.workers import note_worker
from digestif.service.config import DEFAULT_STORE, defaults
from digestif.service.dashboard.handled import delivered_by
from digestif.service.dashboard.standing import ENDED
from digestif.service.engine import open_engine
from digestif.service.service import Service
from digestif.service.settings import RouteSettings
from digestif.stores.registry import open_store
from tests.cli.runner import run_in_process
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import served, settings_with

NO_ROUTE = ["/", "/channels", "/workers"]


@pytest.fixture
def out(tmp_path: Path) -> str:
    return f"file://{tmp_path}/out"


@pytest.fixture
def routed(out: str) -> Iterator[tuple[Visitor, Digests]]:
    """The pages of a service with two routes whose worker does not run."""
    routes = [RouteSettings(pattern=pattern, channel=Secret(out), options={}) for pattern in ("mail:*", "push:*")]
    settings = settings_with(routes=tuple(routes), source="/etc/my shop/digestif.toml")
    service = Service(settings, open_engine(settings, open_store("memory://")))
    with served(service) as client:
        yield Visitor(client), service.digests.sync
    asyncio.run(service.digests.close())


def note(digests: Digests, *patterns: str, worker: str = "w") -> None:
    """Let a worker of another process be seen."""
    now = digests.store.time(0)
    note_worker(digests.store, worker, WorkerNote(worker, "host", 7, now, now, patterns), now=now)


def lines_of(page: str) -> str:
    found = re.search(r"<code>([^<]*\[\[routes\]\][^<]*)</code>", page)
    assert found is not None
    return found[1]


def test_without_a_route_the_list_of_digests_advises_one_and_no_flush(
    visitor: Visitor, service: Service, routed: tuple[Visitor, Digests]
) -> None:
    unrouted = [visitor.page(path) for path in ("/digests", "/digests?timeline=mail:ada")]
    one = routed[0].page("/digests?timeline=sms:ada")
    others = [routed[0].page(path) for path in ("/digests", "/digests?timeline=mail:ada")]
    note(service.digests.sync, "mail:*")
    elsewhere = visitor.page("/digests")

    assert "No digest has ended yet, and no route delivers any: records are accepted and wait." in unrouted[0]
    assert "No digest of this timeline has ended yet, and no route delivers it:" in unrouted[1]
    assert "and no route delivers it:" in one
    assert ["press Flush" in page for page in [*unrouted, one, *others, elsewhere]] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("path", NO_ROUTE)
def test_without_a_route_pages_show_lines_of_a_file_that_makes_one(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service = Service(defaults({}), open_engine(settings_with(), open_store("memory://")))
    with served(service) as client:
        page = Visitor(client).page(path)
    file = tmp_path / "digestif.toml"
    file.write_text(lines_of(page))

    checked = run_in_process("check", str(file))

    assert checked.code == 0, checked.err
    assert "1 route" in checked.out
    assert len(lines_of(page).splitlines()) == 6
    assert "digestif worker" not in page
    assert "No worker is running" not in page
    assert "No problems" not in page


def test_lines_for_a_file_that_is_there_can_be_added_to_it(tmp_path: Path) -> None:
    file = tmp_path / "digestif.toml"
    file.write_text(f'store = "{DEFAULT_STORE}"\n\n[serve]\nkeep_messages = true\n\n')
    settings = settings_with(source=str(file))
    with served(Service(settings, open_engine(settings, open_store("memory://")))) as client:
        added = lines_of(Visitor(client).page("/channels"))

    file.write_text(file.read_text() + added)

    assert run_in_process("check", str(file)).code == 0


def test_with_routes_and_no_worker_the_pages_show_the_command_that_starts_one(
    routed: tuple[Visitor, Digests],
) -> None:
    visitor, _ = routed

    assert "No worker is running" in visitor.page("/")
    assert "No route" not in visitor.page("/")
    assert "digestif worker --config '/etc/my shop/digestif.toml'" in visitor.page("/workers")


def test_workers_elsewhere_are_named_where_this_service_has_no_route(visitor: Visitor, service: Service) -> None:
    note(service.digests.sync, "shop:*", "news:*")

    pages = {path: visitor.page(path) for path in NO_ROUTE}

    assert "shop:*, news:*" in pages["/channels"]
    assert "Workers elsewhere deliver" in pages["/"]
    for page in pages.values():
        assert "[[routes]]" not in page
        assert "No worker is running" not in page


def test_workers_with_different_policies_for_a_pattern_are_named(visitor: Visitor, service: Service) -> None:
    store = service.digests.sync.store
    now = store.time(0)
    for pid, policy in ((1, "minimum=5m"), (2, "minimum=1h")):
        seen = WorkerNote("w", "host", pid, now, now, ("mail:*",), {"mail:*": policy})
        note_worker(store, f"w{pid}", seen, now=now)

    page = re.sub("<[^>]+>", "", visitor.page("/workers"))
    [conflict] = visitor.get("/v1/status").json()["policy_conflicts"]

    assert "Workers have different policies for mail:*: minimum=1h (host:2), minimum=5m (host:1)." in page
    assert conflict == {"pattern": "mail:*", "policies": {"minimum=5m": ["host:1"], "minimum=1h": ["host:2"]}}


def test_a_worker_that_was_not_seen_for_20_seconds_may_have_died(visitor: Visitor, service: Service) -> None:
    store = service.digests.sync.store
    now = store.time(0)
    for pid, seen in ((1, now - 50_000), (2, now - 10_000)):
        note_worker(store, f"w{pid}", WorkerNote("w", "host", pid, now - 90_000, seen, ("mail:*",)), now=now)

    page = visitor.page("/workers")

    assert len(re.findall(r"not seen for 5\d s: it may have died", page)) == 1
    assert re.search(r">1\d s ago</time>", page)


# Timelines without a route


def test_a_timeline_that_no_route_delivers_says_so_until_one_does(visitor: Visitor, service: Service, out: str) -> None:
    digests = service.digests.sync
    digests.add("mail:ada", 1)

    before = visitor.page("/timeline?key=mail%3Aada")
    note(digests, "mail:*")
    elsewhere = visitor.page("/timeline?key=mail%3Aada")
    other = visitor.page("/timeline?key=push%3Aada")
    service.digests.route("push:*", channel=out)
    routed = visitor.page("/timeline?key=push%3Aada")

    assert "No route delivers this timeline" in before
    assert '<dt>Next delivery</dt><dd><span class="none">none: no route</span></dd>' in before
    assert 'pattern = "mail:*"' in before
    assert "No route delivers" not in elsewhere
    assert "none: no route" not in elsewhere
    assert "No route delivers" in other
    assert "No route delivers" not in routed


def test_the_overview_names_timelines_that_no_route_or_worker_delivers(visitor: Visitor, service: Service) -> None:
    digests = service.digests.sync
    note(digests, "mail:*")
    digests.add("mail:ada", 1)

    before = visitor.page("/")
    digests.add("mial:ada", 1)
    after = visitor.page("/")

    assert "No problems" in before
    assert "No problems" not in after
    assert "1 timeline has no route: <a" in after
    assert '<a href="/timelines?only=unhandled">' in after
    assert visitor.get("/v1/status").json()["unhandled"] == ["mial:ada"]


@pytest.mark.parametrize("key", ['"]\nstore = "x', "a*b:c", "x" * 300 + ":y", "<b>:c"])
def test_the_lines_for_a_hostile_name_match_it_and_nothing_of_it_is_in_them(visitor: Visitor, key: str) -> None:
    raw = visitor.get("/timeline?" + urlencode({"key": key})).body.decode()

    assert "pattern = &#34;*&#34;" in raw or 'pattern = "*"' in raw


def test_the_pattern_of_this_service_wins_then_the_longest_of_a_worker() -> None:
    def worker(*patterns: str) -> LiveWorker:
        return LiveWorker(name="w", host="h", pid=1, since=0, seen=0, patterns=patterns)

    digests = Digests("memory://")
    digests.handler("own:*")(lambda _: None)
    visit: Any = SimpleNamespace(digests=digests)
    workers = [worker("*"), worker("own:ada", "mail:*")]

    assert delivered_by(visit, workers, "own:ada") == "own:*"
    assert delivered_by(visit, workers, "mail:ada") == "mail:*"
    assert delivered_by(visit, workers[1:], "other") is None
    assert delivered_by(visit, [worker("mail:*")] * MOST_WORKERS, "other") == "*"
    digests.close()


# Channels


def test_a_channel_is_up_only_after_a_delivery(routed: tuple[Visitor, Digests]) -> None:
    visitor, digests = routed

    before, overview = states(visitor.page("/channels")), visitor.page("/")
    digests.add("mail:ada", {"title": "News"})
    digests.deliver("mail:ada")
    after = states(visitor.page("/channels"))

    assert before == {"mail:*": "not tried yet", "push:*": "not tried yet"}
    assert after == {"mail:*": "up", "push:*": "not tried yet"}
    assert (overview.count(">not tried yet<"), overview.count(">up<")) == (2, 0)
    assert (visitor.page("/").count(">not tried yet<"), visitor.page("/").count(">up<")) == (1, 1)


def test_a_channel_that_took_nothing_is_failing_and_a_rare_one_is_not_called_untried(
    routed: tuple[Visitor, Digests],
) -> None:
    visitor, digests = routed

    digests.add("push:ada", 1)
    with pytest.raises(OSError, match="full"), digests.digest("push:ada"):
        raise OSError("full")
    assert states(visitor.page("/channels"))["push:*"] == "failing"
    digests.delete("push:ada")
    for number in range(ENDED):
        digests.add(f"mail:{number}", 1)
        digests.deliver(f"mail:{number}")

    assert states(visitor.page("/channels")) == {"mail:*": "up", "push:*": "no recent delivery"}


def states(page: str) -> dict[str, str]:
    found = re.findall(r'<h2 class="key"><bdi[^>]*>([^<]*)</bdi></h2><span class="state[^>]*>([^<]*)<', page)
    return dict(found)
