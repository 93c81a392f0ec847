"""Coroutines that run as long as a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[Sequence[asyncio.Task[None]]]:
    """Run coroutines beside the block; cancel them at its end."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for each in tasks:
            each.cancel()
