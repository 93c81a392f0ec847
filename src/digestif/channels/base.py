"""The contract of channels: the message that one gets, the receipt that it returns, and the error that it raises.

A channel is one small module with a class and a function `from_dsn`. It gets messages already rendered, in the formats
that it names. It reports what happened; the policy decides whether to try again.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar

from digestif.core.verdicts import DeliveryFailed, Unavailable

__all__ = ["Channel", "DeliveryFailed", "Format", "Message", "Receipt", "Unavailable", "date_of"]

_LATEST = 253402300799.0  # seconds: the end of the year 9999


class Format(StrEnum):
    """The formats of a message."""

    TEXT = "text"
    HTML = "html"  # for mail: styles inlined
    MARKDOWN = "markdown"
    SLACK = "slack"  # blocks
    DATA = "data"  # values for programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A digest, rendered for one recipient. Formats that the channel does not name are empty."""

    key: str  # the idempotency key, followed by the recipient if the digest is split
    timeline: str
    recipient: str  # an address, or another name that the channel understands
    subject: str  # one line
    sender: str = ""  # the name that its route gives the sender, before that of the channel
    text: str = ""
    html: str = ""
    markdown: str = ""
    blocks: tuple[Mapping[str, Any], ...] = ()  # of Slack
    data: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # "open", "unsubscribe", "settings"
    attempt: int = 1
    timestamp: float = 0.0  # when it was made, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The proof that a receiver took a message over."""

    channel: str  # the scheme
    id: str = ""  # the receiver's name for it, if known
    detail: str = ""  # such as the receiver's answer, without secrets

    @property
    def line(self) -> str:
        """The receipt as the history shows it."""
        return " ".join(filter(None, (self.channel, self.id, self.detail)))


class Channel(ABC):
    """A place to deliver to. Many deliveries use it at once, on one event loop."""

    scheme: ClassVar[str]
    formats: ClassVar[frozenset[Format]]  # that messages need
    redelivery: ClassVar[str] = "merge"  # the default of its routes; "same" if receivers deduplicate by key

    @property
    def name(self) -> str:
        """What is closed when the channel is unavailable: channels of one name are so together. It shows no secret.

        Empty: each route with this channel is closed by itself.
        """
        return ""

    def normal_forms(self, recipient: str) -> Sequence[str]:
        """Return the normal forms of a recipient that can be written in several ways, the preferred one first.

        A timeline that names its recipient in another way is switched off and paused with those of the normal forms.
        """
        return (recipient,)

    def refusal(self, recipient: str) -> str | None:  # noqa: ARG002  # most take any text
        """Return why this text is never delivered to, to be said when a route is made; None if it may be."""
        return None

    @abstractmethod
    async def deliver(self, message: Message) -> Receipt:
        """Hand a message over.

        Returns once the receiver is responsible for it. Raises Unavailable if no message would get through, and
        DeliveryFailed if this one did not: it says why, whether to try again, and when. If the outcome is unknown, it
        says so, and the message comes again with the same key.
        """

    async def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Close connections. A later delivery opens new ones."""


def date_of(message: Message) -> datetime:
    """When a message was made, as far as years have four digits."""
    return datetime.fromtimestamp(min(max(message.timestamp, 0.0), _LATEST), UTC)
