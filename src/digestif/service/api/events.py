"""The stream of events, from the store's truth: what any process delivers shows here.

One poller in a process reads the store about once a second, as long as a client listens, and gives each client what has
changed. The stream of a client that does not keep up is ended, and all are if more digests have ended between two looks
than history holds: clients come again and resume where history reaches.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import UNSET, Struct, UnsetType

from digestif.core.records import HistoryEntry
from digestif.digests import Digests
from digestif.errors import DigestifError
from digestif.service.api.digest_feed import RECENT, DigestFeed, latest_of, missed, number_of
from digestif.service.api.fields import Key, given
from digestif.service.api.problems import Problem
from digestif.service.api.requests import STREAMING, Request, Stream, encode
from digestif.service.api.shapes import ledger_answer
from digestif.service.security.authentication import principal_of
from digestif.service.service import Service
from digestif.stores.base import HISTORY_LIMIT

T = TypeVar("T")

INTERVAL = 1.0  # seconds between two looks at the store
HEARTBEAT = 15.0  # seconds between signs of life
QUEUE = 2 * HISTORY_LIMIT  # events that wait for a slow client: those of any one look fit in
TOKENS_SERVED = 10  # for which there is room if each has as many streams as it may
ENCODED_TOGETHER = 50  # digests that a client missed
CONTENT_TYPE = b"text/event-stream; charset=utf-8"


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A timeline whose changes are sent as well."""

    timeline: Key | UnsetType = UNSET


class View(Struct, frozen=True):
    """What the store said at one look."""

    parts: dict[str, bytes]  # ledger, backlog, channels, as they are sent
    timelines: dict[str, bytes]  # those that clients watch


class Event(NamedTuple):
    """An event as it is sent."""

    data: bytes
    digest: str | None = None  # number of the digest that it is about


def event_of(name: str, data: bytes) -> Event:
    return Event(b"event: %b\ndata: %b\n\n" % (name.encode(), data))


def digest_event(entry: HistoryEntry) -> Event:
    number = number_of(entry)
    return Event(mark(number) + event_of("digest", encode(entry)).data, number)


def mark(number: str) -> bytes:
    """The line that says where a client resumes. With nothing but an empty line behind it, it is no event."""
    return f"id: {number}\n".encode()


class Client:
    """One that listens."""

    def __init__(self, token: str, timeline: str | None = None, begins_after: str | None = None) -> None:
        self.token = token  # its name
        self.timeline = timeline
        self.begins_after = begins_after  # the digest before the first that is queued; None if it is not known yet
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._is_over = False

    def give(self, events: Iterable[Event]) -> None:
        """Queue events, unless the client does not keep up: then its stream ends behind those that wait."""
        for event in events:
            if self._is_over:
                return
            if self.queue.qsize() < QUEUE:
                self.queue.put_nowait(event)
            else:
                self.end()

    def end(self) -> None:
        """End the stream behind what waits."""
        if not self._is_over:
            self._is_over = True
            self.queue.put_nowait(None)


class SharedRead(Generic[T]):
    """A read of the store that all clients share who ask before it begins: many may come together."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._under_way: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return what a read found that began after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._under_way))
        return await asyncio.shield(self._next)

    async def _read_after(self, before: "asyncio.Task[T] | None") -> T:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._next = self._next, None
        return await self._read()


class StreamPlaces:
    """The streams of one process: a token has at most `limits.streams` of them, whatever others have.

    All tokens together have at most ten times as many. Beyond that, one more ends the latest stream of the token that
    has most, if that is more than its own token has.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._taken: dict[str, list[Client]] = {}  # by the names of tokens, in the order in which they came

    def __len__(self) -> int:
        return sum(map(len, self._taken.values()))

    def take(self, client: Client) -> bool:
        """Give a client a place; False if its token has as many as it may."""
        most, own = self._service.settings.limits.streams, len(self._taken.get(client.token, ()))
        if own >= most or (len(self) >= most * TOKENS_SERVED and not self._make_room(more_than=own + 1)):
            return False
        self._taken.setdefault(client.token, []).append(client)
        return True

    def leave(self, client: Client) -> None:
        """Free the place of a client, if it has one."""
        own = self._taken.get(client.token, [])
        if client in own:
            own.remove(client)
        if not own:
            self._taken.pop(client.token, None)

    def _make_room(self, *, more_than: int) -> bool:
        clients = max(self._taken.values(), key=len)
        if len(clients) <= more_than:
            return False
        clients.pop().end()
        return True


