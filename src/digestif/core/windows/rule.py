"""One rule of a window: what recurs, in which zone, how far it is spread."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from digestif.core.durations import read_duration, written_duration
from digestif.core.texts import did_you_mean, reason_of, shortened, shortened_text
from digestif.core.times import Duration, Millis, in_seconds, is_duration, to_millis
from digestif.core.windows import recurrence
from digestif.core.windows.occurrences import YEAR, HoursIn, Occurrences, TimesIn
from digestif.core.windows.recurrence import Cron, Hours, Monthly, Times
from digestif.core.windows.zones import check_zone, find_zone, may_be_zone, zone_of
from digestif.errors import ConfigError

ZoneRule: TypeAlias = str | Callable[[str], str]  # a name, or a callable from timeline to name
Zones: TypeAlias = tuple[str, ...]  # one for each rule

LONGEST_JITTER = 31 * 86_400
EVERYTHING = 1 << 64  # as a share: all of the jitter


@dataclass(frozen=True, slots=True, repr=False)
class Rule:
    """Times or hours in a zone. Rules are equal if they are written alike."""

    kind: str
    spec: str
    recurs: Times | Hours = field(compare=False)
    tz: ZoneRule
    jitter: float = 0
    urgent: bool = False

    def __post_init__(self) -> None:
        if not callable(self.tz):
            check_zone(self.tz)
            object.__setattr__(self, "tz", str.__str__(self.tz))  # a subclass may be written in another way
        elif type(self.tz).__hash__ is None:
            raise ConfigError(f"tz: {shortened(self.tz)} can't be hashed; give a function, or an object with __hash__")
        if not is_duration(self.jitter) or self.jitter > LONGEST_JITTER:
            raise ConfigError(f"jitter: {shortened(self.jitter)} is not a number of seconds from 0 to {LONGEST_JITTER}")
        if type(self.urgent) is not bool:
            raise ConfigError(f"urgent: {shortened(self.urgent)} is neither True nor False")

    def zone(self, timeline: str) -> str:
        """The name of the timeline's zone. One that a callable gave is not checked yet."""
        if not callable(self.tz):
            return self.tz
        try:
            name = self.tz(timeline)
        except Exception as error:
            raise ConfigError(f"tz: the callable fails for {shortened(timeline)}: {reason_of(error)}") from error
        if not isinstance(name, str):
            raise ConfigError(f"tz: the callable gives {shortened(name)} for {shortened(timeline)}, not a time zone")
        return name

    @property
    def is_weekly(self) -> bool:
        """True if all weeks are the same, but for clock changes."""
        recurs = self.recurs
        return not isinstance(recurs, Monthly) and (not isinstance(recurs, Cron) or recurs.is_weekly)

    def offset(self, share: int) -> Millis:
        """How much later than written, for a share of the jitter from 0 to EVERYTHING."""
        return to_millis(self.jitter) * share >> 64

    def __repr__(self) -> str:
        options = [f"tz={self.tz!r}"]
        options += [f"jitter={self.jitter!r}"] if self.jitter else []
        options += ["urgent=True"] if self.urgent else []
        return f"Window.{self.kind}({', '.join([*map(repr, self._arguments()), *options])})"

    def _arguments(self) -> Sequence[object]:
        if self.kind == "cron":
            return [self.spec]
        if self.kind == "monthly":
            day, _, times = self.spec.partition(" ")
            return [recurrence.LAST_DAY if day == "last" else int(day), *times.split("+")]
        return self.spec.split("+")

    def __str__(self) -> str:
        if callable(self.tz):
            raise ConfigError(
                "window: its tz is a callable, which can't be written as text; use in_zone() to name a zone"
            )
        jitter = f" jitter={written_duration(self.jitter)}" if self.jitter else ""
        return f"{self.kind}@{self.spec} {self.tz}{jitter}{' urgent' if self.urgent else ''}"


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Each rule once, in the order in which they are written: times first, then by kind, spec and zone."""
    return tuple(sorted(set(rules), key=_place))


def _place(rule: Rule) -> tuple[object, ...]:
    name, tie = (rule.tz, 0) if isinstance(rule.tz, str) else (_name_of(rule.tz), hash(rule.tz))
    return isinstance(rule.recurs, Hours), rule.kind, rule.spec, name, rule.jitter, rule.urgent, tie


def _name_of(zones: Callable[[str], str]) -> str:
    """Like a function is named in the code, so that the order is the same in every process."""
    return str(getattr(zones, "__qualname__", type(zones).__qualname__))


def make_rule(kind: str, arguments: Sequence[object], tz: ZoneRule, jitter: Duration, urgent: bool) -> Rule:
    """A rule from what people write, checked."""
    spec, recurs = _READERS[kind](arguments)
    return Rule(kind, spec, recurs, tz, in_seconds(jitter), urgent)


def read_rule(text: str) -> Rule:
    """The rule that was written as `kind@spec zone jitter=10m urgent`; the last two in either order, or left out."""
    kind, at, rest = text.strip().partition("@")
    if not at or kind not in _READERS:
        raise ConfigError(
            f"window: {shortened(text.strip())} is no rule of a window{did_you_mean(kind.casefold(), list(KINDS))}"
        )
    words = rest.split()
    options: dict[str, str] = {}
    while words and (words[-1] == "urgent" or words[-1].startswith("jitter=")):
        name, _, value = words.pop().partition("=")
        if name in options:
            raise ConfigError(f"window: {shortened(text.strip())} has {name} twice")
        options[name] = value
    if not words or not may_be_zone(words[-1]):
        example = " ".join(words) or _EXAMPLES[kind]
        raise ConfigError(
            f"window: {shortened(text.strip())} lacks a time zone; write {shortened_text(f'{kind}@{example}', 80)} "
            "Europe/Berlin"
        )
    *spec, tz = words
    if not spec:
        zone = tz if find_zone(tz) else "Europe/Berlin"  # else it is a day, or misspelt
        raise ConfigError(
            f"window: {shortened(text.strip())} lacks {_missing(kind)}; write {kind}@{_EXAMPLES[kind]} {zone}"
        )
    jitter = read_duration("jitter", options.get("jitter", "0"))
    return make_rule(kind, _arguments(kind, " ".join(spec)), tz, jitter, "urgent" in options)


def _missing(kind: str) -> str:
    return {"cron": "an expression", "hours": "hours", "quiet": "hours"}.get(kind, "a time")


def _arguments(kind: str, spec: str) -> Sequence[object]:
    if kind == "cron":
        return [spec]
    if kind != "monthly":
        return spec.split("+")
    day, _, times = spec.partition(" ")
    number = int(day) if day.isascii() and day.isdecimal() and len(day) < 3 else day
    return [recurrence.LAST_DAY if day == "last" else number, *(times.split("+") if times else [])]


_EXAMPLES = {
    "daily": "09:00",
    "weekly": "mon 08:30",
    "monthly": "1 08:00",
    "cron": "*/20 8-18 * * 1-5",
    "hours": "mon-fri 08:00-18:00",
    "quiet": "22:00-07:00",
}
_READERS: dict[str, Callable[[Sequence[object]], tuple[str, Times | Hours]]] = {
    "daily": recurrence.daily,
    "weekly": recurrence.weekly,
    "monthly": lambda arguments: recurrence.monthly(arguments[0], arguments[1:]),
    "cron": lambda arguments: recurrence.cron(arguments[0]),
    "hours": recurrence.hours,
    "quiet": recurrence.quiet,
}
KINDS = tuple(_READERS)


def occurrences(rules: Sequence[Rule], zones: Zones, share: int) -> Occurrences:
    """When the rules let a timeline leave, in these zones and at its share of the jitter."""
    times, hours = [], []
    binding = binding_rules(rules)
    for rule, zone in zip(rules, zones, strict=True):
        if rule not in binding:
            check_zone(zone)
        elif isinstance(rule.recurs, Hours):
            hours.append(HoursIn(rule.recurs, zone_of(zone), rule.offset(share)))
        else:
            times.append(TimesIn(rule.recurs, zone_of(zone), rule.offset(share)))
    years = 5 if all(rule.is_weekly for rule in rules) else 100  # a 29 February that is a Monday comes after 40
    return Occurrences(tuple(times), tuple(hours), years * YEAR)


def binding_rules(rules: Sequence[Rule]) -> Sequence[Rule]:
    """The rules without those that are always open, unless there are no others."""
    return [rule for rule in rules if not (isinstance(rule.recurs, Hours) and rule.recurs.is_always)] or rules[:1]
