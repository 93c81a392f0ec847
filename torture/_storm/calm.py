"""After a storm: everything that is left is delivered, and what became of the records is judged."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from digestif import Busy, Digest, Digests, Ledger, Move, StoreError
from digestif.clock import monotonic, wall_clock
from tests.worker.workers import working
from torture._storm.account import Account, judged
from torture._storm.actor import Notes, ids_of
from torture._storm.delivering import CHANNEL
from torture._storm.moving import Moves
from torture._storm.scene import FAMILIES, LEASE, POLICY, TIMELINES, Scene, split_place, store_of
from torture._storm.weather import FARTHEST, shifted_clock

TO_DELIVER = 300.0  # seconds to deliver everything
STANDSTILL = 45.0  # seconds in which something ends, unless a channel is away


def calm(scene: Scene, moves: Moves, account: Account, *, has_jumps: bool) -> tuple[list[str], Ledger]:
    """Deliver everything from the last store and judge, by a clock that is ahead of all times of the storm."""
    problems: list[str] = []
    with ExitStack() as stack:
        if has_jumps:
            stack.enter_context(shifted_clock(lambda: FARTHEST))
        last, left = scene.produce, list(moves.left)
        if scene.move is not None:
            source, last = scene.move
            problems += finished_move(source, last)
            left.append(source)
        digests = stack.enter_context(opened(last, has_jumps))
        problems += delivered_in_the_end(digests, Notes(account.folder / "calm"))
        account.read()
        problems += judged(account, digests.ledger())
        problems += still_true(digests, last)
        for place in left:
            problems += left_empty(stack.enter_context(opened(place, has_jumps)), place)
        return problems, digests.ledger()


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
