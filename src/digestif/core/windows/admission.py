"""Whether a due timeline may be delivered now, as far as the calendar is concerned."""

from digestif.core.machine import Slot, due_by_delays
from digestif.core.times import Millis
from digestif.core.windows.window import Window


def admission(slot: Slot, window: Window | None, timeline: str, *, now: Millis) -> Millis | None:
    """None if it may be delivered now, else the later time until which it waits.

    Hours bind retries too; times do not. What never comes does not bind.
    """
    if window is None or slot.passes:
        return None
    until: Millis | None = None
    if window.has_times and slot.digest is None:
        until = window.first(timeline, due_by_delays(slot), slot.last)
    if until is None or until <= now:
        until = window.next_hours(timeline, now)
    return until if until is not None and until > now else None
