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


def agree(stored: Openings, fresh: Openings, *, after: Millis) -> bool:
    """True if both have the same openings after a time, as far as both know them."""
    left, found = ([number for number in each.numbers if number > after] for each in (stored, fresh))
    known = min(len(left), len(found))
    return left[:known] == found[:known]


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
    """The terms of an add: delays given to the call, then the stored override, then the policy in the code.

    The engine refuses a given delay that the ttl does not allow. One that arrives here was checked before the policy
    changed: the override wins over it, and without an override it is cut.
    """
    if not terms.given:
        return terms if override is None else override.terms
    given = {name: getattr(terms, name) for bit, name in GIVEN.items() if terms.given & bit}
    if override is None:
        return _cut(terms, given)
    given = {name: delay for name, delay in given.items() if allows(override.terms.ttl, delay)}
    if "maximum" in given and override.terms.increment is None:  # as a cap that is given to a policy with a backoff
        given.setdefault("increment", 0)
    return replace(override.terms, **given)


def _cut(terms: Terms, given: dict[str, Millis]) -> Terms:
    if terms.ttl is None:
        return terms
    longest = longest_delay(terms.ttl)
    return replace(terms, **{name: min(delay, longest) for name, delay in given.items()})


def allows(ttl: Millis | None, delay: Millis) -> bool:
    """True if a call may give this delay: records must not expire while they wait."""
    return ttl is None or delay <= longest_delay(ttl)


def longest_delay(ttl: Millis) -> Millis:
    """The longest delay that a call may give."""
    return ttl // 2
