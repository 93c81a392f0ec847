"""Upgrades in a storm: builds of this package with a raised schema join, and then no older process may write."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.upgrades.builds import build
from torture._storm.account import Account
from torture._storm.crew import Crew
from torture._storm.moves import pause, until

REFUSED = 3.0  # seconds in which processes that are too old are refused, before they are replaced


class Upgrades:
    """The upgrades of a storm: an additive one, and one that shuts out processes of the first build."""

    def __init__(self, crew: Crew, account: Account, folder: Path) -> None:
        self._crew = crew
        self._account = account
        self._additive = str(build(folder / "additive", newer_by=1))
        self._fencing = str(build(folder / "fencing", newer_by=2, oldest_by=1))

    def add(self) -> Iterator[None]:
        """Raise the schema by an additive change: processes of both builds go on."""
        yield from self._upgrade("", self._additive)

    def fence(self) -> Iterator[None]:
        """Shut out the processes of the first build, and replace them after a while; yields while the storm goes on."""
        yield from self._upgrade(self._additive, self._fencing)
        self._account.fenced = self._account.upgraded[self._fencing]
        yield from pause(REFUSED)
        yield from self._until("processes replaced", lambda: self._crew.recast(*self._crew.wanted))

    def _upgrade(self, *builds: str) -> Iterator[None]:
        """Let the later of two builds raise the schema; then processes of both are started."""
        crew = self._crew
        crew.upgrading_build = builds[-1]
        crew.wanted["upgrade"] = 1
        yield from self._until("schema raised", lambda: builds[-1] in self._account.upgraded)
        crew.wanted["upgrade"] = 0
        crew.scene = replace(crew.scene, builds=builds)
        yield from self._until("process ended", lambda: crew.recast("upgrade"))

    def _until(self, what: str, condition: Callable[[], bool]) -> Iterator[None]:
        yield from until(condition, self._crew.problems, f"upgrade: {what}")
