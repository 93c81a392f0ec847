"""Errors that mean something else to generators, of which attempts are made: the caller sees them as they are."""

import asyncio
import gc
import threading
from collections.abc import Callable, Generator
from contextlib import nullcontext

import pytest

from digestif import AsyncDigests, Claimed, Digest, Digests, Ended, Event, Failed, Returned, State
from digestif.attempts.leases import HeldLease, running
from digestif.stores.memory import MemoryStore

ODD: list[BaseException] = [GeneratorExit("odd"), StopIteration("odd"), StopAsyncIteration("odd")]


def raising(error: BaseException) -> Callable[[object], None]:
    def handle(_: object) -> None:
        raise error

    return handle


def lives(told: list[Event]) -> list[str]:
    """Return the beginnings and ends of attempts."""
    return [type(event).__name__ for event in told if isinstance(event, Claimed | Ended)]


@pytest.mark.parametrize("error", [GeneratorExit("odd"), KeyboardInterrupt("odd")], ids=repr)
@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_digest_whose_handler_raises_what_closes_generators_ends_in_the_store(
    error: BaseException, *, at_most_once: bool
) -> None:
    told: list[Event] = []
    with Digests("memory://") as digests:
        digests.subscribe(told.append)
        digests.handler("t", at_most_once=at_most_once)(raising(error))
        digests.add("t", 1)

        with pytest.raises(type(error)) as raised:
            digests.deliver("t")

        assert raised.value is error
        assert [type(event) for event in told if isinstance(event, Ended)] == [Failed if at_most_once else Returned]
        assert digests.store.inspect("t").state is not State.OPEN
        assert digests.verify()


@pytest.mark.parametrize("error", ODD, ids=repr)
def test_what_the_handler_of_a_record_that_is_not_stored_raises_is_raised(error: BaseException) -> None:
    told: list[Event] = []
    with Digests("off://") as digests:
        digests.subscribe(told.append)
        digests.handler("t")(raising(error))

        with pytest.raises(type(error)) as raised:
            digests.notify("t", 1)

    assert raised.value is error
    assert [event.error for event in told if isinstance(event, Failed)] == [error]


@pytest.mark.parametrize("error", ODD, ids=repr)
def test_what_a_dispatch_raises_is_raised(error: BaseException) -> None:
    with Digests("memory://") as digests, pytest.raises(type(error)) as raised:
        digests.notify("t", 1, dispatch=raising(error))

    assert raised.value is error


@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_function_that_raises_stop_iteration_is_a_failure_on_an_event_loop_too(*, at_most_once: bool) -> None:
    """Futures of Python 3.11 can't hold a StopIteration: the delivery would never end, nor its lease."""
    told: list[Event] = []

    async def deliver() -> bool:
        async with AsyncDigests("memory://") as digests, asyncio.timeout(30):
            digests.subscribe(told.append)
            digests.handler("t", at_most_once=at_most_once)(raising(StopIteration("odd")))
            await digests.add("t", 1)
            return await digests.deliver("t")

    assert asyncio.run(deliver()) is False
    assert lives(told) == ["Claimed", "Failed"]


def test_a_coroutine_that_raises_generator_exit_has_its_digest_given_back() -> None:
    told: list[Event] = []

    async def deliver(digests: AsyncDigests) -> None:
        async with digests:
            digests.subscribe(told.append)

            @digests.handler("t")
            async def handle(_: Digest) -> None:
                raise GeneratorExit

            await digests.add("t", 1)
            await digests.deliver("t")

    store = MemoryStore()
    with pytest.raises(GeneratorExit):
        asyncio.run(deliver(AsyncDigests(store)))

    assert store.inspect("t").state is State.READY
    assert lives(told) == ["Claimed", "Returned"]


def broken() -> Generator[None]:
    next(iter(()))
    yield


@pytest.mark.parametrize("store", ["off://", "memory://"])
def test_an_error_that_a_handler_s_own_generator_made_of_a_stop_iteration_keeps_its_form(store: str) -> None:
    """Unwrapped, it would end the loop of a caller that is an iterator, silently."""
    told: list[Event] = []
    with Digests(store) as digests:
        digests.subscribe(told.append)
        digests.handler("t")(lambda _: list(broken()))

        with pytest.raises(RuntimeError) if store == "off://" else nullcontext():
            digests.notify("t", 1)

    assert [type(event.error) for event in told if isinstance(event, Failed)] == [RuntimeError]


def test_an_error_that_a_block_s_own_generator_made_of_a_stop_iteration_is_raised_as_it_is() -> None:
    raised: list[BaseException] = []
    with Digests("memory://") as digests:
        digests.add("t", 1)

        with pytest.raises(RuntimeError) as seen, digests.digest("t"):
            try:
                list(broken())
            except RuntimeError as error:
                raised.append(error)
                raise

    assert raised == [seen.value]


def test_a_block_in_garbage_that_refers_to_itself_is_given_back() -> None:
    """The garbage collector clears weak references before it closes what holds the block."""

    class Session:
        def __init__(self, digests: Digests) -> None:
            self.itself = self
            self.block = digests.digest("t")
            self.block.__enter__()

    told: list[Event] = []
    with Digests("memory://") as digests:
        digests.subscribe(told.append)
        digests.add("t", 1)

        Session(digests)
        gc.collect()

        assert digests.store.inspect("t").state is State.READY
    assert lives(told) == ["Claimed", "Returned"]


def test_an_interrupt_while_an_attempt_begins_leaves_no_attempt_without_an_end() -> None:
    told: list[Event] = []

    def interrupt(event: Event) -> None:
        told.append(event)
        if isinstance(event, Claimed):
            raise KeyboardInterrupt

    with Digests("memory://") as digests:
        digests.subscribe(interrupt)
        digests.handler("t")(lambda _: None)
        digests.add("t", 1)

        with pytest.raises(KeyboardInterrupt):
            digests.deliver("t")
        with pytest.raises(KeyboardInterrupt), digests.digest("t"):
            pass

        assert digests.store.inspect("t").state is State.READY
    assert lives(told) == ["Claimed", "Returned"] * 2


def test_a_block_may_be_left_by_a_finalizer_while_another_attempt_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may close a generator with a block at any allocation, those of the running set included."""

    def left_open(digests: Digests) -> Generator[Digest]:
        with digests.digest("left") as digest:
            yield digest

    told: list[Event] = []
    here = running()
    add = here._held.add

    def deliver() -> None:
        with Digests("memory://") as digests, Digests("memory://") as others:
            others.subscribe(told.append)
            others.add("left", 1)
            block = left_open(others)
            next(block)

            def add_and_collect(held: HeldLease) -> None:
                add(held)
                block.close()

            monkeypatch.setattr(here._held, "add", add_and_collect)
            digests.handler("t")(lambda _: None)
            digests.notify("t", 1)

    thread = threading.Thread(target=deliver, daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert [type(event) for event in told if isinstance(event, Ended)] == [Returned]
