"""The machine agrees with arithmetic that was worked out by hand."""

import pytest
from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Plan, Slot, Unfinished
from digestif.core.records import State
from digestif.core.terms import Terms
from digestif.core.transfer import after_begin_export
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
from tests.vectors import add_facts, completion_facts, placed, plan_facts, refusal_facts, refused, requeue_facts


def _digest(*, lapses: int = 0, lapses_alone: int = 0, largest: int = 0, records: int = 1) -> Unfinished:
    digest = Unfinished(id="x", batch=1, records=records, opened=0, lapses=lapses)
    return replace(digest, lapses_alone=lapses_alone, largest=largest)


def _open(
    *, lapses: int = 0, lapses_alone: int = 0, group: int = 0, records: int = 1, pending: int = 0, until: int = 100
) -> Slot:
    digest = _digest(lapses=lapses, lapses_alone=lapses_alone, records=records)
    batch = 3 if pending else None
    return Slot(state=State.OPEN, digest=digest, token="t", until=until, group=group, pending=pending, batch=batch)


def test_every_add_places_a_timeline_where_the_vectors_say() -> None:
    check_adds(_after_add)


def test_every_completion_places_a_timeline_where_the_vectors_say() -> None:
    check_completions(_after_completion)


def test_another_policy_places_a_timeline_where_the_vectors_say() -> None:
    check_plans(_after_plan)


def test_what_is_requeued_waits_as_the_vectors_say() -> None:
    check_requeues(_after_requeue)


def test_what_is_refused_waits_as_the_vectors_say() -> None:
    check_refusals(_after_refusal)


def test_every_opening_counts_lapses_as_the_vectors_say() -> None:
    check_openings(_after_open)


def test_suspects_join_groups_as_the_vectors_say() -> None:
    check_suspects(_chosen_suspects)


def test_a_due_time_that_an_add_leaves_alone_keeps_its_rule() -> None:
    waiting = Slot(state=State.WAITING, at=5, rule=machine.Rule.FIRST_DELAY)

    after = machine.after_add(waiting, now=9, terms=Terms(increment=30), pending=2, deadline=None)

    assert (after.at, after.rule, after.pending) == (5, machine.Rule.FIRST_DELAY, 2)


@pytest.mark.parametrize(
    ("lapses", "lapses_alone", "group", "counts"),
    [
        (0, 0, 0, (1, 0, 0)),
        (0, 0, 1, (1, 1, 1)),
        (1, 0, 1, (2, 1, 1)),
        (2, 1, 0, (3, 1, 0)),
        (2, 1, 1, (3, 2, 1)),
        (2, 1, 2, (3, 1, 1)),
        (1, 0, 9, (2, 0, 4)),
    ],
)
def test_a_lapse_counts_as_alone_in_a_group_of_one_and_halves_any_other(
    lapses: int, lapses_alone: int, group: int, counts: tuple[int, int, int]
) -> None:
    after = machine.after_lapse(_open(lapses=lapses, lapses_alone=lapses_alone, group=group))

    assert after.digest is not None
    assert (after.digest.lapses, after.digest.lapses_alone, after.digest.largest) == counts
    assert (after.state, after.group, after.token, after.until) == (State.WAITING, 0, None, None)


def test_a_lease_that_an_earlier_release_noted_as_alone_is_a_group_of_one() -> None:
    after = machine.after_lapse(replace(_open(lapses=1), alone=True))

    assert after.digest is not None
    assert (after.digest.lapses_alone, after.digest.largest, after.alone) == (1, 1, False)


@pytest.mark.parametrize("group", [0, 1, 8])
@pytest.mark.parametrize(
    ("before", "may_be_noted"),
    [
        (Slot(state=State.READY, pending=1, batch=1), False),
        (Slot(state=State.READY, digest=_digest(lapses=0)), False),
        (Slot(state=State.READY, digest=_digest(lapses=1)), True),
        (Slot(state=State.WAITING, digest=_digest(lapses=1)), True),
        (_open(lapses=0), True),
        (_open(lapses=0, group=1), True),
        (_open(lapses=3), True),
        (_open(lapses=0, records=0, pending=1), False),
    ],
    ids=["new", "failed", "lapsed", "lapsed, waiting", "lapses now", "lapses now, noted", "often", "another one"],
)
def test_the_group_is_noted_only_of_what_lapsed_before(before: Slot, may_be_noted: bool, group: int) -> None:
    after = machine.after_open(before, now=100, token="n", until=200, fresh_id="y", fresh_batch=2, group=group)

    assert after.group == (group if may_be_noted else 0)
    assert (after.state, after.token, after.until) == (State.OPEN, "n", 200)


