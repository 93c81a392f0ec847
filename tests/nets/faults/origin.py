"""The origin's faults. Most leave the ledger balanced: what `verify` alone can find says little about the nets."""

from msgspec.structs import replace

from digestif.core.records import State
from digestif.stores.rows.arrivals import retract
from digestif.stores.rows.endings import newest_keys
from digestif.stores.rows.view import held_slot, put
from tests.nets.planting import fault


@fault(
    "a record that is added again while its digest is open is lost at the completion",
    of="stores.rows.endings:complete",
    directed="test_a_record_added_again_during_its_digest_is_in_the_next_one",
)
def _(sound, rows, completion, *, now):
    slot = held_slot(rows, completion.lease, now=now)
    digest = None if slot is None else slot.digest
    for key in () if digest is None else newest_keys(rows, digest.batch):
        if retract(rows, completion.lease.timeline, key, now=now):
            rows.tally["deleted"] -= 1
            rows.tally["superseded"] += 1
    return sound(rows, completion, now=now)


@fault(
    "an open digest is completed with any token",
    of="stores.rows.endings:complete",
    directed="test_a_stale_token_changes_nothing",
)
def _(sound, rows, completion, *, now):
    held = completion.lease._replace(token=rows.slot(completion.lease.timeline).token or "")
    return sound(rows, completion._replace(lease=held), now=now)


@fault(
    "a lapsed lease can complete its digest as long as no other was given",
    of="stores.rows.endings:complete",
    directed="test_a_stale_token_changes_nothing",
)
def _(sound, rows, completion, *, now):
    timeline, slot = completion.lease.timeline, rows.slot(completion.lease.timeline)
    if slot.token == completion.lease.token:
        rows.put_slot(timeline, replace(slot, until=now + 1))
    return sound(rows, completion, now=now)


@fault(
    "a completion that comes after a delete is refused, but puts the timeline back into the schedule",
    of="stores.rows.endings:complete",
    directed="test_who_lost_the_lease_changes_nothing",
)
def _(sound, rows, completion, *, now):
    timeline, slot = completion.lease.timeline, rows.slot(completion.lease.timeline)
    if slot.state is State.IDLE:
        put(rows, timeline, slot, replace(slot, state=State.WAITING, at=now + completion.cool_down))
    return sound(rows, completion, now=now)


@fault(
    "the time of the event decides when a timeline is due",
    of="stores.rows.arrivals:add",
    directed="test_first_delays_silence_and_deadlines_count_from_the_arrival",
)
def _(sound, rows, arrival, *, now):
    return sound(rows, arrival, now=round(arrival.timestamp * 1000))


@fault(
    "capacity is applied at one add of 24, as chance has it",
    of="stores.rows.arrivals:add",
    directed="test_a_dropped_key_that_comes_again_is_a_new_record",
)
def _(sound, rows, arrival, *, now):
    capacity = arrival.terms.capacity if rows.sequence() % 24 == 0 else None
    return sound(rows, arrival._replace(terms=replace(arrival.terms, capacity=capacity)), now=now)


@fault(
    "an add keeps one record more than the capacity",
    of="stores.rows.arrivals:add",
    directed="test_a_dropped_key_that_comes_again_is_a_new_record",
)
def _(sound, rows, arrival, *, now):
    capacity = arrival.terms.capacity and arrival.terms.capacity + 1
    return sound(rows, arrival._replace(terms=replace(arrival.terms, capacity=capacity)), now=now)


@fault(
    "a merge keeps one record more than the capacity",
    of="core.machine:excess",
    directed="test_a_failed_digest_and_newer_records_share_the_capacity",
)
def _(sound, digest, capacity):
    return max(0, sound(digest, capacity) - 1)


@fault(
    "what an add pushes out is not in the ledger",
    of="stores.rows.arrivals:add",
    directed="test_the_newest_are_kept_and_the_others_counted",
)
def _(sound, rows, arrival, *, now):
    accepted = sound(rows, arrival, now=now)
    rows.tally["dropped"] -= accepted.dropped
    return accepted


@fault(
    "what a merge pushes out is not in the ledger",
    of="stores.rows.open_digests:_drop",
    directed="test_a_failed_digest_and_newer_records_share_the_capacity",
)
def _(sound, rows, digest, count):
    dropped = sound(rows, digest, count)
    rows.tally["dropped"] -= dropped
    return dropped
