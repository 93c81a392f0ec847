"""A real mail server goes away, refuses, hesitates: what readers get, and what does not happen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Event, PutOff
from tests.routes.mail_outages import MINUTE, READERS, T, World, living, mails_by_reader

pytestmark = pytest.mark.long

HOUR = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with living(f"sqlite:///{tmp_path}/d.db") as world:
        yield world


def test_an_hour_without_a_mail_server_is_one_mail_for_each_reader(world: World) -> None:
    with world.gate.shut():
        world.live(HOUR)
    returned = world.now

    world.live(6 * MINUTE, events=False)

    assert world.digests.ledger(now=world.now).dead == 0
    assert mails_by_reader(world) == dict.fromkeys(READERS, 1)
    assert [entry.records for entry in world.digests.history()] == [world.added] * len(READERS)
    assert world.digests.ledger().pending == 0
    assert max(entry.ended for entry in world.digests.history()) <= returned + 6 * MINUTE


def test_a_wrong_password_is_an_outage_that_says_so(tmp_path: Path) -> None:
    with living(f"sqlite:///{tmp_path}/d.db", login="ada:wrong-wrong@", plain_login=True) as world:
        world.add_events()
        world.work(world.digests)
        tried = len(world.server.logins)
        world.live(10 * MINUTE)

        [outage] = world.digests.outages(now=world.now)
        assert outage.reason.startswith("configuration: ")
        assert "refuses the user or the password" in outage.reason
        assert "wrong-wrong" not in outage.reason + outage.channel
        assert world.digests.ledger().dead == 0
        assert len(world.server.logins) - tried <= 2 * 9  # probes, each by two mechanisms: no storm of log-ins

        world.server.password = "wrong-wrong"
        world.live(6 * MINUTE, events=False)

        assert mails_by_reader(world) == dict.fromkeys(READERS, 1)
        assert [entry.records for entry in world.digests.history()] == [world.added] * len(READERS)


def test_one_refused_recipient_is_buried_and_holds_up_nobody(world: World) -> None:
    refused = READERS[3].removeprefix("mail:")
    world.server.refused[refused] = "550 5.1.1 no such mailbox"
    world.add_events()
    world.work(world.digests)

    assert [letter.timeline for letter in world.digests.dead_letters()] == [READERS[3]]
    assert mails_by_reader(world) == {reader: 1 for reader in READERS if reader != READERS[3]}
    assert world.digests.outages(now=T) == []


def test_greylisting_of_one_reader_closes_nothing(world: World) -> None:
    grey = READERS[3].removeprefix("mail:")
    world.server.refused[grey] = "451 4.7.1 greylisted, come back later"
    world.live(4 * MINUTE, events=False)
    world.add_events()
    world.live(MINUTE, events=False)
    assert mails_by_reader(world) == {reader: 1 for reader in READERS if reader != READERS[3]}
    assert world.digests.outages(now=world.now) == []

    world.server.refused.clear()
    world.live(3 * MINUTE, events=False)

    assert mails_by_reader(world) == dict.fromkeys(READERS, 1)
    assert world.digests.ledger().dead == 0


def test_after_a_time_out_behind_the_body_the_same_mail_comes_again_and_nothing_has_joined_it(world: World) -> None:
    told: list[Event] = []
    for digests in world.workers:
        digests.subscribe(told.append)
    world.digests.add(READERS[0], {"title": "event-0"}, key="event-0", now=world.now)
    with world.server.forgetting_to_answer():
        world.work(world.digests)
    world.digests.add(READERS[0], {"title": "event-1"}, key="event-1", now=world.now)

    world.live(20 * MINUTE, events=False)

    first, again, rest = world.mails()
    assert (first.id, first.records) == (again.id, again.records)
    assert first.records == ("event-0",)
    assert (rest.id != first.id, rest.records) == (True, ("event-1",))
    [put_off] = [event for event in told if isinstance(event, PutOff)]
    assert "did not answer" in put_off.reason
    assert world.digests.ledger().delivered == 2
