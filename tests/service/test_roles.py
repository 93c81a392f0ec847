"""Every route × every role, from the table of routes: a new route can't be forgotten."""

import json
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from digestif.service.api.endpoints import ROUTES
from digestif.service.api.routes import Route
from digestif.service.settings import Scope
from tests.service.harness import Client, serving, settings_with, token_of

INSIDE, OUTSIDE = "team:ada", "other:bob"


class Role(NamedTuple):
    """Whose token, and what it may do."""

    name: str
    scopes: frozenset[Scope] = frozenset()
    prefix: str = ""

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


ROLES = [
    Role("nobody"),
    Role("stranger"),  # with a token that is unknown
    *(Role(f"{scope}", frozenset({scope})) for scope in Scope),
    *(Role(f"{scope} of a team", frozenset({scope}), "team:") for scope in Scope),
]


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Client]]:
    """A client for each role."""
    tokens = {role.name: token_of(role.name, *role.scopes, prefix=role.prefix) for role in ROLES if role.scopes}
    with serving(settings=settings_with(*(token for _, token in tokens.values()))) as (client, _):
        texts = {"nobody": None, "stranger": "dgf_unknown", **{name: text for name, (text, _) in tokens.items()}}
        yield {name: client.by(text) for name, text in texts.items()}


def status_of(client: Client, route: Route, timeline: str) -> int:
    """The status that a role gets. Streams end only with their connection, so only the head is read."""
    path = route.path.replace("{timeline}", timeline).replace("{record}", "r").replace("{id}", "unknown")
    body = [{"timeline": timeline, "value": 1}] if route.path == "/v1/records" else {"value": 1}
    connection = client.connect()
    headers = {"Content-Type": "application/json"}
    if client.token is not None:
        headers["Authorization"] = f"Bearer {client.token}"
    connection.request(route.method, path, json.dumps(body).encode() if route.body else None, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def expected(route: Route, role: Role, timeline: str) -> int | None:
    """The status with which a role is refused; None if it is not."""
    if route.scope is None:
        return None
    if not role.scopes:
        return 401
    is_outside = not timeline.startswith(role.prefix) and (route.has_timeline or route.path == "/v1/records")
    if not role.may(route.scope) or (route.whole and role.prefix) or is_outside:
        return 403
    return None


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_role_reaches_what_it_may_and_nothing_else(clients: dict[str, Client], route: Route) -> None:
    for role, timeline in product(ROLES, (INSIDE, OUTSIDE)):
        refusal, status = expected(route, role, timeline), status_of(clients[role.name], route, timeline)

        if refusal is None:
            assert status not in (401, 403, 500), (role, timeline, status)
        else:
            assert status == refusal, (role, timeline)


def test_a_token_with_a_prefix_lists_only_its_own_timelines(clients: dict[str, Client]) -> None:
    clients["admin"].add(INSIDE, 1)
    clients["admin"].add(OUTSIDE, 1)
    team = clients["read of a team"]

    assert [each["key"] for each in team.get("/v1/timelines").json()["timelines"]] == [INSIDE]
    assert [each["key"] for each in team.get("/v1/timelines?prefix=te").json()["timelines"]] == [INSIDE]
    assert team.get("/v1/timelines?prefix=other").status == 403
    assert team.get(f"/v1/digests?timeline={OUTSIDE}").status == 403
    assert team.get(f"/v1/dead-letters?timeline={OUTSIDE}").status == 403


def test_one_record_out_of_reach_refuses_the_whole_request(clients: dict[str, Client]) -> None:
    both = [{"timeline": "team:new", "value": 1}, {"timeline": OUTSIDE, "value": 1}]

    assert clients["ingest of a team"].post("/v1/records", both).status == 403
    assert clients["admin"].get("/v1/timelines/team:new").json()["state"] == "idle"
