"""The twin of the machine in Lua agrees with arithmetic worked out by hand, and with Python on random numbers."""

import json
import re
from collections.abc import Callable
from functools import cache
from inspect import getmembers, isfunction
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from digestif import InvalidState
from digestif.core.machine import LARGEST_PAYLOAD, USUAL_MAX_BYTES, USUAL_PAYLOAD, Plan, Push, Rule, Slot, Unfinished
from digestif.core.records import DeadLetter, State
from digestif.core.terms import INCREMENT, Openings, Override, Terms
from digestif.stores.redis.client import scripts
from digestif.stores.redis.client.scripts import load_include
from digestif.stores.redis.encoding import plan
from digestif.testing.vectors import (
    Add,
    Complete,
    Opening,
    Placed,
    Refuse,
    Replan,
    Requeue,
    SuspectChoice,
    check_adds,
    check_completions,
    check_openings,
    check_plans,
    check_refusals,
    check_requeues,
    check_suspects,
)
from tests.servers import shared_connection
from tests.stores.redis.twins import MACHINE, MODULES, ONLY_IN_PYTHON, RULES, TRANSFER
from tests.vectors import add_facts, completion_facts, placed, plan_facts, refusal_facts, refused, requeue_facts

Facts: TypeAlias = dict[str, Any]

SCRIPT = """#!lua
-- include: basics.lua
-- include: machine.lua
-- include: transfer.lua
local v = cmsgpack.unpack(ARGV[1])
local slot = v.slot
local function result()
  STATEMENTS
end
return cmsgpack.pack(result())
"""


class Comparison(NamedTuple):
    """A rule in both languages: statements of Lua that return the result, and facts (`v`) to try both with."""

    lua: str
    facts: st.SearchStrategy[Facts]
    python: Callable[[Callable[..., Any], Facts], Any]  # given the rule and the facts


def in_lua(name: str, facts: Facts) -> Any:
    """What the rule of this name makes of the facts of an event."""
    script = script_of(name, scripts._read)
    pending = facts["slot"].pending if "slot" in facts else None
    stored = {name: as_stored(fact) for name, fact in {"pending": pending, **facts}.items()}
    return msgspec.msgpack.decode(shared_connection().eval(script, 0, msgspec.msgpack.encode(stored)))


def slot_in_lua(name: str, facts: Facts) -> Slot:
    return msgspec.convert(in_lua(name, facts), Slot)


@cache
def script_of(name: str, read: scripts.Read) -> str:
    """The script with the statements of a rule. Planted faults read the files in a way of their own."""
    statements = SCRIPT.replace("STATEMENTS", COMPARISONS[name].lua)
    return scripts.spliced(statements, read=lambda include: read(f"include/{include}"))


def test_every_add_places_a_timeline_where_the_vectors_say() -> None:
    check_adds(_after_add)


def test_every_completion_places_a_timeline_where_the_vectors_say() -> None:
    check_completions(_after_completion)


def test_every_plan_places_a_timeline_where_the_vectors_say() -> None:
    check_plans(_after_plan)


def test_every_requeue_places_a_timeline_where_the_vectors_say() -> None:
    check_requeues(_after_requeue)


def test_every_refusal_places_a_timeline_where_the_vectors_say() -> None:
    check_refusals(_after_refusal)


def test_every_opening_counts_lapses_as_the_vectors_say() -> None:
    check_openings(_after_open)


def test_suspects_join_groups_as_the_vectors_say() -> None:
    check_suspects(_chosen_suspects)


def _after_add(vector: Add) -> Placed:
    facts = add_facts(vector)
    first = vector.now if vector.first is None else vector.first
    slot = replace(facts["slot"], deadline=facts.pop("deadline"), first=first)
    return placed(slot_in_lua("after_add", {**facts, "slot": slot}))


def _after_completion(vector: Complete) -> Placed:
    facts = completion_facts(vector)
    after = slot_in_lua("after_completion", {**facts, "plan": plan(facts["plan"])})
    assert after.digest is None
    assert after.token is None
    return placed(after)


