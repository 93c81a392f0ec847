"""Namespaces share a file and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import ConfigError, Digests, InvalidState, Policy, Record, State
from digestif.stores.sqlite import SQLiteStore
from tests.stores.sqlite.soundness import check_sound, pending_keys

T = 1_700_000_000.0
POLICY = Policy(attempts=1)


class Boom(Exception):
    """What a block raises."""


@pytest.fixture
def one(path: str) -> Iterator[Digests]:
    with Digests(f"sqlite:///{path}", namespace="one", policy=POLICY) as digests:
        yield digests


@pytest.fixture
def other(path: str) -> Iterator[Digests]:
    with Digests(f"sqlite:///{path}", namespace="other", policy=POLICY) as digests:
        yield digests


def test_the_same_keys_are_different_records(one: Digests, other: Digests, path: str) -> None:
    assert one.add("t", "mine", key="r", timestamp=T, now=T) is True
    assert other.add("t", "theirs", key="r", timestamp=T, now=T) is True

    assert one.peek("t") == [Record("r", "mine", T)]
    assert other.peek("t") == [Record("r", "theirs", T)]
    assert (one.ledger().superseded, other.ledger().superseded) == (0, 0)
    for namespace in ("one", "other"):
        assert check_sound(path, namespace=namespace).accepted == 1
        assert pending_keys(path, namespace=namespace) == ["r"]


def test_delivering_in_one_leaves_the_other_as_it_was(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add("t", 0, key="r", now=T)

    with one.digest("t", now=T) as digest:
        assert len(digest) == 1

    assert one.timeline("t").state is State.WAITING
    assert other.timeline("t").state is State.READY
    assert [entry.timeline for entry in one.history()] == ["t"]
    assert other.history() == []
    assert other.ledger().delivered == 0


def test_an_open_digest_in_one_does_not_make_the_other_busy(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add("t", digests.store.namespace, key="r", now=T)

    with one.digest("t", now=T) as mine, other.digest("t", now=T) as theirs:
        assert [record.value for record in mine] == ["one"]
        assert [record.value for record in theirs] == ["other"]


def test_schedule_claim_and_maintenance_see_only_their_own(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add("waits", 0, key="r", first_delay=10, now=T)
        digests.add("is ready", 0, key="r", now=T)

    assert [entry.key for entry in one.schedule(T + 10, now=T + 10)] == ["waits"]
    assert one.maintenance(T + 100, now=T + 100) == 2
    claimed = one.store.claim(0, 10, token="x", lease=1000, now=round((T + 100) * 1000)).leases

    assert {lease.timeline for lease in claimed} == {"waits", "is ready"}
    assert other.timeline("waits").state is State.WAITING
    assert other.timeline("is ready").state is State.READY
    assert [entry.key for entry in other.schedule(T + 10, now=T + 10)] == ["waits"]


def test_deleting_pausing_flushing_and_retracting_reach_only_their_own(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        for timeline in ("deleted", "paused", "retracted"):
            digests.add(timeline, 0, key="r", now=T)
        digests.add("flushed", 0, key="r", first_delay=10, now=T)

    assert one.delete("deleted", now=T)
    assert one.pause("paused", now=T)
    assert one.retract("retracted", "r", now=T)
    assert one.flush("flushed", now=T)

    assert other.timeline("deleted").pending == 1
    assert not other.timeline("paused").paused
    assert other.timeline("retracted").pending == 1
    assert other.timeline("flushed").state is State.WAITING
    assert other.ledger().deleted == 0
    assert one.verify()
    assert other.verify()


def test_dead_letters_belong_to_their_namespace(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add("t", 0, key="r", now=T)
        with pytest.raises(Boom), digests.digest("t", now=T):
            raise Boom
    (mine,), (theirs,) = one.dead_letters(), other.dead_letters()

    assert not one.discard(theirs.id, now=T)
    assert not one.replay(theirs.id, now=T)
    assert one.dead_records(theirs.id) == []
    assert one.discard(mine.id, now=T)

    assert other.dead_letters() == [theirs]
    assert (one.ledger().deleted, other.ledger().dead) == (1, 1)
    assert one.verify()
    assert other.verify()


def test_the_history_of_one_does_not_push_out_that_of_the_other(one: Digests, other: Digests) -> None:
    other.add("t", 0, key="r", now=T)
    with other.digest("t", now=T):
        pass

    for number in range(20):
        one.add(f"t{number}", 0, key="r", now=T)
        with one.digest(f"t{number}", now=T):
            pass
    one.delete("t", now=T)

    assert len(one.history()) == 20
    assert [entry.timeline for entry in other.history()] == ["t"]
    assert [sighting.digest_id for sighting in one.trace("t", "r")] == []
    assert len(other.trace("t", "r")) == 1


def test_listing_and_footprint_count_only_their_own(one: Digests, other: Digests) -> None:
    one.add_many([("t", n) for n in range(3)], now=T)
    other.add("u", 0, now=T)

    assert [timeline.key for timeline in one.timelines()] == ["t"]
    assert [timeline.key for timeline in other.timelines()] == ["u"]
    assert one.store.footprint()["records"] == 3
    assert other.store.footprint() == {**one.store.footprint(), "records": 1}


def test_an_emptied_namespace_has_no_footprint_beside_a_full_one(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add_many([("t", n) for n in range(1500)], now=T)

    one.delete("t", now=T)

    assert not any(one.store.footprint().values())
    assert other.store.footprint()["records"] == 1500
    assert other.verify()


def test_sweeping_in_one_leaves_what_the_other_has_yet_to_sweep(one: Digests, other: Digests) -> None:
    for digests in (one, other):
        digests.add_many([("t", n) for n in range(1500)], now=T)
        digests.store.delete("t", now=round(T * 1000))  # the records are still to be swept

    while one.store.sweep():
        pass

    assert not any(one.store.footprint().values())
    assert other.store.footprint()["records"] == 1500
    assert other.verify()


def test_an_unknown_timeline_stays_unknown_whatever_the_other_has(one: Digests, other: Digests) -> None:
    other.add("t", 0, now=T)

    assert one.timeline("t").state is State.IDLE
    with pytest.raises(InvalidState), one.digest("t", now=T):
        pytest.fail("nothing to deliver")
    assert not one.delete("t", now=T)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 65])
def test_a_namespace_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        SQLiteStore(tmp_path / "d.db", namespace=name)

    assert list(tmp_path.iterdir()) == []
