"""`Idempotency-Key`: a request that comes again gets the answer of the first, and does nothing."""

from collections.abc import Awaitable, Callable

from digestif.service.api.requests import Answer, Request

Call = Callable[[Request, bytes, str | None], Awaitable[Answer]]


async def once(request: Request, key: bytes, body: bytes, call: Call) -> Answer:
    raise NotImplementedError
