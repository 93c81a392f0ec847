"""The machine agrees with arithmetic that was worked out by hand."""

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot, Unfinished
from digestif.core.policy import Terms
from digestif.core.records import State
from digestif.testing.vectors import (
    Add,
    Close,
    Opening,
    Suspects,
    check_adds,
    check_closes,
    check_openings,
    check_suspects,
)


def test_every_add_places_a_timeline_where_the_vectors_say() -> None:
    check_adds(_after_add)


def test_every_close_places_a_timeline_where_the_vectors_say() -> None:
    check_closes(_after_close)


def test_every_opening_counts_lapses_as_the_vectors_say() -> None:
    check_openings(_after_open)


def test_suspects_are_tried_together_as_the_vectors_say() -> None:
    check_suspects(_tried_together)


def test_a_due_time_that_an_add_leaves_alone_keeps_its_rule() -> None:
    waiting = Slot(state=State.WAITING, at=5, rule=machine.Rule.FIRST_DELAY)

    after = machine.after_add(waiting, now=9, terms=Terms(increment=30), pending=2, deadline=None)

    assert (after.at, after.rule, after.pending) == (5, machine.Rule.FIRST_DELAY, 2)


def _after_add(vector: Add) -> tuple[str, int]:
    digest = Unfinished(id="x", batch=1, records=1, opened=0) if vector.unfinished else None
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        last=vector.last,
        first=vector.first,
        paused=vector.paused,
        pending=vector.pending - 1 or int(vector.first is not None),
        digest=digest,
    )
    terms = Terms(
        first_delay=vector.first_delay,
        increment=vector.increment,
        maximum=vector.maximum,
        quiet=vector.quiet,
        max_records=vector.max_records,
    )
    after = machine.after_add(slot, now=vector.now, terms=terms, pending=vector.pending, deadline=vector.deadline)
    return str(after.state), after.at


def _after_close(vector: Close) -> int | None:
    digest = Unfinished(id="x", batch=1, records=vector.records, opened=0)
    slot = Slot(state=State.OPEN, pending=vector.pending, deadline=vector.deadline, digest=digest)
    slot = replace(slot, token="t", until=vector.now + 1)
    after = machine.after_close(slot, now=vector.now, cool_down=vector.cool_down, max_records=vector.max_records)
    assert after.digest is None
    assert after.token is None
    return None if after.state is State.IDLE else after.at


def _after_open(vector: Opening) -> tuple[int, int, bool]:
    digest = Unfinished(id="x", batch=1, records=vector.records, opened=0)
    digest = replace(digest, lapses=vector.lapses, lapses_alone=vector.lapses_alone)
    slot = Slot(state=State(vector.state), pending=1, digest=digest if vector.unfinished else None)
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=4, alone=vector.was_alone)
    after = machine.after_open(slot, now=5, token="u", until=6, fresh_id="y", fresh_batch=2, alone=vector.alone)
    assert after.digest is not None
    return after.digest.lapses, after.digest.lapses_alone, after.alone


def _tried_together(vector: Suspects) -> list[int]:
    digests = [Unfinished(id="x", batch=1, records=1, opened=0, lapses=lapses) for lapses in vector.lapses]
    return machine.tried_together([Slot(state=State.OPEN, digest=digest) for digest in digests])
