"""The twin of the machine in Lua agrees with arithmetic worked out by hand, and with Python on random numbers."""

import json
from typing import Any

import msgspec
import redis
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Rule, Slot, Unfinished
from digestif.core.policy import Terms
from digestif.core.records import State
from digestif.stores.redis.client.scripts import load_include, spliced
from digestif.testing.vectors import (
    Add,
    Close,
    Opening,
    check_adds,
    check_closes,
    check_openings,
    check_suspects,
)
from tests.servers import empty_server

ADD = """#!lua
-- include: placing.lua
local v = cmsgpack.unpack(ARGV[1])
after_add(v.slot, v.now, v.terms, v.pending)
return cmsgpack.pack(v.slot)
"""
CLOSE = """#!lua
-- include: placing.lua
local v = cmsgpack.unpack(ARGV[1])
return cmsgpack.pack(after_completion(v.slot, v.now, v.cool_down, v.max_records, v.pending))
"""
FAIL = """#!lua
-- include: leasing.lua
local v = cmsgpack.unpack(ARGV[1])
after_failure(v.slot, v.later, v.freeze)
return cmsgpack.pack(v.slot)
"""
LAPSE = """#!lua
-- include: leasing.lua
local v = cmsgpack.unpack(ARGV[1])
after_lapse(v.slot)
return cmsgpack.pack(v.slot)
"""
OPEN = """#!lua
-- include: leasing.lua
local v = cmsgpack.unpack(ARGV[1])
after_open(v.slot, v.now, 'token', v.lease, 'fresh', v.pending, v.alone)
return cmsgpack.pack(v.slot)
"""
CHOOSE = """#!lua
-- include: suspects.lua
local suspects = {}
for place, lapses in ipairs(cmsgpack.unpack(ARGV[1]).lapses) do
  suspects[place] = { place = place - 1, slot = { digest = { lapses = lapses } } }
end
local places = {}
for _, timeline in ipairs(tried_together(suspects)) do
  table.insert(places, timeline.place)
end
return places
"""


def in_lua(script: str, **facts: Any) -> Slot:
    """What a script makes of a slot and the facts of an event."""
    return msgspec.msgpack.decode(told_by(script, **facts), type=Slot)


def told_by(script: str, **facts: Any) -> Any:
    return server().eval(spliced(script, read=load_include), 0, msgspec.msgpack.encode(facts))


def server() -> "redis.Redis":
    return empty_server().client()


def test_every_add_places_a_timeline_where_the_vectors_say() -> None:
    check_adds(_after_add)


def test_every_close_places_a_timeline_where_the_vectors_say() -> None:
    check_closes(_after_close)


def test_every_opening_counts_lapses_as_the_vectors_say() -> None:
    check_openings(_after_open)


def test_suspects_are_tried_together_as_the_vectors_say() -> None:
    check_suspects(lambda vector: told_by(CHOOSE, lapses=vector.lapses))


def _after_add(vector: Add) -> tuple[str, int]:
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        last=vector.last,
        first=vector.now if vector.first is None else vector.first,
        paused=vector.paused,
        deadline=vector.deadline,
        digest=Unfinished(id="x", batch=0, records=1, opened=0) if vector.unfinished else None,
    )
    terms = Terms(
        first_delay=vector.first_delay,
        increment=vector.increment,
        maximum=vector.maximum,
        quiet=vector.quiet,
        max_records=vector.max_records,
    )
    after = in_lua(ADD, slot=as_stored(slot), now=vector.now, terms=terms, pending=vector.pending)
    return str(after.state), after.at


def _after_close(vector: Close) -> int | None:
    digest = Unfinished(id="x", batch=0, records=vector.records, opened=0)
    slot = Slot(state=State.OPEN, deadline=vector.deadline, digest=digest, token="t", until=vector.now + 1)
    after = in_lua(
        CLOSE,
        slot=as_stored(slot),
        now=vector.now,
        cool_down=vector.cool_down,
        max_records=vector.max_records,
        pending=vector.pending,
    )
    assert after.digest is None
    assert after.token is None
    return None if after.state is State.IDLE else after.at


def _after_open(vector: Opening) -> tuple[int, int, bool]:
    digest = Unfinished(id="x", batch=0, records=vector.records, opened=0)
    digest = replace(digest, lapses=vector.lapses, lapses_alone=vector.lapses_alone)
    slot = Slot(state=State(vector.state), digest=digest if vector.unfinished else None)
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=4, alone=vector.was_alone)
    after = in_lua(OPEN, slot=as_stored(slot), now=5, lease=1, pending=1, alone=vector.alone)
    assert after.digest is not None
    return after.digest.lapses, after.digest.lapses_alone, after.alone