class Hub:
    """The clients of one process, and the poller that serves them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._places = service.part(StreamPlaces)
        self._clients: set[Client] = set()
        self._poller: asyncio.Task[None] | None = None
        self._view: View | None = None
        self._feed: DigestFeed | None = None
        self._histories = SharedRead(lambda: service.ask(_numbered_history))
        self._looks = SharedRead(self._look)

    def __len__(self) -> int:
        return len(self._clients)

    def admit(self, token: str, timeline: str | None) -> Client | None:
        """A place for one more client of a token, until it leaves; None if as many listen as may."""
        client = Client(token, timeline, None if self._feed is None else self._feed.last)
        if not self._places.take(client):
            return None
        self._clients.add(client)
        return client

    def leave(self, client: Client) -> None:
        """Let a client go, whether it has listened or not."""
        self._places.leave(client)
        self._clients.discard(client)
        if not self._clients and self._poller is not None:
            self._poller.cancel()
            self._poller = self._view = self._feed = None

    async def listen(self, client: Client, last: str | None) -> AsyncGenerator[bytes, None]:
        """Events for one client: first how things stand, then what changes."""
        is_history_needed = last is not None or client.begins_after is None
        history, sent = await self._histories.get() if is_history_needed else ([], frozenset[str]())
        view = await self._looks.get()
        self._begin(history, view)
        behind = missed(history, last)
        for start in range(0, len(behind), ENCODED_TOGETHER):
            for event in await self._encoded(behind[start : start + ENCODED_TOGETHER]):
                yield event.data
        for event in _standing(view, client.timeline):
            yield event.data
        if last is None:
            yield mark(client.begins_after or latest_of(history)) + b"\n"
        del history, behind  # which would be kept as long as the client listens
        while (following := await self._next(client)) is not None:
            if following.digest is None or following.digest not in sent:
                yield following.data

    async def _encoded(self, digests: list[HistoryEntry]) -> list[Event]:
        """Encode digests, which may have many long keys, without keeping the event loop."""
        return await self._service.beside(lambda: [*map(digest_event, digests)]) if digests else []

    def _begin(self, history: list[HistoryEntry], view: View) -> None:
        """Let the poller compare with these, unless it does with earlier ones."""
        if self._poller is None:
            self._feed, self._view = DigestFeed(history), view
            self._poller = asyncio.create_task(self._poll())

    async def _next(self, client: Client) -> Event | None:
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await client.queue.get()
        except TimeoutError:
            return Event(b": still here\n\n")

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self._look_again()
            except DigestifError:
                continue  # the store may be back at the next look

    async def _look_again(self) -> None:
        """Give the clients what has changed since the look before."""
        feed, before = self._feed, self._view
        assert feed is not None
        assert before is not None
        history = await self._latest(feed)
        self._view = view = await self._look()
        has_gap = feed.has_gap_to(history)
        clients = [*self._clients]  # those that come from here on begin behind these digests
        digests = await self._encoded(feed.take(history))
        for client in clients:
            if has_gap:
                client.end()
            else:
                client.give([*digests, *_changes(before, view, client.timeline)])

    async def _latest(self, feed: DigestFeed) -> list[HistoryEntry]:
        """The latest digests, all of the history if many are new."""
        recent = await self._service.digests.history(limit=RECENT)
        return recent if feed.is_reached_by(recent) else await self._service.digests.history(limit=HISTORY_LIMIT)

    async def _look(self) -> View:
        digests = self._service.digests
        watched = {client.timeline for client in self._clients if client.timeline is not None}
        parts: dict[str, Any] = {
            "ledger": ledger_answer(await digests.ledger()),
            "backlog": (await digests.overview()).backlog,
            "channels": await digests.outages(),
        }
        timelines = {each: encode(await digests.timeline(each)) for each in watched}
        return View({name: encode(part) for name, part in parts.items()}, timelines)


def _numbered_history(digests: Digests) -> tuple[list[HistoryEntry], frozenset[str]]:
    """The history, and the numbers of its digests."""
    found = digests.history(limit=HISTORY_LIMIT)
    return found, frozenset(map(number_of, found))


def _standing(view: View, timeline: str | None) -> list[Event]:
    """How things stand."""
    own = [] if timeline is None else [event_of("timeline", view.timelines[timeline])]
    return [*(event_of(*part) for part in view.parts.items()), *own]


def _changes(before: View, view: View, timeline: str | None) -> list[Event]:
    """What is not as it was."""
    changed = [event_of(name, data) for name, data in view.parts.items() if data != before.parts.get(name)]
    own = None if timeline is None else view.timelines.get(timeline)
    is_changed = timeline is not None and own != before.timelines.get(timeline)
    return [*changed, *([event_of("timeline", own)] if own and is_changed else [])]


async def stream(request: Request) -> Stream:
    """Send what happens, as server-sent events."""
    query, hub = request.query(EventsQuery), request.service.part(Hub)
    timeline = given(query.timeline)
    if timeline is not None:
        await request.service.digests.timeline(timeline)  # refuses a wrong key
    client = hub.admit(request.principal.name, timeline)
    if client is None:
        raise Problem(429, "as many clients listen with this token as may", retry_after=10)
    last = request.headers.get(b"last-event-id")
    request.scope["state"][STREAMING] = True
    parts = hub.listen(client, None if last is None else last.decode("latin-1"))
    return Stream(_while_known(request, parts), CONTENT_TYPE, partial(hub.leave, client))


async def _while_known(request: Request, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The parts until the caller's token is removed, or may do less than when the stream began."""
    async with aclosing(parts):
        async for part in parts:
            if principal_of(request.service, request.headers) != request.principal:
                return
            yield part
