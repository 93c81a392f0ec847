"""A storm on one store: processes that use every verb, and are killed, stopped and terminated all the while.

    python -m torture._storm DSN SECONDS SEED [--other DSN] [--without PARTS | --only PARTS]

In the mix are overrides and `off`, moves to another namespace of the store (or to the other store and back), outages of
a channel and of a part of it, clocks that jump, and upgrades. PARTS are names separated by commas: with them parts of
the mix are left out, so that a finding can be narrowed.

After the storm a worker delivers the rest, and the notes of all processes are compared with the ledger. The program
prints its findings as JSON, and progress to stderr; its exit code is 1 if something is wrong. It forks, so it has one
thread until then.
"""

import argparse
import importlib
import json
import logging
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from digestif.clock import monotonic
from torture._storm.account import Account, judged
from torture._storm.actor import Notes
from torture._storm.calm import Rest, calmed
from torture._storm.crew import Crew, on_duty
from torture._storm.moves import Moves, pause
from torture._storm.scene import PARTS, Scene
from torture._storm.upgrades import Upgrades
from torture._storm.weather import Weather

CREW = {"produce": 2, "tasks": 1, "work": 3, "dispatch": 1, "operate": 1, "audit": 1}
PAUSE = (0.1, 1.5)  # seconds between two strikes
BETWEEN = (6.0, 12.0)  # seconds between a move or an upgrade and the next
TO_REST = 600.0  # seconds for the last of them to end when the time of the storm is over
REPORT = 20.0  # seconds between two lines of progress
READ = 0.5  # seconds between two looks at the notes
VERIFIED = 60.0  # seconds in which a recount has to agree


@dataclass(frozen=True)
class Findings:
    """The result of a storm."""

    seed: int
    parts: list[str]
    seconds: float
    acknowledged: int
    unknown: int  # adds without an answer
    delivered: int
    duplicates: int
    moves: int
    upgrades: int
    shut_out: int  # calls that were refused because their process was too old
    choices: int
    refused: int  # messages that the channel refused
    verified: int  # recounts during the storm that agreed
    struck: dict[str, int]
    failed: dict[str, int]  # calls that failed as calls may, the most frequent
    ledger: dict[str, int]
    problems: list[str]  # none


class Storm:
    """One storm: its crew, its weather and its account."""

    def __init__(self, dsns: tuple[str, ...], folder: Path, *, seed: int, parts: frozenset[str]) -> None:
        (folder / "notes").mkdir()
        self.random = Random(seed)
        self.began = monotonic()
        self.weather = Weather(seed, parts, began=self.began)
        self.account = Account(folder / "notes")
        self.notes = Notes(self.account.folder / "storm")
        scene = Scene(parts, produce=f"{dsns[0]}#storm0", serve=(f"{dsns[0]}#storm0",))
        self.crew = Crew(scene, self.weather, self.account.folder, self.random, wanted=CREW)
        self.moves = Moves(self.crew, self.account, self.notes, self.random, dsns)
        self.is_changing = False
        self._upgrades = self._planned_upgrades(folder) if "upgrades" in parts else []

    def _planned_upgrades(self, folder: Path) -> list[tuple[float, Callable[[], Iterator[None]]]]:
        """Return upgrades, and the parts of the storm after which they begin."""
        upgrades = Upgrades(self.crew, self.account, folder)
        return [(0.3, upgrades.add), (0.7, upgrades.fence)]

    def _changes(self, seconds: float) -> Iterator[None]:
        """Move and upgrade, one after the other; yields while the storm goes on."""
        while True:
            yield from pause(self.random.uniform(*BETWEEN))
            self.is_changing = True
            if self._upgrades and monotonic() > self.began + self._upgrades[0][0] * seconds:
                yield from self._upgrades.pop(0)[1]()
            elif "moves" in self.crew.scene.parts and monotonic() < self.began + seconds:
                yield from self.moves.move()
            self.is_changing = False

    def blow(self, seconds: float) -> None:
        """Let the storm go on for some seconds, and until its last move and upgrade have ended."""
        changes, end = self._changes(seconds), self.began + seconds
        strike, reported, read = self.began + 2, self.began, self.began
        while (now := monotonic()) < end or ((self.is_changing or self._upgrades) and now < end + TO_REST):
            self.crew.tend()
            next(changes)
            if now >= strike and "strikes" in self.crew.scene.parts:
                self.crew.strike()
                strike = now + self.random.uniform(*PAUSE)
            if now >= read + READ:
                self.account.read()
                read = now
            if now >= reported + REPORT:
                self.report(now - self.began, seconds)
                reported = now
            signal.sigtimedwait([], 0.05)  # a pause that needs no thread
        if self.is_changing or self._upgrades:
            self.crew.problems.append(f"the last move or upgrade did not end within {TO_REST:g} s")

    def rest(self) -> Rest:
        """Return what is left after the storm."""
        moving, place = self.crew.scene.move or (None, self.crew.scene.produce)
        return Rest(place, moving, self.moves.left, str(self.account.folder / "calm"), self.weather.has_jumps)

    def report(self, passed: float, seconds: float) -> None:
        account, crew = self.account, self.crew
        struck = ", ".join(f"{blow} {times}" for blow, times in sorted(crew.struck.items()))
        words = (
            f"storm {crew.scene.produce.partition(':')[0]} {passed:.0f}/{seconds:g} s: "
            f"{len(account.acknowledged)} acknowledged, {len(account.key)} sent, "
            f"{account.duplicates} digests twice, {account.failed.total()} calls failed, {account.refused} refused, "
            f"{len(account.moved)} moves, {len(account.verified)} verified; {struck}"
        )
        bad = [*crew.problems, *account.misfits, *(crash.splitlines()[-1] for crash in account.crashes)]
        sys.stderr.write(f"{words}{'; PROBLEMS ' + str(bad[:5]) if bad else ''}\n")
        sys.stderr.flush()


