"""What connections share: who gets a place when all are taken, and whose body makes room."""

import pytest

from digestif.service.shares import FOUND_TOGETHER, LOOKED_AGAIN, SLOW_AFTER, Bodies, Places, network_of


class Peer:
    """A connection from an address that waits for its client since some time, or works for it."""

    def __init__(self, address: str, since: float | None = 0.0) -> None:
        self.address, self.since, self.is_gone = address, since, False

    def waits_since(self) -> float | None:
        return self.since

    def give_up(self) -> None:
        self.is_gone = True


def filled(*peers: Peer) -> Places:
    places = Places(len(peers))
    assert all(places.enter(peer, now=0) for peer in peers)
    return places


def test_one_address_may_take_all_places_while_no_other_comes() -> None:
    filled(*[Peer("proxy") for _ in range(10)])


def test_a_newcomer_takes_the_place_that_was_idle_longest_at_the_address_with_most() -> None:
    few, others = Peer("few", since=1), [Peer("many", since=since) for since in (7, 5, 6)]
    places = filled(few, *others)

    assert places.enter(Peer("new"), now=10)
    assert [peer.is_gone for peer in (few, *others)] == [False, False, True, False]


def test_a_newcomer_from_the_address_with_most_takes_a_place_of_its_own_address() -> None:
    few, others = Peer("few", since=1), [Peer("many", since=since) for since in (7, 5, 6)]
    places = filled(few, *others)

    assert places.enter(Peer("many", since=10), now=10)
    assert [peer.is_gone for peer in (few, *others)] == [False, False, True, False]


def test_an_address_gets_no_place_at_the_cost_of_one_that_has_fewer() -> None:
    few, busy = Peer("few"), [Peer("many", since=None) for _ in range(3)]
    places = filled(few, *busy)

    assert not places.enter(Peer("many"), now=10)
    assert not few.is_gone


def test_a_connection_that_is_at_work_keeps_its_place() -> None:
    peers = [Peer("a", since=None), Peer("a", since=None), Peer("b", since=9)]
    places = filled(*peers)

    assert places.enter(Peer("c", since=None), now=10)
    assert [peer.is_gone for peer in peers] == [False, False, True]
    assert not places.enter(Peer("d"), now=10)


def test_a_place_that_is_left_is_free() -> None:
    peers = [Peer("a", since=None), Peer("a", since=None)]
    places = filled(*peers)
    places.leave(peers[0])
    places.leave(peers[0])

    assert places.enter(Peer("b", since=None), now=0)
    assert not places.enter(Peer("b", since=None), now=0)


def test_a_flood_of_newcomers_replaces_them_one_by_one() -> None:
    peers = [Peer("a", since=float(number)) for number in range(3 * FOUND_TOGETHER)]
    places = filled(*peers)
    peers[5].since = None  # it got a request

    assert all(places.enter(Peer("a", since=1000.0), now=0) for _ in range(2 * FOUND_TOGETHER))
    assert [peer.is_gone for peer in peers[: 2 * FOUND_TOGETHER + 1]] == [
        number != 5 for number in range(2 * FOUND_TOGETHER + 1)
    ]


def test_one_that_becomes_idle_is_found_after_a_moment() -> None:
    busy = Peer("a", since=None)
    places = filled(busy)
    assert not places.enter(Peer("b"), now=0)
    busy.since = 0.01

    assert places.enter(Peer("b"), now=LOOKED_AGAIN)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


class Body:
    """A body that arrives."""

    def __init__(self, address: str = "one") -> None:
        self.address, self.more_body, self.held, self.is_gone = address, True, 0, False

    def give_up_body(self) -> None:
        self.is_gone = True


def test_a_body_for_which_there_is_no_memory_is_refused_until_some_is_freed() -> None:
    bodies, first, second = Bodies(100), Body(), Body()

    assert bodies.take(first, 60, now=0)
    assert not bodies.take(second, 60, now=0)
    bodies.free(first)
    assert bodies.take(second, 60, now=0)
    assert (first.held, second.held) == (0, 60)


def test_the_body_that_has_been_arriving_for_longest_makes_room() -> None:
    bodies, whole, slow, slower = Bodies(90), Body(), Body(), Body()
    for number, each in enumerate((whole, slower, slow)):
        assert bodies.take(each, 30, now=number / 10)
    whole.more_body = False

    assert bodies.take(Body(), 30, now=SLOW_AFTER + 0.1)
    assert [each.is_gone for each in (whole, slower, slow)] == [False, True, False]
    assert not bodies.take(Body(), 30, now=SLOW_AFTER + 0.1)  # the next one has come a moment ago


def test_a_slow_body_does_not_push_out_faster_ones() -> None:
    bodies, slow, fast = Bodies(90), Body(), Body()
    assert bodies.take(slow, 30, now=0)
    assert bodies.take(fast, 60, now=1)

    assert not bodies.take(slow, 30, now=60)
    assert not fast.is_gone


def test_a_body_from_the_address_that_holds_most_makes_room_however_young_it_is() -> None:
    bodies, few, many = Bodies(100), Body("few"), [Body("many") for _ in range(3)]
    assert bodies.take(few, 20, now=0)
    assert all(bodies.take(each, 25, now=0.5) for each in many)
    many[0].more_body = False

    assert bodies.take(Body("new"), 20, now=0.5)
    assert [each.is_gone for each in (few, *many)] == [False, False, True, False]


def test_an_address_gets_no_memory_at_the_cost_of_one_that_holds_less() -> None:
    bodies, few, many = Bodies(100), Body("few"), Body("many")
    assert bodies.take(few, 40, now=0)
    assert bodies.take(many, 60, now=0)

    assert not bodies.take(Body("many"), 10, now=0)
    assert not bodies.take(Body("new"), 60, now=0)  # it would hold as much as any other
    assert not few.is_gone
    assert not many.is_gone
