"""Pages say what the store knows, whatever names are in it, and read a bounded part of it."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from digestif import Cadences, Digests
from digestif.core.secret import Secret
from digestif.core.verdicts import Discard
from digestif.errors import Overloaded, StoreError, StoreUnavailable
from digestif.service.engine import open_engine
from digestif.service.service import Service
from digestif.service.settings import RouteSettings, Scope
from digestif.stores.registry import open_store
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, served, serving, settings_with, token_of

PAGES = ["/", "/timelines", "/timeline?key=a", "/digests", "/dead-letters", "/channels", "/workers", "/status"]
WHOLE = ["/channels", "/workers", "/status", "/series"]
HOSTILE = ["<script>alert(1)</script>", "\u202egnp.ecioVni", "👩‍💻 🚀", '"><img src=x onerror=alert(1)>', "x" * 512]


def digests_of(service: Service) -> Digests:
    return service.digests.sync


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_an_empty_store_is_complete_and_nothing_may_be_loaded_into_it(visitor: Visitor, path: str) -> None:
    reply = visitor.get(path)

    assert reply.status == 200
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"
    assert not re.search(rb"<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:", reply.body)


@pytest.mark.parametrize("path", ["/timeline?key=a", "/timeline/record?key=a&record=r", "/timelines?search=a"])
def test_no_page_says_that_it_is_not_live_before_its_script_knows_that_it_follows(visitor: Visitor, path: str) -> None:
    [pulse] = re.findall(r'<p[^>]* id="pulse"[^>]*>', visitor.page(path))

    assert pulse.endswith(" hidden>")


def test_empty_pages_have_a_line_to_paste_with_the_real_address(visitor: Visitor, client: Client) -> None:
    line = f"curl {client.url}/v1/timelines/hello/records"

    assert line in visitor.page("/")
    assert line in visitor.page("/timelines")
    assert "[[routes]]" in visitor.page("/channels")


def test_a_channel_is_shown_by_its_name_and_no_page_shows_more_of_its_dsn() -> None:
    dsns = {
        "slack:*": "slack://hooks.slack.com/services/T0/B0/hunter2hunter2",
        "hook:*": "webhook+https://receiver.example/hunter2hunter2?secret=whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
        "mail:*": "smtp://ada:hunter2hunter2@mail.example:2525?from=digests@sender.example",
    }
    text, reader = token_of("reader", Scope.READ)
    routes = [RouteSettings(pattern=pattern, channel=Secret(dsn), options={}) for pattern, dsn in dsns.items()]
    settings = settings_with(reader, routes=tuple(routes))
    service = Service(settings, open_engine(settings, open_store("memory://")))

    with served(service) as client:
        visitor = Visitor(client)
        visitor.log_in(text)
        shown = visitor.page("/channels")
        everywhere = "".join(map(visitor.page, PAGES))

    assert re.search(r"slack://hooks\.slack\.com #\w{8}<", shown)
    assert re.search(r"webhook\+https://receiver\.example #\w{8}<", shown)
    assert "smtp://ada@mail.example:2525<" in shown
    for secret in ("hunter2", "whsec", "services", "sender.example"):
        assert secret not in everywhere


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_do_nothing(visitor: Visitor, service: Service, name: str) -> None:
    digests_of(service).add(name, {"title": name}, key=name)

    for path in ("/timelines", f"/timeline?{urlencode({'key': name})}", f"/timeline/delete?{urlencode({'key': name})}"):
        raw = visitor.get(path).body.decode()

        assert "<script>alert" not in raw
        assert "<img src=x" not in raw
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", raw)


def test_a_timeline_says_what_is_pending_why_it_is_due_and_what_its_policy_is(
    visitor: Visitor, service: Service
) -> None:
    digests_of(service).set_policy("orders", "minimum=5m,maximum=30m")
    digests_of(service).add("orders", {"title": "Order 7"}, key="o-7")

    page = visitor.page("/timeline?key=orders")

    assert "o-7" in page
    assert "Order 7" in page
    assert "minimum=5m,maximum=30m" in page
    assert "Remove this policy" in page
    assert 'class="arrival pending"' in page


def explanation_of(visitor: Visitor, timeline: str) -> str:
    page = visitor.page(f"/timeline?key={timeline}")
    return page[page.index('id="why"') : page.index('id="preview"')]


@pytest.mark.parametrize(
    "policy", ["daily@09:00 Europe/Berlin", "weekly@mon 09:00 Europe/Berlin", "hours@{later}:00-{later}:30 UTC"]
)
def test_the_time_of_a_window_is_marked_up_like_every_other_time_and_its_policy_is_not(
    visitor: Visitor, service: Service, policy: str
) -> None:
    digests, now = digests_of(service), datetime.now(UTC)
    policy = policy.format(later=f"{(now.hour + 6) % 24:02}")
    digests.set_policy("a", policy)
    digests.add("a", 1)
    due = digests.timeline("a").due
    assert due is not None

    shown = explanation_of(visitor, "a")
    bare = re.sub("<time.*?</time>", "", shown)

    instant = datetime.fromtimestamp(due, UTC)
    assert f'<time datetime="{instant:%Y-%m-%dT%H:%M:%S}' in shown
    assert policy in bare
    assert not re.search(r"(until|next time of \S+ is) \S*\d\d:\d\d", bare)


def test_each_cadence_has_its_own_plain_description() -> None:
    own = {
        "hourly": "hourly",
        "early": "daily@08:00 Europe/Berlin",
        "office": "cron@*/20 8-18 * * 1-5 UTC",
        "never": Cadences.OFF,
        "default": "default",
    }
    with serving(cadences=own) as (client, _):
        page = Visitor(client).page("/timeline?key=a")

    choices = dict(re.findall(r'<option value="([^"]*)">([^<]*)</option>', page))
    deletes = {name for name, label in choices.items() if "deletes" in label}
    assert deletes == {"off", "never"}
    assert choices["instant"] == "instant: each record immediately"
    assert (
        choices["hourly"] == "hourly: the first record immediately, further ones together, 1 hour after the last digest"
    )
    assert choices["early"] == "early: daily at 08:00 Europe/Berlin"
    assert choices["weekly"] == "weekly: weekly on Mon 09:00 UTC"
    assert choices["office"] == "office: immediate,window=cron@*/20 8-18 * * 1-5 UTC"
    assert choices["default"].endswith("at least 5 minutes and at most 30 minutes after the last digest")
    assert list(choices)[-2:] == ["off", "never"]


def test_why_a_digest_is_tried_again_is_shown_by_pages_and_api(
    visitor: Visitor, service: Service, client: Client
) -> None:
    digests = digests_of(service)
    digests.add("t", 1)
    with pytest.raises(OSError, match="full"), digests.digest("t"):
        raise OSError("<b>full</b>")

    pages = [visitor.get(path).body.decode() for path in ("/", "/timeline?key=t")]

    for page in pages:
        assert "ttempt 1 of 8 failed" in page
        assert "OSError: &lt;b&gt;full&lt;/b&gt;" in page
    assert "1 timeline is tried again after a failure" in pages[0]
    assert client.get("/v1/timelines/t/explain").json()["failed"]["reason"] == "OSError: <b>full</b>"
    assert [each["timeline"] for each in client.get("/v1/status").json()["failures"]] == ["t"]


def test_timelines_are_found_by_prefix_and_by_state(visitor: Visitor, service: Service) -> None:
    digests = digests_of(service)
    for key in ("mail:ada", "mail:bob", "push:ada"):
        digests.add(key, 1)
    digests.pause("mail:bob")

    assert rows(visitor.page("/timelines?prefix=mail%3A")) == ["mail:ada", "mail:bob"]
    assert rows(visitor.page("/timelines?state=ready")) == ["mail:ada", "push:ada"]
    assert rows(visitor.page("/timelines?state=paused")) == ["mail:bob"]
    assert rows(visitor.page("/timelines?state=waiting")) == []


def test_many_timelines_come_page_by_page(visitor: Visitor, service: Service) -> None:
    digests_of(service).add_many([(f"t{number:03}", 1) for number in range(120)])
    found, path = [], "/timelines"

    for _ in range(3):
        page = visitor.page(path)
        found += rows(page)
        path = more[1] if (more := re.search(r'href="([^"]+)" rel="next"', page)) else "/timelines"

    assert found == [f"t{number:03}" for number in range(120)]


def test_a_record_of_an_outcome_unknown_to_the_page_is_no_error(visitor: Visitor) -> None:
    assert visitor.get("/dead-letter?id=unknown").status == 404
    assert visitor.get("/digest?id=unknown").status == 404
    assert visitor.get("/timeline?key=").status == 422
    assert visitor.get("/timelines?after=nonsense").status == 422


def test_files_are_kept_for_good_under_their_hash_and_nothing_else_is_served(visitor: Visitor) -> None:
    address = re.search(r'href="(/static/[0-9a-f]+/digestif.css)"', visitor.page("/"))
    assert address is not None

    reply = visitor.get(address[1])

    assert reply.headers["content-type"].startswith("text/css")
    assert "immutable" in reply.headers["cache-control"]
    for name in ("../rendering.py", "%2e%2e/rendering.py", "vendor/vendor.lock.json", "nothing.css"):
        assert visitor.get(f"/static/x/{name}").status == 404


def test_a_token_with_a_prefix_sees_its_timelines_only() -> None:
    text, token = token_of("team", Scope.READ, prefix="team:")
    with serving(settings=settings_with(token)) as (client, service):
        digests_of(service).add("team:ada", "ours", key="r")
        digests_of(service).add("other:bob", "theirs", key="r")
        visitor = Visitor(client)
        visitor.log_in(text)

        assert rows(visitor.page("/timelines")) == ["team:ada"]
        assert rows(visitor.page("/timelines?prefix=other")) == ["team:ada"]
        assert visitor.get("/timeline?key=team%3Aada").status == 200
        assert visitor.get("/timeline?key=other%3Abob").status == 403
        assert visitor.get("/timeline/preview?key=other%3Abob").status == 403
        assert visitor.get("/digests?timeline=other%3Abob").status == 403
        assert visitor.get("/").headers["location"] == "/timelines"
        assert [visitor.get(path).status for path in WHOLE] == [403] * len(WHOLE)


def test_a_service_whose_token_may_only_read_shows_no_buttons_and_refuses_actions() -> None:
    text, token = token_of("reader", Scope.READ)
    with serving(settings=settings_with(token)) as (client, service):
        digests_of(service).add("a", 1, key="r")
        visitor = Visitor(client)
        visitor.log_in(text)

        page = visitor.page("/timeline?key=a")

        assert 'method="post" action="/timeline' not in page
        assert visitor.post("/timeline/delete", {"key": "a"}).status == 403
        assert digests_of(service).timeline("a").pending == 1


def rows(page: str) -> list[str]:
    """The names in a table of timelines."""
    return re.findall(r'<a class="key" id="[^"]*" href="[^"]*"><bdi class="name" title="([^"]*)"', page)


def test_the_preview_is_a_document_of_its_own_that_may_do_nothing(visitor: Visitor, service: Service) -> None:
    service.digests.route("mail:*", channel="terminal://")
    digests_of(service).add("mail:ada", {"title": "<script>alert(1)</script>"})

    page, frame = visitor.page("/timeline?key=mail%3Aada"), visitor.get("/timeline/preview?key=mail%3Aada")

    assert '<iframe class="mail" sandbox=""' in page
    assert "sandbox" in frame.headers["content-security-policy"]
    assert "script-src" not in frame.headers["content-security-policy"]
    assert frame.headers["x-frame-options"] == "SAMEORIGIN"
    assert b"<script>alert" not in frame.body
    assert b"alert(1)" in frame.body


def test_subject_and_recipient_of_the_next_message_stand_above_its_preview(visitor: Visitor, service: Service) -> None:
    service.digests.route("mail:*", channel="terminal://", to="{timeline}@example.com", title="<b>News</b>")
    digests_of(service).add("mail:ada", {"title": "Hello"})
    message = digests_of(service).preview("mail:ada")
    assert message is not None

    page, raw = visitor.page("/timeline?key=mail%3Aada"), visitor.get("/timeline?key=mail%3Aada").body.decode()

    above = page[: page.index("<iframe")]
    assert f">{message.recipient}</bdi>" in above
    assert f">{message.subject}</bdi>" in above
    assert "<b>News" not in raw


def preview_of(visitor: Visitor, timeline: str) -> tuple[str, str]:
    """What the page of a timeline shows as its preview, and what its frame shows."""
    page = visitor.page(f"/timeline?key={timeline}")
    preview = page[page.index('id="preview"') : page.index('id="policy"')]
    return preview, visitor.page(f"/timeline/preview?key={timeline}")


def test_a_timeline_that_was_emptied_while_its_page_was_read_has_nothing_to_preview(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = digests_of(service)
    digests.route("*", channel="terminal://")
    digests.add("a", 1)
    read, arrived = digests.store.history, [True]

    def read_after_a_delivery(*given: Any, **options: Any) -> Any:
        if arrived and arrived.pop():
            with digests.digest("a"):
                pass
        return read(*given, **options)

    monkeypatch.setattr(digests.store, "history", read_after_a_delivery)
    shown, framed = preview_of(visitor, "a")

    assert "A preview needs at least one pending record." in shown
    assert "route" not in shown
    assert "A preview needs at least one pending record." in framed


def test_a_preview_says_whether_a_route_is_missing_or_would_send_nothing(visitor: Visitor, service: Service) -> None:
    digests = digests_of(service)

    def leave_out(timeline: str) -> str:
        raise Discard(f"{timeline} has no reader")

    digests.route("silent", channel="terminal://", to=leave_out)
    for timeline in ("silent", "unrouted"):
        digests.add(timeline, 1)

    for shown in preview_of(visitor, "silent"):
        assert "the route of this timeline would send nothing" in shown
        assert "no route" not in shown
    for shown in preview_of(visitor, "unrouted"):
        assert "this service has no route for this timeline" in shown
        assert "would send nothing" not in shown


@pytest.mark.parametrize("to", [lambda _: "", {}.__getitem__], ids=["wrong", "failing"])
def test_a_message_that_can_not_be_rendered_leaves_the_page_whole(
    visitor: Visitor, service: Service, to: Callable[[str], str]
) -> None:
    service.digests.route("mail:*", channel="terminal://", to=to)
    digests_of(service).add("mail:ada", {"title": "Hello"}, key="r-1")
    digests_of(service).add("other", 1)

    page, other = visitor.page("/timeline?key=mail%3Aada"), visitor.page("/timeline?key=other")

    assert "The message can’t be rendered: " in page
    assert "r-1" in page
    assert "<iframe" not in page
    assert "no route for this timeline" in other


def test_a_kept_message_is_shown_as_it_was_sent(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    service.digests.route("mail:*", channel=f"file://{tmp_path}/out")
    service.digests.keep_messages()
    digests_of(service).add("mail:ada", {"title": "<script>alert(1)</script>"})
    asyncio.run(service.digests.deliver("mail:ada"))
    [ended] = digests_of(service).history()

    page, frame = visitor.page(f"/digest?id={ended.id}"), visitor.get(f"/digest/message?id={ended.id}")

    assert "mail:ada" in page
    assert f"/digest/message?id={ended.id}" in page
    assert "sandbox" in frame.headers["content-security-policy"]
    assert b"<script>alert" not in frame.body
    assert b"alert(1)" in frame.body


@pytest.mark.parametrize(("error", "status"), [(StoreUnavailable, 503), (StoreError, 503), (Overloaded, 507)])
def test_a_page_without_its_store_says_so_and_names_no_server(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch, error: type[StoreError], status: int
) -> None:
    def fail(*_: object) -> None:
        raise error("db.internal:5432: no route to host")

    monkeypatch.setattr(service.digests.store, "note", fail)
    first = visitor.get("/timelines")  # without the secret that signs sessions
    monkeypatch.undo()
    visitor.page("/timelines")
    monkeypatch.setattr(service.digests.store, "ledger", fail)
    later = visitor.get("/status")

    assert (first.status, later.status) == (status, status)
    for reply in (first, later):
        assert b"store" in reply.body
        assert b"db.internal" not in reply.body
        assert reply.headers["retry-after"]
        assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_the_stream_of_changes_tells_no_facts(client: Client, service: Service) -> None:
    connection = client.connect()
    connection.request("GET", "/live")
    response = connection.getresponse()

    assert response.status == 200
    assert response.read(40).startswith(b"retry: 3000\n\nevent: changed\ndata: \n\n")
    connection.close()


def test_no_page_reads_more_than_500_rows_of_a_full_store(visitor: Visitor, service: Service) -> None:
    digests = digests_of(service)
    digests.add_many([(f"t{number:04}", 1) for number in range(1200)])
    digests.add_many([("full", number) for number in range(1200)])
    seen: list[int] = []
    store, reading = digests.store, ("records", "letters", "letter_records", "history", "scan", "look_over")
    for verb in reading:
        setattr(store, verb, counted(getattr(store, verb), seen))

    for path in ("/", "/timelines", "/timelines?prefix=t09", "/timeline?key=full", "/digests", "/dead-letters"):
        seen.clear()
        assert visitor.get(path).status == 200
        assert sum(seen) <= 500, path
    assert "the newest 100 of 1,200" in visitor.page("/timeline?key=full")
    assert "too many records for a preview" in visitor.page("/timeline?key=full")


def counted(read: Callable[..., Any], seen: list[int]) -> Callable[..., Any]:
    """The same verb of a store, which notes how many rows its caller let it read."""

    def call(*args: Any, **options: Any) -> Any:
        found = read(*args, **options)
        seen.append(len(getattr(found, "timelines", found)))
        return found

    return call


def test_an_address_with_very_many_parameters_is_refused(visitor: Visitor) -> None:
    assert visitor.get("/timelines?" + "&".join(f"p{number}=1" for number in range(20))).status == 200
    assert visitor.get("/timelines?" + "&".join(f"p{number}=1" for number in range(21))).status == 400


def test_an_address_with_a_slash_behind_it_leads_to_its_page_whatever_the_proxy_speaks() -> None:
    with serving(settings=settings_with(public="https://digests.example")) as (client, _):
        visitor = Visitor(client)

        for path, place in {
            "/timelines/": "/timelines",
            "/timelines//?prefix=a": "/timelines?prefix=a",
            "/dead-letters/": "/dead-letters",
        }.items():
            reply = visitor.get(path, Host="digests.example")
            assert (reply.status, reply.headers["location"]) == (307, place)
        for path in ("//evil.example/", "/\\evil.example/", "/evil/", "/timeline/flush/"):
            assert visitor.get(path).status == 404


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere", 404), ("/evil/", 404), ("/dead-letter?id=x", 404), ("/timeline?key=", 422)]
)
def test_an_error_page_leads_back_to_the_pages_and_to_the_search(visitor: Visitor, path: str, status: int) -> None:
    reply = visitor.get(path)
    page = reply.body.decode()

    assert reply.status == status
    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    main = page[page.index("<main") :]
    assert re.findall(r'class="button" href="([^"]*)"', main) == ["/", "/timelines"]
    assert 'role="search" action="/timelines"' in main
    assert f"<small>{status}</small>" in main
    assert '<nav aria-label="Pages">' in page


def test_a_request_that_a_page_does_not_take_gets_a_page_too(visitor: Visitor) -> None:
    reply = visitor.post("/timelines", {})

    assert reply.status == 405
    assert b"This address takes no such request" in reply.body


def test_an_error_page_names_no_pages_to_those_who_are_not_logged_in_or_reach_less() -> None:
    text, token = token_of("team", Scope.READ, prefix="team:")
    with serving(settings=settings_with(token)) as (client, _):
        stranger, visitor = Visitor(client), Visitor(client)
        visitor.log_in(text)

        before, refused = stranger.get("/nowhere"), visitor.get("/channels")

    assert before.status == 404
    assert b'href="/login"' in before.body
    assert b'href="/status"' not in before.body
    assert refused.status == 403
    assert b'class="button" href="/timelines"' in refused.body
    assert b'href="/status"' not in refused.body


def test_a_page_that_fails_unexpectedly_leads_back_and_shows_nothing_of_the_error(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("hunter2")

    visitor.page("/timelines")
    monkeypatch.setattr(service.digests.store, "ledger", fail)

    reply = visitor.get("/status")

    assert reply.status == 500
    assert b"hunter2" not in reply.body
    assert re.findall(rb'class="button" href="([^"]*)"', reply.body) == [b"/", b"/timelines"]
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_paths_of_the_api_that_lead_nowhere_are_answered_with_problems(client: Client) -> None:
    reply = client.get("/v1/nowhere")

    assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")


def test_the_page_of_a_timeline_that_is_off_promises_nothing_and_offers_no_delivery(
    visitor: Visitor, service: Service
) -> None:
    digests = digests_of(service)
    digests.add("a", 1)
    with digests.digest("a"):
        pass
    buttons = ('action="/timeline/flush"', 'action="/timeline/test"')
    before = visitor.page("/timeline?key=a")
    digests.prefer("a", "off")

    page = visitor.page("/timeline?key=a")

    assert digests.timeline("a").state == "waiting"
    assert '<span class="state waiting">waiting</span> <span class="state idle">off</span>' in page
    assert '<dt>Next delivery</dt><dd><span class="none">none: switched off</span></dd>' in page
    assert "<code>prefer</code> or <code>clear_policy</code> switches it on again." in page
    assert "cool-down" not in page
    assert "<code>flush</code>" not in page
    for button in buttons:
        assert button in before
        assert button not in page


def test_a_timeline_that_is_off_and_was_never_used_is_not_said_to_begin_with_a_record(
    visitor: Visitor, service: Service
) -> None:
    digests_of(service).prefer("a", "off")

    page = visitor.page("/timeline?key=a")

    assert "It is switched off, so it accepts no record." in page
    assert "It begins with its first record" not in page


def test_a_digest_that_is_delivered_while_its_timeline_is_off_is_shown(visitor: Visitor, service: Service) -> None:
    digests = digests_of(service)
    digests.add("a", 1)

    with digests.digest("a"):
        digests.prefer("a", "off")
        page = visitor.page("/timeline?key=a")

    assert "being delivered" in page
    assert "none: switched off" not in page
