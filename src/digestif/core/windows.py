"""Windows: the calendar part of a policy."""

from digestif.core.machine import Slot
from digestif.core.times import Millis


class Window:
    """The times or hours at which a digest may leave."""

    def next_hours(self, timeline: str, at: Millis) -> Millis | None:
        raise NotImplementedError


def admission(slot: Slot, window: Window | None, timeline: str, *, now: Millis) -> Millis | None:
    """None if the timeline may be delivered now, else the time until which it waits."""
    if window is None or slot.passes:
        return None
    raise NotImplementedError
