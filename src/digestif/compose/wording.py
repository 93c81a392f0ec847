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
    counted_one: str = "{name}: {count}"  # one value of a distinct count that has no noun
    thousands: str = ","

    headline: str = "{records} about {subjects}"  # the number of subjects, or the name of the only one
    headline_each: str = "{records}"  # if each record is a subject of its own, or the only subject has no name
    mail_subject: str = "{lead} and {more} more ({records})"
    item: str = "{author}: {text}"
    more_items: str = "and {more} more"
    more_subjects: str = "and {more} more with {records}"
    more_groups: str = "and {groups} with {records}"
    dropped: str = "and {records} that did not fit"
    outlook: str = "Next one: usually not before {time}."
    newest: str = "Newest:"
    details: str = "View details"

    open: str = "Open"
    settings: str = "Settings"
    unsubscribe: str = "Unsubscribe"

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
        form = _form_of(noun, count) if callable(noun) else noun[count != 1]
        return self.counted.format(count=self.number(count), noun=form)

    def records(self, count: int) -> str:
        return self.count(count, self.record)

    def noun_of(self, name: str) -> Noun | None:
        """The noun for a distinct count: what was given for it, or the name itself if its English singular is plain."""
        singular = _singular(name) if self.lang.startswith("en") else ""
        return self.distinct.get(name) or ((singular, name) if singular else None)

    def signed(self, author: str, text: str) -> str:
        """A text after the name of its author."""
        return self.item.format(author=author, text=text) if author and text else author or text

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


def _singular(name: str) -> str:
    """The singular of an English plural, or nothing if its form is not certain."""
    if name == "people":
        return "person"
    is_plain = name.endswith("s") and not name.endswith(_UNCERTAIN) and len(name) > _SHORTEST_PLURAL
    return name.removesuffix("s") if is_plain else ""


_UNCERTAIN = ("ss", "us", "is", "as", "os", "ies", "ses", "xes", "zes", "ches", "shes", "oes", "ves", "news")
_SHORTEST_PLURAL = 3
_NOUNS = ("record", "subject", "more_group", "older_record", "distinct")
_LISTS = {"days": 7, "months": 12}
_FILLED_IN: dict[str, tuple[str, ...]] = {
    "counted": ("count", "noun"),
    "counted_one": ("name", "count"),
    "headline": ("records", "subjects"),
    "headline_each": ("records",),
    "mail_subject": ("lead", "more", "records"),
    "item": ("author", "text"),
    "more_items": ("more",),
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
