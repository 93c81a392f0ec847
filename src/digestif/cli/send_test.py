"""`digestif send-test`: a small message through a channel, to see whether it arrives."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from digestif.cli.configuration import config_file, outer, settings_reader
from digestif.cli.output import as_json, fitted, printable
from digestif.cli.session import outer_json, refuse_store

if TYPE_CHECKING:
    from digestif.channels.base import Channel, Message, Receipt
    from digestif.core.verdicts import DeliveryFailed

SUBJECT = "Test message from Digestif"
TEXT = "This channel works: Digestif could hand this message over. Nothing has to be done."
REFUSED, UNREACHABLE = 1, 3  # exit codes


class Failure(NamedTuple):
    """Why a test message did not arrive, for the person who has to act."""

    kind: str
    advice: str
    code: int


@click.command("send-test")
@click.argument("channel", metavar="CHANNEL")
@click.argument("recipient", metavar="RECIPIENT")
@click.option(
    "--timeout", type=click.FloatRange(1), default=60.0, show_default=True, metavar="SECONDS", help="To wait."
)
@click.option("--config", metavar="FILE", help="A file of settings with named channels.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else.")
def send_test(channel: str, recipient: str, timeout: float, config: str | None, as_json_: bool) -> int:
    """Send a small message to RECIPIENT through CHANNEL.

    CHANNEL is a DSN, or the name of one in the file of settings. It says what happened: the receipt, or the reason and
    what to do. Exit code 1 if the message was refused or may not have arrived, 3 if the channel can't be used.

    \b
    digestif send-test smtp://user:password@mail.example ada@example.org
    digestif send-test file:///tmp/outbox ada
    digestif send-test mail ada@example.org --config digestif.toml
    """
    from digestif.channels.registry import open_channel
    from digestif.core.verdicts import DeliveryFailed

    as_json_ = as_json_ or outer_json()
    refuse_store("it needs none")
    opened = open_channel(_dsn(channel, config))
    place = opened.name or opened.scheme  # a DSN may hold a secret in its path
    known: dict[str, Any] = {"channel": place, "recipient": recipient}
    try:
        receipt = _sent(opened, recipient, timeout)
    except DeliveryFailed as error:
        failure = _failure(error)
        reason = printable(" ".join(str(error).split()))
        document = {"sent": False, "kind": failure.kind, "reason": str(error), "advice": failure.advice}
        _tell(f"not sent to {printable(recipient)}: {reason}; {failure.advice}", {**known, **document}, as_json_)
        return failure.code
    answer = f": {printable(receipt.line)}" if receipt is not None else ""
    document = {"sent": True, "receipt": None if receipt is None else {"id": receipt.id, "detail": receipt.detail}}
    _tell(f"sent to {printable(recipient)} through {printable(place)}{answer}", {**known, **document}, as_json_)
    return 0


def _dsn(channel: str, config: str | None) -> str:
    """The DSN of a channel, which may be named in a file of settings."""
    file = None if "://" in channel else config_file(config or outer("config"))
    if file is None:
        return channel
    from digestif.core.texts import did_you_mean
    from digestif.errors import ConfigError

    channels = settings_reader(file)().channels
    if channel not in channels:
        hint = did_you_mean(channel, list(channels)) if channels else "; it names none"
        raise ConfigError(f"{file} has no channel of this name{hint}")
    return channels[channel].reveal()


def _tell(text: str, document: dict[str, Any], as_json_: bool) -> None:
    click.echo(as_json(document) if as_json_ else fitted(text))


def _sent(channel: "Channel", recipient: str, timeout: float) -> "Receipt | None":
    """The receipt of the receiver; None if a channel of another package gives something else."""
    import asyncio

    from digestif.channels.base import Receipt
    from digestif.core.texts import reason_of
    from digestif.core.verdicts import DeliveryFailed

    async def send() -> object:
        try:
            async with asyncio.timeout(timeout):
                return await channel.deliver(_message(recipient))
        except TimeoutError:
            raise DeliveryFailed(f"no answer within {timeout:g} s", unknown=True) from None
        finally:
            await channel.close()

    try:
        receipt = asyncio.run(send())
    except DeliveryFailed:
        raise
    except Exception as error:  # of a channel of another package
        raise DeliveryFailed(reason_of(error)) from error
    return receipt if isinstance(receipt, Receipt) else None


def _message(recipient: str) -> "Message":
    from digestif.channels.base import Message
    from digestif.clock import wall_clock
    from digestif.ids import fresh_id

    key = f"test-{fresh_id()}"
    return Message(
        key=key,
        timeline="digestif:test",
        recipient=recipient,
        subject=SUBJECT,
        text=f"{TEXT}\n",
        html=f"<p>{TEXT}</p>\n",
        markdown=f"**{SUBJECT}**\n\n{TEXT}\n",
        blocks=({"type": "section", "text": {"type": "mrkdwn", "text": TEXT}},),
        data={"test": True, "digest": key, "count": 0, "records": []},
        timestamp=wall_clock(),
    )


def _failure(error: "DeliveryFailed") -> Failure:
    from digestif.core.verdicts import Unavailable

    if isinstance(error, Unavailable):
        advice = "check the address, the user and the password of the channel, and that its server is up"
        return Failure("unavailable", advice, UNREACHABLE)
    if error.unknown:
        return Failure("unknown", "it may have arrived all the same: ask the recipient before you try again", REFUSED)
    if error.throttled:
        wait = "later" if error.after is None else f"in {error.after:g} s"
        return Failure("throttled", f"the channel works and asks for patience: try again {wait}", REFUSED)
    advice = "the channel answers, and refuses this message: check the recipient and the sender"
    return Failure("refused" if error.retry else "gone", advice, REFUSED)


COMMANDS = [send_test]
