"""The lists of the dashboard: what they find, in which order, and how much of a store they read for it."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from digestif import AsyncDigests, Digests, Policy
from digestif.clock import wall_clock
from digestif.core.verdicts import DeliveryFailed
from digestif.core.workers import MOST_PATTERNS
from digestif.notes.samples import Sampler
from digestif.service.security import reach
from digestif.service.service import Service
from tests.service.dashboard.test_setup import note
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, served, serving, settings_with
from tests.service.pauses import MOST, measured

Ago = Callable[[float], float]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Client, Service]]:
    """A service on SQLite. Records wait for an hour, and digests have a single attempt."""
    with serving(f"sqlite:///{tmp_path / 'd.db'}", policy=Policy(first_delay=3600, attempts=1)) as found:
        yield found


@pytest.fixture
def client(running: tuple[Client, Service]) -> Client:
    return running[0]


@pytest.fixture
def service(running: tuple[Client, Service]) -> Service:
    return running[1]


def digests_of(service: Service) -> Digests:
    return service.digests.sync


def found(page: str) -> list[str]:
    """The names in the table of stored timelines."""
    return _names(page.partition('aria-labelledby="idle"')[0])


def idle(page: str) -> list[str]:
    """The names in the table of idle timelines."""
    return _names(page.partition('aria-labelledby="idle"')[2])


def _names(part: str) -> list[str]:
    return re.findall(r'<a class="key" id="[^"]*" href="[^"]*"><bdi class="name" title="([^"]*)"', part)


def text(page: str) -> str:
    """What a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def listed(visitor: Visitor, **asked: str) -> list[str]:
    return found(visitor.page(f"/timelines?{urlencode(asked)}"))


def next_page(page: str) -> str | None:
    more = re.search(r'href="([^"]+)" rel="next"', page)
    return None if more is None else more[1]


def end(digests: Digests, timeline: str, *, fails: bool = False, at: float) -> None:
    """Let a digest of a timeline end as delivered, or become a dead letter."""
    digests.add(timeline, {"title": "Hello"}, now=at, first_delay=0)
    try:
        with digests.digest(timeline, now=at):
            if fails:
                raise DeliveryFailed("550 no such mailbox", retry=False)
    except DeliveryFailed:
        pass


def let_idle(digests: Digests, timeline: str, *, at: float) -> None:
    """Let a timeline become idle: its cool-down is over, and nothing is pending."""
    list(digests.schedule(at, now=at))
    with digests.digest(timeline, now=at):
        pass
    assert digests.timeline(timeline).state == "idle"


@pytest.fixture
def ago() -> Callable[[float], float]:
    """Times before now, in seconds."""
    now = wall_clock()
    return lambda seconds: now - seconds


# Search


def test_a_search_finds_any_part_of_a_name_in_any_case(visitor: Visitor, service: Service) -> None:
    digests_of(service).add_many([(key, 1) for key in ("mail:Ada.Lovelace", "push:ada", "mail:bob")])

    assert listed(visitor, search="ADA") == ["mail:Ada.Lovelace", "push:ada"]
    assert listed(visitor, search="lovelace") == ["mail:Ada.Lovelace"]
    assert listed(visitor, search="") == ["mail:Ada.Lovelace", "mail:bob", "push:ada"]


def test_a_search_finds_people_of_whom_nothing_is_pending(visitor: Visitor, service: Service, ago: Ago) -> None:
    digests = digests_of(service)
    for key, fails in (("mail:ada", False), ("mail:grace", True), ("mail:bob", False)):
        end(digests, key, fails=fails, at=ago(7200))
        let_idle(digests, key, at=ago(60))
    end(digests, "mail:adah", at=ago(7200))
    digests.prefer("mail:adam", "daily")
    digests.add("mail:adah", 1)

    page = visitor.page("/timelines?search=ada")

    assert found(page) == ["mail:adah", "mail:adam"]
    assert idle(page) == ["mail:ada"]
    assert "mail:ada 2 h ago 2 h ago" in text(page)
    assert idle(visitor.page("/timelines?search=GRACE")) == ["mail:grace"]
    assert "– given up 2 h ago" in text(visitor.page("/timelines?search=grace"))
    assert idle(visitor.page("/timelines?state=idle")) == ["mail:bob", "mail:grace", "mail:ada"]
    assert found(visitor.page("/timelines?state=idle")) == ["mail:adam"]
    assert idle(visitor.page("/timelines")) == []


