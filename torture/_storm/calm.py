"""After a storm: everything that is left is delivered, and what became of the records is judged."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from digestif import Busy, Digest, Digests, Ledger, Move, StoreError
from digestif.clock import monotonic, wall_clock
from tests.worker.workers import working
from torture._storm.actor import Notes, ids_of
from torture._storm.deliverers import CHANNEL
from torture._storm.scene import FAMILIES, LEASE, POLICY, TIMELINES, split_place, store_of
from torture._storm.weather import FARTHEST, shifted_clock

TO_DELIVER = 300.0  # seconds to deliver everything
STANDSTILL = 45.0  # seconds in which something ends, unless a channel is away


class Rest(NamedTuple):
    """What a storm has left; it can be written as JSON."""

    place: str  # the store that everything is in, or is moved into
    moving: str | None  # the source of a move that the storm could not finish
    left: list[str]  # stores that were moved before
    notes: str  # a path
    has_jumps: bool

    def calm(self) -> tuple[list[str], dict[str, int]]:
        """Deliver everything, by a clock that is ahead of all times of the storm; return problems and the ledger."""
        with ExitStack() as stack:
            if self.has_jumps:
                stack.enter_context(shifted_clock(lambda: FARTHEST))
            problems = [] if self.moving is None else finished_move(self.moving, self.place)
            digests = stack.enter_context(opened(self.place, self.has_jumps))
            problems += delivered_in_the_end(digests, Notes(Path(self.notes)))
            problems += still_true(digests, self.place)
            for place in filter(None, (self.moving, *self.left)):
                problems += left_empty(stack.enter_context(opened(place, self.has_jumps)), place)
            ledger = digests.ledger()
        return problems, {name: getattr(ledger, name) for name in ledger.__slots__}


def calmed(rest: Rest, build: str) -> tuple[list[str], Ledger]:
    """Let a process of the last build deliver everything."""
    environment = {**os.environ, "PYTHONPATH": build} if build else None
    command = [sys.executable, "-m", "torture._storm.calm", json.dumps(rest)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    problems, ledger = json.loads(ended.stdout)
    return problems, Ledger(**ledger)


def opened(place: str, has_jumps: bool) -> Digests:
    dsn, namespace = split_place(place)
    clock = wall_clock if has_jumps else None
    return Digests(dsn, namespace=namespace, policy=POLICY, lease=LEASE, clock=clock)


def finished_move(source: str, target: str) -> list[str]:
    """Finish the move that the storm could not; return a problem if that is impossible."""
    try:
        with store_of(source) as here, store_of(target) as there:
            Move(here, there).run()
    except (Busy, StoreError) as error:
        return [f"the move can't be finished: {type(error).__name__}: {error}"]
    return []


def still_true(digests: Digests, place: str) -> Iterator[str]:
    if problems := digests.verify().problems:
        yield f"verify of {split_place(place)[1]}: {problems[:5]}"


def left_empty(digests: Digests, place: str) -> Iterator[str]:
    """Yield what is left in a store that was moved."""
    yield from still_true(digests, place)
    if digests.ledger() != Ledger():
        yield f"left in {split_place(place)[1]}, which was moved: {digests.ledger()}"
    if digests.store.moving_since() is not None:
        yield f"{split_place(place)[1]} is still being moved"


def delivered_in_the_end(digests: Digests, notes: Notes) -> Iterator[str]:
    """Deliver everything, dead letters too; yield a problem if something is left."""

    def send(digest: Digest) -> None:
        notes.note("sent", digest.idempotency_key, ids_of(digest))

    digests.handler("*")(send)
    digests.handler(f"{CHANNEL}:*", channel=CHANNEL)(send)
    for timeline in TIMELINES:
        digests.resume(timeline)
    for number in range(FAMILIES["choosy"]):
        digests.clear_policy(f"choosy:{number}")
        digests.flush(f"choosy:{number}")  # an unfinished digest still waits for the window that was in force
    began = monotonic()
    with working(digests, poll=0.2):
        ledger = settled(digests)
    if has_left(ledger):
        left = [each for each in digests.timelines() if each.state != "idle"]
        yield f"not delivered after {monotonic() - began:.0f} s: {left[:5]}, {digests.outages()}"


def settled(digests: Digests) -> Ledger:
    """Replay dead letters until everything is delivered, or nothing goes on any more; return the ledger."""
    pause, ledger, began = threading.Event(), digests.ledger(), monotonic()
    changed = began
    while has_left(ledger) and monotonic() < began + TO_DELIVER:
        for letter in digests.dead_letters():
            with suppress(Busy):
                digests.replay(letter.id)
        pause.wait(0.2)
        before, ledger = ledger, digests.ledger()
        if ledger != before or digests.outages():
            changed = monotonic()
        elif monotonic() > changed + STANDSTILL:
            break
    return ledger


def has_left(ledger: Ledger) -> bool:
    return bool(ledger.pending or ledger.open or ledger.dead)


if __name__ == "__main__":
    logging.getLogger("digestif").addHandler(logging.NullHandler())
    sys.stdout.write(json.dumps(Rest(*json.loads(sys.argv[1])).calm()))
