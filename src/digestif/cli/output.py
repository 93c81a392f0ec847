"""How answers look: times and tables for people, JSON for programs, no control codes from stored texts."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from digestif.core.spans import ago as ago
from digestif.core.spans import due as due
from digestif.core.spans import span as span
from digestif.core.spans import when as when

if TYPE_CHECKING:
    from datetime import datetime

WIDTH = 80  # columns, if the terminal does not say
ENDLESS = 100_000
INDENT = "  "
NARROWEST_COLUMN = 16


# Text


def printable(text: str) -> str:
    """A text with control characters escaped, so that it can't steer a terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int:
    """The columns of the terminal; without one, more than any line needs."""
    return width_of(sys.stdout) if is_terminal() else ENDLESS


def width_of(stream: IO[str]) -> int:
    """The same for another stream."""
    if not stream.isatty():
        return ENDLESS
    import shutil

    return max(40, shutil.get_terminal_size((WIDTH, 24)).columns)


def cells(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in text)


def cut(text: str, columns: int) -> str:
    """A text shortened to so many columns."""
    if cells(text) <= columns:
        return text
    while text and cells(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def padded(text: str, columns: int, *, right: bool = False) -> str:
    gap = " " * max(0, columns - cells(text))
    return gap + text if right else text + gap


def counted(number: int, one: str, many: str | None = None) -> str:
    """For example: 1 record, 2 records."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    give: Sequence[str],
    spare: Sequence[str] = (),
) -> Iterator[str]:
    """Rows under their heads. If they are wider than the terminal, the columns in `give` are cut, in that order; if
    that is not enough, those in `spare` are left out.
    """
    body = [list(row) for row in rows]
    needed = {head: max(map(cells, column)) for head, *column in zip(heads, heads, *body, strict=True)}
    sizes = _fitting(needed, give, spare)

    def line(cells_of_row: Sequence[str]) -> str:
        parts = [
            padded(cut(text, sizes[head]), sizes[head], right=head in right)
            for head, text in zip(heads, cells_of_row, strict=True)
            if head in sizes
        ]
        return (INDENT + INDENT.join(parts)).rstrip()

    yield click.style(line(heads), bold=True)
    yield from map(line, body)


def _fitting(needed: dict[str, int], give: Sequence[str], spare: Sequence[str]) -> dict[str, int]:
    """The columns that are shown, with their sizes."""
    sizes = dict(needed)
    excess = sum(sizes.values()) + len(INDENT) * len(sizes) - width()
    elastic = sum(max(0, sizes[head] - NARROWEST_COLUMN) for head in give)
    for head in spare:
        if excess > elastic:
            excess -= sizes.pop(head) + len(INDENT)
    for head in give:
        less = max(0, min(excess, sizes[head] - NARROWEST_COLUMN))
        sizes[head] -= less
        excess -= less
    return sizes


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one below the other. On a terminal, long values go on below their beginning."""
    known = list(pairs)
    size = max(len(name) for name, _ in known)
    indent = " " * (size + 2 * len(INDENT))
    return "\n".join(
        broken(f"{INDENT}{name:<{size}}{INDENT}", value, columns=width(), indent=indent) for name, value in known
    )


def wrapped(text: str) -> str:
    """A paragraph that fits in 80 columns, or in a narrower terminal."""
    return broken("", text, columns=min(WIDTH, width()), indent=INDENT)


def fitted(text: str) -> str:
    """A line that breaks between words where the terminal ends; as it is where there is none."""
    return "\n".join(broken("", line, columns=width(), indent=INDENT) for line in text.split("\n"))


def broken(lead: str, text: str, *, columns: int, indent: str) -> str:
    """A text after its lead, in lines that break only between words. Colours take no room."""
    lines, used = [lead], cells(lead)
    is_first = True
    for word in text.split(" "):
        size = cells(click.unstyle(word))
        if is_first:
            lines[-1] += word
        elif used + 1 + size <= columns:
            lines[-1] += f" {word}"
            used += 1
        else:
            lines.append(indent + word)
            used = len(indent)
        used += size
        is_first = False
    return "\n".join(lines)


# Time


def clock(at: float, *, now: float, zone: str | None = None) -> str:
    """A time in local time, or in a zone, with its date unless that is today."""
    moment = _local(at, zone)
    if moment is None:
        return "before the year 1" if at < 0 else "after the year 9999"
    today = _local(now, zone)
    form = "%H:%M:%S" if today is not None and moment.date() == today.date() else "%Y-%m-%d %H:%M:%S"
    return moment.strftime(form)


def stamp(at: float, *, now: float) -> str:
    """A time that stands alone: with the name of the local zone."""
    return f"{clock(at, now=now)} {zone_name(at)}"


def time_head(name: str, times: Iterable[float]) -> str:
    """The head of a column of times, with the name of the local zone."""
    return f"{name} ({zone_name(*times)})"


def zone_name(*times: float) -> str:
    """The local zone at these times: UTC, CET, UTC+03; two names where its clocks change in between."""
    moments = filter(None, map(_local, times))
    names = [f"UTC{name}" if name[:1] in "+-" else name for name in (moment.tzname() or "" for moment in moments)]
    return "/".join(dict.fromkeys(names)) or "UTC"


def _local(at: float, zone: str | None = None) -> "datetime | None":
    from datetime import UTC, datetime

    try:
        if zone is not None:
            from digestif.core.windows.zones import zone_of

            return datetime.fromtimestamp(at, zone_of(zone))
        return datetime.fromtimestamp(at, UTC).astimezone()
    except (ValueError, OverflowError, OSError):  # years away from ours
        return None


# JSON


def as_json(value: Any) -> str:
    """One line of JSON."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=repr)  # a codec may know more than JSON
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def plain(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, ready for JSON."""
    from dataclasses import asdict

    return asdict(value)


def shown_value(value: Any) -> str:
    """A record's value as people read it."""
    return printable(value) if isinstance(value, str) else as_json(value)
