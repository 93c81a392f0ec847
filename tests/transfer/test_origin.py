"""The origin's own layout in Redis is moved with a decoder that the user names."""

import json
import pickle
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from digestif import ConfigError, Digests, InvalidRecord, Store, StoreError, StoreUnavailable
from digestif.core.ledger import Ledger
from digestif.stores.registry import open_store
from digestif.transfer import Move
from digestif.transfer.origin import Origin, load_decoder
from tests.servers import empty_server

T = 1_500_000_000.0


def unpickled(value: bytes) -> Any:
    """A decoder of the user's own, for values that are known to be safe."""
    return pickle.loads(zlib.decompress(value))


@pytest.fixture
def client() -> Iterator[Any]:
    with redis.Redis.from_url(empty_server().url) as client:
        yield client


@pytest.fixture
def target() -> Iterator[Store]:
    store = open_store("memory://")
    yield store
    store.close()


def put(client: Any, timeline: str, records: dict[str, tuple[float, bytes | None]], *, part: str = "") -> None:
    for key, (timestamp, value) in records.items():
        client.zadd(f"d:t:{timeline}{part}", {key: timestamp})
        if value is not None:
            client.set(f"d:t:{timeline}:r:{key}", value)


def moved(target: Any, decoder: Any = json.loads) -> dict[str, str]:
    """What was skipped."""
    origin = Origin(empty_url(), decoder=decoder)
    try:
        assert Move(origin, target).run(patience=1).finished
    finally:
        origin.close()
    return origin.skipped


def empty_url() -> str:
    from tests.servers import _server

    return _server().url


def test_waiting_and_ready_timelines_come_with_their_records_and_times(client: Any, target: Any) -> None:
    put(client, "mail:p:1", {"a": (T + 1, b'{"n": 1}'), "b": (T + 2, b'{"n": 2}')})
    put(client, "mail:p:2", {"c": (T + 3, b'"three"')})
    client.zadd("d:s:w", {"mail:p:1": T + 300})
    client.zadd("d:s:r", {"mail:p:2": T + 5})
    client.set("d:t:mail:p:1:l", T)

    moved(target)

    digests = Digests(target)
    waiting, ready = digests.timeline("mail:p:1"), digests.timeline("mail:p:2")
    assert (waiting.state, waiting.due, waiting.last) == ("waiting", T + 300, T)
    assert ready.state == "ready"
    assert digests.peek("mail:p:1") == [("b", {"n": 2}, T + 2), ("a", {"n": 1}, T + 1)]
    assert digests.peek("mail:p:2") == [("c", "three", T + 3)]
    assert digests.ledger() == Ledger(accepted=3, pending=3)
    assert digests.verify()
    assert client.keys() == []


def test_a_digest_that_did_not_end_is_pending_again_and_the_later_version_counts(client: Any, target: Any) -> None:
    put(client, "t", {"old": (T, b"1"), "both": (T + 1, b"2")}, part=":d")
    put(client, "t", {"both": (T + 5, b"3")})
    client.zadd("d:s:r", {"t": T})

    moved(target)

    assert Digests(target).peek("t") == [("both", 3, T + 5), ("old", 1, T)]


def test_values_are_read_by_the_decoder_that_is_named(client: Any, target: Any) -> None:
    put(client, "t", {"a": (T, zlib.compress(pickle.dumps({"rule": 7})))})
    client.zadd("d:s:r", {"t": T})

    skipped = moved(target)
    assert re.fullmatch(r"record b'a': .*--decoder .*", skipped["t"])
    assert client.zcard("d:t:t") == 1  # nothing is lost

    assert moved(target, load_decoder("tests.transfer.test_origin:unpickled")) == {}
    assert Digests(target).peek("t") == [("a", {"rule": 7}, T)]