def test_a_search_without_a_match_leads_to_the_page_of_that_name(visitor: Visitor) -> None:
    page = visitor.page("/timelines?search=mail%3Aada")

    assert "No stored timeline matches, and no idle one that is known." in text(page)
    assert 'href="/timeline?key=mail%3Aada"' in page


def test_a_search_in_a_large_store_says_how_far_it_looked_and_goes_on(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "MOST_LOOKED_AT", 100)
    service.digests.route("mail:*", channel="terminal://")
    keys = [*(f"a{number:03}" for number in range(300)), "mail:zoe", "zoe", "a250:zoe", "zz:zoe"]
    digests_of(service).add_many([(key, 1) for key in keys])

    page, pages = visitor.page("/timelines?search=zoe"), 1
    first, names = found(page), [*found(page)]
    while (address := next_page(page)) is not None:
        page, pages = visitor.page(address), pages + 1
        names += found(page)

    assert first == ["zoe", "mail:zoe"]  # by the index of names
    assert set(names) == {"zoe", "mail:zoe", "a250:zoe", "zz:zoe"}
    assert pages > 2
    assert re.search(
        r"\b1\d\d timelines were looked at to find these, and all names that begin with zoe",
        text(visitor.page("/timelines?search=zoe")),
    )
    assert re.search(
        r"None of the \d+ timelines looked at so far matches. Look at the next ones",
        text(visitor.page("/timelines?search=nothing")),
    )


def test_a_search_reads_a_bounded_part_of_the_store_and_is_not_repeated_by_itself(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "MOST_LOOKED_AT", 1000)
    digests, seen = digests_of(service), list[int]()
    digests.add_many([(f"t{number:04}", 1) for number in range(3000)])
    scan = digests.store.scan

    def counted(**options: Any) -> Any:
        page = scan(**options)
        seen.append(len(page))
        return page

    monkeypatch.setattr(digests.store, "scan", counted)
    page = visitor.page("/timelines?search=nothing")

    assert sum(seen) == 1100
    assert "None of the 1,100 timelines looked at so far matches." in text(page)
    assert ">Look at the next ones</a></nav>" in page
    assert "hx-get" not in page
    assert "hx-get" in visitor.page("/timelines?search=t0")


def test_a_search_ends_after_a_number_of_calls_however_few_timelines_each_of_them_gives(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "MOST_CALLS", 2)
    digests_of(service).add_many([(f"t{number:03}", 1) for number in range(400)])

    assert "None of the 300 timelines looked at so far matches." in text(visitor.page("/timelines?search=nothing"))


# Order


