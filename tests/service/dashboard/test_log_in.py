"""Logging in: a token becomes a session, which can't be forged, ends by itself, and ends with its token."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from digestif.clock import monotonic
from digestif.errors import StoreUnavailable
from digestif.service.dashboard.assets import folder
from digestif.service.security.sessions import (
    COOKIE,
    LIFETIME,
    LONGEST_COOKIE,
    Session,
    Sessions,
    cookie_of,
    shared_secret,
)
from digestif.service.service import Service
from digestif.service.settings import Limits, Scope
from digestif.stores.memory import MemoryStore
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, serving, settings_with, token_of

ADMIN, ADMIN_TOKEN = token_of("ops", Scope.ADMIN)
INGEST, INGEST_TOKEN = token_of("app", Scope.INGEST)
SETTINGS = settings_with(ADMIN_TOKEN, INGEST_TOKEN)


@pytest.fixture
def running() -> Iterator[tuple[Client, Service]]:
    with serving(settings=SETTINGS) as found:
        yield found


def test_every_page_asks_for_a_token_first_and_comes_back_after_the_log_in(visitor: Visitor) -> None:
    asked = visitor.get("/timeline?key=a%2Fb")
    visitor.get(asked.headers["location"])
    answer = visitor.post("/login", {"token": ADMIN, "next": "/timeline?key=a%2Fb"})

    assert asked.status == 303
    assert asked.headers["location"] == "/login?next=%2Ftimeline%3Fkey%3Da%252Fb"
    assert answer.headers["location"] == "/timeline?key=a%2Fb"
    assert "Log out" in visitor.page("/timeline?key=a%2Fb")


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_a_log_in_leads_to_no_other_site(visitor: Visitor, place: str) -> None:
    visitor.get("/login")

    assert visitor.post("/login", {"token": ADMIN, "next": place}).headers["location"] == "/"


def test_pages_and_api_share_the_limit_of_requests() -> None:
    settings = replace(SETTINGS, limits=Limits(rate=3))
    with serving(settings=settings) as (client, service):
        visitor = Visitor(client)
        visitor.log_in(ADMIN)
        service.rates.wait = partial(service.rates.wait, now=monotonic())  # type: ignore[method-assign]  # time stands
        pages = [visitor.get("/timelines") for _ in range(5)]
        form = visitor.post("/timeline/flush", {"key": "t"})

        assert [page.status for page in pages] == [200, 200, 200, 429, 429]
        assert pages[-1].headers["retry-after"] == "1"
        assert b"More requests than your token may make" in pages[-1].body
        assert form.status == 429
        assert client.by(ADMIN).get("/v1/ledger").status == 429
        assert client.by(INGEST).add("t", 1).status == 202
        assert visitor.get(f"{folder()}/digestif.css").status == 200


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(visitor: Visitor) -> None:
    cookie = visitor.get("/login").headers["set-cookie"].lower()

    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"max-age={LIFETIME}" in cookie
    assert "secure" not in cookie


def test_the_cookie_is_sent_over_tls_only_if_people_come_by_it() -> None:
    with serving(settings=replace(SETTINGS, public="https://digests.example")) as (client, _):
        assert "secure" in Visitor(client).get("/login").headers["set-cookie"].lower()


def test_a_wrong_token_and_one_that_may_not_look_are_refused(visitor: Visitor) -> None:
    assert visitor.log_in("dgf_wrong").status == 401
    assert visitor.log_in(INGEST).status == 403
    assert visitor.get("/").status == 303


def test_a_session_from_before_the_log_in_is_not_the_one_after_it(visitor: Visitor) -> None:
    visitor.get("/login")
    before = visitor.cookies[COOKIE]
    visitor.post("/login", {"token": ADMIN})

    assert visitor.cookies[COOKIE] != before


def test_logging_out_ends_the_session_of_the_browser(visitor: Visitor) -> None:
    visitor.log_in(ADMIN)
    visitor.page("/")
    visitor.post("/logout")

    assert visitor.get("/").status == 303
    assert "You are logged out" in visitor.page("/login")


def with_cookies(client: Client, cookies: Mapping[str, str]) -> Visitor:
    visitor = Visitor(client)
    visitor.cookies |= cookies
    return visitor


def test_a_cookie_from_before_the_log_out_opens_nothing_in_any_process(tmp_path: Path) -> None:
    path = f"sqlite:///{tmp_path / 'digests.db'}"
    with serving(path, SETTINGS) as (client, _), serving(path, SETTINGS) as (elsewhere, _):
        visitor = Visitor(client)
        visitor.log_in(ADMIN)
        visitor.page("/")
        kept = dict(visitor.cookies)
        before = with_cookies(elsewhere, kept).get("/").status
        visitor.post("/logout")

        after = [with_cookies(each, kept).get("/").status for each in (client, elsewhere)]
        acting = with_cookies(client, kept)
        acting.form_token = visitor.form_token

        assert (before, after) == (200, [303, 303])
        assert acting.post("/timeline/flush", {"key": "a"}).status == 403


def test_logging_out_ends_no_other_session_of_the_same_token(visitor: Visitor, client: Client) -> None:
    other = Visitor(client)
    other.log_in(ADMIN)
    visitor.log_in(ADMIN)
    visitor.page("/")

    visitor.post("/logout")

    assert other.get("/").status == 200


def test_a_log_out_that_the_store_does_not_keep_is_no_log_out(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> bool:
        raise StoreUnavailable("the connection was lost")

    visitor.log_in(ADMIN)
    visitor.page("/")
    with monkeypatch.context() as away:
        away.setattr(service.digests.store, "keep", failing)

        assert visitor.post("/logout").status == 503

    assert visitor.get("/").status == 200


def test_a_session_ends_when_its_token_is_removed_and_loses_what_its_token_loses(
    visitor: Visitor, service: Service
) -> None:
    visitor.log_in(ADMIN)

    service.replace(settings_with(replace(ADMIN_TOKEN, scopes=frozenset({Scope.READ}))), service.digests)
    reading, acting = visitor.get("/timelines").status, visitor.post("/timeline/flush", {"key": "a"}).status
    service.replace(settings_with(INGEST_TOKEN), service.digests)

    assert (reading, acting) == (200, 403)
    assert visitor.get("/timelines").status == 303


def test_log_ins_that_fail_too_often_have_to_wait(visitor: Visitor) -> None:
    answers = [visitor.log_in(f"dgf_{number}") for number in range(11)]

    assert [answer.status for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) <= 61


def test_a_flood_of_wrong_tokens_shuts_out_no_right_one(visitor: Visitor) -> None:
    """Behind a proxy the flood has the address of everybody."""
    flood = [visitor.log_in("dgf_wrong").status for _ in range(11)]

    assert flood[-1] == 429
    assert visitor.log_in(ADMIN).status == 303


def test_a_part_of_a_page_that_was_left_open_asks_for_the_whole_when_the_session_is_over(visitor: Visitor) -> None:
    reply = visitor.get("/timelines", **{"HX-Request": "true"})

    assert reply.status == 401
    assert reply.headers["hx-refresh"] == "true"


# The cookie

SECRET = Sessions(b"secret")
NOW = 1_000_000.0


def test_a_session_is_read_back_until_it_expires() -> None:
    session = SECRET.begin(token="f", now=NOW)
    cookie = SECRET.sealed(session)

    assert SECRET.opened(cookie, now=NOW + LIFETIME - 1) == session
    assert SECRET.opened(cookie, now=NOW + LIFETIME) is None


def test_a_session_of_a_clock_that_was_set_back_ends() -> None:
    """It would last for as long as the clock was ahead. Clocks of two processes may differ by an hour."""
    cookie = SECRET.sealed(SECRET.begin(token="f", now=NOW))

    assert SECRET.opened(cookie, now=NOW - 3600) is not None
    assert SECRET.opened(cookie, now=NOW - 3601) is None


def test_a_cookie_that_was_changed_or_signed_by_others_is_none_of_ours() -> None:
    cookie = SECRET.sealed(Session("id", int(NOW) + 60, "f"))
    body, _, signature = cookie.partition(".")

    for forged in (body, f"{body}.", f"{body}x.{signature}", f"{body}.{signature[:-1]}", "é.é", ".", "", "x" * 9999):
        assert SECRET.opened(forged, now=NOW) is None
    assert Sessions(b"other").opened(cookie, now=NOW) is None


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ([b"s=1"], "1"),
        ([b"a=2; s=1;b=3"], "1"),
        ([b"s=1; s=2", b"a=3"], "2"),
        ([b"s=1", b"s=2"], "2"),
        ([b"xs=1; sx=2; s"], None),
        ([b's="1"'], '"1"'),
        ([b"s="], ""),
        ([b"s=" + b"x" * LONGEST_COOKIE], "x" * LONGEST_COOKIE),
        ([b"s=" + b"x" * (LONGEST_COOKIE + 1)], None),
        ([b"s=\xff"], "\xff"),
        ([], None),
    ],
)
def test_a_cookie_is_found_by_its_name_as_it_was_sent(sent: list[bytes], found: str | None) -> None:
    assert cookie_of([(b"x", b"s=9"), *((b"cookie", value) for value in sent)], "s") == found


def test_the_token_of_forms_is_no_cookie_and_no_cookie_is_a_token_of_forms() -> None:
    session = SECRET.begin(now=NOW)

    assert SECRET.is_form_token(session, SECRET.form_token(session))
    assert not SECRET.is_form_token(SECRET.begin(now=NOW), SECRET.form_token(session))
    assert not SECRET.is_form_token(session, SECRET.sealed(session).partition(".")[2])


def test_a_page_that_stays_open_keeps_its_form_token_unless_a_token_was_used() -> None:
    local, logged_in = SECRET.begin(now=NOW), SECRET.begin(token="f", now=NOW)
    late = NOW + LIFETIME - 10

    assert SECRET.form_token(SECRET.renewed(local, now=late)) == SECRET.form_token(local)
    assert SECRET.renewed(local, now=late).expires > local.expires
    assert SECRET.renewed(logged_in, now=late) == logged_in


def test_processes_that_share_a_store_share_the_secret() -> None:
    store = MemoryStore()

    assert shared_secret(store) == shared_secret(store) != shared_secret(MemoryStore())
