"""What operators do over HTTP: each act changes the store, and the audit log says who did it."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from digestif import Policy
from digestif.core.secret import Secret
from digestif.notes.samples import Sampler
from digestif.service.service import Service
from tests.cli.runner import PROGRAM
from tests.service.harness import Client, serving, settings_with, token_of


@pytest.fixture
def running() -> Iterator[tuple[Client, Service]]:
    """A service whose one token is Ada's; the first record of a timeline waits an hour."""
    text, token = token_of("ada")
    policy = Policy(first_delay=3600, attempts=1)
    with serving(settings=settings_with(token), policy=policy) as (client, service):
        yield client.by(text), service


def audit(client: Client) -> list[tuple[str, str, str | None, str | None]]:
    """The audit log, the oldest entry first."""
    entries = client.get("/v1/audit").json()["entries"]
    return [(each["who"], each["what"], each.get("timeline"), each.get("subject")) for each in reversed(entries)]


def test_flush_makes_a_waiting_timeline_ready_once(client: Client) -> None:
    client.add("t", 1)

    changes = [client.post("/v1/timelines/t/flush").json()["changed"] for _ in range(2)]

    assert changes == [True, False]
    assert client.get("/v1/timelines/t").json()["state"] == "ready"
    assert audit(client) == [("ada", "flush", "t", None)]


def test_pause_and_resume(client: Client) -> None:
    client.add("t", 1)

    assert client.post("/v1/timelines/t/pause").json() == {"changed": True}
    assert client.get("/v1/timelines/t").json()["paused"] is True
    assert client.post("/v1/timelines/t/resume").json() == {"changed": True}
    assert client.get("/v1/timelines/t").json()["paused"] is False
    assert [what for _, what, _, _ in audit(client)] == ["pause", "resume"]


def test_a_pending_record_is_taken_back(client: Client) -> None:
    client.add("t", 1, key="a/b")

    assert client.send("DELETE", "/v1/timelines/t/records/a%2Fb").json() == {"changed": True}
    assert client.get("/v1/timelines/t/records").json() == {"records": [], "total": 0}
    assert audit(client) == [("ada", "retract", "t", "a/b")]


def test_a_deleted_timeline_is_gone_but_not_from_the_audit_log(client: Client) -> None:
    client.add("t", 1)

    assert client.send("DELETE", "/v1/timelines/t").json() == {"changed": True}
    assert client.get("/v1/timelines").json() == {"timelines": [], "after": None}
    assert audit(client) == [("ada", "delete", "t", None)]


def test_a_policy_is_stored_shown_and_cleared(client: Client) -> None:
    client.add("t", 1)

    stored = client.send("PUT", "/v1/timelines/t/policy", {"policy": "daily@09:00 Europe/Berlin"})

    assert (stored.status, stored.json()["source"]) == (200, "override")
    assert client.get("/v1/timelines/t/policy").json() == stored.json()
    assert client.send("DELETE", "/v1/timelines/t/policy").json() == {"changed": True}
    assert client.get("/v1/timelines/t/policy").json()["source"] == "engine"
    assert [what for _, what, _, _ in audit(client)] == ["set policy", "clear policy"]


def test_a_policy_that_can_not_be_read_is_refused_with_a_reason(client: Client) -> None:
    reply = client.send("PUT", "/v1/timelines/t/policy", {"policy": "dayly@09:00"})

    assert reply.status == 422
    assert "daily" in reply.json()["detail"]


def test_a_preference_is_stored_shown_and_cleared(client: Client) -> None:
    assert client.get("/v1/timelines/t/preference").status == 404

    chosen = client.send("PUT", "/v1/timelines/t/preference", {"cadence": "daily", "zone": "Asia/Tokyo"})

    assert (chosen.json()["cadence"], chosen.json()["zone"]) == ("daily", "Asia/Tokyo")
    assert client.get("/v1/timelines/t/preference").json() == chosen.json()
    assert client.send("DELETE", "/v1/timelines/t/preference").json() == {"changed": True}
    assert client.send("DELETE", "/v1/timelines/t/preference").json() == {"changed": False}
    assert client.send("PUT", "/v1/timelines/t/preference", {"cadence": "dayly"}).status == 422


@pytest.mark.parametrize("zone", ["/" * 5000, "/".join("a" * 5000), "x" * 5000, "../../etc/passwd", "America", "a\0b"])
def test_a_zone_that_is_no_name_of_one_is_refused_as_a_zone_and_within_a_policy(client: Client, zone: str) -> None:
    preference = client.send("PUT", "/v1/timelines/t/preference", {"cadence": "daily", "zone": zone})
    policy = client.send("PUT", "/v1/timelines/t/policy", {"policy": f"daily@09:00 {zone}"})

    assert (preference.status, policy.status) == (422, 422)
    assert "is not an IANA time zone" in preference.json()["detail"]


