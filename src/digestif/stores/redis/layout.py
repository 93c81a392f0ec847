"""The layout of a namespace: the oldest version that may still write, the number of partitions, and an id of each.

Each partition keeps its layout in its ledger. Every call carries the layout that the engine knows, and the script
compares the two. So every call notices if the server was emptied or set up anew: two engines that divide a namespace
differently never both get an answer, and a process that is too old to write gets none from the moment on at which a
newer release raised the first number.
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
from digestif.stores.redis.client.commands import Command, ScriptRefused, pack_part
from digestif.stores.redis.client.link import Link, required
from digestif.stores.redis.client.scripts import Script, load
from digestif.stores.redis.keys import Keys, ledger_key, settings_key
from digestif.stores.schema import Schema, too_old

SCHEMA = Schema(version=4, oldest=4)  # what versions 1 to 3 wrote is read as it is
PARTITIONS = 1  # by default, on a single server
CLUSTER_PARTITIONS = 64  # …and on a cluster
MOST_PARTITIONS = 4096
PROBE_SECONDS = 10.0  # between two probes of a partition's server: is it a replica, does it evict?
REPORT_SECONDS = 60.0  # between two events about the same trouble
DRAINS, GROWS = b"?", b"!"  # marks by which a call asks for a probe: it adds no records, or it does

_FORM = re.compile(rb"(\d+)/(\d+)/.+")


def read_settings(link: Link, namespace: str, partitions: int | None, *, clustered: bool) -> tuple[int, bytes]:
    """The number of partitions, and the layout of the first. The first use of a namespace writes them.

    If a cluster lost the settings with one of its nodes, they are restored from the other partitions.
    """
    settings = _settings(link, namespace, b"", partitions)
    if not settings:
        wanted = partitions or (CLUSTER_PARTITIONS if clustered else PARTITIONS)
        settings = _settings(link, namespace, _partitions_elsewhere(link, namespace, wanted) or wanted, partitions)
    schema, found, layout = Schema(int(settings[0]), int(settings[1])), int(settings[2]), settings[3]
    if not schema.admits(SCHEMA.version):
        raise ConfigError(too_old(f"namespace {namespace!r}", oldest=schema.oldest, version=SCHEMA.version))
    if partitions is not None and partitions != found:
        raise ConfigError(
            f"partitions: namespace {namespace!r} has {found} and keeps them, not {partitions}; "
            "leave the option out, or use another namespace"
        )
    return found, layout


def _settings(link: Link, namespace: str, partitions: int | bytes, wanted: int | None) -> list[bytes]:
    """The settings; if there are none, and a number of partitions is given, write them first.

    If another number is wanted than is found, nothing is written: what an older release uses stays as it is.
    """
    keys = (settings_key(namespace), ledger_key(namespace, 0))
    command = Command(0, (len(keys), *keys, *SCHEMA, partitions, fresh_id(), wanted or b""), load("settings"))
    [answer] = link.run([command])
    settings: list[bytes] = required(answer)
    return settings


def _partitions_elsewhere(link: Link, namespace: str, wanted: int) -> int | None:
    """The number of partitions by the layout of any other partition, up to the wanted or the usual number."""
    others = range(1, max(wanted, CLUSTER_PARTITIONS))
    commands = [Command(each, ("HGET", ledger_key(namespace, each), b"layout")) for each in others]
    found = [_FORM.fullmatch(required(answer) or b"") for answer in link.run(commands, writes=False)]
    return next((int(match[2]) for match in found if match), None)


class Layouts:
    """What an engine knows of the layouts of its partitions. Safe to use from many threads."""

    def __init__(
        self,
        link: Link,
        keys: Keys,
        first: bytes,
        *,
        emit: Callable[[Event], None],
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self.probe_seconds = probe_seconds
        self._link = link
        self._keys = keys
        self._known = [first, *[b""] * (keys.partitions - 1)]
        self.unentered = set(range(1, keys.partitions))  # partitions whose layout is not known yet
        self._arguments = [pack_part(known) for known in self._known]
        self._probe_at = [0.0] * keys.partitions
        self.alarms: set[bytes] = set()  # marks of probes that found trouble: every call repeats them until it is over
        self._emit = emit
        self._report_at: dict[str, float] = {}

    # Checking

    def argument(self, partition: int, script: Script) -> bytes:
        """The layout that a call carries, packed; once in a while it also asks for a probe of the server."""
        now = monotonic()
        if now < self._probe_at[partition] and not self.alarms:
            return self._arguments[partition]
        self._probe_at[partition] = now + self.probe_seconds
        return pack_part(self._known[partition] + (GROWS if script.grows else DRAINS))

    def after_answer(self, answer: Any, argument: bytes) -> None:
        """Raise or end alarms by the result of the probe that a call asked for."""
        mark = argument[-3:-2]  # before the end of the line
        if isinstance(answer, ScriptRefused) and answer.word == "DIGESTIF_EVICTS":
            self.alarms.add(GROWS)
        elif isinstance(answer, StoreUnavailable) and isinstance(answer.__cause__, ReadOnlyError):
            self.alarms.add(DRAINS)
        elif mark == GROWS and not isinstance(answer, Exception):
            self.alarms.clear()
        elif mark == DRAINS and not isinstance(answer, Exception):
            self.alarms.discard(DRAINS)

    def question(self, partition: int) -> Command:
        """The command that reads the layout, to be sent along with plain commands."""
        return Command(partition, ("HGET", self._keys.key(partition, "ledger"), b"layout"))

    def check(self, partition: int, answer: bytes | Exception | None) -> Exception | None:
        """An error if the answer to the question shows that the layout is gone or has changed."""
        known = self._known[partition]
        if answer == known or not known or isinstance(answer, Exception):
            return None
        if answer and self._is_usable(answer) and _oldest(answer) > _oldest(known) and _rest(answer) == _rest(known):
            self._learn(partition, answer)
            return None
        return self.changed(partition, answer or b"")

    # Entering

    def enter(
        self, partitions: Iterable[int], *, patience: float | None = None, fail_fast: bool = False
    ) -> dict[int, Exception]:
        """Write the layout to those of these partitions that have none, and learn it. Returns errors by partition.

        Another engine may have emptied the server meanwhile and divided it differently. So the layout of the first
        partition is read last: if that is the one we know, the server was not divided differently.
        """
        wanted = [each for each in partitions if each in self.unentered]
        if not wanted:
            return {}
        keys = [self._keys.key(each, "ledger") for each in wanted]
        commands = [
            Command(each, (1, key, self._new_layout(), self._oldest), load("enter"))
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
            elif not self._is_usable(answer):
                failures[partition] = self.changed(partition, answer)
            else:
                self._learn(partition, answer)
        return failures

    @property
    def _oldest(self) -> int:
        """The oldest version that may write, as this engine knows it: by its release, or raised by a newer one."""
        return max(SCHEMA.oldest, _oldest(self._known[0]))

    def _new_layout(self) -> bytes:
        return b"%d/%d/%b" % (self._oldest, self._keys.partitions, fresh_id().encode())

    def _is_usable(self, layout: bytes) -> bool:
        """True for the layout of a partition that is divided as ours are, and that this process may write."""
        match = _FORM.fullmatch(layout)
        if match is None or int(match[2]) != self._keys.partitions:
            return False
        return SCHEMA.oldest <= int(match[1]) <= SCHEMA.version

    def _learn(self, partition: int, layout: bytes) -> None:
        self._known[partition] = layout
        self._arguments[partition] = pack_part(layout)
        self.unentered.discard(partition)

    # Refusing

    def changed(self, partition: int, found: bytes) -> Exception:
        """The error of a call that found another layout than it carried, or none."""
        if self._is_usable(found):
            first = self._first_after(found, partition)
            if isinstance(first, Exception):
                return first
            if self._is_usable(first):
                return self._refused(
                    "anew",
                    f"{self._named(partition)}: it lost its data and was set up anew since this store was opened. "
                    "Nothing was done; calls from now on go on with what is there",
                )
            partition, found = 0, first
        if not found:
            return self._refused(
                "gone",
                f"{self._named(partition)}: its settings are gone. The server was emptied (FLUSHALL), or it came "
                "back without its data (a restart without append-only file, a failover to an empty replica); what was "
                "stored there is lost. Nothing was done. To go on, restart a process that uses this namespace: opening "
                "a store writes the settings anew",
            )
        match = _FORM.fullmatch(found)
        if match and int(match[1]) < SCHEMA.oldest and int(match[2]) == self._keys.partitions:
            self._enter_again(partition)
            return self._refused(
                "older",
                f"{self._named(partition)}: it came back as an older release left it, after a failover perhaps. "
                "Nothing was done; calls from now on go on with what is there",
            )
        if match and int(match[1]) > SCHEMA.version:
            return self._refused("newer", too_old(self._named(partition), oldest=int(match[1]), version=SCHEMA.version))
        other = match[2].decode() if match else "another number of"
        return self._refused(
            "other",
            f"{self._named(partition)}: the server was emptied and the namespace set up anew with {other} partitions, "
            f"this store was opened with {self._keys.partitions}. Nothing was done. Restart this process, with the "
            "right ?partitions=",
        )

    def _first_after(self, found: bytes, partition: int) -> bytes | Exception:
        """The layout of the first partition. If its number of partitions is unchanged, learn all layouts anew.

        The server may have lost all partitions, not just this one. The first is read last, as by `enter`: another
        partition may have the layout of an engine that was refused afterwards.
        """
        others = [each for each in range(1, self._keys.partitions) if self._known[each] and each != partition]
        answers = self._link.run([self.question(each) for each in others], writes=False, patience=0)
        [answer] = self._link.run([self.question(0)], writes=False, patience=0)
        first: bytes | Exception = answer or b""
        if isinstance(first, Exception) or not self._is_usable(first):
            return first
        for each, layout in [*zip(others, answers, strict=True), (partition, found), (0, first)]:
            if isinstance(layout, bytes) and self._is_usable(layout):
                self._learn(each, layout)
        return first

    def _enter_again(self, partition: int) -> None:
        """Raise the schema of all partitions once more. Those that do not answer now are entered by the next call."""
        if partition not in self.unentered:
            every = range(self._keys.partitions)
            self.unentered.update(every)
            self.enter(every, patience=0)

    def _named(self, partition: int) -> str:
        return f"namespace {self._keys.namespace!r}, partition {partition}"

    def evicting(self, policy: str) -> StoreError:
        """The error of a call that adds records to a server that would evict them."""
        return self._refused(
            "evicts",
            f"maxmemory-policy is {policy} by now: the server would evict records that were accepted, so nothing is "
            "accepted; deliveries go on. Set it to noeviction or volatile-lru (CONFIG SET maxmemory-policy noeviction, "
            "and in its configuration)",
        )

    def _refused(self, kind: str, text: str) -> StoreError:
        error, now = StoreError(text), monotonic()
        if now >= self._report_at.get(kind, 0.0):
            self._report_at[kind] = now + REPORT_SECONDS
            self._emit(StoreChanged(error=error))
        return error


def _oldest(layout: bytes) -> int:
    """Return the oldest version that may still write."""
    return int(layout.partition(b"/")[0])


def _rest(layout: bytes) -> bytes:
    """Return the number of partitions and the id."""
    return layout.partition(b"/")[2]
