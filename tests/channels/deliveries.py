"""Messages for tests, and deliveries that close the channel afterwards."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from digestif.channels.base import Channel, Message, Receipt
from digestif.testing.channels import a_message


def message(number: int = 1, **changes: Any) -> Message:
    """A message to Ada."""
    values: dict[str, Any] = {
        "key": f"0123456789abcdef0123.{number}",
        "timeline": "mail:ada",
        "recipient": "ada@example.org",
        "subject": f"Build {number} failed",
        "text": f"Build {number} failed.\n",
        "html": f"<p>Build {number} failed.</p>\n",
        "timestamp": 1_700_000_000.0,
    }
    return Message(**values | changes)


def delivered(channel: Channel, given: Message | None = None) -> Receipt:
    """Deliver one message on an event loop of its own."""
    return run_and_close(channel, lambda: channel.deliver(given or a_message()))


def run_and_close(channel: Channel, act: Callable[[], Coroutine[Any, Any, Receipt]]) -> Receipt:
    async def run() -> Receipt:
        try:
            return await act()
        finally:
            await channel.close()

    return asyncio.run(run())
