"""What the link reads from a DSN, before anything is sent."""

from dataclasses import fields

import pytest

from digestif.dsn import Dsn, option_names
from digestif.errors import ConfigError
from digestif.stores.redis.client.factory import open_link
from digestif.stores.redis.client.options import Options
from digestif.stores.redis.client.target import ServerKind, Target


def place(text: str) -> Target:
    return Target.of(Dsn.parse(text))


@pytest.mark.parametrize(
    ("text", "kind", "tls", "addresses"),
    [
        ("redis://", ServerKind.SINGLE, False, [("localhost", 6379)]),
        ("redis://cache.example:6380/3", ServerKind.SINGLE, False, [("cache.example", 6380)]),
        ("redis://[::1]:6380", ServerKind.SINGLE, False, [("::1", 6380)]),
        ("redis://[fe80::2]", ServerKind.SINGLE, False, [("fe80::2", 6379)]),
        ("rediss://h", ServerKind.SINGLE, True, [("h", 6379)]),
        ("valkey://h", ServerKind.SINGLE, False, [("h", 6379)]),
        ("valkeys://h", ServerKind.SINGLE, True, [("h", 6379)]),
        ("redis+cluster://h1:7000,h2:7001", ServerKind.CLUSTER, False, [("h1", 7000), ("h2", 7001)]),
        ("valkeys+cluster://h1,h2", ServerKind.CLUSTER, True, [("h1", 6379), ("h2", 6379)]),
        ("redis+sentinel://h1:26380,h2/main/0", ServerKind.SENTINEL, False, [("h1", 26380), ("h2", 26379)]),
        ("rediss+sentinel://h1/main", ServerKind.SENTINEL, True, [("h1", 26379)]),
    ],
)
def test_a_scheme_says_what_is_found_at_which_addresses(
    text: str, kind: ServerKind, tls: bool, addresses: list[tuple[str, int]]
) -> None:
    found = place(text)

    assert (found.kind, found.tls, found.addresses) == (kind, tls, addresses)


def test_a_password_may_contain_whatever_separates_the_other_parts() -> None:
    found = place("redis://ada:p%40ss%2Fw:o?rd@h:1/2".replace("?", "%3F"))

    assert found.login.user == "ada"
    assert found.login.password == "p@ss/w:o?rd"
    assert (found.addresses, found.db()) == ([("h", 1)], 2)


def test_a_password_is_not_in_the_representation_of_a_place() -> None:
    assert "secret" not in repr(place("redis://ada:secret@h"))


def test_the_number_of_a_database_follows_the_host_or_the_service() -> None:
    assert place("redis://h/7").db() == 7
    assert place("redis+sentinel://h/main/7").db(after=1) == 7
    assert place("redis+sentinel://h/main").db(after=1) == 0


def test_a_socket_has_a_path() -> None:
    assert place("redis+unix:///run/redis/server.sock").socket() == "/run/redis/server.sock"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("redis://h:port", "is not a host"),
        ("redis://h:65536", "is not a host"),
        ("redis://h:0", "is not a host"),
        ("redis://::1", "is not a host"),
        ("redis://h/first", "is not the number of a database"),
        ("redis://h/1/2", "is not the number of a database"),
        ("redis://h1,h2", "redis+cluster://"),
        ("redis+cluster://h/1", "a cluster has no database 1"),
        ("redis+sentinel://h", "redis+sentinel://host/service"),
        ("rediss+unix:///s", "needs no TLS"),
        ("redisx://h", "redisx:// is not a scheme of Redis or Valkey"),
        ("redis://h?ca=/nowhere", "ca: only for TLS"),
        ("redis://h?verify=no", "verify: only for TLS"),
        ("rediss://h?ca=/nowhere", "ca: there is no file '/nowhere'"),
        ("rediss://h?verify=perhaps", "verify: 'perhaps' is neither yes nor no"),
        ("redis://h?timeout=soon", "timeout: 'soon' is not a number of seconds"),
        ("redis://h?connect_timeout=0", "connect_timeout: '0'"),
        ("redis://h?patience=-1", "patience: '-1'"),
        ("redis://h?patience=inf", "patience: 'inf'"),
        ("redis://h?patience=nan", "patience: 'nan'"),
        ("redis://h?replicas=some", "replicas: 'some' is not a whole number"),
        ("redis://h?replicas=-1", "replicas: '-1' is not a whole number"),
        ("redis://h?replica_timeout=x", "replica_timeout: 'x'"),
        ("redis://h?replicas=1&replica_timeout=5", "replica_timeout: 5 s is too long: replies have 5 s to come"),
    ],
)
def test_what_can_not_be_meant_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_link(Dsn.parse(text), namespace="d")

    assert said in str(refusal.value)


def test_every_option_has_a_name_and_options_of_others_are_left_alone() -> None:
    options = Options.of({"timeout": "2", "replicas": "3", "verify": "no", "partitions": "64"}, tls=True)

    assert options == Options(timeout=2.0, replicas=3, verify=False)
    assert [field.name for field in fields(Options)] == option_names(Options)