# Random numbers through both

times = st.integers(-(10**15), 10**15)
delays = st.integers(0, 10**13)
maybe = st.none() | delays
terms = st.builds(
    Terms, first_delay=delays, increment=maybe, maximum=delays, quiet=maybe, max_records=st.none() | st.integers(1, 5)
)
digests = st.builds(
    Unfinished,
    id=st.just("x"),
    batch=st.just(0),
    records=st.integers(0, 3),
    opened=times,
    dropped=st.integers(0, 3),
    revision=st.integers(1, 3),
    attempt=st.integers(1, 3),
    lapses=st.integers(0, 3),
    lapses_alone=st.integers(0, 2),
    frozen=st.booleans(),
    served=st.just(()) | st.just(("ada", "böb")),
)
slots = st.builds(
    Slot,
    state=st.sampled_from(State),
    at=times,
    since=times,
    last=st.none() | times,
    iteration=st.integers(0, 5),
    paused=st.booleans(),
    first=times,
    deadline=st.none() | times,
    rule=st.sampled_from(Rule),
    was=st.none() | times,
    alone=st.booleans(),
    digest=st.none() | digests,
)


@given(slots, times, terms, st.integers(1, 6))
def test_an_add_ends_where_python_ends(slot: Slot, now: int, terms: Terms, pending: int) -> None:
    slot = replace(slot, pending=pending)
    expected = machine.after_add(slot, now=now, terms=terms, pending=pending, deadline=slot.deadline)

    found = in_lua(ADD, slot=as_stored(slot), now=now, terms=terms, pending=pending)

    assert replace(found, pending=pending) == expected


@given(slots, times, delays, st.none() | st.integers(1, 5), st.integers(0, 6), digests)
def test_a_close_ends_where_python_ends(
    slot: Slot, now: int, cool_down: int, max_records: int | None, pending: int, digest: Unfinished
) -> None:
    slot = replace(slot, state=State.OPEN, token="t", until=now + 1, digest=digest, pending=pending)
    expected = machine.after_completion(slot, now=now, cool_down=cool_down, max_records=max_records)

    facts = {"now": now, "cool_down": cool_down, "max_records": max_records, "pending": pending}
    found = in_lua(CLOSE, slot=as_stored(slot), **facts)

    assert replace(found, pending=expected.pending) == expected


@given(slots, st.none() | times, st.booleans(), digests)
def test_a_failure_ends_where_python_ends(slot: Slot, later: int | None, freeze: bool, digest: Unfinished) -> None:
    slot = replace(slot, state=State.OPEN, token="t", until=0, digest=digest)
    if later is None:
        expected = machine.after_failure(slot, freeze=freeze)
    else:
        expected = machine.after_release(slot, until=later, freeze=freeze)

    assert in_lua(FAIL, slot=as_stored(slot), later=later, freeze=freeze) == expected


@given(slots, digests)
def test_a_lapse_ends_where_python_ends(slot: Slot, digest: Unfinished) -> None:
    slot = replace(slot, state=State.OPEN, token="t", until=0, digest=digest)

    assert in_lua(LAPSE, slot=as_stored(slot)) == machine.after_lapse(slot)


@given(slots, times, delays, st.integers(0, 6), st.booleans())
def test_an_opening_ends_where_python_ends(slot: Slot, now: int, lease: int, pending: int, alone: bool) -> None:
    slot = replace(slot, pending=pending, batch=0)
    expected = machine.after_open(
        slot, now=now, token="token", until=now + lease, fresh_id="fresh", fresh_batch=0, alone=alone
    )

    found = in_lua(OPEN, slot=as_stored(slot), now=now, lease=lease, pending=pending, alone=alone)

    assert replace(found, pending=expected.pending, batch=expected.batch) == expected


def as_stored(slot: Slot) -> dict[str, Any]:
    """A slot as the scripts keep it: without what is counted, and with every number that is always there."""
    stored = json.loads(msgspec.json.encode(slot))
    for absent in ("pending", "batch"):
        stored.pop(absent, None)
    stored = {"state": str(slot.state), "at": slot.at, "since": slot.since, "iteration": slot.iteration, **stored}
    if slot.digest is not None:
        always = {name: getattr(slot.digest, name) for name in ("dropped", "revision", "attempt", "lapses")}
        stored["digest"] = {**always, **stored["digest"]}
    return stored
