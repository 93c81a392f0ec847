"""The version of the time zone data that this process reads."""

import zoneinfo
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SOURCE = "tzdata.zi"  # beside the zones of most systems; its first line names the version


@cache
def zone_data_version() -> str:
    """A text that changes when new zone data are installed: the versions of all places where `ZoneInfo` looks."""
    places = [Path(place) for place in zoneinfo.TZPATH]
    return "; ".join([*(_version_in(place) for place in places if place.is_dir()), _package_version()])


def _version_in(place: Path) -> str:
    """The version that a directory of zones names, or a hash of all its zones if it names none."""
    try:
        with (place / SOURCE).open(encoding="utf-8") as source:
            return source.readline(100).strip()
    except (OSError, UnicodeError):
        return _hash_of(place)


def _hash_of(place: Path) -> str:
    found = blake2b(digest_size=12)
    for name in sorted(zoneinfo.available_timezones()):
        if (place / name).is_file():
            content = (place / name).read_bytes()
            found.update(b"%s %d\0" % (name.encode(), len(content)) + content)
    return found.hexdigest()


def _package_version() -> str:
    try:
        return f"tzdata {version('tzdata')}"
    except PackageNotFoundError:
        return ""
