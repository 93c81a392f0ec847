"""Each verb of the client against a real service: the answers are those of the engine."""

import inspect
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from digestif import Addition, Busy, ConfigError, Digests, Policy, Preference, Record, State
from digestif.client import AsyncClient, Client
from digestif.service.service import Service
from tests.client.conftest import Verbs
from tests.service.test_actions import bury

pytestmark = pytest.mark.long

HOSTILE = ["a/b", "..", ".", "a?b#c", "%2F", "ü\u2028 x", "\x01\n", "a&b=c;d", "'\"<>", "x" * 512, "+", "//", "a//../b"]
PUBLIC = sorted(name for name in dir(Client) if not name.startswith("_"))


def engine(service: Service) -> Digests:
    return service.digests.sync


def test_both_clients_have_the_same_verbs_with_the_same_parameters() -> None:
    assert sorted(name for name in dir(AsyncClient) if not name.startswith("_")) == PUBLIC
    for name in set(PUBLIC) - {"close"}:
        one, other = inspect.signature(getattr(Client, name)), inspect.signature(getattr(AsyncClient, name))
        assert list(one.parameters) == list(other.parameters), name


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - {"close", "events", "status"}))
def test_a_verb_takes_what_that_of_the_engine_takes(name: str) -> None:
    own = [each for each in inspect.signature(getattr(Client, name)).parameters if each != "self"]
    theirs = inspect.signature(getattr(Digests, name)).parameters

    assert set(own) <= {*theirs, "limit"}
    assert inspect.getdoc(getattr(Client, name))


@pytest.mark.parametrize("timeline", HOSTILE)
def test_any_key_arrives_as_it_is(client: Verbs, service: Service, timeline: str) -> None:
    assert client.add(timeline, {"of": timeline}, key=timeline) is False

    assert engine(service).timeline(timeline).pending == 1
    assert [(each.key, each.value) for each in client.peek(timeline)] == [(timeline, {"of": timeline})]
    assert client.timeline(timeline) == engine(service).timeline(timeline)
    assert client.trace(timeline, timeline) == engine(service).trace(timeline, timeline)
    assert [each.key for each in client.timelines(prefix=timeline)] == [timeline]
    assert client.retract(timeline, timeline) is True
    assert engine(service).timeline(timeline).pending == 0


@pytest.mark.parametrize("verb", ["peek", "history"])
def test_a_limit_of_nothing_is_refused_as_by_the_engine(client: Verbs, verb: str) -> None:
    with pytest.raises(ConfigError, match="limit"):
        getattr(client, verb)("t", limit=0)


def test_a_record_is_accepted_with_what_the_engine_takes(client: Verbs, service: Service) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)

    accepted = client.accept("t", {"at": at}, key="k", timestamp=at, within=timedelta(minutes=5))

    [record] = engine(service).peek("t")
    assert record == Record("k", {"at": "2026-05-01T00:00:00Z"}, at.timestamp())
    assert (accepted.key, accepted.ready) == ("k", False)
    assert accepted.due == engine(service).timeline("t").due
    assert client.add("t", Record("own", 1, 2.5)) is False
    assert engine(service).peek("t")[-1] == Record("own", 1, 2.5)


def test_many_records_are_accepted_in_requests_of_500(client: Verbs, service: Service) -> None:
    answers = client.add_many((f"t{number % 7}", number) for number in range(1_201))

    assert answers == [False] * 1_201
    assert engine(service).ledger().accepted == 1_201
    assert len(list(engine(service).store.documents("idempotency", limit=100, now=None))) == 3


def test_records_can_be_told_apart_by_what_became_of_them(client: Verbs) -> None:
    good, bad, last = client.accept_valid([("t", 1), ("", 2), Addition("t", 3, key="three", within=60)])

    assert (good.ready, type(bad).__name__, last.key) == (False, "InvalidRecord", "three")
    assert [each.key for each in client.accept_many([("t", Record("a", 1, 1.0))], within=5)] == ["a"]


