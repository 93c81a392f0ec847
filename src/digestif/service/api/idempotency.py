"""`Idempotency-Key`: a request that comes again gets the answer of the first, byte for byte, and does nothing.

Which keys are under way in this process is known here. For other processes a reservation is kept before anything is
done, and renewed until the answer is kept. If a process dies in between, or the store fails, the store may have the
records or not: the same request, and no other, may take the reservation over and add them again. Records without keys
get ones that derive from the random seed of the reservation, which is taken over with it: what is still pending is
replaced, and counted as superseded; what was delivered in between comes again. A later use of the key, once this one is
forgotten, has another seed and replaces nothing.
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

from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.ids import fresh_id
from digestif.service.api.bodies import QUICK
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request
from digestif.service.service import Service
from digestif.service.turns import Turns
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
    at: int  # milliseconds; for older versions: others read the time of the document, which is that of its commit
    status: int | None = None
    body: bytes = b""
    seed: str = ""  # of the keys of records without one; documents of older versions have none
    owner: str = ""  # which request has reserved the key


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Kept).decode


class KeysUnderWay:
    """The requests with a key that this process works on, by the names of their reservations."""

    def __init__(self, _: Service) -> None:
        self.asked: dict[str, str] = {}


async def once(request: Request, key: bytes, body: bytes, call: Call) -> Answer:
    """Answer a request with a key: by the call, or as the first time."""
    if not VALID.fullmatch(key):
        raise Problem(400, f"Idempotency-Key: give 1 to {LONGEST} visible ASCII characters")
    token_and_key = f"{request.principal.name}\0{key.decode()}"
    name = sha256(token_and_key.encode()).hexdigest()
    asked = await _hash(request, body)
    under_way = request.service.part(KeysUnderWay).asked
    if name in under_way:
        return _repeated(Kept(under_way[name], 0), asked)

    async def work() -> Answer:
        try:
            return await _once(request, Asked(name, asked, token_and_key, request.principal.prefix), body, call)
        finally:
            del under_way[name]

    under_way[name] = asked
    return await to_its_end(work())  # also if its client leaves: the next one gets its answer


async def _hash(request: Request, body: bytes) -> str:
    """Hash a request. That of a long body is made in a thread, and lets others run."""
    hashed = sha256(request.scope["raw_path"] + b"\0")
    if len(body) <= QUICK:
        hashed.update(body)
    else:
        await request.service.part(Turns).call(partial(hashed.update, body))
    return hashed.hexdigest()


class Asked(NamedTuple):
    """A request with a key: the name of its reservation, a hash of what it asks, and the seed of older versions."""

    name: str
    request: str
    old_seed: str
    ring: str  # of the token's prefix: other tokens do not push the reservation out


async def _once(request: Request, asked: Asked, body: bytes, call: Call) -> Answer:
    service, store = request.service, request.service.digests.store
    found = await service.in_thread(partial(_reserve, store, asked.name, asked.request, asked.ring))
    if not found.is_own:
        return _repeated(found.kept, asked.request)
    own = Reservation(store, asked.name, found.kept, asked.ring)
    try:
        async with _renewed(service, own):
            given = await call(request, body, found.kept.seed or asked.old_seed)
    except Exception as error:
        end = own.abandon if isinstance(error, StoreError) else own.forget  # the store may have the records
        with suppress(StoreError):
            await service.in_thread(end)
        raise
    is_refused = given.status >= 400  # nothing was accepted
    await service.in_thread(own.forget if is_refused else partial(own.keep_answer, given))
    return given


class Found(NamedTuple):
    """What is kept under a key, and whether that is the reservation of this request."""

    kept: Kept
    is_own: bool


def _reserve(store: Store, name: str, asked: str, ring: str = "") -> Found:
    """Reserve the key, unless another request has it.

    While the store could not be written, others could not renew theirs: after a long wait none is taken over, and an
    own one is renewed, since others may have found it too old.
    """
    began = monotonic()
    own = Kept(asked, store.time(0), seed=fresh_id(), owner=fresh_id())
    if not _keep(store, name, own, ring=ring):
        earlier = store.kept(COLLECTION, name, now=None)
        if earlier is None:  # it was given up just now
            return _reserve(store, name, asked, ring)
        kept = _decode(earlier.body)
        if not _is_abandoned(earlier, store.time(0)) or kept.request != asked or _is_long_ago(began):
            return Found(kept, is_own=False)
        own = replace(own, seed=kept.seed)
        if not _keep(store, name, own, ring=ring, instead_of=earlier.body):  # of several, one takes it over
            return Found(kept, is_own=False)
    reservation = Reservation(store, name, own, ring)
    while _is_long_ago(began):
        began = monotonic()
        if not reservation.renew():
            return Found(own, is_own=False)
    return Found(reservation.kept, is_own=True)


def _is_abandoned(document: Document, now: Millis) -> bool:
    """True if there will be no answer: the process of the request died, or the store failed."""
    return _decode(document.body).status is None and abs(now - document.at) >= ABANDONED  # a clock may be set back


def _is_long_ago(began: float) -> bool:
    return monotonic() - began >= RENEWED_EVERY


class Reservation:
    """The reservation of a request that is under way. Its methods change nothing if another has taken it over."""

    def __init__(self, store: Store, name: str, kept: Kept, ring: str = "") -> None:
        self._store, self._name, self._ring = store, name, ring
        self.kept = kept

    def renew(self) -> bool:
        """Set it to now; False if another request has taken it over."""
        return self._replace(replace(self.kept, at=self._store.time(0)))

    def abandon(self) -> None:
        """Let the same request take it over."""
        at = self._store.time(0) - ABANDONED
        self._replace(replace(self.kept, at=at), now=at)

    def forget(self) -> None:
        there: bytes | None = _encode(self.kept)
        while there is not None and not self._store.forget(COLLECTION, self._name, body=there):
            found = self._store.kept(COLLECTION, self._name, now=None)
            there = found.body if found is not None and self._is_own(found) else None

    def keep_answer(self, given: Answer) -> None:
        self._replace(Kept(self.kept.request, self.kept.at, given.status, given.body))

    def _replace(self, kept: Kept, *, now: Millis | None = None) -> bool:
        """Replace what is kept. If a commit got no answer, it may not be what is known here: then it is read."""
        there: bytes | None = _encode(self.kept)
        while not _keep(self._store, self._name, kept, ring=self._ring, instead_of=there, now=now):
            found = self._store.kept(COLLECTION, self._name, now=None)
            if found is not None and not self._is_own(found):
                return False
            there = None if found is None else found.body
        self.kept = kept
        return True

    def _is_own(self, found: Document) -> bool:
        """True if no other has taken it over, though a commit that got no answer may have changed it."""
        return _decode(found.body).owner == self.kept.owner


@asynccontextmanager
async def _renewed(service: Service, own: Reservation) -> AsyncIterator[None]:
    """Renew a reservation during the block. After it no renewal is under way, which would replace the answer."""
    over = asyncio.Event()

    async def renew_often() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), RENEWED_EVERY)
                return
            with suppress(StoreError):
                await service.in_thread(own.renew)

    renewing = asyncio.create_task(renew_often())
    try:
        yield
    finally:
        over.set()
        await renewing


def _keep(
    store: Store, name: str, kept: Kept, *, ring: str, instead_of: bytes | None = None, now: Millis | None = None
) -> bool:
    document = Document(name, _encode(kept), ring=ring)
    return store.keep(COLLECTION, document, bounds=BOUNDS, replace=False if instead_of is None else instead_of, now=now)


def _repeated(earlier: Kept, asked: str) -> Answer:
    if earlier.request != asked:
        raise Problem(422, "Idempotency-Key: another request had this key; give each request one of its own")
    if earlier.status is None:
        raise Problem(409, "Idempotency-Key: the first request with this key is under way", retry_after=1)
    return Answer(earlier.status, earlier.body, headers=((b"idempotent-replayed", b"true"),))
