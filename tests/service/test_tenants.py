"""Tokens with a prefix: the one for `a:` learns nothing about `b:`, and pushes nothing of theirs out."""

import asyncio
import base64
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from digestif import Policy
from digestif.core.damage import Damage
from digestif.core.explain import Explanation
from digestif.core.outages import ChannelOutage
from digestif.service.api import events, idempotency
from digestif.service.dashboard import live
from digestif.service.security import audit, reach, sessions
from digestif.service.service import Service
from digestif.service.settings import Limits
from digestif.stores.damage import Unreadable
from tests.servers import empty_server
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, Reply, serving, settings_with, token_of
from tests.stores.postgres.servers import empty_database

LATER = Policy(first_delay=3600, attempts=1)
NO_SUCH_ID = "0" * 20


class Tenants(NamedTuple):
    """A service with a token for `a:`, one for `b:`, and one for all timelines."""

    a: Client
    b: Client
    operator: Client
    service: Service

    def visitor(self, client: Client) -> Visitor:
        """The dashboard as the holder of a client's token sees it."""
        visitor = Visitor(client)
        assert client.token is not None
        visitor.log_in(client.token)
        visitor.get("/timelines")  # has forms
        return visitor


@contextmanager
def tenants_on(store: str, **limits: Any) -> Iterator[Tenants]:
    known = {name: token_of(name, prefix=prefix) for name, prefix in (("a", "a:"), ("b", "b:"), ("operator", ""))}
    settings = settings_with(*(token for _, token in known.values()), limits=Limits(**limits))
    with serving(store, settings, policy=LATER) as (client, service):
        a, b, operator = (client.by(text) for text, _ in known.values())
        yield Tenants(a, b, operator, service)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        with empty_database() as url:
            yield url
    else:
        places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/d.db"}
        yield places.get(request.param) or empty_server().url


@pytest.fixture
def tenants(store: str) -> Iterator[Tenants]:
    with tenants_on(store) as found:
        yield found


def fill(client: Client, *timelines: str) -> None:
    records = [{"timeline": timeline, "value": 1, "key": "r"} for timeline in timelines]
    assert client.post("/v1/records", records).status == 202


def bury(service: Service, timeline: str) -> str:
    """Let a digest of a timeline fail for good; the id of its dead letter."""

    async def fail() -> str:
        digests = service.digests
        await digests.add(timeline, "sent in vain")
        await digests.flush(timeline)
        with pytest.raises(RuntimeError):
            async with digests.digest(timeline):
                raise RuntimeError("no such mailbox")
        return (await digests.dead_letters(timeline))[-1].id

    return asyncio.run(fail())


def pages(client: Client, path: str, field: str) -> tuple[list[Any], list[str]]:
    """All entries of a list, and the cursors between its pages."""
    found: list[Any] = []
    cursors: list[str] = []
    after = ""
    while True:
        answer = client.get(f"{path}{'&after=' if after else ''}{after}").json()
        found += answer[field]
        after = answer["after"]
        if after is None:
            return found, cursors
        cursors.append(after)


# Lists


@pytest.mark.parametrize("state", ["", "&state=waiting"])
def test_pages_of_timelines_are_full_whatever_others_have_between(tenants: Tenants, state: str) -> None:
    fill(tenants.b, *(f"b:{number:03}" for number in range(120)))
    fill(tenants.a, *(f"a:{number}" for number in range(5)))
    fill(tenants.b, *(f"b:{number:03}" for number in range(120, 240)))

    found, cursors = pages(tenants.a, f"/v1/timelines?limit=2{state}", "timelines")

    assert [each["key"] for each in found] == [f"a:{number}" for number in range(5)]
    assert len(cursors) == 2
    assert pages(tenants.a, f"/v1/timelines?limit=5{state}", "timelines")[1] == []


