"""Durations as people write them: 90s, 5m, 1h30m, 2d. Inside they are seconds."""

import re

from digestif.core.texts import shortened
from digestif.errors import ConfigError

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_PIECE = re.compile(_NUMBER + r"(ms|[dhms])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PIECE.pattern})+|{_NUMBER}", re.ASCII)


def read_duration(field: str, text: str) -> float:
    """Seconds of 1h30m; a number alone is seconds. Raises ConfigError with the name of the field."""
    seconds = seconds_of(text)
    if seconds is None:
        raise ConfigError(f"{field}: {shortened(text)} is not a duration such as 90s, 5m, 1h30m or 2d")
    return seconds


def seconds_of(text: str) -> float | None:
    """Seconds of 1h30m; None if the text is not a duration."""
    written = text.strip()
    if not _WHOLE.fullmatch(written):
        return None
    pieces = _PIECE.findall(written)
    if not pieces:
        return float(written)
    return sum(float(number) / 1000 if unit == "ms" else float(number) * _UNITS[unit] for number, unit in pieces)


def written_duration(seconds: float) -> str:
    """The text that `read_duration` reads back to the last bit."""
    if seconds != int(seconds):
        return f"{float(seconds)!r}s"  # a subclass may have a repr of its own
    rest, pieces = int(seconds), []
    for unit, length in _UNITS.items():
        count, rest = divmod(rest, length)
        if count:
            pieces.append(f"{count}{unit}")
    return "".join(pieces) or "0s"
