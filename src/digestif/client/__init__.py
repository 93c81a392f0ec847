"""A client of the service: the verbs of `Digests` over HTTP, for threads and for asyncio."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from digestif.client.aio import AsyncClient
    from digestif.client.answers import ServiceEvent, ServiceStatus
    from digestif.client.sync import Client

__all__ = ["AsyncClient", "Client", "ServiceEvent", "ServiceStatus"]

_HOMES = {
    "digestif.client.aio": "AsyncClient",
    "digestif.client.answers": "ServiceEvent ServiceStatus",
    "digestif.client.sync": "Client",
}

if not _TYPE_CHECKING:
    from digestif.exports import lazy as _lazy

    __getattr__, __dir__ = _lazy(__name__, _HOMES)
