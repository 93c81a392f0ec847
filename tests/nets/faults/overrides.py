"""Faults in which policy holds: that of a call, the stored one, or that in the code."""

from msgspec.structs import replace

from digestif.core.terms import Override
from tests.nets.planting import fault, keeping


def without_ttl(override: Override | None) -> Override | None:
    return override and replace(override, terms=replace(override.terms, ttl=None))


@fault(
    "an override wins over the delays of a call",
    of="core.terms:in_force",
    directed="test_the_delays_of_a_call_come_first_in_an_add",
    vectors=True,
)
def _(sound, terms, override):
    return sound(terms, override) if override is None else override.terms


@fault(
    "a digest ends by the policy of the code, not by the stored one",
    of="core.machine:plan_in_force",
    directed="test_replaced_during_a_delivery_the_later_one_decides",
    vectors=True,
)
def _(sound, plan, slot):
    return sound(plan, slot) if plan.given else plan


@fault(
    "a delay of a call may outlive the ttl",
    of="intake.policies:Policies.refuse_delays",
    directed="test_a_delay_that_would_outlive_the_ttl_is_refused",
)
def _(sound, self, timeline, delays, override):
    return None


@fault(
    "a delay of a call wins over a policy that was set since it was checked",
    of="core.terms:in_force",
    directed="test_a_policy_set_in_between_places_the_record",
    model=False,  # nothing happens there between the check and the add
    vectors=True,
)
def _(sound, terms, override):
    found = sound(terms, without_ttl(override))
    return found if override is None else keeping(found, override.terms, "ttl")


@fault(
    "a cool-down of a call wins over a policy that was set since it was checked",
    of="core.machine:plan_in_force",
    directed="test_a_policy_set_during_a_delivery_gives_the_cool_down",
    model=False,  # few of its deliveries meet a new policy
    vectors=True,
)
def _(sound, plan, slot):
    return sound(plan, replace(slot, override=without_ttl(slot.override)))


@fault(
    "an override is forgotten when its timeline is idle",
    of="core.machine:after_retirement",
    directed="test_an_override_survives_idle_but_not_delete",
)
def _(sound, slot):
    return replace(sound(slot), override=None)


@fault(
    "another policy leaves what waits where it was",
    of="stores.rows.overrides:planned_by",
    directed="test_from_daily_to_instant_it_is_due_now_and_back_at_the_next_time",
)
def _(sound, rows, slot, override, *, now):
    return slot


@fault(
    "another policy moves a digest that waits for its retry",
    of="core.machine:after_plan",
    directed="test_an_unfinished_digest_keeps_its_time",
    vectors=True,
)
def _(sound, slot, **facts):
    return keeping(sound(replace(slot, digest=None), **facts), slot, "digest")


@fault(
    "records expire while they wait for the first opening of a new policy",
    of="core.machine:after_plan",
    directed="test_records_do_not_expire_while_they_wait_for_an_opening",
    vectors=True,
)
def _(sound, slot, **facts):
    return keeping(sound(replace(slot, expires=None), **facts), slot, "expires")


@fault(
    "the capacity of an override does not hold",
    of="core.terms:in_force",
    directed="test_capacity_and_ttl_of_an_override_hold",
)
def _(sound, terms, override):
    return keeping(sound(terms, override), terms, "capacity", "ttl")


@fault(
    "records for a timeline that is off are accepted",
    of="core.machine:is_off",
    directed="test_nothing_is_accepted_and_that_is_counted",
)
def _(sound, slot):
    return False


@fault(
    "what is deleted by switching a timeline off is not counted",
    of="stores.rows.overrides:emptied",
    directed="test_what_waits_is_deleted_and_counted",
)
def _(sound, rows, slot):
    before = rows.tally["deleted"]
    after = sound(rows, slot)
    rows.tally["accepted"] -= rows.tally["deleted"] - before
    rows.tally["deleted"] = before
    return after
