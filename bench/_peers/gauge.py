"""The processor time and the memory of a family of processes, sampled while it works."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

EVERY = 0.25  # seconds
TICKS = os.sysconf("SC_CLK_TCK")


class Gauge:
    """Samples all descendants of some processes. What a process used since its last sample before its end is missed."""

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self.peak = 0.0  # MiB
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    @property
    def seconds(self) -> float:
        """The processor time of all of them since the start."""
        return sum(used - self._first.get(pid, 0.0) for pid, used in self._last.items())

    def _watch(self) -> None:
        while not self._done.wait(EVERY):
            self._sample()

    def _sample(self) -> None:
        memory = 0.0
        for pid, used in family(self._roots()).items():
            self._last[pid] = max(used, self._last.get(pid, 0.0))
            memory += memory_of(pid)
        self.peak = max(self.peak, memory)


def family(roots: Iterable[int]) -> dict[int, float]:
    """Return the processor seconds of these processes and of all their descendants that live."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
    wanted = set(roots)
    return {pid: seconds for pid, seconds in used.items() if _descends(pid, wanted, parents)}


def _descends(pid: int, wanted: set[int], parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid in wanted:
            return True
        pid = parents[pid]
    return False


def memory_of(pid: int) -> float:
    """Return the MiB of a process; pages that several share count for each of them in part."""
    with suppress(OSError, StopIteration), Path(f"/proc/{pid}/smaps_rollup").open() as rollup:
        return int(next(line for line in rollup if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0