def _after_plan(vector: Replan) -> Placed:
    facts = plan_facts(vector)
    return placed(slot_in_lua("after_plan", {**facts, "expires": facts["slot"].expires}))


def _after_requeue(vector: Requeue) -> Placed:
    return placed(slot_in_lua("after_requeue", requeue_facts(vector)))


def _after_refusal(vector: Refuse) -> tuple[Placed, int, bool]:
    return refused(slot_in_lua("after_admission_refused", refusal_facts(vector)))


def _after_open(vector: Opening) -> tuple[int, int, int, int]:
    digest = Unfinished(id="x", batch=0, records=vector.records, opened=0)
    digest = replace(digest, lapses=vector.lapses, lapses_alone=vector.lapses_alone, largest=vector.largest)
    slot = Slot(state=State(vector.state), digest=digest if vector.unfinished else None)
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=4, group=vector.was_in)
    after = slot_in_lua("after_open", {"slot": slot, "now": 5, "lease": 1, "pending": 1, "group": vector.group})
    assert after.digest is not None
    return after.digest.lapses, after.digest.lapses_alone, after.digest.largest, after.group


def _chosen_suspects(vector: SuspectChoice) -> tuple[int, list[int]]:
    digests = [Unfinished(id="x", batch=0, records=1, opened=0, largest=largest) for largest in vector.largest]
    groups = vector.was_in or [0] * len(digests)
    slots = [Slot(state=State.OPEN, digest=each, group=group) for each, group in zip(digests, groups, strict=True)]
    size = in_lua("group_size", {"slot": slots[0], "size": vector.size}) if slots else vector.size
    places = enumerate(slots)
    return size, [place for place, slot in places if in_lua("may_join", {"slot": slot, "size": size})]


# Random numbers through both

