"""The link: from commands to answers, over whatever connections, nodes and failures lie between."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Event
from typing import Any

from redis.exceptions import ResponseError

from digestif.clock import monotonic
from digestif.errors import ConfigError
from digestif.stores.fork import watch
from digestif.stores.redis.client.commands import Command, Refused
from digestif.stores.redis.client.confirmation import Confirmation
from digestif.stores.redis.client.faults import FAILURES, UNREACHABLE, Remedy, final, remedy
from digestif.stores.redis.client.pipeline import UNANSWERED, Request, packed
from digestif.stores.redis.client.retries import Sender
from digestif.stores.redis.client.topology import Topology

__all__ = ["Command", "Link", "Refused", "RoutedLink"]


# After a call has waited for a node in vain, others that are in haste ask it once for a while, and at first not at all.
REFUSED_SECONDS = 1.0
HASTY_SECONDS = 30.0


class Link(ABC):
    """Where the store sends its commands."""

    @abstractmethod
    def run(
        self, commands: Sequence[Command], *, writes: bool = True, hasty: bool = False, patience: float | None = None
    ) -> list[Any]:
        """Answer each command, in order: what the server replied, never decoded, or an exception in its place.

        That is a Refused if a script said no, a DigestifError if the command failed for good. What may pass is tried
        again until the link's patience is over, so a command may be run more than once, and commands of one call in
        any order. One that fails does not stop the others. `writes`: an answer counts only once as many replicas have
        it as the link was told to wait for. `hasty`: a node that somebody has just waited for in vain is not waited
        for again. `patience`: one of its own; 0 tries once.
        """

    @abstractmethod
    def ask_all(self, *parts: bytes | str | int | float, patience: float | None = None) -> dict[str, Any]:
        """Send one plain command to every server in charge: answers as above, by the name of the server.

        With a patience of its own; 0 tries once.
        """

    @property
    @abstractmethod
    def topology(self) -> Topology:
        """The way to the servers, for those who keep connections of their own."""

    @abstractmethod
    def close(self) -> None:
        """Let every connection go. Later calls are answered with StoreUnavailable."""


class RoutedLink(Link):
    """A link over one node or several."""

    def __init__(self, topology: Topology, *, patience: float, confirmation: Confirmation | None = None) -> None:
        self._topology = topology
        self._patience = patience
        self._confirmation = confirmation
        self._closed = Event()
        watch(self)

    def run(
        self, commands: Sequence[Command], *, writes: bool = True, hasty: bool = False, patience: float | None = None
    ) -> list[Any]:
        began = monotonic()
        confirmation = self._confirmation if writes else None
        if hasty and (error := self._failure(commands, seconds=REFUSED_SECONDS)):
            return [type(error)(*error.args) for _ in commands]  # anew: several threads may raise it
        if len(commands) == 1 and confirmation is None:
            answer = self._try_once(commands[0])
            if answer is not UNANSWERED:
                return [answer]
        if hasty and self._failure(commands, seconds=HASTY_SECONDS):
            patience = 0.0
        return self._carry([Request(command) for command in commands], began, confirmation, patience=patience)

    def _failure(self, commands: Sequence[Command], *, seconds: float) -> Exception | None:
        """The error of a call that waited for one of these nodes in vain so lately."""
        try:
            nodes = {self._topology.node_for(command.partition) for command in commands}
        except (ConfigError, *FAILURES):
            return None
        return next((error for node in nodes if (error := node.given_up(seconds=seconds))), None)

    def ask_all(self, *parts: bytes | str | int | float, patience: float | None = None) -> dict[str, Any]:
        [first] = self._carry([Request(Command(0, ("PING",)))], monotonic(), patience=patience)
        try:
            nodes = list(self._topology.nodes())  # they are known by now, if they can be
        except (ConfigError, *FAILURES):
            return {self._topology.name: first}
        if isinstance(first, Exception) and len(nodes) == 1:
            return {nodes[0].name: first}
        requests = [Request(Command(0, parts), fixed=node) for node in nodes]
        answers = self._carry(requests, monotonic(), patience=patience)
        return {node.name: answer for node, answer in zip(nodes, answers, strict=True)}

    @property
    def topology(self) -> Topology:
        return self._topology

    def close(self) -> None:
        self._closed.set()
        self._topology.close()

    def before_fork(self) -> None:
        """Nothing to bring to rest: what is under way stays the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._topology.after_fork()

    def _try_once(self, command: Command) -> Any:
        """The short way for one command; whatever is not a plain answer is left to the long way."""
        if self._closed.is_set():
            return UNANSWERED
        try:
            node = self._topology.node_for(command.partition)
            connection, _ = node.take()
        except (ConfigError, *FAILURES):
            return UNANSWERED
        try:
            connection.send_packed_command((packed(command),), check_health=False)
            answer = connection.read_response(disable_decoding=True)
        except ResponseError as error:
            node.give(connection)
            return final(error, node.name) if remedy(error) is Remedy.NONE else UNANSWERED
        except UNREACHABLE:
            node.drop(connection)
            return UNANSWERED
        except BaseException:
            node.drop(connection)
            raise
        node.give(connection)
        return answer

    def _carry(
        self,
        requests: Sequence[Request],
        began: float,
        confirmation: Confirmation | None = None,
        *,
        patience: float | None = None,
    ) -> list[Any]:
        patience = self._patience if patience is None else patience
        Sender(self._topology, self._closed, began, patience, confirmation).make(requests)
        return [request.answer for request in requests]
