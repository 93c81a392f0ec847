"""Moving everything from one store into another, while producers and workers go over."""

from digestif.moving.hold import abandon
from digestif.moving.move import Move, Progress

__all__ = ["Move", "Progress", "abandon"]
