"""The words of the built-in templates: English, or what a route says instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from digestif.core.hooks import check_hook
from digestif.core.placeholders import placeholder_fault, unfilled_fault
from digestif.core.policy import refuse_unknown
from digestif.core.texts import shortened
from digestif.errors import ConfigError

Noun = tuple[str, str] | Callable[[int], str]  # for one and for more; or from a number to its noun

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@refuse_unknown
@dataclass(frozen=True, kw_only=True)
class Wording:
    """Every word that the built-in templates write by themselves. Names in braces are filled in.

    A noun is its form for one and its form for more, or a function from a number to the form.
    """

    lang: str = "en"  # of the HTML
    dir: str = "ltr"  # or "rtl": written from right to left

    record: Noun = ("event", "events")
    subject: Noun = ("subject", "subjects")
    more_group: Noun = ("more group", "more groups")
    older_record: Noun = ("older one", "older ones")
    distinct: Mapping[str, Noun] = field(default_factory=dict)  # nouns for distinct counts, by their name
    counted: str = "{count} {noun}"
    thousands: str = ","

    headline: str = "{records} about {subjects}"  # the number of subjects, or the name of the only one
    headline_each: str = "{records}"  # if each record is a subject of its own, or the only subject has no name
    mail_subject: str = "{lead} and {more} more ({records})"
    item: str = "{author}: {text}"
    more_items: str = "and {more} more"
    earlier_items: str = "{more} earlier"  # in their place where the oldest record comes first
    more_subjects: str = "and {more} more with {records}"
    more_groups: str = "and {groups} with {records}"
    dropped: str = "and {records} that did not fit"
    outlook: str = "Next one: usually not before {time}."
    newest: str = "Newest:"
    details: str = "View details"
    reason: str = "Sent to {recipient}."  # why a reader gets a message, unless its route says so
    how_often: str = "How often: {cadence}."

    open: str = "Open"
    settings: str = "Settings"
    unsubscribe: str = "Unsubscribe"

    # How often messages come, made from the policy.
    cadence_each: str = "each {record} immediately"
    cadence_gathered: str = "{delay} after the first {record}, with those that follow it"
    cadence_delays: str = "the first {record} {first}, further ones together, {pause}"
    cadence_immediately: str = "immediately"
    cadence_after: str = "after {delay}"
    cadence_between: str = "at least {minimum} and at most {maximum} after the last message"
    cadence_fixed: str = "{minimum} after the last message"
    cadence_pause: str = "after a pause"
    cadence_quiet: str = "after {quiet} without a new {record}, at most {maximum} after the first"
    cadence_daily: str = "daily at {times} {zone}"
    cadence_weekly: str = "weekly on {times} {zone}"
    cadence_monthly: str = "monthly on day {day} at {times} {zone}"
    cadence_month_end: str = "monthly on the last day at {times} {zone}"
    cadence_times: str = "at set times"
    cadence_full: str = "{cadence}, or as soon as there are {records}"
    cadence_hours: str = "{cadence}, only {hours} {zone}"
    cadence_not: str = "{cadence}, not {hours} {zone}"
    in_days: Noun = ("day", "days")
    in_hours: Noun = ("hour", "hours")
    in_minutes: Noun = ("minute", "minutes")
    in_seconds: Noun = ("second", "seconds")

    other: str = "other"  # the label of None
    empty: str = "(empty)"  # the label of an empty text
    no_text: str = "(no text)"

    days: tuple[str, ...] = DAYS
    months: tuple[str, ...] = MONTHS
    am: str = "am"
    pm: str = "pm"
    clock: str = "{hour}:{minute} {half}"  # of 12 hours
    date: str = "{day} {month}"
    full_date: str = "{weekday} {day} {month} {year}"
    moment: str = "{date}, {time}"
    short_moment: str = "{date} {time}"
    span: str = "{first} – {last}"
    far: str = "second {second}"  # a time in no year of the calendar

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each.name, getattr(self, each.name))

    def number(self, count: float) -> str:
        return f"{count:,}".replace(",", self.thousands)

    def count(self, count: int, noun: Noun) -> str:
        """A number with its noun."""
        return self.counted.format(count=self.number(count), noun=self.form(noun, count))

    def form(self, noun: Noun, count: int) -> str:
        """The form of a noun for a number."""
        return _form_of(noun, count) if callable(noun) else noun[count != 1]

    def duration(self, seconds: float) -> str:
        """A duration in days, hours, minutes and seconds; what is shorter than a second counts as one."""
        rest, parts = max(1, round(seconds)), []
        for size, noun in zip(_UNITS, (self.in_days, self.in_hours, self.in_minutes, self.in_seconds), strict=True):
            count, rest = divmod(rest, size)
            parts += [self.count(count, noun)] if count else []
        return " ".join(parts)

    def records(self, count: int) -> str:
        return self.count(count, self.record)

    def signed(self, author: str, text: str) -> str:
        """A text after the name of its author."""
        return self.item.format(author=author, text=text) if author and text else author or text

    def signature(self, author: str, text: str) -> tuple[str, str, str]:
        """The same in three parts: what is before the name, the name, and what is after it."""
        if not (author and text):
            return "", author, text
        before, place, after = self.item.format(author="\0", text=text).partition("\0")  # no shown text has a \0
        return before, author if place else "", after

    @cached_property
    def for_templates(self) -> dict[str, Any]:
        """The words as plain data. Functions are left out: templates may be rendered in another process."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NOUNS}