def bury(service: Service, timeline: str) -> str:
    """Let a digest of a timeline fail for good; the id of its dead letter."""

    async def fail() -> str:
        digests = service.digests
        await digests.add(timeline, "sent in vain", key="k")
        await digests.flush(timeline)
        with pytest.raises(RuntimeError):
            async with digests.digest(timeline):
                raise RuntimeError("no such mailbox")
        [letter] = await digests.dead_letters(timeline)
        return letter.id

    return asyncio.run(fail())


def test_a_dead_letter_is_listed_and_shown_with_its_records(client: Client, service: Service) -> None:
    letter = bury(service, "t")

    [listed] = client.get("/v1/dead-letters?timeline=t").json()["dead_letters"]
    shown = client.get(f"/v1/dead-letters/{letter}").json()

    assert (listed["id"], listed["sent"], "no such mailbox" in listed["reason"]) == (letter, "no", True)
    assert (shown["letter"], shown["contents"][0]["value"]) == (listed, "sent in vain")
    [ended] = client.get("/v1/digests").json()["digests"]
    assert (ended["id"], ended["outcome"]) == (letter, "dead")


@pytest.mark.parametrize(("act", "state"), [("replay", "ready"), ("requeue", "waiting")])
def test_a_dead_letter_is_sent_again(client: Client, service: Service, act: str, state: str) -> None:
    letter = bury(service, "t")

    assert client.post(f"/v1/dead-letters/{letter}/{act}").json() == {"changed": True}
    assert client.get("/v1/dead-letters").json() == {"dead_letters": [], "after": None}
    assert client.get("/v1/timelines/t").json()["state"] == state
    assert client.post(f"/v1/dead-letters/{letter}/{act}").status == 404
    assert audit(client) == [("ada", act, "t", letter)]


def test_a_dead_letter_is_discarded(client: Client, service: Service) -> None:
    letter = bury(service, "t")

    assert client.send("DELETE", f"/v1/dead-letters/{letter}").json() == {"changed": True}
    assert client.get("/v1/ledger").json()["deleted"] == 1


def test_dead_letters_come_page_by_page(client: Client, service: Service) -> None:
    letters = [bury(service, f"t{number}") for number in range(3)]

    first = client.get("/v1/dead-letters?limit=2").json()
    second = client.get(f"/v1/dead-letters?limit=2&after={first['after']}").json()

    assert [each["id"] for each in first["dead_letters"] + second["dead_letters"]] == letters
    assert second["after"] is None


def test_a_prefix_hides_the_dead_letters_of_others(service: Service, client: Client) -> None:
    text, token = token_of("team", prefix="team:")
    service.replace(settings_with(*service.settings.tokens, token), service.digests)
    own, other = bury(service, "team:a"), bury(service, "z")
    team = client.by(text)

    assert [each["id"] for each in team.get("/v1/dead-letters").json()["dead_letters"]] == [own]
    assert [each["id"] for each in team.get("/v1/digests").json()["digests"]] == [own]
    for method, act in (("GET", ""), ("POST", "/replay"), ("POST", "/requeue"), ("DELETE", "")):
        assert team.send(method, f"/v1/dead-letters/{other}{act}").status == 404


def test_ledger_verification_and_status_agree(client: Client) -> None:
    client.add("t", 1)

    ledger, status = client.get("/v1/ledger").json(), client.get("/v1/status").json()

    assert (ledger["accepted"], ledger["pending"], ledger["balanced"]) == (1, 1, True)
    assert (status["ledger"], status["backlog"]["waiting"]) == (ledger, 1)
    assert client.post("/v1/verify").json()["agrees"] is True
    assert client.get("/v1/channels").json() == {"outages": []}
    assert client.get("/v1/workers").json() == {"workers": []}


def test_status_has_the_fields_of_the_command(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/d.db"
    settings = replace(settings_with(), store=Secret("postgresql://ada:hidden@db/app"))
    with serving(place, settings) as (client, _):
        status = client.get("/v1/status").json()
        printed = subprocess.run([*PROGRAM, "--store", place, "--json", "status"], capture_output=True, check=True)

    known = json.loads(printed.stdout)
    assert set(status) - set(known) == {"counted", "at_least"}
    assert set(known) <= set(status)
    assert status["versions"] == known["versions"]
    assert (status["ledger"], status["store"]) == (known["ledger"], "postgresql://ada:…@db/app")


def test_a_change_that_changes_nothing_is_not_noted(client: Client) -> None:
    client.post("/v1/timelines/t/flush")
    client.send("DELETE", "/v1/timelines/t")

    assert audit(client) == []


def test_samples_are_listed(client: Client, service: Service) -> None:
    client.add("t", 1)
    assert client.get("/v1/samples").json() == {"samples": []}

    now = service.digests.store.time(0)
    Sampler(service.digests.store).tick(now)

    [sample] = client.get("/v1/samples").json()["samples"]
    assert (sample["accepted"], sample["pending"]) == (1, 1)
    assert client.get(f"/v1/samples?since={now / 1000 + 60}").json() == {"samples": []}
    assert client.get("/v1/samples?since=nan").status == 422
