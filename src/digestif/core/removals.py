"""What a store remembers of pending records that left a timeline without a digest: they were retracted, or expired."""

from msgspec import Struct
from msgspec.structs import replace

from digestif.core.terms import Count, Time
from digestif.core.times import Millis

RETRACTED_KEYS = 20  # of a timeline, the latest


class Removals(Struct, frozen=True, omit_defaults=True):
    """Keys that were retracted from a timeline, and how many of its records expired, from when to when."""

    retracted: tuple[tuple[str, Time], ...] = ()  # keys and times, the latest last
    expired: Count = 0
    first_expired: Time | None = None
    last_expired: Time | None = None

    @property
    def last(self) -> Millis:
        """When it was changed last."""
        return max(self.last_expired or 0, *(at for _, at in self.retracted), 0)


def after_retraction(removals: Removals, key: str, *, now: Millis) -> Removals:
    return replace(removals, retracted=(*removals.retracted, (key, now))[-RETRACTED_KEYS:])


def after_expiry(removals: Removals, count: int, *, now: Millis) -> Removals:
    first = now if removals.first_expired is None else removals.first_expired
    return replace(removals, expired=removals.expired + count, first_expired=first, last_expired=now)
