"""The account of a storm: the notes of all processes, and the comparison with the ledger."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import inf
from pathlib import Path
from typing import Any

from digestif import Ledger
from torture._storm.actor import LATER, key_of
from torture._storm.scene import family_of

UNKNOWN = 30.0  # seconds after which the call of a killed process has surely ended


@dataclass
class Choice:
    """A policy that was chosen for a timeline."""

    place: str
    is_off: bool
    began: float
    ended: float | None = None  # None: the process was killed before it had an answer


@dataclass
class Account:
    """The notes of all processes, read as they grow."""

    folder: Path
    added: dict[str, float] = field(default_factory=dict)  # ids, and when their add began
    acknowledged: set[str] = field(default_factory=set)
    sent: dict[str, list[str]] = field(default_factory=dict)  # ids by idempotency key
    key: dict[str, str] = field(default_factory=dict)  # idempotency keys by id
    duplicates: int = 0
    changed: set[str] = field(default_factory=set)  # idempotency keys that came with other records than before
    split: set[str] = field(default_factory=set)  # ids that came under two keys
    discarded: set[str] = field(default_factory=set)
    removed: dict[tuple[str, ...], dict[Path, float]] = field(default_factory=dict)
    # … deleted timelines, or timeline and key of retracted records: by which process, and when
    choices: dict[str, list[Choice]] = field(default_factory=dict)  # by timeline
    moving: dict[str, float] = field(default_factory=dict)  # sources, and when their move began
    following: set[tuple[str, str]] = field(default_factory=set)
    moved: dict[str, float] = field(default_factory=dict)  # sources, and when their move was finished
    upgraded: dict[str, float] = field(default_factory=dict)  # builds, and when they had raised the schema
    fenced: float = inf  # when processes of the first build were shut out
    verified: list[float] = field(default_factory=list)  # when a recount agreed
    misfits: list[str] = field(default_factory=list)  # what recounts found
    refused: int = 0  # messages that the channel refused
    failed: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    _places: Counter[Path] = field(default_factory=Counter)

    def read(self) -> None:
        """Read the notes since the last time."""
        for path in self.folder.iterdir():
            with path.open("rb") as file:
                file.seek(self._places[path])
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self._places[path] += len(text)
            for line in text.splitlines():
                with suppress(ValueError):  # torn, or between two
                    self._enter(path, *json.loads(line))

    def _enter(self, path: Path, what: str, at: float, *facts: Any) -> None:
        match what, *facts:
            case "add", ids:
                self.added.update(dict.fromkeys(ids, at))
            case "ack", ids:
                self.acknowledged.update(ids)
            case "sent", key, ids:
                self._enter_sent(key, ids)
            case "discard", ids:
                self.discarded.update(ids)
            case "remove", *place:
                self.removed.setdefault(tuple(place), {})[path] = at + UNKNOWN
            case "removed", *place:
                self.removed[tuple(place)][path] = at
            case "choose", timeline, place, is_off:
                self.choices.setdefault(timeline, []).append(Choice(place, is_off, at))
            case "chosen", timeline, _, _:
                self.choices[timeline][-1].ended = at
            case "moving", source:
                self.moving[source] = at
            case "following", source, target:
                self.following.add((source, target))
            case "moved", source, _:
                self.moved.setdefault(source, at)
            case "upgraded", build:
                self.upgraded.setdefault(build, at)
            case "verified", place, problems:
                self._enter_verified(place, at, problems)
            case ("refused",):
                self.refused += 1
            case "failed", words:
                self.failed[words] += 1
            case "crash", words:
                self.crashes.append(words)

    def _enter_sent(self, key: str, ids: list[str]) -> None:
        if key in self.sent:
            self.duplicates += 1
            if sorted(self.sent[key]) != sorted(ids):
                self.changed.add(key)
        self.sent[key] = ids
        for id in ids:
            if self.key.setdefault(id, key) != key:
                self.split.add(id)

    def _enter_verified(self, place: str, at: float, problems: list[str]) -> None:
        if problems:
            self.misfits.append(f"{place.rpartition('#')[2]}: {problems[:3]}")
        else:
            self.verified.append(at)

    @property
    def shut_out(self) -> int:
        """The number of calls that were refused because their process was too old."""
        return sum(times for words, times in self.failed.items() if "raised its schema" in words)

    # Fates

    def trespassing(self) -> list[str]:
        """Return the ids that a process of the first build added although it was shut out."""
        return [id for id in self.acknowledged if self.added[id] > self.fenced and LATER not in id]

    def missing(self) -> list[str]:
        """Return the ids that were acknowledged and never sent."""
        return [id for id in self.acknowledged if id not in self.key]

    def is_removed(self, id: str) -> bool:
        """True if the record was discarded, retracted or deleted after its add began."""
        timeline = id.partition("/")[0]
        times = [self.removed.get(place, {}).values() for place in [(timeline,), (timeline, key_of(id))]]
        return id in self.discarded or any(at >= self.added[id] for at in chain(*times))

    def is_switched_off(self, id: str) -> bool:
        """True if the record's timeline may have been off when its add began, or later."""
        return self._off_until(id.partition("/")[0]) >= self.added[id]

    def _off_until(self, timeline: str) -> float:
        choices = sorted(self.choices.get(timeline, []), key=lambda choice: choice.began)
        return max((self._end_of(choice, choices) for choice in choices if choice.is_off), default=-inf)

    def _end_of(self, off: Choice, choices: list[Choice]) -> float:
        """Return when the timeline was surely on again: after another choice that an earlier one can't follow.

        An override that was set in the source of a move follows to the target until the move is finished.
        """
        settled = off.began + UNKNOWN if off.ended is None else off.ended
        begin, end = self.moving.get(off.place, inf), self.moved.get(off.place, inf)
        ends = (
            choice.ended
            for choice in choices
            if not choice.is_off and choice.ended is not None and choice.began >= settled
            if (choice.place == off.place and choice.ended < begin) or choice.began > end
        )
        return min(ends, default=inf)

    def longest_unverified(self, began: float, ended: float) -> float:
        """Return the longest time between two recounts that agreed, in seconds."""
        times = [began, *sorted(self.verified), ended]
        return max(later - earlier for earlier, later in pairwise(times))


