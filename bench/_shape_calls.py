"""What runs for one mail and for one add: a program of its own, which imports the `digestif` of PYTHONPATH.

Prints JSON: the functions that run from the claim of a digest to its end, the code objects of the whole call of
`Worker.run_once`, and the frames between `RowStore.add` and the unit of work of one add.
"""

import asyncio
import dis
import gc
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

import digestif.clock
from bench._shape_source import room_of
from digestif import Delivered, Digests, Worker

PACKAGE = Path(digestif.__file__).parent
Look = Callable[[FrameType, str], None]  # with a frame and what happens there: "call", "return"…

UNIT = ("stores/rows/arrivals.py", "add_all")
CALLERS = ("worker", "")  # rooms that call for a claim, and do not belong to it; modules beside the rooms have none
RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
VALUE = {"title": "Build failed"}
PAUSE = 2.0  # seconds between the deliveries: what was read about channels is read again
PART = re.compile(r"(\.<locals>)?\.?<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>")


class Call(NamedTuple):
    """A call, or the resumption of a generator or coroutine."""

    frame: int  # its id
    code: CodeType
    is_start: bool


class Window:
    """Records the calls of a worker, and knows which of them lie between the claim of a digest and its end.

    The claim begins with the outermost function outside of the worker that leads to `claim` or `claim_each` of a store.
    The digest has ended when `complete` of the store has returned and `Delivered` was emitted.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._event_loop = threading.get_ident()
        self._begin: int | None = None
        self._end: int | None = None
        self._is_completed = self._is_reported = False

    def listen(self, event: object) -> None:
        self._is_reported |= isinstance(event, Delivered)
        self._end_if_over()

    def look(self, frame: FrameType, event: str) -> None:
        code = frame.f_code
        if not _module(code):
            return
        if event == "call":
            if _is_verb(code, "complete") and threading.get_ident() != self._event_loop:
                _standing_frame(self._event_loop)  # its calls always come before the end
            self._calls.append(Call(id(frame), code, _is_start(frame)))
            if self._begin is None and _is_verb(code, "claim", "claim_each"):
                self._begin = self._first_call(frame)
        elif event == "return" and self._begin is not None and _is_verb(code, "complete"):
            self._is_completed = True
            self._end_if_over()

    def _first_call(self, claim: FrameType) -> int:
        first = id([each for each in _stack(claim) if room_of(_module(each.f_code)) not in CALLERS][-1])
        return max(place for place, call in enumerate(self._calls) if call.frame == first)

    def _end_if_over(self) -> None:
        if self._is_completed and self._is_reported and self._end is None:
            self._end = len(self._calls)

    def figures(self) -> dict[str, Any]:
        if self._begin is None or self._end is None:
            raise RuntimeError("no digest was claimed and completed")
        calls = self._calls[self._begin : self._end]
        return {"functions": _counts(calls), "code": _codes_by_room(calls), "run_once": _codes_by_room(self._calls)}


def _counts(calls: Sequence[Call]) -> Counter[str]:
    """Count the calls of each function; 0 if it was only resumed, or only a part of it was called."""
    counts: Counter[str] = Counter()
    for _, code, is_start in calls:
        counts[f"{_module(code)}: {_function(code)}"] += is_start and not PART.search(code.co_qualname)
    return counts


def _codes_by_room(calls: Sequence[Call]) -> Counter[str]:
    return Counter(room_of(_module(code)) for code in dict.fromkeys(call.code for call in calls))


class Descent:
    """Records the frames between `RowStore.add` and the unit of work, if need be those of two threads."""

    def __init__(self) -> None:
        self.frames: list[str] = []  # from the outermost to the innermost
        self._main = threading.get_ident()

    def look(self, frame: FrameType, event: str) -> None:
        code = frame.f_code
        if event == "call" and not self.frames and (_module(code), code.co_name) == UNIT:
            self.frames = [_label(each) for each in reversed(self._between(frame))]

    def _between(self, unit: FrameType) -> list[FrameType]:
        callers = list(_stack(unit.f_back))
        above = _until_add(callers)
        if above is not None:
            return above
        callers = [each for each in callers if each.f_code.co_filename != threading.__file__]  # without its start
        waiting = _until_add(list(_stack(_standing_frame(self._main))))
        if waiting is None:
            raise RuntimeError("the unit of work was not called by RowStore.add")
        return callers + waiting


def _until_add(frames: Sequence[FrameType]) -> list[FrameType] | None:
    places = [place for place, frame in enumerate(frames) if frame.f_code.co_qualname == "RowStore.add"]
    return list(frames[: places[0]]) if places else None


# Frames and names


def _standing_frame(thread: int) -> FrameType:
    """Return the innermost frame of a thread, once that stands still."""
    before: tuple[FrameType, int] | None = None
    while True:
        frame = sys._current_frames()[thread]
        if (frame, frame.f_lasti) == before:
            return frame
        before = frame, frame.f_lasti
        time.sleep(0.01)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@cache
def _module(code: CodeType) -> str:
    """Return the path in the package; nothing for other code, such as templates and what dataclasses generate."""
    path = Path(code.co_filename)
    is_module = path.suffix == ".py" and path.is_relative_to(PACKAGE)
    return path.relative_to(PACKAGE).as_posix() if is_module else ""


def _function(code: CodeType) -> str:
    """Return the function that the code belongs to; lambdas, comprehensions and generator expressions are parts."""
    return PART.sub("", code.co_qualname) or "<module>"


def _label(frame: FrameType) -> str:
    return f"{_module(frame.f_code) or Path(frame.f_code.co_filename).name}: {frame.f_code.co_qualname}"


def _is_verb(code: CodeType, *verbs: str) -> bool:
    return code.co_name in verbs and _module(code).startswith("stores/")


def _is_start(frame: FrameType) -> bool:
    """Return False if a generator or coroutine is resumed."""
    return not frame.f_code.co_flags & RESUMED or frame.f_lasti <= _first_step(frame.f_code)


@cache
def _first_step(code: CodeType) -> int:
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")


# The run


class StandingClock:
    """Stands for the module `time` in `digestif.clock`, so that what runs does not depend on how long it takes."""

    def __init__(self) -> None:
        self.ahead = 0.0  # seconds
        self._monotonic, self._time = time.monotonic(), time.time()

    def monotonic(self) -> float:
        return self._monotonic + self.ahead

    def time(self) -> float:
        return self._time + self.ahead


class Profiler:
    """The profile function of all threads."""

    def __init__(self) -> None:
        self._look: Look | None = None
        threading.setprofile(self)
        sys.setprofile(self)

    @contextmanager
    def showing(self, look: Look) -> Iterator[None]:
        """Show frames to this function during the block."""
        self._look = look
        try:
            yield
        finally:
            self._look = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self._look is not None:
            self._look(frame, event)


def measured(folder: str, port: int) -> dict[str, Any]:
    """Deliver a mail to warm up and one that is watched, by a worker on a SQLite file; then watch an add."""
    profiler, window, descent, clock = Profiler(), Window(), Descent(), StandingClock()
    digestif.clock.time = clock  # type: ignore[assignment, attr-defined]
    with Digests(f"sqlite:///{Path(folder) / 'shape.db'}") as digests:
        digests.route("mail:*", channel=f"smtp://127.0.0.1:{port}?from=digests@example.org")
        worker = Worker(digests)
        digests.add("mail:ada@example.org", VALUE)
        asyncio.run(worker.run_once())
        gc.collect()  # finalizers of the first delivery do not belong to the second
        clock.ahead = PAUSE
        digests.subscribe(window.listen)
        digests.add("mail:bob@example.org", VALUE)
        with profiler.showing(window.look):
            asyncio.run(worker.run_once())
        with profiler.showing(descent.look):
            digests.add("mail:bob@example.org", VALUE)
    return {**window.figures(), "frames": descent.frames}


if __name__ == "__main__":
    with TemporaryDirectory(prefix="digestif-") as place:
        print(json.dumps(measured(place, int(sys.argv[1]))))
