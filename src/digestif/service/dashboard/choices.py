"""What people choose from on the page of a timeline: cadences, each with a plain description."""

from collections.abc import Mapping

from digestif.core.cadences import Choice
from digestif.core.policy import Policy
from digestif.core.spans import span

LONGEST_DESCRIPTION = 80  # characters
OFF = "no digests: deletes pending records and declines new ones"
INSTANT = "each record as soon as it arrives"
TIMES = {"daily": "every day at", "weekly": "every week:"}  # by the kind of window


def described_cadences(cadences: Mapping[str, Choice]) -> list[tuple[str, str]]:
    """Return the names of the cadences with their descriptions; those that delete records come last."""
    in_order = sorted(cadences.items(), key=lambda item: not isinstance(item[1], Policy))
    return [(name, described(choice)) for name, choice in in_order]


def described(choice: Choice) -> str:
    """Say in plain words when digests leave; a policy with more to it is shown as its text."""
    if not isinstance(choice, Policy):
        return OFF
    text = _times(choice) or _delays(choice) or str(choice)
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}…"


def _times(policy: Policy) -> str | None:
    """Describe a window of one rule with times of day."""
    kind, _, times = str(policy.window).partition("@")
    is_plain = policy.maximum_delay == 0 and policy.max_records is None
    return f"{TIMES[kind]} {times}" if is_plain and kind in TIMES and "&" not in times else None


def _delays(policy: Policy) -> str | None:
    """Describe a policy that has no other rule than its delays."""
    others = (policy.window, policy.quiet, policy.backoff, policy.max_records)
    if policy.first_delay or any(other is not None for other in others):
        return None
    if not policy.minimum_delay and not policy.increment_delay:
        return INSTANT
    if not policy.increment_delay or policy.minimum_delay == policy.maximum_delay:
        return f"at most one digest every {span(policy.minimum_delay)}"
    return (
        f"{span(policy.minimum_delay)} after the last digest, {span(policy.increment_delay)} later for each record, "
        f"at most {span(policy.maximum_delay)}"
    )
