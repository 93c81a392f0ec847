"""A service, and both clients of it under one face."""

import asyncio
from collections.abc import Callable, Iterator
from inspect import isasyncgen, isawaitable
from typing import Any

import pytest

from digestif import Policy
from digestif.client import AsyncClient, Client
from digestif.service.service import Service
from tests.service.harness import serving, settings_with, token_of

POLICY = Policy(first_delay=3600, attempts=1)


class Verbs:
    """Calls the verbs of a client, and waits for those of the asynchronous one."""

    def __init__(self, client: Client | AsyncClient, runner: asyncio.Runner) -> None:
        self.client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._waited(getattr(self.client, name)(*args, **kwargs))

    def _waited(self, answer: Any) -> Any:
        if isasyncgen(answer):
            return self._iterated(answer)
        return self._runner.run(_awaited(answer)) if isawaitable(answer) else answer

    def _iterated(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._runner.run(_awaited(anext(items)))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(_awaited(items.aclose()))


async def _awaited(answer: Any) -> Any:
    return await answer


Make = Callable[..., Verbs]


@pytest.fixture(params=["threads", "asyncio"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes clients of one kind."""
    made: list[Verbs] = []
    with asyncio.Runner() as runner:

        def make(url: str, token: Any = None, **options: Any) -> Verbs:
            kind: Any = Client if request.param == "threads" else AsyncClient
            made.append(Verbs(kind(url, token, **options), runner))
            return made[-1]

        yield make
        for each in made:
            each.close()


@pytest.fixture
def running() -> Iterator[tuple[str, str, Service]]:
    """The address of a service on SQLite in memory, a token for everything, and the service."""
    text, token = token_of("ada")
    with serving("sqlite://", settings=settings_with(token), policy=POLICY) as (client, service):
        yield client.url, text, service


@pytest.fixture
def service(running: tuple[str, str, Service]) -> Service:
    return running[2]


@pytest.fixture
def client(running: tuple[str, str, Service], make: Make) -> Verbs:
    url, token, _ = running
    return make(url, token, patience=5.0)
