"""Faults in the life of a timeline: adds, due times, digests that come again, expiry, deletion."""

from msgspec.structs import replace

from digestif.core.capacity import Cursor
from digestif.core.records import State
from tests.nets.planting import fault, keeping, uncounted

NEVER_BEGAN = 2**62  # a place in a store's sequence that no timeline has


@fault(
    "a timeline does not notice that a large value arrived",
    of="stores.rows.arrivals:add",
    directed="test_a_digest_holds_the_newest_of_the_largest_values",
    model=False,
)
def _(sound, rows, arrival, *, now):
    before = rows.slot(arrival.timeline)
    accepted = sound(rows, arrival, now=now)
    rows.put_slot(arrival.timeline, keeping(rows.slot(arrival.timeline), before, "heavy"))
    return accepted


@fault(
    "a digest forgets that a merge brought large values",
    of="core.machine:after_decision",
    directed="test_large_values_are_weighed_after_a_merge",
    model=False,
)
def _(sound, slot, *, merge):
    after = sound(slot, merge=merge)
    return replace(after, digest=keeping(after.digest, slot.digest, "heavy"))


@fault(
    "large values of a dead letter are forgotten at its requeue",
    of="core.machine:after_requeue",
    directed="test_large_values_are_weighed_after_a_requeue",
    model=False,
)
def _(sound, slot, **facts):
    return keeping(sound(slot, **facts), slot, "heavy")


@fault(
    "an urgent record is forgotten at the completion",
    of="core.machine:after_completion",
    directed="test_it_is_urgent_after_a_digest_that_was_open_when_it_came",
    vectors=True,
)
def _(sound, slot, **facts):
    return sound(replace(slot, deadline=None), **facts)


@fault(
    "a record puts off the retry of a failed digest",
    of="core.machine:after_add",
    directed="test_a_retry_is_not_put_off_nor_pulled_forward",
    vectors=True,
)
def _(sound, slot, **facts):
    return keeping(sound(replace(slot, digest=None), **facts), slot, "digest")


@fault(
    "a stream of records puts a digest off for ever",
    of="core.machine:_capped",
    directed="test_increments_end_at_the_maximum_after_the_last_delivery",
    vectors=True,
)
def _(sound, at, rule, cap, cap_rule):
    return at, rule


@fault(
    "a digest that lapsed is merged with newer records",
    of="core.machine:after_lapse",
    directed="test_a_lost_lease_gives_exactly_the_same_digest_again",
)
def _(sound, slot):
    after = sound(slot)
    if after.digest is None or after.digest.served:
        return after
    return replace(after, digest=keeping(after.digest, slot.digest, "frozen", "deciding", "fresh"))


@fault(
    "a merged digest comes under the key that it had before",
    of="core.machine:after_decision",
    directed="test_the_revision_rises_with_what_joined_after_a_reported_failure",
)
def _(sound, slot, *, merge):
    after = sound(slot, merge=merge)
    return replace(after, digest=keeping(after.digest, slot.digest, "revision"))


@fault(
    "a digest that nothing joined gets another key",
    of="core.machine:after_decision",
    directed="test_a_digest_that_nothing_joined_keeps_its_key",
)
def _(sound, slot, *, merge):
    after = sound(slot, merge=merge)
    return replace(after, digest=replace(after.digest, revision=slot.digest.revision + 1)) if merge else after


@fault(
    "a digest that was put off counts as one that no attempt has read",
    of="core.machine:after_failure",
    directed="test_under_a_lower_capacity_a_digest_that_was_read_stays_whole",
)
def _(sound, slot, *, read, **facts):
    return sound(slot, read=False, **facts)


@fault(
    "a second worker opens a digest a moment before the first one's lease ends",
    of="core.machine:refuse_opening",
    directed="test_a_lease_is_alive_until_the_last_moment",
)
def _(sound, slot, timeline, *, now):
    return sound(slot, timeline, now=now + 1)


@fault(
    "an older version that a merge replaces is not in the ledger",
    of="stores.rows.open_digests:_merge_page",
    directed="test_a_later_version_of_a_failed_record_wins",
)
def _(sound, rows, slot, *, limit):
    with uncounted(rows, "superseded"):
        return sound(rows, slot, limit=limit)


@fault(
    "what expires is not in the ledger",
    of="stores.rows.expiry:expire",
    directed="test_what_is_pending_for_too_long_expires",
)
def _(sound, rows, timeline, *, now, limit):
    with uncounted(rows, "expired"):
        return sound(rows, timeline, now=now, limit=limit)


@fault(
    "one call of schedule gives a timeline twice",
    of="stores.rows.schedule:schedule",
    directed="test_what_is_due_again_meanwhile_is_not_given_again",
    model=False,  # it does not deliver while a call of schedule is under way
)
def _(sound, rows, deadline, *, after, **facts):
    return sound(rows, deadline, after=after and (NEVER_BEGAN, *after[1:]), **facts)


@fault(
    "a paused timeline is scheduled and claimed",
    of="stores.rows.view:marks",
    directed="test_a_paused_timeline_accepts_but_does_not_move",
)
def _(sound, slot):
    return sound(slot)._replace(waiting=slot.at) if slot.state is State.WAITING else sound(slot)


@fault(
    "a record is retracted out of a digest",
    of="stores.rows.arrivals:retract",
    directed="test_a_record_in_a_digest_can_not_be_taken_back",
)
def _(sound, rows, timeline, key, *, now):
    slot = rows.slot(timeline)
    if slot.digest is None or not rows.remove_record(slot.digest.batch, key):
        return sound(rows, timeline, key, now=now)
    rows.tally["open"] -= 1
    rows.tally["deleted"] += 1
    rows.put_slot(timeline, replace(slot, digest=replace(slot.digest, records=slot.digest.records - 1)))
    return True


@fault(
    "of records with the same time the ones that came first are kept",
    of="core.capacity:age_order",
    directed="test_two_thousand_adds_within_a_millisecond_respect_capacity",
)
def _(sound, record):
    return Cursor(record.timestamp, -record.arrival)


@fault(
    "dead letters stay when their timeline is deleted",
    of="stores.rows.operations:_letters_to_delete",
    directed="test_its_history_and_dead_letters_go_too",
    model=False,  # only now and then: it would need more lives than we have time for
)
def _(sound, rows, timeline):
    return []


@fault(
    "an attempt that lost its lease deletes the timeline that another one has opened",
    of="stores.rows.operations:delete",
    directed="test_a_lost_lease_deletes_nothing",
)
def _(sound, rows, timeline, *, token, now):
    is_open = rows.slot(timeline).token is not None
    return sound(rows, timeline, token=None if is_open else token, now=now)
