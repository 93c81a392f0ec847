"""Moves in a storm: the process that moves, and the steps of the how-to around it."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from random import Random

from digestif import Busy, Move, StoreError
from digestif.clock import monotonic
from digestif.transfer.move import Progress
from torture._storm.account import Account
from torture._storm.actor import Actor, Notes
from torture._storm.crew import Crew
from torture._storm.scene import split_place, store_of

LOCK_SECONDS = 0.5  # the lock of a killed process lapses soon
BETWEEN = (6.0, 12.0)  # seconds of a storm on one store before it is moved
FOLLOWED = (2.0, 5.0)  # seconds from the last switch of a producer to the end of the move
TO_MOVE = 120.0  # seconds that a step may take


class Mover(Actor):
    """Moves the store, and follows until it is terminated; in the end it finishes the move."""

    def play(self) -> None:
        assert self.scene.move is not None
        source, target = map(store_of, self.scene.move)
        move = Move(source, target, report=self._report, lock_seconds=LOCK_SECONDS)
        signal.signal(signal.SIGTERM, lambda *_: move.stop())
        is_stopped = False
        while not is_stopped:
            try:
                progress = move.run(patience=5, follow=not self.scene.finishing)
                is_stopped = not progress.finished  # by SIGTERM
                if progress.finished:
                    self.notes.note("moved", *self.scene.move)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    self.wait(3600)
            except (Busy, StoreError) as error:
                self.note_failure(error)

    def _report(self, progress: Progress) -> None:
        assert self.scene.move is not None
        if progress.following:
            self.notes.note("following", *self.scene.move)


class Moves:
    """The moves of a storm, one after the other, each into the next place."""

    def __init__(self, crew: Crew, account: Account, notes: Notes, random: Random, dsns: tuple[str, ...]) -> None:
        self.left: list[str] = []  # places that were moved
        self.is_moving = False
        self._crew = crew
        self._account = account
        self._notes = notes
        self._random = random
        self._places = (f"{dsns[number % len(dsns)]}#storm{number}" for number in count())
        next(self._places)  # where the storm begins

    def steps(self) -> Iterator[None]:
        """Take the steps of the how-to; yields while the storm goes on."""
        while True:
            yield from self._wait(self._random.uniform(*BETWEEN))
            self.is_moving = True
            yield from self._move(self._crew.scene.produce, next(self._places))
            self.is_moving = False

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
        yield from self._wait(self._random.uniform(*FOLLOWED))
        crew.scene = replace(crew.scene, serve=(target,), finishing=True)
        yield from self._recast("operate", "work", "dispatch", "audit", "move")
        yield from self._until("finished", lambda: source in self._account.moved)
        crew.wanted["move"] = 0
        crew.scene = replace(crew.scene, move=None, finishing=False)
        yield from self._recast("move", "operate")
        self.left.append(source)

    def _recast(self, *roles: str) -> Iterator[None]:
        """Replace processes of these roles by others that know the scene, one after the other."""
        self._crew.recast(*roles)
        yield from self._until(f"recast of {', '.join(roles)}", lambda: not self._crew.has_old(*roles))

    def _until(self, what: str, condition: Callable[[], bool]) -> Iterator[None]:
        began = monotonic()
        while not condition():
            if monotonic() > began + TO_MOVE:
                source, target = (split_place(place)[1] for place in self._crew.scene.move or ("", ""))
                self._crew.problems.append(f"move of {source} to {target}: not {what} within {TO_MOVE:g} s")
                began = float("inf")
            yield

    def _wait(self, seconds: float) -> Iterator[None]:
        end = monotonic() + seconds
        while monotonic() < end:
            yield
