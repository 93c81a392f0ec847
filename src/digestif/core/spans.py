"""Durations and distances in time as people say them: 340 ms, 42 s, 4 min 10 s, 2 h 5 min, 3 d 4 h."""

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def span(seconds: float) -> str:
    """A duration in its two largest units."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    whole = round(seconds)
    for size, unit, part, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def exact_span(millis: int) -> str:
    """A duration to the millisecond, for a sum: 1 h 30 min 0.5 s."""
    rest, pieces = millis / 1000, []
    for size, unit in _UNITS:
        if rest >= size:
            pieces.append(f"{int(rest // size):,} {unit}")
            rest = millis / 1000 % size
    return " ".join([*pieces, f"{round(rest, 3):g} s"] if rest or not pieces else pieces)


def when(at: float, *, now: float) -> str:
    """A time seen from now: in 4 min 10 s, now, just now, 3 s ago."""
    if at <= now:
        return ago(now - at)
    return "now" if at - now < 0.5 else f"in {span(at - now)}"


def ago(seconds: float) -> str:
    """Say how long ago something happened: just now, 3 s ago."""
    return "just now" if seconds < 0.5 else f"{span(seconds)} ago"


def due(at: float, *, now: float) -> str:
    """Say when something is due, as seen from now: "in 4 min 10 s", "now", or "now, 3 s late"."""
    if at - now >= 0.5:
        return f"in {span(at - now)}"
    return "now" if now - at < 1 else f"now, {span(now - at)} late"
