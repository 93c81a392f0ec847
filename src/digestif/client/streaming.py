"""The stream of events: from lines to events, and when a lost stream is opened again. No I/O."""

from collections.abc import Callable

import msgspec

from digestif.client.answers import EVENT_TYPES, ServiceEvent
from digestif.client.requests import FIRST_PAUSE, LONGEST_PAUSE, Address, Call, Lost, NotSent, Reply
from digestif.client.requests import answer as answer_of
from digestif.client.verbs import events

SILENCE = 60.0  # seconds without a sign of life, of which there is one every 15, after which a stream counts as lost


class Following:
    """Follows the stream over lost connections: which request opens it next, and what its lines mean."""

    def __init__(self, address: Address, timeline: str | None, last: str | None, *, patience: float) -> None:
        self._address = address
        self._timeline = timeline
        self._last = last
        self._patience = patience
        self._silent_since: float | None = None
        self._pause = FIRST_PAUSE
        self._forget()

    def _forget(self) -> None:
        """Leave out an event that has not ended."""
        self._kind = "message"
        self._id: str | None = None
        self._data: list[str] = []

    @property
    def call(self) -> Call[bytes]:
        """What opens the stream, after the last event that was seen."""
        return events(self._timeline, self._last)

    def after_line(self, line: bytes) -> ServiceEvent | None:
        """The event that a line ends."""
        self._silent_since, self._pause = None, FIRST_PAUSE
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            return self._ended()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _ended(self) -> ServiceEvent | None:
        kind, number, data = self._kind, self._id, "\n".join(self._data)
        self._forget()
        self._last = number or self._last  # also of what is no event, and says only where to resume
        if not data:
            return None
        return ServiceEvent(kind, msgspec.json.decode(data, type=EVENT_TYPES.get(kind, object)), number)

    def after_loss(self, reply: Reply | NotSent | Lost, clock: Callable[[], float]) -> float:
        """The seconds to wait before the stream is opened again. An error if it is refused, or patience has ended."""
        self._forget()
        now = clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        is_passing = not isinstance(reply, Reply) or reply.status in (200, 429, 502, 503, 504)
        if not is_passing or now - self._silent_since > self._patience:
            answer_of(self._address, self.call, reply)
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause
