"""The page and the picture about growing, made from the stored figures and the words in _scaling_page.md."""

from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

from bench._measure import caution
from bench._svg import Scale, curve, dot, drawing, line, short, text

ROOT = Path(__file__).parents[1]
WORDS = Path(__file__).with_name("_scaling_page.md")
PAGE = ROOT / "docs" / "scaling.md"
PICTURE = ROOT / "docs" / "images" / "scaling.svg"
STORED = ROOT / "bench" / "results" / "scaling.json"

FLAT = 1.5  # times the cost at the smallest size
GROWN = {
    "records": "records in a timeline",
    "timelines": "timelines",
    "workers": "processes at once",
    "partitions": "partitions",
}
OPERATIONS = {"add": "add", "add_many": "add_many, a record", "deliver": "delivery, a digest"}
KINDS = {"SQLite": "a", "Valkey": "b", "PostgreSQL": "c"}

REASONS = {  # only what was measured, or follows from how the store works
    ("SQLite", "timelines", "add_many"): "records of a batch no longer share pages: each changes and logs pages of its "
    "own, and checkpoints write them.",
    ("SQLite", "records", "add_many"): "keys that the caller gives fall on a page each; those that `add` makes rise "
    "with time, and share theirs.",
    ("SQLite", "workers", "add"): "one process writes at a time; the others wait for their turn.",
    ("SQLite", "workers", "add_many"): "one process writes at a time; the others wait for their turn.",
    ("SQLite", "workers", "deliver"): "one process writes at a time; the others wait for their turn.",
    ("Valkey", "records", "add_many"): "beyond 256 records a timeline keeps them in two orders, and each record is put "
    "into both.",
    ("Valkey", "timelines", "add_many"): "of 100 records some share a timeline if there are 100 timelines, and none if "
    "there are many: each timeline is read, placed and written for itself.",
    (
        "PostgreSQL",
        "timelines",
        "add_many",
    ): "of 100 records some share a row of a timeline if there are 100 timelines, "
    "and none if there are many; with a million the rows lie on a page each.",
    ("Valkey", "partitions", "add_many"): "a batch becomes a call for each partition, and a call costs as much as "
    "three records.",
}

WIDTH, LEFT, TOP = 960, 60, 76
PANEL, GAP, HEIGHT = 184, 44, 150


def write(run: dict[str, Any]) -> str:
    around = run["surroundings"]
    return Template(WORDS.read_text("utf-8")).substitute(
        blocks=run["scale"]["blocks"],
        cores=around["cores"],
        python=around["python"],
        load=f"{around['load']:.1f}",
        caution=caution(run),
        tables="\n\n".join(_tables(run)),
        reasons="\n".join(_reasons(run)) or "- nothing.",
    )


def _tables(run: dict[str, Any]) -> Iterator[str]:
    for what, title in GROWN.items():
        found = {kind: grown[what] for kind, grown in run["stores"].items() if what in grown}
        if not found:
            continue
        sizes = list(next(iter(found.values()))["add"])
        yield f"### More {title}"
        lines = [f"| | {' | '.join(f'{int(size):,}' for size in sizes)} | × |", f"|{'---|' * (len(sizes) + 2)}"]
        for kind, curves in found.items():
            for operation, points in curves.items():
                costs = [f"{_three_digits(points[size])}" for size in sizes]
                lines.append(f"| {kind}, {_unit(what, operation)} | {' | '.join(costs)} | {growth(points):.2f} |")
        yield "\n".join(lines)


def _unit(what: str, operation: str) -> str:
    return "delivery, a record" if (what, operation) == ("records", "deliver") else OPERATIONS[operation]


def _three_digits(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


def growth(points: dict[str, float]) -> float:
    """How many times as much the largest size costs as the smallest."""
    costs = [points[size] for size in sorted(points, key=int)]
    return costs[-1] / costs[0]


def _reasons(run: dict[str, Any]) -> Iterator[str]:
    for kind, grown in run["stores"].items():
        for what, curves in grown.items():
            for operation, points in curves.items():
                if growth(points) > FLAT:
                    why = REASONS.get((kind, what, operation), "not explained.")
                    yield f"- **{kind}, {_unit(what, operation)}, {GROWN[what]}**, {growth(points):.1f} ×: {why}"


def draw(run: dict[str, Any]) -> str:
    """One panel for each operation and each thing that grows."""
    height = TOP + (HEIGHT + 44) * len(OPERATIONS)
    summary = "; ".join(reason.strip("- *") for reason in _reasons(run)) or "all lines are flat"
    body = _body(run)
    return drawing(WIDTH, height, title="The cost of an operation while the store grows", summary=summary, body=body)


def _body(run: dict[str, Any]) -> Iterator[str]:
    for number, (kind, mark) in enumerate(KINDS.items()):
        yield dot(LEFT + 8 + 110 * number, 24, mark)
        yield text(LEFT + 18 + 110 * number, 28, kind)
    yield text(WIDTH - 16, 28, "µs, logarithmic", "note end")
    for column, (what, title) in enumerate(GROWN.items()):
        left = LEFT + (PANEL + GAP) * column
        yield text(left, 56, title, "lane")
        for row, operation in enumerate(OPERATIONS):
            top = TOP + (HEIGHT + 44) * row
            yield text(left, top + 6, _unit(what, operation), "note")
            yield from _panel(run, what, operation, left, top + 14)


def _panel(run: dict[str, Any], what: str, operation: str, left: float, top: float) -> Iterator[str]:
    found = {kind: grown[what][operation] for kind, grown in run["stores"].items() if what in grown}
    sizes = sorted({int(size) for points in found.values() for size in points})
    if not sizes:
        return
    up = Scale.around(_costs(run, operation), top + HEIGHT, top)
    across = {size: left + PANEL * number / max(len(sizes) - 1, 1) for number, size in enumerate(sizes)}
    for tick in up.ticks():
        yield line(left, up.at(tick), left + PANEL, up.at(tick))
        yield text(left - 4, up.at(tick) + 4, short(tick), "note end")
    for size, x in across.items():
        yield text(x, top + HEIGHT + 14, short(size), "note middle")
    for kind, points in found.items():
        places = [(across[int(size)], up.at(cost)) for size, cost in points.items()]
        yield curve(places, KINDS[kind])
        yield from (dot(x, y, KINDS[kind]) for x, y in places)


def _costs(run: dict[str, Any], operation: str) -> Iterator[float]:
    """All of an operation: its panels have one scale."""
    for grown in run["stores"].values():
        for curves in grown.values():
            yield from curves[operation].values()
