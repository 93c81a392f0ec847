"""How scripts are asked: each call carries its caller's number, so that a repetition answers as the first did."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.ids import fresh_id
from digestif.stores.redis.commands import Command, Refused
from digestif.stores.redis.keys import Keys
from digestif.stores.redis.link import Link
from digestif.stores.redis.scripts import Script, load

Part = bytes | str | int | float


class Call(NamedTuple):
    """What one partition is asked: the keys after those of the partition, and the arguments after the time."""

    partition: int
    keys: Sequence[bytes]
    arguments: Sequence[Part]


class Caller:
    """Somebody who makes one call after the other."""

    __slots__ = ("calls", "id")

    def __init__(self) -> None:
        self.id = fresh_id()
        self.calls = 0


class Dialogue:
    """Asks the scripts of a namespace's partitions. Safe to use from many threads."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self.keys = keys
        self._link = link
        self._callers: list[Caller] = []  # those who make no call just now

    def write(self, name: str, calls: Sequence[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that changes things, in each of these partitions; an answer may be an error."""
        script = load(name)
        with self._caller() as caller:
            commands = [self._written(script, call, caller, now) for call in calls]
            return [_understood(answer) for answer in self._link.run(commands)]

    def _written(self, script: Script, call: Call, caller: Caller, now: Millis | None) -> Command:
        return self._command(script, call, self.keys.key(call.partition, "c", caller.id), caller.calls, now)

    def _command(self, script: Script, call: Call, caller: bytes, number: int, now: Millis | None) -> Command:
        fixed = self.keys.fixed(call.partition)
        count = 1 + len(fixed) + len(call.keys)
        at: Part = b"" if now is None else now
        return Command(call.partition, (count, caller, *fixed, *call.keys, number, at, *call.arguments), script)

    def write_one(self, name: str, call: Call, *, now: Millis | None) -> Any:
        """The answer of one partition; raises its error."""
        return sole(self.write(name, [call], now=now))

    def look(self, name: str, call: Call, *, now: Millis | None = None) -> Any:
        """Run a script that only reads and knows the partition; raises its error."""
        return sole(self.looks(name, [call], now=now))

    def looks(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """The same in several partitions; an answer may be an error."""
        script = load(name)
        return self.ask([self._asked(script, call, now) for call in calls])

    def _asked(self, script: Script, call: Call, now: Millis | None) -> Command:
        nobody = self.keys.key(call.partition, "c", "")  # what only reads needs no caller
        return self._command(script, call, nobody, 0, now)

    def read(self, name: str, partition: int, keys: Sequence[bytes], *arguments: Part) -> Any:
        """Run a script that only reads the keys that it is given; raises its error."""
        return sole(self.ask([Command(partition, (len(keys), *keys, *arguments), load(name))]))

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; an answer may be an error."""
        return [_understood(answer) for answer in self._link.run(commands, writes=False)]

    def get(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; raises the first error."""
        return every(self.ask(commands))

    @contextmanager
    def _caller(self) -> Iterator[Caller]:
        """Somebody with a fresh number for a call. Should its answer never come, a straggler of it is refused."""
        try:
            caller = self._callers.pop()
        except IndexError:
            caller = Caller()
        caller.calls += 1
        try:
            yield caller
        finally:
            self._callers.append(caller)

    def forget_callers(self) -> None:
        """In the child of a fork: the callers are the parent's."""
        self._callers = []


def _understood(answer: Any) -> Any:
    if isinstance(answer, Refused) and answer.word == "DIGESTIF_OVERTAKEN":
        return StoreError("a call came to the server after a later one of the same caller; nothing was changed")
    return answer


def sole(answers: Sequence[Any]) -> Any:
    """The one answer; raises it if it is an error."""
    [answer] = answers
    if isinstance(answer, Exception):
        raise answer
    return answer


def every(answers: Sequence[Any]) -> list[Any]:
    """The answers; raises the first error."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return list(answers)
