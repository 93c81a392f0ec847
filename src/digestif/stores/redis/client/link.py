"""The link: the store sends its commands here and gets answers, whatever nodes and failures lie between."""

from collections.abc import Iterable, Sequence
from threading import Event
from typing import Any

from redis.exceptions import ResponseError, TimeoutError

from digestif.clock import monotonic
from digestif.errors import ConfigError
from digestif.stores.fork import watch
from digestif.stores.redis.client.commands import Command, Part
from digestif.stores.redis.client.faults import FAILURES, UNREACHABLE, Remedy, again, final, remedy
from digestif.stores.redis.client.pipeline import UNANSWERED, Confirmation, Request, expect
from digestif.stores.redis.client.probes import Probes
from digestif.stores.redis.client.retries import HANGS_SECONDS, Backoff, Sender, backoff, stream, unanswered
from digestif.stores.redis.client.topology import Topology

# After a call has waited for a node in vain, calls that fail fast do so at once for a second, and then try only once.
FAIL_SECONDS = 1.0
TRY_ONCE_SECONDS = 30.0


class Link:
    """A link over one node or several. Safe to use from many threads, and after a fork."""

    def __init__(
        self,
        topology: Topology,
        *,
        patience: float,
        confirmation: Confirmation | None = None,
        backoff: Backoff = backoff,
    ) -> None:
        self.topology = topology
        self.backoff = backoff
        self._patience = patience
        self._confirmation = confirmation
        self._closed = Event()
        self._probes = Probes(topology, closed=self._closed)
        watch(self)

    def run(
        self,
        commands: Sequence[Command],
        *,
        writes: bool = True,
        fail_fast: bool = False,
        patience: float | None = None,
    ) -> list[Any]:
        """Answer each command, in order: the reply of the server, never decoded, or an exception in its place.

        The exception is ScriptRefused if a script refused, a DigestifError if the command failed for good. Failures
        that may pass are retried until the link's patience is over, so a command may run more than once, and commands
        of one call in any order. One that fails does not stop the others. `writes`: an answer counts only once as many
        replicas have it as the link waits for. `fail_fast`: do not wait again for a node for which another call has
        just waited in vain, and not for long for one of several nodes. `patience`: instead of the link's; 0 tries once,
        and fails fast.
        """
        began = monotonic()
        confirmation = self._confirmation if writes else None
        if fail_fast and (failed := self._recently_failed(commands)):
            rest = [number for number in range(len(commands)) if number not in failed]
            answers = iter(self.run([commands[n] for n in rest], writes=writes, fail_fast=True, patience=patience))
            return [failed[number] if number in failed else next(answers) for number in range(len(commands))]
        requests = [Request(command) for command in commands]
        if len(requests) == 1 and confirmation is None:
            answer = self._try_once(requests[0], fail_fast=fail_fast)
            if answer is not UNANSWERED:
                return [answer]
        if fail_fast and self._recent_failure(commands, seconds=TRY_ONCE_SECONDS):
            patience = 0.0
        return self._send(requests, began, confirmation, patience=patience, fail_fast=fail_fast)

    def run_in_turn(self, requests: Iterable[Request]) -> list[Any]:
        """Answer each request as `run` does, and send it as soon as it is made. One with an answer is not sent.

        A request that follows another one is refused by the server until that is done. So however often they are
        repeated, they are done in order.
        """
        began = monotonic()
        is_plain = self._confirmation is None and not self._closed.is_set()
        made = stream(requests, self.topology, self._probes) if is_plain else list(requests)
        self._send(unanswered(made), began, self._confirmation)
        return [request.answer for request in made]

    def ask_all(self, *parts: Part, patience: float | None = None) -> dict[str, Any]:
        """Send one plain command to every primary: answers as those of `run`, by the name of the node."""
        [first] = self._send([Request(Command(0, ("PING",)))], monotonic(), patience=patience)
        try:
            nodes = list(self.topology.nodes())  # the PING has found them, if they can be found
        except (ConfigError, *FAILURES):
            return {self.topology.name: first}
        if isinstance(first, Exception) and len(nodes) == 1:
            return {nodes[0].name: first}
        requests = [Request(Command(0, parts), pinned=node) for node in nodes]
        answers = self._send(requests, monotonic(), patience=patience)
        return {node.name: answer for node, answer in zip(nodes, answers, strict=True)}

    @property
    def misses_nodes(self) -> bool:
        """True if one of several nodes does not answer just now."""
        return bool(self._probes.nodes)

    def is_silent(self, partition: int) -> bool:
        """True if the node of a partition is one of several, and does not answer just now."""
        try:
            return self.topology.node_for(partition).silence is not None
        except (ConfigError, *FAILURES):
            return False

    def refresh(self, *, after: float) -> None:
        """Wait `after` seconds, then read again which nodes serve the partitions."""
        self._closed.wait(after)
        self.topology.refresh(failed=None)

    def close(self) -> None:
        """Close every connection. Later calls are answered with StoreUnavailable."""
        self._closed.set()
        self._probes.close()
        self.topology.close()

    def before_fork(self) -> None:
        """Calls under way stay the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self.topology.after_fork()
            self._probes.after_fork()

    def _recently_failed(self, commands: Sequence[Command]) -> dict[int, Exception]:
        """By position: the errors of commands for whose nodes a call has just waited in vain."""
        failed: dict[int, Exception] = {}
        if self._recent_failure(commands, seconds=FAIL_SECONDS) is None:
            return failed
        for number, command in enumerate(commands):
            if error := self._recent_failure([command], seconds=FAIL_SECONDS):
                failed[number] = again(error)
        return failed

    def _recent_failure(self, commands: Sequence[Command], *, seconds: float) -> Exception | None:
        """The error of a call that waited in vain for one of these nodes within the last seconds."""
        try:
            nodes = {self.topology.node_for(command.partition) for command in commands}
        except (ConfigError, *FAILURES):
            return None
        return next((error for node in nodes if (error := node.recent_failure(seconds=seconds))), None)

    def _try_once(self, request: Request, *, fail_fast: bool) -> Any:
        """The short way for a single request. UNANSWERED: it takes a Sender."""
        command = request.command
        if self._closed.is_set():
            return UNANSWERED
        try:
            node = self.topology.node_for(command.partition)
            connection, _ = node.take()
        except (ConfigError, *FAILURES):
            return UNANSWERED
        try:
            connection.send_packed_command((command.message(),), check_health=False)
            if fail_fast and self.topology.is_divided:
                expect(connection, seconds=HANGS_SECONDS)
            answer = connection.read_response(disable_decoding=True)
        except ResponseError as error:
            node.give(connection)
            return final(error, node.name) if remedy(error) is Remedy.NONE else UNANSWERED
        except UNREACHABLE as error:
            request.may_be_done = True
            node.drop(connection)
            if isinstance(error, TimeoutError):
                self._probes.suspect(node, error)
            return UNANSWERED
        except BaseException:
            node.drop(connection)
            raise
        node.give(connection)
        return answer

    def _send(
        self,
        requests: Sequence[Request],
        began: float,
        confirmation: Confirmation | None = None,
        *,
        patience: float | None = None,
        fail_fast: bool = False,
    ) -> list[Any]:
        Sender(
            self.topology,
            closed=self._closed,
            began=began,
            patience=self._patience if patience is None else patience,
            fail_fast=fail_fast or patience == 0,
            confirmation=confirmation,
            backoff=self.backoff,
            probes=self._probes,
        ).send(requests)
        return [request.answer for request in requests]


def required(answer: Any) -> Any:
    """The answer; raises it if it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def all_required(answers: Sequence[Any]) -> list[Any]:
    """The answers; raises the first error."""
    return [required(answer) for answer in answers]
