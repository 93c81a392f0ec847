"""What `digest()` returns: it opens the digest in a `with` block, and answers any other use with how to write one."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, ParamSpec

from digestif.core.records import Digest

P = ParamSpec("P")

SYNC = 'digest() opens a digest in a block: with digests.digest("mail:ada") as digest: …'
ASYNC = 'digest() of AsyncDigests opens a digest in a block: async with digests.digest("mail:ada") as digest: …'


class _Refusals:
    """Answers the uses that people try without a block. Type checkers do not see them, and report such a use."""

    _answer: str

    if not TYPE_CHECKING:

        def _refuse(self, *_: object) -> NoReturn:
            raise TypeError(self._answer)

        __iter__ = __next__ = __len__ = __getitem__ = __await__ = __aiter__ = _refuse

        def __bool__(self) -> bool:  # without this, `if block` asks for its length
            return True

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):  # Python itself asks for these
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{name}: {self._answer}")


class DigestBlock(_Refusals, AbstractContextManager[Digest]):
    """A digest that a `with` block opens and delivers."""

    _answer = SYNC

    def __init__(self, opening: AbstractContextManager[Digest]) -> None:
        self._opening = opening

    def __enter__(self) -> Digest:
        return self._opening.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._opening.__exit__(kind, error, trace)

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = _Refusals._refuse


class AsyncDigestBlock(_Refusals, AbstractAsyncContextManager[Digest]):
    """A digest that an `async with` block opens and delivers."""

    _answer = ASYNC

    def __init__(self, opening: AbstractAsyncContextManager[Digest]) -> None:
        self._opening = opening

    async def __aenter__(self) -> Digest:
        return await self._opening.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opening.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:
        __enter__ = __exit__ = _Refusals._refuse


def digest_block(call: Callable[P, Iterator[Digest]]) -> Callable[P, DigestBlock]:
    """Let a generator that yields a digest be used in a `with` block."""
    opening = contextmanager(call)

    @wraps(call)
    def block(*args: P.args, **kwargs: P.kwargs) -> DigestBlock:
        return DigestBlock(opening(*args, **kwargs))

    return block


def async_digest_block(call: Callable[P, AsyncIterator[Digest]]) -> Callable[P, AsyncDigestBlock]:
    """Let an asynchronous generator that yields a digest be used in an `async with` block."""
    opening = asynccontextmanager(call)

    @wraps(call)
    def block(*args: P.args, **kwargs: P.kwargs) -> AsyncDigestBlock:
        return AsyncDigestBlock(opening(*args, **kwargs))

    return block
