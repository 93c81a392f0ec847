"""A link to a server that a sentinel watches, and to its successor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.sentinel import Sentinel

from digestif.errors import ConfigError, StoreUnavailable
from digestif.stores.redis.client.factory import link_over
from digestif.stores.redis.client.options import Options
from digestif.testing.servers import RedisServer, becomes_true, free_port
from tests.stores.redis.links import echo, get, increment, key, linked, put
from tests.stores.redis.sentinels import Watched, ask_before_each_call, watching

pytestmark = pytest.mark.long


def test_the_primary_is_found(watched: Watched) -> None:
    with linked(watched.url) as link:
        assert link.run([put("k", "v"), get("k")]) == [b"OK", b"v"]
        assert link.ask_all("PING") == {f"main at 127.0.0.1:{watched.primary.port}": b"PONG"}
    assert watched.primary.cli("DBSIZE") == 1


def test_closing_leaves_no_connection_to_a_sentinel_behind(watched: Watched) -> None:
    def clients() -> set[str]:
        """Without those that ask for this list."""
        lines = watched.sentinel.cli("CLIENT", "LIST").splitlines()
        return {line.split()[0] for line in lines if " cmd=client" not in line}

    before = clients()
    with linked(watched.url) as link:
        link.run([echo("a")])
        own = clients() - before
        assert own

    assert becomes_true(lambda: not own & clients())  # the server notices it soon, not at once


def test_sentinels_that_are_down_do_not_matter_as_long_as_one_answers(watched: Watched) -> None:
    with linked(watched.url.replace("://", f"://127.0.0.1:{free_port()},")) as link:
        assert link.run([echo("a")]) == [b"a"]


def test_a_primary_that_dies_is_followed_by_its_replica(watched: Watched) -> None:
    with linked(watched.url, replicas=1, replica_timeout=4) as link:
        assert link.run([put("k", "v")]) == [b"OK"]
    with linked(watched.url, patience=30) as link:
        link.run([echo("warm")])
        watched.primary.kill()

        assert link.run([increment(), get("k")]) == [1, b"v"]
        assert list(link.ask_all("PING")) == [f"main at 127.0.0.1:{watched.replica.port}"]


def test_a_primary_that_hangs_is_followed_by_its_replica_and_not_listened_to_later(watched: Watched) -> None:
    with linked(watched.url, patience=30, timeout=0.5) as link:
        link.run([echo("warm")])
        watched.primary.freeze()
        assert link.run([increment()]) == [1]
        watched.primary.thaw()

        assert [link.run([increment()])[0] for _ in range(100)] == list(range(2, 102))
        assert watched.replica.cli("ROLE")[0] == "master"


def test_a_primary_that_was_replaced_on_request_is_left_before_it_knows(watched: Watched) -> None:
    with linked(watched.url, replicas=1, replica_timeout=4) as link:
        assert link.run([increment()]) == [1]
    with linked(watched.url) as link:
        ask_before_each_call(link)
        link.run([echo("warm")])
        watched.sentinel.cli("SENTINEL", "FAILOVER", "main")
        assert becomes_true(lambda: watched.named() == watched.replica.port)

        assert watched.primary.cli("ROLE")[0] == "master"  # and would accept what is soon forgotten
        assert link.run([increment()]) == [2]
        assert link.run([increment(), increment()]) == [3, 4]
        assert watched.replica.cli("GET", key("counter")) == "4"
        assert list(link.ask_all("PING")) == [f"main at 127.0.0.1:{watched.replica.port}"]


def test_sentinels_that_die_later_do_not_matter(watched: Watched) -> None:
    with linked(watched.url) as link:
        ask_before_each_call(link)
        link.run([echo("a")])
        watched.sentinel.kill()

        assert [link.run([increment()])[0] for _ in range(20)] == list(range(1, 21))


def test_late_replies_are_not_taken_for_those_of_later_calls(watched: Watched) -> None:
    """redis-py does not drop a connection to a sentinel's primary whose reply is overdue."""
    with linked(watched.url, timeout=0.1) as link:
        link.run([echo("warm")])
        for calls in ([increment()], [increment(), increment()]):
            watched.primary.cli("CLIENT", "PAUSE", 150, "WRITE")  # over at the second try
            link.run(calls)
            for number in range(20):
                assert link.run([echo(str(number))]) == [str(number).encode()]


def test_a_service_that_nobody_knows_is_told(watched: Watched) -> None:
    with linked(watched.url.replace("/main", "/other"), patience=0.2) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, StoreUnavailable)
    assert "no sentinel that answers knows a primary of 'other'" in str(answer)


def test_sentinels_of_ones_own_serve_for_the_primary_only(watched: Watched) -> None:
    sentinel: Any = Sentinel([("127.0.0.1", watched.sentinel.port)])  # type: ignore[no-untyped-call]
    with sentinel.master_for("main") as primary, sentinel.slave_for("main") as replicas:
        link = link_over(primary, namespace="d")

        assert link.run([put("k", "v"), get("k")]) == [b"OK", b"v"]
        with pytest.raises(ConfigError, match="reads from replicas"):
            link_over(replicas, namespace="d")

        link.close()
        assert primary.ping()
    for each in sentinel.sentinels:
        each.close()


# Sentinels with a password of their own


PASSWORD = "s3cret/@:?word"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The DSN of a server with a password whose sentinel has another password."""
    with (
        RedisServer(requirepass="the-servers") as primary,
        watching(primary, tmp_path, **{"sentinel auth-pass main": "the-servers", "requirepass": PASSWORD}) as sentinel,
    ):
        yield f"redis+sentinel://:the-servers@127.0.0.1:{sentinel.port}/main"


def test_sentinels_with_a_password_are_asked_with_it(guarded: str) -> None:
    with linked(guarded, sentinel_password=PASSWORD) as link:
        assert link.run([put("k", "v"), get("k")]) == [b"OK", b"v"]
    with linked(guarded, sentinel_user="default", sentinel_password=PASSWORD) as link:
        assert link.run([get("k")]) == [b"v"]


@pytest.mark.parametrize("options", [{}, {"sentinel_password": "wrong"}, {"sentinel_user": "ada"}])
def test_a_wrong_password_of_the_sentinels_is_told_at_once_and_without_it(
    guarded: str, options: dict[str, Any]
) -> None:
    with linked(guarded, **options) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)
    assert "the sentinels refuse the login" in str(answer)
    assert "sentinel_password" in str(answer)
    for secret in ("wrong", "the-servers", PASSWORD):
        assert secret not in str(answer)


def test_a_login_of_sentinels_is_for_sentinels_and_is_not_shown() -> None:
    with (
        pytest.raises(ConfigError, match=r"sentinel_password: only for sentinels"),
        linked("redis://h", sentinel_password="hidden"),
    ):
        pass

    assert "hidden" not in repr(Options.of({"sentinel_password": "hidden"}, tls=False, sentinels=True))
