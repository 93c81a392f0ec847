"""What people choose from on the page of a timeline: cadences, each with a plain description."""

from collections.abc import Mapping

from digestif.compose.cadence import cadence_of
from digestif.compose.times import Times
from digestif.compose.wording import Wording
from digestif.core.cadences import Choice
from digestif.core.policy import Policy

LONGEST_DESCRIPTION = 120  # characters
OFF = "no digests: deletes pending records and declines new ones"
WORDS = Wording(  # pages speak of records and digests where messages speak of events and messages
    record=("record", "records"),
    cadence_between="at least {minimum} and at most {maximum} after the last digest",
    cadence_fixed="{minimum} after the last digest",
    cadence_times="",
)


def described_cadences(cadences: Mapping[str, Choice]) -> list[tuple[str, str]]:
    """Return the names of the cadences with their descriptions; those that delete records come last."""
    in_order = sorted(cadences.items(), key=lambda item: not isinstance(item[1], Policy))
    return [(name, described(choice)) for name, choice in in_order]


def described(choice: Choice) -> str:
    """Say in plain words when digests leave; a policy that needs more than words is shown as its text."""
    if not isinstance(choice, Policy):
        return OFF
    text = cadence_of(choice, Times("UTC", 24, WORDS)) or str(choice)
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}…"
