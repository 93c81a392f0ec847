"""Events: what happened, told once; logging, metrics and dashboards listen to the same facts."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger("digestif")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailed(Event):
    """A partition of the store did not answer; the others were served."""

    operation: str
    partition: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNotRenewed(Event):
    """The store did not answer when a lease was to be renewed; it is tried again until the lease lapses."""

    timeline: str
    error: Exception


Listener = Callable[[Event], object]


class Events:
    """The one subscription point."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Tell the log and the listeners. A listener that raises is logged and does not stop the others."""
        logger.warning("%s", event)
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", event)
