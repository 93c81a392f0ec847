"""One pipeline to one node: written at once, its replies read in order."""

from collections.abc import Sequence
from typing import Any

from hiredis import pack_command
from redis.exceptions import ResponseError

from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.resp import Packed, Part, pack_part

UNANSWERED: Any = object()
_AT_ONCE = 3


class Request:
    """A command on its way to an answer."""

    __slots__ = ("answer", "aside", "command", "error", "fixed", "haste", "loading", "node", "stale")

    def __init__(self, command: Command, *, fixed: Node | None = None) -> None:
        self.command = command
        self.answer = UNANSWERED
        self.fixed = fixed  # to this node, whoever serves the partition
        self.aside: Node | None = None  # where the slot is being moved to, for the next try
        self.loading = False  # send the script itself
        self.node: Node | None = None  # where the last try went…
        self.error: Exception | None = None  # …what came of it…
        self.stale = False  # …and whether its connection may have died before
        self.haste = _AT_ONCE  # tries that may still follow without a pause

    def packed(self, loaded: set[str]) -> bytes:
        """As it is sent; `loaded` are the scripts that travel ahead of it."""
        head = _ASKING if self.aside else b""
        script = self.command.script
        if script is None or not self.loading or script.sha in loaded:
            return head + packed(self.command)
        loaded.add(script.sha)
        return head + _pack("EVAL", script.text, parts=self.command.parts)

    def may_hurry(self) -> bool:
        self.haste -= 1
        return self.haste >= 0


class Pipeline:
    """The requests of one call that go to the same node."""

    def __init__(self, node: Node, requests: Sequence[Request]) -> None:
        self.node = node
        self.requests = requests
        self._connection: Any = None
        self._reused = False

    def send(self) -> None:
        loaded: set[str] = set()
        message = b"".join([request.packed(loaded) for request in self.requests])
        self._connection, self._reused = self.node.take()
        self._connection.send_packed_command((message,), check_health=False)

    def receive(self) -> None:
        """Give each request its answer or its error."""
        for request in self.requests:
            if request.aside:
                self._read()
            reply = self._read()
            if isinstance(reply, ResponseError):
                request.error, request.stale = reply, False
            else:
                request.answer = reply
        connection, self._connection = self._connection, None
        self.node.give(connection)

    def fail(self, error: Exception) -> None:
        """The connection failed, and with it every request that has no answer yet."""
        self.abandon()
        if self._reused:
            self.node.drop_idle()  # where one died the others may have
        for request in self.requests:
            if request.answer is UNANSWERED:
                request.error, request.stale = error, self._reused

    def abandon(self) -> None:
        """If replies are still to come nobody will read them: the connection is of no further use."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.node.drop(connection)

    def _read(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error


def packed(command: Command) -> bytes:
    """A command as it is sent, its script by its digest."""
    script = command.script
    return _pack(parts=command.parts) if script is None else _pack("EVALSHA", script.sha, parts=command.parts)


def _pack(*first: str, parts: tuple[Part, ...] | Packed = ()) -> bytes:
    if isinstance(parts, Packed):
        count, body = parts
        return b"*%d\r\n%b%b" % (len(first) + count, b"".join(map(pack_part, first)), body)
    message: bytes = pack_command((*first, *parts))  # type: ignore[arg-type]  # its stub means tuples of one
    return message


_ASKING = _pack("ASKING")
