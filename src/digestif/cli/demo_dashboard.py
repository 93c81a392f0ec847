"""The dashboard at the end of the demo: a link that works until a key is pressed."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from digestif.cli.serve import load_runtime
from digestif.core.policy import Policy
from digestif.core.secret import Secret
from digestif.errors import ConfigError


async def shown_until_key(store: str, policy: Policy, *, say: Callable[[str], None]) -> None:
    """Serve a store on a free port of this computer. Without the extra, say what to install."""
    from digestif.service.settings import Settings

    def announce(address: str) -> None:
        say(f"\n This run in the dashboard, until you press a key: {address}")

    try:
        runtime_class = load_runtime()
    except ConfigError as error:
        say(f"\n There is a dashboard, too: {error}")
        return
    settings = Settings(store=Secret(store), policy=str(policy), listen="127.0.0.1:0")
    runtime = runtime_class(settings, works=False, read=lambda: settings, ready=announce)
    serving = asyncio.create_task(runtime.serve())
    try:
        with _on_key(runtime.stop):
            await asyncio.shield(serving)
    except asyncio.CancelledError:
        runtime.stop()
        await serving
        raise


@contextmanager
def _on_key(call: Callable[[], None]) -> Iterator[None]:
    """Call it when a key is pressed, which need not be the one that ends a line."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        os.read(stdin, 1024)
        loop.remove_reader(stdin)
        call()

    tty.setcbreak(stdin)
    loop.add_reader(stdin, pressed)
    try:
        yield
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
