"""Attempts: one try to deliver one digest, from its lease to its end.

Whichever way it was begun, an attempt goes through the same steps here: opened or claimed, read, decoded, renewed,
judged, ended, reported as an event. `Attempts` does all of that; `Digests` and the worker only run handlers in between.
"""

from digestif.attempts.attempt import Attempt, Unstored
from digestif.attempts.attempts import Attempts, Page
from digestif.attempts.handlers import Handler, Handlers, Kind
from digestif.attempts.heartbeat import Heartbeat
from digestif.attempts.room import Room

__all__ = ["Attempt", "Attempts", "Handler", "Handlers", "Heartbeat", "Kind", "Page", "Room", "Unstored"]