times = st.integers(-1, 1) | st.integers(-(10**15), 10**15)  # often the same
delays = st.integers(0, 10**13)
maybe_times = st.none() | times
maybe = st.none() | delays
few = st.integers(0, 3)
flags = st.booleans()
groups = st.integers(0, 5)
limits = st.none() | st.integers(1, 5)
pendings = st.integers(0, 6) | st.sampled_from(
    [USUAL_MAX_BYTES // size + more for size in (USUAL_PAYLOAD, LARGEST_PAYLOAD) for more in (0, 1)]
)
tokens = st.sampled_from(["t", "leaving:x"])
many_times = st.lists(times, min_size=1, max_size=6, unique=True).map(sorted)
pairs_of_times = st.lists(times, min_size=2, max_size=2) | st.lists(times, min_size=4, max_size=4)
openings = st.builds(Openings, many_times.map(tuple), st.just(False), flags) | st.builds(
    Openings, pairs_of_times.map(sorted).map(tuple), st.just(True), flags
)
maybe_openings = st.none() | openings
terms = st.builds(
    Terms,
    first_delay=st.just(0) | delays,
    increment=maybe,
    maximum=delays,
    quiet=maybe,
    max_records=limits,
    ttl=maybe,
    openings=maybe_openings,
    given=st.integers(0, 7),
).map(lambda terms: replace(terms, increment=terms.increment or 0) if terms.given & INCREMENT else terms)
overrides = st.builds(
    Override,
    text=st.just("daily"),
    since=times,
    terms=terms,
    cool_downs=st.lists(delays, min_size=1, max_size=3).map(tuple),
    off=flags,
)
pushes = st.builds(Push, delays, delays, st.none() | times)
plans = st.builds(Plan, delays, limits, maybe_openings, flags, maybe)
digests = st.builds(
    Unfinished,
    id=st.just("x"),
    batch=st.just(0),
    records=few,
    opened=times,
    dropped=few,
    revision=st.integers(1, 3),
    attempt=st.integers(1, 3),
    lapses=few,
    lapses_alone=st.integers(0, 2),
    largest=groups,
    frozen=flags,
    unknown=flags,
    tried=maybe_times,
    deciding=flags,
    fresh=flags,
    settled=flags,
    weighed=flags,
    heavy=flags,
    merging=st.none() | st.just(0),
    replayed=flags,
    served=st.sampled_from([(), ("ada", "böb"), ("\0eve",), ("ada", "\0eve")]),
)
letters = st.builds(
    DeadLetter,
    id=st.just("x"),
    timeline=st.just("t"),
    revision=st.just(1),
    attempts=st.just(1),
    lapses=few,
    reason=st.just(""),
    records=st.just(1),
    dropped=few,
    opened=st.just(0.0),
    buried=st.just(0.0),
    served=st.sampled_from([(), ("ada",)]),
    unknown=flags,
)


@st.composite
def slots(draw: st.DrawFn, *states: State, digest: bool | None = None) -> Slot:
    """A slot in one of these states, or in any; of a waiting or ready one, `digest` says whether it has one."""
    slot = draw(bare_slots)
    slot = replace(slot, state=draw(st.sampled_from(states or tuple(State))))
    if slot.state is State.IDLE:
        return replace(slot, pending=0, batch=None)
    if slot.state is State.OPEN:
        lease = {"token": draw(tokens), "until": draw(times), "group": draw(groups), "alone": draw(flags)}
        parked = draw(st.none() | st.sampled_from([State.IDLE, State.WAITING, State.READY]))
        return replace(slot, digest=draw(digests), parked=parked, **lease)
    has_digest = draw(flags) if digest is None else digest
    return replace(slot, digest=draw(digests) if has_digest else None)


def with_batch(slot: Slot) -> Slot:
    return replace(slot, batch=0 if slot.pending else None, first=slot.first if slot.pending else None)


bare_slots = st.builds(
    Slot,
    at=times,
    since=times,
    last=st.none() | times,
    iteration=st.integers(0, 5),
    paused=flags,
    pending=pendings,
    dropped=few,
    first=times,
    deadline=st.none() | times,
    heavy=flags,
    rule=st.sampled_from(Rule),
    was=st.none() | times,
    by_delays=st.none() | times,
    passes=flags,
    override=st.none() | overrides,
    push=st.none() | pushes,
).map(with_batch)
opened = slots(State.OPEN)


def facts(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Facts]:
    return st.fixed_dictionaries(strategies)


def of_slot(rule: Callable[..., Any], facts: Facts) -> Any:
    """Call a rule of Python with the slot, and the other facts by their names."""
    return rule(facts["slot"], **{name: value for name, value in facts.items() if name != "slot"})


def of_digest(rule: Callable[..., Any], facts: Facts) -> Any:
    return rule(facts["slot"].digest, *(value for name, value in facts.items() if name != "slot"))


def _arrived(facts: Facts) -> Facts:
    """An add, as the script begins it: one record more is counted, and known to be the first."""
    slot: Slot = facts["slot"]
    first = slot.first if slot.pending else facts["now"]
    return {**facts, "slot": replace(slot, first=first, pending=slot.pending or 1), "pending": slot.pending + 1}


def _tells(rule: Callable[..., Any], facts: Facts) -> bool:
    try:
        of_slot(rule, {**facts, "timeline": "t"})
    except InvalidState:
        return True
    return False


def _refuses(rule: Callable[..., Any], facts: Facts) -> bool:
    try:
        rule(facts["slot"], facts["letter"], force=facts["force"])
    except InvalidState:
        return True
    return False


def _weights(slot: Slot) -> st.SearchStrategy[int | None]:
    assert slot.digest is not None
    heaviest = slot.digest.records * (LARGEST_PAYLOAD if slot.digest.heavy else USUAL_PAYLOAD)
    return st.sampled_from([None, 0, heaviest - 1, heaviest, heaviest + 1])


def _some_of(slot: Slot) -> st.SearchStrategy[int]:
    assert slot.digest is not None
    return st.integers(0, slot.digest.records)


COMPARISONS: dict[str, Comparison] = {
    "after_add": Comparison(
        "after_add(slot, v.now, v.terms, v.pending, v.moving) return slot",
        facts(slot=slots(), now=times, terms=terms, moving=flags).map(_arrived),
        lambda rule, v: of_slot(rule, {**v, "deadline": v["slot"].deadline}),
    ),
    "after_push": Comparison(
        "after_push(slot, v.push) return slot",
        facts(slot=slots(), push=pushes),
        lambda rule, v: rule(v["slot"], v["push"]),
    ),
    "next_delivery": Comparison("return next_delivery(slot)", facts(slot=slots()), of_slot),
    "after_schedule": Comparison(
        "after_schedule(slot, v.now) return slot", facts(slot=slots(State.WAITING), now=times), of_slot
    ),
    "after_maintenance": Comparison("after_maintenance(slot) return slot", facts(slot=slots(State.READY)), of_slot),
    "after_lapse": Comparison("after_lapse(slot) return slot", facts(slot=opened), of_slot),
    "must_be_admitted": Comparison(
        "return must_be_admitted(slot, v.asks, v.pending)", facts(slot=slots(), asks=flags), of_slot
    ),
    "may_be_admitted": Comparison(
        "return may_be_admitted(slot, v.now, v.pending)", facts(slot=slots(), now=times), of_slot
    ),
    "after_admission_refused": Comparison(
        "after_admission_refused(slot, v['until']) return slot",
        facts(slot=slots(State.WAITING, State.READY, State.OPEN), until=times),
        of_slot,
    ),
    "after_plan": Comparison(
        "slot.expires = v.expires after_plan(slot, v.now, v.terms, v.cool_down, v.pending) "
        "slot.expires = nil return slot",
        facts(slot=slots(), now=times, terms=terms, cool_down=delays, expires=st.none() | times),
        lambda rule, v: rule(
            replace(v["slot"], expires=v["expires"]), now=v["now"], terms=v["terms"], cool_down=v["cool_down"]
        ),
    ),
    "first_opening": Comparison(
        "return first_opening(v.openings, v.at, v.last)",
        facts(openings=openings, at=times, last=st.none() | times),
        lambda rule, v: rule(v["openings"], v["at"], last=v["last"]),
    ),
    "last_opening": Comparison(
        "return last_opening(v.openings, v.now, v.before)",
        facts(openings=openings, now=times, before=times),
        lambda rule, v: rule(v["openings"], now=v["now"], before=v["before"]),
    ),
    "is_live": Comparison("return not not is_live(slot, v.now)", facts(slot=slots(), now=times), of_slot),
    "is_held": Comparison(
        "return not not is_held(slot, v.token, v.now)", facts(slot=slots(), token=tokens, now=times), of_slot
    ),
    "is_leased_until": Comparison(
        "return is_leased_until(slot, v.seen)",
        facts(slot=slots(), seen=times),
        lambda rule, v: rule(v["slot"], v["seen"]),
    ),
    "after_early_end": Comparison("after_early_end(slot, v.now) return slot", facts(slot=opened, now=times), of_slot),
    "is_empty": Comparison("return is_empty(slot, v.pending)", facts(slot=slots()), of_slot),
    "refuse_opening": Comparison("return not not refuse_opening(slot, v.now)", facts(slot=slots(), now=times), _tells),
    "is_suspect": Comparison("return is_suspect(slot, v.now)", facts(slot=slots(), now=times), of_slot),
    "group_size": Comparison("return group_size(slot, v.size)", facts(slot=opened, size=st.integers(1, 5)), of_slot),
    "may_join": Comparison("return may_join(slot, v.size)", facts(slot=opened, size=st.integers(1, 5)), of_slot),
    "after_open": Comparison(
        "after_open(slot, v.now, 'token', v.lease, 'fresh', v.pending, v.group) return slot",
        facts(slot=slots(State.WAITING, State.READY, State.OPEN), now=times, lease=delays, group=groups),
        lambda rule, v: rule(
            v["slot"],
            now=v["now"],
            token="token",
            until=v["now"] + v["lease"],
            fresh_id="fresh",
            fresh_batch=0,
            group=v["group"],
        ),
    ),
    "without_pending": Comparison("without_pending(slot) return slot", facts(slot=slots()), of_slot),
    "after_decision": Comparison(
        "after_decision(slot, v.merge, v.pending) return slot", facts(slot=opened, merge=flags), of_slot
    ),
    "excess": Comparison("return excess(slot.digest, v.capacity)", facts(slot=opened, capacity=limits), of_digest),
    "must_be_weighed": Comparison(
        "return not not must_be_weighed(slot.digest, v.max_bytes)",
        opened.flatmap(lambda slot: facts(slot=st.just(slot), max_bytes=_weights(slot))),
        of_digest,
    ),
    "after_weighing": Comparison(
        "after_weighing(slot.digest, v.dropped, v.fits) return slot",
        opened.flatmap(lambda slot: facts(slot=st.just(slot), dropped=_some_of(slot), fits=flags)),
        lambda rule, v: replace(v["slot"], digest=rule(v["slot"].digest, v["dropped"], fits=v["fits"])),
    ),
    "after_completion": Comparison(
        "return after_completion(slot, v.now, v.plan, v.pending)",
        facts(slot=opened, now=times, plan=plans),
        of_slot,
    ),
    "after_failure": Comparison(
        "after_failure(slot, v) return slot",
        facts(slot=opened, freeze=flags, counted=flags, unknown=flags, tried=maybe_times, read=flags),
        of_slot,
    ),
    "after_release": Comparison(
        "after_release(slot, v) return slot",
        facts(slot=opened, until=times, freeze=flags, counted=flags, unknown=flags, tried=maybe_times, read=flags),
        of_slot,
    ),
    "after_retirement": Comparison("return after_retirement(slot)", facts(slot=slots()), of_slot),
    "after_flush": Comparison(
        "after_flush(slot, v.now) return slot", facts(slot=slots(State.WAITING), now=times), of_slot
    ),
    "after_replay": Comparison(
        "after_replay(slot, v.letter.digest, v.now) return slot",
        facts(slot=slots(State.IDLE, State.WAITING, State.READY, digest=False), letter=opened, now=times),
        lambda rule, v: rule(v["slot"], v["letter"].digest, now=v["now"]),
    ),
    "refuse_requeue": Comparison(
        "return not not refuse_requeue(slot, v.letter, v.force)",
        facts(slot=slots(), letter=letters, force=flags),
        _refuses,
    ),
    "after_requeue": Comparison(
        "after_requeue(slot, v.now, v.terms, v.delay, v.pending) return slot",
        facts(slot=slots(), now=times, terms=terms, delay=delays).map(_arrived),
        lambda rule, v: of_slot(rule, {**v, "deadline": v["slot"].deadline}),
    ),
    "may_have_gone_out": Comparison(
        "return may_have_gone_out(slot.digest)", facts(slot=opened), lambda rule, v: rule(v["slot"].digest)
    ),
    "who_got": Comparison(
        "return who_got(slot.digest)", facts(slot=opened), lambda rule, v: list(rule(v["slot"].digest))
    ),
    "after_losing": Comparison(
        "after_losing(slot.digest, v.lost) return slot",
        opened.flatmap(lambda slot: facts(slot=st.just(slot), lost=_some_of(slot))),
        lambda rule, v: replace(v["slot"], digest=rule(v["slot"].digest, v["lost"])),
    ),
    "is_off": Comparison("return not not is_off(slot)", facts(slot=slots()), of_slot),
    "after_switched_off": Comparison(
        "return after_switched_off(slot)",
        facts(slot=slots().map(lambda slot: replace(slot, pending=0))),
        of_slot,
    ),
    "after_expiry": Comparison("return after_expiry(slot, v.now, v.pending)", facts(slot=slots(), now=times), of_slot),
    "after_begin_export": Comparison(
        "after_begin_export(slot, v.now, v.token, v.pending) return slot",
        facts(slot=slots(), now=times, token=tokens),
        lambda rule, v: of_slot(rule, {**v, "fresh_batch": 0}),
    ),
    "after_commit_export": Comparison(
        "return after_commit_export(slot, v.now, v.pending, v.exported)",
        facts(slot=opened, exported=opened, now=times),
        lambda rule, v: rule(v["slot"], v["exported"], now=v["now"]),
    ),
    "after_abort_export": Comparison("after_abort_export(slot, v.pending) return slot", facts(slot=opened), of_slot),
    "after_import_of_timeline": Comparison(
        "return after_import_of_timeline(slot, v.exported)",
        facts(slot=slots(), exported=opened),
        lambda rule, v: rule(v["slot"], v["exported"]),
    ),
    "after_import_of_pending": Comparison(
        "after_import_of_pending(slot, v.now, v.dropped, v.first, v.deadline, v.heavy) return slot",
        facts(slot=slots(), now=times, dropped=few, first=times, deadline=st.none() | times, heavy=flags),
        lambda rule, v: of_slot(rule, {**v, "pending": v["slot"].pending}),
    ),
    "after_import_of_digest": Comparison(
        "after_import_of_digest(slot, v.exported, v.token) return slot",
        facts(slot=slots(digest=False), exported=opened, token=tokens),
        lambda rule, v: rule(
            v["slot"], v["exported"], replace(v["exported"].digest, records=0, batch=0), token=v["token"]
        ),
    ),
    "after_import_completed": Comparison("after_import_completed(slot) return slot", facts(slot=opened), of_slot),
}


def compare(name: str, facts: Facts) -> None:
    expected = COMPARISONS[name].python(RULES[name], facts)
    found = in_lua(name, facts)
    if isinstance(expected, Slot):
        found, expected = msgspec.convert(found, Slot), uncounted(expected)
    assert found == expected


@pytest.mark.parametrize("name", RULES)
@given(st.data())
def test_lua_ends_where_python_ends(name: str, data: st.DataObject) -> None:
    compare(name, data.draw(COMPARISONS[name].facts))


def as_stored(fact: Any) -> Any:
    """A slot as the scripts keep it: without what is counted, and with every number that is always there."""
    if isinstance(fact, list):
        return [as_stored(each) for each in fact]
    if isinstance(fact, Plan):
        return plan(fact)
    if not isinstance(fact, Slot):
        return fact
    stored = json.loads(msgspec.json.encode(uncounted(fact)))
    stored = {"state": str(fact.state), "at": fact.at, "since": fact.since, "iteration": fact.iteration, **stored}
    if fact.digest is not None:
        always = {name: getattr(fact.digest, name) for name in ("dropped", "revision", "attempt", "lapses")}
        stored["digest"] = {**always, **stored["digest"]}
    return stored


def uncounted(slot: Slot) -> Slot:
    """A slot without what scripts count, or keep in another way."""
    return replace(slot, pending=0, batch=None, expires=None)


def test_every_rule_of_the_machine_has_its_twin_and_is_compared() -> None:
    rules = {
        rule
        for module in MODULES
        for name, rule in getmembers(module, isfunction)
        if rule.__module__ == module.__name__ and not name.startswith("_")
    }

    assert rules == {*RULES.values(), *ONLY_IN_PYTHON}
    assert COMPARISONS.keys() == RULES.keys()


@pytest.mark.parametrize(("file", "rules"), [("machine.lua", MACHINE), ("transfer.lua", TRANSFER)])
def test_lua_has_every_rule_and_no_transition_of_its_own(file: str, rules: Facts) -> None:
    functions = set(re.findall(r"^local function (\w+)", load_include(file), re.MULTILINE))

    assert functions >= rules.keys()
    assert {name for name in functions if name.startswith("after_")} <= rules.keys()
