"""The stream of events, from the store's truth: what any process delivers shows here.

One poller in a process reads the store about once a second, as long as a client listens, and gives each client what has
changed. A client that does not keep up is dropped; it resumes where history reaches.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from digestif.core.records import HistoryEntry
from digestif.errors import DigestifError
from digestif.service.api.fields import Key, given
from digestif.service.api.problems import Problem
from digestif.service.api.requests import STREAMING, Request, Stream, encode
from digestif.service.api.shapes import ledger_answer
from digestif.service.security.authentication import principal_of
from digestif.service.service import Service
from digestif.stores.base import HISTORY_LIMIT

INTERVAL = 1.0  # seconds between two looks at the store
HEARTBEAT = 15.0  # seconds between signs of life
QUEUE = 256  # events that wait for a slow client
RECENT = 100  # digests that are read at each look
CONTENT_TYPE = b"text/event-stream; charset=utf-8"


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A timeline whose changes are sent as well."""

    timeline: Key | UnsetType = UNSET


class View(Struct, frozen=True):
    """What the store said at one look."""

    digests: list[HistoryEntry]  # the latest first
    parts: dict[str, bytes]  # ledger, backlog, channels, as they are sent
    timelines: dict[str, bytes]  # those that clients watch


def event_of(name: str, data: bytes, number: str | None = None) -> bytes:
    """An event as it is sent."""
    head = b"" if number is None else f"id: {number}\n".encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


def digest_event(entry: HistoryEntry) -> bytes:
    return event_of("digest", encode(entry), number_of(entry))


def number_of(entry: HistoryEntry) -> str:
    """What tells the end of a digest from all others: a replayed one ends again under the same id."""
    return f"{entry.ended:.3f}-{entry.id}"


class Client:
    """One that listens."""

    def __init__(self, timeline: str | None) -> None:
        self.timeline = timeline
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE)

    def give(self, parts: Iterable[bytes]) -> None:
        """Queue events; None ends a client that does not keep up."""
        for part in parts:
            if self.queue.full():
                self.queue.get_nowait()
                self.queue.put_nowait(None)
                return
            self.queue.put_nowait(part)


class Hub:
    """The clients of one process, and the poller that serves them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._clients: set[Client] = set()
        self._poller: asyncio.Task[None] | None = None
        self._view: View | None = None

    def __len__(self) -> int:
        return len(self._clients)

    async def listen(self, timeline: str | None, last: str | None) -> AsyncGenerator[bytes, None]:
        """Events for one client: first how things stand, then what changes."""
        client = Client(timeline)
        self._clients.add(client)
        try:
            view = await self._look()
            for part in self._greeting(view, timeline, missed(view.digests, last)):
                yield part
            self._view = self._view or view
            if self._poller is None:
                self._poller = asyncio.create_task(self._poll())
            while (event := await self._next(client)) is not None:
                yield event
        finally:
            self._clients.discard(client)
            if not self._clients and self._poller is not None:
                self._poller.cancel()
                self._poller = self._view = None

    def _greeting(self, view: View, timeline: str | None, digests: Iterable[HistoryEntry]) -> list[bytes]:
        own = [] if timeline is None else [event_of("timeline", view.timelines[timeline])]
        return [*(digest_event(each) for each in digests), *(event_of(*part) for part in view.parts.items()), *own]

    async def _next(self, client: Client) -> bytes | None:
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await client.queue.get()
        except TimeoutError:
            return b": still here\n\n"

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                view = await self._look()
            except DigestifError:
                continue  # the store may be back at the next look
            before, self._view = self._view, view
            if before is not None:
                self._tell(before, view)

    def _tell(self, before: View, view: View) -> None:
        known = {number_of(entry) for entry in before.digests}
        fresh = [digest_event(each) for each in reversed(view.digests) if number_of(each) not in known]
        changed = [event_of(name, data) for name, data in view.parts.items() if data != before.parts.get(name)]
        for client in self._clients:
            own = client.timeline and view.timelines.get(client.timeline)
            is_changed = own and own != before.timelines.get(client.timeline or "")
            client.give([*fresh, *changed, *([event_of("timeline", own)] if own and is_changed else [])])

    async def _look(self) -> View:
        digests = self._service.digests
        watched = {client.timeline for client in self._clients if client.timeline is not None}
        history = await digests.history(limit=RECENT if self._poller else HISTORY_LIMIT)
        parts: dict[str, Any] = {
            "ledger": ledger_answer(await digests.ledger()),
            "backlog": (await digests.overview()).backlog,
            "channels": await digests.outages(),
        }
        timelines = {each: encode(await digests.timeline(each)) for each in watched}
        return View(history, {name: encode(part) for name, part in parts.items()}, timelines)


def missed(history: list[HistoryEntry], last: str | None) -> list[HistoryEntry]:
    """The digests that ended after the one that a client saw last, the oldest first. None if it saw none."""
    if last is None:
        return []
    place = next((place for place, entry in enumerate(history) if number_of(entry) == last), len(history))
    return history[:place][::-1]


async def stream(request: Request) -> Stream:
    """Send what happens, as server-sent events."""
    query, hub = request.query(EventsQuery), request.service.part(Hub)
    timeline = given(query.timeline)
    if timeline is not None:
        await request.service.digests.timeline(timeline)  # refuses a wrong key
    if len(hub) >= request.service.settings.limits.streams:
        raise Problem(429, "as many clients listen as may", retry_after=10)
    last = request.headers.get(b"last-event-id")
    request.scope["state"][STREAMING] = True
    parts = hub.listen(timeline, None if last is None else last.decode("latin-1"))
    return Stream(_while_known(request, parts), CONTENT_TYPE)


async def _while_known(request: Request, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The parts until the caller's token is removed, or may do less than when the stream began."""
    async with aclosing(parts):
        async for part in parts:
            if principal_of(request.service, request.headers) != request.principal:
                return
            yield part
