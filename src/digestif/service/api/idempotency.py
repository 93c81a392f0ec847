"""`Idempotency-Key`: a request that comes again gets the answer of the first, byte for byte, and does nothing.

A reservation is kept before anything is done, the answer afterwards. Records without keys get ones that derive from the
token and the key: if a process dies in between, the repeated request replaces what is still pending.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256

import msgspec
from msgspec import Struct

from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request
from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document

Call = Callable[[Request, bytes, str | None], Awaitable[Answer]]

COLLECTION = "idempotency"
BOUNDS = Bounds(entries=100_000, bytes=200 << 20, age=86_400_000)
LONGEST = 255  # characters of a key
VALID = re.compile(rb"[!-~]{1,%d}" % LONGEST)
ABANDONED = 60_000  # milliseconds after which a reservation without an answer counts as given up


class Kept(Struct, frozen=True):
    """What is kept under a key: which request it was, and its answer once there is one."""

    request: str  # a hash
    at: int  # milliseconds
    status: int | None = None
    body: bytes = b""


_decode = msgspec.msgpack.Decoder(Kept).decode


async def once(request: Request, key: bytes, body: bytes, call: Call) -> Answer:
    """Answer a request with a key: anew, or as the first time."""
    if not VALID.fullmatch(key):
        raise Problem(400, f"Idempotency-Key: give 1 to {LONGEST} visible ASCII characters")
    seed = f"{request.principal.name}\0{key.decode()}"
    name = sha256(seed.encode()).hexdigest()
    asked = sha256(request.scope["raw_path"] + b"\0" + body).hexdigest()
    store = request.service.digests.store
    earlier = await request.service.in_thread(partial(_reserve, store, name, asked))
    if earlier is not None:
        return _repeated(earlier, asked)
    forget = partial(store.forget, COLLECTION, name)
    try:
        given = await call(request, body, seed)
    except BaseException:
        await request.service.in_thread(forget)
        raise
    is_refused = given.status >= 400  # nothing was accepted
    await request.service.in_thread(forget if is_refused else partial(_keep_answer, store, name, asked, given))
    return given


def _reserve(store: Store, name: str, asked: str) -> Kept | None:
    """Reserve the key; what is kept under it if another request has it."""
    now = store.time(0)
    document = Document(name, msgspec.msgpack.encode(Kept(asked, now)))
    if store.keep(COLLECTION, document, bounds=BOUNDS, now=now):
        return None
    found = store.kept(COLLECTION, name, now=now)
    earlier = None if found is None else _decode(found.body)
    if earlier is not None and (earlier.status is not None or now - earlier.at < ABANDONED):
        return earlier
    store.keep(COLLECTION, document, bounds=BOUNDS, replace=True, now=now)
    return None


def _keep_answer(store: Store, name: str, asked: str, given: Answer) -> None:
    now = store.time(0)
    body = msgspec.msgpack.encode(Kept(asked, now, given.status, given.body))
    store.keep(COLLECTION, Document(name, body), bounds=BOUNDS, replace=True, now=now)


def _repeated(earlier: Kept, asked: str) -> Answer:
    if earlier.request != asked:
        raise Problem(422, "Idempotency-Key: another request had this key; give each request one of its own")
    if earlier.status is None:
        raise Problem(409, "Idempotency-Key: the first request with this key is under way", retry_after=1)
    return Answer(earlier.status, earlier.body, headers=((b"idempotent-replayed", b"true"),))
