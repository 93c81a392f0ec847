"""What a link answers when nothing is wrong with the servers."""

from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from digestif.errors import ConfigError, Overloaded, StoreError, StoreUnavailable
from digestif.stores.redis.client.commands import Command, ScriptRefused
from digestif.stores.redis.client.factory import link_over
from digestif.stores.redis.client.link import Link
from digestif.testing.servers import LoneCluster, RedisServer, becomes_true
from tests.stores.redis.links import echo, get, increment, key, linked, put, refuse


@pytest.fixture
def link(redis_server: RedisServer) -> Iterator[Link]:
    with linked(redis_server.url) as link:
        yield link


def test_no_commands_have_no_answers(link: Link) -> None:
    assert link.run([]) == []


def test_answers_come_in_the_order_of_the_commands_and_undecoded(link: Link) -> None:
    answers = link.run([put("k", "ä"), get("k"), get("none"), Command(0, ("RPUSH", key("l"), "a", b"\xff", 3, 0.5))])

    assert answers == [b"OK", "ä".encode(), None, 4]
    assert link.run([Command(0, ("LRANGE", key("l"), 0, -1))]) == [[b"a", b"\xff", b"3", b"0.5"]]


def test_a_script_that_the_server_does_not_know_is_brought_along(link: Link, redis_server: RedisServer) -> None:
    assert link.run([echo("first")]) == [b"first"]
    redis_server.cli("SCRIPT", "FLUSH")

    assert link.run([echo("again")]) == [b"again"]


def test_a_script_that_many_commands_of_a_call_need_is_brought_along_once(
    link: Link, redis_server: RedisServer
) -> None:
    redis_server.cli("SCRIPT", "FLUSH")
    redis_server.cli("CONFIG", "RESETSTAT")

    answers = link.run([echo(str(number)) for number in range(20)])

    assert answers == [str(number).encode() for number in range(20)]
    assert redis_server.cli("INFO", "commandstats")["cmdstat_eval"]["calls"] == 1


def test_a_command_that_is_refused_does_not_stop_the_others(link: Link) -> None:
    before, refused, wrong, after = link.run([echo("a"), refuse("over"), Command(0, ("NONSENSE",)), echo("b")])

    assert (before, after) == (b"a", b"b")
    assert isinstance(refused, ScriptRefused)
    assert (refused.word, refused.rest) == ("DIGESTIF_STALE", "it is over")
    assert type(wrong) is StoreError
    assert "unknown command" in str(wrong)


def test_a_single_command_is_refused_in_the_same_way(link: Link, redis_server: RedisServer) -> None:
    [refused] = link.run([refuse("over")])
    [wrong] = link.run([Command(0, ("NONSENSE",))])

    assert isinstance(refused, ScriptRefused)
    assert (refused.word, refused.rest) == ("DIGESTIF_STALE", "it is over")
    assert type(wrong) is StoreError
    assert f"127.0.0.1:{redis_server.port}: unknown command" in str(wrong)


def test_a_command_of_the_wrong_type_is_an_error_of_the_program_and_hurts_nobody(link: Link) -> None:
    with pytest.raises(TypeError):
        link.run([Command(0, ("SET", key("k"), object()))])  # type: ignore[arg-type]

    assert link.run([put("k", "v"), get("k")]) == [b"OK", b"v"]


def test_every_server_in_charge_can_be_asked(link: Link, redis_server: RedisServer) -> None:
    answers = link.ask_all("CONFIG", "GET", "maxmemory-policy")

    assert answers == {f"127.0.0.1:{redis_server.port}": [b"maxmemory-policy", b"noeviction"]}


def test_a_closed_link_says_so(redis_server: RedisServer) -> None:
    with linked(redis_server.url) as link:
        link.run([echo("a")])

    for commands in ([echo("a")], [echo("a"), echo("b")]):
        for answer in link.run(commands):
            assert isinstance(answer, StoreUnavailable)
            assert str(answer) == f"127.0.0.1:{redis_server.port}: the store is closed"


def test_a_closed_link_has_no_connections(redis_server: RedisServer) -> None:
    with redis_server.client() as watcher:

        def links() -> int:
            return sum(client["name"] == "digestif" for client in watcher.client_list())

        assert becomes_true(lambda: links() == 0)  # those of earlier tests are gone
        with linked(redis_server.url) as link:
            link.run([echo("a")])
            assert links() == 1

        assert becomes_true(lambda: links() == 0)  # the server notices a moment later


# Servers that refuse


def test_a_full_memory_is_told_as_overload_and_reading_goes_on() -> None:
    with RedisServer() as server, linked(server.url) as link:
        server.cli("CONFIG", "SET", "maxmemory", server.cli("INFO", "memory")["used_memory"] + 500_000)
        growth = [link.run([put(f"k{number}", "x" * 10_000)])[0] for number in range(200)]
        both = link.run([increment(), get("k0")])

    assert growth[0] == b"OK"
    assert isinstance(growth[-1], Overloaded)
    assert "maxmemory" in str(growth[-1])
    assert isinstance(both[0], Overloaded)
    assert both[1] == b"x" * 10_000


@pytest.mark.parametrize("login", ["ada:wr0ng@", ":wr0ng@", ""])
def test_a_wrong_password_is_told_without_the_password(login: str) -> None:
    with RedisServer(requirepass="s3cret") as server:
        for commands in ([echo("a")], [echo("a"), echo("b")]):
            with linked(f"redis://{login}127.0.0.1:{server.port}") as link:
                answer = link.run(commands)[0]

            assert isinstance(answer, ConfigError)
            assert f"127.0.0.1:{server.port}" in str(answer)
            assert "check user and password" in str(answer)
            assert "wr0ng" not in _everything_said(answer)


