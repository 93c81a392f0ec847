"""The stream that tells open pages to look again. It carries no facts, so that every reader may listen.

Readers who see everything are told when something has changed. Those whose token has a prefix are told every few
seconds, whether something has changed or not: they would learn otherwise when others are active.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from digestif.service.api.events import Client, Hub, StreamPlaces
from digestif.service.api.requests import STREAMING
from digestif.service.dashboard.visits import Visit

KIND = "text/event-stream"
CHANGED = b"event: changed\ndata: \n\n"
RETRY = b"retry: 3000\n\n"  # milliseconds after which a browser connects again
TICK = 5.0  # seconds between two looks of a reader whose token has a prefix


async def live(visit: Visit) -> Response:
    found = _news(visit) if visit.sees_everything else _ticks(visit)
    if found is None:
        return PlainTextResponse("as many pages listen as may\n", status_code=429, headers={"Retry-After": "10"})
    events, leave = found
    if visit.request.method == "HEAD":
        leave()
        return Response(media_type=KIND)
    visit.request.scope.setdefault("state", {})[STREAMING] = True
    return LiveResponse(_changes(visit, events), leave)


Listening = tuple[AsyncGenerator[bytes, None], Callable[[], None]]  # what is heard, and how to leave


def _news(visit: Visit) -> Listening | None:
    """What happens; None if as many listen as may."""
    hub = visit.service.part(Hub)
    client = hub.admit(visit.reader.name, None)
    return None if client is None else (hub.listen(client, None), partial(hub.leave, client))


def _ticks(visit: Visit) -> Listening | None:
    """A message every few seconds; None if as many listen as may."""
    places, client = visit.service.part(StreamPlaces), Client(visit.reader.name)
    return (_at_a_fixed_pace(client), partial(places.leave, client)) if places.take(client) else None


async def _at_a_fixed_pace(client: Client) -> AsyncGenerator[bytes, None]:
    """Messages until the stream of the client is ended."""
    while True:
        yield CHANGED
        try:
            async with asyncio.timeout(TICK):
                await client.queue.get()
                return
        except TimeoutError:
            continue


class LiveResponse(StreamingResponse):
    """The stream of a client, which leaves at its end, also if the stream has not begun."""

    def __init__(self, parts: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        super().__init__(parts, media_type=KIND)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def _changes(visit: Visit, heard: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """One message for each change, until the service or the session ends."""
    yield RETRY
    async with aclosing(heard) as events:
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
