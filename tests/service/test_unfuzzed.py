"""What schemathesis leaves out: the stream of events, whose answer never ends, and timelines that were deleted."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from digestif.service.api.endpoints import ROUTES
from digestif.service.api.routes import Route
from tests.service.harness import Client, segment, serving
from tests.transfer.stores import dsn_of

STORES = ["memory", "sqlite", "redis", "postgres"]
DELETED, UNKNOWN = "deleted", "unknown"
READING = [route for route in ROUTES if route.has_timeline and not route.changes]
CHANGING = [route for route in ROUTES if route.has_timeline and route.changes and not route.repeatable]
BODIES: dict[str, Any] = {
    "/v1/timelines/{timeline}/policy": {"policy": "immediate"},
    "/v1/timelines/{timeline}/preference": {"cadence": "daily"},
}


@pytest.fixture(scope="module", params=STORES)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("store")
    with dsn_of(request.param, folder) as store, serving(store) as (client, _):
        yield client


def asked(client: Client, route: Route, timeline: str) -> tuple[int, str]:
    """The status and the answer, without the timeline's name and times."""
    path = route.path.replace("{timeline}", segment(timeline)).replace("{record}", "r")
    body = BODIES.get(route.path) if route.method == "PUT" else None
    reply = client.send(route.method, path, body)
    return reply.status, re.sub(rf"{timeline}|\d{{10}}\.\d+", "…", reply.body.decode())


def lived_and_deleted(client: Client) -> None:
    """Let the timeline have records, a policy, a preference and a pause, and delete it."""
    path = f"/v1/timelines/{DELETED}"
    assert client.add(DELETED, 1, key="r").status == 202
    assert client.send("PUT", f"{path}/policy", {"policy": "immediate"}).status == 200
    assert client.send("PUT", f"{path}/preference", {"cadence": "daily"}).status == 200
    assert client.post(f"{path}/pause").status == 200
    assert client.send("DELETE", path).json() == {"changed": True}


@pytest.mark.parametrize("route", READING, ids=lambda route: f"{route.method} {route.path}")
def test_a_deleted_timeline_reads_like_one_that_never_was(client: Client, route: Route) -> None:
    lived_and_deleted(client)

    assert asked(client, route, DELETED) == asked(client, route, UNKNOWN)


@pytest.mark.parametrize("route", CHANGING, ids=lambda route: f"{route.method} {route.path}")
def test_a_deleted_timeline_changes_like_one_that_never_was(client: Client, route: Route) -> None:
    lived_and_deleted(client)

    found = asked(client, route, DELETED)

    assert found == asked(client, route, UNKNOWN)
    assert found[0] < 500
    for timeline in (DELETED, UNKNOWN):
        client.send("DELETE", f"/v1/timelines/{timeline}")


texts = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=60)
numbers = st.one_of(texts, st.from_regex(r"\A-?[0-9.einfa]{0,12}-[0-9a-f-]{0,30}\Z"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    timeline=st.none() | st.text(max_size=300), name=st.sampled_from(["timeline", "other"]), last=st.none() | numbers
)
def test_the_stream_of_events_begins_or_says_what_is_wrong(
    client: Client, timeline: str | None, name: str, last: str | None
) -> None:
    query = "" if timeline is None else "?" + urlencode({name: timeline}, errors="surrogatepass")
    headers = {} if last is None else {"Last-Event-ID": last}
    connection = client.connect()
    try:
        connection.request("GET", f"/v1/events{query}", headers=headers)
        response = connection.getresponse()
        is_good = response.status == 200

        assert response.status in (200, 400, 422)
        assert response.getheader("content-type", "").startswith(
            "text/event-stream" if is_good else "application/problem+json"
        )
        if is_good:
            assert response.readline().startswith((b"event: ", b"id: "))
    finally:
        connection.close()
