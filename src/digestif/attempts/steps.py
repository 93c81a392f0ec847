"""Steps: an attempt as a generator of requests, which a blocking or an asynchronous driver carries out.

A generator of steps yields a `Call` of the store, or something that only its driver can do (`Deliver`, `Accept`,
`GoOn`). It is sent the answer, or the error is thrown into it. A program that drives a generator by hand can stop it
between any two steps.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from digestif.attempts.delivery import Delivery
    from digestif.attempts.handlers import Handler

T = TypeVar("T")
E = TypeVar("E")


class Call(NamedTuple):
    """A call of the store, or of something else that blocks."""

    name: str  # of the step, for programs that drive steps by hand
    run: Callable[[], Any]


class Deliver(NamedTuple):
    """Let a digest be delivered: by its handler, or by the block of the caller. The answer is an error or None."""

    delivery: "Delivery"
    handler: "Handler | None"  # None: a block


class Accept(NamedTuple):
    """Add a record, as the caller's `accept` does."""

    timeline: str
    value: Any
    options: dict[str, Any]


class GoOn(NamedTuple):
    """Go on with another digest. A driver whose caller no longer waits throws NotBegun instead."""


Request: TypeAlias = Deliver | Accept | GoOn
Steps: TypeAlias = Generator[Call | Request, Any, T]


class NotBegun(BaseException):
    """The handler was not called: its caller was cancelled before."""


class Finished(NamedTuple):
    """The answer of the generator."""

    answer: Any


class CarriedExit(BaseException):
    """Carries a GeneratorExit of a call or a handler into steps, which a bare one would close."""

    def __init__(self, error: GeneratorExit) -> None:
        super().__init__(*error.args)
        self.error = error


class CarriedStop(Exception):
    """Carries a StopIteration of a call or a handler into steps, out of which it would come as a RuntimeError."""

    def __init__(self, error: StopIteration) -> None:
        super().__init__(*error.args)
        self.error = error


def send(steps: Steps[Any], answer: Any = None, error: BaseException | None = None) -> Call | Request | Finished:
    """Send an answer into steps, or throw an error, and return what they ask for next. What they raise is raised."""
    try:
        try:
            return steps.send(answer) if error is None else steps.throw(_carried(error))
        except StopIteration as end:
            return Finished(end.value)
        except (CarriedExit, CarriedStop) as carrier:
            error = carrier.error
        raise error  # here, where it gets no context
    finally:
        del error  # an error whose traceback has this frame would be left to the garbage collector


def _carried(error: BaseException) -> BaseException:
    if isinstance(error, GeneratorExit):
        return CarriedExit(error)
    return CarriedStop(error) if isinstance(error, StopIteration) else error


def original(error: E) -> E | BaseException:
    """Return the error of a call or handler as it was raised there."""
    return error.error if isinstance(error, CarriedExit | CarriedStop) else error


def follow(steps: Steps[Any], step: Call | Request | Finished) -> Request | Finished:
    """Make a call and those that follow it, up to what only the driver can do."""
    while isinstance(step, Call):
        answer: Any = None
        error: BaseException | None = None
        try:  # here, not in a function: an interrupt at its start would not reach the steps
            answer = step.run()
        except BaseException as failure:  # noqa: BLE001  # thrown into the steps
            error = failure
        try:
            step = send(steps, answer, error)
        finally:
            del error
    return step


def advance(steps: Steps[Any], answer: Any = None, error: BaseException | None = None) -> Request | Finished:
    """Send an answer, or throw an error, and make the calls that follow, up to what only the driver can do."""
    try:
        return follow(steps, send(steps, answer, error))
    finally:
        del error


def run(steps: Steps[T], perform: Callable[[Any], Any] | None = None) -> T:
    """Drive steps to their end, blocking; `perform` does what is not a call."""
    found = follow(steps, send(steps))
    while not isinstance(found, Finished):
        assert perform is not None
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = perform(found)
        except BaseException as failure:  # noqa: BLE001  # likewise
            error = failure
        try:
            found = advance(steps, answer, error)
        finally:
            del error
    result: T = found.answer
    return result
