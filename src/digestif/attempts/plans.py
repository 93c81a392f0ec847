"""Plans: when a timeline may be delivered again after its digest, by the policies in force and in the code."""

from contextlib import suppress

from msgspec.structs import replace

from digestif.attempts.admission import PolicySource
from digestif.attempts.stages import Claimed
from digestif.core.machine import Plan
from digestif.core.terms import Openings, Override, agree
from digestif.core.times import Duration, Millis, in_seconds, to_millis

OPENINGS_LEFT = 4  # with fewer openings left in an override, new ones are stored


def plan_after(
    claimed: Claimed, policies: PolicySource, *, iteration: int, minimum_delay: Duration | None
) -> tuple[Millis, Plan]:
    """Return the cool-down by the policy in force, and the plan by the policy in the code, without any override.

    If a function for the time zone fails, the plan has no openings, and the timeline is aligned when it is due.
    """
    timeline, code, openings = claimed.held.timeline, claimed.policy, None
    is_given = minimum_delay is not None
    by_code = in_force = to_millis(in_seconds(minimum_delay)) if is_given else code.cool_down(iteration)
    try:
        if claimed.held.lease.override is not None:
            code = policies.of(timeline)
            by_code = by_code if is_given else code.cool_down(iteration)
        openings = code.openings(timeline, to_millis(claimed.held.time()))
    except Exception as error:  # noqa: BLE001  # a user's function
        policies.report(timeline, policies.source_of(timeline), error)
    ttl = to_millis(code.ttl) if is_given and code.ttl is not None else None
    return in_force, Plan(by_code, code.max_records, openings, is_given, ttl)


def refresh_openings(claimed: Claimed, override: Override) -> None:
    """Store new openings of the timeline's override if few are left, or the zone data changed.

    Adds schedule the timeline by the stored openings.
    """
    if override.terms.openings is None:
        return
    with suppress(Exception):  # from a user's function or the store: admission aligns the timeline when it is due
        if not _are_current(override.terms.openings, claimed):
            openings = claimed.policy.openings(claimed.held.timeline, to_millis(claimed.held.time()), far=True)
            fresh = replace(override, terms=replace(override.terms, openings=openings))
            claimed.held.store.refresh_override(claimed.held.timeline, fresh)


def _are_current(stored: Openings, claimed: Claimed) -> bool:
    """Return True if enough stored openings are left, and they agree with today's zone data."""
    until = claimed.held.lease.until
    if sum(number > until for number in stored.numbers) < OPENINGS_LEFT:
        return False
    near = claimed.policy.openings(claimed.held.timeline, claimed.held.given_at)
    return near is not None and agree(stored, near, after=until)
