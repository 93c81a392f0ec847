"""Records that are never stored: each is an attempt all the same, which tells how it ended."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from digestif import AsyncDigests, ConfigError, Delivered, Digest, Digests, Discard, Discarded, Ended, Event, Failed
from digestif.attempts.steps import Deliver, NotBegun, advance
from digestif.deliveries import Deliveries

Notify = Callable[[Callable[[Digest], object]], tuple[object, list[Ended]]]


def in_sync_mode(handler: Callable[[Digest], object]) -> tuple[object, list[Ended]]:
    told: list[Event] = []
    with Digests("off://") as digests:
        digests.subscribe(told.append)
        digests.handler("t")(handler)
        answer: object
        try:
            answer = digests.notify("t", "news")
        except ValueError as error:
            answer = error
    return answer, [event for event in told if isinstance(event, Ended)]


def in_async_mode(handler: Callable[[Digest], object]) -> tuple[object, list[Ended]]:
    told: list[Event] = []

    async def notify() -> object:
        async with AsyncDigests("off://") as digests:
            digests.subscribe(told.append)
            digests.handler("t")(handler)
            try:
                return await digests.notify("t", "news")
            except ValueError as error:
                return error

    return asyncio.run(notify()), [event for event in told if isinstance(event, Ended)]


modes = pytest.mark.parametrize("notify", [in_sync_mode, in_async_mode])


@modes
def test_a_record_that_is_not_stored_is_told_as_delivered(notify: Notify) -> None:
    answer, [ended] = notify(lambda digest: None)

    assert answer is True
    assert isinstance(ended, Delivered)
    assert (ended.timeline, ended.records, ended.attempt) == ("t", 1, 1)


@modes
def test_what_its_handler_raises_is_raised_and_told_as_never_coming_again(notify: Notify) -> None:
    boom = ValueError("bang")

    def fail(digest: Digest) -> None:
        raise boom

    answer, [ended] = notify(fail)

    assert answer is boom
    assert isinstance(ended, Failed)
    assert (ended.error, ended.retry_in) == (boom, None)


@modes
def test_an_error_that_its_handler_answers_counts_like_one_that_it_raises(notify: Notify) -> None:
    boom = ValueError("bang")

    answer, [ended] = notify(lambda digest: boom)

    assert answer is boom
    assert isinstance(ended, Failed)


@modes
def test_what_its_handler_does_not_want_is_told_as_discarded(notify: Notify) -> None:
    def discard(digest: Digest) -> None:
        raise Discard("old news")

    answer, [ended] = notify(discard)

    assert answer is False
    assert isinstance(ended, Discarded)


def test_a_record_whose_caller_leaves_before_its_handler_is_called_is_told_as_interrupted() -> None:
    told: list[Event] = []
    with Digests("off://") as digests:
        digests.subscribe(told.append)
        digests.handler("t")(print)
        steps = Deliveries(digests.engine, None, blocking=True).notify(
            "t", "news", minimum_delay=None, dispatch=None, record={}
        )
        assert isinstance(advance(steps), Deliver)

        with pytest.raises(NotBegun):
            advance(steps, error=NotBegun())

    [failed] = [event for event in told if isinstance(event, Ended)]
    assert isinstance(failed, Failed)
    assert failed.reason == "interrupted before it was delivered"
    assert failed.error is None
    assert failed.retry_in is None


@pytest.mark.parametrize("name", ["first_delay", "minimum_delay"])
def test_a_delay_that_would_outlive_the_ttl_is_refused_although_nothing_is_stored(name: str) -> None:
    """Fact 76. A program must not fail only once its digests are switched on."""
    sent: list[Digest] = []
    delays: dict[str, Any] = {name: 4 * 86_400}

    async def notify() -> None:
        async with AsyncDigests("off://") as digests:
            digests.handler("t")(sent.append)
            await digests.notify("t", "news", **delays)

    with Digests("off://") as digests:
        digests.handler("t")(sent.append)
        with pytest.raises(ConfigError, match=rf"{name}: .* ttl"):
            digests.notify("t", "news", **delays)
    with pytest.raises(ConfigError, match=rf"{name}: .* ttl"):
        asyncio.run(notify())
    assert sent == []