def test_due_time_sorts_what_waits_and_what_is_ready_with_the_most_overdue_first(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    digests = digests_of(service)
    digests.add("ready", 1, first_delay=0, now=ago(20))
    for key, delay in (("late", 60), ("later", 10_000), ("latest", 20)):
        digests.add(key, 1, first_delay=delay, now=ago(100))

    end(digests, "cooled", at=ago(7200))  # due, too, and has nothing to deliver

    assert listed(visitor, sort="due") == ["cooled", "latest", "late", "ready", "later"]
    assert listed(visitor, only="due") == ["latest", "late", "ready"]
    assert listed(visitor, only="due", sort="name") == ["late", "latest", "ready"]
    assert listed(visitor, only="due", state="waiting") == ["latest", "late"]


def test_what_is_due_now_is_found_without_a_look_at_what_is_due_later(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    digests = digests_of(service)
    digests.add_many([(f"later{number:03}", 1) for number in range(900)])
    digests.add("late", 1, first_delay=0, now=ago(20))

    page = visitor.page("/timelines?only=due")

    assert found(page) == ["late"]
    assert next_page(page) is None
    assert "hx-get" in page  # it is cheap enough to be repeated


def test_a_list_in_the_order_of_an_index_comes_page_by_page(visitor: Visitor, service: Service) -> None:
    digests_of(service).add_many([(f"t{number:03}", 1) for number in range(120)])

    pages, address = [], "/timelines?sort=due"
    while address:
        page = visitor.page(address)
        pages.append(found(page))
        address = next_page(page) or ""

    assert [len(names) for names in pages] == [50, 50, 20]
    assert sorted(name for names in pages for name in names) == [f"t{number:03}" for number in range(120)]


def test_pending_records_sort_among_the_timelines_that_were_looked_at(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "LARGEST_SLICE", 40)
    monkeypatch.setattr(reach, "MOST_LOOKED_AT", 80)
    digests = digests_of(service)
    digests.add_many([(f"t{number:03}", 1) for number in range(100)])
    for key, count in (("t050", 3), ("t070", 9), ("t090", 20)):
        digests.add_many([(key, number) for number in range(count)])

    page = visitor.page("/timelines?sort=pending")
    rest = visitor.page(next_page(page) or "")

    assert found(page)[:3] == ["t070", "t050", "t000"]
    assert (
        "80 matching timelines, of which the first 50 are shown, sorted among 80 timelines in order of name."
        in text(page)
    )
    assert found(rest)[0] == "t090"
    assert next_page(rest) is None


def test_the_column_by_which_a_list_is_sorted_is_named(visitor: Visitor, service: Service) -> None:
    digests_of(service).add("t", 1)

    columns = {
        asked: re.findall(r'aria-sort="([a-z]+)">([^<]+)<', visitor.page(f"/timelines?{asked}"))
        for asked in ("", "sort=due", "sort=pending", "state=waiting", "search=t&state=waiting")
    }

    assert columns == {
        "": [("ascending", "Timeline")],
        "sort=due": [("ascending", "Next delivery")],
        "sort=pending": [("descending", "Pending")],
        "state=waiting": [("ascending", "Next delivery")],
        "search=t&state=waiting": [("ascending", "Timeline")],
    }


# Filters


def test_timelines_are_filtered_by_what_they_need(visitor: Visitor, service: Service, ago: Ago) -> None:
    service.digests.route("mail:*", channel="terminal://")
    service.digests.route("push:*", channel="terminal://")
    digests = digests_of(service)
    digests.add("mail:ada", 1)
    digests.add("push:ada", 1)
    end(digests, "mail:sent", at=ago(5))
    digests.add("sms:ada", 1)
    digests.prefer("sms:off", "off")
    digests.prefer("mail:eve", "weekly")
    digests.set_policy("mail:again", "minimum=5m,maximum=30m,attempts=3")
    digests.add("mail:again", 1)
    with pytest.raises(OSError, match="full"), digests.digest("mail:again"):
        raise OSError("disk full")

    assert listed(visitor, only="pending") == ["mail:ada", "mail:again", "push:ada", "sms:ada"]
    assert listed(visitor, only="unhandled") == ["sms:ada"]
    assert listed(visitor, only="failing") == ["mail:again"]
    assert listed(visitor, route="push:*") == ["push:ada"]
    assert listed(visitor, route="mail:*", only="pending") == ["mail:ada", "mail:again"]
    assert listed(visitor, cadence="weekly") == ["mail:eve"]
    assert listed(visitor, cadence="off") == ["sms:off"]
    assert listed(visitor, route="no such route", only="nonsense") == listed(visitor)


def test_the_timelines_of_a_route_are_listed_when_all_of_them_are_idle(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    for pattern in ("mail:*", "push:*", "sms:*"):
        service.digests.route(pattern, channel="terminal://")
    digests = digests_of(service)
    for key in ("mail:ada", "mail:bob", "push:ada"):
        end(digests, key, at=ago(7200))
        let_idle(digests, key, at=ago(60))
    mails, none = visitor.page("/timelines?route=mail:*"), visitor.page("/timelines?route=sms:*")

    assert idle(mails) == ["mail:bob", "mail:ada"]
    assert "No stored timeline matches" not in mails
    assert idle(visitor.page("/timelines?route=mail:*&search=bob")) == ["mail:bob"]
    assert idle(visitor.page("/timelines?route=mail:*&state=idle")) == ["mail:bob", "mail:ada"]
    assert "No stored timeline matches, and no idle one that is known." in text(none)


def test_a_list_names_what_no_route_delivers_and_what_is_tried_again(visitor: Visitor, service: Service) -> None:
    service.digests.route("mail:*", channel="terminal://")
    digests = digests_of(service)
    for key in ("mail:ada", "sms:ada"):
        digests.set_policy(key, "minimum=5m,maximum=30m,attempts=3")
        digests.add(key, 1)
        with pytest.raises(OSError, match="full"), digests.digest(key):
            raise OSError("disk full")

    rows = visitor.page("/timelines").split("<tr>")

    assert [("no route" in row, ">retry<" in row) for row in rows[2:]] == [(False, True), (True, False)]


def test_a_list_gives_no_time_for_what_is_never_delivered(visitor: Visitor, service: Service, ago: Ago) -> None:
    service.digests.route("mail:*", channel="terminal://")
    digests = digests_of(service)
    digests.add_many([("mail:ada", 1), ("sms:ada", 1)])
    digests.prefer("mail:off", "off")
    page = text(visitor.page("/timelines"))

    assert re.search(r"mail:ada waiting 1 in \d+", page)
    assert "mail:off idle off 0 none: switched off" in page
    assert "sms:ada waiting no route 1 none: no route" in page


def test_a_list_shows_the_records_of_an_unfinished_digest_beside_the_pending_ones(
    visitor: Visitor, service: Service
) -> None:
    service.digests.route("*", channel="terminal://")
    digests = digests_of(service)
    digests.add("mail:ada", 1, first_delay=0)
    with digests.digest("mail:ada"):
        digests.add_many([("mail:bob", 1), ("mail:ada", 2), ("mail:ada", 3)])
        page = text(visitor.page("/timelines"))

    assert "mail:ada open 2 + 1 being delivered" in page
    assert "mail:bob waiting 1 in" in page


def test_thousands_of_patterns_of_workers_leave_the_event_loop_to_others(tmp_path: Path) -> None:
    with measured() as pauses, serving(f"sqlite:///{tmp_path / 'd.db'}") as (client, service):
        digests = digests_of(service)
        digests.add_many([(f"sms:{number:04}", 1) for number in range(1000)], first_delay=3600)
        for worker in range(40):
            patterns = tuple(f"tenant{worker}-{number}:*" for number in range(MOST_PATTERNS))
            note(digests, *patterns, worker=f"w{worker}")
        visitor = Visitor(client)
        assert len(listed(visitor, only="unhandled")) == 50
        assert visitor.get("/timeline?key=sms:0001").status == 200

    assert pauses.longest < MOST, pauses


def test_links_and_forms_of_a_list_keep_each_others_wishes(visitor: Visitor, service: Service) -> None:
    digests_of(service).add_many([(f"ada{number:03}", 1) for number in range(60)], first_delay=0)

    page = visitor.page("/timelines?search=ada&state=ready&only=pending&sort=name&cadence=nonsense")

    tab = re.search(r'<a href="([^"]+)">waiting</a>', page)
    assert tab is not None
    assert tab[1] == "/timelines?search=ada&state=waiting&only=pending&sort=name"
    assert '<input type="hidden" name="state" value="ready">' in page
    assert '<option value="pending" selected>' in page
    assert '<option value="name" selected>' in page
    assert (next_page(page) or "").startswith("/timelines?search=ada&state=ready&only=pending&sort=name&after=")
    assert found(visitor.page(next_page(page) or "")) == [f"ada{number:03}" for number in range(50, 60)]


def test_a_cursor_belongs_to_the_list_that_it_came_from(visitor: Visitor, service: Service) -> None:
    digests_of(service).add_many([(f"ada{number:03}", 1) for number in range(60)])
    page = visitor.page("/timelines?search=ada")
    cursor = (next_page(page) or "").rpartition("after=")[2]

    assert visitor.get(f"/timelines?search=ada&after={cursor}").status == 200
    assert visitor.get(f"/timelines?search=adam&after={cursor}").status == 422
    assert visitor.get(f"/timelines?search=ada&sort=due&after={cursor}").status == 422


# Deliveries


def test_a_digest_that_was_given_up_is_no_delivery(visitor: Visitor, service: Service, ago: Ago) -> None:
    digests = digests_of(service)
    end(digests, "mail:ada", at=ago(7200))
    let_idle(digests, "mail:ada", at=ago(3000))
    end(digests, "mail:ada", fails=True, at=ago(600))
    end(digests, "mail:bob", fails=True, at=ago(600))

    ada, bob = text(visitor.page("/timeline?key=mail%3Aada")), text(visitor.page("/timeline?key=mail%3Abob"))

    assert "Last delivery 2 h ago Last digest given up 10 min" in ada
    assert "Last delivery none of the last 1 digest Last digest given up 10 min" in bob
    assert "given up 10 min" in text(visitor.page("/timelines?search=bob"))


def test_the_page_of_an_idle_timeline_says_when_its_last_delivery_was(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    end(digests_of(service), "mail:ada", at=ago(7200))
    let_idle(digests_of(service), "mail:ada", at=ago(60))

    assert "Last delivery 2 h ago Digests" in text(visitor.page("/timeline?key=mail%3Aada"))
    assert "Last delivery none known" in text(visitor.page("/timeline?key=mail%3Aunknown"))


def test_the_list_of_digests_shows_subject_and_recipient(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    asked: list[str] = []

    def address(timeline: str) -> str:
        asked.append(timeline)
        return "x@y.example"

    service.digests.route("mail:*", channel=f"file://{tmp_path}/out", to="{timeline}@example.com", title="<b>News</b>")
    service.digests.route("own:*", channel=f"file://{tmp_path}/out", to=address)
    service.digests.keep_messages()
    for key in ("mail:ada", "own:ada"):
        digests_of(service).add(key, {"title": "Hello"}, first_delay=0)
        asyncio.run(service.digests.deliver(key))
    [ended] = digests_of(service).history("mail:ada")
    digests_of(service).store.forget("messages", digests_of(service).history("own:ada")[0].id)
    asked.clear()

    page, raw = visitor.page("/digests"), visitor.get("/digests").body.decode()

    message = digests_of(service).message(ended.id)
    assert message is not None
    assert f'<a href="/digest?id={ended.id}"><bdi class="name" title="{message.subject}"' in page
    assert f"to {message.recipient}" in text(page)
    assert page.count('href="/digest?id=') == 1
    assert "<b>News" not in raw
    assert asked == []


def test_without_kept_messages_the_list_of_digests_shows_the_recipients_of_the_routes(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    service.digests.route("mail:*", channel="terminal://", to="{timeline}@example.com")
    end(digests_of(service), "mail:ada", fails=True, at=ago(60))

    page = text(visitor.page("/digests"))

    assert "to mail:ada@example.com given up 1" in page
    assert "/digest?id=" not in page


def test_a_reason_begins_with_what_happened_and_not_with_the_name_of_the_error(
    visitor: Visitor, service: Service, ago: Ago
) -> None:
    digests = digests_of(service)
    end(digests, "mail:ada", fails=True, at=ago(60))
    digests.set_policy("mail:bob", "minimum=5m,maximum=30m,attempts=3")
    digests.add("mail:bob", 1)
    with pytest.raises(DeliveryFailed), digests.digest("mail:bob"):
        raise DeliveryFailed("421 try later")
    [letter] = digests.dead_letters()
    pages = ("/", "/digests", "/dead-letters", f"/dead-letter?id={letter.id}")
    shown = [visitor.page(path).partition("Traceback")[0] for path in pages]

    assert letter.reason == "DeliveryFailed: 550 no such mailbox"
    assert [("550 no such mailbox" in page, "DeliveryFailed" in page) for page in shown] == [(True, False)] * 4
    assert "421 try later" in shown[0]


# Words


def test_numbers_have_the_noun_that_goes_with_them(visitor: Visitor, service: Service, ago: Ago) -> None:
    end(digests_of(service), "mail:ada", at=ago(5))
    end(digests_of(service), "mail:bob", fails=True, at=ago(5))
    digests_of(service).prefer("mail:off", "off")
    digests_of(service).add("mail:off", 1)
    one = text(visitor.page("/"))
    end(digests_of(service), "mail:ida", fails=True, at=ago(5))
    two = text(visitor.page("/"))

    assert "1 record in dead letters waits for a decision" in one
    assert "1 record delivered" in one
    assert "1 more record was declined" in one
    assert "2 records in dead letters wait for a decision" in two
    assert "each of the 3 accepted records has" in two


def test_the_figures_of_the_overview_count_what_they_name(ago: Ago) -> None:
    service = Service(settings_with(), AsyncDigests("memory://", policy=Policy(attempts=1)))
    digests = digests_of(service)
    sampler = Sampler(digests.store)
    sampler.tick(round(ago(200) * 1000))
    digests.add("mail:ada", 1, now=ago(190))
    end(digests, "mail:ada", at=ago(185))
    end(digests, "mail:bob", fails=True, at=ago(180))
    sampler.tick(round(ago(20) * 1000))
    digests.add_many([("mail:eve", 1), ("mail:eve", 2), ("mail:eve", 3)], first_delay=0)
    with digests.digest("mail:eve"), served(service) as client:
        digests.add("mail:eve", 4)
        page = text(Visitor(client).page("/"))
    asyncio.run(service.digests.close())

    assert "50.0 % 2 delivered records in 1 message in the last 6 h" in page
    assert "Backlog 4 records 3 timelines stored, with or without records" in page
    assert "Events in 1.0 /min in the last 3 minutes; 7 in all" in page
    assert "Messages out 0.3 /min in the last 3 minutes; 2 records delivered in all" in page


def test_a_time_that_has_passed_is_not_said_to_come(visitor: Visitor, service: Service, ago: Ago) -> None:
    end(digests_of(service), "cooled", at=ago(7200))
    digests_of(service).add("now", 1, first_delay=0, now=ago(0.7))

    assert re.search(r"end of cool-down (\d+ min|\d+ h)[^<]* ago", text(visitor.page("/timelines")))
    assert "next " not in text(visitor.page("/")) or "next due" in text(visitor.page("/"))
