"""The description of the API, and the page for people."""

import re

from digestif.service.api.endpoints import ROUTES
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


def test_the_page_loads_nothing_and_runs_nothing(client: Client) -> None:
    reply = client.get("/docs")

    page = reply.body.decode()
    assert all(route.path in page for route in ROUTES)
    assert not re.search(r"<script|<link|<img|@import|url\(|src=|style=| on\w+=\"", page)
    assert "default-src 'none'; style-src 'sha256-" in reply.headers["content-security-policy"]


def test_head_is_answered_like_get_without_a_body(client: Client) -> None:
    get, head = client.get("/docs"), client.send("HEAD", "/docs")

    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(get.body)))
