"""Tables of figures, with their bounds beside them."""

from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bench._measure import WIDTH, console

if TYPE_CHECKING:
    from rich.table import Table


@dataclass
class Report:
    """A table to print, and the same figures for JSON."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.1f}×"


def at_least(ratio: float, must: float, aim: float) -> str:
    """Return the mark of a ratio that has to be large."""
    if ratio >= aim:
        return f"[green]✓[/] ≥ {aim:g}×"
    if ratio >= must:
        return f"[green]✓[/] ≥ {must:g}×, aim {aim:g}×"
    return f"[red]✗[/] ≥ {must:g}×, aim {aim:g}×"


def at_most(ratio: float, limit: float) -> str:
    """Return the mark of a ratio that has to stay small."""
    return f"[green]✓[/] ≤ {limit:g}×" if ratio <= limit else f"[red]✗[/] ≤ {limit:g}×"


def show(report: Report) -> None:
    """Print a section."""
    screen = console()
    screen.print()
    screen.print(_table(report))
    for note in report.notes:
        screen.print(fill(note, WIDTH - 2, initial_indent=" ", subsequent_indent=" "))


def _table(report: Report) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold", padding=(0, 0, 0, 1))
    table.add_column(report.title, min_width=25)
    for column in report.columns:
        table.add_column(column, justify="left" if column == "bound" else "right")
    for row in report.rows:
        table.add_row(*row)
    return table
