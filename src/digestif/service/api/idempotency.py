"""`Idempotency-Key`: a request that comes again gets the answer of the first, byte for byte, and does nothing.

A reservation is kept before anything is done, and renewed until the answer is kept. If a process dies in between, or
the store fails, it may have the records or not: the same request, and no other, may take the reservation over and add
them again. Records without keys get ones that derive from the random seed of the reservation, which is taken over with
it: what is still pending is replaced, and counted as superseded; what was delivered meanwhile comes again. A later use
of the key, once this one is forgotten, has another seed and replaces nothing.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.ids import fresh_id
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request
from digestif.service.service import Service
from digestif.service.waits import to_its_end
from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document

Call = Callable[[Request, bytes, str | None], Awaitable[Answer]]

COLLECTION = "idempotency"
BOUNDS = Bounds(entries=100_000, bytes=200 << 20, age=86_400_000)
LONGEST = 255  # characters of a key
VALID = re.compile(rb"[!-~]{1,%d}" % LONGEST)
ABANDONED = 10_000  # milliseconds without a renewal, after which the process of a request counts as dead
RENEWED_EVERY = 3.0  # seconds


class Kept(Struct, frozen=True):
    """What is kept under a key: which request it was, and its answer once there is one."""

    request: str  # a hash
    at: int  # milliseconds
    status: int | None = None
    body: bytes = b""
    seed: str = ""  # of the keys of records without one; documents of older versions have none


_decode = msgspec.msgpack.Decoder(Kept).decode


async def once(request: Request, key: bytes, body: bytes, call: Call) -> Answer:
    """Answer a request with a key: anew, or as the first time."""
    if not VALID.fullmatch(key):
        raise Problem(400, f"Idempotency-Key: give 1 to {LONGEST} visible ASCII characters")
    return await to_its_end(_once(request, key.decode(), body, call))  # the next one gets its answer


async def _once(request: Request, key: str, body: bytes, call: Call) -> Answer:
    token_and_key = f"{request.principal.name}\0{key}"
    name = sha256(token_and_key.encode()).hexdigest()
    asked = sha256(request.scope["raw_path"] + b"\0" + body).hexdigest()
    store, in_thread = request.service.digests.store, request.service.in_thread
    found = await in_thread(partial(_reserve, store, name, asked))
    if not found.is_own:
        return _repeated(found.kept, asked)
    try:
        async with _renewed(request.service, partial(_renew, store, name), found.kept):
            given = await call(request, body, found.kept.seed or token_and_key)  # as older versions did
    except Exception as error:
        end = _abandon if isinstance(error, StoreError) else _forget  # the store may have the records
        with suppress(StoreError):
            await in_thread(partial(end, store, name, found.kept))
        raise
    is_refused = given.status >= 400  # nothing was accepted
    end = _forget if is_refused else partial(_keep_answer, given=given)
    await in_thread(partial(end, store, name, found.kept))
    return given


class Found(NamedTuple):
    """What is kept under a key, and whether that is the reservation of this request."""

    kept: Kept
    is_own: bool


def _reserve(store: Store, name: str, asked: str) -> Found:
    """Reserve the key, unless another request has it."""
    now = store.time(0)
    own = Kept(asked, now, seed=fresh_id())
    if _keep(store, name, own, anyway=False):
        return Found(own, is_own=True)
    earlier = _kept(store, name, now)
    if earlier is None:  # it was given up just now
        return _reserve(store, name, asked)
    may_take_over = earlier.request == asked and _is_abandoned(earlier, now)
    if not may_take_over or not _reserve(store, f"{name}/{earlier.at}", asked).is_own:  # of several, one takes it over
        return Found(earlier, is_own=False)
    taken_over = replace(own, seed=earlier.seed)
    _keep(store, name, taken_over)
    return Found(taken_over, is_own=True)


def _is_abandoned(kept: Kept, now: Millis) -> bool:
    """True if there will be no answer: the process of the request died, or the store failed."""
    return kept.status is None and now - kept.at >= ABANDONED


@asynccontextmanager
async def _renewed(service: Service, renew: Callable[[Kept], Kept], own: Kept) -> AsyncIterator[None]:
    """Renew a reservation during the block. After it no renewal is under way, which would replace the answer."""
    over = asyncio.Event()

    async def renew_often() -> None:
        kept = own
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), RENEWED_EVERY)
                return
            with suppress(StoreError):
                kept = await service.in_thread(partial(renew, kept))

    renewing = asyncio.create_task(renew_often())
    try:
        yield
    finally:
        over.set()
        await renewing


def _renew(store: Store, name: str, own: Kept) -> Kept:
    """Set the reservation to now, unless another request has taken it over."""
    now = store.time(0)
    if _kept(store, name, now) != own:
        return own
    renewed = replace(own, at=now)
    _keep(store, name, renewed)
    return renewed


def _abandon(store: Store, name: str, own: Kept) -> None:
    """Let the same request take the reservation over."""
    _keep(store, name, replace(own, at=store.time(0) - ABANDONED))


def _forget(store: Store, name: str, _: Kept) -> None:
    store.forget(COLLECTION, name)


def _keep_answer(store: Store, name: str, own: Kept, *, given: Answer) -> None:
    _keep(store, name, Kept(own.request, store.time(0), given.status, given.body))


def _keep(store: Store, name: str, kept: Kept, *, anyway: bool = True) -> bool:
    document = Document(name, msgspec.msgpack.encode(kept))
    return store.keep(COLLECTION, document, bounds=BOUNDS, replace=anyway, now=kept.at)


def _kept(store: Store, name: str, now: Millis) -> Kept | None:
    found = store.kept(COLLECTION, name, now=now)
    return None if found is None else _decode(found.body)


def _repeated(earlier: Kept, asked: str) -> Answer:
    if earlier.request != asked:
        raise Problem(422, "Idempotency-Key: another request had this key; give each request one of its own")
    if earlier.status is None:
        raise Problem(409, "Idempotency-Key: the first request with this key is under way", retry_after=1)
    return Answer(earlier.status, earlier.body, headers=((b"idempotent-replayed", b"true"),))
