"""Faults in a move from one store into another."""

from msgspec.structs import replace

from digestif.core import machine
from digestif.stores.rows.view import put
from tests.nets.planting import fault


@fault(
    "a store that is being moved delivers the first record of an idle timeline",
    of="core.machine:_awaken",
    directed="test_an_idle_timeline_waits_when_a_record_arrives",
    model=False,
    vectors=True,
)
def _(sound, slot, *, held, **facts):
    return sound(slot, held=slot.paused, **facts)


@fault(
    "a store that is being moved is claimed from",
    of="stores.rows.leases:claim",
    directed="test_nothing_is_claimed",
    model=False,
)
def _(sound, rows, limit, grant, *, asks):
    moving = rows.moving()
    rows.put_moving(None)
    page = sound(rows, limit, grant, asks=asks)
    rows.put_moving(moving)
    return page


@fault(
    "a move that goes on does not stop deliveries again",
    of="transfer.lock:MoveLock._stop_deliveries",
    directed="test_a_move_that_is_given_up_leaves_a_store_that_delivers",
    model=False,
)
def _(sound, self, *, now):
    return None


@fault(
    "records that follow do not put their digest off",
    of="core.machine:after_push",
    directed="test_as_many_digests_go_out_as_without_a_move",
    model=False,
)
def _(sound, slot, push):
    return slot


@fault(
    "off that arrives leaves what is pending",
    of="stores.rows.transfer:_put_arrived",
    directed="test_off_that_arrives_empties_the_timeline",
    model=False,
)
def _(sound, rows, timeline, before, slot):
    if not machine.is_off(slot) or slot.digest is not None:
        return sound(rows, timeline, before, slot)
    return put(rows, timeline, before, machine.after_switched_off(slot))


@fault(
    "a digest that arrives is tried again though its timeline is off",
    of="stores.rows.transfer:_put_arrived",
    directed="test_a_digest_that_brings_off_along_is_deleted_with_what_waits",
    model=False,
)
def _(sound, rows, timeline, before, slot):
    if slot.digest is None:
        return sound(rows, timeline, before, slot)
    return put(rows, timeline, before, slot)


@fault(
    "what was chosen during an export is lost",
    of="core.transfer:after_commit_export",
    directed="test_what_is_chosen_while_a_timeline_is_copied_follows",
    model=False,
)
def _(sound, slot, exported, *, now):
    after = sound(slot, exported, now=now)
    return after if slot.pending else replace(after, override=None)


@fault(
    "what was chosen between two runs of a move is lost",
    of="transfer.move:_without_choices",
    directed="test_what_is_chosen_while_a_timeline_is_copied_follows",
    model=False,
)
def _(sound, parcel):
    return parcel


@fault(
    "a policy that arrives does not move what waits",
    of="core.transfer:brings_override",
    directed="test_a_policy_that_arrives_moves_what_waits",
    model=False,
)
def _(sound, before, after):
    return False
