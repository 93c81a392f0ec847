"""What the tests of the origin's last commit show, in sentences of our own, on a real Valkey."""

from collections.abc import Iterator

import pytest

from digestif import Digests, InvalidState, Policy, Record
from digestif.testing.conformance.actions import keys, scheduled
from digestif.testing.servers import RedisServer
from tests.servers import empty_server

T = 1_500_000_000.0
POLICY = Policy(minimum_delay=60, capacity=10)


@pytest.fixture
def server() -> RedisServer:
    return empty_server()


@pytest.fixture
def digests(server: RedisServer) -> Iterator[Digests]:
    with Digests(server.url, policy=POLICY) as engine:
        yield engine


def records(numbers: range) -> list[Record]:
    return [Record(f"r{number}", {"number": number}, T + number) for number in numbers]


def add(digests: Digests, numbers: range, *, now: float = T) -> list[bool]:
    return [digests.add("t", record, now=now) for record in records(numbers)]


def test_a_timeline_is_delivered_cools_down_and_is_forgotten(digests: Digests, server: RedisServer) -> None:
    """Facts 1, 2, 16, 17, 18."""
    answers = add(digests, range(3))
    with digests.digest("t", now=T + 1) as first:
        assert list(first) == records(range(3))[::-1]

    assert answers == [True, False, False]
    assert scheduled(digests, T + 60) == []
    assert scheduled(digests, T + 61) == ["t"]
    with digests.digest("t", now=T + 61) as second:
        assert list(second) == []
    assert digests.timeline("t").state == "idle"
    assert server.cli("EXISTS", "{d:0}:t:t", "{d:0}:o:t") == 0


def test_a_timeline_never_holds_more_than_its_capacity(digests: Digests, server: RedisServer) -> None:
    """Facts 8, 9."""
    add(digests, range(20))

    assert server.cli("HLEN", "{d:0}:t:t") == 11  # ten records and the timeline itself
    with digests.digest("t", now=T) as digest:
        assert (keys(digest), digest.dropped) == ([f"r{number}" for number in range(19, 9, -1)], 10)


def test_a_digest_that_failed_comes_again_with_what_was_added_since(digests: Digests) -> None:
    """Facts 25, 26, 27."""
    add(digests, range(3))
    with pytest.raises(ZeroDivisionError), digests.digest("t", now=T):
        _ = 1 / 0
    add(digests, range(3, 6), now=T + 1)
    digests.maintenance(T + 2, now=T + 2)
    with pytest.raises(InvalidState), digests.digest("t", now=T + 2):
        pass

    assert scheduled(digests, T + 3) == ["t"]
    with digests.digest("t", now=T + 3) as digest:
        assert keys(digest) == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert digests.ledger().delivered == 6


@pytest.mark.parametrize("opened", [False, True])
def test_a_deleted_timeline_leaves_no_key_behind(digests: Digests, server: RedisServer, opened: bool) -> None:
    """Fact 29."""
    add(digests, range(3))
    if opened:
        with pytest.raises(ZeroDivisionError), digests.digest("t", now=T):
            _ = 1 / 0
        add(digests, range(3, 6))

    digests.delete("t", now=T)

    with pytest.raises(InvalidState), digests.digest("t", now=T):
        pass
    assert [key for key in server.cli("KEYS", "*") if key.endswith(":t")] == []
    assert scheduled(digests, T + 1e6) == []


@pytest.mark.parametrize(
    ("many", "damage", "dead", "lost"),
    [
        (2, ("HDEL", "r1"), 0, 1),  # nothing is left of it
        (2, ("HSET", "r1", ""), 1, 0),
        (300, ("HDEL", "r1"), 1, 0),  # the order by age still has its key
        (300, ("HSET", "r1", ""), 1, 0),
    ],
)
def test_a_record_whose_content_is_missing_is_counted_and_the_others_are_delivered(
    server: RedisServer, many: int, damage: tuple[str, ...], dead: int, lost: int
) -> None:
    """Fact 24."""
    command, *rest = damage
    with Digests(server.url, policy=Policy(minimum_delay=60)) as digests:
        add(digests, range(many))
        server.cli(command, "{d:0}:t:t", *rest)

        with digests.digest("t", now=T) as digest:
            assert keys(digest) == [f"r{number}" for number in range(many - 1, -1, -1) if number != 1]

        ledger = digests.ledger()
        assert (ledger.accepted, ledger.delivered, ledger.dead, ledger.lost) == (many, many - 1, dead, lost)
        assert [digests.dead_records(letter.id) for letter in digests.dead_letters()] == [[]] * dead
        assert digests.verify()
