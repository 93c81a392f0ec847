"""The description of the API, and the page for people."""

import re

from digestif.service.api.endpoints import ROUTES
from digestif.service.api.openapi import operation_id
from tests.service.harness import Client


def test_the_description_has_every_route_with_its_scope_and_problems(client: Client) -> None:
    document = client.get("/v1/openapi.json").json()

    assert document["openapi"] == "3.1.0"
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["x-scope"] == (None if route.scope is None else str(route.scope))
        assert bool(operation["security"]) == (route.scope is not None)
        assert set(map(str, route.answers)) <= set(operation["responses"])


def test_every_route_has_an_id_of_its_own(client: Client) -> None:
    paths = client.get("/v1/openapi.json").json()["paths"]

    ids = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(set(ids)) == len(ids) == len(ROUTES)


def test_the_page_loads_nothing_from_elsewhere_and_has_no_code_of_its_own(client: Client) -> None:
    reply = client.get("/docs")

    page = reply.body.decode()
    assert all(route.path in page for route in ROUTES)
    loaded = re.findall(r"<(?:script|link|img)[^>]*?(?:src|href)=\"([^\"]*)\"", page)
    assert loaded
    assert {client.get(address).status for address in loaded} == {200}
    assert all(address.startswith("/static/") for address in loaded)
    assert not re.search(r"<script[^>]*>[^<]|<style|@import|url\(|style=| on\w+=\"", page)
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


def test_the_good_answer_of_each_operation_comes_before_its_errors(client: Client) -> None:
    page = client.get("/docs").body.decode()

    for route in ROUTES:
        section = page[page.index(f'id="{operation_id(route)}"') :].partition("</section>")[0]
        statuses = re.findall(r'<span class="state \w+">(\d+)</span>', section)
        assert statuses == sorted(statuses)
        assert statuses[0] == str(min(route.answers))
        assert section.index("<details>") < section.index('class="state dead"')


def test_the_page_has_the_header_of_the_dashboard_and_pages_lead_to_it(client: Client) -> None:
    page, dashboard = client.get("/docs").body.decode(), client.get("/timelines").body.decode()

    for text in (page, dashboard):
        assert re.findall(r'<a href="(/[a-z-]*)"', text[: text.index("</nav>")]) == [
            "/",
            "/timelines",
            "/digests",
            "/dead-letters",
            "/channels",
            "/workers",
            "/status",
            "/docs",
        ]
    assert '<a href="/docs" aria-current="page"' in page


def test_head_is_answered_like_get_without_a_body(client: Client) -> None:
    get, head = client.get("/docs"), client.send("HEAD", "/docs")

    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(get.body)))
