"""`Client`: the service for threads, on the standard library."""

import os
import select
import ssl
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import wraps
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import sleep
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

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

P = ParamSpec("P")
T = TypeVar("T")


def _call(verb: Callable[P, Call[T]]) -> "Callable[Concatenate[Client, P], T]":
    @wraps(verb)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._make(verb(*args, **kwargs))

    return method


def _batch(verb: Callable[P, Batch[T]]) -> "Callable[Concatenate[Client, P], T]":
    @wraps(verb)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        batch = verb(*args, **kwargs)
        answer: T = batch.read([outcome for call in batch.calls for outcome in self._make(call)])
        return answer

    return method


def _pages(verb: Callable[P, Pages[T]]) -> "Callable[Concatenate[Client, P], Iterator[T]]":
    @wraps(verb)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._items(verb(*args, **kwargs))

    return method


class Client:
    """A service at an address, with the verbs of `Digests`. Threads may share it; connections are kept and reused.

    `timeout` is for one answer. `patience` is how long calls are made again that got no connection, lost it, or were
    put off (429, 503): adding is safe then, as the service knows a call that it has answered before. Others are not
    made again if the service may have done them. `ca` is a file with certificates to trust instead of the system's.
    """

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
        self._lock = threading.Lock()
        self._idle: deque[tuple[HTTPConnection, float]] = deque()  # and when it was used last
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"Client({self._address.origin!r})"

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
    def events(self, timeline: str | None = None, last: str | None = None) -> Iterator[ServiceEvent]:
        following = Following(self._address, timeline, last, patience=self._patience)
        while True:
            reply = yield from self._follow(following)
            sleep(following.after_loss(reply, monotonic))

    def close(self) -> None:
        """Close connections that are kept. The client can be used further."""
        with self._lock:
            while self._idle:
                self._idle.pop()[0].close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, call: Call[T]) -> T:
        """Take the steps of a call."""
        steps = exchange(self._address, call, patience=self._patience, clock=monotonic)
        taken: Reply | NotSent | Lost | None = None
        try:
            while True:
                taken = self._take(steps.send(taken))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _take(self, step: Request | Wait) -> Reply | NotSent | Lost | None:
        if isinstance(step, Wait):
            sleep(step.seconds)
            return None
        return self._send(step)

    def _items(self, pages: Pages[T]) -> Iterator[T]:
        after: str | None = None
        while True:
            items, after = self._make(pages.page(after))
            yield from items
            if after is None:
                return

    def _send(self, request: Request) -> Reply | NotSent | Lost:
        try:
            connection = self._idle_connection() or self._connect()
        except OSError as error:
            return NotSent(words_of(error))
        try:
            response = _asked(connection, request)
            reply = _reply(response, response.read())
        except (OSError, HTTPException) as error:
            connection.close()
            return Lost(words_of(error))
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)
        return reply

    def _follow(self, following: Following) -> Generator[ServiceEvent, None, Reply | NotSent | Lost]:
        """Events until the connection is lost; returns how that went."""
        try:
            connection = self._connect(SILENCE)
        except OSError as error:
            return NotSent(words_of(error))
        with closing(connection):
            try:
                response = _asked(connection, self._address.request(following.call))
                if response.status != 200:
                    return _reply(response, response.read())
                while line := response.readline():
                    if event := following.after_line(line):
                        yield event
            except (OSError, HTTPException) as error:
                return Lost(words_of(error))
        return Lost("it ended")

    def _connect(self, timeout: float | None = None) -> HTTPConnection:
        host, port, seconds = self._address.host, self._address.port, timeout or self._timeout
        if self._tls is None:
            connection = HTTPConnection(host, port, timeout=seconds)
        else:
            connection = HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        connection.connect()
        return connection

    def _idle_connection(self) -> HTTPConnection | None:
        """A connection of an earlier call that the service has not closed."""
        while True:
            with self._lock:
                if self._process != os.getpid():  # those of a parent are its own
                    self._idle.clear()
                    self._process = os.getpid()
                if not self._idle:
                    return None
                connection, used = self._idle.pop()
            if monotonic() - used < IDLE_SECONDS and not _has_ended(connection):
                return connection
            connection.close()

    def _keep(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            self._idle.append((connection, monotonic()))


def _has_ended(connection: HTTPConnection) -> bool:
    """True if there is something to read, though nothing was asked: the end."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _asked(connection: HTTPConnection, request: Request) -> HTTPResponse:
    connection.request(request.method, request.target, body=request.body, headers=dict(request.headers))
    return connection.getresponse()


def _reply(response: HTTPResponse, body: bytes) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)
