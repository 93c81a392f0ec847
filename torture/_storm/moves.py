"""Moves in a storm: the steps of the how-to, while everything goes on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from math import inf
from random import Random

from digestif.clock import monotonic
from torture._storm.account import Account
from torture._storm.actor import Notes
from torture._storm.crew import Crew
from torture._storm.scene import split_place

FOLLOWED = (2.0, 5.0)  # seconds from the last switch of a producer to the end of the move
TO_CHANGE = 300.0  # seconds that a step of a move or of an upgrade may take, also on a busy machine


class Moves:
    """The moves of a storm, one after the other, each into the next place."""

    def __init__(self, crew: Crew, account: Account, notes: Notes, random: Random, dsns: tuple[str, ...]) -> None:
        self.left: list[str] = []  # places that were moved
        self._crew = crew
        self._account = account
        self._notes = notes
        self._random = random
        self._places = (f"{dsns[number % len(dsns)]}#storm{number}" for number in count())
        next(self._places)  # where the storm begins

    def move(self) -> Iterator[None]:
        """Move into the next place, as the how-to says; yields while the storm goes on."""
        yield from self._move(self._crew.scene.produce, next(self._places))

    def _move(self, source: str, target: str) -> Iterator[None]:
        crew, move = self._crew, (source, target)
        crew.scene = replace(crew.scene, serve=move, move=move)
        yield from self._recast("operate")  # deletes have ended before the move begins
        yield from self._recast("work", "dispatch", "audit")
        self._notes.note("moving", source)
        crew.wanted["move"] = 1
        yield from self._until("following", lambda: move in self._account.following)
        crew.scene = replace(crew.scene, produce=target)
        yield from self._recast("produce", "tasks")
        yield from pause(self._random.uniform(*FOLLOWED))
        crew.scene = replace(crew.scene, serve=(target,), finishing=True)
        yield from self._recast("operate", "work", "dispatch", "audit", "move")
        yield from self._until("finished", lambda: source in self._account.moved)
        crew.wanted["move"] = 0
        crew.scene = replace(crew.scene, move=None, finishing=False)
        yield from self._recast("move", "operate")
        self.left.append(source)

    def _recast(self, *roles: str) -> Iterator[None]:
        """Replace processes of these roles by others that know the scene, one after the other."""
        yield from self._until(f"recast of {', '.join(roles)}", lambda: self._crew.recast(*roles))

    def _until(self, what: str, condition: Callable[[], bool]) -> Iterator[None]:
        source, target = (split_place(place)[1] for place in self._crew.scene.move or ("", ""))
        yield from until(condition, self._crew.problems, f"move of {source} to {target}: {what}")


def until(condition: Callable[[], bool], problems: list[str], what: str) -> Iterator[None]:
    """Let the storm go on until the condition holds; note a problem if that takes too long."""
    end = monotonic() + TO_CHANGE
    while not condition():
        if monotonic() > end:
            problems.append(f"{what}: not within {TO_CHANGE:g} s")
            end = inf
        yield


def pause(seconds: float) -> Iterator[None]:
    """Let the storm go on for some seconds."""
    end = monotonic() + seconds
    while monotonic() < end:
        yield
