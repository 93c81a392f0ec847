"""A service under a real server on a free port of loopback, and a client that changes nothing of what it is given."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import quote

import uvicorn

from digestif import AsyncDigests
from digestif.core.secret import Secret
from digestif.service.app import application
from digestif.service.security.tokens import fresh_token, hash_of
from digestif.service.server import uvicorn_config
from digestif.service.service import Service
from digestif.service.settings import Limits, Scope, Settings, Token

ALL = frozenset(Scope)
TIMEOUT = 20.0  # seconds, for an answer


class Reply(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends requests to a service, each on a connection of its own unless one is held."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port = port
        self.token = token
        self.url = f"http://127.0.0.1:{port}"

    def by(self, token: str | None) -> "Client":
        """The same for the holder of another token."""
        return Client(self.port, token)

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        connection: HTTPConnection | None = None,
    ) -> Reply:
        """Send a request. A body that is not bytes is sent as JSON."""
        all_headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        all_headers.update(headers or {})
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own = connection or self.connect()
        try:
            own.request(method, path, body=payload, headers=all_headers)
            return reply_of(own.getresponse())
        finally:
            if connection is None:
                own.close()

    def get(self, path: str, **options: Any) -> Reply:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.send("POST", path, body, **options)

    def add(self, timeline: str, value: Any, **record: Any) -> Reply:
        return self.post(f"/v1/timelines/{segment(timeline)}/records", {"value": value, **record})


def reply_of(response: HTTPResponse) -> Reply:
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def segment(key: str) -> str:
    """A key as one segment of a path. Clients take dots for steps up and down unless they are encoded."""
    return quote(key, safe="").replace(".", "%2E")


def token_of(name: str, *scopes: Scope, prefix: str = "") -> tuple[str, Token]:
    """A fresh token, and its entry in the settings."""
    text = fresh_token()
    return text, Token(name=name, hash=hash_of(text), scopes=frozenset(scopes or ALL), prefix=prefix)


def settings_with(*tokens: Token, limits: Limits | None = None, **more: Any) -> Settings:
    return Settings(store=Secret("memory://"), tokens=tokens, limits=limits or Limits(), **more)


@contextmanager
def served(service: Service, **options: Any) -> Iterator[Client]:
    """Run a service in a thread, and give a client without a token."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(application(service), **options))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield Client(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(TIMEOUT)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def serving(
    store: str = "memory://", settings: Settings | None = None, **engine: Any
) -> Iterator[tuple[Client, Service]]:
    """A service with an engine of its own, which is closed in the end."""
    service = Service(settings or settings_with(), AsyncDigests(store, **engine))
    try:
        with served(service) as client:
            yield client, service
    finally:
        with ThreadPoolExecutor(1) as beside:  # Playwright's event loop runs in the thread of a browser test
            beside.submit(asyncio.run, service.digests.close()).result()