def wording_of(given: object) -> Wording:
    """Raises ConfigError for anything but a Wording or a mapping of its fields."""
    if given is None:
        return ENGLISH
    if isinstance(given, Wording):
        return given
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f'wording: {shortened(given)} is neither a Wording nor a mapping such as {{"open": "Show"}}')
    return Wording(**given)


def _form_of(noun: Callable[[int], str], count: int) -> str:
    form = noun(count)
    if not isinstance(form, str):
        raise ConfigError(f"wording: the function of a noun gave {shortened(form)} for {count}, not a text")
    return form


_UNITS = (86_400, 3600, 60, 1)
_DURATIONS = ("in_days", "in_hours", "in_minutes", "in_seconds")
_NOUNS = ("record", "subject", "more_group", "older_record", "distinct", *_DURATIONS)
_LISTS = {"days": 7, "months": 12}
_FILLED_IN: dict[str, tuple[str, ...]] = {
    "counted": ("count", "noun"),
    "headline": ("records", "subjects"),
    "headline_each": ("records",),
    "mail_subject": ("lead", "more", "records"),
    "item": ("author", "text"),
    "more_items": ("more",),
    "earlier_items": ("more",),
    "reason": ("recipient",),
    "how_often": ("cadence",),
    "cadence_each": ("record",),
    "cadence_gathered": ("record", "delay"),
    "cadence_delays": ("record", "first", "pause"),
    "cadence_after": ("delay",),
    "cadence_between": ("minimum", "maximum"),
    "cadence_fixed": ("minimum",),
    "cadence_quiet": ("record", "quiet", "maximum"),
    "cadence_daily": ("times", "zone"),
    "cadence_weekly": ("times", "zone"),
    "cadence_monthly": ("day", "times", "zone"),
    "cadence_month_end": ("times", "zone"),
    "cadence_full": ("cadence", "records"),
    "cadence_hours": ("cadence", "hours", "zone"),
    "cadence_not": ("cadence", "hours", "zone"),
    "more_subjects": ("more", "records"),
    "more_groups": ("groups", "records"),
    "dropped": ("records",),
    "outlook": ("time",),
    "clock": ("hour", "minute", "half"),
    "date": ("day", "month"),
    "full_date": ("weekday", "day", "month", "year"),
    "moment": ("date", "time"),
    "short_moment": ("date", "time"),
    "span": ("first", "last"),
    "far": ("second",),
}


def _check(name: str, value: object) -> None:
    if name == "distinct":
        _check_nouns(value)
    elif name in _NOUNS:
        _check_noun(name, value)
    elif name in _LISTS:
        if not isinstance(value, tuple | list) or len(value) != _LISTS[name] or not _all_texts(value):
            raise ConfigError(f"wording: {name}: {shortened(value)} is not a list of {_LISTS[name]} texts")
        _refuse_names(name, *value)
    elif not isinstance(value, str):
        raise ConfigError(f"wording: {name}: {shortened(value)} is not a text")
    elif name == "dir" and value not in ("ltr", "rtl"):
        raise ConfigError(f'wording: dir: {shortened(value)} is neither "ltr" nor "rtl"')
    elif name not in _FILLED_IN:
        _refuse_names(name, value)
    elif fault := placeholder_fault(value, *_FILLED_IN[name]):
        raise ConfigError(f"wording: {name}: {fault}")


def _check_nouns(nouns: object) -> None:
    if not isinstance(nouns, Mapping):
        raise ConfigError(f"wording: distinct: {shortened(nouns)} is not a mapping from names to nouns")
    for name, noun in nouns.items():
        _check_noun(f"distinct[{shortened(name)}]", noun)


def _check_noun(name: str, noun: object) -> None:
    if callable(noun):
        check_hook(f"wording: {name}", noun, "number")
    elif isinstance(noun, tuple | list) and len(noun) == 2 and _all_texts(noun):  # one and more
        _refuse_names(name, *noun)
    else:
        raise ConfigError(
            f'wording: {name}: {shortened(noun)} is no noun; write it like ("comment", "comments"), or a function'
        )


def _all_texts(values: tuple[Any, ...] | list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _refuse_names(name: str, *words: str) -> None:
    for fault in filter(None, map(unfilled_fault, words)):
        raise ConfigError(f"wording: {name}: {fault}")


ENGLISH = Wording()
