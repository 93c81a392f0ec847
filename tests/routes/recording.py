"""A channel that keeps what it is given, and fails when it is told to."""

from typing import ClassVar

from digestif.channels.base import Channel, Format, Message, Receipt


class Recording(Channel):
    """Everything that was delivered; `failures` are raised for a recipient, one after the other."""

    scheme: ClassVar[str] = "recording"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.TEXT, Format.DATA})

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.failures: dict[str, list[Exception]] = {}
        self.closed = 0

    async def deliver(self, message: Message) -> Receipt:
        for failure in self.failures.get(message.recipient, [])[:1]:
            self.failures[message.recipient].remove(failure)
            raise failure
        self.messages.append(message)
        return Receipt(channel=self.scheme)

    async def close(self) -> None:
        self.closed += 1

    @property
    def keys(self) -> list[str]:
        return [message.key for message in self.messages]

    def records(self, place: int = -1) -> list[str]:
        """The keys of the records of a message."""
        return [record["key"] for record in self.messages[place].data["records"]]
