"""Upgrades in a storm: builds of this package with a raised schema join, and then no older process may write."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from digestif.clock import monotonic
from torture._storm.account import Account
from torture._storm.crew import Crew

BUILDS = "tests.upgrades.builds"
ADDITIVE_AT, FENCED_AT = 0.3, 0.75  # parts of the storm
REFUSED = 3.0  # seconds in which processes that are too old are refused, before they are replaced


def is_possible() -> bool:
    """True if builds with other numbers can be made."""
    return importlib.util.find_spec(BUILDS) is not None


class Upgrades:
    """The upgrades of a storm: an additive one, and one that shuts out processes of the first build."""

    def __init__(self, crew: Crew, account: Account, folder: Path, *, began: float, seconds: float) -> None:
        self._crew = crew
        self._account = account
        self._folder = folder
        self._began = began
        self._seconds = seconds

    def steps(self) -> Iterator[None]:
        """Wait, upgrade, wait and fence; yields while the storm goes on."""
        additive, fencing = self._build("additive", newer_by=1), self._build("fencing", newer_by=2, oldest_by=1)
        yield from self._until(lambda: self._is_time(ADDITIVE_AT))
        yield from self._upgrade("", additive)
        self._crew.is_in_change = False
        yield from self._until(lambda: self._is_time(FENCED_AT))
        yield from self._upgrade(additive, fencing)
        self._account.fenced = self._account.upgraded[fencing]
        end = monotonic() + REFUSED
        yield from self._until(lambda: monotonic() > end)
        yield from self._until(lambda: self._crew.recast(*self._crew.wanted))
        self._crew.is_in_change = False
        while True:
            yield

    def _build(self, name: str, **numbers: int) -> str:
        return str(importlib.import_module(BUILDS).build(self._folder / name, **numbers))

    def _is_time(self, part: float) -> bool:
        return monotonic() > self._began + part * self._seconds and not self._crew.is_in_change

    def _upgrade(self, *builds: str) -> Iterator[None]:
        """Let the later of two builds raise the schema; then processes of both are started."""
        crew = self._crew
        crew.is_in_change = True
        crew.upgrading_build = builds[-1]
        crew.wanted["upgrade"] = 1
        yield from self._until(lambda: builds[-1] in self._account.upgraded)
        crew.wanted["upgrade"] = 0
        crew.scene = replace(crew.scene, builds=builds)
        yield from self._until(lambda: crew.recast("upgrade"))

    def _until(self, condition: Callable[[], bool]) -> Iterator[None]:
        while not condition():
            yield
