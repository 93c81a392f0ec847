"""`AsyncClient`: the service for asyncio, on aiohttp."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from digestif.client import adding, verbs
from digestif.client.adding import Batch
from digestif.client.answers import ServiceEvent
from digestif.client.requests import (
    IDLE_SECONDS,
    Address,
    Call,
    Lost,
    NotSent,
    Reply,
    Request,
    Wait,
    exchange,
    words_of,
)
from digestif.client.streaming import SILENCE, Following
from digestif.client.verbs import Pages
from digestif.clock import monotonic
from digestif.core.secret import Secret
from digestif.exports import needs
from digestif.sockets import Sockets

with needs("client", module=__name__):
    import aiohttp
    from yarl import URL

P = ParamSpec("P")
T = TypeVar("T")


def _call(verb: Callable[P, Call[T]]) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    @wraps(verb)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._make(verb(*args, **kwargs))

    return method


def _batch(verb: Callable[P, Batch[T]]) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    @wraps(verb)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        batch = verb(*args, **kwargs)
        answer: T = batch.read([outcome for call in batch.calls for outcome in await self._make(call)])
        return answer

    return method


def _pages(verb: Callable[P, Pages[T]]) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]":
    @wraps(verb)
    def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._items(verb(*args, **kwargs))

    return method


class AsyncClient:
    """`Client` for asyncio: the same verbs, awaitable; `async for` over timelines, dead letters and events."""

    def __init__(
        self,
        url: str,
        token: str | Secret | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 30.0,
        ca: str | None = None,
    ) -> None:
        self._address = Address(url, token)
        self._timeout = timeout
        self._patience = patience
        self._tls = ssl.create_default_context(cafile=ca) if self._address.is_secure else None
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()  # of the session
        self._loop: asyncio.AbstractEventLoop | None = None  # of the session

    def __repr__(self) -> str:
        return f"AsyncClient({self._address.origin!r})"

    add = _call(adding.add)
    add_many = _batch(adding.add_many)
    accept = _call(adding.accept)
    accept_many = _batch(adding.accept_many)
    accept_valid = _batch(adding.accept_valid)

    timelines = _pages(verbs.timelines)
    timelines_page = _call(verbs.timelines_page)
    timeline = _call(verbs.timeline)
    peek = _call(verbs.peek)
    explain = _call(verbs.explain)
    preview = _call(verbs.preview)
    trace = _call(verbs.trace)
    flush = _call(verbs.flush)
    pause = _call(verbs.pause)
    resume = _call(verbs.resume)
    retract = _call(verbs.retract)
    delete = _call(verbs.delete)

    policy_of = _call(verbs.policy_of)
    set_policy = _call(verbs.set_policy)
    clear_policy = _call(verbs.clear_policy)
    prefer = _call(verbs.prefer)
    preference = _call(verbs.preference)

    history = _call(verbs.history)
    message = _call(verbs.message)
    dead_letters = _pages(verbs.dead_letters)
    dead_records = _call(verbs.dead_records)
    replay = _call(verbs.replay)
    requeue = _call(verbs.requeue)
    discard = _call(verbs.discard)

    ledger = _call(verbs.ledger)
    verify = _call(verbs.verify)
    status = _call(verbs.status)
    backlog = _call(verbs.backlog)
    outages = _call(verbs.outages)
    workers = _call(verbs.workers)
    samples = _call(verbs.samples)

    @wraps(verbs.events)
    async def events(self, timeline: str | None = None, last: str | None = None) -> AsyncIterator[ServiceEvent]:
        following = Following(self._address, timeline, last, patience=self._patience)
        while True:
            ends: list[Reply | NotSent | Lost] = []
            async for event in self._follow(following, ends):
                yield event
            await asyncio.sleep(following.after_loss(ends[0], monotonic))

    async def close(self) -> None:
        """Close connections that are kept. The client can be used further."""
        session, sockets, self._session = self._session, self._sockets, None
        if session is not None:
            await session.close()
            await sockets.end()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _make(self, call: Call[T]) -> T:
        """Take the steps of a call."""
        steps = exchange(self._address, call, patience=self._patience, clock=monotonic)
        taken: Reply | NotSent | Lost | None = None
        try:
            while True:
                taken = await self._take(steps.send(taken))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _take(self, step: Request | Wait) -> Reply | NotSent | Lost | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        return await self._send(step)

    async def _items(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        after: str | None = None
        while True:
            items, after = await self._make(pages.page(after))
            for item in items:
                yield item
            if after is None:
                return

    async def _send(self, request: Request) -> Reply | NotSent | Lost:
        try:
            async with self._ask(request, aiohttp.ClientTimeout(total=self._timeout)) as response:
                return _reply(response, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return NotSent(words_of(error))
        except (aiohttp.ClientError, OSError) as error:
            return Lost(words_of(error))

    async def _follow(
        self, following: Following, ends: list[Reply | NotSent | Lost]
    ) -> AsyncGenerator[ServiceEvent, None]:
        """Events until the connection is lost; how that went is put into `ends`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=SILENCE)
        try:
            async with self._ask(self._address.request(following.call), timeout) as response:
                if response.status != 200:
                    ends.append(_reply(response, await response.read()))
                    return
                while line := await response.content.readline():
                    if event := following.after_line(line):
                        yield event
        except aiohttp.ClientConnectorError as error:
            ends.append(NotSent(words_of(error)))
        except (aiohttp.ClientError, OSError) as error:
            ends.append(Lost(words_of(error)))
        else:
            ends.append(Lost("it ended"))

    def _ask(self, request: Request, timeout: aiohttp.ClientTimeout) -> Any:
        return self._open_session().request(
            request.method,
            URL(f"{self._address.origin}{request.target}", encoded=True),
            data=request.body,
            headers=request.headers,
            timeout=timeout,
            allow_redirects=False,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        """The session of the running loop. Connections of a loop that has ended can't be used."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._sockets = Sockets()
            connector = aiohttp.TCPConnector(
                ssl=self._tls or True, keepalive_timeout=IDLE_SECONDS, limit=0, socket_factory=self._sockets
            )
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            # aiohttp has no option for it, and would repeat a DELETE whose answer was lost.
            self._session._retry_connection = False
            self._loop = loop
        return self._session


def _reply(response: aiohttp.ClientResponse, body: bytes) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, body)
