"""Moves of everything from one store into another, while producers and workers switch over."""

from digestif.transfer.lock import abandon
from digestif.transfer.move import Move, Progress

__all__ = ["Move", "Progress", "abandon"]
