"""`digest()` is used in a `with` block; any other use is answered with how to write one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from digestif import AsyncDigests, Digests


async def iterated(block: Any) -> None:
    async for _ in block:
        pass


async def awaited(block: Any) -> None:
    await block


async def entered(block: Any) -> None:
    with block:
        pass


async def entered_asynchronously(block: Any) -> None:
    async with block:
        pass


@pytest.mark.parametrize("use", [list, len, next, lambda block: block[0]])
def test_a_digest_without_a_block_says_to_use_with(use: Callable[[Any], object]) -> None:
    digests, async_digests = Digests("memory://"), AsyncDigests("memory://")

    with pytest.raises(TypeError, match=r'in a block: with digests\.digest\("mail:ada"\) as digest: …$'):
        use(digests.digest("t"))
    with pytest.raises(TypeError, match=r'in a block: async with digests\.digest\("mail:ada"\) as digest: …$'):
        use(async_digests.digest("t"))


def test_a_digest_that_is_held_without_a_block_is_true() -> None:
    assert bool(Digests("memory://").digest("t"))
    assert bool(AsyncDigests("memory://").digest("t"))


def test_an_attribute_of_a_digest_without_a_block_says_to_use_with() -> None:
    block = Digests("memory://").digest("t")

    with pytest.raises(AttributeError, match=r"records: digest.. opens a digest in a block: with"):
        _ = block.records  # type: ignore[attr-defined]
    assert not hasattr(block, "records")


@pytest.mark.parametrize("use", [iterated, awaited, entered])
def test_asynchronous_digests_say_to_use_async_with(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="in a block: async with"):
        asyncio.run(use(AsyncDigests("memory://").digest("t")))


def test_synchronous_digests_in_an_async_with_say_to_use_with() -> None:
    with pytest.raises(TypeError, match="in a block: with"):
        asyncio.run(entered_asynchronously(Digests("memory://").digest("t")))