def test_pages_of_dead_letters_are_full_whatever_others_have_between(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "LETTERS_READ", 3)  # in one slice
    own = []
    for number in range(3):
        own.append(bury(tenants.service, f"a:{number}"))
        for other in range(4):
            bury(tenants.service, f"b:{number}{other}")

    found, cursors = pages(tenants.a, "/v1/dead-letters?limit=2", "dead_letters")

    assert [each["id"] for each in found] == own
    assert len(cursors) == 1
    assert pages(tenants.a, "/v1/dead-letters?limit=3", "dead_letters")[1] == []
    visitor = tenants.visitor(tenants.a)
    assert re.findall(r'id="l-(\w+)"', visitor.page("/dead-letters")) == own
    assert "Continue the search" not in visitor.page("/dead-letters")


def test_a_list_goes_on_behind_many_letters_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "LETTERS_READ", 3)
    monkeypatch.setattr(reach, "SLICES", 1)
    with tenants_on("memory://") as tenants:
        own = []
        for number in range(3):
            own.append(bury(tenants.service, f"a:{number}"))
            for other in range(7):
                bury(tenants.service, f"b:{number}{other}")

        found, _ = pages(tenants.a, "/v1/dead-letters?limit=2", "dead_letters")

    assert [each["id"] for each in found] == own


def test_a_list_goes_on_behind_many_own_timelines_of_other_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "TIMELINES_READ", 3)
    monkeypatch.setattr(reach, "SLICES", 1)
    with tenants_on("memory://") as tenants:
        fill(tenants.a, *(f"a:{number:02}" for number in range(20)))
        for number in (5, 19):
            tenants.a.post(f"/v1/timelines/a%3A{number:02}/flush")

        found, _ = pages(tenants.a, "/v1/timelines?limit=2&state=ready", "timelines")

    assert [each["key"] for each in found] == ["a:05", "a:19"]


def test_the_dashboard_lists_own_timelines_by_state_without_gaps(tenants: Tenants) -> None:
    fill(tenants.b, *(f"b:{number:03}" for number in range(120)))
    fill(tenants.a, *(f"a:{number:02}" for number in range(60)))
    tenants.a.post("/v1/timelines/a%3A01/pause")
    visitor = tenants.visitor(tenants.a)

    first = visitor.page("/timelines?state=waiting")
    [following] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = visitor.page(following)

    shown = [re.findall(r">(a:\d\d)<", page) for page in (first, second)]
    assert [len(each) for each in shown] == [50, 9]
    assert [*shown[0], *shown[1]] == [f"a:{number:02}" for number in range(60) if number != 1]
    assert 'rel="next"' not in second
    assert re.findall(r">([ab]:\d+)<", visitor.page("/timelines?state=paused")) == ["a:01"]


@pytest.mark.parametrize("query", ["sort=due", "sort=pending", "only=due", "only=pending", "search=01", "state=idle"])
def test_lists_of_the_dashboard_show_the_same_whatever_others_have(tenants: Tenants, query: str) -> None:
    fill(tenants.a, *(f"a:{number:02}" for number in range(5)))
    end_idle(tenants.service, "a:idle01")
    visitor = tenants.visitor(tenants.a)
    alone = shown(visitor.page(f"/timelines?{query}"))

    fill(tenants.b, *(f"b:{number:03}" for number in range(120)))
    end_idle(tenants.service, "b:idle01")
    bury(tenants.service, "b:dead01")

    assert shown(visitor.page(f"/timelines?{query}")) == alone
    assert {name for name in alone[0] if name.startswith("a:")} == set(alone[0])
    assert ("a:idle01" in alone[0]) == (query in ("search=01", "state=idle"))


def test_a_search_of_a_tenant_finds_none_of_others_by_the_patterns_of_routes(tenants: Tenants) -> None:
    tenants.service.digests.route("b:*", channel="terminal://")
    fill(tenants.a, "a:zoe")
    fill(tenants.b, "b:zoe")

    page = tenants.visitor(tenants.a).page("/timelines?search=zoe&route=b%3A%2A")

    assert shown(page)[0] == ["a:zoe"]
    assert "b:" not in page


def end_idle(service: Service, timeline: str) -> None:
    """Deliver a digest of a timeline, which is idle after that."""

    async def end() -> None:
        digests = service.digests
        await digests.set_policy(timeline, "minimum=0s,maximum=0s")
        await digests.add(timeline, 1)
        async with digests.digest(timeline):
            pass
        await digests.clear_policy(timeline)
        await digests.flush(timeline)
        async with digests.digest(timeline):
            pass
        assert (await digests.timeline(timeline)).state == "idle"

    asyncio.run(end())


