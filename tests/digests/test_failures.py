"""What handlers raise, and how deep they stand, harms neither the timeline nor the error."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from digestif import Buried, ConfigError, Digests, Ended, Event, Policy, Record


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.fixture(params=["memory://", "sqlite://", "sqlite:///{path}"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(path=tmp_path / "d.db")


@pytest.mark.parametrize("error", [OSError("no such file: b\udcff"), Unspeakable(), ValueError("x" * 10_000_000)])
def test_the_last_attempt_buries_whatever_was_raised(dsn: str, error: Exception) -> None:
    with Digests(dsn, policy=Policy(attempts=1)) as digests:
        digests.add("t", 1, now=0)

        with pytest.raises(type(error)) as raised, digests.digest("t", now=0):
            raise error

        assert raised.value is error
        (letter,) = digests.dead_letters()
        assert letter.reason.startswith(type(error).__name__)
        assert len(letter.reason) <= 1000
        assert digests.verify()


def test_an_empty_digest_is_never_buried(dsn: str) -> None:
    """There is nothing to bury: its timeline is ready again, and no dead letter is told of."""
    events: list[Event] = []
    with Digests(dsn, policy=Policy(attempts=1, minimum_delay=60)) as digests:
        digests.add("t", 1, now=0)
        with digests.digest("t", now=0):
            pass
        assert [entry.key for entry in digests.schedule(now=60)] == ["t"]
        digests.subscribe(events.append)

        with pytest.raises(OSError, match="later"), digests.digest("t", now=60) as digest:
            assert len(digest) == 0
            raise OSError("later")

        assert digests.timeline("t").state == "ready"
        assert not [event for event in events if isinstance(event, Buried)]


def test_a_listener_that_exits_keeps_no_other_from_hearing_how_an_attempt_ended(dsn: str) -> None:
    heard: list[Event] = []
    with Digests(dsn) as digests:
        digests.subscribe(lambda _: sys.exit("enough"))
        digests.subscribe(heard.append)
        digests.add("t", 1)

        with digests.digest("t"):
            pass

    assert len([event for event in heard if isinstance(event, Ended)]) == 1


class Shallow:
    """A codec that can't decode in a thread whose stack is deep, as it seems to it."""

    name = "shallow"

    def __init__(self) -> None:
        self.deep: threading.Thread | None = None

    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, payload: bytes) -> Any:
        if threading.current_thread() is self.deep:
            raise RecursionError
        return payload.decode()


def test_a_deep_value_is_not_lost_because_its_reader_stands_deep(dsn: str) -> None:
    codec = Shallow()
    with Digests(dsn, codec=codec) as digests:
        digests.add("t", "value", now=0)
        codec.deep = threading.current_thread()

        with digests.digest("t", now=0) as digest:
            assert len(digest) == 1

        assert digests.ledger().dead == 0


def test_a_broken_record_in_a_first_digest_leaves_its_revision_at_one(dsn: str) -> None:
    codec = Shallow()
    with Digests(dsn, codec=codec) as digests:
        digests.add("t", "good", key="good", now=0)
        Digests(digests.store).add("t", "other codec", key="other", now=0)
        Digests(digests.store, codec=Plain()).add("t", "unknown codec", key="unknown", now=0)

        with digests.digest("t", now=0) as digest:
            assert [record.key for record in digest] == ["other", "good"]
            assert (digest.revision, digest.attempt) == (1, 1)


class Plain(Shallow):
    name = "plain"


def test_a_timeline_with_hundreds_of_dead_letters_is_deleted_whole() -> None:
    digests = Digests("memory://", policy=Policy(attempts=1, minimum_delay=0, increment_delay=0))
    for number in range(450):
        digests.add("t", 1, now=number)
        digests.flush("t", now=number)
        with pytest.raises(KeyError), digests.digest("t", now=number):
            raise KeyError

    assert digests.delete("t") is True
    assert digests.dead_letters() == []
    assert digests.ledger().deleted == 450


def test_what_comes_next_is_never_in_the_past() -> None:
    digests = Digests("memory://", policy=Policy(minimum_delay=10), lease=30)
    digests.add("t", 1, now=0)
    assert digests.explain("t", now=5).next == 5
    with pytest.raises(Exception, match="lease lapsed"), digests.digest("t", now=0):
        assert digests.explain("t", now=5).next == 30
        assert digests.explain("t", now=50).next == 50
        digests.maintenance(now=50)
    assert digests.explain("t", now=60).next == 60
    assert digests.explain("unknown", now=60).next is None


def test_the_sign_of_a_zero_is_kept(dsn: str) -> None:
    with Digests(dsn) as digests:
        digests.add("t", Record("a", 1, -0.0), now=0)
        digests.add("t", Record("b", 1, 0.0), now=0)

        with digests.digest("t", now=0) as digest:
            assert [str(record.timestamp) for record in digest] == ["0.0", "-0.0"]


def test_a_closed_store_says_so(dsn: str) -> None:
    digests = Digests(dsn)
    digests.close()
    digests.close()

    with pytest.raises(Exception, match="this store is closed"):
        digests.add("t", 1)


@pytest.mark.parametrize("clock", [5, lambda: "soon", lambda: float("nan")])
def test_a_clock_that_does_not_give_seconds_is_named(clock: Any) -> None:
    with pytest.raises(ConfigError, match=r"^clock"):
        Digests("memory://", clock=clock).add("t", 1)


def test_digests_are_not_pickled_but_opened_again() -> None:
    import pickle

    with pytest.raises(TypeError, match="same DSN"):
        pickle.dumps(Digests("memory://"))


@pytest.mark.parametrize("limit", [1, 999, 10**30])
def test_lists_are_read_in_pages_whatever_the_limit(limit: int) -> None:
    digests = Digests("memory://", policy=Policy(attempts=1))
    for number in range(450):
        digests.add(f"t{number:03}", 1, now=0)
        with pytest.raises(KeyError), digests.digest(f"t{number:03}", now=0):
            raise KeyError

    expected = min(limit, 450)
    assert len(digests.dead_letters(limit=limit)) == expected
    assert len(digests.history(limit=limit)) == expected
    assert len(digests.timelines(limit=limit)) == expected
    assert len(list(digests.schedule(1000, page=min(limit, 5000), now=1000))) == 450


def test_a_backoff_is_asked_only_for_the_iteration_that_counts() -> None:
    digests = Digests("memory://", policy=Policy(backoff=[None, 10, 20].__getitem__))  # type: ignore[arg-type]
    digests.add("t", 1, now=0)

    with digests.digest("t", now=0):
        pass

    assert digests.timeline("t").due == 10
