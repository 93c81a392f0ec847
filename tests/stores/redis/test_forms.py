"""How records are stored: few bytes beside key and value, and those of schema 1 are read as well."""

from collections.abc import Iterator

import pytest

from digestif import Digests, Policy, Record
from digestif.stores.redis.client import scripts
from digestif.testing.servers import RedisServer
from tests.stores.redis.large_lives import live_large
from tests.stores.redis.layout import EXPIRES, FORM, read_head

pytestmark = pytest.mark.long

VALUES = [{"text": "x" * 80, "number": 7}, "é", 1, None, [1.5, {"deep": [True]}]]
OLD_FORM = {
    "include/batches.lua": (
        "  local form = FORM + (nameless and NAMELESS or 0)\n",
        """  if arrival % 2 == 0 then
    rest = nameless and string.sub(rest, 1, 8) .. 'json/1 ' .. string.sub(rest, 9) or rest
    return struct.pack('>I5i7', arrival, expires or NEVER) .. rest
  end
  local form = FORM + (nameless and NAMELESS or 0)
""",
    ),
    "add.lua": (
        "        local value, fresh = write('>BI5', form, arrival) .. expiry .. rest, nil\n",
        """        local value, fresh = write('>BI5', form, arrival) .. expiry .. rest, nil
        if arrival % 2 == 0 then
          rest = nameless and string.sub(rest, 1, 8) .. 'json/1 ' .. string.sub(rest, 9) or rest
          value = write('>I5i7', arrival, expires) .. rest
        end
""",
    ),
}


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scripts that write every second record as schema 1 did, as if an upgrade had come in between."""
    read = scripts._read

    def changed(path: str) -> str:
        text, (old, new) = read(path), OLD_FORM.get(path, ("", ""))
        assert old in text
        return text.replace(old, new, 1) if old else text

    monkeypatch.setattr(scripts, "_read", changed)
    scripts.load.cache_clear()
    yield
    scripts.load.cache_clear()


def stored(server: RedisServer, timeline: str = "t") -> dict[bytes, bytes]:
    with server.client() as client:
        fields: dict[bytes, bytes] = client.hgetall(f"{{d:0}}:t:{timeline}")
    return {key: record for key, record in fields.items() if key}


def test_a_record_takes_14_bytes_beside_its_key_and_its_json(redis_server: RedisServer) -> None:
    with Digests(redis_server.url, policy=Policy(ttl=None)) as digests:
        digests.add_many([("t", Record("many", "x" * 298, 0.0)), ("t", Record("more", "y" * 298, 0.0))])
        digests.add("t", "z" * 298, key="one")

    assert {len(record) for record in stored(redis_server).values()} == {14 + 300}


def test_an_expiry_takes_7_more(redis_server: RedisServer) -> None:
    with Digests(redis_server.url, policy=Policy(ttl=3600)) as digests:
        digests.add("t", "z" * 298, key="one", now=1000.0)

    [record] = stored(redis_server).values()
    assert len(record) == 21 + 300
    assert record[0] & EXPIRES
    assert read_head(record).expires == 4_600_000


@pytest.mark.parametrize("codec", ["json", "zstd"])
@pytest.mark.parametrize("ttl", [None, 3600])
@pytest.mark.usefixtures("mixed")
def test_records_of_both_schemas_read_back_equal(redis_server: RedisServer, codec: str, ttl: float | None) -> None:
    times = [0.0, -0.0, -1.5, 0.1 + 0.2, 1_700_000_000.123456]
    with Digests(redis_server.url, codec=codec, policy=Policy(ttl=ttl)) as digests:
        added = [Record(f"{number}{at}", value, at) for number, value in enumerate(VALUES) for at in times]
        digests.add_many([("t", record) for record in added])
        for record in added[:2]:
            digests.add("u", record.value, key=record.key, timestamp=record.timestamp)

        found = {record.key: record for record in digests.peek("t", limit=100)}

    assert {record[0] >= FORM for record in stored(redis_server).values()} == {True, False}
    assert {record[0] >= FORM for record in stored(redis_server, "u").values()} == {True, False}
    assert found == {record.key: record for record in added}
    assert [str(found[record.key].timestamp) for record in added] == [str(record.timestamp) for record in added]


@pytest.mark.usefixtures("mixed")
def test_records_of_both_schemas_live_the_same_life_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    live_large(1, monkeypatch, steps=60)


def test_a_record_that_is_too_short_is_found(redis_server: RedisServer) -> None:
    with Digests(redis_server.url, policy=Policy(ttl=3600)) as digests:
        digests.add_many([("t", Record(str(number), number, 0.0)) for number in range(4)])
        records = stored(redis_server)
        for key, size in zip(sorted(records), (0, 13, 20, 21), strict=True):
            with redis_server.client() as client:
                client.hset("{d:0}:t:t", key, records[key][:size])

        assert digests.verify().problems == ("'t': 3 records have no value",)


def test_a_record_of_an_unknown_form_is_found(redis_server: RedisServer) -> None:
    with Digests(redis_server.url) as digests:
        digests.add_many([("t", Record(str(number), number, 0.0)) for number in range(5)])
        for key, record in sorted(stored(redis_server).items())[1:]:
            with redis_server.client() as client:
                client.hset("{d:0}:t:t", key, bytes([FORM + 3 + int(key)]) + record[1:])

        assert digests.verify().problems == ("'t': 4 records have no value",)
        assert len(digests.peek("t")) == 1
        assert [damage.records for damage in digests.repair()] == [4]
