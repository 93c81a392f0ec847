"""The origin's own layout in Redis is moved with a decoder that the user names."""

import json
import pickle
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from digestif import ConfigError, Digests, InvalidRecord, Store
from digestif.core.ledger import Ledger
from digestif.moving import Move
from digestif.moving.origin import Origin, load_decoder
from digestif.stores.dsn import open_store
from tests.servers import empty_server

T = 1_500_000_000.0


def unpickled(value: bytes) -> Any:
    """As somebody would write it who knows that these values are their own."""
    return pickle.loads(zlib.decompress(value))


@pytest.fixture
def client() -> Iterator[Any]:
    with redis.Redis.from_url(empty_server().url) as client:
        yield client


@pytest.fixture
def target() -> Iterator[Store]:
    store = open_store("memory://")
    yield store
    store.disconnect()


def put(client: Any, timeline: str, records: dict[str, tuple[float, bytes | None]], *, part: str = "") -> None:
    for key, (timestamp, value) in records.items():
        client.zadd(f"d:t:{timeline}{part}", {key: timestamp})
        if value is not None:
            client.set(f"d:t:{timeline}:r:{key}", value)


def moved(target: Any, decoder: Any = json.loads) -> None:
    origin = Origin(empty_url(), decoder=decoder)
    try:
        Move(origin, target).run()
    finally:
        origin.disconnect()


def empty_url() -> str:
    from tests.servers import _server

    return _server(None).url


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

    with pytest.raises(InvalidRecord, match=r"record b'a'.*--decoder"):
        moved(target)
    assert client.zcard("d:t:t") == 1  # nothing is lost

    moved(target, load_decoder("tests.moving.test_origin:unpickled"))
    assert Digests(target).peek("t") == [("a", {"rule": 7}, T)]


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
    arrive = target.arrive
    pages: list[Any] = []

    def arrive_twice(pages_: Any, **named: Any) -> Any:
        if len(pages) == 2:
            raise KeyboardInterrupt
        pages.append(pages_)
        return arrive(pages_, **named)

    target.arrive = arrive_twice
    with pytest.raises(KeyboardInterrupt):
        moved(target)
    del target.arrive
    moved(target)

    assert [record.value for record in Digests(target).peek("t")] == list(range(1699, -1, -1))
    assert target.ledger() == Ledger(accepted=1700, pending=1700)
    assert target.footprint()["notes"] == 0
    assert client.keys() == []


@pytest.mark.parametrize("name", ["nowhere:f", "json:nothing", "tests.moving.test_origin:T", "plain"])
def test_a_decoder_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="decoder"):
        load_decoder(name)
