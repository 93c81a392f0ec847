"""When timelines leave that an operator has made ready: with the next worker, or after what holds them back."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from digestif.cli.output import counted, printable

if TYPE_CHECKING:
    from digestif import Digests


def departure(digests: "Digests", names: Sequence[str]) -> str:
    """When these timelines leave, which are ready: part of a sentence."""
    held = _obstacles(digests, names)
    others = "the next worker delivers the others" if held.total() < len(names) else ""
    return "; ".join(filter(None, [_told(held, names), others])) if held else "the next worker delivers it"


def flushed(digests: "Digests", names: Sequence[str]) -> str:
    """Say what flushing did, as part of a sentence. A timeline without records has nothing to deliver."""
    full = [name for name in names if _has_records(digests, name)]
    empty = len(names) - len(full)
    if not full:
        return "has nothing pending: no message is sent, only its cool-down ends"
    rest = f"; {counted(empty, 'of them has', 'of them have')} nothing pending: no message is sent" if empty else ""
    return f"is ready: {departure(digests, full)}{rest}"


def unflushed(digests: "Digests", name: str) -> str:
    """Say why there was nothing to flush."""
    found = digests.timeline(name)
    if found.state == "ready" and _has_records(digests, name):
        return f"is ready already: {departure(digests, [name])}"
    if found.state == "open":
        return "is being delivered now"
    return "has nothing pending: there is nothing to flush"


def _has_records(digests: "Digests", name: str) -> bool:
    found = digests.timeline(name)
    return bool(found.pending or found.in_digest)


def resumption(digests: "Digests", names: Sequence[str]) -> str:
    """That these timelines go on, and what holds them back."""
    return "; ".join(filter(None, ["goes on", _told(_obstacles(digests, names), names)]))


def _obstacles(digests: "Digests", names: Sequence[str]) -> Counter[str]:
    """What timelines wait for, and how many of them."""
    if digests.store.moving_since() is not None:
        return Counter({"when the move of this store has ended": len(names)})
    is_closed = any(outage.next_probe is not None for outage in digests.outages())
    found = (_obstacle(digests, name, is_closed=is_closed) for name in names)
    return Counter(filter(None, found))


def _obstacle(digests: "Digests", name: str, *, is_closed: bool) -> str:
    if digests.timeline(name).paused:
        return "after digestif resume, because of a pause"
    outage = digests.explain(name).outage if is_closed else None
    if outage is None or outage.next_probe is None:
        return ""
    return f"when the channel {printable(outage.channel)} is back, which is down: {printable(outage.reason)}"


def _told(held: Counter[str], names: Sequence[str]) -> str:
    if len(names) == 1:
        return "".join(f"it leaves {reason}" for reason in held)
    return "; ".join(f"{counted(some, 'of them leaves', 'of them leave')} {reason}" for reason, some in held.items())
