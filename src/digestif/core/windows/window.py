"""Window: the calendar part of a policy."""

from dataclasses import dataclass, field, replace
from hashlib import blake2b

from digestif.core.options import refuse_misspelt
from digestif.core.terms import Openings
from digestif.core.texts import shortened
from digestif.core.times import Duration, Millis, to_seconds
from digestif.core.windows.gaps import longest_gap, shortest_hours
from digestif.core.windows.occurrences import Occurrences
from digestif.core.windows.openings import OpeningsCache
from digestif.core.windows.recurrence import Hours
from digestif.core.windows.rule import Rule, ZoneRule, Zones, in_order, make_rule, occurrences, read_rule
from digestif.core.windows.zones import zone_of
from digestif.errors import ConfigError


@dataclass(frozen=True, slots=True, repr=False)
class Window:
    """The times or hours at which a digest may leave, in an IANA time zone.

    `daily`, `weekly`, `monthly` and `cron` are times: a digest is due at the first of them that its delays allow.
    `hours` and `quiet` are hours: a digest leaves only inside them. `&` combines: the times that lie inside all hours.
    `tz` is the name of a zone, or a callable from timeline to name. `jitter` spreads timelines over so many seconds,
    each always by the same part of them. Windows are equal if they are written alike; `&` has no order.
    """

    rules: tuple[Rule, ...]
    has_times: bool = field(init=False, compare=False)
    has_hours: bool = field(init=False, compare=False)
    urgent: bool = field(init=False, compare=False)  # a record's own deadline does not wait for an opening
    longest_gap: float = field(init=False, compare=False)  # an upper bound, in seconds
    _zones: Zones | None = field(init=False, compare=False)  # None if a callable names them
    _cache: OpeningsCache = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.rules) is not tuple or not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise ConfigError("window: make one with Window.daily, weekly, monthly, cron, hours or quiet")
        self._set("rules", in_order(self.rules))
        gap = longest_gap(self.rules)
        if gap is None:
            raise ConfigError(
                f"window: {self!r} never opens; choose times inside the hours, and a jitter that fits them"
            )
        is_hours = [isinstance(rule.recurs, Hours) for rule in self.rules]
        urgent = all(rule.urgent for rule in self.rules)
        self._set("has_times", not all(is_hours))
        self._set("has_hours", any(is_hours))
        self._set("urgent", urgent)
        self._set("longest_gap", to_seconds(gap))
        self._set("_zones", None if self.holds_callable else tuple(rule.zone("") for rule in self.rules))
        self._set("_cache", OpeningsCache(self.rules, urgent=urgent, gap=gap))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    @refuse_misspelt
    def daily(cls, *times: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """Every day at "09:00", or at several times."""
        return cls((make_rule("daily", times, tz, jitter, urgent),))

    @classmethod
    @refuse_misspelt
    def weekly(cls, *times: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """Every week at "mon 08:30", "mon-fri 08:30" or "tue,thu 17:00"."""
        return cls((make_rule("weekly", times, tz, jitter, urgent),))

    @classmethod
    @refuse_misspelt
    def monthly(cls, day: int, *times: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """Every month on this day, -1 for the last, at "08:00". A month without this day: on its last."""
        return cls((make_rule("monthly", (day, *times), tz, jitter, urgent),))

    @classmethod
    @refuse_misspelt
    def cron(cls, expression: str, *, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """By minute, hour, day of month, month and day of week: "*/20 8-18 * * 1-5"."""
        return cls((make_rule("cron", (expression,), tz, jitter, urgent),))

    @classmethod
    @refuse_misspelt
    def hours(cls, *spans: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """Only inside "mon-fri 08:00-18:00". A span may pass midnight: it belongs to the day on which it begins."""
        return cls((make_rule("hours", spans, tz, jitter, urgent),))

    @classmethod
    @refuse_misspelt
    def quiet(cls, *spans: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False) -> "Window":
        """Only outside of "22:00-07:00", written like `hours`."""
        return cls((make_rule("quiet", spans, tz, jitter, urgent),))

    @classmethod
    def parse(cls, text: str) -> "Window":
        """The window that `str` wrote: "daily@09:00 Europe/Berlin & quiet@sat,sun 00:00-24:00 Europe/Berlin"."""
        if not isinstance(text, str):
            raise ConfigError(f"window: {shortened(text)} is not a text such as daily@09:00 Europe/Berlin")
        return cls(tuple([read_rule(part) for part in text.split("&")]))

    def __and__(self, other: "Window") -> "Window":
        if not isinstance(other, Window):
            return NotImplemented
        return Window((*self.rules, *other.rules))

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.rules))

    def __str__(self) -> str:
        return " & ".join(map(str, self.rules))

    # Zones

    @property
    def holds_callable(self) -> bool:
        """True if the zone is found by a callable, which can't be written as text."""
        return any(callable(rule.tz) for rule in self.rules)

    def in_zone(self, zone: str) -> "Window":
        """The same times and hours in another zone."""
        return Window(tuple([replace(rule, tz=zone) for rule in self.rules]))

    def zone_of(self, timeline: str) -> str:
        """The name of the timeline's zone, of the first rule if there are several."""
        name = self.rules[0].zone(timeline)
        zone_of(name)
        return name

    @property
    def is_shared(self) -> bool:
        """True if the openings of all timelines are the same: one zone, no jitter."""
        return self._zones is not None and self._cache.is_shared

    def missed_by(self, poll: float) -> str | None:
        """Say that the hours may pass between two looks of a worker, and what to do; None if they are long enough.

        A worker looks every `poll` seconds. Hours that last for two looks are met even if one look comes late.
        """
        shortest = shortest_hours(self.rules)
        if shortest is None or to_seconds(shortest) >= 2 * poll:
            return None
        return (
            f"{self!r} is open for {to_seconds(shortest):g} s, and the worker looks every {poll:g} s: it may be missed"
            f"; make it {2 * poll:g} s or longer, or let the worker poll every {to_seconds(shortest) / 2:g} s"
        )

    # When

    def openings(self, timeline: str, now: Millis, *, reach: Millis | None) -> Openings:
        """The last opening at or before now and the next ones: at least 4, as far as now + reach, at most 32.

        Of hours, spans: from the one that contains now. A reach of None gives those that are stored with an override.
        """
        zones = self._zones or tuple([rule.zone(timeline) for rule in self.rules])
        share = 0 if self._cache.is_shared else share_of(timeline)
        return self._cache.most(zones, share, now) if reach is None else self._cache.get(zones, share, now, reach)

    def first(self, timeline: str, at: Millis, last: Millis | None) -> Millis | None:
        """The first moment from `at` on at which it opens or is open; of times, also after the last delivery.

        None if that never comes.
        """
        found = self._occurrences(timeline)
        if found.times:
            return found.first_time(at if last is None else max(at, last + 1))
        return _inside(found, at)

    def next_hours(self, timeline: str, at: Millis) -> Millis | None:
        """The first moment from `at` on inside all hours: `at` itself if it is inside, or if there are no hours."""
        return _inside(self._occurrences(timeline), at) if self.has_hours else at

    def _occurrences(self, timeline: str) -> Occurrences:
        zones = self._zones or tuple([rule.zone(timeline) for rule in self.rules])
        return occurrences(self.rules, zones, share_of(timeline))


def share_of(timeline: str) -> int:
    """The timeline's share of a jitter, from 0 up to 2⁶⁴: evenly spread, the same in every process."""
    return int.from_bytes(blake2b(timeline.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _inside(found: Occurrences, at: Millis) -> Millis | None:
    if not found.hours:  # or they are always open
        return at
    span = found.first_span(at)
    return None if span is None else max(at, span.start)
