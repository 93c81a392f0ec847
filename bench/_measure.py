"""Shared by the benchmarks: command lines, timing, memory, child processes and the console."""

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from digestif.errors import ConfigError, DigestifError

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 80

Figures = dict[str, float]


def start(command: click.Command, *, name: str) -> None:
    """Run a program under the name that the user typed: an error is one line, and Ctrl-C is no error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an old terminal may lack some characters
    try:
        status = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        end(f"{name}: {error.format_message()}", status=2)
    except ConfigError as error:
        end(f"{name}: {error}", status=2)
    except DigestifError as error:
        end(f"{name}: {type(error).__name__}: {error}", status=1)
    except (click.Abort, KeyboardInterrupt):
        end(f"\n{name}: stopped", status=130)
    sys.exit(status)


def end(message: str, *, status: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(status)


# Time and memory


class Stopwatch:
    """Adds up the seconds spent in its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds += perf_counter() - began

    def rate(self, count: int) -> float:
        return count / max(self.seconds, 1e-9)


def peak_memory() -> float:
    """Return the peak of this process's memory, in MiB.

    Not by `ru_maxrss` if possible: on Linux a new process inherits that peak from its parent.
    """
    with suppress(OSError, StopIteration), Path("/proc/self/status").open() as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def input_output() -> tuple[int, int]:
    """Return the number of reads of this process, and the bytes that it wrote; zeros if unknown."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return 0, 0
    counts = dict(line.split(": ") for line in text.splitlines())
    return int(counts["syscr"]), int(counts["wchar"])


def caution(*runs: Mapping[str, Any]) -> str:
    """Return a warning for pages, if other work had the machine before one of these runs."""
    if all(run["surroundings"]["load"] <= run["surroundings"]["cores"] / 2 for run in runs):
        return ""
    return "**Other work had the machine meanwhile: these figures are rough, and differences may be chance.** "


# Children: each subject is measured in a process of its own, which has a peak of memory of its own


class Child:
    """A subject in a process of its own, which creates it and calls its methods on request.

    `source` is a folder to import `digestif` from, for a comparison with another commit.
    """

    def __init__(self, subject: Callable[..., object], *args: Any, source: Path | None = None) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, subject, args), daemon=True)
        with _importing_from(source):  # a new process inherits the search path of its parent
            self._process.start()
        theirs.close()
        self._answer()

    def ask(self, method: str) -> Callable[[], Figures]:
        """Return a function that calls this method of the subject, and returns its answer."""

        def put() -> Figures:
            self._connection.send(method)
            return self._answer()

        return put

    def end(self) -> float:
        """Close the subject, and return its peak of memory in MiB."""
        self._connection.send(None)
        peak = self._answer()["peak"]
        self._process.join()
        return peak

    def _answer(self) -> Figures:
        try:
            answer: Figures | str = self._connection.recv()
        except EOFError:
            answer = "it ended early"
        if isinstance(answer, str):
            raise click.ClickException(f"a measuring process failed: {answer}")
        return answer


@contextmanager
def _importing_from(source: Path | None) -> Iterator[None]:
    before = sys.path[:]
    if source is not None:
        sys.path.insert(0, str(source))
    try:
        yield
    finally:
        sys.path[:] = before


def _serve(connection: Connection, subject: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        try:
            subject_here = subject(*args)
            connection.send({})
            while method := connection.recv():
                connection.send(getattr(subject_here, method)())
            subject_here.close()
            connection.send({"peak": peak_memory()})
        except Exception as error:
            connection.send(f"{type(error).__name__}: {error}")
            raise


def interleaved(measures: Mapping[str, Callable[[], Figures]], *, rounds: int) -> dict[str, list[Figures]]:
    """Take all measures in turn, several times: a noisy minute then disturbs all of them alike."""
    answers: dict[str, list[Figures]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            answers[name].append(measure())
    return answers


def middle(answers: Sequence[Figures], name: str) -> float:
    """Return the median of one figure over all rounds."""
    return statistics.median(answer[name] for answer in answers)


def middle_ratio(answers: Sequence[Figures], base: Sequence[Figures], name: str, base_name: str | None = None) -> float:
    """Return the median of the ratios within each round."""
    pairs = zip(answers, base, strict=True)
    return statistics.median(answer[name] / other[base_name or name] for answer, other in pairs)


# The console


def console() -> "Console":
    """Return a console: colours on a terminal, plain text of 80 columns in a file."""
    from rich.console import Console

    screen = Console(highlight=False)
    screen.width = min(screen.width, WIDTH) if screen.is_terminal else WIDTH
    return screen