def test_what_is_told_of_a_moved_timeline_is_true(client: Any, target: Any) -> None:
    """The origin keeps neither arrivals nor reasons: timestamps stand for the first, and the rule says `moved`."""
    ahead = T + 1e9
    put(client, "waits", {"new": (T + 9, b"1"), "old": (T + 1, b"1")})
    put(client, "failed", {"old": (T + 2, b"1")}, part=":d")
    put(client, "dated ahead", {"a": (ahead, b"1")})
    client.zadd("d:s:w", {"waits": T + 300})
    client.zadd("d:s:r", {"failed": T + 2, "dated ahead": ahead})
    client.set("d:t:waits:l", T)

    seconds, _ = client.time()
    moved(target)

    digests = Digests(target)
    waits, failed, early = (digests.explain(name, now=T + 100) for name in ("waits", "failed", "dated ahead"))
    assert (waits.rule, waits.facts["due"], waits.facts["last"]) == ("moved", T + 300, T)
    assert waits.facts["first_pending"] == T + 1
    assert "due 2017-07-14T02:45:00.000Z, as it was where the timeline was moved from" in waits.arithmetic
    assert "first record of an idle timeline" not in str(waits)
    assert (failed.facts["first_pending"], failed.facts["pending"], failed.facts["due"]) == (T + 2, 1, T + 2)
    assert seconds <= early.facts["first_pending"] < ahead
    assert seconds <= early.facts["due"] < ahead
    assert digests.backlog(now=T + 100).oldest is None  # none of them expires
    assert digests.backlog().next_due == T + 2


def test_a_value_that_had_expired_becomes_a_dead_letter(client: Any, target: Any) -> None:
    put(client, "t", {"gone": (T, None), "there": (T + 1, b"1")})
    client.zadd("d:s:r", {"t": T})

    moved(target)

    digests = Digests(target)
    with digests.digest("t") as digest:
        assert [record.key for record in digest] == ["there"]
    [letter] = digests.dead_letters()
    assert "missing" in letter.reason
    assert digests.ledger() == Ledger(accepted=2, delivered=1, dead=1)


def test_thousands_of_records_come_in_pages_and_an_interrupted_move_goes_on(client: Any, target: Any) -> None:
    put(client, "t", {f"k{n:04}": (T + n, b"%d" % n) for n in range(1700)})
    client.zadd("d:s:w", {"t": T})
    arrive = target.import_pages
    pages: list[Any] = []

    def arrive_twice(pages_: Any, **named: Any) -> Any:
        if len(pages) == 2:
            raise KeyboardInterrupt
        pages.append(pages_)
        return arrive(pages_, **named)

    target.import_pages = arrive_twice
    with pytest.raises(KeyboardInterrupt):
        moved(target)
    del target.import_pages
    moved(target)

    assert [record.value for record in Digests(target).peek("t")] == list(range(1699, -1, -1))
    assert target.ledger() == Ledger(accepted=1700, pending=1700)
    assert target.footprint()["notes"] == 0
    assert client.keys() == []


@pytest.mark.parametrize("last", [b"never", b"nan", b"-inf", b"1e300", b"", b"\xff"])
def test_what_is_no_time_of_a_delivery_counts_as_never(client: Any, target: Any, last: bytes) -> None:
    put(client, "t", {"a": (T, b"1")})
    client.zadd("d:s:w", {"t": T})
    client.set("d:t:t:l", last)

    assert moved(target) == {}

    assert Digests(target).timeline("t").last is None
    assert Digests(target).peek("t") == [("a", 1, T)]


