"""Processes that write to one file at once: how often they add, and how long they wait."""

import json
import os
import sys

from digestif import Digests
from digestif.clock import monotonic
from tests.children import Child, Gate, Report, killed_at_the_end
from tests.stores.sqlite.soundness import check_sound

PROCESSES = 8
SECONDS = 1.5


def write_at_once(path: str) -> dict[str, float]:
    return measure(path, batches=[1] * PROCESSES)


def write_beside_batches(path: str) -> dict[str, float]:
    return measure(path, batches=[1000] + [1] * (PROCESSES - 1))


def measure(path: str, *, batches: list[int]) -> dict[str, float]:
    """Let one process write for each size of batch; return figures about those that add singly."""
    Digests(f"sqlite:///{path}").close()
    gate = Gate()
    children = [Child(write, path, size, gate) for size in batches]
    with killed_at_the_end(children):
        gate.open()
        answers = [json.loads(child.finish()[0]) for child in children]
    check_sound(path)
    counts, waits = zip(*[answer for answer, size in zip(answers, batches, strict=True) if size == 1], strict=True)
    account = {"longest wait": max(waits), "fewest adds": min(counts), "most adds": max(counts)}
    sys.stderr.write(f"{account}\n")
    return account


def write(path: str, size: int, gate: Gate, report: Report) -> None:
    """Add for a while; report how often, and the longest time of an add."""
    count, longest = 0, 0.0
    with Digests(f"sqlite:///{path}") as digests:
        gate.wait()
        now = begun = monotonic()
        while now < begun + SECONDS:
            digests.add_many([(f"of {os.getpid()}", count)] * size)
            count += 1
            before, now = now, monotonic()
            longest = max(longest, now - before)
    report(json.dumps([count, longest]))
