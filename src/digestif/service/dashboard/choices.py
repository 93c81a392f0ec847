"""What people choose from on the page of a timeline: cadences with plain descriptions, and the parts of a policy."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from digestif.compose.cadence import cadence_of
from digestif.compose.times import Times
from digestif.compose.wording import Wording
from digestif.core.cadences import Choice
from digestif.core.policy import Policy
from digestif.errors import ConfigError

LONGEST_DESCRIPTION = 120  # characters
OFF = "no digests: deletes pending records and declines new ones"
WORDS = Wording(  # pages speak of records and digests where messages speak of events and messages
    record=("record", "records"),
    cadence_between="at least {minimum} and at most {maximum} after the last digest",
    cadence_fixed="{minimum} after the last digest",
    cadence_times="",
)
PARTS = (  # of a policy: name in its text, label, example
    ("times", "Times at which digests leave", "daily@09:00 Europe/Berlin"),
    ("minimum", "Shortest time between two digests", "5m"),
    ("increment", "Longer by this for each further record", "30s"),
    ("maximum", "Longest time between two digests", "30m"),
    ("first", "Wait after the first record of an idle timeline", "1m"),
    ("quiet", "Wait until no record came for", "2m"),
    ("max_records", "Send as soon as this many records are pending", "100"),
    ("capacity", "Keep at most this many pending records", "1000"),
)
LONGEST_PART = 200  # characters


class Draft(Struct, frozen=True):
    """The text of a policy, made from parts that a person typed, and what is wrong with it."""

    text: str = ""
    meaning: str | None = None
    problem: str | None = None


def draft_of(asked: Callable[[str], str]) -> Draft:
    """Write a policy's text from the parts that were asked for; empty if none was."""
    typed = {name: asked(name).strip()[:LONGEST_PART] for name, _, _ in PARTS}
    times = typed.pop("times")
    text = ",".join([*([times] if times else []), *(f"{name}={value}" for name, value in typed.items() if value)])
    if not text:
        return Draft()
    try:
        return Draft(text, meaning=described(Policy.parse(text)))
    except ConfigError as error:
        return Draft(text, problem=str(error))


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