UNREADABLE: dict[str, tuple[str | bytes, Callable[[Any, str | bytes], object], str]] = {
    "due at no time": ("odd", lambda client, name: client.zadd("d:s:w", {name: "inf"}), "inf"),
    "due in a far future": ("odd", lambda client, name: client.zadd("d:s:w", {name: "1e300"}), "300"),
    "records of another type": ("odd", lambda client, _: client.set("d:t:odd", "text"), "WRONGTYPE"),
    "a record of no time": ("odd", lambda client, _: client.zadd("d:t:odd", {"a": "inf"}), "record b'a'.*finite"),
    "a record's key": ("odd", lambda client, _: client.zadd("d:t:odd", {b"\xff": 1}), "UTF-8"),
    "no name": ("", lambda client, name: None, "0 bytes"),
    "a long name": ("x" * 513, lambda client, name: None, "512"),
    "a name of bytes": (b"\xff", lambda client, name: None, "UTF-8"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_timeline_that_cannot_be_read_stays_and_the_others_go(client: Any, target: Any, kind: str) -> None:
    name, spoil, reason = UNREADABLE[kind]
    put(client, "good", {"a": (T, b"1")})
    client.zadd("d:s:w", {"good": T, name: T})
    spoil(client, name)

    skipped = moved(target)

    assert list(skipped) == [name if isinstance(name, str) else repr(name)]
    assert re.search(reason, next(iter(skipped.values())))
    assert Digests(target).peek("good") == [("a", 1, T)]
    assert client.zrange("d:s:w", 0, -1) == [name.encode() if isinstance(name, str) else name]
    assert client.exists("d:t:good", "d:digestif") == 0
    assert target.ledger() == Ledger(accepted=1, pending=1)


def test_what_no_schedule_knows_of_stays_and_is_told(client: Any, target: Any) -> None:
    """Sets of records that the origin would never deliver are named, without those of skipped timelines."""
    put(client, "good", {"a": (T, b"1")})
    put(client, "odd", {"a": (T, b"?")})
    put(client, "odd", {"b": (T, b"?")}, part=":d")
    client.zadd("d:s:w", {"good": T, "odd": T})
    put(client, "forgotten", {"a": (T, b"1")})
    client.set("d:t:delivered:l", T)  # of one that is idle
    client.zadd("dd:t:other", {"a": T})
    origin = Origin(empty_url(), decoder=json.loads)

    assert Move(origin, target).run(patience=1).finished
    told = list(origin.left_behind())
    origin.close()

    assert len(told) == 2
    assert told[0].startswith("'odd' was left there")
    assert re.fullmatch("1 set of records left there, .* such as d:t:forgotten", told[1])
    assert client.exists("d:t:forgotten", "d:t:forgotten:r:a") == 2


def test_no_half_of_a_timeline_arrives(client: Any, target: Any) -> None:
    """The last of its records can't be read."""
    put(client, "t", {f"k{n:04}": (T + n, b"%d" % n if n < 1200 else b"?") for n in range(1201)})
    client.zadd("d:s:w", {"t": T})

    assert moved(target).keys() == {"t"}

    assert Digests(target).timeline("t").state == "idle"
    assert target.ledger() == Ledger()
    assert client.zcard("d:t:t") == 1201
    assert client.get("d:t:t:r:k0000") == b"0"


def test_a_value_that_can_be_read_only_once_is_told_with_its_timeline(client: Any, target: Any) -> None:
    put(client, "t", {"a": (T, b"1")})
    client.zadd("d:s:w", {"t": T})
    values = iter([1])

    with pytest.raises(InvalidRecord, match="'t', record b'a'"):
        moved(target, lambda _: next(values))


def test_errors_of_the_server_are_told_as_ours(client: Any, target: Any) -> None:
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        Origin("redis://127.0.0.1:1", decoder=json.loads)
    client.set("d:s:w", "no schedule")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        moved(target)


@pytest.mark.parametrize("verb", ["note", "swap_note", "scan", "begin_export", "read_export", "commit_export"])
def test_a_server_that_is_lost_is_unavailable_whatever_is_asked(client: Any, verb: str) -> None:
    put(client, "t", {"a": (T, b"1")})
    client.zadd("d:s:w", {"t": T})
    origin = Origin(empty_url(), decoder=json.loads)
    [parcel] = origin.begin_export(["t"], token="move-1", now=None)
    assert parcel is not None
    origin.close()
    origin._client = redis.Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))  # where no server listens
    acts: dict[str, Callable[[], object]] = {
        "note": lambda: origin.note(0, "n"),
        "swap_note": lambda: origin.swap_note(0, "n", None, b"1"),
        "scan": lambda: origin.scan(prefix="", after=None, limit=10),
        "begin_export": lambda: origin.begin_export(["t"], token="move-1", now=None),
        "read_export": lambda: origin.read_export([(parcel, None)], limit=10),
        "commit_export": lambda: origin.commit_export([parcel], now=None),
    }

    with pytest.raises(StoreUnavailable, match="can't be reached"):
        acts[verb]()
    origin.close()


@pytest.mark.parametrize("name", ["nowhere:f", "json:nothing", "tests.transfer.test_origin:T", "plain"])
def test_a_decoder_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="decoder"):
        load_decoder(name)