def _everything_said(error: BaseException | None) -> str:
    return f"{error!r} {error} {_everything_said(error.__cause__ or error.__context__)}" if error else ""


def test_a_password_where_none_is_needed_is_told_too(redis_server: RedisServer) -> None:
    with linked(f"redis://:secret@127.0.0.1:{redis_server.port}") as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)
    assert "secret" not in _everything_said(answer)


def test_a_password_with_every_separator_opens_the_door() -> None:
    with RedisServer(requirepass="a@b/c:d?e%f") as server, linked(server.url) as link:
        assert link.run([echo("in")]) == [b"in"]


def test_a_user_without_permission_is_told_what_is_missing(redis_server: RedisServer) -> None:
    redis_server.cli("ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@read", "+client", "+select")
    with linked(f"redis://reader:pass@127.0.0.1:{redis_server.port}") as link:
        answers = link.run([put("k", "v"), get("k")])
    redis_server.cli("ACL", "DELUSER", "reader")

    assert isinstance(answers[0], ConfigError)
    assert "ACL SETUSER" in str(answers[0])
    assert answers[1] is None


def test_databases_are_apart(redis_server: RedisServer) -> None:
    with linked(f"{redis_server.url}/3") as third, linked(redis_server.url) as zeroth:
        third.run([put("k", "v")])

        assert zeroth.run([get("k")]) == [None]
        assert third.run([get("k")]) == [b"v"]


def test_a_database_that_is_not_there_is_told(redis_server: RedisServer) -> None:
    with linked(f"{redis_server.url}/999") as link:
        [answer] = link.run([echo("a")])

    assert type(answer) is StoreError
    assert "DB index is out of range" in str(answer)


def test_a_server_can_be_reached_by_a_socket() -> None:
    with RedisServer(unixsocket="socket") as server, linked(f"redis+unix://{server.directory}/socket") as link:
        assert link.run([echo("a")]) == [b"a"]
        assert link.ask_all("PING") == {f"{server.directory}/socket": b"PONG"}


# Clients of the user's own


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [True, False])
def test_a_client_of_ones_own_gives_the_same_answers_however_it_decodes(
    redis_server: RedisServer, protocol: int, decode: bool
) -> None:
    with redis.Redis(port=redis_server.port, protocol=protocol, decode_responses=decode) as client:
        link = link_over(client, namespace="d")
        answers = link.run([echo("ä"), refuse("x"), put("k", "v"), get("k"), get("none")])
        assert link.run([get("k")]) == [b"v"]
        link.close()

        assert client.get(key("k")) == ("v" if decode else b"v")

    assert answers[0] == "ä".encode()
    assert isinstance(answers[1], ScriptRefused)
    assert answers[2:] == [b"OK", b"v", None]


@pytest.mark.parametrize("decode", [True, False])
def test_a_cluster_client_of_ones_own_serves_as_well(lone_cluster: LoneCluster, decode: bool) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=lone_cluster.port, decode_responses=decode) as client:
        link = link_over(client, namespace="d")
        answers = link.run([echo(str(partition), partition) for partition in range(8)])
        link.close()

        assert client.set(key("k"), "v")

    assert answers == [str(partition).encode() for partition in range(8)]


def test_a_client_of_ones_own_stays_open_when_the_link_is_closed(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        link = link_over(client, namespace="d")
        link.run([echo("a")])
        link.close()

        assert client.ping()
        assert isinstance(link.run([echo("a")])[0], StoreUnavailable)


def test_a_link_does_not_keep_the_last_connection_of_a_small_pool(redis_server: RedisServer) -> None:
    with redis_server.client(max_connections=1) as client:
        link = link_over(client, namespace="d")

        assert link.run([echo("ours")]) == [b"ours"]
        assert client.ping()
        assert link.run([echo("ours"), echo("again")]) == [b"ours", b"again"]
        assert client.ping()
        link.close()


def test_other_clients_are_refused_with_a_word_on_what_is_accepted(redis_server: RedisServer) -> None:
    client = redis_server.client()
    for wrong in (redis.asyncio.Redis(), client.pipeline(), "redis://localhost", None):
        with pytest.raises(ConfigError, match=r"neither a redis\.Redis nor a redis\.RedisCluster"):
            link_over(wrong, namespace="d")
    client.close()


def test_a_client_that_gives_up_before_its_replicas_is_refused(redis_server: RedisServer) -> None:
    with (
        redis_server.client(socket_timeout=1) as client,
        pytest.raises(ConfigError, match="replica_timeout: 2 s is too long: replies have 1 s to come"),
    ):
        link_over(client, namespace="d", replicas=1, replica_timeout=2)


# A cluster of one


def test_a_cluster_is_found_from_one_address(lone_cluster: LoneCluster) -> None:
    with linked(lone_cluster.url) as link:
        assert link.run([echo(str(number), number) for number in range(64)]) == [b"%d" % n for n in range(64)]
        assert list(link.ask_all("PING").values()) == [b"PONG"]


def test_a_server_that_is_no_cluster_is_told(redis_server: RedisServer) -> None:
    with linked(f"redis+cluster://127.0.0.1:{redis_server.port}") as link:
        answers = link.run([echo("a")]) + link.run([echo("a"), echo("b")]) + list(link.ask_all("PING").values())

    for answer in answers:
        assert isinstance(answer, ConfigError)
        assert "redis:// for a single server" in str(answer)
