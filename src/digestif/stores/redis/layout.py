"""The layout of a namespace: into how many partitions it is divided.

Each partition notes it, with an id of its own, in its ledger. Every call carries what the engine knows of it, and the
script compares the two. So a call notices by itself, in the partition's own slot, that the server was emptied or set up
anew: two engines that divide a namespace differently never both get an answer.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from redis.exceptions import ReadOnlyError

from digestif.clock import monotonic
from digestif.errors import ConfigError, StoreError, StoreUnavailable
from digestif.events.base import Event
from digestif.events.engine import StoreChanged
from digestif.ids import fresh_id
from digestif.stores.redis.client.commands import Command, Refused, pack_part
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.scripts import Script, load
from digestif.stores.redis.keys import Keys, ledger_key, settings_key

SCHEMA = 1
PARTITIONS = 1  # by default, on a single server
CLUSTER_PARTITIONS = 64  # …and on a cluster
MOST_PARTITIONS = 4096
LOOK_SECONDS = 10.0  # between two looks at the server of a partition: is it a replica, does it evict?
TELL_SECONDS = 60.0  # between two events about the same trouble
DRAINS, BRINGS = b"?", b"!"  # marks that ask for a look, by a call that brings no records, or does

_FORM = re.compile(rb"(\d+)/(\d+)/.+")


def settle(link: Link, namespace: str, partitions: int | None, *, clustered: bool) -> tuple[int, bytes]:
    """The number of partitions, noted at the first use of a namespace, and the layout of the first of them.

    If a cluster lost the settings with one of its nodes, the other partitions know them.
    """
    noted = _noted(link, namespace, b"")
    if not noted:
        wanted = partitions or (CLUSTER_PARTITIONS if clustered else PARTITIONS)
        noted = _noted(link, namespace, _known_elsewhere(link, namespace, wanted) or wanted)
    schema, found, layout = int(noted[0]), int(noted[1]), noted[2]
    if schema != SCHEMA:
        raise ConfigError(
            f"namespace {namespace!r} was written with schema {schema}, this release knows schema {SCHEMA}; "
            "use the release that wrote it, or another namespace"
        )
    if partitions is not None and partitions != found:
        raise ConfigError(
            f"partitions: namespace {namespace!r} has {found} and keeps them, not {partitions}; "
            "leave the option out, or use another namespace"
        )
    return found, layout


def _noted(link: Link, namespace: str, partitions: int | bytes) -> list[bytes]:
    keys = (settings_key(namespace), ledger_key(namespace, 0))
    command = Command(0, (len(keys), *keys, SCHEMA, partitions, fresh_id()), load("settings"))
    [answer] = link.run([command])
    noted: list[bytes] = _required(answer)
    return noted


def _known_elsewhere(link: Link, namespace: str, wanted: int) -> int | None:
    """What the other partitions say that a namespace of so many, or of the usual number, would have."""
    others = range(1, max(wanted, CLUSTER_PARTITIONS))
    commands = [Command(each, ("HGET", ledger_key(namespace, each), b"layout")) for each in others]
    found = [_FORM.fullmatch(_required(answer) or b"") for answer in link.run(commands, writes=False)]
    return next((int(match[2]) for match in found if match), None)


def _required(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


class Layouts:
    """What an engine knows of the layouts of its partitions. Safe to use from many threads."""

    def __init__(self, link: Link, keys: Keys, first: bytes, *, tell: Callable[[Event], None]) -> None:
        self._link = link
        self._keys = keys
        self._own = b"%d/%d/" % (SCHEMA, keys.partitions)  # how each of its layouts begins
        self._known = [first, *[b""] * (keys.partitions - 1)]
        self.strange = set(range(1, keys.partitions))  # partitions that have yet to be entered
        self._arguments = [pack_part(known) for known in self._known]
        self._look_at = [0.0] * keys.partitions
        self.doubts: set[bytes] = set()  # marks of looks that found something: all calls ask for them until it is well
        self._tell = tell
        self._told_at: dict[str, float] = {}

    # Asking

    def argument(self, partition: int, script: Script) -> bytes:
        """What a call says of the layout, packed; once in a while it asks for a look at the server."""
        now = monotonic()
        if now < self._look_at[partition] and not self.doubts:
            return self._arguments[partition]
        self._look_at[partition] = now + LOOK_SECONDS
        return pack_part(self._known[partition] + (BRINGS if script.grows else DRAINS))

    def after_answer(self, answer: Any, argument: bytes) -> None:
        """Whether a look that a call asked for has found the server fit."""
        mark = argument[-3:-2]  # before the end of the line
        if isinstance(answer, Refused) and answer.word == "DIGESTIF_EVICTS":
            self.doubts.add(BRINGS)
        elif isinstance(answer, StoreUnavailable) and isinstance(answer.__cause__, ReadOnlyError):
            self.doubts.add(DRAINS)
        elif mark == BRINGS and not isinstance(answer, Exception):
            self.doubts.clear()
        elif mark == DRAINS and not isinstance(answer, Exception):
            self.doubts.discard(DRAINS)

    def question(self, partition: int) -> Command:
        """For calls without a script, to be sent along with them."""
        return Command(partition, ("HGET", self._keys.key(partition, "ledger"), b"layout"))

    def check(self, partition: int, answer: bytes | Exception | None) -> Exception | None:
        """An error if the answer to the question is that the layout is gone or changed."""
        known = self._known[partition]
        if answer == known or not known or isinstance(answer, Exception):
            return None
        return self.changed(partition, answer or b"")

    # Entering

    def enter(
        self, partitions: Iterable[int], *, patience: float | None = None, fail_fast: bool = False
    ) -> dict[int, Exception]:
        """Note the layout in those of these partitions that were not entered yet. The answer is where that failed.

        Somebody may have emptied the server since it was opened and divided it differently. So the first partition is
        looked at last: if that still knows this layout, nobody has.
        """
        wanted = [each for each in partitions if each in self.strange]
        if not wanted:
            return {}
        keys = [self._keys.key(each, "ledger") for each in wanted]
        commands = [
            Command(each, (1, key, self._own + fresh_id().encode()), load("enter"))
            for each, key in zip(wanted, keys, strict=True)
        ]
        answers = dict(zip(wanted, self._link.run(commands, patience=patience, fail_fast=fail_fast), strict=True))
        [first] = self._link.run([self.question(0)], writes=False, patience=patience, fail_fast=fail_fast)
        problem = first if isinstance(first, Exception) else self.check(0, first)
        failures: dict[int, Exception] = {}
        for partition, answer in answers.items():
            if isinstance(answer, Exception):
                failures[partition] = answer
            elif problem is not None:
                failures[partition] = problem
            elif not answer.startswith(self._own):
                failures[partition] = self.changed(partition, answer)
            else:
                self._learn(partition, answer)
        return failures

    def _learn(self, partition: int, layout: bytes) -> None:
        self._known[partition] = layout
        self._arguments[partition] = pack_part(layout)
        self.strange.discard(partition)

    # Refusing

    def changed(self, partition: int, found: bytes) -> Exception:
        """The error of a call that found another layout than the one that it knew, or none."""
        if found.startswith(self._own):
            first = self._first_after(found, partition)
            if isinstance(first, Exception):
                return first
            if first.startswith(self._own):
                return self._refused(
                    "anew",
                    f"{self._named(partition)}: it lost its data and was set up anew since this store was opened. "
                    "Nothing was done; calls from now on go on with what is there",
                )
            partition, found = 0, first
        if not found:
            return self._refused(
                "gone",
                f"{self._named(partition)}: its settings are gone. Somebody emptied the server (FLUSHALL), or it came "
                "back without its data (a restart without append-only file, a failover to an empty replica); what was "
                "stored there is lost. Nothing was done. To go on, restart a process that uses this namespace: opening "
                "a store writes the settings anew",
            )
        match = _FORM.fullmatch(found)
        other = match[2].decode() if match else "another number of"
        return self._refused(
            "other",
            f"{self._named(partition)}: the server was emptied and the namespace set up anew with {other} partitions, "
            f"this store was opened with {self._keys.partitions}. Nothing was done. Restart this process, with the "
            "right ?partitions=",
        )

    def _first_after(self, found: bytes, partition: int) -> bytes | Exception:
        """The layout of the first partition, and if that is divided as it was, learn all layouts anew.

        What befell one partition may have befallen all. The first is looked at last, as by those who enter: a partition
        may bear the layout of somebody who came too late, and was refused.
        """
        others = [each for each in range(1, self._keys.partitions) if self._known[each] and each != partition]
        answers = self._link.run([self.question(each) for each in others], writes=False, patience=0)
        [answer] = self._link.run([self.question(0)], writes=False, patience=0)
        first: bytes | Exception = answer or b""
        if isinstance(first, Exception) or not first.startswith(self._own):
            return first
        for each, layout in [*zip(others, answers, strict=True), (partition, found), (0, first)]:
            if isinstance(layout, bytes) and layout.startswith(self._own):
                self._learn(each, layout)
        return first

    def _named(self, partition: int) -> str:
        return f"namespace {self._keys.namespace!r}, partition {partition}"

    def evicting(self, policy: str) -> StoreError:
        """The error of a call that brings records, on a server that would evict them."""
        return self._refused(
            "evicts",
            f"maxmemory-policy is {policy} by now: the server would evict records that were accepted, so nothing is "
            "accepted; deliveries go on. Set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in its "
            "configuration)",
        )

    def _refused(self, kind: str, text: str) -> StoreError:
        error, now = StoreError(text), monotonic()
        if now >= self._told_at.get(kind, 0.0):
            self._told_at[kind] = now + TELL_SECONDS
            self._tell(StoreChanged(error=error))
        return error