@pytest.mark.parametrize("records", [0, 1])
def test_every_ending_ends_the_note(records: int) -> None:
    held = _open(lapses=1, group=1, records=records)

    endings = [
        machine.after_completion(held, now=50, plan=Plan(0)),
        machine.after_failure(held, freeze=False),
        machine.after_release(held, until=70, freeze=False),
        machine.after_lapse(held),
        after_begin_export(held, now=150, token="leaving:", fresh_batch=2),
    ]

    assert [after.group for after in endings] == [0] * 5


def test_a_replayed_digest_has_never_lapsed() -> None:
    after = machine.after_replay(Slot(), _digest(lapses=4, lapses_alone=2, largest=1), now=9)

    assert after.digest is not None
    assert (after.digest.lapses, after.digest.lapses_alone, after.digest.largest, after.group) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("slot", "now", "expected"),
    [
        (_open(until=100), 99, False),
        (_open(until=100), 100, True),
        (Slot(state=State.WAITING, digest=_digest(lapses=1)), 100, False),
        (Slot(state=State.READY, digest=_digest(lapses=1)), 100, False),
        (Slot(), 100, False),
        (after_begin_export(_open(until=100), now=100, token="leaving:", fresh_batch=2), 10**12, False),
    ],
    ids=["alive", "lapsed", "waits", "ready", "idle", "on its way"],
)
def test_a_suspect_is_open_with_a_lease_that_ran_out(slot: Slot, now: int, expected: bool) -> None:
    assert machine.is_suspect(slot, now=now) is expected


def _after_add(vector: Add) -> Placed:
    return placed(machine.after_add(**add_facts(vector)))


def _after_completion(vector: Complete) -> Placed:
    after = machine.after_completion(**completion_facts(vector))
    assert after.digest is None
    assert after.token is None
    return placed(after)


def _after_plan(vector: Replan) -> Placed:
    return placed(machine.after_plan(**plan_facts(vector)))


def _after_requeue(vector: Requeue) -> Placed:
    return placed(machine.after_requeue(**requeue_facts(vector), deadline=None))


def _after_refusal(vector: Refuse) -> tuple[Placed, int, bool]:
    facts = refusal_facts(vector)
    after = machine.after_admission_refused(**facts)
    assert after.pending == facts["slot"].pending
    assert after.token is None
    return refused(after)


def _after_open(vector: Opening) -> tuple[int, int, int, int]:
    digest = Unfinished(id="x", batch=1, records=vector.records, opened=0)
    digest = replace(digest, lapses=vector.lapses, lapses_alone=vector.lapses_alone, largest=vector.largest)
    slot = Slot(state=State(vector.state), pending=1, digest=digest if vector.unfinished else None)
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=4, group=vector.was_in)
    after = machine.after_open(slot, now=5, token="u", until=6, fresh_id="y", fresh_batch=2, group=vector.group)
    assert after.digest is not None
    return after.digest.lapses, after.digest.lapses_alone, after.digest.largest, after.group


def _chosen_suspects(vector: SuspectChoice) -> tuple[int, list[int]]:
    digests = [Unfinished(id="x", batch=1, records=1, opened=0, largest=largest) for largest in vector.largest]
    groups = vector.was_in or [0] * len(digests)
    suspects = [Slot(state=State.OPEN, digest=each, group=group) for each, group in zip(digests, groups, strict=True)]
    size = machine.group_size(suspects[0], size=vector.size) if suspects else vector.size
    return size, [place for place, suspect in enumerate(suspects) if machine.may_join(suspect, size=size)]
