"""Policies that are stored for single timelines: what a store keeps of them, and how it is kept up to date."""

from msgspec.structs import replace

from digestif.core.cadences import Cadences, text_of
from digestif.core.policy import Policy
from digestif.core.terms import Override, Terms
from digestif.core.texts import shortened
from digestif.core.times import Millis
from digestif.errors import ConfigError
from digestif.intake.policies import parsed


def override_of(
    policy: Policy, timeline: str, *, now: Millis, cadence: str | None = None, zone: str | None = None
) -> Override:
    """A policy as it is stored for a timeline. ConfigError if it holds a function, or more than its text says."""
    return Override(
        text=_checked_text(policy),
        since=now,
        terms=replace(policy.terms(), openings=policy.openings(timeline, now, far=True)),
        cool_downs=policy.cool_downs(),
        cadence=cadence,
        zone=zone,
    )


def _checked_text(policy: Policy) -> str:
    """The text, from which every process reads the policy; so it must give back exactly this one."""
    text = str(policy)
    try:
        is_same = parsed(text) == policy
    except ConfigError as error:
        raise ConfigError(f"policy: its text {shortened(text)} can't be read back: {error}") from None
    if not is_same:
        raise ConfigError(f"policy: its text {shortened(text)} reads back as another policy, so it can't be stored")
    return text


def chosen_override(
    cadences: Cadences, cadence: str, timeline: str, *, now: Millis, zone: str | None = None
) -> Override:
    """A cadence as it is stored for a timeline. ConfigError if it or the zone is unknown."""
    choice = cadences.choose(cadence, zone=zone)
    if isinstance(choice, Policy):
        return override_of(choice, timeline, now=now, cadence=cadence, zone=zone)
    return Override(text=text_of(choice), since=now, terms=Terms(), cadence=cadence, zone=zone, off=True)


def refreshed(override: Override, timeline: str, cadences: Cadences, *, now: Millis) -> Override:
    """The override with the numbers of today: later openings, and the policy that its cadence stands for now.

    A cadence that is unknown here keeps its policy. ConfigError if its text can't be read.
    """
    if override.cadence is not None and override.cadence in cadences:
        fresh = chosen_override(cadences, override.cadence, timeline, now=now, zone=override.zone)
        return replace(fresh, since=override.since)
    if override.off:
        return override
    fresh = override_of(parsed(override.text), timeline, now=now, cadence=override.cadence, zone=override.zone)
    return replace(fresh, since=override.since)
