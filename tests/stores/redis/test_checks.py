"""Start-up checks: which servers are refused, with which message, and the durability of the others."""

from collections.abc import Iterator
from typing import Any

import pytest

from digestif import ConfigError, Digests, StoreUnavailable
from digestif.clock import monotonic
from digestif.stores.base import Durability
from digestif.stores.redis import from_client
from digestif.stores.redis.checks import _check, _facts
from digestif.testing.servers import LoneCluster, RedisServer, free_port

pytestmark = pytest.mark.long

PASSWORD = "s3cret/@:word"
IN_URL = "s3cret%2F%40%3Aword"


def refusal(url: str, **settings: Any) -> str:
    """The message of the error with which the store refuses to open; it must not show the password."""
    with pytest.raises(ConfigError) as caught:
        Digests(url, **settings)
    told = str(caught.value)
    assert PASSWORD not in told
    assert IN_URL not in told
    return told


def at(server: RedisServer, *, scheme: str = "redis", login: str = "", query: str = "") -> str:
    return f"{scheme}://{login}127.0.0.1:{server.port}{query}"


# Servers that are not fit


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ("redis_version:6.2.14", "node:1: redis 6.2.14 is too old, 7.0 or later is needed"),
        ("redis_version:7.2.4\r\nvalkey_version:7.1.9", "node:1: valkey 7.1.9 is too old, 7.2 or later is needed"),
        ("who:knows", "node:1: redis 0.0 is too old, 7.0 or later is needed"),
    ],
)
def test_a_server_that_is_too_old_is_refused(info: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _check("node:1", _facts(f"# Server\r\n{info}\r\nrole:master\r\n".encode()), clustered=False)


@pytest.mark.parametrize("version", ["redis_version:7.0.0", "redis_version:10.1.0", "valkey_version:7.2.0"])
def test_a_server_that_is_new_enough_is_taken(version: str) -> None:
    _check("node:1", _facts(f"# Server\r\n{version}\r\nrole:master\r\n".encode()), clustered=False)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_evicts_is_refused(policy: str) -> None:
    with RedisServer(maxmemory_policy=policy, requirepass=PASSWORD) as server:
        told = refusal(server.url)

        assert f"127.0.0.1:{server.port}: maxmemory-policy is {policy}" in told
        assert "CONFIG SET maxmemory-policy noeviction" in told
        server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
        with Digests(server.url) as digests:
            assert digests.add("t", 1)


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"])
def test_a_server_that_evicts_only_keys_with_a_ttl_is_taken(policy: str) -> None:
    with RedisServer(maxmemory_policy=policy) as server, Digests(server.url) as digests:
        assert digests.add("t", 1)


def test_a_replica_is_refused(redis_server: RedisServer) -> None:
    with RedisServer(replicaof=f"127.0.0.1 {redis_server.port}") as replica:
        told = refusal(replica.url)

        assert f"127.0.0.1:{replica.port}: this server is a replica" in told
        assert "name its primary" in told


def test_a_namespace_of_another_schema_is_refused_and_left_as_it_is(redis_server: RedisServer) -> None:
    redis_server.cli("HSET", "{d:0}:meta", "schema", 6, "oldest", 5, "partitions", 1)

    told = refusal(redis_server.url)

    assert "namespace 'd': a newer release has raised its schema" in told
    assert "version 5 or later, and this process has version 4" in told
    assert redis_server.cli("KEYS", "*") == ["{d:0}:meta"]
    with Digests(redis_server.url, namespace="other") as digests:
        assert digests.add("t", 1)


def test_the_number_of_partitions_is_kept(redis_server: RedisServer) -> None:
    with Digests(f"{redis_server.url}?partitions=4") as digests:
        digests.add_many([(f"t{number}", number) for number in range(20)])
    with Digests(redis_server.url) as digests:
        assert digests.store.partitions == 4
        assert digests.ledger().pending == 20

    told = refusal(f"{redis_server.url}?partitions=8")

    assert "namespace 'd' has 4 and keeps them, not 8" in told
    assert "leave the option out" in told


def test_a_node_of_a_cluster_is_no_single_server(lone_cluster: LoneCluster) -> None:
    assert f"use redis+cluster://127.0.0.1:{lone_cluster.port}" in refusal(at(lone_cluster))


def test_a_single_server_is_no_cluster(redis_server: RedisServer) -> None:
    assert "write redis:// for a single server" in refusal(at(redis_server, scheme="redis+cluster"))


# Servers that do not let us in


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A server with a password, and users with fewer rights."""
    with RedisServer(requirepass=PASSWORD, appendonly=True, appendfsync="always") as server:
        everything = ("on", f">{PASSWORD}", "~*", "&*", "+@all")
        server.cli("ACL", "SETUSER", "unconfigured", *everything, "-config")
        server.cli("ACL", "SETUSER", "harmless", *everything, "-@dangerous")
        server.cli("ACL", "SETUSER", "silent", *everything, "resetchannels")
        server.cli("ACL", "SETUSER", "strange", *everything, "resetkeys", "~elsewhere*")
        yield server


@pytest.mark.parametrize("login", ["", f":{IN_URL}x@", f"nobody:{IN_URL}@"])
def test_a_wrong_password_is_told_without_it(guarded: RedisServer, login: str) -> None:
    told = refusal(at(guarded, login=login))

    assert f"127.0.0.1:{guarded.port}" in told
    assert "check user and password" in told


def test_a_user_who_may_not_touch_the_keys_is_told(guarded: RedisServer) -> None:
    told = refusal(at(guarded, login=f"strange:{IN_URL}@"))

    assert "ACL SETUSER" in told
    assert "keys of the namespace" in told


def test_a_user_who_may_not_ask_what_the_server_is_is_told_what_is_missing(guarded: RedisServer) -> None:
    assert "info" in refusal(at(guarded, login=f"harmless:{IN_URL}@"))


def test_a_user_who_may_not_publish_loses_wake_ups_and_nothing_else(guarded: RedisServer) -> None:
    with Digests(at(guarded, login=f"silent:{IN_URL}@"), namespace="silent") as digests:
        assert digests.add("t", 1)
        with digests.digest("t", 0) as digest:
            assert len(digest) == 1
        assert [entry.key for entry in digests.schedule()] == ["t"]

        assert digests.ledger().delivered == 1
        assert digests.verify()


# Servers that are not there


def test_a_store_can_be_made_while_its_server_is_down_and_works_once_it_is_up() -> None:
    with RedisServer(requirepass=PASSWORD) as server:
        url = server.url
        server.kill()
        with Digests(f"{url}?patience=0.2") as digests:
            for call in (lambda: digests.add("t", 1), digests.ledger, digests.maintenance):
                with pytest.raises(StoreUnavailable) as caught:
                    call()
                assert f"127.0.0.1:{server.port}: no answer within 0.2 s" in str(caught.value)
                assert "check that the server is up" in str(caught.value)
                assert "s3cret" not in repr(caught.value)
            server.start()

            assert digests.add("t", 1)


def test_a_server_that_turns_out_unfit_is_refused_at_the_first_call() -> None:
    with RedisServer(maxmemory_policy="allkeys-lru") as server:
        server.kill()
        with Digests(f"{server.url}?patience=0.1") as digests:
            server.start()

            with pytest.raises(ConfigError, match="noeviction"):
                digests.add("t", 1)
            assert server.cli("KEYS", "*") == []


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_nobody_waits_longer_than_patience_for_a_server_that_is_not_there(scheme: str) -> None:
    port, began = free_port(), monotonic()

    with Digests(f"{scheme}://127.0.0.1:{port}?patience=0.3") as digests, pytest.raises(StoreUnavailable) as caught:
        digests.add("t", 1)

    assert f"127.0.0.1:{port}" in str(caught.value)
    assert monotonic() - began < 5


# What is said to be survived


@pytest.mark.parametrize(
    ("options", "durability"),
    [
        ({}, Durability.NOTHING),
        ({"save": "60 1"}, Durability.NOTHING),
        ({"appendonly": True}, Durability.PROCESS_KILL),
        ({"appendonly": True, "appendfsync": "no"}, Durability.PROCESS_KILL),
        ({"appendonly": True, "appendfsync": "always", "no_appendfsync_on_rewrite": True}, Durability.PROCESS_KILL),
        ({"appendonly": True, "appendfsync": "always"}, Durability.POWER_LOSS),
    ],
    ids=["memory", "snapshots", "everysec", "no", "mostly", "always"],
)
def test_the_durability_is_that_of_the_server(options: dict[str, Any], durability: Durability) -> None:
    with RedisServer(**options) as server, Digests(server.url) as digests:
        assert digests.store.durability is durability


def test_who_may_not_read_the_configuration_is_told_the_least_that_can_be_true(guarded: RedisServer) -> None:
    with Digests(guarded.url) as digests, Digests(at(guarded, login=f"unconfigured:{IN_URL}@")) as uninformed:
        assert digests.store.durability is Durability.POWER_LOSS
        assert uninformed.store.durability is Durability.PROCESS_KILL


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_of_the_users_own_is_told_the_same_in_either_protocol(guarded: RedisServer, protocol: int) -> None:
    with guarded.client(protocol=protocol) as client:
        assert from_client(client, namespace="own").durability is Durability.POWER_LOSS
