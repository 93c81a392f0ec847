"""The stream that tells open pages to look again. It carries no facts, so that every reader may listen."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from digestif.service.api.events import Client, Hub
from digestif.service.api.requests import STREAMING
from digestif.service.dashboard.visits import Visit

KIND = "text/event-stream"
CHANGED = b"event: changed\ndata: \n\n"
RETRY = b"retry: 3000\n\n"  # milliseconds after which a browser connects again


async def live(visit: Visit) -> Response:
    hub = visit.service.part(Hub)
    client = hub.admit(None)
    if client is None:
        return PlainTextResponse("as many pages listen as may\n", status_code=429, headers={"Retry-After": "10"})
    if visit.request.method == "HEAD":
        hub.leave(client)
        return Response(media_type=KIND)
    visit.request.scope.setdefault("state", {})[STREAMING] = True
    return LiveResponse(visit, hub, client)


class LiveResponse(StreamingResponse):
    """The stream of a client, which leaves at its end, also if the stream has not begun."""

    def __init__(self, visit: Visit, hub: Hub, client: Client) -> None:
        super().__init__(_changes(visit, hub, client), media_type=KIND)
        self._hub, self._client = hub, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._client)


async def _changes(visit: Visit, hub: Hub, client: Client) -> AsyncGenerator[bytes, None]:
    """One message for each change, until the service or the session ends."""
    yield RETRY
    async with aclosing(hub.listen(client, None)) as events:
        while (part := await _next(visit, events)) is not None and visit.is_current:
            yield CHANGED if part.startswith((b"event:", b"id:")) else part


async def _next(visit: Visit, events: AsyncIterator[bytes]) -> bytes | None:
    """The next event; None if there is none, or the service ends."""
    coming = asyncio.ensure_future(anext(events, None))
    stopping = asyncio.ensure_future(visit.service.stopping.wait())
    try:
        await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        for task in (coming, stopping):
            task.cancel()
        await asyncio.gather(coming, stopping, return_exceptions=True)
