"""Subject: processes that add concurrently, each record to a new timeline, which becomes ready or waits at first."""

import multiprocessing
from collections.abc import Callable
from functools import cache, partial
from itertools import count

from bench._blocks import Block
from bench._workload import VALUE
from digestif import Digests, Policy


class Crowd:
    """Processes that each add so many single records in a block."""

    def __init__(self, url: str, *, processes: int, adds: int) -> None:
        self._pool = multiprocessing.get_context("spawn").Pool(processes)
        self._url = url
        self._processes = processes
        self._adds = adds
        self._numbers = count()

    def block(self, *, first_delay: float) -> Block:
        """Make a block. Without a delay each add notifies the workers; with one, none does."""

        def made() -> Callable[[], None]:
            names = [f"{next(self._numbers)}:" for _ in range(self._processes)]
            add = partial(_add, self._url, first_delay, self._adds)
            return lambda: list(self._pool.imap(add, names)).clear()

        return made

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


def _add(url: str, first_delay: float, adds: int, name: str) -> None:
    digests = _opened(url, first_delay)
    for number in range(adds):
        digests.add(f"{name}{number}", VALUE)


@cache
def _opened(url: str, first_delay: float) -> Digests:
    return Digests(url, policy=Policy(first_delay=first_delay))
