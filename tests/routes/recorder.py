"""A channel for tests, which records messages and can be made to fail, and records to deliver."""

from typing import ClassVar

from digestif import Digest, Digests, Policy, Record
from digestif.channels.base import Channel, Format, Message, Receipt

T = 1_700_000_000.0
POLICY = Policy(minimum_delay=60, increment_delay=0, maximum_delay=600)


class Recording(Channel):
    """Records messages. Deliveries to a recipient first raise its `failures`, one each."""

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


def add(digests: Digests, timeline: str, *keys: str, now: float = T) -> None:
    digests.add_many([(timeline, Record(key, {"title": f"about {key}"}, now)) for key in keys], now=now)


def by_reader(digest: Digest) -> dict[str, list[Record]]:
    """Split a digest: each reader gets all records but their own."""
    return {name: [record for record in digest if record.key != name] for name in ("ada", "bob", "eve")}
