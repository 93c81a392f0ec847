"""Moving everything from one store into another, while producers and workers go over."""

from digestif.moving.move import Move, Progress

__all__ = ["Move", "Progress"]
