"""Faults in windows: due times, admission, retries."""

from msgspec.structs import replace

from digestif.core.machine import seen
from digestif.core.records import State
from tests.nets.planting import fault


@fault(
    "a time of the calendar comes twice: at the end of its own delivery",
    of="core.machine:first_opening",
    directed="test_closed_at_exactly_that_time_the_next_is_tomorrows",
    vectors=True,
)
def _(sound, openings, at, *, last):
    return sound(openings, at, last=None)


@fault(
    "a record puts off a digest whose time has come",
    of="core.machine:_has_come",
    directed="test_a_time_that_has_come_is_not_put_off",
    vectors=True,
)
def _(sound, slot, openings, *, now):
    return False


@fault(
    "increments count from the time that the window made",
    of="core.machine:due_by_delays",
    directed="test_increments_move_the_time_by_the_delays_alone",
    vectors=True,
)
def _(sound, slot):
    return slot.at


@fault(
    "an urgent record waits although the window lets it pass",
    of="core.machine:move",
    directed="test_an_urgent_record_passes_where_the_window_lets_it",
    vectors=True,
)
def _(sound, slot, at, rule, *, openings, **facts):
    return sound(slot, at, rule, openings=openings and replace(openings, urgent=False), **facts)


@fault(
    "every urgent record passes, whatever the window says",
    of="core.machine:move",
    directed="test_an_urgent_record_waits_where_the_window_does_not_let_it",
    vectors=True,
)
def _(sound, slot, at, rule, *, openings, **facts):
    return sound(slot, at, rule, openings=openings and replace(openings, urgent=True), **facts)


@fault(
    "a pass outlasts its digest",
    of="core.machine:after_completion",
    directed="test_a_pass_ends_with_its_digest",
    vectors=True,
)
def _(sound, slot, **facts):
    after = sound(slot, **facts)
    return after if after.state is State.IDLE else replace(after, passes=after.passes or slot.passes)


@fault(
    "what was flushed is held back by its window",
    of="core.windows.admission:admission",
    directed="test_what_is_flushed_leaves_at_once",
)
def _(sound, slot, window, timeline, *, now):
    return sound(replace(slot, passes=False), window, timeline, now=now)


@fault(
    "hours do not bind retries",
    of="core.windows.admission:admission",
    directed="test_an_unfinished_digest_of_a_worker_that_died_waits_for_the_hours",
)
def _(sound, slot, window, timeline, *, now):
    return sound(slot, window, timeline, now=now) if slot.digest is None else None


@fault(
    "a retry waits for the next time of the calendar",
    of="core.windows.admission:admission",
    directed="test_a_failed_attempt_is_retried_by_its_ladder",
    model=False,  # it asks the calendar itself
)
def _(sound, slot, window, timeline, *, now):
    return sound(replace(slot, digest=None), window, timeline, now=now)


@fault(
    "a timeline with a stored window is claimed without being asked for",
    of="core.machine:must_be_admitted",
    directed="test_a_stored_window_makes_a_candidate_of_its_timeline_alone",
)
def _(sound, slot, *, asks):
    return asks and sound(slot, asks=asks)


@fault(
    "what has changed since it was seen is opened all the same",
    of="stores.rows.leases:admit",
    directed="test_what_changed_meanwhile_is_left_alone",
    model=False,  # nothing happens there between a claim and its admission
)
def _(sound, rows, admissions, grant, *, now):
    unchanged = [each._replace(seen=seen(rows.slot(each.timeline))) for each in admissions]
    return sound(rows, unchanged, grant, now=now)


@fault(
    "what is held back loses its time by the delays",
    of="core.machine:after_admission_refused",
    directed="test_what_is_kept_twice_remembers_its_time_by_the_delays",
    vectors=True,
)
def _(sound, slot, *, until):
    return replace(sound(slot, until=until), by_delays=None)
