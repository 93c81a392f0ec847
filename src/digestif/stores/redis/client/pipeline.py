"""A pipeline: requests to one node, written at once, their replies read in order, and if asked for confirmed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError, TimeoutError

from digestif.clock import monotonic
from digestif.errors import StoreUnavailable
from digestif.stores.redis.client.commands import Command, message
from digestif.stores.redis.client.node import Node
from digestif.stores.redis.client.scripts import load

UNANSWERED: Any = object()
SENT_BYTES = 32 * 1024  # an open pipeline sends when it has so many
_RETRIES_AT_ONCE = 3
_ASKING = message("ASKING")


class Request:
    """A command on its way to an answer."""

    __slots__ = (
        *("after", "answer", "command", "error", "importing", "leading", "loading", "node", "pinned"),
        *("may_be_done", "retries_at_once", "stale"),
    )

    def __init__(
        self,
        command: Command,
        *,
        pinned: Node | None = None,
        after: "Request | None" = None,
        leading: Callable[[], Command] | None = None,
    ) -> None:
        self.command = command
        self.answer = UNANSWERED
        self.after = after  # the request that has to be done first: its command is refused before that…
        self.leading = leading  # …unlike this one, which takes its place once the other is done
        self.pinned = pinned  # every try goes to this node
        self.importing: Node | None = None  # the next try goes to this node, which is importing the slot
        self.loading = False  # the next try carries the script itself
        self.node: Node | None = None  # the node of the last try…
        self.error: Exception | None = None  # …its error…
        self.stale = False  # …and whether its connection may have died before
        self.may_be_done = False  # it was sent, and its answer was lost
        self.retries_at_once = _RETRIES_AT_ONCE  # retries that may still follow without a pause

    def message(self, loaded: set[str]) -> bytes:
        """The bytes to send. `loaded`: scripts that earlier requests of the pipeline carry."""
        if self.leading and self.after and self.after.is_done():
            self.command, self.leading = self.leading(), None
        head = _ASKING if self.importing else b""
        script = self.command.script
        if script is None or not self.loading or script.sha in loaded:
            return head + self.command.message()
        loaded.add(script.sha)
        return head + self.command.message_with_script()

    def is_done(self) -> bool:
        return self.answer is not UNANSWERED and not isinstance(self.answer, Exception)

    def is_in_vain(self) -> bool:
        """True if the request that has to be done first has failed: then that is the answer of this one, too."""
        if self.after is None or not isinstance(self.after.answer, Exception):
            return False
        self.answer = self.after.answer
        return True

    def may_retry_at_once(self) -> bool:
        self.retries_at_once -= 1
        return self.retries_at_once >= 0


class NodePipeline:
    """The requests of one call that go to the same node."""

    def __init__(self, node: Node, requests: Sequence[Request]) -> None:
        self.node = node
        self.requests = requests
        self._connection: Any = None
        self._reused = False

    def send(self) -> None:
        loaded: set[str] = set()
        data = b"".join([request.message(loaded) for request in self.requests])
        self._connection, self._reused = self.node.take()
        self._connection.send_packed_command((data,), check_health=False)

    def expect(self, *, until: float) -> None:
        """Raise TimeoutError unless a reply begins to arrive until then."""
        if self._connection is not None:
            expect(self._connection, seconds=until - monotonic())

    def receive(self) -> None:
        """Give each request its answer or its error."""
        for request in self.requests:
            if request.importing:
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
        was_sent = self._connection is not None
        self.abandon()
        if self._reused:
            self.node.drop_idle()  # they may have died as well
        for request in self.requests:
            if request.answer is UNANSWERED:
                request.error, request.stale = error, self._reused and not isinstance(error, TimeoutError)
                request.may_be_done = request.may_be_done or was_sent

    def abandon(self) -> None:
        """Drop a connection on which unread replies may arrive."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.node.drop(connection)

    def _read(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error


class OpenPipeline(NodePipeline):
    """A pipeline that grows while the server already works on its first requests."""

    def __init__(self, node: Node) -> None:
        self._grown: list[Request] = []
        super().__init__(node, self._grown)
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._failed = False

    def add(self, request: Request) -> None:
        """Send a request, at once or together with the next ones; after a failure not at all."""
        self._grown.append(request)
        if not self._failed:
            self._unsent.append(request.message(set()))
            self._unsent_bytes += len(self._unsent[-1])
            if self._unsent_bytes >= SENT_BYTES:
                self.send()

    def send(self) -> None:
        if self._unsent:
            if self._connection is None:
                self._connection, self._reused = self.node.take()
            data, self._unsent, self._unsent_bytes = b"".join(self._unsent), [], 0
            self._connection.send_packed_command((data,), check_health=False)

    def receive(self) -> None:
        if not self._failed:
            super().receive()

    def fail(self, error: Exception) -> None:
        self._failed = True
        self._unsent = []
        super().fail(error)


def expect(connection: Any, *, seconds: float) -> None:
    """Raise TimeoutError unless a reply begins to arrive within `seconds`."""
    if not connection.can_read(max(0.0, seconds)):
        raise TimeoutError("Timeout reading from socket")


class Confirmation(NamedTuple):
    """How many replicas must have received a write, and within which time."""

    namespace: str
    replicas: int
    seconds: float

    def marker(self, request: Request) -> Request:
        """A write to the slot of the request that leaves nothing behind. A script may write to a full memory."""
        partition = request.command.partition
        marker = Request(Command(partition, (1, f"{{{self.namespace}:{partition}}}:confirming"), load("confirm")))
        marker.importing, marker.loading = request.importing, True
        return marker

    def wait(self) -> Request:
        return Request(Command(0, ("WAIT", self.replicas, round(self.seconds * 1000))))


class ConfirmedPipeline(NodePipeline):
    """A pipeline that ends with WAIT on its own connection.

    WAIT counts only what its own connection wrote. A repeated request that finds its work done writes nothing, and
    replicas that lack the first write would confirm it. So a marker is written for each request that is repeated.
    """

    def __init__(self, node: Node, requests: Sequence[Request], confirmation: Confirmation) -> None:
        self._confirmation = confirmation
        self._written = requests
        self._markers = [confirmation.marker(request) for request in requests if request.error]
        self._wait = confirmation.wait()
        super().__init__(node, [*requests, *self._markers, self._wait])

    def receive(self) -> None:
        super().receive()
        unmarked = self._markers and all(marker.answer is UNANSWERED for marker in self._markers)
        if unmarked or self._wait.answer is UNANSWERED:
            self._reject(f"the replicas can't be asked ({self._wait.error or self._markers[0].error})")
        elif self._wait.answer < self._confirmation.replicas:
            self._reject(
                f"only {self._wait.answer} of {self._confirmation.replicas} replicas confirmed it "
                f"within {self._confirmation.seconds:g} s; check the replicas"
            )

    def fail(self, error: Exception) -> None:
        for request in self._written:
            request.answer = UNANSWERED  # replied to, but not confirmed
        super().fail(error)

    def _reject(self, reason: str) -> None:
        for request in self._written:
            if request.answer is not UNANSWERED:
                request.answer = StoreUnavailable(f"{self.node.name}: written, but {reason}")
