"""The conformance suite for channels.

    class TestMyChannel(ChannelConformance):
        supports = {Failure.LOST, Failure.BUSY}

        @pytest.fixture
        def channel(self) -> Channel: ...

        @pytest.fixture
        def failing(self) -> Failing: ...

It needs pytest, and no plugin for asyncio: each test has an event loop of its own.
"""

import asyncio
import logging
import traceback
from collections.abc import Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

import pytest

from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.core.verdicts import DeliveryFailed, Unavailable

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a busy receiver asks for
BOUND = 20.0  # seconds within which a delivery has to end in these tests, whatever happens
HUGE_CHARACTERS = 10_000_000
HUGE_LINES = 2_000


class Failure(StrEnum):
    """A way in which the far side can fail."""

    UNREACHABLE = "unreachable"  # it can't be connected to
    SILENT = "silent"  # it accepts the connection, and is silent before the message could be sent
    REFUSED_LOGIN = "refused login"  # it refuses the user, the password or the token
    TROUBLE = "trouble"  # it says that it can't serve anyone now
    LOST = "lost"  # it was sent the message, and the connection broke before its answer
    TIMED_OUT = "timed out"  # it was sent the message, and does not answer
    GATEWAY = "gateway"  # a server in between says that it got no answer
    BUSY = "busy"  # it asks to wait for PATIENCE
    GREYLISTED = "greylisted"  # it asks to wait, and does not say how long
    REFUSED = "refused"  # it refuses this message
    GONE = "gone"  # it says that the recipient does not exist any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the exception of a channel has to say."""

    unavailable: bool = False  # it is an Unavailable: nothing would get through
    unknown: bool = False
    throttled: bool = False
    retry: bool = True
    after: float | None = None

    @classmethod
    def of(cls, failed: DeliveryFailed) -> "Expected":
        """What an exception says."""
        return cls(
            unavailable=isinstance(failed, Unavailable),
            unknown=failed.unknown,
            throttled=failed.throttled,
            retry=failed.retry,
            after=failed.after,
        )


UNAVAILABLE = Expected(unavailable=True)
UNKNOWN = Expected(unknown=True)
COUNTED = Expected()
FINAL = Expected(retry=False)

FAILURES = {
    Failure.UNREACHABLE: UNAVAILABLE,
    Failure.SILENT: UNAVAILABLE,
    Failure.REFUSED_LOGIN: UNAVAILABLE,
    Failure.TROUBLE: UNAVAILABLE,
    Failure.LOST: UNKNOWN,
    Failure.TIMED_OUT: UNKNOWN,
    Failure.GATEWAY: UNKNOWN,
    Failure.BUSY: Expected(throttled=True, after=PATIENCE),
    Failure.GREYLISTED: Expected(throttled=True),
    Failure.REFUSED: COUNTED,
    Failure.GONE: FINAL,
}
"""What each failure means, by two questions.

May the message have gone out? Then the outcome is unknown, and the digest comes again as it is. Whose fault is it? If
no message would get through, the channel is unavailable, and no attempt is counted. A receiver that asks to wait is
throttling, which is not counted either. What it refuses is counted, or final if it can never succeed.
"""

TEXT_PARTS = ("key", "timeline", "recipient", "subject", "text", "html", "markdown")
HOSTILE_TEXTS = {
    "control characters": "a\x00b\x07c\x1b[2Jd\x7f\x9b",
    "line breaks": "one\r\nBcc: eve@example.org\r\n\r\ntwo\nthree\rfour\u2028five\x85",
    "an encoded word": "=?utf-8?q?=0D=0ABcc:_eve=40example.org?=",
    "bidi marks": "\u202egnp.exe\u2066\u2069\u200f",
    "markup": "<script>alert(1)</script> <!channel> [x](javascript:1) {{ 7 * 7 }} & </div>",
    "half a character": "\ud800",
    "nothing": "",
    "blanks": " \t ",
    "very long": "x" * 100_000,
}