def judged(account: Account, ledger: Ledger) -> Iterator[str]:
    """Compare the account with the ledger of the last store, and yield what is wrong."""
    missing = account.missing()
    dropped = [id for id in missing if family_of(id) == "small"]
    gone = [id for id in missing if family_of(id) == "gone"]
    replaced = [id for id in gone if "#" in id and not account.is_removed(id)]
    off = [id for id in missing if family_of(id) == "choosy" and account.is_switched_off(id)]
    explained = {*dropped, *replaced, *off, *(id for id in gone if account.is_removed(id))}
    lost = [id for id in missing if id not in explained]
    trespassing = account.trespassing()
    strangers = account.key.keys() - account.added.keys()
    known, possible = len(account.acknowledged), len(account.added)
    checks = {
        f"crashed: {account.crashes[:3]}": not account.crashes,
        f"lost: {len(lost)}, {lost[:5]}": not lost,
        f"{len(dropped)} lost to capacity, and {ledger.dropped} dropped": len(dropped) <= ledger.dropped,
        f"{len(replaced)} replaced, and {ledger.superseded} superseded": len(replaced) <= ledger.superseded,
        f"{len(off)} not delivered because of off, and {ledger.declined} declined, {ledger.deleted} deleted": (
            len(off) <= ledger.declined + ledger.deleted
        ),
        f"{len(gone) + len(off)} not delivered, and {ledger.deleted} deleted, {ledger.superseded} superseded, "
        f"{ledger.declined} declined": len(gone) + len(off) <= ledger.deleted + ledger.superseded + ledger.declined,
        f"under two keys: {len(account.split)}, {[*account.split][:5]}": not account.split,
        f"other records under the same key: {[*account.changed][:5]}": not account.changed,
        f"sent and never added: {[*strangers][:5]}": not strangers,
        f"{known} acknowledged of {possible}, and {ledger.accepted} accepted, {ledger.declined} declined": (
            known - ledger.declined <= ledger.accepted <= possible
        ),
        f"{len(account.key)} sent, and {ledger.delivered} delivered": ledger.delivered <= len(account.key),
        f"the ledger does not balance: {ledger}": ledger.balanced,
        f"left behind: {ledger}": not (ledger.pending or ledger.open or ledger.dead or ledger.expired or ledger.lost),
        f"added by a process that is too old: {len(trespassing)}, {trespassing[:5]}": not trespassing,
        f"recounts differ: {len(account.misfits)}, {account.misfits[:3]}": not account.misfits,
    }
    return (words for words, holds in checks.items() if not holds)
