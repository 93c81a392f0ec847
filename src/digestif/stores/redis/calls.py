"""How scripts are asked: each call carries its caller's number, so that a repetition answers as the first did."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from digestif.core.damage import Damage
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.ids import fresh_id
from digestif.stores.damage import Damages, Unreadable
from digestif.stores.redis.client.commands import Command, Packed, Part, Refused, pack_part
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.scripts import Script, load
from digestif.stores.redis.keys import Keys
from digestif.stores.redis.layout import Layouts


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


class Scripts:
    """Asks the scripts of a namespace's partitions. Safe to use from many threads."""

    def __init__(self, link: Link, keys: Keys, layouts: Layouts, damages: Damages) -> None:
        self.keys = keys
        self.damages = damages
        self._link = link
        self._layouts = layouts
        self._callers: list[Caller] = []  # those who make no call just now

    def write(self, name: str, calls: Sequence[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that changes things, in each of these partitions; an answer may be an error."""
        script = load(name)
        callers = [self._next_caller() for _ in calls]  # each has to be answered apart from the others
        try:
            return self._run(script, calls, callers, now=now)
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

    def _run(
        self, script: Script, calls: Sequence[Call], callers: Sequence[Caller], *, now: Millis | None, **how: bool
    ) -> list[Any]:
        shut: dict[int, Exception] = {}
        if self._layouts.strange:
            shut = self._layouts.enter({call.partition for call in calls}, fail_fast=how.get("fail_fast", False))
        if not shut:
            return self._send(script, calls, callers, now=now, **how)
        rest = [place for place, call in enumerate(calls) if call.partition not in shut]
        answers = iter(self._send(script, [calls[n] for n in rest], [callers[n] for n in rest], now=now, **how))
        return [shut.get(call.partition) or next(answers) for call in calls]

    def _send(
        self, script: Script, calls: Sequence[Call], callers: Sequence[Caller], *, now: Millis | None, **how: bool
    ) -> list[Any]:
        layouts = [self._layouts.argument(call.partition, script) for call in calls]
        commands = [
            self._command(script, call, caller, now, layout)
            for call, caller, layout in zip(calls, callers, layouts, strict=True)
        ]
        answers = self._link.run(commands, **how)
        for place, answer in enumerate(answers):
            if self._layouts.doubts or isinstance(answer, Exception):
                answers[place] = self._understood(answer, calls[place].partition, layouts[place])
        return answers

    def _send_one(self, script: Script, call: Call, caller: Caller, *, now: Millis | None, **how: bool) -> Any:
        """The same for a single call, which most are; raises its error."""
        layout = self._layouts.argument(call.partition, script)
        [answer] = self._link.run([self._command(script, call, caller, now, layout)], **how)
        if self._layouts.doubts or isinstance(answer, Exception):
            return sole([self._understood(answer, call.partition, layout)])
        return answer

    def _understood(self, answer: Any, partition: int, layout: bytes) -> Any:
        """The answer of a call, or what a refusal means that every script may give; the others are for the verbs."""
        self._layouts.after_answer(answer, layout)
        match answer:
            case Refused(word="DIGESTIF_OVERTAKEN"):
                return StoreError("a call came to the server after a later one of its caller; nothing was done")
            case Refused(word="DIGESTIF_LEDGER"):
                return Unreadable(
                    Damage(timeline=None, part="ledger", problem="a counter of the ledger is not a number")
                )
            case Refused(word="DIGESTIF_LAYOUT", rest=found):
                return self._layouts.changed(partition, found.encode())
            case Refused(word="DIGESTIF_EVICTS", rest=policy):
                return self._layouts.evicting(policy)
        return answer

    def _command(self, script: Script, call: Call, caller: Caller, now: Millis | None, layout: bytes) -> Command:
        partition, keys, arguments = call
        fixed = self.keys.fixed(partition)
        number = b"%d" % caller.calls
        at = b"" if now is None else b"%d" % now
        body = b"%b%b%b$%d\r\n%b\r\n%b$%d\r\n%b\r\n%b%b" % (
            pack_part(fixed.parts + keys.parts),
            fixed.body,
            keys.body,
            len(number),
            number,
            caller.name,
            len(at),
            at,
            arguments.body,
            layout,
        )
        return Command(partition, Packed(fixed.parts + keys.parts + arguments.parts + 5, body), script)

    def write_one(self, name: str, call: Call, *, now: Millis | None) -> Any:
        """The answer of one partition; raises its error."""
        if self._layouts.strange:
            return sole(self.write(name, [call], now=now))
        caller = self._next_caller()
        try:
            return self._send_one(load(name), call, caller, now=now)
        finally:
            self._callers.append(caller)

    def looks(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """Run a script that only reads and knows the partition, in each of these; an answer may be an error."""
        return self._run(load(name), calls, [_NOBODY] * len(calls), now=now, writes=False)

    def glance(self, name: str, call: Call, *, now: Millis | None = None) -> Any:
        """The same to begin a visit of a partition, which has to go on with the next one if this one is down."""
        if self._layouts.strange:
            return sole(self._run(load(name), [call], [_NOBODY], now=now, writes=False, fail_fast=True))
        return self._send_one(load(name), call, _NOBODY, now=now, writes=False, fail_fast=True)

    def time(self, partition: int) -> tuple[bytes, bytes]:
        """The clock of a partition's server, likewise."""
        seconds, micros = sole(self._link.run([Command(partition, ("TIME",))], writes=False, fail_fast=True))
        return seconds, micros

    def read(self, name: str, partition: int, keys: Sequence[bytes], *arguments: Part) -> Any:
        """Run a script that only reads the keys that it is given; raises its error."""
        return sole(self.ask([Command(partition, (len(keys), *keys, *arguments), load(name))]))

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; an answer may be an error, also that the layout is not as it was."""
        partitions = list(dict.fromkeys(command.partition for command in commands))
        questions = [self._layouts.question(partition) for partition in partitions]
        answers = self._link.run([*commands, *questions], writes=False)
        layouts = dict(zip(partitions, answers[len(commands) :], strict=True))
        wrong = {each: error for each, layout in layouts.items() if (error := self._layouts.check(each, layout))}
        return [
            answer if isinstance(answer, Exception) else wrong.get(command.partition, answer)
            for command, answer in zip(commands, answers, strict=False)
        ]

    def change(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that change something, and may be repeated; an answer may be an error."""
        return self._link.run(commands)

    def get(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; raises the first error."""
        return every(self.ask(commands))

    def tell_of_eviction(self, policy: str) -> None:
        """A call that goes on all the same has found that the server evicts."""
        self._layouts.evicting(policy)

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