def shown(page: str) -> tuple[list[str], str | None, str | None]:
    """The timelines of a list, what it says about them, and whether it goes on."""
    names = re.findall(r'<a class="key" id="[^"]*" href="[^"]*"><bdi class="name" title="([^"]*)"', page)
    note, more = re.search(r'<p class="note">(.*?)</p>', page), re.search('rel="next"', page)
    return names, note and note[1], more and more[0]


# Cursors


def letters_of(text: str) -> bytes:
    """What a reader sees who takes a text apart."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return base64.urlsafe_b64decode(padded)
    except ValueError:
        return text.encode()


@pytest.mark.parametrize("path", ["/v1/timelines?limit=1", "/v1/timelines?limit=1&state=waiting"])
def test_a_cursor_says_nothing_of_where_it_stands(tenants: Tenants, path: str) -> None:
    fill(tenants.operator, "secret-name", "secret-name-2")

    cursor = tenants.operator.get(path).json()["after"]

    assert b"secret" not in letters_of(cursor)
    assert b"waiting" not in letters_of(cursor)
    assert b"secret" not in letters_of(letters_of(cursor).decode("latin-1"))


def test_cursors_of_short_and_long_names_have_one_length(tenants: Tenants) -> None:
    lengths = set()
    for name in ("a:", "a:" + "n" * 40):
        fill(tenants.a, name, "a:zz")
        lengths.add(len(tenants.a.get("/v1/timelines?limit=1").json()["after"]))
        tenants.a.send("DELETE", f"/v1/timelines/{quote(name, safe='')}")

    assert len(lengths) == 1


@pytest.mark.parametrize("state", ["", "&state=waiting"])
def test_a_cursor_of_the_longest_name_serves(tenants: Tenants, state: str) -> None:
    names = ["\x01" * 512, "\x01" * 511 + "\x02", "\U0001f600" * 128]
    for name in names:  # one after the other, so that they are due in this order
        fill(tenants.operator, name)

    found, cursors = pages(tenants.operator, f"/v1/timelines?limit=1{state}", "timelines")

    assert [each["key"] for each in found] == names
    assert len(cursors) >= 2


def is_refused(reply: Reply, name: str = "after") -> bool:
    return reply.status == 422 and reply.json()["detail"] == f"{name}: not from a page of this list"


def test_a_cursor_serves_its_token_and_its_list_only(tenants: Tenants) -> None:
    fill(tenants.a, "a:1", "a:2", "a:3")
    fill(tenants.b, "b:1", "b:2")
    letters = [bury(tenants.service, "a:dead") for _ in range(2)]
    after = tenants.a.get("/v1/timelines?limit=1").json()["after"]
    dead = tenants.a.get("/v1/dead-letters?limit=1").json()["after"]

    assert tenants.a.get(f"/v1/timelines?limit=9&after={after}").status == 200
    assert tenants.a.get(f"/v1/dead-letters?limit=9&after={dead}").json()["dead_letters"][0]["id"] == letters[1]
    for other in (tenants.b, tenants.operator):
        assert is_refused(other.get(f"/v1/timelines?after={after}"))
        assert is_refused(other.get(f"/v1/dead-letters?after={dead}"))
    for path in ("/v1/timelines?state=waiting", "/v1/timelines?prefix=a:1", "/v1/dead-letters?limit=1"):
        assert is_refused(tenants.a.get(f"{path}&after={after}"))
    for path in ("/v1/dead-letters?timeline=a:dead", "/v1/timelines?limit=1"):
        assert is_refused(tenants.a.get(f"{path}&after={dead}"))


@pytest.mark.parametrize("wrong", ["x", "0", "%00", "ü", "=", "-" * 6000, "AAAA", NO_SUCH_ID])
def test_what_is_no_cursor_is_refused(tenants: Tenants, wrong: str) -> None:
    fill(tenants.operator, "a:1", "a:2")
    text = wrong if wrong.startswith("%") else quote(wrong)

    for path in ("/v1/timelines?after=", "/v1/dead-letters?after="):
        assert is_refused(tenants.a.get(path + text))
    assert is_refused(tenants.operator.get(f"/v1/audit?before={text}"), "before")
    for path in ("/timelines?after=", "/dead-letters?after="):
        assert tenants.visitor(tenants.a).get(path + text).status == 422


def test_each_changed_or_cut_cursor_is_refused(tenants: Tenants) -> None:
    fill(tenants.a, "a:1", "a:2")
    after = tenants.a.get("/v1/timelines?limit=1").json()["after"]
    changed = [
        after[:place] + ("A" if after[place] != "A" else "B") + after[place + 1 :] for place in range(len(after))
    ]

    for wrong in [*changed[:: max(1, len(changed) // 20)], *(after[:length] for length in range(1, len(after), 20))]:
        assert is_refused(tenants.a.get(f"/v1/timelines?after={wrong}")), wrong


def test_a_cursor_serves_in_another_process_of_the_service(tmp_path: Path) -> None:
    text, token = token_of("a", prefix="a:")
    store = f"sqlite:///{tmp_path}/d.db"
    with serving(store, settings_with(token), policy=LATER) as (one, _):
        fill(one.by(text), "a:1", "a:2")
        after = one.by(text).get("/v1/timelines?limit=1").json()["after"]
        with serving(store, settings_with(token), policy=LATER) as (other, _):
            found = other.by(text).get(f"/v1/timelines?after={after}").json()["timelines"]

    assert [each["key"] for each in found] == ["a:2"]


def test_the_audit_log_is_read_page_by_page(tenants: Tenants) -> None:
    for number in range(3):
        tenants.operator.send("PUT", f"/v1/timelines/t{number}/policy", {"policy": "minimum=1m"})

    first = tenants.operator.get("/v1/audit?limit=2").json()
    second = tenants.operator.get(f"/v1/audit?limit=2&before={first['before']}").json()

    assert [each["timeline"] for each in first["entries"] + second["entries"]] == ["t2", "t1", "t0"]


# Ids


def several(letter_id: str) -> list[tuple[str, str]]:
    """The fields of a form with two selected dead letters."""
    return [("id", letter_id), ("id", "1" * 20), ("confirmed", "yes")]


def test_a_foreign_dead_letter_is_as_one_that_does_not_exist(tenants: Tenants) -> None:
    other = bury(tenants.service, "b:1")
    visitor = tenants.visitor(tenants.a)

    for method, act in (("GET", ""), ("POST", "/replay"), ("POST", "/requeue"), ("DELETE", "")):
        theirs = tenants.a.send(method, f"/v1/dead-letters/{other}{act}")
        missing = tenants.a.send(method, f"/v1/dead-letters/{NO_SUCH_ID}{act}")
        assert theirs.status == missing.status == 404
        assert theirs.body.replace(other.encode(), b"") == missing.body.replace(NO_SUCH_ID.encode(), b"")
    theirs, missing = (visitor.get(f"/dead-letter?id={each}") for each in (other, NO_SUCH_ID))
    assert theirs.status == missing.status == 404
    assert without(theirs.body, other) == without(missing.body, NO_SUCH_ID)
    for act in ("replay", "requeue", "discard"):
        theirs, missing = (visitor.post(f"/dead-letter/{act}", {"id": each}) for each in (other, NO_SUCH_ID))
        assert theirs.status == missing.status == 404
        assert without(theirs.body, other) == without(missing.body, NO_SUCH_ID)
        theirs, missing = (visitor.post(f"/dead-letter/{act}", several(each)) for each in (other, NO_SUCH_ID))
        assert theirs.status == missing.status
        assert without(theirs.body, other[:10]) == without(missing.body, NO_SUCH_ID[:10])
    assert tenants.operator.get("/v1/audit").json()["entries"] == []
    assert tenants.b.get(f"/v1/dead-letters/{other}").status == 200


def without(page: bytes, text: str) -> bytes:
    return page.replace(text.encode(), b"")


def test_a_foreign_dead_letter_that_is_damaged_is_as_one_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_: str) -> None:
        raise Unreadable(Damage(timeline="b:1", part="letter", problem="no JSON"))

    with tenants_on("memory://") as tenants:
        monkeypatch.setattr(tenants.service.digests.store, "letter", damaged)

        statuses = [client.get(f"/v1/dead-letters/{NO_SUCH_ID}").status for client in (tenants.a, tenants.b)]

    assert statuses == [404, 503]


def test_a_foreign_message_is_as_one_that_was_not_kept(tmp_path: Path) -> None:
    with tenants_on("memory://") as tenants:
        digests = tenants.service.digests
        digests.route("*", channel=f"file://{tmp_path}", policy=Policy(minimum_delay=0))
        digests.keep_messages()
        visitor = tenants.visitor(tenants.a)

        async def send() -> str:
            await digests.add("b:1", "theirs")
            await digests.deliver("b:1")
            [ended] = await digests.history("b:1")
            return ended.id

        theirs = asyncio.run(send())

        assert tenants.b.get(f"/v1/digests/{theirs}/message").status == 200
        for each in (f"/v1/digests/{theirs}/message", f"/v1/digests/{NO_SUCH_ID}/message"):
            assert tenants.a.get(each).status == 404
        for page in ("/digest", "/digest/message"):
            found, missing = (visitor.get(f"{page}?id={each}") for each in (theirs, NO_SUCH_ID))
            assert found.status == missing.status == 404
            assert without(found.body, theirs) == without(missing.body, NO_SUCH_ID)


def test_a_foreign_timeline_in_the_path_is_403_whether_it_exists_or_not(tenants: Tenants) -> None:
    fill(tenants.b, "b:1")
    visitor = tenants.visitor(tenants.a)

    for path in (
        "/v1/timelines/{}",
        "/v1/timelines/{}/explain",
        "/v1/dead-letters?timeline={}",
        "/v1/digests?timeline={}",
    ):
        there, missing = (tenants.a.get(path.format(name)) for name in ("b:1", "b:2"))
        assert there.status == missing.status == 403
        assert there.json()["detail"] == missing.json()["detail"]
    for path in ("/timeline?key={}", "/digests?timeline={}", "/dead-letters?timeline={}"):
        there, missing = (visitor.get(path.format(name)) for name in ("b:1", "b:2"))
        assert there.status == missing.status == 403
        assert without(there.body, "b:1") == without(missing.body, "b:2")


def test_two_tokens_may_use_the_same_idempotency_key(tenants: Tenants) -> None:
    once = {"Idempotency-Key": "k"}

    replies = [
        client.post(f"/v1/timelines/{name}/records", {"value": name}, headers=once)
        for client, name in ((tenants.a, "a:1"), (tenants.b, "b:1"))
    ]

    assert [reply.status for reply in replies] == [202, 202]
    assert all("idempotent-replayed" not in reply.headers for reply in replies)


# What is kept for a while


def test_one_token_does_not_push_out_the_idempotency_keys_of_another(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "BOUNDS", idempotency.BOUNDS._replace(entries=3))

    def add(client: Client, timeline: str, key: str) -> Reply:
        return client.post(f"/v1/timelines/{timeline}/records", {"value": 1}, headers={"Idempotency-Key": key})

    first = add(tenants.b, "b:1", "theirs")
    for number in range(10):
        add(tenants.a, "a:1", str(number))

    assert add(tenants.b, "b:1", "theirs").body == first.body
    assert tenants.b.get("/v1/timelines/b%3A1").json()["pending"] == 1


def test_one_token_does_not_push_out_what_the_audit_log_has_of_another(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "BOUNDS", audit.BOUNDS._replace(entries=3))
    tenants.b.send("PUT", "/v1/timelines/b%3A1/policy", {"policy": "minimum=1m"})
    for _ in range(10):
        tenants.a.send("PUT", "/v1/timelines/a%3A1/policy", {"policy": "minimum=1m"})

    who = [each["who"] for each in tenants.operator.get("/v1/audit").json()["entries"]]

    assert who == ["a", "a", "a", "b"]


def test_one_token_does_not_bring_back_the_sessions_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "BOUNDS", sessions.BOUNDS._replace(entries=2))
    with tenants_on("memory://") as tenants:
        theirs = tenants.visitor(tenants.b)
        before = dict(theirs.cookies)
        theirs.post("/logout")
        for _ in range(5):
            tenants.visitor(tenants.a).post("/logout")
        theirs.cookies = before

        assert theirs.get("/timelines").status == 303


def test_the_digests_of_others_do_not_push_own_ones_out_of_the_list(tenants: Tenants) -> None:
    bury(tenants.service, "a:1")
    for number in range(5):
        bury(tenants.service, f"b:{number}")

    [own] = tenants.a.get("/v1/digests?limit=1").json()["digests"]

    assert own["timeline"] == "a:1"


# Limits


def test_each_prefix_has_room_for_as_many_timelines_as_are_allowed(store: str) -> None:
    with tenants_on(store, timelines=3) as tenants:
        fill(tenants.b, "b:1", "b:2", "b:3")

        statuses = [tenants.a.add(f"a:{number}", 1).status for number in (1, 2, 3, 4, 1)]
        refused = tenants.a.add("a:5", 1)

        assert statuses == [202, 202, 202, 507, 202]
        assert re.findall(r"\d+", refused.json()["detail"]) == []
        assert tenants.b.add("b:4", 1).status == 507
        assert tenants.operator.add("c", 1).status == 507  # it reaches six


def test_a_timeline_that_was_deleted_makes_room_again(store: str) -> None:
    with tenants_on(store, timelines=1) as tenants:
        statuses = [tenants.a.add("a:1", 1).status, tenants.a.add("a:2", 1).status]
        tenants.a.send("DELETE", "/v1/timelines/a%3A1")

        assert [*statuses, tenants.a.add("a:2", 1).status] == [202, 507, 202]


@contextmanager
def listening(client: Client, path: str, **headers: str) -> Iterator[HTTPResponse]:
    connection = client.connect()
    own = {"Authorization": f"Bearer {client.token}"} if client.token else {}
    connection.request("GET", path, headers={**own, **headers})
    response = connection.getresponse()
    with closing(connection), closing(response):
        yield response


def cookie_of(visitor: Visitor) -> str:
    return "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())


def test_one_token_can_not_take_the_streams_of_others() -> None:
    with tenants_on("memory://", streams=2) as tenants:
        cookies = {name: cookie_of(tenants.visitor(client)) for name, client in (("a", tenants.a), ("b", tenants.b))}
        anyone = tenants.a.by(None)
        with (
            listening(anyone, "/live", Cookie=cookies["a"]) as first,
            listening(anyone, "/live", Cookie=cookies["a"]) as second,
            listening(anyone, "/live", Cookie=cookies["a"]) as third,
            listening(anyone, "/live", Cookie=cookies["b"]) as other,
            listening(tenants.operator, "/v1/events") as whole,
        ):
            assert [each.status for each in (first, second, third, other, whole)] == [200, 200, 429, 200, 200]


def test_beyond_the_total_the_token_with_most_streams_gives_one_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "TOKENS_SERVED", 1)  # at their full number of streams
    with tenants_on("memory://", streams=2) as tenants:
        anyone, cookie = tenants.a.by(None), cookie_of(tenants.visitor(tenants.a))
        with (
            listening(tenants.operator, "/v1/events") as first,
            listening(tenants.operator, "/v1/events") as second,
            listening(anyone, "/live", Cookie=cookie) as other,
            listening(anyone, "/live", Cookie=cookie) as refused,
        ):
            assert [each.status for each in (first, second, other, refused)] == [200, 200, 200, 429]
            assert second.read() is not None  # it has ended


# Activity


def test_live_pages_of_a_prefix_look_again_at_a_fixed_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether others are active does not show: neither in the number of messages nor in their times."""
    monkeypatch.setattr(live, "TICK", 0.5)
    with tenants_on("memory://") as tenants:
        cookie = cookie_of(tenants.visitor(tenants.a))
        with listening(tenants.a.by(None), "/live", Cookie=cookie) as stream:
            began = time.monotonic()
            times: list[float] = []
            while len(times) < 5:
                if stream.readline() == b"event: changed\n":
                    times.append(time.monotonic() - began)
                fill(tenants.b, f"b:{len(times)}")

    assert times[4] - times[1] >= 3 * 0.5 - 0.2


@pytest.mark.parametrize(
    "path",
    ["/v1/ledger", "/v1/status", "/v1/channels", "/v1/workers", "/v1/samples", "/v1/audit", "/v1/events", "/metrics"],
)
def test_what_concerns_all_timelines_is_refused_to_a_prefix(path: str) -> None:
    with tenants_on("memory://") as tenants:
        assert tenants.a.get(path).status == 403
        assert tenants.a.by(None).get(path).status == 401


def test_an_explanation_names_no_patterns_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with explained_outage(monkeypatch, patterns=("*", "a:*", "b:*")) as tenants:
        shown = [
            client.get("/v1/timelines/a%3A1/explain").json()["outage"]["patterns"]
            for client in (tenants.a, tenants.operator)
        ]

    assert shown == [["*", "a:*"], ["*", "a:*", "b:*"]]


def test_an_explanation_has_no_reply_to_a_digest_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fact 88. The reason of an outage may name the recipient whose digest met it, on the dashboard too."""
    with explained_outage(monkeypatch, reason="421 <bob@b.example>: shutting down") as tenants:
        shown = [
            (client.get("/v1/timelines/a%3A1/explain").body, tenants.visitor(client).get("/timeline?key=a%3A1").body)
            for client in (tenants.a, tenants.operator)
        ]

    assert [[b"bob@b.example" in text for text in texts] for texts in shown] == [[False, False], [True, True]]
    assert all(b"is unavailable since" in page for _, page in shown)


@contextmanager
def explained_outage(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> Iterator[Tenants]:
    """A service whose channel is down."""
    known: dict[str, Any] = {
        "channel": "mail",
        "reason": "no answer",
        "since": 1.0,
        "next_probe": 2.0,
        "patterns": ("*",),
    }
    outage = ChannelOutage(**known | facts)
    with tenants_on("memory://") as tenants:
        explain = tenants.service.digests.explain

        async def explained(timeline: str) -> Explanation:
            return replace(await explain(timeline), outage=outage)

        monkeypatch.setattr(tenants.service.digests, "explain", explained)
        yield tenants


# The audit log


def test_the_audit_log_keeps_the_canonical_text_of_a_policy() -> None:
    with tenants_on("memory://") as tenants:
        blanks = " " * 3_900
        tenants.a.send("PUT", "/v1/timelines/a%3A1/policy", {"policy": f"minimum=60s,{blanks}maximum=30m"})
        visitor = tenants.visitor(tenants.a)
        visitor.get("/timeline?key=a%3A2")
        visitor.post("/timeline/policy", {"key": "a:2", "policy": f"minimum=60s,{blanks}maximum=30m"})

        subjects = [each["subject"] for each in tenants.operator.get("/v1/audit").json()["entries"]]

    assert subjects == [str(Policy.parse("minimum=60s,maximum=30m"))] * 2


def test_a_policy_that_takes_long_to_read_is_refused_and_not_noted() -> None:
    with tenants_on("memory://") as tenants:
        long = "minimum=60s," + " " * 50_000 + "maximum=30m"
        visitor = tenants.visitor(tenants.a)

        assert tenants.a.send("PUT", "/v1/timelines/a%3A1/policy", {"policy": long}).status == 422
        assert visitor.post("/timeline/policy", {"key": "a:2", "policy": long}).status == 422
        assert tenants.operator.get("/v1/audit").json()["entries"] == []


def test_ten_thousand_entries_of_the_audit_log_fit_its_bounds() -> None:
    worst = "\x01" * 512
    entry = audit.entry_of("n" * 512, "clear preference", timeline=worst, subject="ü" * 100_000)

    assert len(audit.encoded(entry, now=2**45)) * audit.BOUNDS.entries <= (audit.BOUNDS.bytes or 0)
    assert entry.timeline is not None
    assert entry.timeline.endswith("…")


def test_what_is_short_is_in_the_audit_log_as_it_is() -> None:
    entry = audit.entry_of("ada", "retract", timeline="mail:ada", subject="an order")

    assert (entry.who, entry.timeline, entry.subject) == ("ada", "mail:ada", "an order")
