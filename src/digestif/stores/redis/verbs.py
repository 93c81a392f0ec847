"""Common to all verbs of the store: one call per partition, answers in the order of the items, damage by its name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from digestif.core.damage import Damage, legible
from digestif.core.machine import Slot
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.stores.damage import Loss, Unreadable
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import DAMAGED, Call, Scripts
from digestif.stores.redis.client.commands import Command, ScriptRefused, WrongType, joined, pack
from digestif.stores.redis.client.link import all_required
from digestif.stores.redis.keys import SCHEDULE, Keys, as_bytes

Item = TypeVar("Item")
Declared = Literal["slot", "whole"]  # which keys of its timelines a call declares

ACTED_TIMELINES = 100  # that a call schedules, claims, closes or maintains: about 3 ms of the server


class RedisVerbs(ABC):
    """The base of the parts of the store."""

    @property
    @abstractmethod
    def _scripts(self) -> Scripts:
        """The scripts, once the server has been examined."""

    # Calls

    def _call(self, partition: int, timelines: Iterable[str], request: object, *, declared: Declared = "whole") -> Call:
        owned = map(self._scripts.keys.of, timelines)
        return Call.of(partition, request, joined(getattr(own, declared) for own in owned))

    def _change(self, script: str, timeline: str, *arguments: bytes, now: Millis | None) -> bool:
        """Run a script on one timeline that answers with a flag."""
        own = self._scripts.keys.of(timeline)
        return self._flag(script, timeline, Call(own.partition, own.whole, pack(arguments)), now=now)

    def _flag(self, script: str, timeline: str, call: Call, *, now: Millis | None) -> bool:
        with self._naming_damage(timeline):
            return encoding.flags(self._scripts.write_one(script, call, now=now))[0]

    def _write_shares(
        self,
        script: str,
        items: Sequence[Item],
        timeline_of: Callable[[Item], str],
        call_of: Callable[[int, list[Item]], Call],
        *,
        now: Millis | None,
        refusal: Callable[[list[Item], ScriptRefused], Exception] | None = None,
    ) -> list[bool]:
        """Send each partition its share of the items, and put the flags that it answers back in their order."""
        answers: list[bool | None] = [None] * len(items)
        shares = _paged(shares_of(self._scripts.keys, map(timeline_of, items)))
        calls = [call_of(partition, [items[position] for position in positions]) for partition, positions in shares]
        replies = self._scripts.write(script, calls, now=now)
        for (_, positions), reply in zip(shares, replies, strict=True):
            if refusal and isinstance(reply, ScriptRefused):
                raise refusal([items[position] for position in positions], reply)
            if not isinstance(reply, Exception):
                for position, flag in zip(positions, encoding.flags(reply), strict=True):
                    answers[position] = flag
        raise_failure(replies, answers)
        return [answer is True for answer in answers]

    def _everywhere(self, kind: str, command: str, *arguments: bytes | int) -> list[Command]:
        """A command on a key of each partition."""
        keys = self._scripts.keys
        return [Command(each, (command, keys.key(each, kind), *arguments)) for each in range(keys.partitions)]

    # Damage

    @contextmanager
    def _naming_damage(self, timeline: str) -> Iterator[None]:
        """A script says only that a timeline is damaged; raise what is damaged."""
        try:
            yield
        except ScriptRefused as error:
            if error.word != DAMAGED:
                raise
            raise damage_of(self._scripts, timeline) from None

    def _report_damaged(self, timelines: Iterable[str]) -> None:
        for timeline in timelines:
            self._scripts.damages.report(damage_of(self._scripts, timeline).damage)

    def _report_losses(self, losses: Iterable[Loss] = ()) -> None:
        self._scripts.damages.report_losses((name, records) for name, records in losses)

    def _without_strays(self, partition: int, names: list[str]) -> list[str]:
        """The timelines that belong to the partition in whose schedule they were found; others are taken out of it.

        A call can't declare the keys of another partition, nor carry a name that is not UTF-8.
        """
        keys = self._scripts.keys
        strays = [name for name in names if keys.of(name).partition != partition or legible(name) != name]
        if not strays:
            return names
        raw = [as_bytes(name) for name in strays]
        self._scripts.remove("ZREM", [(partition, keys.key(partition, kind), raw) for kind in SCHEDULE])
        for name in strays:
            problem = (
                "it stood in the schedule of another partition" if legible(name) == name else "its name is not UTF-8"
            )
            self._scripts.damages.report(Damage(timeline=legible(name), part="place", problem=problem))
        return [name for name in names if name not in strays]


def shares_of(keys: Keys, timelines: Iterable[str]) -> dict[int, list[int]]:
    """The positions of timelines, by their partition."""
    shares: dict[int, list[int]] = {}
    for position, timeline in enumerate(timelines):
        shares.setdefault(keys.of(timeline).partition, []).append(position)
    return shares


def _paged(shares: dict[int, list[int]]) -> list[tuple[int, list[int]]]:
    """Shares of partitions, none larger than a call may be."""
    return [
        (partition, positions[start : start + ACTED_TIMELINES])
        for partition, positions in shares.items()
        for start in range(0, len(positions), ACTED_TIMELINES)
    ]


def raise_failure(replies: Sequence[Any], answers: list[bool | None]) -> None:
    """If partitions failed, raise the first error, with the answers of the others."""
    for reply in replies:
        if isinstance(reply, StoreError):
            raise reply.knowing(answers)
        if isinstance(reply, Exception):
            raise reply


def read_slots(scripts: Scripts, timelines: Sequence[str]) -> list[Slot | Unreadable | None]:
    """The slots of timelines; None for one that is not stored."""
    commands = []
    for timeline in timelines:
        own = scripts.keys.of(timeline)
        commands.append(Command(own.partition, ("HGET", own.keys[0], b"")))
        commands.append(Command(own.partition, ("HLEN", own.keys[0])))
    answers = scripts.ask(commands)
    all_required([answer for answer in answers if not isinstance(answer, WrongType)])
    return [
        _read_slot(timeline, stored, size)
        for timeline, stored, size in zip(timelines, answers[::2], answers[1::2], strict=True)
    ]


def _read_slot(timeline: str, stored: bytes | WrongType | None, size: int) -> Slot | Unreadable | None:
    try:
        if isinstance(stored, WrongType):
            raise encoding.unreadable_slot(timeline, "its key is no hash")
        if legible(timeline) != timeline:
            raise encoding.unreadable_slot(timeline, "its name is not UTF-8")
        return None if stored is None else encoding.slot(timeline, stored, size - 1)
    except Unreadable as error:
        return error


def damage_of(scripts: Scripts, timeline: str) -> Unreadable:
    """What is wrong with a timeline that a script refused as damaged."""
    [found] = read_slots(scripts, [timeline])
    if isinstance(found, Unreadable):
        return found
    return encoding.unreadable_slot(timeline, "scripts can't read it, or a key of its records")