def storm(dsns: tuple[str, ...], *, seconds: float, seed: int, parts: frozenset[str]) -> Findings:
    """Run the storm, deliver everything, and compare the notes with the ledger."""
    with tempfile.TemporaryDirectory() as folder:
        run = Storm(dsns, Path(folder), seed=seed, parts=parts)
        with on_duty(run.crew):
            run.blow(seconds)
            unverified = run.account.longest_unverified(run.began, monotonic())
            run.crew.dismiss()
        left, ledger = calmed(run.rest(), run.crew.scene.builds[-1])
        run.account.read()
    account = run.account
    problems = [*run.crew.problems, *left, *judged(account, ledger)]
    if unverified > VERIFIED:
        problems.append(f"no recount agreed for {unverified:.0f} s")
    return Findings(
        seed=seed,
        parts=sorted(parts),
        seconds=round(monotonic() - run.began),
        acknowledged=len(account.acknowledged),
        unknown=len(account.added) - len(account.acknowledged),
        delivered=ledger.delivered,
        duplicates=account.duplicates,
        moves=len(run.moves.left),
        upgrades=len(account.upgraded),
        shut_out=account.shut_out,
        choices=sum(map(len, account.choices.values())),
        refused=account.refused,
        verified=len(account.verified),
        struck=dict(run.crew.struck),
        failed=dict(account.failed.most_common(8)),
        ledger={name: getattr(ledger, name) for name in ledger.__slots__},
        problems=problems,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture._storm", description="A storm on one store.")
    parser.add_argument("dsn")
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("--other", help="the DSN of a second store, for moves there and back")
    mix = parser.add_mutually_exclusive_group()
    mix.add_argument("--without", type=_parts, default=frozenset(), help=f"parts of the mix: {', '.join(PARTS)}")
    mix.add_argument("--only", type=_parts, default=frozenset(PARTS))
    return parser.parse_args()


def _parts(names: str) -> frozenset[str]:
    parts = frozenset(filter(None, names.split(",")))
    if unknown := parts.difference(PARTS):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not in {', '.join(PARTS)}")
    return parts


def main() -> None:
    given = arguments()
    logging.getLogger("digestif").addHandler(logging.NullHandler())  # what fails is noted
    for store in ("sqlite", "redis", "postgres"):  # once, not in every process
        with suppress(ImportError):
            importlib.import_module(f"digestif.stores.{store}")
    dsns = (given.dsn,) if given.other is None else (given.dsn, given.other)
    findings = storm(dsns, seconds=given.seconds, seed=given.seed, parts=given.only - given.without)
    sys.stdout.write(json.dumps(findings.__dict__) + "\n")
    sys.stdout.flush()
    sys.exit(1 if findings.problems else 0)


if __name__ == "__main__":
    main()
