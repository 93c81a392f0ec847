"""Where digests go. Public for those who write or open a channel: the contract, its values, and ways to open one."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from digestif.channels.apprise_channel import AppriseChannel
    from digestif.channels.base import Channel, Format, Message, Receipt
    from digestif.channels.registry import open_channel
    from digestif.channels.webhook import WebhookChannel
    from digestif.core.verdicts import DeliveryFailed, Unavailable
    from digestif.dsn import Dsn

__all__ = [
    "AppriseChannel",
    "Channel",
    "DeliveryFailed",
    "Dsn",
    "Format",
    "Message",
    "Receipt",
    "Unavailable",
    "WebhookChannel",
    "open_channel",
]

_HOMES = {  # where each name is defined
    "digestif.channels.apprise_channel": "AppriseChannel",
    "digestif.channels.base": "Channel Format Message Receipt",
    "digestif.channels.registry": "open_channel",
    "digestif.channels.webhook": "WebhookChannel",
    "digestif.core.verdicts": "DeliveryFailed Unavailable",
    "digestif.dsn": "Dsn",
}

if not _TYPE_CHECKING:
    from digestif.exports import lazy as _lazy

    __getattr__, __dir__ = _lazy(__name__, _HOMES, aiohttp="webhooks", apprise="apprise")
