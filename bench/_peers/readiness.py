"""How a worker program begins and ends. Standard library only."""

import os
import signal
import sys
from threading import Thread


def tell_ready() -> None:
    """Tell the parent that the worker runs, and end with the parent, however that ends."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever sent: the pipe ends with the parent
    os.killpg(0, signal.SIGKILL)  # with the children: a program has a process group of its own