def test_timelines_are_read_page_by_page(client: Verbs) -> None:
    client.add_many((f"t{number:04}", 1) for number in range(1_100))

    assert [each.key for each in client.timelines()] == [f"t{number:04}" for number in range(1_100)]
    assert len(list(islice(client.timelines(State.WAITING), 3))) == 3
    page = client.timelines_page("waiting", "t", None, 2)
    assert len(page.timelines) == 2
    assert client.timelines_page("waiting", "t", page.after, 2).timelines != page.timelines


def test_a_timeline_is_explained_flushed_paused_and_resumed(client: Verbs, service: Service) -> None:
    client.add("t", 1)

    assert str(client.explain("t")).startswith("t: ")
    assert client.explain("t").policy == engine(service).explain("t").policy
    assert (client.flush("t"), client.flush("t")) == (True, False)
    assert (client.pause("t"), client.pause("t")) == (True, False)
    assert client.timeline("t").paused is True
    assert (client.resume("t"), client.resume("t")) == (True, False)
    assert (client.delete("t"), client.delete("t")) == (True, False)


def test_policies_and_preferences_are_values_of_the_engine(client: Verbs, service: Service) -> None:
    policy = Policy(minimum_delay=60, maximum_delay=600)
    client.set_policy("t", policy)

    assert client.policy_of("t") == engine(service).policy_of("t")
    assert client.policy_of("t").policy == policy
    assert client.preference("t") is None
    assert (client.clear_policy("t"), client.clear_policy("t")) == (True, False)

    client.prefer("t", "daily", zone="Asia/Tokyo")

    chosen = client.preference("t")
    assert isinstance(chosen, Preference)
    assert chosen == engine(service).preference("t")


def test_dead_letters_are_listed_replayed_requeued_and_discarded(client: Verbs, service: Service) -> None:
    letters = [bury(service, f"t{number}") for number in range(3)]

    assert list(client.dead_letters()) == engine(service).dead_letters()
    assert list(client.dead_letters("t1")) == engine(service).dead_letters("t1")
    assert [record.value for record in client.dead_records(letters[0])] == ["sent in vain"]
    assert client.dead_records("unknown") == []
    assert client.history() == engine(service).history()
    assert (client.replay(letters[0]), client.replay(letters[0])) == (True, False)
    assert (client.requeue(letters[1], force=True), client.requeue(letters[1])) == (True, False)
    assert (client.discard(letters[2]), client.discard(letters[2])) == (True, False)


def test_an_unfinished_digest_in_the_way_of_a_replay_is_busy(client: Verbs, service: Service) -> None:
    for number in range(2):
        engine(service).add("t", number)
        engine(service).flush("t")
        with pytest.raises(RuntimeError), engine(service).digest("t"):
            raise RuntimeError("no such mailbox")
    first, second = engine(service).dead_letters("t")
    assert client.replay(first.id)

    with pytest.raises(Busy):
        client.replay(second.id)


def test_the_store_as_a_whole(client: Verbs, service: Service) -> None:
    client.add("t", 1)

    assert client.ledger() == engine(service).ledger()
    assert client.verify() == engine(service).verify()
    assert client.backlog().waiting == 1
    status = client.status()
    assert (status.ledger, status.backlog.timelines, status.durability) == (client.ledger(), 1, "nothing")
    assert client.outages() == []
    assert client.workers() == []
    assert client.samples() == client.samples(since=0) == []
    assert client.preview("t") is None
    assert client.message("unknown") is None


def test_events_of_the_store_arrive(client: Verbs, service: Service) -> None:
    events: Any = client.events(timeline="t")
    found = {event.kind: event.data for event in islice(events, 4)}

    assert found["ledger"] == engine(service).ledger()
    assert found["timeline"] == engine(service).timeline("t")
    letter = bury(service, "t")
    digest = next(event for event in events if event.kind == "digest")
    events.close()
    assert (digest.data.id, digest.data.outcome) == (letter, "dead")
    again: Any = client.events(last=digest.id)
    bury(service, "u")
    assert next(event.data.timeline for event in again if event.kind == "digest") == "u"
    again.close()
