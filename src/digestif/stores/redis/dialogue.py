"""How scripts are asked: each call carries its caller's number, so that a repetition answers as the first did."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from digestif.core.damage import Damage
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.ids import fresh_id
from digestif.stores.damage import Damages, Unreadable
from digestif.stores.redis.commands import Command, Refused
from digestif.stores.redis.keys import Keys
from digestif.stores.redis.link import Link
from digestif.stores.redis.resp import Packed, Part, pack_part
from digestif.stores.redis.scripts import Script, load


class Call(NamedTuple):
    """What one partition is asked: the keys after those of the partition, and the arguments after the time."""

    partition: int
    keys: Packed
    arguments: Packed


class Caller:
    """Somebody who makes one call after the other."""

    __slots__ = ("calls", "name")

    def __init__(self) -> None:
        self.name = pack_part(f"c:{fresh_id()}")
        self.calls = 0


DAMAGED = "DIGESTIF_DAMAGED"  # what a script says of a timeline that it can't read

_NOBODY = Caller()  # what only reads needs no number


class Dialogue:
    """Asks the scripts of a namespace's partitions. Safe to use from many threads."""

    def __init__(self, link: Link, keys: Keys, damages: Damages) -> None:
        self.keys = keys
        self.damages = damages
        self._link = link
        self._callers: list[Caller] = []  # those who make no call just now

    def write(self, name: str, calls: Sequence[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that changes things, in each of these partitions; an answer may be an error."""
        script = load(name)
        callers = [self._next_caller() for _ in calls]  # each has to be answered apart from the others
        commands = [self._command(script, call, caller, now) for call, caller in zip(calls, callers, strict=True)]
        try:
            return self._understood(self._link.run(commands))
        finally:
            self._callers += callers

    def _next_caller(self) -> Caller:
        """Somebody with a fresh number for a call. Should its answer never come, a straggler of it is refused."""
        try:
            caller = self._callers.pop()
        except IndexError:
            caller = Caller()
        caller.calls += 1
        return caller

    def _command(self, script: Script, call: Call, caller: Caller, now: Millis | None) -> Command:
        partition, keys, arguments = call
        fixed = self.keys.fixed(partition)
        number = b"%d" % caller.calls
        at = b"" if now is None else b"%d" % now
        body = b"%b%b%b$%d\r\n%b\r\n%b$%d\r\n%b\r\n%b" % (
            pack_part(fixed.parts + keys.parts),
            fixed.body,
            keys.body,
            len(number),
            number,
            caller.name,
            len(at),
            at,
            arguments.body,
        )
        return Command(partition, Packed(fixed.parts + keys.parts + arguments.parts + 4, body), script)

    def write_one(self, name: str, call: Call, *, now: Millis | None) -> Any:
        """The answer of one partition; raises its error."""
        return sole(self.write(name, [call], now=now))

    def looks(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """Run a script that only reads and knows the partition, in each of these; an answer may be an error."""
        script = load(name)
        return self.ask([self._command(script, call, _NOBODY, now) for call in calls])

    def glance(self, name: str, call: Call, *, now: Millis | None = None) -> Any:
        """The same to begin a visit of a partition, which has to go on with the next one if this one is down."""
        command = self._command(load(name), call, _NOBODY, now)
        return sole(self._understood(self._link.run([command], writes=False, hasty=True)))

    def time(self, partition: int) -> tuple[bytes, bytes]:
        """The clock of a partition's server, likewise."""
        seconds, micros = sole(self._link.run([Command(partition, ("TIME",))], writes=False, hasty=True))
        return seconds, micros

    def read(self, name: str, partition: int, keys: Sequence[bytes], *arguments: Part) -> Any:
        """Run a script that only reads the keys that it is given; raises its error."""
        return sole(self.ask([Command(partition, (len(keys), *keys, *arguments), load(name))]))

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; an answer may be an error."""
        return self._understood(self._link.run(commands, writes=False))

    def change(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that change something, and may be repeated; an answer may be an error."""
        return self._understood(self._link.run(commands))

    def get(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; raises the first error."""
        return every(self.ask(commands))

    @staticmethod
    def _understood(answers: list[Any]) -> list[Any]:
        for place, answer in enumerate(answers):
            if isinstance(answer, Refused) and answer.word == "DIGESTIF_OVERTAKEN":
                answers[place] = StoreError(
                    "a call came to the server after a later one of its caller; nothing was done"
                )
            elif isinstance(answer, Refused) and answer.word == "DIGESTIF_LEDGER":
                answers[place] = Unreadable(
                    Damage(timeline=None, part="ledger", problem="a counter of the ledger is not a number")
                )
        return answers

    def forget_callers(self) -> None:
        """In the child of a fork: the callers are the parent's."""
        self._callers = []


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
