"""The numbers of a policy that stores need: delays, limits, openings of the calendar. Stores know no time zones."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from digestif.core.times import LONGEST, Millis

# Stored values outside of these bounds are damage.
Count = Annotated[int, Meta(ge=0, le=2**62)]
Time = Annotated[Millis, Meta(ge=-(2**62), le=2**62)]
Duration = Annotated[Millis, Meta(ge=0, le=round(LONGEST * 1000))]
Limit = Annotated[int, Meta(ge=1)]

# What a call gave itself, in `Terms.given`: an override does not replace it.
FIRST_DELAY, INCREMENT, MAXIMUM = 1, 2, 4
GIVEN = {FIRST_DELAY: "first_delay", INCREMENT: "increment", MAXIMUM: "maximum"}


class Openings(Struct, frozen=True, omit_defaults=True):
    """The next times at which the calendar lets a timeline be due, rising. Later ones are not known here."""

    numbers: tuple[Time, ...]  # times; of hours, start and end in turns
    hours: bool = False  # spans [start, end) instead of single times
    urgent: bool = False  # a record's own deadline does not wait for an opening


class Terms(Struct, frozen=True):
    """The numbers of a policy that a store needs for one add. Durations in milliseconds."""

    first_delay: Duration = 0
    increment: Duration | None = None  # None: an add moves nothing, not even by the cap
    maximum: Duration = 0
    quiet: Duration | None = None
    max_records: Limit | None = None
    capacity: Limit | None = None
    ttl: Duration | None = None
    openings: Openings | None = None  # None: any time will do
    given: Count = 0  # which delays the call gave itself


class Override(Struct, frozen=True, omit_defaults=True):
    """A policy that is stored for one timeline: it holds in every process, instead of the policies in the code."""

    text: str  # the policy as `Policy.parse` reads it
    since: Time  # when it was set
    terms: Terms
    cool_downs: tuple[Duration, ...] = (0,)  # by iteration; the last one also holds for all later ones
    cadence: str | None = None  # the name under which a person chose it
    zone: str | None = None  # and the time zone
    off: bool = False  # no record is accepted

    def cool_down(self, iteration: int) -> Millis:
        """The wait after the digest of this iteration."""
        return self.cool_downs[min(iteration, len(self.cool_downs) - 1)]


def in_force(terms: Terms, override: Override | None) -> Terms:
    """The terms of an add: delays given to the call, then the stored override, then the policy in the code."""
    if override is None:
        return terms
    if not terms.given:
        return override.terms
    given = {name: getattr(terms, name) for bit, name in GIVEN.items() if terms.given & bit}
    if "maximum" in given and override.terms.increment is None:  # as a cap that is given to a policy with a backoff
        given.setdefault("increment", 0)
    return replace(override.terms, **given)
