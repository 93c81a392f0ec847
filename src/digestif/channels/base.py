"""The contract: what a channel is given, what it answers, and how it fails.

A channel is one small module with a class and a function `from_dsn`. It renders nothing: it says which formats it
wants, and gets them ready. It decides nothing about retries: it says what happened, and the policy decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from digestif.core.verdicts import DeliveryFailed

__all__ = ["Channel", "DeliveryFailed", "Format", "Message", "Receipt"]


class Format(StrEnum):
    """What a message can be rendered to."""

    TEXT = "text"
    HTML = "html"  # a mail: styles inlined
    MARKDOWN = "markdown"
    SLACK = "slack"  # blocks
    DATA = "data"  # values for programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A digest that is ready to go to one recipient. Formats that the channel did not ask for are empty."""

    key: str  # two messages with the same key are the same: the idempotency key, with the recipient's name if split
    timeline: str
    recipient: str  # an address, or whatever the channel knows people by
    subject: str  # one line
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
    """A message that was taken over by somebody else."""

    channel: str  # the scheme
    id: str = ""  # what they call it, if they said so
    detail: str = ""  # such as their answer, without secrets

    @property
    def line(self) -> str:
        """For the history."""
        return " ".join(filter(None, (self.channel, self.id, self.detail)))


class Channel(ABC):
    """Somewhere to deliver to. Used on one event loop, by many deliveries at once."""

    scheme: ClassVar[str]
    formats: ClassVar[frozenset[Format]]  # that it wants
    redelivery: ClassVar[str] = (
        "merge"  # what its routes do unless their policy says otherwise; "same" for receivers that deduplicate
    )

    @abstractmethod
    async def deliver(self, message: Message) -> Receipt:
        """Hand a message over.

        Returns once somebody else is responsible for it. Raises DeliveryFailed with the reason, whether it is worth
        trying again, and when. May be called again with the same key after a failure nobody knows the outcome of.
        """

    async def close(self) -> None:  # noqa: B027  # most have nothing to let go of
        """Let go of connections. It may be used again afterwards."""
