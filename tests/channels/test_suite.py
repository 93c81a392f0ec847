"""The channel suite, run on the channels over HTTP and on Apprise; faulty channels fail it."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import ClassVar

import pytest
import trustme

from digestif.channels.apprise_channel import AppriseChannel
from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.channels.slack import SlackChannel
from digestif.channels.webhook import WebhookChannel
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.testing.channels import HOSTILE_TEXTS, PATIENCE, ChannelConformance, Failing, Failure, a_message
from tests.channels.gate import Gate, gate_to
from tests.channels.receiver import Receiver, never_answer, reset, running

pytestmark = pytest.mark.long

SECRETS = ["whsec_" + "QUJD" * 11, "whsec_" + "REVG" * 11]
TOKEN = "XXXXaaaabbbbccccddddeeee"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate authority, and the server's certificate beside it."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return folder / "ca.pem"


@pytest.fixture(scope="module")
def receiver(ca: Path) -> Iterator[Receiver]:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.parent / "server.pem")
    with running(certificate=context) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def plain_receiver() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def gate(receiver: Receiver) -> Iterator[Gate]:
    with gate_to(receiver.port) as gate:
        yield gate


@contextmanager
def misbehaving(receiver: Receiver, failure: Failure, *, echo: str) -> Iterator[None]:
    """Makes the receiver fail, with an answer that repeats secrets."""
    waits = {"Retry_After": f"{PATIENCE:g}"}
    ways: dict[Failure, Callable[[], None]] = {
        Failure.REFUSED_LOGIN: lambda: receiver.answer(401, echo),
        Failure.TROUBLE: lambda: receiver.answer(503, echo),
        Failure.LOST: lambda: receiver.behave(reset),
        Failure.TIMED_OUT: lambda: receiver.behave(never_answer),
        Failure.GATEWAY: lambda: receiver.answer(502, echo),
        Failure.BUSY: lambda: receiver.answer(429, echo, **waits),
        Failure.GREYLISTED: lambda: receiver.answer(429, echo),
        Failure.REFUSED: lambda: receiver.answer(400, echo),
        Failure.GONE: lambda: receiver.answer(410, echo),
    }
    ways[failure]()
    yield
    receiver.behaviour = None


class OverHttp(ChannelConformance):
    supports = frozenset(Failure)

    @pytest.fixture
    def failing(self, receiver: Receiver, gate: Gate, secrets: Sequence[str]) -> Failing:
        def failing(failure: Failure) -> AbstractContextManager[None]:
            if failure is Failure.UNREACHABLE:
                return gate.shut()
            if failure is Failure.SILENT:
                return gate.silent()
            return misbehaving(receiver, failure, echo=f"I know {' and '.join(secrets)}")

        return failing


class TestWebhooks(OverHttp):
    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return [*SECRETS, TOKEN]

    @pytest.fixture
    def channel(self, gate: Gate, ca: Path) -> Channel:
        url = f"https://127.0.0.1:{gate.port}/hooks/{TOKEN}"
        return WebhookChannel(url, secrets=SECRETS, timeout=1.5, allow_private=True, ca=str(ca))


class TestSlack(OverHttp):
    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return [TOKEN, f"/services/T000/B000/{TOKEN}"]

    @pytest.fixture
    def channel(self, gate: Gate, ca: Path) -> Channel:
        url = f"https://127.0.0.1:{gate.port}/services/T000/B000/{TOKEN}"
        return SlackChannel(url, timeout=1.5, allow_private=True, ca=str(ca))


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of what Apprise imports
class TestApprise(ChannelConformance):
    """Apprise says only that it failed, so that nothing else can be told apart."""

    supports = frozenset({Failure.REFUSED, Failure.TIMED_OUT})

    @pytest.fixture
    def failing(self, plain_receiver: Receiver, secrets: Sequence[str]) -> Failing:
        def failing(failure: Failure) -> AbstractContextManager[None]:
            return misbehaving(plain_receiver, failure, echo=f"I know {' and '.join(secrets)}")

        return failing

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return ["correcthorse", TOKEN]

    @pytest.fixture
    def channel(self, plain_receiver: Receiver) -> Channel:
        return AppriseChannel(f"json://ada:correcthorse@127.0.0.1:{plain_receiver.port}/{TOKEN}", timeout=2)


# Faulty channels


class Good(Channel):
    """Delivers everything, unless a test makes it fail. Each subclass has one fault."""

    scheme: ClassVar[str] = "good"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT})
    secret = "hunter2"
    failing: ClassVar[bool] = False

    async def deliver(self, message: Message) -> Receipt:
        if Good.failing:
            raise Unavailable("something is wrong")
        return Receipt(channel=self.scheme)


@contextmanager
def trouble(failure: Failure) -> Iterator[None]:
    Good.failing = True
    try:
        yield
    finally:
        Good.failing = False


class TestAChannelWithoutFaults(ChannelConformance):
    supports = frozenset({Failure.TROUBLE})

    @pytest.fixture
    def channel(self) -> Channel:
        return Good()

    @pytest.fixture
    def failing(self) -> Failing:
        return trouble


class OtherScheme(Good):
    async def deliver(self, message: Message) -> Receipt:
        return Receipt(channel="another")


class GivesUp(Good):
    async def deliver(self, message: Message) -> Receipt:
        raise DeliveryFailed("no", retry=False)


class BlamesTheDigest(Good):
    async def deliver(self, message: Message) -> Receipt:
        raise DeliveryFailed("no")


class IsSure(Good):
    async def deliver(self, message: Message) -> Receipt:
        raise Unavailable("no", unknown=True)


class BlamesItself(Good):
    async def deliver(self, message: Message) -> Receipt:
        if not message.subject.isprintable():
            raise Unavailable("this message is bad")
        return Receipt(channel=self.scheme)


class ShowsItsName(Good):
    @property
    def name(self) -> str:
        return f"good://{self.secret}@host"


class ChangesItsName(Good):
    deliveries = 0

    @property
    def name(self) -> str:
        return f"good {self.deliveries}"

    async def deliver(self, message: Message) -> Receipt:
        self.deliveries += 1
        return await super().deliver(message)


class Tells(Good):
    async def deliver(self, message: Message) -> Receipt:
        return replace(await super().deliver(message), detail=f"as {self.secret}")


class TellsTheLog(Good):
    async def deliver(self, message: Message) -> Receipt:
        logging.getLogger("channel").debug("as %s", self.secret)
        return await super().deliver(message)


class TellsBehindItsFailure(Good):
    async def deliver(self, message: Message) -> Receipt:
        try:
            if Good.failing:
                raise ValueError(self.secret)
        except ValueError:
            raise DeliveryFailed("something is wrong") from None
        return Receipt(channel=self.scheme)


class ShowsItself(Good):
    def __repr__(self) -> str:
        return f"ShowsItself({self.secret})"


class Hangs(Good):
    async def deliver(self, message: Message) -> Receipt:
        if len(message.text) > 1000:
            await asyncio.Event().wait()
        return Receipt(channel=self.scheme)


class Stumbles(Good):
    async def deliver(self, message: Message) -> Receipt:
        message.subject.encode()
        return Receipt(channel=self.scheme)


class StaysClosed(Good):
    closed = False

    async def deliver(self, message: Message) -> Receipt:
        if self.closed:
            raise DeliveryFailed("closed")
        return Receipt(channel=self.scheme)

    async def close(self) -> None:
        self.closed = True


class Breaks(Good):
    broken = False

    async def deliver(self, message: Message) -> Receipt:
        if self.broken:
            raise DeliveryFailed("broken")
        self.broken = True
        await asyncio.sleep(0)
        self.broken = False
        return Receipt(channel=self.scheme)


FAULTS: dict[type[Good], tuple[str, type[Exception]]] = {
    OtherScheme: ("a_delivered_message_gives_a_receipt_of_this_channel", AssertionError),
    GivesUp: ("a_failure_says_whose_fault_it_is_and_whether_the_message_may_have_gone_out", AssertionError),
    BlamesTheDigest: ("a_failure_says_whose_fault_it_is_and_whether_the_message_may_have_gone_out", AssertionError),
    IsSure: ("a_failure_says_whose_fault_it_is_and_whether_the_message_may_have_gone_out", AssertionError),
    BlamesItself: ("hostile_contents_are_delivered_or_refused", AssertionError),
    ShowsItsName: ("nothing_shows_its_secrets", AssertionError),
    ChangesItsName: ("its_name_is_a_line_that_stays_the_same", AssertionError),
    Tells: ("nothing_shows_its_secrets", AssertionError),
    TellsTheLog: ("nothing_shows_its_secrets", AssertionError),
    TellsBehindItsFailure: ("nothing_shows_its_secrets", AssertionError),
    ShowsItself: ("nothing_shows_its_secrets", AssertionError),
    Hangs: ("a_huge_message_is_delivered_or_refused_in_good_time", TimeoutError),
    Stumbles: ("hostile_contents_are_delivered_or_refused", UnicodeEncodeError),
    StaysClosed: ("after_closing_it_may_be_used_again", DeliveryFailed),
    Breaks: ("a_cancelled_delivery_leaves_it_usable", DeliveryFailed),
}


class FaultySuite(ChannelConformance):
    supports = (Failure.TROUBLE,)


def run_sentence(name: str, channel: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """Run one test of the suite on a channel."""
    sentence = getattr(FaultySuite(), f"test_{name}")
    with asyncio.Runner() as runner:
        given = {
            "channel": channel,
            "message": a_message(),
            "run": lambda coroutine: runner.run(asyncio.wait_for(coroutine, 0.2)),
            "secrets": [Good.secret],
            "caplog": caplog,
            "failing": trouble,
            "text": HOSTILE_TEXTS["half a character"],
            "turns": 1,
        }
        sentence(**{argument: given[argument] for argument in inspect.signature(sentence).parameters})


@pytest.mark.parametrize("faulty", FAULTS, ids=lambda faulty: faulty.__name__)
def test_the_suite_sees_a_fault(faulty: type[Good], caplog: pytest.LogCaptureFixture) -> None:
    sentence, error = FAULTS[faulty]

    with pytest.raises(error):
        run_sentence(sentence, faulty(), caplog)