class Failing(Protocol):
    """A context manager: inside of its block the far side fails in this way."""

    def __call__(self, failure: Failure, /) -> AbstractContextManager[object]: ...


class Run(Protocol):
    """Runs a coroutine on the loop of the test; fails if it takes longer than BOUND."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


class ChannelConformance:
    """Every fact that a channel has to show. Subclass it with a fixture `channel`."""

    supports: ClassVar[Collection[Failure]] = frozenset()  # the failures that `failing` can cause

    @pytest.fixture
    def channel(self) -> Channel:
        raise NotImplementedError("the suite needs a fixture `channel` that gives a Channel which delivers")

    @pytest.fixture
    def failing(self) -> Failing:
        """Optional: lets the far side fail in the ways that `supports` names."""
        assert not self.supports, "the failures in `supports` need a fixture `failing`"
        return lambda failure: nullcontext()

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        """Optional: texts that the channel was given, and that must not be shown."""
        return ()

    @pytest.fixture
    def message(self) -> Message:
        """Optional: a message that the channel takes."""
        return a_message()

    @pytest.fixture
    def run(self, channel: Channel) -> Iterator[Run]:
        with asyncio.Runner() as runner:

            def run(coroutine: Coroutine[Any, Any, T]) -> T:
                return runner.run(asyncio.wait_for(coroutine, BOUND))

            yield run
            run(channel.close())

    def test_it_says_what_it_is_and_what_it_wants(self, channel: Channel) -> None:
        assert channel.scheme
        assert channel.formats <= set(Format)
        assert channel.redelivery in ("merge", "same")

    def test_its_name_is_a_line_that_stays_the_same(self, channel: Channel, message: Message, run: Run) -> None:
        name = channel.name
        run(channel.deliver(message))

        assert channel.name == name
        assert not name or (name.isprintable() and name == name.strip())

    def test_a_delivered_message_gives_a_receipt_of_this_channel(
        self, channel: Channel, message: Message, run: Run
    ) -> None:
        receipt = run(channel.deliver(message))

        assert isinstance(receipt, Receipt)
        assert receipt.channel == channel.scheme

    def test_the_same_message_may_come_again(self, channel: Channel, message: Message, run: Run) -> None:
        run(channel.deliver(message))

        assert run(channel.deliver(replace(message, attempt=2))).channel == channel.scheme

    def test_many_are_delivered_at_once(self, channel: Channel, message: Message, run: Run) -> None:
        async def deliver_all() -> list[Receipt]:
            return await asyncio.gather(*(channel.deliver(replace(message, key=f"d.{n}")) for n in range(20)))

        assert [receipt.channel for receipt in run(deliver_all())] == [channel.scheme] * 20

    def test_a_failure_says_whose_fault_it_is_and_whether_the_message_may_have_gone_out(
        self, channel: Channel, message: Message, run: Run, failing: Failing
    ) -> None:
        said: dict[Failure, Expected] = {}
        for failure in self.supports:
            with failing(failure):
                failed = failure_of(run, channel, message)
            said[failure] = Expected.of(failed)

        assert said == {failure: FAILURES[failure] for failure in self.supports}

    def test_after_a_failure_it_delivers_again(
        self, channel: Channel, message: Message, run: Run, failing: Failing
    ) -> None:
        for failure in self.supports:
            with failing(failure):
                failure_of(run, channel, message)

            assert run(channel.deliver(message)).channel == channel.scheme, failure

    def test_nothing_shows_its_secrets(
        self,
        channel: Channel,
        message: Message,
        secrets: Sequence[str],
        run: Run,
        failing: Failing,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        shown = [channel.name, repr(channel), str(channel), f"{channel}", repr(run(channel.deliver(message)))]
        for failure in self.supports:
            with failing(failure):
                shown += texts_of(failure_of(run, channel, message))
        shown += [caplog.text, *(repr(record.__dict__) for record in caplog.records)]

        assert all(secrets)
        assert not [text for text in shown for secret in secrets if secret in text]

    def test_a_huge_message_is_delivered_or_refused_in_good_time(
        self, channel: Channel, message: Message, run: Run
    ) -> None:
        assert_taken_or_refused(run, channel, huge(message))

    @pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
    def test_hostile_contents_are_delivered_or_refused(
        self, channel: Channel, message: Message, run: Run, text: str
    ) -> None:
        for part in TEXT_PARTS:
            hostile: dict[str, Any] = {part: text}
            assert_taken_or_refused(run, channel, replace(message, **hostile))

        assert run(channel.deliver(message)).channel == channel.scheme

    def test_after_closing_it_may_be_used_again(self, channel: Channel, message: Message, run: Run) -> None:
        run(channel.close())
        run(channel.deliver(message))
        run(channel.close())
        run(channel.close())

        assert run(channel.deliver(message)).channel == channel.scheme

    @pytest.mark.parametrize("turns", [0, 1, 2, 5, 20])
    def test_a_cancelled_delivery_leaves_it_usable(
        self, channel: Channel, message: Message, run: Run, turns: int
    ) -> None:
        async def cancel() -> asyncio.Task[Receipt]:
            delivery = asyncio.create_task(channel.deliver(message))
            await turns_of_the_loop(turns)
            delivery.cancel()
            await asyncio.wait([delivery])
            return delivery

        delivery = run(cancel())

        assert delivery.cancelled() or delivery.result().channel == channel.scheme
        assert run(channel.deliver(message)).channel == channel.scheme


def a_message(**changes: Any) -> Message:
    """A small message with something in every format."""
    message = Message(
        key="0123456789abcdef0123.1",
        timeline="mail:ada",
        recipient="ada@example.org",
        subject="Build 7 failed, and 1 more",
        text="Build 7 failed\nBuild 8 failed\n",
        html="<p>Build 7 failed<br>Build 8 failed</p>",
        markdown="**Build 7** failed\n\n**Build 8** failed\n",
        blocks=({"type": "section", "text": {"type": "mrkdwn", "text": "*Build 7* failed"}},),
        data={"count": 2, "groups": [{"label": "builds", "count": 2}]},
        links={"open": "https://app.example/digests", "unsubscribe": "https://app.example/u/ada"},
        timestamp=1_700_000_000.0,
    )
    return replace(message, **changes)


def huge(message: Message) -> Message:
    """The same with 10 MB of text in 2,000 lines, in every format."""
    line = "x" * (HUGE_CHARACTERS // HUGE_LINES - 1)
    section = {"type": "section", "text": {"type": "mrkdwn", "text": line}}
    text = f"{line}\n" * HUGE_LINES
    return replace(
        message,
        text=text,
        html=f"<pre>{text}</pre>",
        markdown=text,
        blocks=(section,) * HUGE_LINES,
        data={"count": HUGE_LINES, "subjects": [{"label": line, "count": 1}] * HUGE_LINES},
    )


def failure_of(run: Run, channel: Channel, message: Message) -> DeliveryFailed:
    """The failure of a delivery that has to fail."""
    run(turns_of_the_loop(20))  # in which the channel notices that kept connections have ended
    with pytest.raises(DeliveryFailed) as failed:
        run(channel.deliver(message))
    return failed.value


async def turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def assert_taken_or_refused(run: Run, channel: Channel, message: Message) -> None:
    """Fail unless the channel gives a receipt, or refuses this message."""
    refused: DeliveryFailed | None = None
    try:
        receipt = run(channel.deliver(message))
    except DeliveryFailed as failed:
        refused = failed
    assert (receipt.channel == channel.scheme) if refused is None else Expected.of(refused) in (COUNTED, FINAL), refused


def texts_of(error: BaseException) -> list[str]:
    """All texts that a log or a tracker could show of an error, its causes included."""
    behind = [other for other in (error.__cause__, error.__context__) if other is not None]
    own = [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    return own + [text for other in behind for text in texts_of(other)]


__all__ = [
    "PATIENCE",
    "ChannelConformance",
    "Failing",
    "Failure",
    "Run",
    "a_message",
    "huge",
]
