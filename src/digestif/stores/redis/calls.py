"""Calls of scripts. Each carries its caller and a number, so that a repeated call is answered as the first one was."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from digestif.core.damage import Damage
from digestif.core.machine import MOVING
from digestif.core.times import Millis
from digestif.errors import Busy, StoreError
from digestif.ids import fresh_id
from digestif.stores.damage import Damages, Unreadable
from digestif.stores.redis import encoding
from digestif.stores.redis.client.commands import Command, Packed, Part, ScriptRefused, pack, pack_part
from digestif.stores.redis.client.link import Link, all_required, required
from digestif.stores.redis.client.scripts import Script, load
from digestif.stores.redis.keys import Keys
from digestif.stores.redis.layout import Layouts

DAMAGED = "DIGESTIF_DAMAGED"  # the refusal of a script that can't read a timeline
NO_KEYS = Packed(0, b"")


class Call(NamedTuple):
    """A call of a script in one partition: the keys after those of the partition, the arguments after the time."""

    partition: int
    keys: Packed
    arguments: Packed

    @classmethod
    def of(cls, partition: int, request: object, keys: Packed = NO_KEYS) -> "Call":
        """A call whose only argument is a request in MessagePack."""
        return cls(partition, keys, pack((encoding.encode(request),)))


class Caller:
    """The source of a series of calls, of which only one is under way at a time."""

    __slots__ = ("calls", "name")

    def __init__(self) -> None:
        self.name = pack_part(f"c:{fresh_id()}")
        self.calls = 0


_READER = Caller()  # calls that only read need no number


class Scripts:
    """The scripts of a namespace's partitions. Safe to use from many threads."""

    def __init__(self, link: Link, keys: Keys, layouts: Layouts, damages: Damages) -> None:
        self.keys = keys
        self.damages = damages
        self._link = link
        self._layouts = layouts
        self._idle_callers: list[Caller] = []

    # Scripts that know their partition

    def write(self, name: str, calls: Sequence[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that writes, in several partitions; an answer may be an error."""
        callers = [self._next_caller() for _ in calls]  # one for each, because they are under way together
        try:
            return self._run(load(name), calls, callers, now=now)
        finally:
            self._idle_callers += callers

    def write_one(self, name: str, call: Call, *, now: Millis | None) -> Any:
        """Run a script that writes, in one partition; raises its error."""
        if self._layouts.unentered:
            return required(self.write(name, [call], now=now)[0])
        caller = self._next_caller()
        try:
            return self._send_one(load(name), call, caller, now=now)
        finally:
            self._idle_callers.append(caller)

    def query(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """Run a script that only reads, in several partitions; an answer may be an error."""
        return self._run(load(name), calls, [_READER] * len(calls), now=now, writes=False)

    def query_one(self, name: str, call: Call, *, now: Millis | None = None) -> Any:
        """Run a script that only reads, in one partition; raises its error.

        It fails fast: workers visit partitions in turn, and one that is down must not delay the others.
        """
        if self._layouts.unentered:
            return required(self._run(load(name), [call], [_READER], now=now, writes=False, fail_fast=True)[0])
        return self._send_one(load(name), call, _READER, now=now, writes=False, fail_fast=True)

    def _next_caller(self) -> Caller:
        """A caller with a new number. A call of it that arrives later with an older number is refused."""
        try:
            caller = self._idle_callers.pop()
        except IndexError:
            caller = Caller()
        caller.calls += 1
        return caller

    def _run(
        self, script: Script, calls: Sequence[Call], callers: Sequence[Caller], *, now: Millis | None, **how: bool
    ) -> list[Any]:
        failed: dict[int, Exception] = {}
        if self._layouts.unentered:
            partitions = {call.partition for call in calls}
            failed = self._layouts.enter(partitions, fail_fast=how.get("fail_fast", False))
        if not failed:
            return self._send(script, calls, callers, now=now, **how)
        rest = [number for number, call in enumerate(calls) if call.partition not in failed]
        answers = iter(self._send(script, [calls[n] for n in rest], [callers[n] for n in rest], now=now, **how))
        return [failed.get(call.partition) or next(answers) for call in calls]

    def _send(
        self, script: Script, calls: Sequence[Call], callers: Sequence[Caller], *, now: Millis | None, **how: bool
    ) -> list[Any]:
        layouts = [self._layouts.argument(call.partition, script) for call in calls]
        commands = [
            self._command(script, call, caller, now, layout)
            for call, caller, layout in zip(calls, callers, layouts, strict=True)
        ]
        answers = self._link.run(commands, **how)
        for number, answer in enumerate(answers):
            if self._layouts.alarms or isinstance(answer, Exception):
                answers[number] = self._translated(answer, calls[number].partition, layouts[number])
        return answers

    def _send_one(self, script: Script, call: Call, caller: Caller, *, now: Millis | None, **how: bool) -> Any:
        """The same for a single call, as most are; raises its error."""
        layout = self._layouts.argument(call.partition, script)
        [answer] = self._link.run([self._command(script, call, caller, now, layout)], **how)
        if self._layouts.alarms or isinstance(answer, Exception):
            return required(self._translated(answer, call.partition, layout))
        return answer

    def _translated(self, answer: Any, partition: int, layout: bytes) -> Any:
        """Replace the refusals that any script may give by errors; the verbs translate their own."""
        self._layouts.after_answer(answer, layout)
        match answer:
            case ScriptRefused(word="DIGESTIF_OVERTAKEN"):
                return StoreError("a call came to the server after a later one of its caller; nothing was done")
            case ScriptRefused(word="DIGESTIF_MOVING"):
                return Busy(MOVING)
            case ScriptRefused(word="DIGESTIF_LEDGER"):
                return Unreadable(
                    Damage(timeline=None, part="ledger", problem="a counter of the ledger is not a number")
                )
            case ScriptRefused(word="DIGESTIF_LAYOUT", rest=found):
                return self._layouts.changed(partition, found.encode())
            case ScriptRefused(word="DIGESTIF_EVICTS", rest=policy):
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

    def report_eviction(self, policy: str) -> None:
        """A call that went on all the same has found that the server evicts."""
        self._layouts.evicting(policy)

    def forget_callers(self) -> None:
        """In the child of a fork: the callers are the parent's."""
        self._idle_callers = []

    # Plain commands, and scripts that know only the keys they are given

    def read(self, name: str, partition: int, keys: Sequence[bytes], *arguments: Part) -> Any:
        """Run a script that only reads the keys it is given; raises its error."""
        return required(self.ask([Command(partition, (len(keys), *keys, *arguments), load(name))])[0])

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; an answer may be an error, for example that the layout has changed."""
        partitions = list(dict.fromkeys(command.partition for command in commands))
        questions = [self._layouts.question(partition) for partition in partitions]
        answers = self._link.run([*commands, *questions], writes=False)
        layouts = dict(zip(partitions, answers[len(commands) :], strict=True))
        wrong = {each: error for each, layout in layouts.items() if (error := self._layouts.check(each, layout))}
        return [
            answer if isinstance(answer, Exception) else wrong.get(command.partition, answer)
            for command, answer in zip(commands, answers, strict=False)
        ]

    def get(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; raises the first error."""
        return all_required(self.ask(commands))

    def change(self, commands: Sequence[Command]) -> None:
        """Run commands that write and may be repeated; raises the first error."""
        all_required(self._link.run(commands))

    def time(self, partition: int) -> Millis:
        """The clock of a partition's server; fails fast."""
        [answer] = self._link.run([Command(partition, ("TIME",))], writes=False, fail_fast=True)
        seconds, micros = required(answer)
        return int(seconds) * 1000 + int(micros) // 1000
