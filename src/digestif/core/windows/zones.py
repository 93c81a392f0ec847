"""Local times of IANA zones as instants, and back. Instants in milliseconds, local times in minutes since 1970.

A local time that a clock change skips is the instant of the change; one that comes twice is the first. So later local
times never give earlier instants.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from digestif.core.texts import did_you_mean, shortened
from digestif.core.times import Millis
from digestif.errors import ConfigError

MINUTE = 60_000
DAY = 1440 * MINUTE
DAY_MINUTES = 1440
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The calendar ends a little before datetime does, so that nothing near its ends overflows.
EARLIEST = round(datetime(2, 1, 1, tzinfo=UTC).timestamp()) * 1000
LATEST = round(datetime(9991, 1, 1, tzinfo=UTC).timestamp()) * 1000

# `ZoneInfo` makes a path and the name of a package of its argument, so that others fail there in many ways. The deepest
# names have four parts: posix/America/Argentina/Buenos_Aires.
_NAME = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,3}")
_ABBREVIATION = re.compile(r"(?:[A-Z]{0,5}|[a-z]{0,5})[+-]?[\d:]*")  # CEST, UTC+2, +02:00
_LIKE = 0.87  # a misspelt name; less is another place: Europe/Munich and Europe/Zurich
_LONGEST_WITH_HINT = 200  # characters
_OF_THE_MACHINE = ("localtime", "posixrules", "factory")  # files beside the zones


def check_zone(name: object) -> None:
    """Raise ConfigError, with the nearest name, unless this is the name of an IANA time zone."""
    if not isinstance(name, str):
        raise ConfigError(f"tz: {shortened(name)} is not the name of a time zone such as Europe/Berlin")
    zone_of(name)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of this name, checked."""
    if _is_of_the_machine(name):
        raise ConfigError(f"tz: {shortened(name)} means whatever the machine has; name a zone such as Europe/Berlin")
    found = find_zone(name)
    if found is not None:
        return found
    hint = _hint(name.strip()) if len(name) <= _LONGEST_WITH_HINT else ""
    raise ConfigError(f"tz: {shortened(name)} is not an IANA time zone such as Europe/Berlin{hint}")


def may_be_zone(word: str) -> bool:
    """Return True for a word that was meant as a zone, known or not: a name or an offset, not a time of day."""
    return word[0].isalpha() or word[0] in "+-"


def find_zone(name: object) -> ZoneInfo | None:
    """Return the zone of this name, or None if there is none. Any text may be asked for."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a file of zone data, a folder
        return None


def _hint(name: str) -> str:
    """Return the end of a message about an unknown zone.

    An abbreviation or an offset gets no similar name: CEST is like EST, seven hours away.
    """
    known, written = _known_zones(), name.replace(" ", "_").casefold()
    if same := known.get(written):
        return f"; did you mean {same}?"
    if _ABBREVIATION.fullmatch(name):
        return "; write the name of a place, or UTC, instead of an abbreviation or an offset"
    if place := next((zone for zone in known.values() if zone.casefold().endswith(f"/{written}")), None):
        return f"; did you mean {place}?"
    return did_you_mean(name, list(known.values()), or_all=False, cutoff=_LIKE)


@cache
def _known_zones() -> dict[str, str]:
    """Return the names for hints, by their casefolded form. Finding them reads folders."""
    return {zone.casefold(): zone for zone in sorted(available_timezones()) if not _is_of_the_machine(zone)}


def _is_of_the_machine(name: str) -> bool:
    return not name.startswith("/") and name.rpartition("/")[2].casefold() in _OF_THE_MACHINE


def instant(zone: ZoneInfo, minute: int) -> Millis:
    """The instant of a local time."""
    steady = _steady_offset(zone, minute // DAY_MINUTES)
    return _instant(zone, minute) if steady is None else minute * MINUTE - steady


def wall(zone: ZoneInfo, at: Millis) -> Millis:
    """The local time of an instant, in milliseconds since 1970."""
    steady = _steady_offset(zone, at // DAY)
    return at + (_millis(_offset(zone, at // 1000)) if steady is None else steady)


@lru_cache(maxsize=16_384)
def _steady_offset(zone: ZoneInfo, day: int) -> Millis | None:
    """The offset in milliseconds on a day and the days beside it; None if there is a clock change in that time.

    No zone has ever changed its clock twice within a week and ended with the same time.
    """
    offsets = {_offset(zone, second) for second in range((day - 1) * 86_400, (day + 3) * 86_400, 86_400)}
    return _millis(offsets.pop()) if len(offsets) == 1 else None


def _instant(zone: ZoneInfo, minute: int) -> Millis:
    local = EPOCH + timedelta(minutes=minute)
    offset = zone.utcoffset(local)
    other = zone.utcoffset(local.replace(fold=1))
    assert offset is not None  # of a ZoneInfo, both are known
    assert other is not None
    if other > offset:
        return _change(zone, local, offset, other)
    return minute * MINUTE - _millis(offset)


def _change(zone: ZoneInfo, local: datetime, before: timedelta, after: timedelta) -> Millis:
    """The instant of the clock change that skips a local time."""
    low = round((local - after - EPOCH).total_seconds())  # the last second that is known to lie before the change
    high = round((local - before - EPOCH).total_seconds())  # … and the first that is known not to
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high * 1000


def _offset(zone: ZoneInfo, second: int) -> timedelta:
    offset = (EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None  # of a ZoneInfo, it is known
    return offset


def _millis(offset: timedelta) -> Millis:
    return (offset.days * 86_400 + offset.seconds) * 1000


@lru_cache(maxsize=1024)
def longest_repeat(zone: ZoneInfo) -> Millis:
    """By how much a clock change has set the clock back at most, in the years from 2000 to 2040."""
    first, last = (round(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2000, 2041))
    offsets = [_millis(_offset(zone, second)) for second in range(first, last, 20 * 86_400)]
    return max(0, *(before - after for before, after in pairwise(offsets)))
