"""Calls of scripts. Each carries its caller and a number, so that a repeated call is answered as the first one was."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
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
from digestif.stores.redis.client.pipeline import Request
from digestif.stores.redis.client.scripts import Script, load
from digestif.stores.redis.keys import Keys
from digestif.stores.redis.layout import Layouts

DAMAGED = "DIGESTIF_DAMAGED"  # the refusal of a script that can't read a timeline
VALUELESS = "DIGESTIF_VALUELESS"  # the refusal of one that finds nothing in a dead letter but a key
NO_KEYS = Packed(0, b"")
REMOVED_NAMES = 1000  # in one call: Lua can't unpack any number
IN_FLIGHT = 8  # calls of one caller that may be sent before the first is answered: `add` keeps as many replies


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
        self.forget_callers()

    # Scripts that know their partition

    def write(self, name: str, calls: Sequence[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that writes, in several partitions; an answer may be an error."""
        callers = [self._next_caller(call.partition) for call in calls]  # one each: they are under way together
        try:
            return self._run(load(name), calls, callers, now=now)
        finally:
            for call, caller in zip(calls, callers, strict=True):
                self._idle_callers[call.partition].append(caller)

    def write_one(self, name: str, call: Call, *, now: Millis | None) -> Any:
        """Run a script that writes, in one partition; raises its error."""
        if self._layouts.unentered:
            return required(self.write(name, [call], now=now)[0])
        caller = self._next_caller(call.partition)
        try:
            return self._send_one(load(name), call, caller, now=now)
        finally:
            self._idle_callers[call.partition].append(caller)

    def write_in_turn(self, name: str, calls: Iterable[Call], *, now: Millis | None) -> list[Any]:
        """Run a script that writes, at most IN_FLIGHT times in each partition; an answer may be an error.

        Each call is sent as soon as it is made, and those of a partition are done in their order: after one that failed
        no later one is done, and its error answers them, too. The script has to be one that knows such calls.
        """
        failed: dict[int, Exception] = {}
        if self._layouts.unentered:
            calls = list(calls)
            failed = self._layouts.enter({call.partition for call in calls})
        callers: dict[int, Caller] = {}
        sent: list[tuple[Call, bytes]] = []
        try:
            requests = self._requests(load(name), calls, callers, sent, failed, now=now)
            answers = self._link.run_in_turn(requests)
        finally:
            for partition, caller in callers.items():
                self._idle_callers[partition].append(caller)
        return self._all_translated(answers, sent)

    def _requests(
        self,
        script: Script,
        calls: Iterable[Call],
        callers: dict[int, Caller],
        sent: list[tuple[Call, bytes]],
        failed: dict[int, Exception],
        *,
        now: Millis | None,
    ) -> Iterator[Request]:
        """A request for each call, with a caller for each partition. Notes each call and the layout that it carries."""
        latest: dict[int, Request] = {}
        for call in calls:
            caller = callers.get(call.partition)
            if caller is None:
                caller = callers[call.partition] = self._next_caller(call.partition)
            else:
                caller.calls += 1
            layout = self._layouts.argument(call.partition, script)
            sent.append((call, layout))
            before = latest.get(call.partition)
            command = partial(self._command, script, call, caller, now, layout)
            number = b"%d" % caller.calls
            if before is None:
                request = Request(command(number))
            else:
                request = Request(command(b"+" + number), after=before, leading=partial(command, number))
            request.answer = failed.get(call.partition, request.answer)
            latest[call.partition] = request
            yield request

    def _all_translated(self, answers: list[Any], sent: Sequence[tuple[Call, bytes]]) -> list[Any]:
        known: dict[int, Any] = {}  # by the identity of an error: it may answer several calls
        for number, (answer, (call, layout)) in enumerate(zip(answers, sent, strict=True)):
            if isinstance(answer, Exception):
                if id(answer) not in known:
                    known[id(answer)] = self._translated(answer, call.partition, layout)
                answers[number] = known[id(answer)]
            elif self._layouts.alarms:
                self._layouts.after_answer(answer, layout)
        return answers

    def query(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """Run a script that only reads, in several partitions; an answer may be an error."""
        return self._run(load(name), calls, [_READER] * len(calls), now=now, writes=False)

    def query_each(self, name: str, calls: Sequence[Call], *, now: Millis | None = None) -> list[Any]:
        """The same, failing fast: a node that is down must not delay what the others answer."""
        if len(calls) > 1:
            return self._run(load(name), calls, [_READER] * len(calls), now=now, writes=False, fail_fast=True)
        try:
            return [self.query_one(name, call, now=now) for call in calls]
        except StoreError as error:
            return [error]

    def query_one(self, name: str, call: Call, *, now: Millis | None = None) -> Any:
        """Run a script that only reads, in one partition; raises its error.

        It fails fast: workers visit partitions in turn, and one that is down must not delay the others.
        """
        if self._layouts.unentered:
            return required(self._run(load(name), [call], [_READER], now=now, writes=False, fail_fast=True)[0])
        return self._send_one(load(name), call, _READER, now=now, writes=False, fail_fast=True)

    def _next_caller(self, partition: int) -> Caller:
        """A caller with a new number. A call of it that arrives later with an older number is refused.

        Each partition has its own: a caller that is new to a partition costs it a page of old answers to look through.
        """
        try:
            caller = self._idle_callers[partition].pop()
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

    def _command(
        self,
        script: Script,
        call: Call,
        caller: Caller,
        now: Millis | None,
        layout: bytes,
        number: bytes | None = None,
    ) -> Command:
        """A call as a command. Its number has a `+` if the call before it has to be done first."""
        partition, keys, arguments = call
        fixed = self.keys.fixed(partition)
        number = number or b"%d" % caller.calls
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
        """Begin without any. In the child of a fork those there were are the parent's."""
        self._idle_callers: list[list[Caller]] = [[] for _ in range(self.keys.partitions)]

    # Plain commands, and scripts that know only the keys they are given

    def read(self, name: str, partition: int, keys: Sequence[bytes], *arguments: Part) -> Any:
        """Run a script that only reads the keys it is given; raises its error."""
        return required(self.ask([Command(partition, (len(keys), *keys, *arguments), load(name))])[0])

    def ask(self, commands: Sequence[Command], *, fail_fast: bool = False) -> list[Any]:
        """Answers of commands that only read; an answer may be an error, for example that the layout has changed."""
        partitions = list(dict.fromkeys(command.partition for command in commands))
        questions = [self._layouts.question(partition) for partition in partitions]
        answers = self._link.run([*commands, *questions], writes=False, fail_fast=fail_fast)
        layouts = dict(zip(partitions, answers[len(commands) :], strict=True))
        wrong = {each: error for each, layout in layouts.items() if (error := self._layouts.check(each, layout))}
        return [
            answer if isinstance(answer, Exception) else wrong.get(command.partition, answer)
            for command, answer in zip(commands, answers, strict=False)
        ]

    def get(self, commands: Sequence[Command]) -> list[Any]:
        """Answers of commands that only read; raises the first error."""
        return all_required(self.ask(commands))

    def remove(self, command: str, found: Iterable[tuple[int, bytes, Sequence[bytes]]]) -> None:
        """Take names out of keys, given with their partitions, by HDEL or ZREM; raises the first error."""
        calls = [
            Call.of(partition, {"command": command, "names": [encoding.text(name) for name in page]}, pack((key,)))
            for partition, key, names in found
            for page in (names[begin : begin + REMOVED_NAMES] for begin in range(0, len(names), REMOVED_NAMES))
        ]
        all_required(self.write("remove_names", calls, now=None))

    def time(self, partition: int) -> Millis:
        """The clock of a partition's server; fails fast."""
        [answer] = self._link.run([Command(partition, ("TIME",))], writes=False, fail_fast=True)
        seconds, micros = required(answer)
        return int(seconds) * 1000 + int(micros) // 1000
