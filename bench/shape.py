"""How the code of a delivery is shaped: what runs for one mail and one add, classes, private uses, lines of source.

`./dev bench shape --against /path/to/another/checkout` prints the same of another tree beside it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import click

from bench._measure import start
from bench._shape_source import SMALL, Source, room_of
from bench._table import Report, show
from bench._targets import Target, as_figures
from digestif.mailbox.server import Delivery, MailServer

PACKAGE = "src/digestif"
HERE = Path(__file__).parent.parent
ENGINE = ("attempts", "worker")
OTHERS = ("", "channels", "compose", "core", "events", "routes", "stores")  # rooms whose classes are not looked at
LARGEST = ("largest", "second", "third")
MAILS = 2  # that a measured process sends

AIMS = {  # at most
    "functions: attempts/, worker/": 110,
    "frames from add to its work": 10,
    "largest class: fields": 12,
    "private members used outside": 0,
}

Shape = dict[str, Any]
Figures = dict[str, int | str]


def shape_of(tree: Path) -> Shape:
    """Measure a tree: its programs in a process, its source by reading it."""
    ran = run(tree)
    rooms = {room_of(name) for name in ran["functions"]} - {*OTHERS} | {*ENGINE}
    source = Source(tree / PACKAGE)
    return {
        **ran,
        "classes": source.largest_classes(rooms, count=len(LARGEST)),
        "private_uses": source.private_uses(),
        "source": source.sizes(),
    }


def run(tree: Path) -> Shape:
    """Let the code of a tree deliver mails to a server here, and return what ran."""
    mails: list[Delivery] = []
    with _mail_server(mails.append) as port:
        command = [sys.executable, "-m", "bench._shape_calls", str(port)]
        environment = {**os.environ, "PYTHONPATH": str((tree / "src").absolute())}
        done = subprocess.run(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode or len(mails) != MAILS:
        raise click.ClickException(f"{tree}: status {done.returncode}, {len(mails)} of {MAILS} mails")
    ran: Shape = json.loads(done.stdout)
    return ran


@contextmanager
def _mail_server(accept: Callable[[Delivery], None]) -> Iterator[int]:
    """Run a mail server in a thread, and yield its port."""
    port: Future[int] = Future()
    server = MailServer(0, accept=accept, started=port.set_result)
    thread = Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        yield port.result(timeout=10)
    finally:
        server.stop()
        thread.join()


# The table


def figures_of(shape: Shape) -> Figures:
    """Return the cells of a tree, by the names of their rows."""
    functions = Counter(room_of(name) for name in shape["functions"])
    return {
        "functions for one mail": functions.total(),
        "functions: modules": len({name.partition(":")[0] for name in shape["functions"]}),
        "functions: attempts/, worker/": _in_engine(functions),
        **{f"functions: {_room(room)}": functions[room] for room in sorted(functions)},
        "code objects for one mail": sum(shape["code"].values()),
        "code: attempts/, worker/": _in_engine(shape["code"]),
        "code: these, whole run_once": _in_engine(shape["run_once"]),
        "frames from add to its work": len(shape["frames"]),
        **_class_figures(shape["classes"]),
        "private members used outside": len(shape["private_uses"]),
        **_source_figures(shape["source"]),
    }


def _in_engine(counts: Mapping[str, int]) -> int:
    return sum(counts.get(room, 0) for room in ENGINE)


def _room(room: str) -> str:
    return f"{room}/" if room else "other modules"


def _class_figures(classes: list[dict[str, Any]]) -> Figures:
    figures: Figures = {}
    for size, one in zip(LARGEST, classes, strict=False):
        figures[f"{size} class"] = one["name"]
        figures[f"{size} class: fields"] = len(one["fields"])
        figures[f"{size} class: booleans"] = len(one["booleans"])
        figures[f"{size} class: set elsewhere"] = len(one["set_elsewhere"])
    return figures


def _source_figures(sizes: dict[str, Any]) -> Figures:
    totals = {"lines": sizes["lines"], "files": sizes["files"], f"files of at most {SMALL} lines": sizes["small"]}
    rooms = sorted(sizes["rooms"].items())
    return totals | {f"lines, files: {_room(room)}": f"{one['lines']:,}, {one['files']:3}" for room, one in rooms}


def report_of(shapes: Mapping[str, Shape]) -> tuple[Report, list[Target]]:
    """Return the table with a column for each tree; the aims are those of the first."""
    columns = [figures_of(shape) for shape in shapes.values()]
    report = Report("shape", (*shapes, "bound"), figures=dict(shapes))
    targets: list[Target] = []
    for name in _merged(columns):
        cells = [_cell(column.get(name, "")) for column in columns]
        figure, mark = columns[0].get(name), ""
        if name in AIMS and isinstance(figure, int):
            target = Target(name, figure, AIMS[name], unit="", at_most=True)
            targets.append(target)
            mark = target.mark
        report.rows.append((name, *cells, mark))
    return report, targets


def _merged(columns: list[Figures]) -> list[str]:
    """Return the names of all rows in their order; those that only a later tree has follow the name before them."""
    names = list(columns[0])
    for column in columns[1:]:
        before = ""
        for name in column:
            if name not in names:
                names.insert(names.index(before) + 1, name)
            before = name
    return names


def _cell(figure: int | str) -> str:
    return f"{figure:,}" if isinstance(figure, int) else figure


def details_of(shape: Shape) -> Iterator[str]:
    """Yield what the figures of a tree count, as lines."""
    yield "calls of functions in attempts/ and worker/ (0: resumed, or only a lambda or comprehension of it ran)"
    yield from (f"{calls:5} {name}" for name, calls in sorted(shape["functions"].items()) if room_of(name) in ENGINE)
    yield "frames from add to its unit of work"
    yield from (f"  {frame}" for frame in shape["frames"])
    for one in shape["classes"]:
        yield f"{one['name']} in {one['module']}"
        yield f"  fields: {', '.join(one['fields'])}"
        yield f"  booleans: {', '.join(one['booleans'])}"
        yield from (f"  {name} is set in {', '.join(paths)}" for name, paths in one["set_elsewhere"].items())
    yield "uses of private members of Digests and AsyncDigests"
    yield from (f"  {use}" for use in shape["private_uses"])


@click.command("shape", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another checkout: its figures beside those of this one.",
)
@click.option("--verbose", is_flag=True, help="List the functions, frames, fields and private uses that are counted.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def shape(against: Path | None, verbose: bool, as_json: bool) -> int:
    """Count the code that one mail and one add run through, and measure the classes and the source.

    A worker on a SQLite file delivers one record through a route to a mail server. Functions count that run between the
    beginning of its claim and the end of the attempt. Lambdas, comprehensions and generator expressions count as parts
    of functions, and by themselves as code objects. Fields of a class include those of its bases.
    """
    trees = {"here": HERE} | ({} if against is None else {"there": against})
    for tree in trees.values():
        if not (tree / PACKAGE).is_dir():
            raise click.ClickException(f"{tree} has no {PACKAGE}")
    shapes = {name: shape_of(tree) for name, tree in trees.items()}
    report, targets = report_of(shapes)
    if as_json:
        print(json.dumps({**report.figures, "asked": as_figures(targets)}, indent=2))
        return 0
    show(report)
    for name, tree in trees.items() if verbose else ():
        print("", f"{name}: {tree}", *details_of(shapes[name]), sep="\n")
    return 0


if __name__ == "__main__":
    start(shape, name="./dev bench shape")
