"""From templates to pages: the environment, and the filters that show times, durations, names and values."""

import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import category

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from digestif.core.spans import span, when
from digestif.service.dashboard import assets

LONGEST_VALUE = 400  # characters of a record's value in a table
_JOINER = "\u200d"  # holds the parts of an emoji together
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_FAILED = "DeliveryFailed: "  # before the reasons that channels give
_QUOTED = re.compile(r"`([^`]+)`")


@cache
def environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["static"] = assets.folder()
    made.filters.update(
        ago=ago,
        clock=utc,
        count=count,
        counted=counted,
        due=due,
        hour=hour,
        lines=lines,
        name=name,
        percent=percent,
        prose=prose,
        rate=rate,
        reason=reason,
        span=span,
        visible=visible,
    )
    return made


def rendered(template: str, **facts: Any) -> str:
    """Render a template, which is loaded and compiled at its first use."""
    return environment().get_template(template).render(**facts)


def visible(text: str) -> str:
    """A text whose invisible characters are escaped: none of them can turn or hide what stands around it."""
    if text.isprintable():
        return text
    return "".join(sign if _is_visible(sign) else sign.encode("unicode_escape").decode() for sign in text)


def _is_visible(sign: str) -> bool:
    return sign.isprintable() or sign == _JOINER or category(sign) == "Zs"


def name(text: str) -> Markup:
    """A name that may be long: the style sheet cuts it where there is no room, its title is whole."""
    shown = visible(text)
    return Markup('<bdi class="name" title="{}">{}</bdi>').format(shown, shown)


def reason(text: str) -> str:
    """Return why a delivery failed, without the name of the usual error: columns of reasons are narrow."""
    return text.replace(_FAILED, "", 1)


def iso(at: float) -> str | None:
    """A time for machines; None if it is outside of the calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def ago(at: float | None, now: float) -> Markup:
    """A time seen from now, which the script keeps up to date."""
    return _time(at, "ago", lambda given: when(given, now=now))


def due(at: float | None, now: float) -> Markup:
    """When a timeline is delivered, or how long it has been due."""
    return _time(at, "due", lambda given: when(given, now=now) if given > now else f"due {when(given, now=now)}")


def moment(at: float | None) -> Markup:
    """A time by the clock. The script shows it in the reader's zone."""
    return _time(at, "at", utc)


def _time(at: float | None, kind: str, text: Any) -> Markup:
    if at is None:
        return Markup('<span class="none">–</span>')
    machine = iso(at)
    if machine is None:
        return escape(f"{at:.0f}")
    form = Markup('<time datetime="{}" title="{}" data-time="{}">{}</time>')
    return form.format(machine, utc(at), kind, text(at))


def utc(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f}"


def hour(at: float) -> str:
    """The label of a tick, until the script knows the reader's zone."""
    return utc(at)[11:16]


def count(number: float) -> str:
    """A number with separators: 1,234,567."""
    return f"{number:,.0f}"


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 record, 1,234 records. A plural that adds more than an s is given."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def rate(number: float | None) -> str:
    """A number a minute: small ones with a digit more."""
    if number is None:
        return "–"
    return count(number) if number >= 10 or number == 0 else f"{number:.1f}"


def percent(share: float | None) -> str:
    """A share of one. A part that is missing is never rounded away: 99.96 % is not 100 %."""
    if share is None:
        return "–"
    hundredths = int(share * 1000) / 10
    return f"{hundredths:.0f} %" if hundredths in (0, 100) else f"{hundredths:.1f} %"


def prose(text: str) -> Markup:
    """Sentences with their times as times, and what stands in backticks as code."""
    quoted = _QUOTED.sub(r"<code>\1</code>", str(escape(visible(text))))
    return Markup(_INSTANT.sub(_as_time, quoted))  # escaped above


def _as_time(found: re.Match[str]) -> str:
    try:
        return str(moment(datetime.fromisoformat(found[0]).timestamp()))
    except ValueError:  # it only looks like one: reasons are texts of other programs
        return found[0]


def one_line(value: Any) -> str:
    """Return a record's value as text: JSON without line breaks, or a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def cut(text: str) -> str:
    """Return the beginning of a text that is too long for a table."""
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def lines(text: str) -> str:
    """Make the invisible characters of a text visible, except its line breaks."""
    return "\n".join(map(visible, text.split("\n")))
