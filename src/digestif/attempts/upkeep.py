"""What maintenance did, told timeline by timeline."""

from digestif.core.times import Millis, to_seconds
from digestif.events.base import Events
from digestif.events.engine import DispatchLost, Expired, Lapsed
from digestif.stores.base import Maintained


def tell_of_maintenance(done: Maintained, events: Events, *, now: Millis = 0) -> None:
    """Tell of a page; `now` is needed if timelines were moved that had been ready for too long."""
    for timeline, at in done.moved:
        events.emit(DispatchLost(timeline=timeline, late=to_seconds(max(0, now - at))))
    for timeline in done.lapsed:
        events.emit(Lapsed(timeline=timeline))
    for timeline, records in done.expired:
        events.emit(Expired(timeline=timeline, records=records))
