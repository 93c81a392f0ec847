"""Handlers: which function delivers which timelines, and what can't be registered."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from digestif import ConfigError, Digest, Digests, Worker
from digestif.attempts.handlers import Handlers, Kind
from tests.worker.workers import once, rounds


def nothing(_: object) -> None:
    """A handler."""


async def nothing_async(_: object) -> None:
    """A handler, awaited."""


class Called:
    """An object as a handler."""

    async def __call__(self, _: object) -> None:
        """It is awaited too."""


@pytest.mark.parametrize(
    ("timeline", "winner"),
    [
        ("mail:ada", "mail:*"),
        ("mail:ada:urgent", "mail:*:urgent"),
        ("mail:team:ada", "mail:team:*"),
        ("mail:team:urgent", "mail:*:urgent"),
        ("mail:", "mail:*"),
        ("chat", "*"),
        ("chat\nwith a new line", "*"),
        ("exactly", "exactly"),
        ("a.b", "a.b"),
        ("axb", "*"),
    ],
)
def test_of_several_patterns_the_one_with_the_longest_literal_part_wins(timeline: str, winner: str) -> None:
    handlers = Handlers()
    for pattern in ("*", "mail:*", "mail:*:urgent", "mail:team:*", "exactly", "a.b"):
        handlers.register(pattern, nothing)

    found = handlers.find(timeline)

    assert found is not None
    assert found.pattern == winner


def test_of_patterns_with_equal_literal_parts_the_first_one_wins() -> None:
    handlers = Handlers()
    first = handlers.register("a*b", nothing)
    handlers.register("*ab", nothing)

    assert handlers.find("ab") is handlers.find("a:ab") is first


def test_a_handler_that_comes_later_is_found_for_timelines_that_had_none() -> None:
    handlers = Handlers()
    assert handlers.find("t") is None

    late = handlers.register("t", nothing)

    assert handlers.find("t") is late


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (nothing, Kind.FUNCTION),
        (nothing_async, Kind.COROUTINE),
        (functools.partial(nothing_async), Kind.COROUTINE),
        (Called(), Kind.COROUTINE),
        (Called().__call__, Kind.COROUTINE),
        (lambda _: None, Kind.FUNCTION),
    ],
)
def test_a_coroutine_is_known_by_its_looks(call: Callable[[Any], Any], kind: Kind) -> None:
    assert Handlers().register("*", call).kind is kind


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"pattern": ""}, "pattern: '' is not the name of a timeline"),
        ({"pattern": 7}, "pattern: 7"),
        ({"pattern": None}, "pattern: None"),
        ({"call": "mail"}, "handler: 'mail' is not a function"),
        ({"batch": 0}, "batch: 0 is not a whole number ≥ 1"),
        ({"batch": True}, "batch: True"),
        ({"batch": 2.0}, "batch: 2.0"),
        ({"pattern": "known"}, "'known' has a handler already"),
    ],
)
def test_a_handler_that_makes_no_sense_is_refused_with_a_reason(arguments: dict[str, Any], complaint: str) -> None:
    handlers = Handlers()
    handlers.register("known", nothing)

    with pytest.raises(ConfigError, match=complaint):
        handlers.register(**{"pattern": "t", "call": nothing, **arguments})

    assert len(list(handlers)) == 1


def test_the_decorator_gives_the_function_back() -> None:
    assert Digests("memory://").handler("t")(nothing) is nothing


def test_a_worker_without_handlers_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"register one with @digests\.handler"):
        once(Digests("memory://"))


def test_delivering_a_timeline_without_a_handler_says_what_to_do() -> None:
    digests = Digests("memory://")

    for call in (digests.deliver, functools.partial(digests.notify, value=1)):
        with pytest.raises(ConfigError, match="'t' has no handler"):
            call("t")

    assert digests.ledger().accepted == 0


def test_a_coroutine_can_not_be_called_by_a_function_that_blocks() -> None:
    digests = Digests("memory://")
    digests.handler("t")(nothing_async)
    digests.add("t", 1)

    with pytest.raises(ConfigError, match="is a coroutine"):
        digests.deliver("t")

    assert digests.timeline("t").state == "ready"


def test_a_function_that_returns_a_coroutine_is_not_taken_for_done() -> None:
    """Only a worker, or AsyncDigests, can await it: nothing may count as delivered that did not run."""
    digests = Digests("memory://")
    ran: list[Digest] = []

    async def send(digest: Digest) -> None:
        ran.append(digest)

    digests.handler("t")(lambda digest: send(digest))
    digests.add("t", 1)

    assert digests.deliver("t") is False
    assert digests.ledger().delivered == 0
    digests.flush("t")
    assert rounds(digests) == 1
    assert (len(ran), digests.ledger().delivered) == (1, 1)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"threads": -1}, "threads"),
        ({"threads": True}, "threads"),
        ({"poll": 0}, "poll"),
        ({"poll": float("nan")}, "poll"),
        ({"grace": -1}, "grace"),
        ({"grace": "long"}, "grace"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: "):
        Worker(Digests("memory://"), **options)


def test_a_handler_with_a_yield_in_it_is_refused() -> None:
    digests = Digests("memory://")

    def stray(digest: Digest) -> Iterator[None]:
        yield

    async def stray_too(digest: Digest) -> AsyncIterator[None]:
        yield

    for handler in (stray, stray_too):
        with pytest.raises(ConfigError, match="yield"):
            digests.handler("*")(handler)
